//! The `execute_command` tool: one program with its arguments, run in the workspace, with an end that is certain.
//!
//! It never starts a shell, never hands a secret of its own environment to the program, never holds more than a bounded
//! part of the output, and never leaves a process of the program's group behind.

mod capture;
mod environment;
mod group;
mod program;

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use dirigent_core::tool::{Access, StateChange, ToolResult};
use process_wrap::tokio::{CommandWrap, KillOnDrop, ProcessGroup};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use self::capture::Capture;
use self::group::{Ended, Group};
use crate::workspace::{FileFault, Kind, Workspace};
use crate::{Sandbox, ToolContext, TypedTool, typed};

const DEFAULT_TIMEOUT_SECONDS: u64 = 120;
const MAX_TIMEOUT_SECONDS: u64 = 3600;

const DESCRIPTION: &str = "Runs a program with arguments in the workspace and returns its exit code and output. \
    `command` is the list of the program and each of its arguments, without a shell: pipes, `&&`, globs and variables \
    need an explicit [\"sh\", \"-c\", \"…\"]. Its input is empty; of long output the middle is left out. It fails where \
    the exit code is not 0. All processes that it started are ended with it.";

/// The parameters of `execute_command`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Parameters {
    /// The program and its arguments, one element each: ["cargo", "test", "--quiet"].
    #[schemars(length(min = 1))]
    command: Vec<String>,
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

/// The tool `execute_command`: runs a program without a shell, in a process group of its own, with a clean
/// environment.
///
/// Its output is `{"exit_code": n|null, "signal": n|null, "stdout", "stderr", "timed_out": bool, "duration_ms": n}`,
/// and `"note"` where a process that the program left behind still held its output open. Any end but exit code 0 is a
/// failure with the same output. Unix only.
pub fn execute_command(_sandbox: &Sandbox) -> TypedTool {
    typed("execute_command", DESCRIPTION, execute)
        .access(Access::Execute)
        .example(json!({"command": ["cargo", "test", "--quiet"], "timeout_seconds": 300}))
}

async fn execute(context: ToolContext, parameters: Parameters) -> ToolResult {
    let mut group = match start(&context, &parameters) {
        Ok(group) => group,
        Err(error) => return ToolResult::failure(error),
    };
    let limit = Duration::from_secs(parameters.timeout_seconds);
    let started = Instant::now();
    let (mut stdout, mut stderr) = (Capture::default(), Capture::default());
    let ended = group.run(limit, &context.cancel, &mut stdout, &mut stderr).await;
    let output = Output {
        ended,
        stdout: stdout.into_text(),
        stderr: stderr.into_text(),
        duration: started.elapsed(),
    };
    output.into_result(&parameters)
}

/// Checks the call and starts the program.
fn start(context: &ToolContext, parameters: &Parameters) -> Result<Group, String> {
    match context.access {
        Access::ReadOnly => {
            return Err(
                "commands may change files, and this agent may only look; nothing was run".to_owned(),
            );
        }
        Access::Execute | Access::ReadWrite => {}
    }
    let timeout = parameters.timeout_seconds;
    if !(1..=MAX_TIMEOUT_SECONDS).contains(&timeout) {
        return Err(format!(
            "`timeout_seconds` is {timeout}; it must be 1 to {MAX_TIMEOUT_SECONDS}"
        ));
    }
    let Some((program, arguments)) = parameters.command.split_first() else {
        return Err("`command` is empty; its first element is the program to run".to_owned());
    };
    let folder = working_directory(&context.workspace, parameters.working_directory.as_deref())
        .map_err(|fault| format!("`working_directory`: {fault}"))?;
    let search = environment::search_path();
    let path = program::locate(program, &folder, &search)?;

    let mut command = CommandWrap::with_new(&path, |command| {
        command
            .arg0(program)
            .args(arguments)
            .current_dir(&folder)
            .env_clear()
            .envs(environment::clean(std::env::vars_os()))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
    });
    command.wrap(KillOnDrop).wrap(ProcessGroup::leader());
    let child = command
        .spawn()
        .map_err(|error| format!("`{}` could not be started: {error}", path.display()))?;
    Ok(Group::new(child))
}

/// The folder to run in, with all links followed. A command is not confined to it, yet a model that names a folder
/// outside is mistaken about where it is.
fn working_directory(workspace: &Path, wanted: Option<&str>) -> Result<PathBuf, FileFault> {
    let workspace = Workspace::open(workspace)?;
    let wanted = wanted.unwrap_or(".");
    match workspace.kind(wanted)? {
        Kind::Folder => {
            let folder = workspace.root().join(workspace.canonical(wanted)?);
            // The components leave out the `.` of the workspace itself.
            Ok(folder.components().collect())
        }
        Kind::File | Kind::Other => Err(FileFault::NotAFolder {
            path: wanted.to_owned(),
        }),
    }
}

/// What came of a program that was started.
struct Output {
    ended: Ended,
    stdout: String,
    stderr: String,
    duration: Duration,
}

impl Output {
    fn into_result(self, parameters: &Parameters) -> ToolResult {
        let command = program::display(&parameters.command);
        let code = self.ended.status().and_then(|status| status.code());
        let error = self.error(&command, parameters.timeout_seconds);
        let output = self.into_json(code);
        let result = match error {
            None => ToolResult::success(output),
            Some(error) => ToolResult::failure(error).with_output(output),
        };
        result.with_changes(vec![StateChange::ProcessExited { command, code }])
    }

    /// What is wrong with how it ended; nothing for exit code 0.
    fn error(&self, command: &str, timeout_seconds: u64) -> Option<String> {
        match &self.ended {
            Ended::Exited { status, .. } => fault(*status).map(|fault| format!("`{command}` {fault}")),
            Ended::TimedOut(_) => Some(format!(
                "`{command}` ran past its {timeout_seconds} s and was ended with all that it had started"
            )),
            Ended::Cancelled(_) => Some(format!("`{command}` was ended, as the call was cancelled")),
            Ended::Lost(error) => Some(format!(
                "`{command}` was started, but how it ended is unknown: {error}"
            )),
        }
    }

    fn into_json(self, code: Option<i32>) -> Value {
        let mut output = json!({
            "exit_code": code,
            "signal": self.ended.status().and_then(|status| status.signal()),
            "stdout": self.stdout,
            "stderr": self.stderr,
            "timed_out": matches!(self.ended, Ended::TimedOut(_)),
            "duration_ms": u64::try_from(self.duration.as_millis()).unwrap_or(u64::MAX),
        });
        if let Ended::Exited { left_open: true, .. } = self.ended {
            output["note"] = Value::from(
                "it left a process behind that held its output open; what that wrote later is not here, and it was \
                 ended unless it had detached itself",
            );
        }
        output
    }
}

fn fault(status: ExitStatus) -> Option<String> {
    match (status.code(), status.signal()) {
        (Some(0), _) => None,
        (Some(code), _) => Some(format!("exited with {code}")),
        (None, Some(signal)) => Some(format!("was ended by signal {signal}")),
        (None, None) => Some(format!("ended with {status}")),
    }
}
