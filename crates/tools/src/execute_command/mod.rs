//! The `execute_command` tool: runs one command in the workspace and in the sandbox.
//!
//! It never passes secrets from Dirigent's environment to the command, and stores only a bounded part of the output. When the
//! command has ended, the tool kills the processes that the command left behind and deletes the command's temporary folder.

mod capture;
mod content_cache;
mod description;
mod environment;
mod error;
mod file_snapshot;
mod guard;
mod outcome;
mod plain_text;
mod process_tree;
mod program;
mod temporary_folder;
mod time_limit;
mod workspace_snapshot;

use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use dirigent_core::tool::{Access, ToolCategory, ToolResult};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

pub use self::environment::short_environment;

use self::capture::Capture;
use self::content_cache::ContentCaches;
use self::error::CommandError;
use self::guard::Guard;
use self::outcome::Outcome;
use self::process_tree::{CommandEnd, ProcessTree};
use self::program::{CommandLine, Shell};
use self::temporary_folder::TemporaryFolder;
use self::time_limit::TimeLimit;
use self::workspace_snapshot::{WorkspaceSnapshot, known_paths};
use crate::git::LinkedRepository;
use crate::sandbox::{AccessRules, Program, Sandbox, SandboxSupervisor, locate_program, search_path};
use crate::tool::ToolContext;
use crate::typed::{TypedTool, typed};
use crate::workspace::{EntryKind, FileError, Workspace};

const DEFAULT_TIMEOUT_SECONDS: u64 = 120;
const MAX_TIMEOUT_SECONDS: u64 = 3600;

/// Time limit for scanning for changed files after a cancelled call.
const CANCELLED_SCAN_TIME: Duration = Duration::from_millis(100);

/// The parameters of `execute_command`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Parameters {
    command: CommandLine,
    #[serde(default)]
    working_directory: Option<String>,
    #[serde(default = "default_timeout")]
    #[schemars(range(min = 1, max = MAX_TIMEOUT_SECONDS))]
    timeout_seconds: u64,
}

fn default_timeout() -> u64 {
    DEFAULT_TIMEOUT_SECONDS
}

/// Creates the tool `execute_command`, which runs a program or a shell line in the [`Sandbox`] with a clean environment.
///
/// A line for a shell runs with `pipefail`: in bash or, if there is no bash, in `sh`, if that supports it.
///
/// The output is what the command printed, without escape sequences and with only the last state of progress
/// bars. Standard error follows a line `stderr:`; if the command printed to both streams, standard output
/// follows a line `stdout:`. Lines `Note: …` at the top are about leftover processes and restored files. The
/// output of a killed command contains what the command printed until then. Any outcome other than exit code
/// 0 is a failure with the same output, and its error states the exit code. Metadata for operators:
/// `confined` and `network`. Unix only; commands can be confined on Linux only.
///
/// The reported change is the command's exit, with the files that were created, edited or deleted while the
/// command was running. These files are detected by name, size and time, so changes by other processes count
/// as well; ignored files do not. The changed files are unknown (metadata `files: "too many"`) if the
/// workspace has more than 20,000 files, or more than a cancelled call has time to scan. At most 200 are
/// listed (metadata `changes_left_out`). The earlier content of a file is known if the agent has seen the
/// file or the run has changed it. It is recorded if the file changed.
///
/// Git's hooks and settings, `.dirigent`, `.claude`, `dirigent.toml` and `.mcp.json` are restored after a command if it, or another command at the same
/// time, changed them. The note lists the restored paths and those too large to be protected completely. In nested repositories, only git's
/// hooks and settings are restored. A repository that a command creates remains, but its hooks and settings are removed.
///
/// | code | meaning |
/// | --- | --- |
/// | `exited` | the exit code is not 0, a signal killed the command, or its exit status is unknown |
/// | `timed_out` | the command was killed after its timeout |
/// | `cancelled` | the call was cancelled, and the command killed |
/// | `no_guard` | git's hooks and settings cannot be protected: they are too large or unreadable; nothing was run |
/// | `no_sandbox` | the settings require confinement, but the system cannot confine commands; nothing was run |
/// | `access_denied` | the agent has read-only access; nothing was run |
/// | `bad_parameters` | an empty command or an invalid timeout; nothing was run |
/// | `outside_workspace` | the working directory is not in the workspace; nothing was run |
/// | `not_found` | no such program or working directory; nothing was run |
/// | another of [`FileError::code`](crate::workspace::FileError::code) | the working directory cannot be used; nothing was run |
/// | `denied` | the system did not start the program: missing permissions, a script's missing interpreter, or a file that the sandbox does not let it read; nothing was run |
/// | `broke_down` | the tool failed internally |
pub fn execute_command(sandbox: &Sandbox) -> TypedTool {
    let description = description::description(sandbox);
    let sandbox = sandbox.clone();
    let contents = ContentCaches::default();
    let call = move |context, parameters| execute(context, parameters, sandbox.clone(), contents.clone());
    typed("execute_command", description, call)
        .category(ToolCategory::Commands)
        .access(Access::Execute)
        .example(json!({"command": ["cargo", "test", "--quiet"], "timeout_seconds": 300}))
}

/// Runs the command in a new task. If the returned future is dropped, the command is cancelled, but the task
/// continues until all processes have ended and all protected files are restored.
async fn execute(
    context: ToolContext,
    parameters: Parameters,
    sandbox: Sandbox,
    contents: ContentCaches,
) -> ToolResult {
    let cancel = context.cancel.child_token();
    let _cancelled_when_dropped = cancel.clone().drop_guard();
    let context = ToolContext { cancel, ..context };
    let work = tokio::spawn(async move {
        match run(&context, &parameters, &sandbox, contents).await {
            Ok(outcome) => outcome.into_result(&sandbox),
            Err(error) => error.into_result(),
        }
    });
    match work.await {
        Ok(result) => result,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(error) => CommandError::TaskFailed(error.into()).into_result(),
        },
    }
}

