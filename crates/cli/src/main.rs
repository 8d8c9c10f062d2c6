//! The `dirigent` command: parses arguments, shows progress and summaries, and sets the exit code.
//!
//! Makes no orchestration decisions: the `dirigent` library makes them.

mod agents;
mod answer_stream;
mod approvals;
mod args;
mod call_name;
mod chat;
mod chat_input;
mod config;
mod conversations;
mod demo;
mod doctor;
mod exit;
mod export;
mod goal_text;
mod hint;
mod init;
mod interactive;
mod journal;
mod live;
mod markdown;
mod mcp;
mod mcp_serve;
mod mcp_settings;
mod mcp_text;
mod memory;
mod models;
mod open;
mod output;
mod pending_messages;
mod pending_requests;
mod plain;
mod prompt;
mod prompts;
mod replay;
mod request_text;
mod run;
mod screen;
mod serve;
mod sharing;
mod show;
mod signals;
mod start_screen;
mod steer;
mod steps;
mod summary;
mod tail;
mod terminal_files;
mod time;
mod undo;
mod watch;
mod workflow;
mod workflow_text;
mod worktree;

use std::io::Write as _;
use std::time::Duration;

use clap::Parser;
use tokio::runtime::Runtime;

use crate::args::{Arguments, Command, ConfigCommand, McpCommand};
use crate::exit::Exit;
use crate::output::Output;

/// The longest time to wait for background tasks after the command has finished. They close the journal and clean up after cancelled
/// commands: kill their processes, restore protected files and delete temporary ones. Cleanup takes milliseconds, or seconds on a busy
/// computer. Only a blocked task, such as a DNS lookup, uses the whole time.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);
/// The time to wait for background tasks after a second Ctrl-C: enough to kill the processes of commands.
const KILL_TIMEOUT: Duration = Duration::from_secs(1);

fn main() -> std::process::ExitCode {
    let output = Output::new();
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(message) => return show_usage(&message, &output),
    };
    forbid_inspection();
    start_log();
    let exit = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => {
            let result = runtime.block_on(dispatch(arguments, &output));
            let exit = result.unwrap_or_else(|error| fail(&error, &output));
            shutdown(runtime, exit);
            exit
        }
        Err(error) => fail(&error.into(), &output),
    };
    exit_after_output(exit, &output).into()
}

/// Prints the requested help or version, or the errors in the arguments.
fn show_usage(message: &clap::Error, output: &Output) -> std::process::ExitCode {
    let exit = if message.use_stderr() {
        Exit::Usage
    } else {
        Exit::Success
    };
    let printed = message.print().and_then(|()| std::io::stdout().flush());
    if let Err(error) = printed
        && !message.use_stderr()
    {
        output.note_failure(error);
    }
    exit_after_output(exit, output).into()
}

/// Reports a failed write to standard output, which turns success into failure.
fn exit_after_output(exit: Exit, output: &Output) -> Exit {
    let Some(error) = output.failure() else {
        return exit;
    };
    output.error(&format!(
        "cannot write to standard output, so the output is incomplete: {error}"
    ));
    match exit {
        Exit::Success => Exit::Failed,
        Exit::Failed
        | Exit::Usage
        | Exit::Limit
        | Exit::NeedsUser
        | Exit::Journal
        | Exit::Configuration
        | Exit::ReplayMismatch
        | Exit::Cancelled
        | Exit::Killed => exit,
    }
}

fn fail(error: &anyhow::Error, output: &Output) -> Exit {
    output.error(&output::sanitize(&format!("{error:#}")));
    if let Some(hint) = hint::next_step(error) {
        output.note(&hint);
    }
    Exit::from_error(error)
}

