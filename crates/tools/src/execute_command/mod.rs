//! The `execute_command` tool: one command, run in the workspace and in the sandbox, with an end that is certain.
//!
//! It never hands a secret of its own environment to the program, never holds more than a bounded part of the output, and never leaves a
//! process of the command or a file of its temporary folder behind.

mod capture;
pub(crate) mod environment;
mod error;
mod guard;
mod kept;
mod outcome;
mod process_tree;
pub(crate) mod program;
mod removal;
mod temporary_folder;
mod workspace_snapshot;

use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use dirigent_core::tool::{Access, ToolResult};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use self::capture::Capture;
use self::error::CommandError;
use self::guard::Guard;
use self::outcome::Outcome;
use self::process_tree::{CommandEnd, ProcessTree};
use self::program::CommandLine;
use self::temporary_folder::TemporaryFolder;
use self::workspace_snapshot::WorkspaceSnapshot;
use crate::sandbox::{AccessRules, Program, Sandbox, SandboxSupervisor};
use crate::tool::ToolContext;
use crate::typed::{TypedTool, typed};
use crate::workspace::{EntryKind, FileError, Workspace};

const DEFAULT_TIMEOUT_SECONDS: u64 = 120;
const MAX_TIMEOUT_SECONDS: u64 = 3600;

/// How long a cancelled call may look for the files that were changed.
const CANCELLED_SCAN_TIME: Duration = Duration::from_millis(100);

const DESCRIPTION: &str = "Runs a command in the workspace and returns its exit code and output. \
    `command` is the list of a program and each of its arguments, or one string for a shell (`sh -c`) where pipes, `&&`, globs or \
    variables are needed. Unless the user allowed more, it can write in the workspace and in $TMPDIR alone and has no network. Its \
    input is empty; of long output the middle is left out. It fails where the exit code is not 0. All processes that it started are \
    ended with it.";

/// The parameters of `execute_command`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Parameters {
    /// What to run: a list of the program and its arguments, or one string for a shell.
    command: CommandLine,
    /// The folder to run it in, relative to the workspace; the workspace itself by default.
    #[serde(default)]
    working_directory: Option<String>,
    /// After how many seconds it is ended.
    #[serde(default = "default_timeout")]
    #[schemars(range(min = 1, max = MAX_TIMEOUT_SECONDS))]
    timeout_seconds: u64,
}

fn default_timeout() -> u64 {
    DEFAULT_TIMEOUT_SECONDS
}

/// The tool `execute_command`: runs a program, or a line by `sh -c`, in the [`Sandbox`], with a clean environment.
///
/// Its output is `{"exit_code": n|null, "signal": n|null, "stdout", "stderr", "timed_out": bool, "duration_ms": n}`,
/// and `"note"` where there is something to know of what the command left behind. Any end but exit code 0 is a failure with the same
/// output. For operators there are `confined` and `network`. Unix only; the sandbox is Linux's.
///
/// Its changes are the files that were created, edited or deleted meanwhile and are not ignored, as far as their names, sizes and times
/// tell (by anybody: what else works in the workspace counts, too), and then its end. Of more than 20,000 files, or of more than a
/// cancelled call has time for, nothing is told (`files` is `"too many"` for operators), of more than 200 changes the first (`changes_left_out`).
///
/// Git's hooks and settings, `.dirigent`, `.claude` and `dirigent.toml` are as before when a command is over, whatever it or another
/// command at the same time did to them; the note names what was put back, and what is too much to be guarded as a whole. Of
/// repositories deeper in the workspace that holds for hooks and settings; one that a command makes has neither.
///
/// | code | what was wrong |
/// | --- | --- |
/// | `exited` | it ended with another exit code than 0, by a signal, or in a way that the system does not tell |
/// | `timed_out` | it ran past its time and was ended |
/// | `cancelled` | nobody waits for it, so it was ended |
/// | `no_guard` | git's hooks and settings cannot be kept, as they are too much or cannot be read; nothing was run |
/// | `no_sandbox` | the system cannot confine commands, and they are not to run without; nothing was run |
/// | `access_denied` | the agent may only look; nothing was run |
/// | `bad_parameters` | an empty command or an impossible time; nothing was run |
/// | `outside_workspace` | the working directory is not in the workspace; nothing was run |
/// | `not_found` | no such program or working directory; nothing was run |
/// | another of [`FileError::code`](crate::workspace::FileError::code) | what is wrong with the working directory; nothing was run |
/// | `denied` | the system does not start it: permissions, a script's missing interpreter, or a program that the sandbox does not let it read; nothing was run |
pub fn execute_command(sandbox: &Sandbox) -> TypedTool {
    let sandbox = sandbox.clone();
    let call = move |context, parameters| execute(context, parameters, sandbox.clone());
    typed("execute_command", DESCRIPTION, call)
        .access(Access::Execute)
        .example(json!({"command": ["cargo", "test", "--quiet"], "timeout_seconds": 300}))
}

