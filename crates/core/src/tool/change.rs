//! What a tool changed (LOOP-8), told so that it can be shown, summed up and undone.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A file as it was at a moment: what `undo` puts back, and what it compares with.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FileVersion {
    /// The SHA-256 of its content, or of the path that a link leads to: 64 hexadecimal digits, by which the content is kept.
    pub digest: String,
    /// Its kind and permissions as Unix has them in `st_mode`: `0o100644` for a plain file, `0o120777` for a link.
    pub mode: u32,
}

/// Something that a tool changed (LOOP-8). Paths are relative to the workspace, with `/`. `diff` is a unified diff for the operator;
/// it is left out where the content is not text or too long. The versions before and after are left out where they are not known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "snake_case")]
pub enum StateChange {
    /// A file that was not there before.
    FileCreated {
        /// Which.
        path: String,
        /// Its content as a diff against nothing.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        diff: Option<String>,
        /// What is there now.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<FileVersion>,
    },
    /// A file with other content than before.
    FileEdited {
        /// Which.
        path: String,
        /// What changed in it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        diff: Option<String>,
        /// What was there.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        before: Option<FileVersion>,
        /// What is there now.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<FileVersion>,
    },
    /// A file that is gone, or an empty folder, whose path ends with `/`.
    FileDeleted {
        /// Which.
        path: String,
        /// What was in it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        diff: Option<String>,
        /// What was there.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        before: Option<FileVersion>,
    },
    /// A file or folder under another name.
    FileMoved {
        /// Its path before.
        from: String,
        /// Its path now.
        to: String,
        /// What it is, for a file.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        version: Option<FileVersion>,
    },
    /// A command that ran to its end.
    ProcessExited {
        /// The command line.
        command: String,
        /// Its exit code; none where a signal ended it.
        code: Option<i32>,
    },
    /// A table that a database did not have before.
    TableCreated {
        /// The connection's name in the configuration.
        connection: String,
        /// The table, with its schema where the database has several.
        table: String,
    },
    /// A table that a database has no more.
    TableDropped {
        /// The connection's name in the configuration.
        connection: String,
        /// The table, with its schema where the database has several.
        table: String,
    },
    /// Rows that were inserted, updated or deleted.
    RowsChanged {
        /// The connection's name in the configuration.
        connection: String,
        /// The table; none where the database does not say.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        table: Option<String>,
        /// How many.
        rows: u64,
    },
    /// A request that may have changed something elsewhere, and was answered.
    RequestSent {
        /// Its method, in capitals.
        method: String,
        /// Where it went, without user, password and query.
        url: String,
        /// The HTTP status of the answer.
        status: u16,
    },
}

impl StateChange {
    /// The same with a diff; a change that has none stays as it is.
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

/// A path for people and models, on one line whatever is in it: control characters as escapes, such as `\n`.
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

/// For models and people: `edited src/a.rs`.
impl fmt::Display for StateChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StateChange::FileCreated { path, .. } => write!(f, "created {}", display_path(path)),
            StateChange::FileEdited { path, .. } => write!(f, "edited {}", display_path(path)),
            StateChange::FileDeleted { path, .. } => write!(f, "deleted {}", display_path(path)),
            StateChange::FileMoved { from, to, .. } => {
                write!(f, "moved {} to {}", display_path(from), display_path(to))
            }
            StateChange::ProcessExited { command, code } => match code {
                Some(code) => write!(f, "`{command}` exited with {code}"),
                None => write!(f, "`{command}` was ended by a signal"),
            },
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
                write!(f, "sent {method} {url}, answered {status}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_with_line_breaks_looks_like_no_line_of_a_diff() {
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
