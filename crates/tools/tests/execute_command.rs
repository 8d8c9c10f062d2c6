//! `execute_command` through the public [`Tool`] trait, on real processes: what it runs and refuses, and what the model is told.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::ffi::OsStr;
use std::time::Duration;

use crate::folder::{context, printed};
use dirigent_core::tool::{Access, Repeat, StateChange, ToolOutcome, ToolResult};
use dirigent_tools::{Confinement, Sandbox, Tool, ToolContext, execute_command};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A timeout that only a hang reaches.
pub(crate) const HANG: Duration = Duration::from_secs(120);

pub(crate) async fn run(workspace: &TempDir, parameters: Value) -> ToolResult {
    run_in(context(workspace.path()), parameters).await
}

pub(crate) async fn run_in(context: ToolContext, parameters: Value) -> ToolResult {
    let call = execute_command(&Sandbox::default()).call(context, parameters);
    tokio::time::timeout(HANG, call).await.expect("the call ends")
}

pub(crate) async fn shell(workspace: &TempDir, script: &str) -> ToolResult {
    run(workspace, json!({"command": ["sh", "-c", script]})).await
}

pub(crate) fn stdout(result: &ToolResult) -> String {
    printed(result).0
}

pub(crate) fn error(result: &ToolResult) -> &str {
    match &result.outcome {
        ToolOutcome::Success { output } => panic!("it succeeded: {output}"),
        ToolOutcome::Failure { error, .. } => error,
    }
}

#[test]
fn an_interrupted_call_is_not_repeated() {
    assert_eq!(execute_command(&Sandbox::default()).spec().repeat, Repeat::Unsafe);
}

#[tokio::test]
async fn exit_code_0_is_a_success_with_both_streams() {
    let workspace = TempDir::new().unwrap();
    let result = shell(&workspace, "echo out; echo err >&2").await;

    assert!(result.succeeded());
    let (stdout, stderr, note) = printed(&result);
    assert_eq!((stdout.as_str(), stderr.as_str()), ("out\n", "err\n"));
    // A process of another test may hold the output open for a moment.
    assert!(
        note.is_empty() || note.starts_with("the command left a process running"),
        "{note}"
    );
    assert_eq!(
        result.changes,
        [StateChange::ProcessExited {
            command: "sh -c 'echo out; echo err >&2'".to_owned(),
            code: Some(0),
            files: Vec::new(),
        }]
    );
}

#[tokio::test]
async fn a_nonzero_exit_code_is_a_failure_with_the_output() {
    let workspace = TempDir::new().unwrap();
    let result = shell(&workspace, "echo why; exit 101").await;

    assert_eq!(error(&result), "`sh -c 'echo why; exit 101'` exited with 101");
    assert_eq!(stdout(&result), "why\n");
}

#[tokio::test]
async fn the_failure_of_a_command_killed_by_a_signal_names_the_signal() {
    let workspace = TempDir::new().unwrap();
    let result = shell(&workspace, "kill -9 $$").await;

    assert_eq!(error(&result), "`sh -c 'kill -9 $$'` was killed by signal 9");
}

#[tokio::test]
async fn arguments_reach_the_program_without_a_shell() {
    let workspace = TempDir::new().unwrap();
    let result = run(
        &workspace,
        json!({"command": ["printf", "%s|", "a b", "$HOME", "*"]}),
    )
    .await;
    assert_eq!(stdout(&result), "a b|$HOME|*|");
}

#[tokio::test]
async fn a_command_has_empty_input() {
    let workspace = TempDir::new().unwrap();
    let result = run(&workspace, json!({"command": ["cat"]})).await;
    assert!(result.succeeded());
    assert_eq!(stdout(&result), "");
}