/// Runs in a task of its own: should nobody wait any more, that goes on until all is ended and put back, and nobody else is held up.
async fn execute(context: ToolContext, parameters: Parameters, sandbox: Sandbox) -> ToolResult {
    let cancel = context.cancel.child_token();
    let _cancelled_when_dropped = cancel.clone().drop_guard();
    let context = ToolContext { cancel, ..context };
    let work = tokio::spawn(async move {
        match run(&context, &parameters, &sandbox).await {
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
) -> Result<Outcome, CommandError> {
    check(context, parameters)?;
    let root = context.workspace.clone();
    // Should nobody wait for the end, this is dropped after the processes, which it must not race with.
    let snapshot = spawn_blocking(move || Ok((Guard::take(&root)?, WorkspaceSnapshot::take(&root))));
    let (guard, files) = snapshot
        .await
        .and_then(|snapshot| snapshot)
        .map_err(CommandError::NoGuard)?;
    let mut process_tree = start(context, parameters, sandbox).await?;
    let limit = Duration::from_secs(parameters.timeout_seconds);
    let started = Instant::now();
    let (mut stdout, mut stderr) = (Capture::default(), Capture::default());
    let ended = process_tree
        .run(limit, &context.cancel, &mut stdout, &mut stderr)
        .await;
    let duration = started.elapsed();
    let remaining = process_tree.remaining();
    let root = context.workspace.clone();
    let scan_deadline = match &ended {
        CommandEnd::Cancelled(_) => Some(Instant::now() + CANCELLED_SCAN_TIME),
        CommandEnd::Exited { .. } | CommandEnd::TimedOut(_) | CommandEnd::Unknown(_) => None,
    };
    let after = spawn_blocking(move || (guard.put_back(), files.compare(&root, scan_deadline)));
    let removed = spawn_blocking(move || drop(process_tree));
    let (put_back, changed) = after.await.unwrap_or_default();
    if scan_deadline.is_none() {
        let _ = removed.await;
    }
    Ok(Outcome {
        command: parameters.command.display(),
        ended,
        remaining,
        stdout: stdout.into_text(),
        stderr: stderr.into_text(),
        put_back,
        changed,
        duration,
        timeout_seconds: parameters.timeout_seconds,
    })
}

/// Runs what blocks on a thread for it, from now on, whether its end is waited for or not.
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
    let Some((program, arguments)) = parameters.command.program_and_arguments() else {
        return Err(CommandError::BadParameters(
            "`command` is empty; it begins with the program to run".to_owned(),
        ));
    };
    let workspace = Workspace::open(&context.workspace).map_err(CommandError::WorkingDirectory)?;
    let folder = working_directory(&workspace, parameters.working_directory.as_deref())
        .map_err(CommandError::WorkingDirectory)?;
    let search = environment::search_path();
    let path = program::locate(program, &folder, &search).map_err(CommandError::ProgramNotFound)?;
    let temporary = TemporaryFolder::new().map_err(CommandError::NoTemporaryFolder)?;
    let rules = AccessRules::new(sandbox, workspace.root(), temporary.path(), &search, |name| {
        std::env::var_os(name)
    });

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

/// The folder to run in, with all links followed. A model that names a folder outside is mistaken about where it is.
fn working_directory(workspace: &Workspace, wanted: Option<&str>) -> Result<PathBuf, FileError> {
    let wanted = wanted.unwrap_or(".");
    match workspace.kind(wanted)? {
        EntryKind::Folder => {
            let folder = workspace.root().join(workspace.canonical(wanted)?);
            // The components leave out the `.` of the workspace itself.
            Ok(folder.components().collect::<PathBuf>())
        }
        EntryKind::File | EntryKind::Other => Err(FileError::NotAFolder {
            path: wanted.to_owned(),
        }),
    }
}
