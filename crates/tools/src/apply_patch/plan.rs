//! Computes the new content of each file in a patch. This module writes nothing.

use std::collections::BTreeSet;
use std::fmt;

use dirigent_core::tool::{SeenFile, display_path};

use super::error::ApplyError;
use super::locate::{self, LocateError, Patched, SearchBudget};
use crate::diff::{FilePatch, Hunk, HunkLine, PatchKind, unified_diff};
use crate::seen::{self, Extent};
use crate::text::TextFile;
use crate::tool::ToolContext;
use crate::transaction::{FileChange, FileOperation};
use crate::workspace::{EntryKind, FileError, Workspace};

/// The planned changes to one file.
pub(super) struct PlannedFile {
    pub(super) row: Row,
    pub(super) changes: Vec<FileChange>,
    /// The file versions that the agent counts as having seen after the changes.
    pub(super) seen: Vec<SeenFile>,
}

/// The file's line in the tool's output: `moved src/a.rs to src/b.rs at lines 12, 40 (+3 -1)`.
pub(super) struct Row {
    path: String,
    change: &'static str,
    from: Option<String>,
    lines: Vec<usize>,
    added: usize,
    removed: usize,
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = display_path(&self.path);
        match &self.from {
            Some(from) => write!(f, "{} {} to {path}", self.change, display_path(from))?,
            None => write!(f, "{} {path}", self.change)?,
        }
        let lines: Vec<String> = self.lines.iter().map(usize::to_string).collect();
        match lines.len() {
            0 => Ok(()),
            1 => write!(
                f,
                " at line {} (+{} -{})",
                lines.join(", "),
                self.added,
                self.removed
            ),
            _ => write!(
                f,
                " at lines {} (+{} -{})",
                lines.join(", "),
                self.added,
                self.removed
            ),
        }
    }
}

struct PatchPlanner<'a> {
    context: &'a ToolContext,
    workspace: &'a Workspace,
    budget: SearchBudget<'a>,
}

struct CurrentFile {
    bytes: Vec<u8>,
    file: TextFile,
}

/// Plans the changes to all files of a patch, in the order of the patch. If several parts edit the same file, their hunks are merged.
pub(super) fn plan(
    context: &ToolContext,
    workspace: &Workspace,
    files: Vec<FilePatch>,
    allowed: &[String],
) -> Result<Vec<PlannedFile>, ApplyError> {
    let mut patch_planner = PatchPlanner {
        context,
        workspace,
        budget: SearchBudget::new(&context.cancel),
    };
    let allowed: Vec<String> = allowed
        .iter()
        .map(|path| workspace.canonical(path))
        .collect::<Result<_, _>>()?;
    let mut merged: Vec<FilePatch> = Vec::with_capacity(files.len());
    for file in files {
        let file = patch_planner.with_plain_names(file)?;
        let earlier = merged.iter_mut().find(|earlier| match &file.kind {
            PatchKind::Edit { .. } => earlier.kind == file.kind,
            PatchKind::Create { .. } | PatchKind::Delete { .. } | PatchKind::Move { .. } => false,
        });
        match earlier {
            Some(earlier) => earlier.hunks.extend(file.hunks),
            None => merged.push(file),
        }
    }
    let mut named = BTreeSet::new();
    for path in merged.iter().flat_map(|file| file.kind.paths()) {
        if !is_among(&allowed, path) {
            return Err(ApplyError::OutsidePaths {
                path: path.to_owned(),
            });
        }
        if !named.insert(path.to_owned()) {
            return Err(ApplyError::Duplicate {
                path: path.to_owned(),
            });
        }
    }
    merged.into_iter().map(|file| patch_planner.file(file)).collect()
}

fn is_among(allowed: &[String], path: &str) -> bool {
    let contains = |folder: &String| {
        folder == "."
            || path
                .strip_prefix(folder.as_str())
                .is_some_and(|below| below.is_empty() || below.starts_with('/'))
    };
    allowed.is_empty() || allowed.iter().any(contains)
}

