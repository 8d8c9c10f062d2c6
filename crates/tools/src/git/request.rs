//! The parameters of a call, and their validation.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;

use super::error::GitError;
use super::linked::LinkedRepository;
use crate::workspace::{EntryKind, FileError, Workspace};

/// Maximum number of commits in one log.
const MAX_COMMITS: usize = 200;
/// Maximum number of lines in one blame.
const MAX_BLAMED: usize = 500;
/// Maximum length of a revision, in bytes.
const MAX_REVISION: usize = 250;

/// The parameters of all commands in one flat object. Each command uses only some of them.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Parameters {
    command: Command,
    /// Also a range: `main..topic`.
    revision: Option<String>,
    #[serde(default)]
    staged: bool,
    #[serde(default)]
    paths: Vec<String>,
    /// log: default 20.
    #[schemars(range(min = 1, max = MAX_COMMITS))]
    max_count: Option<usize>,
    #[schemars(range(min = 1))]
    start_line: Option<usize>,
    #[schemars(range(min = 1))]
    end_line: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Command {
    Status,
    Diff,
    Log,
    Show,
    Blame,
}

/// A call with validated parameters. Git cannot mistake its revision or paths for options.
pub(super) struct GitRequest {
    pub(super) command: Command,
    pub(super) revision: Option<String>,
    pub(super) staged: bool,
    pub(super) paths: Vec<String>,
    pub(super) max_count: usize,
    /// The first and the last line of a blame.
    pub(super) lines: (usize, usize),
}

/// Opens the workspace if it is the root of a repository. Blocks.
pub(super) fn open_repository(root: &Path) -> Result<Workspace, GitError> {
    let workspace = Workspace::open(root)?;
    match workspace.kind_nofollow(".git") {
        Ok(EntryKind::Folder) => {}
        Ok(EntryKind::File) if LinkedRepository::find(workspace.root()).is_some() => {}
        // Any other `.git` file or link points to a repository elsewhere.
        Ok(EntryKind::File | EntryKind::Other) => return Err(GitError::RepositoryOutside),
        Err(FileError::NotFound { .. }) => {
            let mut above = workspace.root().ancestors().skip(1);
            return Err(match above.any(|folder| folder.join(".git").exists()) {
                true => GitError::RepositoryOutside,
                false => GitError::NoRepository,
            });
        }
        Err(error) => return Err(error.into()),
    }
    Ok(workspace)
}

/// Returns the workspace's root with links resolved, and the checked request. Blocks.
pub(super) fn check(root: &Path, parameters: Parameters) -> Result<(PathBuf, GitRequest), GitError> {
    let workspace = open_repository(root)?;
    let revision = parameters.revision.map(check_revision).transpose()?;
    let paths: Vec<String> = parameters
        .paths
        .iter()
        .map(|path| workspace.canonical_nofollow(path))
        .collect::<Result<_, _>>()?;
    if parameters.command == Command::Blame && paths.len() != 1 {
        return Err(GitError::BlameNeedsOneFile);
    }
    let first = parameters.start_line.unwrap_or(1);
    let limit = first.saturating_add(MAX_BLAMED - 1);
    let last = parameters.end_line.unwrap_or(limit).min(limit);
    if first == 0 || last < first {
        return Err(GitError::InvalidLines);
    }
    let request = GitRequest {
        command: parameters.command,
        revision,
        staged: parameters.staged,
        paths,
        max_count: parameters.max_count.unwrap_or(20).clamp(1, MAX_COMMITS),
        lines: (first, last),
    };
    Ok((workspace.root().to_owned(), request))
}

/// Returns the revision. Fails if the revision is empty, too long, contains control characters or could be mistaken for an option.
fn check_revision(text: String) -> Result<String, GitError> {
    let is_valid = !text.is_empty()
        && text.len() <= MAX_REVISION
        && !text.starts_with('-')
        && !text.contains(char::is_control);
    match is_valid {
        true => Ok(text),
        false => Err(GitError::InvalidRevision(
            text.chars().take(MAX_REVISION).collect(),
        )),
    }
}
