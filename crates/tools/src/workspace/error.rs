//! What can go wrong with a file, in words that a model can act on.

use std::io;

use dirigent_core::tool::{ToolResult, code};

use super::system::is_symlink_loop;
use crate::text::truncate_chars;

/// How much of a path that is none is shown.
const MAX_SHOWN_CHARS: usize = 80;

/// Why a file of the workspace was not read or changed: one variant for each thing that the caller can do about it.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The workspace itself cannot be opened.
    #[error("the workspace {path} cannot be opened: {source}")]
    Workspace {
        /// Its absolute path.
        path: String,
        /// What the system said.
        source: io::Error,
    },
    /// The path leads out of the workspace: absolute, by `..` or by a link.
    #[error("`{path}` leads out of the workspace: give a path below its root, such as `src/main.rs`")]
    Outside {
        /// The path as it was given.
        path: String,
    },
    /// No path that the system takes.
    #[error("`{path}` is no path that can be used: {why}")]
    BadPath {
        /// The path as it was given, without control characters, and the beginning of it where it is long.
        path: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// There is nothing of that name.
    #[error("`{path}` does not exist{}", did_you_mean(.nearest))]
    NotFound {
        /// The path as it was given.
        path: String,
        /// What may have been meant.
        nearest: Vec<String>,
    },
    /// A folder where a file is needed.
    #[error("`{path}` is a folder: name a file in it")]
    IsFolder {
        /// The path as it was given.
        path: String,
    },
    /// A file where a folder is needed.
    #[error("`{path}` is no folder, or leads through something that is none")]
    NotAFolder {
        /// The path as it was given.
        path: String,
    },
    /// A pipe, a device, a socket or a link to nothing.
    #[error("`{path}` is {kind}, not a regular file: it can be neither read nor written")]
    NotAFile {
        /// The path as it was given.
        path: String,
        /// What it is, with its article.
        kind: &'static str,
    },
    /// More than a tool may hold in memory.
    #[error("`{path}` has more than {limit} bytes: use `search`, or a command that reads a part of it")]
    TooBig {
        /// The path as it was given.
        path: String,
        /// How many bytes are allowed.
        limit: u64,
    },
    /// Its content is not text.
    #[error("`{path}` is binary: it can be moved or deleted, but not read or edited as text")]
    Binary {
        /// The path as it was given.
        path: String,
    },
    /// A character that the file's encoding has no byte for.
    #[error("`{path}` has one byte for each character and none for {character:?}: leave that character out")]
    NotEncodable {
        /// The path as it was given.
        path: String,
        /// The first such character.
        character: char,
    },
    /// It belongs to git, or says what Dirigent and its agents may do.
    #[error(
        "`{path}` is read-only to tools, as are `.git`, `.dirigent`, `.claude` and `dirigent.toml`, and everything in them: leave it as it is, \
         and say what should be changed"
    )]
    Protected {
        /// The path as it was given.
        path: String,
    },
    /// Permissions or a read-only file system.
    #[error("`{path}` cannot be used: {why}; it is unchanged")]
    Denied {
        /// The path as it was given.
        path: String,
        /// What the system said.
        why: String,
    },
    /// Something of that name is there already.
    #[error("`{path}` exists already: choose another name, or delete it first")]
    Exists {
        /// The path as it was given.
        path: String,
    },
    /// A folder that cannot be deleted yet.
    #[error("the folder `{path}` is not empty: delete or move what is in it first")]
    NotEmpty {
        /// The path as it was given.
        path: String,
    },
    /// A folder cannot be moved into itself.
    #[error("`{path}` cannot be moved into itself")]
    IntoItself {
        /// The path as it was given.
        path: String,
    },
    /// Somebody else changed it between reading and writing.
    #[error("`{path}` was changed by somebody else meanwhile: read it again; it is left as it is")]
    Changed {
        /// The path as it was given.
        path: String,
    },
    /// What was in it could not be kept, so that the change could not have been undone.
    #[error("`{path}` is left as it is, as what is in it could not be recorded for `undo`: {why}")]
    NotKept {
        /// The path as it was given.
        path: String,
        /// Why not.
        why: String,
    },
    /// Anything else that the system says.
    #[error("`{path}`: {source}; it is unchanged")]
    Io {
        /// The path as it was given.
        path: String,
        /// What the system said.
        source: io::Error,
    },
}

