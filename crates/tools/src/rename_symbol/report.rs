//! The output of `rename_symbol`: lists of bounded length, and totals that count everything.

use serde::Serialize;

use super::lines::SourceLocation;
use super::syntax::{Prose, Role};
use crate::syntax::SkippedFile;

/// Maximum number of rows in a list.
pub(super) const MAX_ROWS: usize = 200;

/// The output of `rename_symbol`, documented at [`rename_symbol`](super::rename_symbol).
#[derive(Debug, Default, Serialize)]
pub(super) struct Report {
    pub(super) from: String,
    pub(super) to: Option<String>,
    pub(super) renamed: bool,
    pub(super) occurrences: usize,
    pub(super) files: Vec<FileRows>,
    pub(super) mentions: Vec<Mention>,
    pub(super) clashes: Vec<Located>,
    pub(super) modules: Vec<Located>,
    pub(super) foreign: Vec<Located>,
    pub(super) members: Vec<Located>,
    pub(super) similar: Vec<String>,
    pub(super) syntax_errors: Vec<String>,
    pub(super) skipped: Vec<SkippedFile>,
    pub(super) totals: Totals,
}

/// The totals, including rows that the lists leave out.
#[derive(Debug, Default, Serialize)]
pub(super) struct Totals {
    pub(super) files: usize,
    pub(super) definitions: usize,
    pub(super) introductions: usize,
    pub(super) mentions: usize,
    pub(super) clashes: usize,
    pub(super) modules: usize,
    pub(super) foreign: usize,
    pub(super) members: usize,
    pub(super) syntax_errors: usize,
    pub(super) skipped: usize,
}

#[derive(Debug, Serialize)]
pub(super) struct FileRows {
    pub(super) path: String,
    pub(super) total: usize,
    pub(super) occurrences: Vec<Occurrence>,
}

#[derive(Debug, Serialize)]
pub(super) struct Occurrence {
    #[serde(flatten)]
    pub(super) location: SourceLocation,
    #[serde(
        rename = "definition",
        skip_serializing_if = "is_use",
        serialize_with = "as_true"
    )]
    pub(super) role: Role,
}

#[derive(Debug, Serialize)]
pub(super) struct Mention {
    pub(super) path: String,
    #[serde(flatten)]
    pub(super) location: SourceLocation,
    #[serde(rename = "in")]
    pub(super) prose: Prose,
}

/// A location in a file.
#[derive(Debug, Serialize)]
pub(super) struct Located {
    pub(super) path: String,
    #[serde(flatten)]
    pub(super) location: SourceLocation,
}

fn is_use(role: &Role) -> bool {
    match role {
        Role::Definition | Role::Declared => false,
        Role::Imported(_) | Role::Bound | Role::Local | Role::Use => true,
    }
}

fn as_true<S: serde::Serializer>(_: &Role, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_bool(true)
}

/// Counts a row, and adds it unless the list is full.
pub(super) fn push_row<T>(rows: &mut Vec<T>, total: &mut usize, row: impl FnOnce() -> T) {
    *total += 1;
    if rows.len() < MAX_ROWS {
        rows.push(row());
    }
}

impl Report {
    /// Adds a file that contains the name.
    pub(super) fn add_file(
        &mut self,
        path: &str,
        found: impl ExactSizeIterator<Item = (Role, impl FnOnce() -> SourceLocation)>,
    ) {
        let total = found.len();
        let room = MAX_ROWS.saturating_sub(self.occurrences);
        self.occurrences += total;
        let mut occurrences = Vec::new();
        for (role, location) in found {
            self.totals.introductions += usize::from(role.introduces());
            match role {
                Role::Definition | Role::Declared => self.totals.definitions += 1,
                Role::Imported(_) | Role::Bound | Role::Local | Role::Use => {}
            }
            if occurrences.len() < room {
                occurrences.push(Occurrence {
                    location: location(),
                    role,
                });
            }
        }
        push_row(&mut self.files, &mut self.totals.files, || FileRows {
            path: path.to_owned(),
            total,
            occurrences,
        });
    }

    pub(super) fn add_mention(
        &mut self,
        path: &str,
        prose: Prose,
        location: impl FnOnce() -> SourceLocation,
    ) {
        push_row(&mut self.mentions, &mut self.totals.mentions, || Mention {
            path: path.to_owned(),
            location: location(),
            prose,
        });
    }

    pub(super) fn add_clash(&mut self, path: &str, location: impl FnOnce() -> SourceLocation) {
        push_row(&mut self.clashes, &mut self.totals.clashes, || Located {
            path: path.to_owned(),
            location: location(),
        });
    }

    pub(super) fn add_module(&mut self, path: &str, location: impl FnOnce() -> SourceLocation) {
        push_row(&mut self.modules, &mut self.totals.modules, || Located {
            path: path.to_owned(),
            location: location(),
        });
    }

    pub(super) fn add_foreign(&mut self, path: &str, location: impl FnOnce() -> SourceLocation) {
        push_row(&mut self.foreign, &mut self.totals.foreign, || Located {
            path: path.to_owned(),
            location: location(),
        });
    }

    pub(super) fn add_member(&mut self, path: &str, location: impl FnOnce() -> SourceLocation) {
        push_row(&mut self.members, &mut self.totals.members, || Located {
            path: path.to_owned(),
            location: location(),
        });
    }

    pub(super) fn add_syntax_error(&mut self, path: &str) {
        push_row(&mut self.syntax_errors, &mut self.totals.syntax_errors, || {
            path.to_owned()
        });
    }

    pub(super) fn add_skipped(&mut self, path: &str, reason: impl ToString) {
        push_row(&mut self.skipped, &mut self.totals.skipped, || SkippedFile {
            path: path.to_owned(),
            reason: reason.to_string(),
        });
    }
}
