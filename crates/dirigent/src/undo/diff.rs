//! The changes of a run as one diff.

use dirigent_core::digest::sha256_hex;
use dirigent_core::id::RunId;
use dirigent_core::tool::{FileVersion, display_path};
use dirigent_core::undo::{MoveBack, PathState, RestorePath, RestoreStep};
use dirigent_store::Journal;
use dirigent_tools::diff::git_diff;
use dirigent_tools::workspace::Workspace;

use super::{RecordedChanges, UnfinishedCall};
use crate::DirigentError;

/// The changes of a run in files, from [`crate::Dirigent::diff`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunDiff {
    /// The changed paths. A moved folder has one entry for the whole folder.
    pub files: Vec<FileDiff>,
    /// The calls that may have changed something without reporting it.
    pub unfinished: Vec<UnfinishedCall>,
}

/// The change of a run at one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileDiff {
    /// The changed path, relative to the workspace.
    pub path: String,
    /// A diff in git's format, as bytes because files need not be UTF-8. Lines that begin with `#` may precede it; they describe changes
    /// that a diff cannot show.
    pub diff: Vec<u8>,
}

impl RunDiff {
    pub(crate) fn load(journal: &Journal, run: RunId, to: Option<u64>) -> Result<RunDiff, DirigentError> {
        let changes = RecordedChanges::load(journal, run, to)?;
        // The workspace may no longer exist.
        let workspace = Workspace::open(&changes.workspace).ok();
        let reader = ContentReader { journal, workspace };
        let mut files = Vec::new();
        for step in &changes.plan.steps {
            files.extend(match step {
                RestoreStep::Restore(restoration) => Some(reader.net_diff(restoration)?),
                RestoreStep::Move(MoveBack { from, to, .. }) => Some(FileDiff {
                    path: from.clone(),
                    diff: format!("# moved {} to {}\n", display_path(to), display_path(from)).into_bytes(),
                }),
            });
        }
        for original in &changes.interrupted {
            if files.iter().any(|file: &FileDiff| file.path == original.path) {
                continue;
            }
            files.extend(
                reader
                    .diff_since(original.path.as_str(), &original.version)?
                    .map(|diff| {
                        let head = format!(
                            "# {} may have been changed by the interrupted call {}:\n",
                            display_path(&original.path),
                            original.effect
                        );
                        FileDiff {
                            path: original.path.clone(),
                            diff: [head.into_bytes(), diff].concat(),
                        }
                    }),
            );
        }
        // A diff does not show empty folders.
        files.retain(|file| !file.diff.is_empty());
        files.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(RunDiff {
            files,
            unfinished: changes.unfinished,
        })
    }

    /// All diffs, in a format that `git apply` accepts.
    pub fn bytes(&self) -> Vec<u8> {
        self.files
            .iter()
            .flat_map(|file| file.diff.iter().copied())
            .collect()
    }
}

/// Reads contents from the journal or the workspace.
struct ContentReader<'a> {
    journal: &'a Journal,
    workspace: Option<Workspace>,
}

impl ContentReader<'_> {
    /// Returns the diff from the content before the first change to the content after the last change. If either content is unknown,
    /// returns the diffs that the tools reported for the individual changes.
    fn net_diff(&self, restoration: &RestorePath) -> Result<FileDiff, DirigentError> {
        let RestorePath {
            path,
            expected,
            original,
            diffs,
            ..
        } = restoration;
        let diff = match (self.content(path, original)?, self.content(path, expected)?) {
            (Content::Unknown, _) | (_, Content::Unknown) => reported_diffs(path, diffs),
            (before, after) => git_diff(path, before.side(), after.side()),
        };
        Ok(FileDiff {
            path: path.clone(),
            diff,
        })
    }

    /// Returns the diff from a version of a file to its content in the workspace; `None` if they are equal or unknown.
    fn diff_since(&self, path: &str, version: &FileVersion) -> Result<Option<Vec<u8>>, DirigentError> {
        let Some(workspace) = &self.workspace else {
            return Ok(None);
        };
        let (Some(before), Ok(there)) = (self.journal.content(&version.digest)?, workspace.path_state(path))
        else {
            return Ok(None);
        };
        if there == PathState::File(version.clone()) {
            return Ok(None);
        }
        let before = Some((before.as_slice(), version.mode));
        let after = self.content(path, &there)?;
        Ok(Some(git_diff(path, before, after.side())))
    }

    fn content(&self, path: &str, there: &PathState) -> Result<Content, DirigentError> {
        let version = match there {
            PathState::Nothing | PathState::Folder => return Ok(Content::Absent),
            PathState::Unknown => return Ok(Content::Unknown),
            PathState::File(version) => version,
        };
        if let Some(bytes) = self.journal.content(&version.digest)? {
            return Ok(Content::File(bytes, version.mode));
        }
        let bytes = self
            .workspace
            .as_ref()
            .and_then(|workspace| workspace.read(path).ok())
            .filter(|bytes| sha256_hex(bytes) == version.digest);
        Ok(bytes.map_or(Content::Unknown, |bytes| Content::File(bytes, version.mode)))
    }
}

/// The content of a path.
enum Content {
    /// A file whose content is neither in the journal nor in the workspace.
    Unknown,
    /// No file.
    Absent,
    /// The bytes and the mode of a file.
    File(Vec<u8>, u32),
}

impl Content {
    /// Returns the content and the mode as one side of a diff; `None` if there is no file.
    fn side(&self) -> Option<(&[u8], u32)> {
        match self {
            Content::Unknown | Content::Absent => None,
            Content::File(bytes, mode) => Some((bytes, *mode)),
        }
    }
}

/// Formats the diffs that the tools reported.
fn reported_diffs(path: &str, diffs: &[Option<String>]) -> Vec<u8> {
    let mut text = format!(
        "# {}: its content after the run is unknown; its changes one by one:\n",
        display_path(path)
    );
    for diff in diffs {
        match diff {
            Some(diff) => text.push_str(diff),
            None => text.push_str("# (no diff: not text, or too long)\n"),
        }
        if !text.ends_with('\n') {
            text.push('\n');
        }
    }
    text.into_bytes()
}
