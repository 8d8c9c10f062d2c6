//! Starts a service's program with a minimal environment, and ends it with all its descendants.
//!
//! The program runs in its own session, so that one signal reaches all its descendants that stay in its process group. Dropping a process
//! that was not ended kills the group.

use std::ffi::OsString;
use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use process_wrap::tokio::{ChildWrapper, CommandWrap, KillOnDrop, ProcessSession};
use secrecy::ExposeSecret as _;
use tokio::process::{ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::config::CommandEndpoint;
use crate::error::StartError;
use crate::expand::expand;
use crate::stderr_tail::StderrTail;

/// The signal's number, which is the same on all Unix systems.
const SIGTERM: i32 = 15;

/// Maximum time to wait for the end of killed processes.
const REAP: Duration = Duration::from_secs(1);

/// A running program with its descendants.
pub(crate) struct ServiceProcess {
    child: Box<dyn ChildWrapper>,
    /// True once no process is left to kill. A drop must then kill nothing, because the process id may belong to another process by now.
    is_finished: bool,
    stderr: StderrTail,
    reading: JoinHandle<()>,
}

impl ServiceProcess {
    /// Starts the program.
    ///
    /// # Errors
    /// A reference to a variable that is not set, or the error of the operating system.
    pub(crate) fn start(endpoint: &CommandEndpoint) -> Result<(Self, ChildStdout, ChildStdin), StartError> {
        let (command, from_variables) = command(endpoint)?;
        let mut command = CommandWrap::from(command);
        command.wrap(KillOnDrop).wrap(ProcessSession);
        let mut child = command.spawn().map_err(|source| StartError::Spawn {
            command: endpoint.command.clone(),
            folder: endpoint.cwd.clone(),
            source,
        })?;
        let (Some(stdin), Some(stdout), Some(errors)) =
            (child.stdin().take(), child.stdout().take(), child.stderr().take())
        else {
            // All three were requested as pipes.
            return Err(StartError::Spawn {
                command: endpoint.command.clone(),
                folder: endpoint.cwd.clone(),
                source: io::Error::other("its standard streams are missing"),
            });
        };
        let stderr = StderrTail::hiding(from_variables);
        let reading = tokio::spawn(stderr.clone().read(errors));
        let process = ServiceProcess {
            child,
            is_finished: false,
            stderr,
            reading,
        };
        Ok((process, stdout, stdin))
    }

    /// Returns the last lines of the program's standard error.
    pub(crate) fn stderr(&self) -> &StderrTail {
        &self.stderr
    }

    /// Waits for the end of the program itself. The future may be dropped, and the function called again.
    pub(crate) async fn exited(&mut self) -> String {
        match self.child.wait().await {
            Ok(status) => describe(status),
            Err(error) => format!("its exit status is unknown: {error}"),
        }
    }

    /// Ends all processes. The program's standard input is already closed, so this first waits for the program to exit, then sends
    /// SIGTERM, and finally SIGKILL. Each wait takes at most `grace`.
    pub(crate) async fn end(&mut self, grace: Duration) {
        if timeout(grace, self.child.wait()).await.is_err() {
            // An error means that no process is left.
            let _ = self.child.signal(SIGTERM);
            let _ = timeout(grace, self.child.wait()).await;
        }
        // Descendants of the program may still be running.
        let _ = self.child.start_kill();
        let _ = timeout(REAP, self.child.wait()).await;
        self.is_finished = true;
        // Standard error may stay open in a process that has left the group.
        let _ = timeout(REAP, &mut self.reading).await;
        self.reading.abort();
    }
}

impl Drop for ServiceProcess {
    fn drop(&mut self) {
        if !self.is_finished {
            let _ = self.child.start_kill();
        }
        self.reading.abort();
    }
}

fn describe(status: ExitStatus) -> String {
    if status.success() {
        "it exited".to_owned()
    } else {
        format!("it ended with {status}")
    }
}

/// Returns the command of an endpoint, with references to variables replaced, and the values with such references.
fn command(endpoint: &CommandEndpoint) -> Result<(Command, Vec<String>), StartError> {
    let variable = |name: &str| std::env::var(name).ok();
    let expanded = |setting: &'static str, text: &str| {
        expand(text, variable).map_err(|error| StartError::Setting {
            setting,
            problem: error.to_string(),
        })
    };
    let mut command = Command::new(expanded("command", &endpoint.command)?);
    let mut from_variables = Vec::new();
    let mut remember = |text: &str, expanded: &str| {
        if expanded != text {
            from_variables.push(expanded.to_owned());
        }
    };
    for argument in &endpoint.args {
        let value = expanded("args", argument)?;
        remember(argument, &value);
        command.arg(value);
    }
    command.env_clear().envs(environment());
    for (name, value) in &endpoint.env {
        let expanded = expanded("env", value.expose_secret())?;
        remember(value.expose_secret(), &expanded);
        command.env(name, expanded);
    }
    if let Some(folder) = &endpoint.cwd {
        command.current_dir(folder);
    }
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    Ok((command, from_variables))
}

/// Returns the minimal environment of commands, but with the whole `PATH`, because the user has chosen the program.
fn environment() -> Vec<(OsString, OsString)> {
    let mut environment = dirigent_tools::short_environment(std::env::vars_os());
    environment.extend(std::env::var_os("PATH").map(|path| ("PATH".into(), path)));
    environment
}
