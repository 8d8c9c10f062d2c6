//! The state of the workspace's repository in a line, for people and models.

use std::path::Path;
use std::time::Duration;

use dirigent_core::text::shorten;
use tokio_util::sync::CancellationToken;

use super::error::{GitError, GitRunError};
use super::parse::{Head, short_id};
use super::process::{Git, GitOutput};
use super::{arguments, parse, request};
use crate::sandbox::Confinement;

/// Time limit of each of the two git calls.
const TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum length of a branch's name, in characters.
const MAX_NAME: usize = 100;
/// The states of files in the order of the summary.
const STATES: [&str; 8] = [
    "unmerged",
    "modified",
    "added",
    "deleted",
    "renamed",
    "copied",
    "type changed",
    "untracked",
];

/// Returns the branch and the state of the repository whose root is the workspace, such as
/// `branch main, 2 modified, 1 untracked`. Git runs as in the tool [`git`](super::git()), for two seconds at
/// most. `None` if there is no such repository, or if git fails.
pub async fn repository_summary(workspace: &Path, confinement: Confinement) -> Option<String> {
    summary(workspace, confinement).await.ok()
}

async fn summary(workspace: &Path, confinement: Confinement) -> Result<String, GitError> {
    let root = workspace.to_owned();
    let opened = tokio::task::spawn_blocking(move || request::open_repository(&root));
    let opened = opened
        .await
        .map_err(|error| GitRunError::Internal(error.to_string()))??;
    let cancel = CancellationToken::new();
    let git = Git::new(opened.root().to_owned(), confinement, &cancel)?.timeout(TIMEOUT);
    let output = git.run(arguments::summary(), &git.filters().await?).await?;
    Ok(in_a_line(&output))
}

fn in_a_line(output: &GitOutput) -> String {
    let stdout = String::from_utf8_lossy(&output.bytes);
    let (head, files) = parse::status(parse::complete_rows(&stdout, '\0', output));
    let mut parts = vec![branch(&head)];
    for name in STATES {
        match files.iter().filter(|file| file.state() == name).count() {
            0 => {}
            count => parts.push(format!("{count} {name}")),
        }
    }
    if files.is_empty() {
        parts.push("nothing changed".to_owned());
    }
    if output.truncated {
        parts.push("and more".to_owned());
    }
    parts.join(", ")
}

fn branch(head: &Head) -> String {
    match (head.branch.as_str(), head.commit.as_str()) {
        ("(detached)", commit) => format!("detached at {}", short_id(commit)),
        (branch, "(initial)") => format!("branch {}, no commit yet", shorten(branch, MAX_NAME, None)),
        (branch, _) => format!("branch {}", shorten(branch, MAX_NAME, None)),
    }
}
