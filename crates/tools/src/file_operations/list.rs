//! Listing a folder.

use serde_json::{Value, json};

use crate::workspace::{Depth, FileError, Hidden, Kind, Workspace};

use super::Failure;

/// The most entries of one list.
const MAX_ENTRIES: usize = 1000;

/// The most text that they may have together, in bytes.
const MAX_BYTES: usize = 64 * 1024;

/// How many levels are shown if nothing is said.
const DEFAULT_DEPTH: usize = 2;

pub(super) fn list(workspace: &Workspace, folder: &str, depth: Option<usize>) -> Result<Value, Failure> {
    let name = workspace.canonical(folder)?;
    match workspace.kind(folder)? {
        Kind::Folder => {}
        Kind::File | Kind::Other => return Err(FileError::NotAFolder { path: name }.into()),
    }
    let depth = Depth::Levels(depth.unwrap_or(DEFAULT_DEPTH));
    let mut walk = workspace.entries(&[folder.to_owned()], Hidden::Include, depth)?;
    let (mut room, mut is_cut) = (MAX_BYTES, false);
    let entries: Vec<String> = walk
        .by_ref()
        .map(|entry| match entry.kind {
            Kind::Folder => format!("{}/", entry.path),
            Kind::File | Kind::Other => entry.path,
        })
        .map_while(|entry| {
            let left = room.checked_sub(entry.len());
            is_cut = left.is_none();
            room = left?;
            Some(entry)
        })
        .take(MAX_ENTRIES)
        .collect();
    is_cut |= entries.len() == MAX_ENTRIES && walk.next().is_some();
    let mut notes = Vec::new();
    if is_cut {
        notes.push(format!(
            "only the first {} entries: list a folder below, or with a smaller depth",
            entries.len()
        ));
    }
    if walk.left_out() > 0 {
        notes.push(format!(
            "at least {} more cannot be named: their names are not Unicode, or there is too much in their folder",
            walk.left_out()
        ));
    }
    let mut output = json!({"path": name, "entries": entries});
    if !notes.is_empty() {
        output["note"] = Value::String(notes.join("; "));
    }
    Ok(output)
}
