//! The net changes that a run made to files, as shown to its reflector (PAOR-6).

use serde::{Deserialize, Serialize};

use crate::file_changes::FileChangeKind;
use crate::text::{one_line, shorten, single_line};
use crate::tool::display_path;

/// Maximum number of characters of all diffs.
const MAX_DIFFS: usize = 20_000;
/// Maximum number of characters of the paths of the files whose diffs are left out.
const MAX_PATHS: usize = 4_000;
/// Maximum number of characters of a command.
const MAX_COMMAND: usize = 300;

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
        let (added, removed) = changed_lines(&diff);
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

    /// Returns the kind of the net change, as shown to models.
    pub(crate) fn net_kind(&self) -> String {
        match self.kind {
            Some(kind) => kind.to_string(),
            None => "as before the run".to_owned(),
        }
    }

    fn size(&self) -> usize {
        self.diff.as_ref().map_or(0, |diff| diff.chars().count())
    }
}

/// Counts the added and the removed lines in the hunks of a diff of one or more parts.
fn changed_lines(diff: &str) -> (usize, usize) {
    let (mut added, mut removed) = (0, 0);
    // The lines that the current hunk still has of the file before and after the change.
    let (mut before, mut after) = (0_usize, 0_usize);
    for line in diff.lines() {
        if before == 0 && after == 0 {
            (before, after) = hunk_lengths(line).unwrap_or_default();
            continue;
        }
        match line.as_bytes().first() {
            Some(b'+') => (added, after) = (added + 1, after.saturating_sub(1)),
            Some(b'-') => (removed, before) = (removed + 1, before.saturating_sub(1)),
            Some(b'\\') => {}
            Some(_) | None => (before, after) = (before.saturating_sub(1), after.saturating_sub(1)),
        }
    }
    (added, removed)
}

/// Returns the numbers of lines before and after the change from the first line of a hunk: 3 and 1 for `@@ -1,3 +1 @@`. `None` for any
/// other line.
fn hunk_lengths(line: &str) -> Option<(usize, usize)> {
    let (before, rest) = line.strip_prefix("@@ -")?.split_once(" +")?;
    let (after, _) = rest.split_once(" @@")?;
    let length = |range: &str| match range.split_once(',') {
        Some((_, length)) => length.parse().ok(),
        None => Some(1),
    };
    Some((length(before)?, length(after)?))
}

/// The commands that were running when files changed, each with a number, so that the text of a command occurs once.
#[derive(Debug, Default)]
pub struct NumberedCommands<'a>(Vec<&'a str>);

impl<'a> NumberedCommands<'a> {
    /// Numbers the commands of these files in the order in which they occur.
    pub fn new(files: impl IntoIterator<Item = &'a DiffedFile>) -> Self {
        let mut commands: Vec<&str> = Vec::new();
        for command in files.into_iter().flat_map(|file| &file.during) {
            if !commands.contains(&command.as_str()) {
                commands.push(command);
            }
        }
        NumberedCommands(commands)
    }

    /// Returns a line for each command: its number and its text, which is cut if it is long.
    pub fn lines(&self) -> Vec<String> {
        let lines = (1..).zip(&self.0);
        lines
            .map(|(number, command)| format!("{number}. `{}`", single_line(&one_line(command), MAX_COMMAND)))
            .collect()
    }

    /// Returns the first line of a file's diff, which says when the file changed; `None` if only file tools changed it.
    pub fn title(&self, file: &DiffedFile) -> Option<String> {
        let during = self.while_running(file)?;
        let by_file_tools = match file.by_file_tools {
            true => "changed by file tools, and ",
            false => "changed ",
        };
        let now = match (file.kind, file.diff.as_deref()) {
            (None, None | Some("")) => "; now it is as before the run",
            (Some(_) | None, _) => "",
        };
        Some(format!(
            "# {}: {by_file_tools}{during}{now}",
            display_path(&file.path)
        ))
    }

    /// Returns when the file changed: "while command 1 ran"; `None` if only file tools changed it.
    pub(crate) fn while_running(&self, file: &DiffedFile) -> Option<String> {
        let number = |command: &String| self.0.iter().position(|known| known == command);
        let mut numbers: Vec<usize> = file.during.iter().filter_map(number).collect();
        numbers.sort_unstable();
        let numbers: Vec<String> = numbers.iter().map(|number| (number + 1).to_string()).collect();
        match numbers.as_slice() {
            [] => None,
            [one] => Some(format!("while command {one} ran")),
            [others @ .., last] => Some(format!("while commands {} and {last} ran", others.join(", "))),
        }
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
