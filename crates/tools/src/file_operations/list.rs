//! Lists a folder.

use serde_json::{Value, json};

use super::error::FileOperationError;
use crate::workspace::{Depth, EntryKind, FileError, Hidden, Workspace};

/// Maximum number of entries in one list.
const MAX_ENTRIES: usize = 1000;

/// Maximum total size of all entries, in bytes.
const MAX_BYTES: usize = 64 * 1024;

/// The default number of folder levels.
const DEFAULT_DEPTH: usize = 2;

pub(super) fn list(
    workspace: &Workspace,
    folder: &str,
    depth: Option<usize>,
) -> Result<Value, FileOperationError> {
    let name = workspace.canonical(folder)?;
    match workspace.kind(folder)? {
        EntryKind::Folder => {}
        EntryKind::File | EntryKind::Other => return Err(FileError::NotAFolder { path: name }.into()),
    }
    let depth = Depth::Levels(depth.unwrap_or(DEFAULT_DEPTH));
    let mut walk = workspace.entries(&[folder.to_owned()], Hidden::Include, depth)?;
    let (mut room, mut is_cut) = (MAX_BYTES, false);
    let entries: Vec<String> = walk
        .by_ref()
        .map(|entry| match entry.kind {
            EntryKind::Folder => format!("{}/", entry.path),
            EntryKind::File | EntryKind::Other => entry.path,
        })
        .map_while(|entry| {
            let rest = room.checked_sub(entry.len());
            is_cut = rest.is_none();
            room = rest?;
            Some(entry)
        })
        .take(MAX_ENTRIES)
        .collect();
    is_cut |= entries.len() == MAX_ENTRIES && walk.next().is_some();
    let mut notes = Vec::new();
    if is_cut {
        notes.push(format!(
            "only the first {} entries are shown: list a subfolder, or use a smaller depth",
            entries.len()
        ));
    }
    if walk.left_out() > 0 {
        notes.push(format!(
            "at least {} more entries are left out: their names are not Unicode, or their folder has too many entries",
            walk.left_out()
        ));
    }
    let mut output = json!({"path": name, "entries": entries});
    if !notes.is_empty() {
        output["note"] = Value::String(notes.join("; "));
    }
    Ok(output)
}
