//! How a call of `execute_command` ends: after a timeout, cancelled or dropped, and with all processes that the command has started (HOST-8).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Duration;

use dirigent_core::tool::{StateChange, ToolOutcome, ToolResult};
use dirigent_tools::{Sandbox, Tool, ToolContext, execute_command};
use serde_json::json;
use tempfile::TempDir;

use crate::execute_command::{HANG, error, run, run_in, shell, stdout};
use crate::folder::{context, printed};

/// The timeout of calls that exceed it: longer than any program needs to start, shorter than [`HANG`].
const LIMIT: Duration = Duration::from_secs(60);

fn code(result: &ToolResult) -> &str {
    match &result.outcome {
        ToolOutcome::Success { .. } => "",
        ToolOutcome::Failure { code, .. } => code,
    }
}

/// A named pipe that the processes of a test hold open for writing. It reaches its end when the last of them has ended.
struct Lifeline {
    path: PathBuf,
}

impl Lifeline {
    fn new(workspace: &TempDir) -> Self {
        let path = workspace.path().join("lifeline");
        let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        Lifeline { path }
    }

    /// Waits for the first holder, then until it has written `ready`.
    async fn ready(&self) -> File {
        let path = self.path.clone();
        let opened = tokio::task::spawn_blocking(move || {
            let mut file = File::open(path).unwrap();
            let mut word = [0; 5];
            file.read_exact(&mut word).unwrap();
            assert_eq!(&word, b"ready");
            file
        });
        tokio::time::timeout(HANG, opened).await.expect("ready").unwrap()
    }

    /// Returns when no process holds the pipe open.
    async fn all_gone(mut file: File) {
        let gone = tokio::task::spawn_blocking(move || file.read_to_end(&mut Vec::new()).unwrap());
        tokio::time::timeout(HANG, gone)
            .await
            .expect("all are gone")
            .unwrap();
    }
}

/// A process and its child, which both ignore SIGTERM and hold the lifeline open.
const STUBBORN: &str = r#"exec 3>lifeline
trap "" TERM
(while :; do sleep 1000; done) &
printf ready >&3
while :; do sleep 1000; done"#;

/// More output than a pipe's buffer: once it is written, the call is reading, so its timeout is running.
const FLOOD: &str = "head -c 2000000 /dev/zero | tr '\\0' x; ";

/// The test's clock, which has passed the limit and is paused until this is dropped.
struct Stopped {
    _blocked: mpsc::Sender<()>,
}

impl Stopped {
    async fn past_the_limit() -> Self {
        let (blocked, until) = mpsc::channel();
        // When the runtime is idle, a paused clock advances by itself, but not while a blocking task runs.
        tokio::task::spawn_blocking(move || until.recv_timeout(HANG));
        tokio::time::pause();
        tokio::time::advance(LIMIT).await;
        Stopped { _blocked: blocked }
    }
}

#[tokio::test]
async fn host_8_a_timeout_ends_a_grandchild_that_ignores_sigterm() {
    let workspace = TempDir::new().unwrap();
    let lifeline = Lifeline::new(&workspace);
    let script = format!("{FLOOD}{STUBBORN}");
    let call = run(
        &workspace,
        json!({"command": ["sh", "-c", script], "timeout_seconds": LIMIT.as_secs()}),
    );
    let (result, holders) = tokio::join!(call, async {
        let holders = lifeline.ready().await;
        drop(Stopped::past_the_limit().await);
        tokio::time::resume();
        holders
    });

    assert!(
        error(&result)
            .ends_with("did not end within 60 s, so it was killed with all processes that it had started")
    );
    assert_eq!(code(&result), "timed_out");
    assert!(matches!(
        &result.changes[..],
        [StateChange::ProcessExited { code: None, .. }]
    ));
    Lifeline::all_gone(holders).await;
}

