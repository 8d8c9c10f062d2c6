//! The `git` tool: what a repository says of its files and their history. It never changes anything.
//!
//! A repository is as untrusted as any file: its settings and attributes name programs that git would run. None of them is run, by what
//! git is told ([`arguments`]); and should one be all the same, it finds nothing writable and no network ([`process`]).

mod arguments;
mod parse;
mod process;

use dirigent_core::tool::{Access, Repeat, ToolResult, code};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use self::process::{Git, GitRunError};
use crate::sandbox::{Confinement, Sandbox};
use crate::tool::ToolContext;
use crate::typed::{TypedTool, typed};
use crate::workspace::{EntryKind, FileError, Workspace};

const DESCRIPTION: &str = "Looks at the workspace's git repository and changes nothing. `status` says which files differ from the last commit; \
    `diff` shows how: the working tree against the index or `revision`, with `staged: true` the index, or with a `revision` like `main..topic` \
    two of them; `log` lists commits; `show` shows one commit, or a file as it was (`revision: \"HEAD~2:src/a.rs\"`); `blame` says of each \
    line of a file which commit it is from.";

/// The parameters of all commands in one flat object; which of them count is up to the command.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Parameters {
    /// What to look at.
    command: Command,
    /// diff, log, show, blame: a commit, branch, tag or range, such as `HEAD~3`, `main..topic`; for show also `REVISION:PATH`.
    revision: Option<String>,
    /// diff: whether to compare the index, not the working tree.
    #[serde(default)]
    staged: bool,
    /// status, diff, log, show: only these files and folders. blame: the one file.
    #[serde(default)]
    paths: Vec<String>,
    /// log: how many commits at the most; default 20.
    #[schemars(range(min = 1, max = MAX_COMMITS))]
    max_count: Option<usize>,
    /// blame: the first line, from 1.
    #[schemars(range(min = 1))]
    start_line: Option<usize>,
    /// blame: the last line.
    #[schemars(range(min = 1))]
    end_line: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Command {
    Status,
    Diff,
    Log,
    Show,
    Blame,
}

/// The most commits of one log.
const MAX_COMMITS: usize = 200;
/// The most lines of one blame.
const MAX_BLAMED: usize = 500;
/// The longest revision, in bytes.
const MAX_REVISION: usize = 250;

/// The tool `git`, which only looks. What its calls return, at most about 64 KiB of it:
///
/// | command | output |
/// | --- | --- |
/// | `status` | `{"branch", "commit", "upstream", "ahead", "behind", "files": [{"path", "index", "working_tree", "from"}]}`, states being `modified`, `added`, `deleted`, `renamed`, `copied`, `type_changed`, `unmerged`, `untracked`; what is not so is left out, as are ignored files |
/// | `diff` | `{"diff"}`, a unified diff, empty where nothing differs |
/// | `log` | `{"commits": [{"commit", "author", "email", "date", "subject", "body"}]}`, the newest first |
/// | `show` | `{"commit", "author", "email", "date", "message", "diff"}`, or `{"text"}` for a file, a folder or a tag |
/// | `blame` | `{"path", "lines": [{"line", "commit", "author", "date", "text"}]}`, at most 500 lines |
///
/// A gap in a text says how many characters are left out; `left_out` counts the rows of a list that are. Of an output past 4 MiB the rest is
/// not read: a text says so at its end, and `left_out` is then a string, `"at least 12"`.
///
/// The workspace must be the root of its repository: one that begins above it would show what is outside. Submodules are not entered.
///
/// | code | meaning |
/// | --- | --- |
/// | `bad_parameters` | a revision that begins with `-`, no path for blame, and the like |
/// | `no_repository` | the workspace has no `.git` |
/// | `outside_workspace` | the repository is above the workspace or elsewhere, or a path leads out |
/// | `exited` | git said no: no such revision, a broken repository |
/// | `not_found` | there is no git on this machine |
/// | `no_sandbox`, `denied` | git could not be started in the sandbox |
/// | `refused` | the repository's settings are too many to look through |
/// | `timed_out`, `cancelled` | it was ended |
/// | `broke_down` | the tool's own code did |
pub fn git(sandbox: &Sandbox) -> TypedTool {
    let confinement = sandbox.confinement;
    typed("git", DESCRIPTION, move |context, parameters| {
        execute(context, parameters, confinement)
    })
    .access(Access::ReadOnly)
    .repeat(Repeat::Safe)
    .example(json!({"command": "log", "paths": ["src/main.rs"], "max_count": 5}))
}