#[tokio::test]
async fn the_beginning_and_the_end_of_a_long_output_are_stored() {
    let workspace = TempDir::new().unwrap();
    let result = shell(
        &workspace,
        "echo first; head -c 5000000 /dev/zero | tr '\\0' x; echo; echo last; head -c 1000000 /dev/zero | tr '\\0' y >&2",
    )
    .await;

    let stdout = stdout(&result);
    assert!(stdout.starts_with("first\nxxx"));
    assert!(stdout.ends_with("xxx\nlast\n"));
    // 6 + 5,000,000 + 1 + 5 bytes, of which 2 × 131,072 are stored.
    assert!(
        stdout.contains("x\n… [4737868 bytes left out] …\nx"),
        "{}",
        stdout.len()
    );
    assert_eq!(stdout.len(), 262_144 + "\n… [4737868 bytes left out] …\n".len());
    let (_, stderr, _) = printed(&result);
    assert!(stderr.contains("… [737856 bytes left out] …"));
}

#[tokio::test]
async fn colours_and_progress_bars_are_not_shown() {
    let workspace = TempDir::new().unwrap();
    let script = r"printf '10 %%\r50 %%\r100 %%\n\033[31mred\033[0m\n'";
    assert_eq!(stdout(&shell(&workspace, script).await), "100 %\nred\n");
}

#[tokio::test]
async fn a_long_command_is_shown_once_by_its_beginning() {
    let workspace = TempDir::new().unwrap();
    let script = format!("exit 3 # {}", "x".repeat(200));
    let result = shell(&workspace, &script).await;
    assert_eq!(
        error(&result),
        format!("`sh -c 'exit 3 # {}…` exited with 3", "x".repeat(63))
    );
    let shown = result.for_model().to_string();
    assert_eq!(shown.matches("exit 3").count(), 1, "{shown}");
}

#[tokio::test]
async fn output_that_is_not_utf_8_is_shown_as_far_as_possible() {
    let workspace = TempDir::new().unwrap();
    let result = shell(&workspace, r"printf 'a\377b'").await;
    assert_eq!(stdout(&result), "a\u{fffd}b");
}

#[tokio::test]
async fn a_command_given_as_a_string_is_run_by_the_shell() {
    let workspace = TempDir::new().unwrap();
    let result = run(&workspace, json!({"command": "echo a b | tr a-z A-Z && exit 3"})).await;
    assert_eq!(error(&result), "`echo a b | tr a-z A-Z && exit 3` exited with 3");
    assert_eq!(stdout(&result), "A B\n");
}

#[tokio::test]
async fn a_pipeline_with_a_failing_command_fails() {
    let workspace = TempDir::new().unwrap();
    let result = run(&workspace, json!({"command": "(echo no; exit 3) | cat"})).await;
    assert_eq!(error(&result), "`(echo no; exit 3) | cat` exited with 3");
    assert_eq!(stdout(&result), "no\n");
    let result = run(&workspace, json!({"command": "yes | head -n 1"})).await;
    assert!(
        error(&result).contains("exited with 141 (SIGPIPE): a later command of the pipeline stopped reading"),
        "{result:?}"
    );
    assert_eq!(stdout(&result), "y\n");
}

#[test]
fn models_are_told_what_the_sandbox_denies() {
    let told = |sandbox: &Sandbox| execute_command(sandbox).spec().description;
    insta::assert_snapshot!(told(&Sandbox::default()));
    let wider = Sandbox {
        network: true,
        read: vec!["~/.m2".into()],
        write: vec!["~/.cache/go-build".into(), "/data".into()],
        ..Sandbox::default()
    };
    let description = told(&wider);
    for part in [
        "can use the network",
        "writes only to the workspace, `~/.cache/go-build`, `/data` and $TMPDIR",
        "toolchains, `~/.m2`.",
    ] {
        assert!(description.contains(part), "{description}");
    }
    let unconfined = Sandbox {
        confinement: Confinement::Off,
        ..Sandbox::default()
    };
    assert!(told(&unconfined).contains("not confined"));
}

