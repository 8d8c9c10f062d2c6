//! The output of `rename_symbol`: lists of bounded length, and totals that count everything.

use serde::Serialize;

use super::lines::SourceLocation;
use super::syntax::{Prose, Role};
use crate::syntax::SkippedFile;

/// Maximum number of rows in a list.
pub(super) const MAX_ROWS: usize = 200;

/// The output of `rename_symbol` without empty lists, documented at [`rename_symbol`](super::rename_symbol).
#[derive(Debug, Default, Serialize)]
pub(super) struct Report {
    pub(super) from: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) to: Option<String>,
    pub(super) renamed: bool,
    pub(super) occurrences: usize,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) files: Vec<FileRows>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) mentions: Vec<Mention>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) clashes: Vec<Located>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) modules: Vec<Located>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) foreign: Vec<Located>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) members: Vec<Located>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) similar: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) syntax_errors: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) skipped: Vec<SkippedFile>,
    pub(super) totals: Totals,
}

/// The totals other than 0, including rows that the lists leave out.
#[derive(Debug, Default, Serialize)]
pub(super) struct Totals {
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) files: usize,
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) definitions: usize,
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) introductions: usize,
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) mentions: usize,
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) clashes: usize,
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) modules: usize,
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) foreign: usize,
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) members: usize,
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) syntax_errors: usize,
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) skipped: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &usize) -> bool {
    *count == 0
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
