//! The `git` tool: shows the state and the history of the workspace's repository. It never changes anything.
//!
//! A repository is as untrusted as any file: its settings and attributes can name programs for git to run. The settings and options in
//! [`arguments`] disable all such programs. If a program runs nevertheless, it can write nothing and has no network ([`process`]).

mod arguments;
mod error;
mod parse;
mod process;
mod request;

use dirigent_core::tool::{Access, Repeat, ToolResult};
use serde_json::json;

use self::error::{GitError, GitRunError};
use self::process::Git;
use self::request::Parameters;
use crate::sandbox::{Confinement, Sandbox};
use crate::tool::ToolContext;
use crate::typed::{TypedTool, typed};

const DESCRIPTION: &str = "Shows the state and history of the workspace's git repository and changes nothing. `status` lists the files \
    that differ from the last commit. `diff` compares the working tree with the index or with `revision`; with `staged: true`, the index \
    with the last commit or with `revision`; with a range such as `main..topic`, two revisions. `log` lists commits. `show` shows one \
    commit, or a file at a revision (`revision: \"HEAD~2:src/a.rs\"`). `blame` names the last commit that changed each line of a file.";

/// Creates the read-only tool `git`. A call returns about 64 KiB at most:
///
/// | command | output |
/// | --- | --- |
/// | `status` | `{"branch", "commit", "upstream", "ahead", "behind", "files": [{"path", "index", "working_tree", "from"}]}`; states are `modified`, `added`, `deleted`, `renamed`, `copied`, `type_changed`, `unmerged`, `untracked`; fields without a value and ignored files are omitted |
/// | `diff` | `{"diff"}`, a unified diff; empty if nothing differs |
/// | `log` | `{"commits": [{"commit", "author", "email", "date", "subject", "body"}]}`, newest first |
/// | `show` | `{"commit", "author", "email", "date", "message", "diff"}`, or `{"text"}` for a file, a folder or a tag |
/// | `blame` | `{"path", "lines": [{"line", "commit", "author", "date", "text"}]}`, at most 500 lines |
///
/// A gap in a text states how many characters are omitted; `left_out` counts the omitted rows of a list. Git's output past 4 MiB is not
/// read: in this case, a text ends with a note, and `left_out` is a string such as `"at least 12"`.
///
/// The workspace must be the root of its repository, because git would show files outside the workspace if the repository's root were above
/// it. Submodules are ignored.
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
/// | `broke_down` | the tool failed internally |
pub fn git(sandbox: &Sandbox) -> TypedTool {
    let confinement = sandbox.confinement;
    typed("git", DESCRIPTION, move |context, parameters| {
        execute(context, parameters, confinement)
    })
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
        .map_err(|error| GitRunError::BrokeDown(error.to_string()))??;
    let git = Git::new(workspace, confinement, &context.cancel)?;
    let settings = git.run(arguments::list_settings(), &[]).await?;
    if settings.truncated {
        return Err(GitError::TooManySettings);
    }
    let filters = parse::filter_names(&settings.bytes);
    let output = git.run(arguments::command(&request), &filters).await?;
    Ok(ToolResult::success(parse::parse(&request, &output)))
}