#[tokio::test]
async fn the_error_for_a_missing_program_lists_the_searched_folders() {
    let workspace = TempDir::new().unwrap();
    let result = run(&workspace, json!({"command": ["no-such-program-here"]})).await;

    let error = error(&result);
    assert!(
        error.starts_with("no program `no-such-program-here` in /"),
        "{error}"
    );
    assert!(error.contains("/bin"), "{error}");
    assert_eq!(result.changes, []);

    let result = run(&workspace, json!({"command": ["./missing.sh"]})).await;
    let root = workspace.path().canonicalize().unwrap();
    assert_eq!(
        self::error(&result),
        format!(
            "`./missing.sh` cannot be run: {}/missing.sh: No such file or directory (os error 2)",
            root.display()
        )
    );
}

#[tokio::test]
async fn the_error_for_a_command_line_in_one_element_says_how_to_split_it() {
    let workspace = TempDir::new().unwrap();
    let result = run(&workspace, json!({"command": ["echo hello"]})).await;
    assert!(
        error(&result)
            .ends_with("each argument must be a separate element, or pass one string instead of a list to have a shell split it")
    );
}

#[tokio::test]
async fn an_empty_command_and_a_bad_timeout_are_refused() {
    let workspace = TempDir::new().unwrap();
    for (parameters, expected) in [
        (
            json!({"command": []}),
            "`command` is empty; it must begin with the program to run",
        ),
        (
            json!({"command": " "}),
            "`command` is empty; it must begin with the program to run",
        ),
        (
            json!({"command": ["true"], "timeout_seconds": 0}),
            "`timeout_seconds` is 0; it must be 1 to 3600",
        ),
        (
            json!({"command": ["true"], "timeout_seconds": 3601}),
            "`timeout_seconds` is 3601; it must be 1 to 3600",
        ),
    ] {
        assert_eq!(error(&run(&workspace, parameters).await), expected);
    }
}

#[tokio::test]
async fn a_command_runs_in_the_given_folder_of_the_workspace() {
    let workspace = TempDir::new().unwrap();
    std::fs::create_dir(workspace.path().join("sub")).unwrap();
    let result = run(
        &workspace,
        json!({"command": ["pwd", "-P"], "working_directory": "sub"}),
    )
    .await;
    let expected = workspace.path().canonicalize().unwrap().join("sub");
    assert_eq!(stdout(&result), format!("{}\n", expected.display()));
}

#[tokio::test]
async fn a_working_directory_outside_the_workspace_is_refused() {
    let outside = TempDir::new().unwrap();
    let workspace = TempDir::new().unwrap();
    std::os::unix::fs::symlink(outside.path(), workspace.path().join("link")).unwrap();
    std::fs::write(workspace.path().join("file"), "").unwrap();

    for (folder, expected) in [
        ("..", "`..` leads out of the workspace"),
        ("link", "`link` leads out of the workspace"),
        ("/", "`/` leads out of the workspace"),
        ("file", "`file` is not a folder"),
        ("none", "`none` does not exist"),
    ] {
        let command = json!({"command": ["touch", "made"], "working_directory": folder});
        let result = run(&workspace, command).await;
        let error = error(&result);
        assert!(
            error.starts_with(&format!("`working_directory`: {expected}")),
            "{error}"
        );
    }
    assert!(!outside.path().join("made").exists());
}

#[tokio::test]
async fn an_invalid_working_directory_fails_with_a_specific_code() {
    let workspace = TempDir::new().unwrap();
    std::fs::write(workspace.path().join("file"), "").unwrap();
    for (folder, expected) in [
        ("file", "not_a_folder"),
        ("missing", "not_found"),
        ("a\0b", "bad_parameters"),
        ("..", "outside_workspace"),
    ] {
        let result = run(
            &workspace,
            json!({"command": ["true"], "working_directory": folder}),
        )
        .await;
        let ToolOutcome::Failure { code, .. } = &result.outcome else {
            panic!("{result:?}")
        };
        assert_eq!(code, expected, "{folder}");
    }
}

#[tokio::test]
async fn with_read_only_access_nothing_is_run() {
    let workspace = TempDir::new().unwrap();
    let context = ToolContext {
        access: Access::ReadOnly,
        ..context(workspace.path())
    };
    let result = run_in(context, json!({"command": ["touch", "made"]})).await;

    assert_eq!(
        error(&result),
        "this agent has read-only access, and commands may change files; nothing was run"
    );
    assert!(!workspace.path().join("made").exists());
}

