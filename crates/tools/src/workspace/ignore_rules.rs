//! Which files the ignore files of the workspace leave out.
//!
//! Ignore files are read through the jail and only so far: one that is a pipe, leads out or is endless must not stop who walks by.

use std::io::Read;
use std::path::Path;

use cap_std::fs::{Dir, OpenOptions};
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::system::NonBlocking;

/// The most of an ignore file that counts, in bytes and in lines.
const MAX_BYTES: u64 = 64 * 1024;
const MAX_LINES: usize = 2000;

/// The ignore files that a folder can have, the strongest first.
const FILES: [&str; 3] = [".ignore", ".gitignore", ".git/info/exclude"];

/// The first one that git knows too: those stop at the root of a repository.
const FIRST_OF_GIT: usize = 1;

/// What the ignore files of one folder say.
#[derive(Debug)]
pub(super) struct IgnoreRules {
    /// By the place in [`FILES`].
    files: [Gitignore; 3],
    /// Whether the folder is the root of a repository.
    repository: bool,
}

/// What is said of a file or a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IgnoreMatch {
    /// Nothing.
    None,
    /// It is left out.
    Ignored,
    /// It is named as one that is not.
    Whitelisted,
}

impl IgnoreRules {
    /// Those of the folder `opened`, which is at `path` (relative to the workspace). They have `room` lines at most, of which they take what
    /// they have.
    pub(super) fn read(opened: &Dir, path: &Path, room: &mut usize) -> Self {
        let repository = opened.symlink_metadata(".git").is_ok();
        IgnoreRules {
            files: FILES.map(|name| rules(opened, path, name, room).unwrap_or_else(Gitignore::empty)),
            repository,
        }
    }
}

/// What the rules of the folders above it, the outermost first, say of a path.
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
            if file >= FIRST_OF_GIT && rules.repository {
                break;
            }
        }
    }
    IgnoreMatch::None
}

fn rules(opened: &Dir, path: &Path, name: &str, room: &mut usize) -> Option<Gitignore> {
    if *room == 0 {
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
        // A part of a glob is another glob.
        bytes.truncate(bytes.iter().rposition(|byte| *byte == b'\n').unwrap_or(0));
    }
    let text = String::from_utf8_lossy(&bytes);
    let mut builder = GitignoreBuilder::new(path);
    for line in text
        .trim_start_matches('\u{feff}')
        .lines()
        .take(MAX_LINES.min(*room))
    {
        *room -= 1;
        // A line that is no glob says nothing.
        let _ = builder.add_line(None, line);
    }
    builder.build().ok()
}