async fn run(
    context: &ToolContext,
    parameters: &Parameters,
    sandbox: &Sandbox,
    contents: ContentCaches,
) -> Result<Outcome, CommandError> {
    check(context, parameters)?;
    let before = context.clone();
    // Declared before the process tree, so that the guard is dropped, and restores files, only after the processes have ended.
    let snapshot = spawn_blocking(move || {
        let known = known_paths(&before);
        let root = &before.workspace;
        Ok((
            Guard::take(root)?,
            WorkspaceSnapshot::take(root, &known, &contents),
        ))
    });
    let (guard, files) = snapshot
        .await
        .and_then(|snapshot| snapshot)
        .map_err(CommandError::NoGuard)?;
    let mut process_tree = start(context, parameters, sandbox).await?;
    let limit = TimeLimit::new(parameters.timeout_seconds, context.deadline);
    let (mut stdout, mut stderr) = (Capture::default(), Capture::default());
    let ended = process_tree
        .run(limit.time, &context.cancel, &mut stdout, &mut stderr)
        .await;
    let remaining = process_tree.remaining();
    let (root, content_store) = (context.workspace.clone(), context.content_store.clone());
    let scan_deadline = match &ended {
        CommandEnd::Cancelled(_) => Some(Instant::now() + CANCELLED_SCAN_TIME),
        CommandEnd::Exited { .. } | CommandEnd::TimedOut(_) | CommandEnd::Unknown(_) => None,
    };
    let after = spawn_blocking(move || {
        let restored = guard.finish();
        let changed = files.compare(&root, scan_deadline, content_store.as_deref());
        (restored, changed)
    });
    let removed = spawn_blocking(move || drop(process_tree));
    let (restored, changed) = after.await.unwrap_or_default();
    if scan_deadline.is_none() {
        let _ = removed.await;
    }
    Ok(Outcome {
        command: parameters.command.display(),
        ended,
        remaining,
        stdout: stdout.into_text(),
        stderr: stderr.into_text(),
        restored,
        changed,
        limit,
    })
}

/// Starts blocking work at once, even if the returned future is never polled.
fn spawn_blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> impl Future<Output = io::Result<T>> {
    let work = tokio::task::spawn_blocking(work);
    async move { work.await.map_err(io::Error::other) }
}

fn check(context: &ToolContext, parameters: &Parameters) -> Result<(), CommandError> {
    match context.access {
        Access::ReadOnly => return Err(CommandError::AccessDenied),
        Access::Execute | Access::ReadWrite => {}
    }
    let timeout = parameters.timeout_seconds;
    if !(1..=MAX_TIMEOUT_SECONDS).contains(&timeout) {
        return Err(CommandError::BadParameters(format!(
            "`timeout_seconds` is {timeout}; it must be 1 to {MAX_TIMEOUT_SECONDS}"
        )));
    }
    Ok(())
}

/// Finds the program and starts it.
async fn start(
    context: &ToolContext,
    parameters: &Parameters,
    sandbox: &Sandbox,
) -> Result<ProcessTree, CommandError> {
    let search = search_path();
    let shell = Shell::find(&search);
    let Some((program, arguments)) = parameters.command.program_and_arguments(shell) else {
        return Err(CommandError::BadParameters(
            "`command` is empty; it must begin with the program to run".to_owned(),
        ));
    };
    let workspace = Workspace::open(&context.workspace).map_err(CommandError::WorkingDirectory)?;
    let folder = working_directory(&workspace, parameters.working_directory.as_deref())
        .map_err(CommandError::WorkingDirectory)?;
    let path = locate_program(program, &folder, &search).map_err(CommandError::ProgramNotFound)?;
    let temporary = TemporaryFolder::new().map_err(CommandError::NoTemporaryFolder)?;
    let mut rules = AccessRules::new(sandbox, workspace.root(), temporary.path(), &search, |name| {
        std::env::var_os(name)
    });
    // In a linked worktree, git needs the repository.
    rules
        .read
        .extend(LinkedRepository::find(workspace.root()).map(|repository| repository.common));

    let environment = environment::sanitized(std::env::vars_os(), sandbox, &rules, &search, temporary.path());
    let program = Program {
        file: path.clone(),
        arguments: arguments.into_iter().map(Into::into).collect(),
        folder,
        environment,
    };
    match SandboxSupervisor::start(sandbox.clone(), rules, program).await {
        Ok((supervisor, child)) => Ok(ProcessTree::new(child, supervisor, temporary)),
        Err(spawn_error) => Err(CommandError::from_spawn_error(
            spawn_error,
            path,
            sandbox.confinement,
        )),
    }
}

/// Returns the folder to run in, with all links resolved.
fn working_directory(workspace: &Workspace, path: Option<&str>) -> Result<PathBuf, FileError> {
    let path = path.unwrap_or(".");
    match workspace.kind(path)? {
        EntryKind::Folder => {
            let folder = workspace.root().join(workspace.canonical(path)?);
            // Collecting the components removes the `.` of the workspace itself.
            Ok(folder.components().collect::<PathBuf>())
        }
        EntryKind::File | EntryKind::Other => Err(FileError::NotAFolder {
            path: path.to_owned(),
        }),
    }
}
