//! The `dirigent` command: arguments in, progress and summaries out, and an exit code that means something.
//!
//! No orchestration is decided here; everything is asked of the `dirigent` library.

mod agents;
mod args;
mod config;
mod demo;
mod exit;
mod interactive;
mod live;
mod models;
mod output;
mod pending_messages;
mod pending_requests;
mod plain;
mod replay;
mod run;
mod screen;
mod show;
mod steer;
mod steps;
mod tail;
mod time;
mod undo;

use std::io::Write as _;
use std::time::Duration;

use clap::Parser;
use tokio::runtime::Runtime;

use crate::args::{Arguments, Command, ConfigCommand};
use crate::exit::Exit;
use crate::output::Output;

/// How long the process stays for what goes on after the command's end. It leaves as soon as all of that has ended, which takes
/// milliseconds, but on a busy machine seconds: the journal is closed, and of commands that were cancelled the processes are killed, what
/// they may not change is put back and their temporary files are removed. What blocks, such as asking for the address of a host, takes all of it.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);
/// The same, where the user has no patience: the processes of commands are killed.
const KILL_TIMEOUT: Duration = Duration::from_secs(1);

fn main() -> std::process::ExitCode {
    let output = Output::new();
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(shown) => return show_usage(&shown, &output),
    };
    forbid_inspection();
    start_log();
    let exit = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => {
            let ended = runtime.block_on(dispatch(arguments, &output));
            let exit = ended.unwrap_or_else(|error| fail(&error, &output));
            shutdown(runtime, exit);
            exit
        }
        Err(error) => fail(&error.into(), &output),
    };
    exit_after_output(exit, &output).into()
}

/// Prints the help or the version that was asked for, or what is wrong with the arguments.
fn show_usage(shown: &clap::Error, output: &Output) -> std::process::ExitCode {
    let exit = if shown.use_stderr() {
        Exit::Usage
    } else {
        Exit::Success
    };
    let printed = shown.print().and_then(|()| std::io::stdout().flush());
    if let Err(error) = printed
        && !shown.use_stderr()
    {
        output.note_failure(error);
    }
    exit_after_output(exit, output).into()
}

/// The command's end, given that what it printed may not have been written.
fn exit_after_output(exit: Exit, output: &Output) -> Exit {
    let Some(error) = output.failure() else {
        return exit;
    };
    output.error(&format!(
        "standard output cannot be written, so that what was printed is not complete: {error}"
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
    let exit = Exit::from_error(error);
    if exit == Exit::ReplayMismatch {
        output.note(exit::REPLAY_MISMATCH_HELP);
    }
    exit
}

async fn dispatch(arguments: Arguments, output: &Output) -> anyhow::Result<Exit> {
    let (db, file) = (arguments.db, arguments.config);
    match arguments.command {
        Command::Run(command) => run::start(db, file, command, output).await,
        Command::Demo(command) => demo::demo(db, file, command, output).await,
        Command::Resume(command) => run::resume(db, file, command, output).await,
        Command::Guide(command) => steer::guide(db, command, output).await,
        Command::Approve(command) => steer::approve(db, command, output).await,
        Command::Answer(command) => steer::answer(db, command, output).await,
        Command::Watch(command) => run::follow(db, command, output).await,
        Command::Cancel(command) => steer::cancel(db, command, output).await,
        Command::Fork(command) => run::fork(db, file, command, output).await,
        Command::Runs(command) => show::runs(db, &command, output).await,
        Command::Show(command) => show::show(db, &command, output).await,
        Command::Diff(command) => undo::diff(db, &command, output).await,
        Command::Undo(command) => undo::undo(db, &command, output).await,
        Command::Config(ConfigCommand::Check(command)) => config::check(file, command, output).await,
        Command::Models(command) => models::list(file, command, output).await,
        Command::Agents(command) => agents::list(file, &command, output),
    }
}

/// Drops all tasks, which kills what they have started, and waits for what winds up on other threads; what ignores that it was cancelled
/// is left behind. Ctrl-C or SIGTERM ends the waiting.
fn shutdown(runtime: Runtime, exit: Exit) {
    // Where there can be no such thread, the waiting is as long as it is.
    let _ = std::thread::Builder::new()
        .name("impatience".to_owned())
        .spawn(move || {
            if run::wait_for_interrupt().is_ok() {
                std::process::exit(exit.code().into());
            }
        });
    runtime.shutdown_timeout(if exit == Exit::Killed {
        KILL_TIMEOUT
    } else {
        SHUTDOWN_TIMEOUT
    });
}

/// What this process holds, such as keys from its environment, is not for the commands that agents run: the system lets no other
/// process of the user look into it.
fn forbid_inspection() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)
    {
        tracing::warn!("other processes can look into this one: {error}");
    }
}

/// Warnings to standard error; `DIRIGENT_LOG` says otherwise (`DIRIGENT_LOG=debug`).
fn start_log() {
    let filter = tracing_subscriber::EnvFilter::try_from_env("DIRIGENT_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(false)
        .with_ansi(console::colors_enabled_stderr())
        // Where standard error is a terminal that is gone, that would panic in whatever actor warns.
        .log_internal_errors(false)
        .init();
}
