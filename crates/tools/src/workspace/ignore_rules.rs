//! The ignore files of the workspace (`.ignore`, `.gitignore`, `.git/info/exclude`).
//!
//! They are read through the workspace jail and only up to a size limit. So an ignore file that is a pipe, a link out of the workspace, or
//! endless does not block a walk.

use std::io::Read;
use std::path::Path;

use cap_std::fs::{Dir, OpenOptions};
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::system::NonBlocking;

/// Maximum size of one ignore file, in bytes and in lines. The rest is not read.
const MAX_BYTES: u64 = 64 * 1024;
const MAX_LINES: usize = 2000;

/// The ignore files of a folder, in descending precedence.
const FILES: [&str; 3] = [".ignore", ".gitignore", ".git/info/exclude"];

/// Index in [`FILES`] of the first ignore file that belongs to git. Unlike the rules of `.ignore`, the rules of git's ignore files do not
/// apply inside nested repositories.
const FIRST_OF_GIT: usize = 1;

/// The rules in the ignore files of one folder.
#[derive(Debug)]
pub(super) struct IgnoreRules {
    /// The rules of each kind of ignore file, in the order of [`FILES`].
    files: [Gitignore; 3],
    is_repository: bool,
}

/// The result of matching a path against ignore rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IgnoreMatch {
    None,
    Ignored,
    /// A rule with `!` includes the path.
    Whitelisted,
}

impl IgnoreRules {
    /// Reads the ignore files of the folder `opened` at `path`, relative to the workspace. Reads at most `remaining_lines` lines and
    /// subtracts them.
    pub(super) fn read(opened: &Dir, path: &Path, remaining_lines: &mut usize) -> Self {
        let is_repository = opened.symlink_metadata(".git").is_ok();
        IgnoreRules {
            files: FILES
                .map(|name| rules(opened, path, name, remaining_lines).unwrap_or_else(Gitignore::empty)),
            is_repository,
        }
    }
}

/// Matches a path against the rules of the folders above it, given from the outermost to the innermost.
pub(super) fn match_ignore<'r>(
    above: impl DoubleEndedIterator<Item = &'r IgnoreRules> + Clone,
    path: &Path,
    is_folder: bool,
) -> IgnoreMatch {
    for file in 0..FILES.len() {
        for rules in above.clone().rev() {
            match rules.files.get(file).map(|rules| rules.matched(path, is_folder)) {
                Some(Match::Ignore(_)) => return IgnoreMatch::Ignored,
                Some(Match::Whitelist(_)) => return IgnoreMatch::Whitelisted,
                Some(Match::None) | None => {}
            }
            if file >= FIRST_OF_GIT && rules.is_repository {
                break;
            }
        }
    }
    IgnoreMatch::None
}

fn rules(opened: &Dir, path: &Path, name: &str, remaining_lines: &mut usize) -> Option<Gitignore> {
    if *remaining_lines == 0 {
        return None;
    }
    let file = opened
        .open_with(name, OpenOptions::new().read(true).nonblocking())
        .ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut bytes).ok()?;
    if bytes.len() as u64 == MAX_BYTES {
        // Drop the last line, because it may be incomplete, and a part of a glob would match other paths.
        bytes.truncate(bytes.iter().rposition(|byte| *byte == b'\n').unwrap_or(0));
    }
    let text = String::from_utf8_lossy(&bytes);
    let mut builder = GitignoreBuilder::new(path);
    for line in text
        .trim_start_matches('\u{feff}')
        .lines()
        .take(MAX_LINES.min(*remaining_lines))
    {
        *remaining_lines -= 1;
        // Invalid globs are ignored.
        let _ = builder.add_line(None, line);
    }
    builder.build().ok()
}
