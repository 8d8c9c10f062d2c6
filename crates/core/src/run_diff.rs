//! The net changes that a run made to files, as shown to its reflector (PAOR-6).

use serde::{Deserialize, Serialize};

use crate::file_changes::FileChangeKind;
use crate::text::shorten;

/// Maximum number of characters of all diffs.
const MAX_DIFFS: usize = 20_000;
/// Maximum number of characters of the paths of the files whose diffs are left out.
const MAX_PATHS: usize = 4_000;

/// The net changes that a run made to files. Limited in size, because they are journaled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReflectorDiff {
    /// The changed files, ordered by path.
    #[serde(default)]
    pub files: Vec<DiffedFile>,
    /// The number of changed files that are not in `files`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub omitted: usize,
    /// Why the diff could not be read; `None` if it was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The net change of a file or a moved folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiffedFile {
    /// The path relative to the workspace.
    pub path: String,
    /// The kind of the change; `None` for a moved folder, and for a file that is as before the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<FileChangeKind>,
    /// The commands that were running when the file changed, whoever changed the file; empty if only file tools changed it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub during: Vec<String>,
    /// False if the file changed only while commands ran.
    #[serde(default = "by_default", skip_serializing_if = "Clone::clone")]
    pub by_file_tools: bool,
    /// The number of added lines.
    pub added: usize,
    /// The number of removed lines.
    pub removed: usize,
    /// The diff in git's format; `None` if there was no room for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

fn by_default() -> bool {
    true
}

impl DiffedFile {
    /// Creates the entry of a file from its diff, and counts the changed lines.
    pub fn new(path: String, kind: Option<FileChangeKind>, diff: String) -> Self {
        let in_hunks = diff.lines().skip_while(|line| !line.starts_with("@@"));
        let (mut added, mut removed) = (0, 0);
        for line in in_hunks {
            added += usize::from(line.starts_with('+'));
            removed += usize::from(line.starts_with('-'));
        }
        DiffedFile {
            path,
            kind,
            during: Vec::new(),
            by_file_tools: true,
            added,
            removed,
            diff: Some(diff),
        }
    }

    /// Records that the file changed while these commands ran.
    pub fn during(self, commands: Vec<String>, by_file_tools: bool) -> Self {
        DiffedFile {
            during: commands,
            by_file_tools,
            ..self
        }
    }

    fn size(&self) -> usize {
        self.diff.as_ref().map_or(0, |diff| diff.chars().count())
    }
}

impl ReflectorDiff {
    /// Limits the total size of the diffs. Keeps whole diffs, smallest first, and omits the others. If not even the smallest one fits,
    /// truncates it.
    pub fn bounded(mut files: Vec<DiffedFile>) -> ReflectorDiff {
        files.sort_by(|one, other| one.path.cmp(&other.path));
        let mut by_size: Vec<&mut DiffedFile> = files.iter_mut().collect();
        by_size.sort_by_key(|file| file.size());
        let mut room = MAX_DIFFS;
        for file in by_size {
            let size = file.size();
            if size <= room {
                room -= size;
            } else if room == MAX_DIFFS {
                file.diff = file
                    .diff
                    .take()
                    .map(|diff| shorten(&diff, MAX_DIFFS, None).into_owned());
                room = 0;
            } else {
                file.diff = None;
            }
        }
        let mut paths = MAX_PATHS;
        let all = files.len();
        files.retain(|file| {
            let size = file.path.chars().count();
            let is_listed = file.diff.is_some() || size <= paths;
            if file.diff.is_none() && is_listed {
                paths -= size;
            }
            is_listed
        });
        ReflectorDiff {
            omitted: all - files.len(),
            files,
            error: None,
        }
    }

    /// Returns true if every changed file has its whole diff.
    pub(crate) fn is_whole(&self) -> bool {
        let is_whole = |file: &DiffedFile| file.diff.as_ref().is_some_and(|_| file.size() < MAX_DIFFS);
        self.error.is_none() && self.omitted == 0 && self.files.iter().all(is_whole)
    }

    /// Creates the value for a diff that could not be read.
    pub fn unreadable(error: impl Into<String>) -> ReflectorDiff {
        ReflectorDiff {
            error: Some(shorten(&error.into(), 1_000, None).into_owned()),
            ..ReflectorDiff::default()
        }
    }
}
