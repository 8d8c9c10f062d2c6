//! Working out what each file of a patch becomes. Nothing is written here.

use std::collections::BTreeSet;

use dirigent_core::tool::SeenFile;
use serde::Serialize;

use super::Failure;
use super::parse::{FilePatch, Hunk, Line, PatchKind};
use super::place::{self, Effort, Patched, Unplaced};
use crate::ToolContext;
use crate::file_operations::seen::{self, Extent};
use crate::text::{TextFile, unified_diff};
use crate::together::{Change, What};
use crate::workspace::{FileFault, Kind, Workspace};

/// What becomes of one file.
pub(super) struct Planned {
    pub(super) row: Row,
    pub(super) changes: Vec<Change>,
    /// What the caller knows once they are made.
    pub(super) seen: Vec<SeenFile>,
}

/// What is told of it.
#[derive(Serialize)]
pub(super) struct Row {
    path: String,
    change: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    lines: Vec<usize>,
    added: usize,
    removed: usize,
}

/// What a patch is planned in.
struct Planner<'a> {
    context: &'a ToolContext,
    workspace: &'a Workspace,
    effort: Effort<'a>,
}

/// A file as it is.
struct Present {
    bytes: Vec<u8>,
    file: TextFile,
}

/// What all files of a patch become, in its order. Hunks for the same file in several parts count as if they stood in one.
pub(super) fn plan(
    context: &ToolContext,
    workspace: &Workspace,
    files: Vec<FilePatch>,
    allowed: &[String],
) -> Result<Vec<Planned>, Failure> {
    let mut planner = Planner {
        context,
        workspace,
        effort: Effort::new(&context.cancel),
    };
    let allowed: Vec<String> = allowed
        .iter()
        .map(|path| workspace.canonical(path))
        .collect::<Result<_, _>>()?;
    let mut merged: Vec<FilePatch> = Vec::with_capacity(files.len());
    for file in files {
        let file = planner.with_plain_names(file)?;
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
            return Err(Failure::NotNamed {
                path: path.to_owned(),
            });
        }
        if !named.insert(path.to_owned()) {
            return Err(Failure::Twice {
                path: path.to_owned(),
            });
        }
    }
    merged.into_iter().map(|file| planner.file(file)).collect()
}