#[tokio::test]
async fn after_a_timeout_a_program_can_handle_sigterm_before_it_is_killed() {
    let workspace = TempDir::new().unwrap();
    let lifeline = Lifeline::new(&workspace);
    let script = format!(
        r#"{FLOOD}trap "echo cleaned up; exit 3" TERM; echo started
        exec 3>lifeline; printf ready >&3; while :; do sleep 0.05; done"#
    );
    let call = run(
        &workspace,
        json!({"command": ["sh", "-c", script], "timeout_seconds": LIMIT.as_secs()}),
    );
    // The call has all the time it needs: the clock is paused until the call ends.
    let (result, _stopped) = tokio::join!(call, async {
        lifeline.ready().await;
        Stopped::past_the_limit().await
    });

    assert!(!result.succeeded());
    assert_eq!(code(&result), "timed_out");
    let stdout = stdout(&result);
    assert!(stdout.ends_with("xstarted\ncleaned up\n"));
}

#[tokio::test]
async fn the_output_is_kept_if_the_callers_time_ends_before_the_timeout() {
    let workspace = TempDir::new().unwrap();
    let lifeline = Lifeline::new(&workspace);
    let context = ToolContext {
        deadline: Some(tokio::time::Instant::now() + LIMIT),
        ..context(workspace.path())
    };
    let script = format!("{FLOOD}echo so far; {STUBBORN}");
    let call = run_in(
        context,
        json!({"command": ["sh", "-c", script], "timeout_seconds": 3600}),
    );
    let (result, holders) = tokio::join!(call, async {
        let holders = lifeline.ready().await;
        drop(Stopped::past_the_limit().await);
        tokio::time::resume();
        holders
    });

    assert!(
        error(&result).contains("did not end within the remaining time of this agent or of the call"),
        "{result:?}"
    );
    assert!(stdout(&result).ends_with("xso far\n"));
    assert_eq!(code(&result), "timed_out");
    Lifeline::all_gone(holders).await;
}

#[tokio::test]
async fn host_8_a_cancelled_call_ends_the_whole_group() {
    let workspace = TempDir::new().unwrap();
    let lifeline = Lifeline::new(&workspace);
    let context = context(workspace.path());
    let cancel = context.cancel.clone();
    let call = run_in(context, json!({"command": ["sh", "-c", STUBBORN]}));
    let (result, holders) = tokio::join!(call, async {
        let holders = lifeline.ready().await;
        cancel.cancel();
        holders
    });

    assert!(error(&result).ends_with("was killed because the call was cancelled"));
    assert_eq!(code(&result), "cancelled");
    Lifeline::all_gone(holders).await;
}

#[tokio::test]
async fn host_8_a_dropped_call_ends_the_whole_group() {
    let workspace = TempDir::new().unwrap();
    let lifeline = Lifeline::new(&workspace);
    let call = tokio::spawn(execute_command(&Sandbox::default()).call(
        context(workspace.path()),
        json!({"command": ["sh", "-c", STUBBORN]}),
    ));
    let holders = lifeline.ready().await;
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());

    Lifeline::all_gone(holders).await;
}

#[tokio::test]
async fn processes_in_a_programs_group_are_ended_with_the_program() {
    let workspace = TempDir::new().unwrap();
    let lifeline = Lifeline::new(&workspace);
    let script = "exec 3>lifeline; sleep 1000 >/dev/null 2>&1 & printf ready >&3; echo done";
    let (result, holders) = tokio::join!(shell(&workspace, script), lifeline.ready());

    assert!(result.succeeded());
    assert_eq!(stdout(&result), "done\n");
    Lifeline::all_gone(holders).await;
}

#[tokio::test]
async fn host_8_a_daemon_with_its_own_session_ends_with_the_call() {
    let workspace = TempDir::new().unwrap();
    let lifeline = Lifeline::new(&workspace);
    // The daemon keeps both output pipes, has left the process group and the session, has lost its parent, and has none of the environment.
    let script = "setsid env -i sh -c 'exec 3>lifeline; trap \"\" TERM HUP; (printf ready >&3; sleep 1000) &' & \
                  until [ -e started ]; do sleep 0.01; done; echo done";
    let started = workspace.path().join("started");
    let (result, holders) = tokio::join!(shell(&workspace, script), async {
        let holders = lifeline.ready().await;
        std::fs::write(started, "").unwrap();
        holders
    });

    assert!(result.succeeded(), "{result:?}");
    assert_eq!(stdout(&result), "done\n");
    // The note may also report that the daemon could not be killed in time.
    let (_, _, note) = printed(&result);
    assert!(
        note.starts_with(
            "the command left a process running that kept its output open; the process was killed"
        ),
        "{note}"
    );
    Lifeline::all_gone(holders).await;
}