impl PatchKind {
    fn paths(&self) -> impl Iterator<Item = &str> {
        let (one, other) = match self {
            PatchKind::Edit { path } | PatchKind::Create { path } | PatchKind::Delete { path } => {
                (path, None)
            }
            PatchKind::Move { from, to } => (from, Some(to)),
        };
        std::iter::once(one).chain(other).map(String::as_str)
    }
}

impl PatchPlanner<'_> {
    fn with_plain_names(&self, file: FilePatch) -> Result<FilePatch, FileError> {
        let plain = |path: &str| self.workspace.canonical(path);
        let link_itself = |path: &str| self.workspace.canonical_nofollow(path);
        let kind = match &file.kind {
            PatchKind::Edit { path } => PatchKind::Edit { path: plain(path)? },
            PatchKind::Create { path } => PatchKind::Create { path: plain(path)? },
            PatchKind::Delete { path } => PatchKind::Delete {
                path: link_itself(path)?,
            },
            PatchKind::Move { from, to } => PatchKind::Move {
                from: link_itself(from)?,
                to: link_itself(to)?,
            },
        };
        Ok(FilePatch { kind, ..file })
    }

    fn file(&mut self, FilePatch { kind, hunks }: FilePatch) -> Result<PlannedFile, ApplyError> {
        if self.context.cancel.is_cancelled() {
            return Err(ApplyError::Cancelled);
        }
        match kind {
            PatchKind::Edit { path } => self.edit(path, &hunks),
            PatchKind::Create { path } => self.create(path, &hunks),
            PatchKind::Delete { path } => self.delete(path, &hunks),
            PatchKind::Move { from, to } => self.rename(from, to, &hunks),
        }
    }

    fn edit(&mut self, path: String, hunks: &[Hunk]) -> Result<PlannedFile, ApplyError> {
        let CurrentFile { bytes, file } = self.read_current(&path, Extent::Part)?;
        let patched = self.patched(&path, &file.text, hunks)?;
        let (change, seen_file) = self.replacement(&path, &path, bytes, &file, &patched)?;
        Ok(PlannedFile {
            row: row(path, "edited", &patched, hunks),
            changes: vec![change],
            seen: vec![seen_file],
        })
    }

    fn create(&mut self, path: String, hunks: &[Hunk]) -> Result<PlannedFile, ApplyError> {
        match self.workspace.kind_nofollow(&path) {
            Err(FileError::NotFound { .. }) => {}
            Ok(_) => return Err(FileError::Exists { path }.into()),
            Err(error) => return Err(error.into()),
        }
        seen::check(self.context, &path, None, Extent::Whole)?;
        let patched = self.patched(&path, "", hunks)?;
        let after = patched.text.clone().into_bytes();
        Ok(PlannedFile {
            seen: vec![seen::content(&path, &after)],
            changes: vec![FileChange {
                diff: unified_diff(&path, None, Some(&patched.text)),
                operation: FileOperation::Create {
                    path: path.clone(),
                    after,
                },
            }],
            row: row(path, "created", &patched, hunks),
        })
    }

    fn delete(&mut self, path: String, hunks: &[Hunk]) -> Result<PlannedFile, ApplyError> {
        self.check_regular(&path)?;
        let CurrentFile { bytes, file } = self.read_current(&path, Extent::Part)?;
        let patched = self.patched(&path, &file.text, hunks)?;
        if !patched.text.is_empty() {
            return Err(ApplyError::LinesRemain { path });
        }
        Ok(PlannedFile {
            seen: seen::absence(self.context, &path).into_iter().collect(),
            changes: vec![FileChange {
                diff: unified_diff(&path, Some(&file.text), None),
                operation: FileOperation::Remove {
                    path: path.clone(),
                    before: bytes,
                },
            }],
            row: row(path, "deleted", &patched, hunks),
        })
    }

    fn rename(&mut self, from: String, to: String, hunks: &[Hunk]) -> Result<PlannedFile, ApplyError> {
        self.check_regular(&from)?;
        let extent = match hunks.is_empty() {
            true => Extent::Name,
            false => Extent::Part,
        };
        // A renamed file may be binary.
        let bytes = self.workspace.read(&from)?;
        seen::check(self.context, &from, Some(&bytes), extent)?;
        let mut changes = vec![FileChange {
            operation: FileOperation::Move {
                from: from.clone(),
                to: to.clone(),
                content: bytes.clone(),
            },
            diff: None,
        }];
        let mut seen = seen::moved(self.context, &from, &to);
        let mut lines = Vec::new();
        if !hunks.is_empty() {
            let file = TextFile::decode(&from, &bytes)?;
            let patched = self.patched(&from, &file.text, hunks)?;
            let (change, seen_file) = self.replacement(&from, &to, bytes, &file, &patched)?;
            changes.push(change);
            seen.push(seen_file);
            lines = patched.lines;
        }
        let patched = Patched {
            text: String::new(),
            lines,
        };
        let row = Row {
            from: Some(from),
            ..row(to, "moved", &patched, hunks)
        };
        Ok(PlannedFile { row, changes, seen })
    }

    fn patched(&mut self, path: &str, text: &str, hunks: &[Hunk]) -> Result<Patched, ApplyError> {
        locate::apply(text, hunks, &mut self.budget).map_err(|error| match error {
            LocateError::HunkNotFound(not_found) => ApplyError::HunkNotFound {
                path: path.to_owned(),
                not_found: Box::new(not_found),
            },
            LocateError::BudgetExhausted => ApplyError::SearchBudgetExhausted {
                path: path.to_owned(),
            },
            LocateError::Cancelled => ApplyError::Cancelled,
        })
    }

    /// Plans the replacement of the content of the file at `path`. `known_as` is the path at which the agent
    /// may have seen the file: the old path if the patch renames the file, otherwise `path`.
    fn replacement(
        &self,
        known_as: &str,
        path: &str,
        bytes: Vec<u8>,
        file: &TextFile,
        patched: &Patched,
    ) -> Result<(FileChange, SeenFile), ApplyError> {
        let after = file.encode(&patched.text)?;
        if after == bytes {
            let path = path.to_owned();
            return Err(ApplyError::NoChange { path });
        }
        let first = patched.lines.first().copied().unwrap_or(1);
        let seen_file = SeenFile {
            path: path.to_owned(),
            ..seen::edited(self.context, known_as, &bytes, &after, first)
        };
        let change = FileChange {
            diff: unified_diff(path, Some(&file.text), Some(&patched.text)),
            operation: FileOperation::Replace {
                path: path.to_owned(),
                before: bytes,
                after,
            },
        };
        Ok((change, seen_file))
    }

    fn read_current(&self, path: &str, extent: Extent) -> Result<CurrentFile, ApplyError> {
        let bytes = self.workspace.read(path)?;
        seen::check(self.context, path, Some(&bytes), extent)?;
        let file = TextFile::decode(path, &bytes)?;
        Ok(CurrentFile { bytes, file })
    }

    /// Checks that a file to delete or rename is a regular file, not a link.
    fn check_regular(&self, path: &str) -> Result<(), FileError> {
        let path = path.to_owned();
        match self.workspace.kind_nofollow(&path)? {
            EntryKind::File => Ok(()),
            EntryKind::Folder => Err(FileError::IsFolder { path }),
            EntryKind::Other => Err(FileError::NotAFile {
                path,
                kind: "a link, a pipe, a device or a socket",
            }),
        }
    }
}

fn row(path: String, change: &'static str, patched: &Patched, hunks: &[Hunk]) -> Row {
    let count = |is: fn(&HunkLine) -> bool| {
        let lines = hunks.iter().flat_map(|hunk| &hunk.lines);
        lines.filter(|line| is(line)).count()
    };
    Row {
        path,
        change,
        from: None,
        lines: patched.lines.clone(),
        added: count(|line| matches!(line, HunkLine::Added(_))),
        removed: count(|line| matches!(line, HunkLine::Removed(_))),
    }
}
