//! Lists a folder, or the files that match a glob.

use dirigent_core::tool::display_path;
use globset::GlobMatcher;

use super::error::FileOperationError;
use crate::glob::file_glob;
use crate::tool::ToolContext;
use crate::workspace::{Depth, Entry, EntryKind, FileError, Hidden, Workspace};

/// Maximum number of entries in one list.
const MAX_ENTRIES: usize = 1000;

/// Maximum total size of all entries, in bytes.
const MAX_BYTES: usize = 64 * 1024;

/// The default number of folder levels. With a glob, all levels are listed by default.
const DEFAULT_DEPTH: usize = 2;

pub(super) fn list(
    context: &ToolContext,
    workspace: &Workspace,
    folder: &str,
    depth: Option<usize>,
    glob: Option<&str>,
) -> Result<String, FileOperationError> {
    let name = workspace.canonical(folder)?;
    match workspace.kind(folder)? {
        EntryKind::Folder => {}
        EntryKind::File | EntryKind::Other => return Err(FileError::NotAFolder { path: name }.into()),
    }
    let files = glob.map(|glob| matching_files(glob, &name)).transpose()?;
    let depth = match (depth, &files) {
        (Some(levels), _) => Depth::Levels(levels),
        (None, None) => Depth::Levels(DEFAULT_DEPTH),
        (None, Some(_)) => Depth::All,
    };
    let mut walk = workspace.entries(&[folder.to_owned()], Hidden::Include, depth)?;
    let mut entries = walk
        .by_ref()
        .take_while(|_| !context.cancel.is_cancelled())
        .filter(|entry| files.as_ref().is_none_or(|files| files(entry)))
        .map(|entry| match entry.kind {
            EntryKind::Folder => format!("{}/", entry.path),
            EntryKind::File | EntryKind::Other => entry.path,
        });
    let (mut room, mut shown, mut more) = (MAX_BYTES, Vec::new(), 0);
    for entry in entries.by_ref() {
        match room.checked_sub(entry.len()) {
            Some(rest) if shown.len() < MAX_ENTRIES => {
                room = rest;
                shown.push(entry);
            }
            Some(_) | None => {
                more = 1;
                break;
            }
        }
    }
    more += entries.count();
    let mut notes = Vec::new();
    if more > 0 {
        let narrower = match glob {
            Some(_) => "use a narrower `glob`, or a subfolder as `path`",
            None => "list a subfolder, or use a smaller depth or a `glob`",
        };
        notes.push(format!("{more} more are left out: {narrower}"));
    }
    if walk.left_out() > 0 {
        notes.push(format!(
            "at least {} more entries are left out: their names are not Unicode, or their folder has too many entries",
            walk.left_out()
        ));
    }
    Ok(text(&shown, &notes))
}

/// Formats a list: the number of entries and the notes on the first line, then one entry per line.
fn text(entries: &[String], notes: &[String]) -> String {
    let mut text = match entries.len() {
        1 => "1 entry".to_owned(),
        count => format!("{count} entries"),
    };
    for note in notes {
        text.push_str("; ");
        text.push_str(note);
    }
    for entry in entries {
        text.push('\n');
        text.push_str(&display_path(entry));
    }
    text
}

/// Returns a filter for the files that match the glob by their path below the listed folder, or by their path in the workspace.
fn matching_files(glob: &str, folder: &str) -> Result<impl Fn(&Entry) -> bool + use<>, FileOperationError> {
    let bad_glob = |source| FileOperationError::BadGlob {
        glob: glob.to_owned(),
        source,
    };
    let matcher: GlobMatcher = file_glob(glob).map_err(bad_glob)?.compile_matcher();
    let above = if folder == "." {
        String::new()
    } else {
        format!("{folder}/")
    };
    Ok(move |entry: &Entry| {
        let below = entry.path.strip_prefix(&above).unwrap_or(&entry.path);
        entry.kind == EntryKind::File && (matcher.is_match(below) || matcher.is_match(&entry.path))
    })
}
