//! The `git` tool: shows the state and the history of the workspace's repository. It never changes anything.
//!
//! A repository is as untrusted as any file: its settings and attributes can name programs for git to run. The settings and options in
//! [`arguments`] disable all such programs. If a program runs nevertheless, it can write nothing and has no network ([`process`]).

mod arguments;
mod error;
mod linked;
mod merge;
mod parse;
mod process;
mod repository;
mod request;
mod summary;

use dirigent_core::tool::{Access, Repeat, ToolCategory, ToolResult};
use serde_json::json;

use self::error::{GitError, GitRunError};
pub(crate) use self::linked::LinkedRepository;
pub use self::merge::WorktreeChanges;
use self::process::Git;
pub use self::repository::{Repository, RepositoryError};
use self::request::Parameters;
pub use self::summary::repository_summary;
use crate::sandbox::{Confinement, Sandbox};
use crate::tool::ToolContext;
use crate::typed::{TypedTool, typed};

const DESCRIPTION: &str = "Shows the state and history of the workspace's git repository. `diff` compares the working tree, or with \
    `staged` the index, with `revision`. `show` shows a commit, or a file at a revision (`HEAD~2:src/a.rs`). `blame` takes one of `paths`, \
    and lines.";

/// Creates the read-only tool `git`. A call returns about 64 KiB at most:
///
/// | command | output |
/// | --- | --- |
/// | `status` | `On main at 0123456789ab; upstream origin/main, ahead 1`, then one line per file, as `git status --short` prints it; ignored files are omitted |
/// | `diff` | a unified diff, or `No differences` |
/// | `log` | `COMMIT DATE AUTHOR <EMAIL> SUBJECT` for each commit, newest first, with its body indented below it |
/// | `show` | the commit as git prints it, or the text of a file, a folder or a tag |
/// | `blame` | `LINE`, `COMMIT DAY AUTHOR` and the line's text, separated by tabs; at most 500 lines |
///
/// A gap in text states how many characters are omitted; a list ends with the number of omitted rows. Git's output past 4 MiB is not
/// read: in this case, text ends with a note, and the number of omitted rows is a minimum.
///
/// The workspace must be the root of its repository, because git would show files outside the workspace if the repository's root were above
/// it. A linked worktree is accepted if its repository knows it. Submodules are ignored.
///
/// | code | meaning |
/// | --- | --- |
/// | `bad_parameters` | a revision that begins with `-`, no path for blame, and the like |
/// | `no_repository` | the workspace has no `.git` |
/// | `outside_workspace` | the repository's root is not the workspace, or a path leads out of the workspace |
/// | `exited` | git failed: no such revision, a broken repository |
/// | `not_found` | git is not installed on this machine |
/// | `no_sandbox`, `denied` | git could not be started in the sandbox |
/// | `refused` | the repository has too many settings to check |
/// | `timed_out`, `cancelled` | git was killed |
/// | `broke_down` | internal error in the tool |
pub fn git(sandbox: &Sandbox) -> TypedTool {
    let confinement = sandbox.confinement;
    typed("git", DESCRIPTION, move |context, parameters| {
        execute(context, parameters, confinement)
    })
    .category(ToolCategory::Git)
    .access(Access::ReadOnly)
    .repeat(Repeat::Safe)
    .example(json!({"command": "log", "paths": ["src/main.rs"], "max_count": 5}))
}

async fn execute(context: ToolContext, parameters: Parameters, confinement: Confinement) -> ToolResult {
    match run(&context, parameters, confinement).await {
        Ok(result) => result,
        Err(error) => ToolResult::failure(error.to_string()).with_code(error.code()),
    }
}

async fn run(
    context: &ToolContext,
    parameters: Parameters,
    confinement: Confinement,
) -> Result<ToolResult, GitError> {
    let root = context.workspace.clone();
    let request = tokio::task::spawn_blocking(move || request::check(&root, parameters));
    let (workspace, request) = request
        .await
        .map_err(|error| GitRunError::Internal(error.to_string()))??;
    let git = Git::new(workspace, confinement, &context.cancel)?;
    let filters = git.filters().await?;
    let output = git.run(arguments::command(&request), &filters).await?;
    Ok(parse::parse(&request, &output))
}