/// Why there is nothing to show.
#[derive(Debug, thiserror::Error)]
enum GitError {
    #[error("`revision` is `{0}`: give a commit, branch, tag or range, such as `HEAD~1` or `main..topic`")]
    InvalidRevision(String),
    #[error("blame needs exactly one file in `paths`")]
    BlameNeedsOneFile,
    #[error("lines are counted from 1, and `end_line` is not before `start_line`")]
    InvalidLines,
    #[error(
        "the workspace is no git repository: there is no `.git` in it. A command can make one by `git init`"
    )]
    NoRepository,
    #[error(
        "the git repository begins outside of the workspace, which would show what is outside: its root must be the workspace"
    )]
    RepositoryOutside,
    #[error(
        "the repository has more settings than can be looked through for programs that git would run: `.git/config` must be shorter"
    )]
    TooManySettings,
    #[error(transparent)]
    Path(#[from] FileError),
    #[error(transparent)]
    Run(#[from] GitRunError),
}

impl GitError {
    fn code(&self) -> &'static str {
        match self {
            GitError::InvalidRevision(_) | GitError::BlameNeedsOneFile | GitError::InvalidLines => {
                code::BAD_PARAMETERS
            }
            GitError::NoRepository => "no_repository",
            GitError::RepositoryOutside => "outside_workspace",
            GitError::TooManySettings => code::REFUSED,
            GitError::Path(error) => error.code(),
            GitError::Run(run_error) => run_error.code(),
        }
    }
}

/// A call whose parameters were looked at: a revision and paths that git takes for nothing else.
struct GitRequest {
    command: Command,
    revision: Option<String>,
    staged: bool,
    paths: Vec<String>,
    max_count: usize,
    lines: (usize, usize),
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
    let request = tokio::task::spawn_blocking(move || check(&root, parameters));
    let (workspace, request) = request
        .await
        .map_err(|error| GitRunError::BrokeDown(error.to_string()))??;
    let git = Git::new(workspace, confinement, &context.cancel)?;
    let named = git.run(arguments::list_settings(), &[]).await?;
    if named.truncated {
        return Err(GitError::TooManySettings);
    }
    let filters = parse::filter_names(&named.bytes);
    let output = git.run(arguments::command(&request), &filters).await?;
    Ok(ToolResult::success(parse::parse(&request, &output)))
}

/// The workspace's root, links resolved, and what is asked. It blocks.
fn check(
    root: &std::path::Path,
    parameters: Parameters,
) -> Result<(std::path::PathBuf, GitRequest), GitError> {
    let workspace = Workspace::open(root)?;
    match workspace.kind_nofollow(".git") {
        Ok(EntryKind::Folder) => {}
        // A file or a link leads to a repository somewhere else.
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
    let revision = parameters.revision.map(revision).transpose()?;
    let paths: Vec<String> = parameters
        .paths
        .iter()
        .map(|path| workspace.canonical_nofollow(path))
        .collect::<Result<_, _>>()?;
    if parameters.command == Command::Blame && paths.len() != 1 {
        return Err(GitError::BlameNeedsOneFile);
    }
    let first = parameters.start_line.unwrap_or(1);
    let most = first.saturating_add(MAX_BLAMED - 1);
    let last = parameters.end_line.unwrap_or(most).min(most);
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

/// A revision that git cannot take for an option.
fn revision(text: String) -> Result<String, GitError> {
    let is_fine = !text.is_empty()
        && text.len() <= MAX_REVISION
        && !text.starts_with('-')
        && !text.contains(char::is_control);
    match is_fine {
        true => Ok(text),
        false => Err(GitError::InvalidRevision(
            text.chars().take(MAX_REVISION).collect(),
        )),
    }
}
