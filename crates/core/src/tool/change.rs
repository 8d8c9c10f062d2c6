//! Changes that tools made (LOOP-8), in a form that can be shown, summarised and undone.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::text::{one_line, single_line};

/// Maximum number of files to list that changed while a command was running.
const SHOWN_FILES: usize = 20;

/// The content and mode of a file at a point in time, which undo compares and restores.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FileVersion {
    /// SHA-256 of the content, or of the target of a symbolic link, as 64 hexadecimal digits. The content is stored under this key.
    pub digest: String,
    /// File type and permissions, as in `st_mode` on Unix: `0o100644` for a regular file, `0o120777` for a symbolic link.
    pub mode: u32,
}

/// A change that a tool made (LOOP-8). Paths are relative to the workspace, with `/` as separator. `diff` is a unified diff for operators;
/// `None` if the content is binary or too long. The file versions before and after the change are `None` if unknown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "snake_case")]
pub enum StateChange {
    /// A file was created.
    FileCreated {
        /// Path of the file.
        path: String,
        /// Diff against an empty file.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        diff: Option<String>,
        /// The file after its creation.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<FileVersion>,
    },
    /// The content of a file changed.
    FileEdited {
        /// Path of the file.
        path: String,
        /// Diff of the contents.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        diff: Option<String>,
        /// The file before the change.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        before: Option<FileVersion>,
        /// The file after the change.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<FileVersion>,
    },
    /// A file or an empty folder was deleted. The path of a folder ends with `/`.
    FileDeleted {
        /// Path of the file or folder.
        path: String,
        /// Diff to an empty file.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        diff: Option<String>,
        /// The file before its deletion; `None` for a folder, or if unknown.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        before: Option<FileVersion>,
    },
    /// A file or folder was moved or renamed.
    FileMoved {
        /// The old path.
        from: String,
        /// The new path.
        to: String,
        /// The moved file; `None` for a folder, or if unknown.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        version: Option<FileVersion>,
    },
    /// A command exited.
    ProcessExited {
        /// The command line.
        command: String,
        /// The exit code; `None` if a signal ended the process.
        code: Option<i32>,
        /// The files that were created, edited or deleted while the command was running, by the command or by something else, sorted by
        /// path (PAOR-10).
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        files: Vec<StateChange>,
    },
    /// A database table was created.
    TableCreated {
        /// The connection's name in the configuration.
        connection: String,
        /// The name of the table, including its schema if the database has several schemas.
        table: String,
    },
    /// A database table was dropped.
    TableDropped {
        /// The connection's name in the configuration.
        connection: String,
        /// The name of the table, including its schema if the database has several schemas.
        table: String,
    },
    /// Database rows were inserted, updated or deleted.
    RowsChanged {
        /// The connection's name in the configuration.
        connection: String,
        /// The table; `None` if the database does not report it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        table: Option<String>,
        /// Number of changed rows.
        rows: u64,
    },
    /// A server responded to an HTTP request that may have changed something on it.
    RequestSent {
        /// The HTTP method in uppercase.
        method: String,
        /// The URL without user, password and query.
        url: String,
        /// The HTTP status of the response.
        status: u16,
    },
}

impl StateChange {
    /// Returns true if the change must be judged by the reflector (LEAD-3). The exit of a command does not count as a change unless files
    /// changed while the command was running. A request that only reads does not count, either.
    pub fn is_reflected(&self) -> bool {
        match self {
            StateChange::FileCreated { .. }
            | StateChange::FileEdited { .. }
            | StateChange::FileDeleted { .. }
            | StateChange::FileMoved { .. }
            | StateChange::TableCreated { .. }
            | StateChange::TableDropped { .. }
            | StateChange::RowsChanged { .. } => true,
            StateChange::RequestSent { method, .. } => !["GET", "HEAD", "OPTIONS"].contains(&method.as_str()),
            StateChange::ProcessExited { files, .. } => !files.is_empty(),
        }
    }

    /// Returns the path of a created, edited or deleted file; `None` for other changes.
    pub fn path(&self) -> Option<&str> {
        match self {
            StateChange::FileCreated { path, .. }
            | StateChange::FileEdited { path, .. }
            | StateChange::FileDeleted { path, .. } => Some(path),
            StateChange::FileMoved { .. }
            | StateChange::ProcessExited { .. }
            | StateChange::TableCreated { .. }
            | StateChange::TableDropped { .. }
            | StateChange::RowsChanged { .. }
            | StateChange::RequestSent { .. } => None,
        }
    }

    /// Returns the reported diff of a created, edited or deleted file, if there is one.
    pub fn diff(&self) -> Option<&str> {
        match self {
            StateChange::FileCreated { diff, .. }
            | StateChange::FileEdited { diff, .. }
            | StateChange::FileDeleted { diff, .. } => diff.as_deref(),
            StateChange::FileMoved { .. }
            | StateChange::ProcessExited { .. }
            | StateChange::TableCreated { .. }
            | StateChange::TableDropped { .. }
            | StateChange::RowsChanged { .. }
            | StateChange::RequestSent { .. } => None,
        }
    }

