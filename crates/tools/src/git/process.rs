//! Running git: in the sandbox of commands, with nothing writable and no network, and bounded.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use dirigent_core::tool::code;
use process_wrap::tokio::ChildWrapper;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio_util::sync::CancellationToken;

use super::arguments::{ENVIRONMENT, global_options, settings};
use crate::execute_command::{environment, program};
use crate::sandbox::{AccessRules, Confinement, Program, Sandbox, SandboxSupervisor, SpawnError};

/// What is read of an output at the most, in bytes; git is ended then.
const MAX_STDOUT: usize = 4 * 1024 * 1024;
/// What is read of its complaints.
const MAX_STDERR: usize = 4 * 1024;
/// How long it may take.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Git, for one workspace.
pub(super) struct Git<'a> {
    root: PathBuf,
    program: PathBuf,
    search: Vec<PathBuf>,
    sandbox: Sandbox,
    cancel: &'a CancellationToken,
}

/// What git said.
pub(super) struct GitOutput {
    pub(super) bytes: Vec<u8>,
    /// Whether it had more to say than is read.
    pub(super) truncated: bool,
}

/// Why git did not say what was asked.
#[derive(Debug, thiserror::Error)]
pub(super) enum GitRunError {
    #[error("git is not there: {0}")]
    GitNotFound(String),
    #[error("git was not run, as this system cannot confine it: {0}")]
    SandboxUnavailable(String),
    #[error("git could not be started: {0}")]
    SpawnFailed(String),
    #[error("git failed: {0}")]
    Exited(String),
    #[error("git took more than {} seconds and was ended: ask for less, such as fewer paths", TIMEOUT.as_secs())]
    TimedOut,
    #[error("cancelled")]
    Cancelled,
    #[error("the tool itself broke down: {0}")]
    BrokeDown(String),
}

impl GitRunError {
    pub(super) fn code(&self) -> &'static str {
        match self {
            GitRunError::GitNotFound(_) => "not_found",
            GitRunError::SandboxUnavailable(_) => "no_sandbox",
            GitRunError::SpawnFailed(_) => "denied",
            GitRunError::Exited(_) => "exited",
            GitRunError::TimedOut => code::TIMED_OUT,
            GitRunError::Cancelled => code::CANCELLED,
            GitRunError::BrokeDown(_) => code::BROKE_DOWN,
        }
    }
}

impl<'a> Git<'a> {
    pub(super) fn new(
        root: PathBuf,
        confinement: Confinement,
        cancel: &'a CancellationToken,
    ) -> Result<Self, GitRunError> {
        let search = environment::search_path();
        let program = program::locate("git", &root, &search).map_err(GitRunError::GitNotFound)?;
        Ok(Git {
            root,
            program,
            search,
            sandbox: Sandbox {
                confinement,
                ..Sandbox::default()
            },
            cancel,
        })
    }

    /// What it says, with the repository's filters of these names switched off.
    pub(super) async fn run(
        &self,
        words: Vec<String>,
        filters: &[OsString],
    ) -> Result<GitOutput, GitRunError> {
        let (mut supervisor, mut child) = self.start(words, filters).await?;
        let output = tokio::select! {
            biased;
            () = self.cancel.cancelled() => Err(GitRunError::Cancelled),
            output = tokio::time::timeout(TIMEOUT, collect_output(child.as_mut())) => output.unwrap_or(Err(GitRunError::TimedOut)),
        };
        let _ = child.start_kill();
        supervisor.end().await;
        // It is ended: this only takes notice of it.
        let _ = child.wait().await;
        // Its thread has ended or is about to: waiting for it is not for this one.
        let _ = tokio::task::spawn_blocking(move || drop(supervisor)).await;
        output
    }

    async fn start(
        &self,
        words: Vec<String>,
        filters: &[OsString],
    ) -> Result<(SandboxSupervisor, Box<dyn ChildWrapper>), GitRunError> {
        let root = self
            .root
            .to_str()
            .ok_or_else(|| GitRunError::SpawnFailed("the workspace's path is not Unicode".to_owned()))?;
        // What commands can read, the workspace among it, and nothing that they can write.
        let mut rules = AccessRules::new(&self.sandbox, &self.root, &self.root, &self.search, |_| None);
        rules.write.clear();
        rules.read.push(self.root.clone());
        let fixed = ENVIRONMENT
            .iter()
            .map(|(name, value)| (name.into(), value.into()));
        let settings = settings(filters)
            .into_iter()
            .map(|(name, value)| (name.into(), value));
        let path = std::env::var_os("PATH").map(|path| ("PATH".into(), path));
        let program = Program {
            file: self.program.clone(),
            arguments: global_options(root)
                .into_iter()
                .chain(words)
                .map(OsString::from)
                .collect(),
            folder: self.root.clone(),
            environment: fixed.chain(settings).chain(path).collect(),
        };
        SandboxSupervisor::start(self.sandbox.clone(), rules, program)
            .await
            .map_err(|spawn_error| match spawn_error {
                SpawnError::SandboxUnavailable(why) => GitRunError::SandboxUnavailable(why),
                SpawnError::Io(error) => GitRunError::SpawnFailed(error.to_string()),
            })
    }
}

async fn collect_output(child: &mut dyn ChildWrapper) -> Result<GitOutput, GitRunError> {
    let (stdout, stderr) = (child.stdout().take(), child.stderr().take());
    let (stdout, stderr) = tokio::join!(read(stdout, MAX_STDOUT), read(stderr, MAX_STDERR));
    if stdout.truncated {
        // It may wait for somebody to read the rest.
        return Ok(stdout);
    }
    let status = child
        .wait()
        .await
        .map_err(|error| GitRunError::SpawnFailed(error.to_string()))?;
    match status.success() {
        true => Ok(stdout),
        false => Err(GitRunError::Exited(
            String::from_utf8_lossy(&stderr.bytes).trim().to_owned(),
        )),
    }
}

/// What it says, up to so many bytes; what comes after is left unread.
async fn read(stream: Option<impl AsyncRead + Unpin>, most: usize) -> GitOutput {
    let mut bytes = Vec::new();
    if let Some(stream) = stream {
        // What was read before an error is what there is.
        let _ = stream.take(most as u64 + 1).read_to_end(&mut bytes).await;
    }
    let truncated = bytes.len() > most;
    bytes.truncate(most);
    GitOutput { bytes, truncated }
}
