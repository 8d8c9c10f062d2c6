//! The project's instructions: `AGENTS.md`, else `CLAUDE.md`, of the workspace and of the folders above it in its repository, with the files
//! that they import.
//!
//! Files are read like files in a tool's workspace ([`Workspace`]), with the repository's root as the workspace: neither `..` nor a link
//! leads out of it, and no pipe or device is opened. Imports are read only below the folder of the instructions that begin with them, and
//! nothing hidden is read: every request and the journal contain what is read, and a vendored folder could import the repository's keys.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use dirigent_core::project::{InstructionFile, Instructions};
use dirigent_core::text::is_invisible;
use dirigent_tools::workspace::{FileError, Workspace};

use super::imports::imports;

/// The names of instruction files. Only the first that exists in a folder is read.
const NAMES: [&str; 2] = ["AGENTS.md", "CLAUDE.md"];
/// Maximum size of all instructions, in bytes.
const MAX_BYTES: usize = 32 * 1024;
/// Maximum nesting depth of imports.
const MAX_DEPTH: usize = 5;
/// Maximum number of imports to look up.
const MAX_IMPORTS: usize = 100;

/// Reads the instructions for runs in a workspace. The files of the workspace take precedence: if not all files fit, those of outer folders
/// are truncated. Reads the disk.
pub(crate) fn read_instructions(workspace: &Path) -> Instructions {
    let root = repository_root(workspace);
    let (Ok(folder), Ok(jail)) = (workspace.strip_prefix(&root), Workspace::open(&root)) else {
        return Instructions::default();
    };
    let mut reader = Reader {
        jail,
        folder,
        room: MAX_BYTES,
        imports_left: MAX_IMPORTS,
        read: BTreeSet::new(),
        notes: Vec::new(),
    };
    let of_folders: Vec<Vec<InstructionFile>> = folder
        .ancestors()
        .map(|folder| reader.read_folder(folder))
        .collect();
    Instructions {
        files: of_folders.into_iter().rev().flatten().collect(),
        notes: reader.notes,
    }
}

/// Returns the root of the repository that contains the workspace, or the workspace itself if there is no repository. Like git, ignores
/// repositories of other users, so that no user can place instructions above another user's folders.
fn repository_root(workspace: &Path) -> PathBuf {
    let mut roots = workspace
        .ancestors()
        .take_while(|folder| have_same_owner(folder, workspace))
        .filter(|folder| {
            let git = folder.join(".git");
            git.symlink_metadata().is_ok_and(|git| !git.is_symlink()) && have_same_owner(&git, workspace)
        });
    roots.next().unwrap_or(workspace).to_owned()
}

#[cfg(unix)]
fn have_same_owner(one: &Path, other: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let owner = |path: &Path| Some(path.symlink_metadata().ok()?.uid());
    owner(one).is_some_and(|one| Some(one) == owner(other))
}

#[cfg(not(unix))]
fn have_same_owner(_: &Path, _: &Path) -> bool {
    true
}

struct Reader<'a> {
    /// The root of the repository.
    jail: Workspace,
    /// The workspace, relative to the root.
    folder: &'a Path,
    /// The number of bytes that may still be read.
    room: usize,
    imports_left: usize,
    /// The files that were read, relative to the root.
    read: BTreeSet<String>,
    notes: Vec<String>,
}