    /// Formats the change for the result of the call that made it. `None` for the exit of a command, which the rest of the result states,
    /// unless files changed while the command was running.
    pub(super) fn in_own_result(&self) -> Option<String> {
        match self {
            StateChange::ProcessExited { files, .. } => (!files.is_empty()).then(|| changed_meanwhile(files)),
            StateChange::FileCreated { .. }
            | StateChange::FileEdited { .. }
            | StateChange::FileDeleted { .. }
            | StateChange::FileMoved { .. }
            | StateChange::TableCreated { .. }
            | StateChange::TableDropped { .. }
            | StateChange::RowsChanged { .. }
            | StateChange::RequestSent { .. } => Some(self.to_string()),
        }
    }

    /// Sets the diff, if this kind of change has one.
    pub fn with_diff(mut self, text: Option<String>) -> Self {
        match &mut self {
            StateChange::FileCreated { diff, .. }
            | StateChange::FileEdited { diff, .. }
            | StateChange::FileDeleted { diff, .. } => *diff = text,
            StateChange::FileMoved { .. }
            | StateChange::ProcessExited { .. }
            | StateChange::TableCreated { .. }
            | StateChange::TableDropped { .. }
            | StateChange::RowsChanged { .. }
            | StateChange::RequestSent { .. } => {}
        }
        self
    }
}

/// Formats a path on one line for display, with control characters escaped, such as `\n`.
pub fn display_path(path: &str) -> String {
    let mut shown = String::with_capacity(path.len());
    for character in path.chars() {
        if character.is_control() {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown
}

/// Maximum length of a command line in a message, in characters.
const MAX_COMMAND: usize = 80;

/// Formats a command line for messages: on one line and, if it is long, only its beginning.
pub fn display_command(command: &str) -> String {
    single_line(&one_line(command), MAX_COMMAND)
}

/// Formats the change for models and users: `edited src/a.rs`.
impl fmt::Display for StateChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StateChange::FileCreated { path, .. } => write!(f, "created {}", display_path(path)),
            StateChange::FileEdited { path, .. } => write!(f, "edited {}", display_path(path)),
            StateChange::FileDeleted { path, .. } => write!(f, "deleted {}", display_path(path)),
            StateChange::FileMoved { from, to, .. } => {
                write!(f, "moved {} to {}", display_path(from), display_path(to))
            }
            StateChange::ProcessExited { command, code, files } => {
                let command = display_command(command);
                match code {
                    Some(code) => write!(f, "`{command}` exited with {code}"),
                    None => write!(f, "`{command}` was terminated by a signal"),
                }?;
                match files.is_empty() {
                    true => Ok(()),
                    false => write!(f, "; {}", changed_meanwhile(files)),
                }
            }
            StateChange::TableCreated { connection, table } => {
                write!(f, "created table {table} in {connection}")
            }
            StateChange::TableDropped { connection, table } => {
                write!(f, "dropped table {table} in {connection}")
            }
            StateChange::RowsChanged {
                connection,
                table,
                rows,
            } => {
                let noun = if *rows == 1 { "row" } else { "rows" };
                match table {
                    Some(table) => write!(f, "changed {rows} {noun} of {table} in {connection}"),
                    None => write!(f, "changed {rows} {noun} in {connection}"),
                }
            }
            StateChange::RequestSent { method, url, status } => {
                write!(f, "sent {method} {url}, received status {status}")
            }
        }
    }
}

/// Lists the files that changed while a command was running.
fn changed_meanwhile(files: &[StateChange]) -> String {
    let shown = files.iter().take(SHOWN_FILES);
    let shown: Vec<String> = shown.map(ToString::to_string).collect();
    let more = match files.len().saturating_sub(SHOWN_FILES) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("changed while it ran: {}{more}", shown.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_command_is_shown_by_its_beginning() {
        let change = StateChange::ProcessExited {
            command: format!("cat <<'END'\n  {}\nEND", "x".repeat(200)),
            code: Some(1),
            files: Vec::new(),
        };
        assert_eq!(
            change.to_string(),
            format!("`cat <<'END' {}…` exited with 1", "x".repeat(67))
        );
    }

    #[test]
    fn a_path_with_line_breaks_cannot_imitate_lines_of_a_diff() {
        let change = StateChange::FileCreated {
            path: "x\n--- a/README.md\n+++ b/\u{1b}[31mREADME.md".to_owned(),
            diff: None,
            after: None,
        };
        assert_eq!(
            change.to_string(),
            r"created x\n--- a/README.md\n+++ b/\u{1b}[31mREADME.md"
        );
    }
}