fn is_among(allowed: &[String], path: &str) -> bool {
    let holds = |folder: &String| {
        folder == "."
            || path
                .strip_prefix(folder.as_str())
                .is_some_and(|below| below.is_empty() || below.starts_with('/'))
    };
    allowed.is_empty() || allowed.iter().any(holds)
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

impl Planner<'_> {
    fn with_plain_names(&self, file: FilePatch) -> Result<FilePatch, FileFault> {
        let plain = |path: &str| self.workspace.canonical(path);
        let itself = |path: &str| self.workspace.canonical_of_itself(path);
        let kind = match &file.kind {
            PatchKind::Edit { path } => PatchKind::Edit { path: plain(path)? },
            PatchKind::Create { path } => PatchKind::Create { path: plain(path)? },
            PatchKind::Delete { path } => PatchKind::Delete { path: itself(path)? },
            PatchKind::Move { from, to } => PatchKind::Move {
                from: itself(from)?,
                to: itself(to)?,
            },
        };
        Ok(FilePatch { kind, ..file })
    }

    fn file(&mut self, FilePatch { kind, hunks }: FilePatch) -> Result<Planned, Failure> {
        if self.context.cancel.is_cancelled() {
            return Err(Failure::Cancelled);
        }
        match kind {
            PatchKind::Edit { path } => self.edit(path, &hunks),
            PatchKind::Create { path } => self.create(path, &hunks),
            PatchKind::Delete { path } => self.delete(path, &hunks),
            PatchKind::Move { from, to } => self.rename(from, to, &hunks),
        }
    }

    fn edit(&mut self, path: String, hunks: &[Hunk]) -> Result<Planned, Failure> {
        let Present { bytes, file } = self.present(&path, Extent::Part)?;
        let patched = self.patched(&path, &file.text, hunks)?;
        let (change, known) = self.replacement(&path, &path, bytes, &file, &patched)?;
        Ok(Planned {
            row: row(path, "edited", &patched, hunks),
            changes: vec![change],
            seen: vec![known],
        })
    }

    fn create(&mut self, path: String, hunks: &[Hunk]) -> Result<Planned, Failure> {
        match self.workspace.kind_of_itself(&path) {
            Err(FileFault::NotFound { .. }) => {}
            Ok(_) => return Err(FileFault::Exists { path }.into()),
            Err(fault) => return Err(fault.into()),
        }
        seen::check(self.context, &path, None, Extent::Whole)?;
        let patched = self.patched(&path, "", hunks)?;
        let after = patched.text.clone().into_bytes();
        Ok(Planned {
            seen: vec![seen::content(&path, &after)],
            changes: vec![Change {
                diff: unified_diff(&path, None, Some(&patched.text)),
                what: What::Create {
                    path: path.clone(),
                    after,
                },
            }],
            row: row(path, "created", &patched, hunks),
        })
    }

    fn delete(&mut self, path: String, hunks: &[Hunk]) -> Result<Planned, Failure> {
        self.regular(&path)?;
        let Present { bytes, file } = self.present(&path, Extent::Part)?;
        let patched = self.patched(&path, &file.text, hunks)?;
        if !patched.text.is_empty() {
            return Err(Failure::MoreLeft { path });
        }
        Ok(Planned {
            seen: seen::absence(self.context, &path).into_iter().collect(),
            changes: vec![Change {
                diff: unified_diff(&path, Some(&file.text), None),
                what: What::Remove {
                    path: path.clone(),
                    before: bytes,
                },
            }],
            row: row(path, "deleted", &patched, hunks),
        })
    }

    fn rename(&mut self, from: String, to: String, hunks: &[Hunk]) -> Result<Planned, Failure> {
        self.regular(&from)?;
        let extent = match hunks.is_empty() {
            true => Extent::Name,
            false => Extent::Part,
        };
        // A file that is only renamed need not be text.
        let bytes = self.workspace.read(&from)?;
        seen::check(self.context, &from, Some(&bytes), extent)?;
        let mut changes = vec![Change {
            what: What::Move {
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
            let (change, known) = self.replacement(&from, &to, bytes, &file, &patched)?;
            changes.push(change);
            seen.push(known);
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
        Ok(Planned { row, changes, seen })
    }

    fn patched(&mut self, path: &str, text: &str, hunks: &[Hunk]) -> Result<Patched, Failure> {
        place::apply(text, hunks, &mut self.effort).map_err(|unplaced| match unplaced {
            Unplaced::NoPlace(no_place) => Failure::NoPlace {
                path: path.to_owned(),
                no_place: Box::new(no_place),
            },
            Unplaced::TooMuch => Failure::TooMuch {
                path: path.to_owned(),
            },
            Unplaced::Cancelled => Failure::Cancelled,
        })
    }

    /// A file's new content, at a path that may be another than that by which it is known.
    fn replacement(
        &self,
        known_as: &str,
        path: &str,
        bytes: Vec<u8>,
        file: &TextFile,
        patched: &Patched,
    ) -> Result<(Change, SeenFile), Failure> {
        let after = file.encode(&patched.text)?;
        if after == bytes {
            let path = path.to_owned();
            return Err(Failure::Same { path });
        }
        let first = patched.lines.first().copied().unwrap_or(1);
        let known = SeenFile {
            path: path.to_owned(),
            ..seen::edited(self.context, known_as, &bytes, &after, first)
        };
        let change = Change {
            diff: unified_diff(path, Some(&file.text), Some(&patched.text)),
            what: What::Replace {
                path: path.to_owned(),
                before: bytes,
                after,
            },
        };
        Ok((change, known))
    }

    fn present(&self, path: &str, extent: Extent) -> Result<Present, Failure> {
        let bytes = self.workspace.read(path)?;
        seen::check(self.context, path, Some(&bytes), extent)?;
        let file = TextFile::decode(path, &bytes)?;
        Ok(Present { bytes, file })
    }

    /// What goes or gets another name is a file, not a link to one.
    fn regular(&self, path: &str) -> Result<(), FileFault> {
        let path = path.to_owned();
        match self.workspace.kind_of_itself(&path)? {
            Kind::File => Ok(()),
            Kind::Folder => Err(FileFault::IsFolder { path }),
            Kind::Other => Err(FileFault::NotAFile {
                path,
                kind: "a link, a pipe, a device or a socket",
            }),
        }
    }
}

fn row(path: String, change: &'static str, patched: &Patched, hunks: &[Hunk]) -> Row {
    let count = |is: fn(&Line) -> bool| {
        let lines = hunks.iter().flat_map(|hunk| &hunk.lines);
        lines.filter(|line| is(line)).count()
    };
    Row {
        path,
        change,
        from: None,
        lines: patched.lines.clone(),
        added: count(|line| matches!(line, Line::Added(_))),
        removed: count(|line| matches!(line, Line::Removed(_))),
    }
}
