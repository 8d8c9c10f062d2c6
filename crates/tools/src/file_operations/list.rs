//! Listing a folder.

use serde_json::{Value, json};

use crate::workspace::{Depth, FileFault, Hidden, Kind, Workspace};

use super::Failure;

/// The most entries of one list.
const MAX_ENTRIES: usize = 1000;

/// How many levels are shown if nothing is said.
const DEFAULT_DEPTH: usize = 2;

pub(super) fn list(workspace: &Workspace, folder: &str, depth: Option<usize>) -> Result<Value, Failure> {
    let name = workspace.canonical(folder)?;
    match workspace.kind(folder)? {
        Kind::Folder => {}
        Kind::File | Kind::Other => return Err(FileFault::NotAFolder { path: name }.into()),
    }
    let depth = Depth::Levels(depth.unwrap_or(DEFAULT_DEPTH));
    let mut found = workspace
        .entries(&[folder.to_owned()], Hidden::Include, depth)?
        .map(|entry| match entry.kind {
            Kind::Folder => format!("{}/", entry.path),
            Kind::File | Kind::Other => entry.path,
        });
    let entries: Vec<String> = found.by_ref().take(MAX_ENTRIES).collect();
    let mut output = json!({"path": name, "entries": entries});
    if found.next().is_some() {
        output["note"] = Value::String(format!(
            "only the first {MAX_ENTRIES} entries: list a folder below, or with a smaller depth"
        ));
    }
    Ok(output)
}