async fn dispatch(arguments: Arguments, output: &Output) -> anyhow::Result<Exit> {
    let (db, file) = (arguments.db, arguments.config);
    let Some(command) = arguments.command else {
        return start_screen::show(db, file, output).await;
    };
    match command {
        Command::Init(command) => init::init(file, command, output).await,
        Command::Doctor(command) => doctor::doctor(db, file, &command, output).await,
        Command::Run(command) => run::start(db, file, command, output).await,
        Command::Chat(command) => chat::chat(db, file, command, output).await,
        Command::Conversations(command) => conversations::conversations(db, command, output).await,
        Command::Demo(command) => demo::demo(db, file, command, output).await,
        Command::Resume(command) => run::resume(db, file, command, output).await,
        Command::Guide(command) => steer::guide(db, command, output).await,
        Command::Approve(command) => steer::approve(db, command, output).await,
        Command::Approvals(command) => approvals::approvals(db, command, output).await,
        Command::Answer(command) => steer::answer(db, command, output).await,
        Command::Watch(command) => watch::follow(db, command, output).await,
        Command::Cancel(command) => steer::cancel(db, command, output).await,
        Command::Fork(command) => run::fork(db, file, command, output).await,
        Command::Runs(command) => show::runs(db, &command, output).await,
        Command::Show(command) => show::show(db, &command, output).await,
        Command::Export(command) => export::export(db, &command, output).await,
        Command::Diff(command) => undo::diff(db, &command, output).await,
        Command::Apply(command) => worktree::apply(db, file, &command, output).await,
        Command::Undo(command) => undo::undo(db, &command, output).await,
        Command::Memory(command) => memory::memory(db, command, output).await,
        Command::Journal(command) => journal::journal(db, command, output).await,
        Command::Config(ConfigCommand::Check(command)) => config::check(db, file, command, output).await,
        Command::Models(command) => models::list(file, command, output).await,
        Command::Agents(command) => agents::list(db, file, &command, output).await,
        Command::Workflow(command) => workflow::workflow(db, file, command, output).await,
        Command::Mcp(McpCommand::Services(command)) => mcp::mcp(db, file, command, output).await,
        Command::Mcp(McpCommand::Serve(command)) => mcp_serve::serve(db, file, command, output).await,
        Command::Serve(command) => serve::serve(db, file, command, output).await,
        Command::Prompts(command) => prompts::prompts(db, file, command, output).await,
        Command::Completions(command) => Ok(terminal_files::completions(&command, output)),
        Command::Man(command) => terminal_files::man(&command, output),
    }
}

/// Drops all tasks, which kills their child processes, and waits for cleanup on other threads, within a time limit. Ctrl-C or SIGTERM
/// ends the wait.
fn shutdown(runtime: Runtime, exit: Exit) {
    // If this thread cannot be started, signals cannot end the wait early, which is acceptable.
    let _ = std::thread::Builder::new()
        .name("shutdown-signals".to_owned())
        .spawn(move || {
            if signals::wait_for_interrupt().is_ok() {
                std::process::exit(exit.code().into());
            }
        });
    runtime.shutdown_timeout(if exit == Exit::Killed {
        KILL_TIMEOUT
    } else {
        SHUTDOWN_TIMEOUT
    });
}

/// Protects the memory of this process, such as API keys from its environment, from the commands that agents run: other processes of
/// the user can neither trace it nor read its `/proc` entries.
fn forbid_inspection() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)
    {
        tracing::warn!(
            "cannot protect this process's memory ({error}): commands that agents run may be able to read API keys from it"
        );
    }
}

/// Logs warnings to standard error. `DIRIGENT_LOG` sets another filter, such as
/// `DIRIGENT_LOG=debug`.
fn start_log() {
    let filter = tracing_subscriber::EnvFilter::try_from_env("DIRIGENT_LOG")
        // The errors of the protocol library `rmcp` reach the user as errors of its service.
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn,rmcp=off"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(false)
        .with_ansi(console::colors_enabled_stderr())
        // If the terminal is closed, the report of a failed log write also fails, and would panic in the actor that logs.
        .log_internal_errors(false)
        .init();
}