impl Reader<'_> {
    /// Reads the instructions of a folder, relative to the root.
    fn read_folder(&mut self, folder: &Path) -> Vec<InstructionFile> {
        let mut files = Vec::new();
        for name in NAMES {
            let path = folder.join(name);
            match self.read_file(folder, &path, 0, &mut files) {
                Ok(()) => break,
                Err(Unread::NoFile) => {}
                Err(Unread::Refused(reason)) => self.note_unread(&path, &reason),
            }
        }
        files
    }

    /// Reads a file, followed by the files that it imports. Reads no file twice. `base` is the folder of the instructions with which the
    /// imports began.
    fn read_file(
        &mut self,
        base: &Path,
        path: &Path,
        depth: usize,
        files: &mut Vec<InstructionFile>,
    ) -> Result<(), Unread> {
        let name = path.to_str().ok_or(Unread::NoFile)?;
        let start = self.jail.read_start(name, self.room + 1)?;
        let bytes = start.ok_or(Unread::NoFile)?;
        let resolved = self.jail.canonical(name)?;
        check_place(base, Path::new(&resolved), depth)?;
        if !self.read.insert(resolved) {
            return Ok(());
        }
        if bytes.contains(&0) {
            return Err(Unread::Refused("it is not text".to_owned()));
        }
        let mut text = clean(&String::from_utf8_lossy(&bytes));
        if bytes.len() > self.room || text.len() > self.room {
            let limit = MAX_BYTES / 1024;
            self.notes.push(format!(
                "{} is cut: project instructions are limited to {limit} KiB in total",
                self.shown(path)
            ));
            cut_at_line(&mut text, self.room);
            self.room = 0;
            text.push_str(&format!(
                "[cut here: project instructions are limited to {limit} KiB in total]\n"
            ));
        } else {
            self.room -= text.len();
        }
        if text.trim().is_empty() {
            return Ok(());
        }
        let imported: Vec<PathBuf> = match depth < MAX_DEPTH {
            true => imports(&text)
                .into_iter()
                .map(|import| beside(path, import))
                .collect(),
            false => Vec::new(),
        };
        files.push(InstructionFile {
            path: self.shown(path),
            text,
        });
        for import in imported {
            if self.room == 0 || self.imports_left == 0 {
                break;
            }
            self.imports_left -= 1;
            // Many words that begin with `@` are not imports, and no such file exists.
            match self.read_file(base, &import, depth + 1, files) {
                Ok(_) | Err(Unread::NoFile) => {}
                Err(Unread::Refused(reason)) => self.note_unread(&import, &reason),
            }
        }
        Ok(())
    }

    fn note_unread(&mut self, path: &Path, reason: &str) {
        let path = self.shown(path);
        self.notes.push(format!("{path} is not read: {reason}"));
    }

    /// Returns a path relative to the workspace, with hidden characters replaced.
    fn shown(&self, path: &Path) -> String {
        let shared = self.folder.ancestors().find(|folder| path.starts_with(folder));
        let shared = shared.unwrap_or(Path::new(""));
        let up = self.folder.components().count() - shared.components().count();
        let below = path.strip_prefix(shared).unwrap_or(path);
        let path: PathBuf = std::iter::repeat_n(Path::new(".."), up).chain([below]).collect();
        path.to_string_lossy().replace(is_hidden, "\u{fffd}")
    }
}

/// Why a file was not read.
enum Unread {
    /// There is no such file.
    NoFile,
    /// The file exists, but is not read for this reason.
    Refused(String),
}

impl From<FileError> for Unread {
    fn from(error: FileError) -> Self {
        match error {
            FileError::Outside { .. } => Unread::Refused("it is outside of the project".to_owned()),
            FileError::NotAFile { kind, .. } => Unread::Refused(format!("it is {kind}")),
            FileError::Denied { why, .. } => Unread::Refused(why),
            _ => Unread::NoFile,
        }
    }
}

/// Checks the location of a file, given with links resolved.
fn check_place(base: &Path, resolved: &Path, depth: usize) -> Result<(), Unread> {
    let below = resolved.strip_prefix(base);
    if depth > 0 && below.is_err() {
        return Err(Unread::Refused(
            "it is outside the folder of the instructions file that imports it".to_owned(),
        ));
    }
    let mut parts = below.unwrap_or(resolved).components();
    if parts.any(|part| part.as_os_str().as_encoded_bytes().starts_with(b".")) {
        return Err(Unread::Refused("it is hidden".to_owned()));
    }
    Ok(())
}

/// Returns the path of an import in the file at `path`, without `.` and with `..` applied as far as possible.
fn beside(path: &Path, import: &str) -> PathBuf {
    let folder = path.parent().unwrap_or(Path::new(""));
    let mut whole = PathBuf::new();
    for part in folder.join(import).components() {
        match part {
            std::path::Component::CurDir => {}
            std::path::Component::ParentDir if whole.file_name().is_some() => drop(whole.pop()),
            other => whole.push(other),
        }
    }
    whole
}

/// Removes control characters other than line breaks and tabs, and characters that hide or reorder text.
fn clean(text: &str) -> String {
    text.replace("\r\n", "\n").replace(is_hidden_in_text, "")
}

fn is_hidden_in_text(c: char) -> bool {
    // Zero-width joiners and direction marks occur in ordinary text.
    is_hidden(c) && !matches!(c, '\n' | '\t' | '\u{200c}'..='\u{200f}')
}

fn is_hidden(c: char) -> bool {
    c.is_control() || is_invisible(c)
}

/// Cuts the text after the last whole line of its first `max` bytes, or after `max` bytes if its first line is longer.
fn cut_at_line(text: &mut String, max: usize) {
    text.truncate(text.floor_char_boundary(max));
    if let Some(end) = text.rfind('\n') {
        text.truncate(end + 1);
    } else if !text.is_empty() {
        text.push('\n');
    }
}

#[cfg(all(test, unix))]
mod tests;