#[tokio::test]
async fn with_execute_access_a_command_runs() {
    let workspace = TempDir::new().unwrap();
    let context = ToolContext {
        access: Access::Execute,
        ..context(workspace.path())
    };
    let result = run_in(context, json!({"command": ["touch", "made"]})).await;

    assert!(result.succeeded(), "{result:?}");
    assert!(workspace.path().join("made").exists());
}

/// The variables that a command may inherit.
const KNOWN: [&str; 39] = [
    "CARGO_HOME",
    "CARGO_TARGET_DIR",
    "CARGO_TERM_COLOR",
    "GIT_TERMINAL_PROMPT",
    "GOCACHE",
    "GOMODCACHE",
    "GOPATH",
    "GOROOT",
    "GOTOOLCHAIN",
    "HOME",
    "JAVA_HOME",
    "LANG",
    "LANGUAGE",
    "LOGNAME",
    "NODE_PATH",
    "NO_COLOR",
    "NVM_DIR",
    "PATH",
    "PWD",
    "PYENV_ROOT",
    "PYTHONPATH",
    "RUSTFLAGS",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "RUST_BACKTRACE",
    "SHELL",
    "SHLVL",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "TERM",
    "TMPDIR",
    "TZ",
    "USER",
    "VIRTUAL_ENV",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "_",
    "npm_config_cache",
];

#[tokio::test]
async fn a_script_whose_interpreter_is_missing_is_not_run() {
    let workspace = TempDir::new().unwrap();
    std::fs::write(
        workspace.path().join("script.txt"),
        "#! /no/such/interpreter\r\nexit 0\r\n",
    )
    .unwrap();
    // Written by another process: a program that this process has just written may be refused as busy.
    let made = shell(&workspace, "install -m 755 script.txt script").await;
    assert!(made.succeeded(), "{made:?}");
    let result = run(&workspace, json!({"command": ["./script"]})).await;
    let said = error(&result);
    let expected = "could not be started: its interpreter \"/no/such/interpreter\\r\" cannot be run: No such file or directory";
    assert!(said.contains(expected), "{said}");
}

/// Secrets can only be in the environment of a new process, so the test runs itself again with them.
#[tokio::test]
async fn a_secret_of_the_environment_does_not_reach_the_program() {
    const SECRETS: [&str; 3] = ["OPENAI_API_KEY", "GITHUB_TOKEN", "LD_PRELOAD_CANARY"];
    const CANARY: &str = "canary-5e1f";
    if std::env::var_os(SECRETS[0]).as_deref() != Some(OsStr::new(CANARY)) {
        let again = std::process::Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "execute_command::a_secret_of_the_environment_does_not_reach_the_program",
            ])
            .envs(SECRETS.map(|name| (name, CANARY)))
            .env("LC_TIME", "C")
            .output()
            .unwrap();
        let report = String::from_utf8_lossy(&again.stdout);
        assert!(again.status.success(), "{report}");
        assert!(report.contains("1 passed"), "{report}");
        return;
    }
    let workspace = TempDir::new().unwrap();
    let result = run(&workspace, json!({"command": ["env"]})).await;

    let environment = stdout(&result);
    assert!(!environment.contains(CANARY), "{environment}");
    for line in ["TERM=dumb", "NO_COLOR=1", "CARGO_TERM_COLOR=never", "LC_TIME=C"] {
        assert!(environment.lines().any(|other| other == line), "{environment}");
    }
    let names = environment
        .lines()
        .filter_map(|line| Some(line.split_once('=')?.0));
    let unknown: Vec<_> = names
        .filter(|name| !KNOWN.contains(name) && !name.starts_with("LC_"))
        .collect();
    assert_eq!(unknown, [] as [&str; 0]);
    assert!(environment.lines().any(|line| line.starts_with("PATH=")));
}
