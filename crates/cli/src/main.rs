//! The `dirigent` command: arguments in, progress and summaries out, and an exit code that means something.
//!
//! No orchestration is decided here; everything is asked of the `dirigent` library.

mod agents;
mod args;
mod attend;
mod config;
mod demo;
mod exit;
mod kept;
mod live;
mod models;
mod output;
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
mod waits;

use clap::Parser;

use crate::args::{Arguments, Command, ConfigCommand};
use crate::exit::Exit;
use crate::output::Output;

fn main() -> std::process::ExitCode {
    let arguments = Arguments::parse();
    let output = Output::new();
    keep_to_itself();
    start_log();
    let exit = match dispatch(arguments, &output) {
        Ok(exit) => exit,
        Err(error) => {
            output.error(&output::inert(&format!("{error:#}")));
            if Exit::of_error(&error) == Exit::Different {
                output.note(exit::DIFFERENT);
            }
            Exit::of_error(&error)
        }
    };
    exit.into()
}

fn dispatch(arguments: Arguments, output: &Output) -> anyhow::Result<Exit> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let (db, file) = (arguments.db, arguments.config);
    let exit = runtime.block_on(async {
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
    });
    // What is left are blocked threads of work that ignored its cancellation; child processes are killed as it is dropped.
    runtime.shutdown_timeout(std::time::Duration::from_millis(100));
    exit
}

/// What this process holds, such as keys from its environment, is not for the commands that agents run: the system lets no other
/// process of the user look into it.
fn keep_to_itself() {
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