impl FileError {
    /// What kind of fault it is, in a word that stays the same whatever the text says:
    ///
    /// | code | what |
    /// | --- | --- |
    /// | `workspace` | the workspace itself cannot be opened |
    /// | `outside_workspace` | the path leads out: absolute, by `..` or by a link |
    /// | `bad_parameters` | no path at all (too long, or with a NUL), or a folder to be moved into itself |
    /// | `not_found` | there is nothing of that name |
    /// | `not_a_file` | a folder, a pipe, a device, a socket or a link to nothing where a file is needed |
    /// | `not_a_folder` | a file where a folder is needed |
    /// | `not_empty` | a folder that something is in |
    /// | `too_big` | more than [`MAX_FILE_BYTES`](super::MAX_FILE_BYTES) |
    /// | `binary` | no text |
    /// | `not_encodable` | a character that the file's encoding does not have |
    /// | `protected` | git's files, or what says what Dirigent and its agents may do |
    /// | `denied` | permissions, a full or a read-only disk, or a limit that the system sets |
    /// | `exists` | something of that name is there |
    /// | `changed` | somebody else changed it meanwhile |
    /// | `not_kept` | what is in it could not be recorded for `undo`, so it is left as it is |
    /// | `io` | anything else that the system says |
    pub fn code(&self) -> &'static str {
        match self {
            FileError::Workspace { .. } => code::WORKSPACE,
            FileError::Outside { .. } => code::OUTSIDE_WORKSPACE,
            FileError::BadPath { .. } | FileError::IntoItself { .. } => code::BAD_PARAMETERS,
            FileError::NotFound { .. } => code::NOT_FOUND,
            FileError::IsFolder { .. } | FileError::NotAFile { .. } => code::NOT_A_FILE,
            FileError::NotAFolder { .. } => code::NOT_A_FOLDER,
            FileError::NotEmpty { .. } => code::NOT_EMPTY,
            FileError::TooBig { .. } => code::TOO_BIG,
            FileError::Binary { .. } => code::BINARY,
            FileError::NotEncodable { .. } => code::NOT_ENCODABLE,
            FileError::Protected { .. } => code::PROTECTED,
            FileError::Denied { .. } => code::DENIED,
            FileError::Exists { .. } => code::EXISTS,
            FileError::Changed { .. } => code::CHANGED,
            FileError::NotKept { .. } => code::NOT_KEPT,
            FileError::Io { .. } => code::IO,
        }
    }

    /// The failed call.
    pub(crate) fn failure(&self) -> ToolResult {
        ToolResult::failure(self.to_string()).with_code(self.code())
    }

    pub(super) fn bad_path(path: &str, why: &'static str) -> Self {
        let path = truncate_chars(path, MAX_SHOWN_CHARS).escape_debug().to_string();
        FileError::BadPath { path, why }
    }

    /// What an error of the system means for a path beneath the workspace.
    pub(super) fn from_io(path: &str, error: io::Error) -> Self {
        let path = path.to_owned();
        match error.kind() {
            io::ErrorKind::NotFound => FileError::NotFound {
                path,
                nearest: Vec::new(),
            },
            // The jail's own refusal has no error number; the system's has.
            io::ErrorKind::PermissionDenied if error.raw_os_error().is_none() => FileError::Outside { path },
            io::ErrorKind::PermissionDenied => FileError::Denied {
                path,
                why: "permission denied".to_owned(),
            },
            io::ErrorKind::ReadOnlyFilesystem => FileError::Denied {
                path,
                why: "the file system is read-only".to_owned(),
            },
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => FileError::Denied {
                path,
                why: "the disk is full".to_owned(),
            },
            io::ErrorKind::FileTooLarge => FileError::Denied {
                path,
                why: "the system allows no file of that size here".to_owned(),
            },
            io::ErrorKind::InvalidFilename => FileError::bad_path(&path, "it, or a name in it, is too long"),
            _ if is_symlink_loop(&error) => FileError::NotAFile {
                path,
                kind: "behind links that lead round in a circle, or nowhere",
            },
            io::ErrorKind::IsADirectory => FileError::IsFolder { path },
            io::ErrorKind::NotADirectory => FileError::NotAFolder { path },
            io::ErrorKind::AlreadyExists => FileError::Exists { path },
            io::ErrorKind::DirectoryNotEmpty => FileError::NotEmpty { path },
            _ => FileError::Io { path, source: error },
        }
    }
}

fn did_you_mean(nearest: &[String]) -> String {
    if nearest.is_empty() {
        return String::new();
    }
    let names: Vec<String> = nearest.iter().map(|name| format!("`{name}`")).collect();
    format!("; did you mean {}?", names.join(" or "))
}
