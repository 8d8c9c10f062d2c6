//! File errors, with messages that a model can act on.

use std::io;

use dirigent_core::tool::{ToolResult, code};

use super::system::is_symlink_loop;
use crate::truncate::truncate_chars;

/// Maximum length of the shown part of an invalid path, in characters.
const MAX_SHOWN_CHARS: usize = 80;

/// Reason why a file of the workspace was not read or changed. Each variant calls for a different reaction.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The workspace itself cannot be opened.
    #[error("the workspace {path} cannot be opened: {source}")]
    Workspace {
        /// The absolute path of the workspace.
        path: String,
        /// The system's error.
        source: io::Error,
    },
    /// The path leads out of the workspace: absolute, by `..` or by a link.
    #[error("`{path}` leads out of the workspace: give a path below its root, such as `src/main.rs`")]
    Outside {
        /// The path that the caller passed.
        path: String,
    },
    /// The path is invalid for the system, or leads to a file whose path cannot be shown as text.
    #[error("`{path}` is not a valid path: {why}")]
    BadPath {
        /// The path that the caller passed, truncated and without control characters.
        path: String,
        /// The reason, as it is shown in the message.
        why: &'static str,
    },
    /// The file does not exist.
    #[error("`{path}` does not exist{}", did_you_mean(.nearest))]
    NotFound {
        /// The path that the caller passed.
        path: String,
        /// Similar paths that exist.
        nearest: Vec<String>,
    },
    /// A folder where a file is needed.
    #[error("`{path}` is a folder: give the path of a file")]
    IsFolder {
        /// The path that the caller passed.
        path: String,
    },
    /// A file where a folder is needed.
    #[error("`{path}` is not a folder, or a part of the path is not a folder: give the path of a folder")]
    NotAFolder {
        /// The path that the caller passed.
        path: String,
    },
    /// A pipe, a device, a socket or a link to nothing.
    #[error("`{path}` is {kind}, not a regular file: it can be neither read nor written")]
    NotAFile {
        /// The path that the caller passed.
        path: String,
        /// The kind of file, with its article: `a socket`.
        kind: &'static str,
    },
    /// The file is larger than a tool may hold in memory.
    #[error("`{path}` has more than {limit} bytes: use `search`, or a command that reads a part of it")]
    TooBig {
        /// The path that the caller passed.
        path: String,
        /// The largest allowed size, in bytes.
        limit: u64,
    },
    /// The content is not text.
    #[error("`{path}` is binary: it can be moved or deleted, but not read or edited as text")]
    Binary {
        /// The path that the caller passed.
        path: String,
    },
    /// The file's single-byte encoding has no byte for a character.
    #[error("the encoding of `{path}` cannot represent {character:?}: leave that character out")]
    NotEncodable {
        /// The path that the caller passed.
        path: String,
        /// The first character that has no byte.
        character: char,
    },
    /// The file belongs to git, or configures Dirigent and its agents.
    #[error(
        "`{path}` is read-only to tools, as are `.git`, `.dirigent`, `.claude`, `dirigent.toml` and `.mcp.json`, and everything in them: leave it as it is, \
         and report what should be changed"
    )]
    Protected {
        /// The path that the caller passed.
        path: String,
    },
    /// The system denies access: permissions, a read-only file system, or a full disk.
    #[error("`{path}` cannot be used: {why}; it is unchanged")]
    Denied {
        /// The path that the caller passed.
        path: String,
        /// The reason, as it is shown in the message.
        why: String,
    },
    /// The path is already taken.
    #[error("`{path}` exists already: choose another name, or delete it first")]
    Exists {
        /// The path that the caller passed.
        path: String,
    },
    /// A folder that is not empty cannot be deleted.
    #[error("the folder `{path}` is not empty: delete or move its files first")]
    NotEmpty {
        /// The path that the caller passed.
        path: String,
    },
    /// A folder cannot be moved into itself.
    #[error("`{path}` cannot be moved into itself")]
    IntoItself {
        /// The path that the caller passed.
        path: String,
    },
    /// The file was changed between reading and writing.
    #[error("`{path}` has been changed since it was read, so this call did not write to it: read it again")]
    Changed {
        /// The path that the caller passed.
        path: String,
    },
    /// The content before the change could not be recorded, so the change could not have been undone.
    #[error("`{path}` was not changed, because its content could not be recorded for `undo`: {why}")]
    NotKept {
        /// The path that the caller passed.
        path: String,
        /// The reason, as it is shown in the message.
        why: String,
    },
    /// Any other system error.
    #[error("`{path}`: {source}; it is unchanged")]
    Io {
        /// The path that the caller passed.
        path: String,
        /// The system's error.
        source: io::Error,
    },
}

impl FileError {
    /// Returns the failure code, which stays the same when the message changes:
    ///
    /// | code | meaning |
    /// | --- | --- |
    /// | `workspace` | the workspace itself cannot be opened |
    /// | `outside_workspace` | the path leads out of the workspace: absolute, by `..` or by a link |
    /// | `bad_parameters` | an invalid path (too long, or with a NUL), or a folder to be moved into itself |
    /// | `not_found` | the file does not exist |
    /// | `not_a_file` | a folder, a pipe, a device, a socket or a link to nothing where a file is needed |
    /// | `not_a_folder` | a file where a folder is needed |
    /// | `not_empty` | a folder that is not empty |
    /// | `too_big` | more than [`MAX_FILE_BYTES`](super::MAX_FILE_BYTES) |
    /// | `binary` | not text |
    /// | `not_encodable` | a character that the file's encoding does not have |
    /// | `protected` | a file of git, or a configuration of Dirigent and its agents |
    /// | `denied` | permissions, a full or a read-only disk, or a limit of the system |
    /// | `exists` | the path is already taken |
    /// | `changed` | the file was changed between reading and writing |
    /// | `not_kept` | the file's content could not be recorded for `undo`, so the file was not changed |
    /// | `io` | any other system error |
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

    /// Creates the result of the failed call.
    pub(crate) fn failure(&self) -> ToolResult {
        ToolResult::failure(self.to_string()).with_code(self.code())
    }

    pub(super) fn bad_path(path: &str, why: &'static str) -> Self {
        let path = truncate_chars(path, MAX_SHOWN_CHARS).escape_debug().to_string();
        FileError::BadPath { path, why }
    }

    /// Converts a system error for a path in the workspace.
    pub(super) fn from_io(path: &str, error: io::Error) -> Self {
        let path = path.to_owned();
        match error.kind() {
            io::ErrorKind::NotFound => FileError::NotFound {
                path,
                nearest: Vec::new(),
            },
            // An error raised by the jail itself has no OS error number.
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
                why: "the system does not allow a file of this size".to_owned(),
            },
            io::ErrorKind::InvalidFilename => {
                FileError::bad_path(&path, "the path, or a name in it, is too long")
            }
            _ if is_symlink_loop(&error) => FileError::NotAFile {
                path,
                kind: "a link to nothing or part of a loop of links",
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
