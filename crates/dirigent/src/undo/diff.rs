//! What a run changed, as one diff.

use dirigent_core::digest::sha256_hex;
use dirigent_core::id::RunId;
use dirigent_core::tool::{FileVersion, display_path};
use dirigent_core::undo::{MoveBack, PathState, RestorePath, RestoreStep};
use dirigent_store::Journal;
use dirigent_tools::diff::git_diff;
use dirigent_tools::workspace::Workspace;

use super::{RecordedChanges, UnfinishedCall};
use crate::DirigentError;

/// What a run changed in files; [`crate::Dirigent::diff`] makes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunDiff {
    /// Each path that is not what it was; of a folder that was moved the folder alone.
    pub files: Vec<FileDiff>,
    /// Calls of the run that may have changed something and could not say what.
    pub unfinished: Vec<UnfinishedCall>,
}

/// What a run changed at one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileDiff {
    /// Which.
    pub path: String,
    /// A diff in git's form: bytes, as files are. Lines before it that begin with `#` say what there is to know and no diff tells.
    pub diff: Vec<u8>,
}

impl RunDiff {
    pub(crate) fn load(journal: &Journal, run: RunId, to: Option<u64>) -> Result<RunDiff, DirigentError> {
        let changes = RecordedChanges::load(journal, run, to)?;
        // It may be gone.
        let workspace = Workspace::open(&changes.workspace).ok();
        let reader = ContentReader { journal, workspace };
        let mut files = Vec::new();
        for step in &changes.undoing.steps {
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
                            "# {} may have been changed by the call {}, which was cut off:\n",
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
        // Of an empty folder no diff tells.
        files.retain(|file| !file.diff.is_empty());
        files.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(RunDiff {
            files,
            unfinished: changes.unfinished,
        })
    }

    /// All of it: `git apply -R` takes it.
    pub fn bytes(&self) -> Vec<u8> {
        self.files
            .iter()
            .flat_map(|file| file.diff.iter().copied())
            .collect()
    }
}

/// Finds contents where they are.
struct ContentReader<'a> {
    journal: &'a Journal,
    workspace: Option<Workspace>,
}

impl ContentReader<'_> {
    /// Before the first change against after the last, where both are there; else the changes one by one.
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

    /// What has become of a file since that version.
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

/// What was at a path.
enum Content {
    /// That is not known any more.
    Unknown,
    /// No file.
    Absent,
    /// That, with its mode.
    File(Vec<u8>, u32),
}

impl Content {
    /// One side of a diff.
    fn side(&self) -> Option<(&[u8], u32)> {
        match self {
            Content::Unknown | Content::Absent => None,
            Content::File(bytes, mode) => Some((bytes, *mode)),
        }
    }
}

/// The diffs as the tools told them.
fn reported_diffs(path: &str, diffs: &[Option<String>]) -> Vec<u8> {
    let mut text = format!(
        "# {}: its content after the run is not known any more; its changes one by one:\n",
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
