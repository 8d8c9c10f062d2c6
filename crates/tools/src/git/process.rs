//! Runs the git process in the sandbox of commands: git can write only to paths that the caller allows, has no network, and is limited in
//! time and output.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use process_wrap::tokio::ChildWrapper;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio_util::sync::CancellationToken;

use super::arguments::{ENVIRONMENT, global_options, list_settings, settings};
use super::error::{GitError, GitRunError};
use super::linked::LinkedRepository;
use super::parse::filter_names;
use crate::sandbox::{
    AccessRules, Confinement, Program, Sandbox, SandboxSupervisor, SpawnError, locate_program, search_path,
};

/// Maximum number of bytes read of the output. Git is killed when it writes more.
const MAX_STDOUT: usize = 4 * 1024 * 1024;
/// Maximum number of bytes read of the error output.
const MAX_STDERR: usize = 4 * 1024;
const TIMEOUT: Duration = Duration::from_secs(30);

/// Runs git in one working tree.
#[derive(Clone)]
pub(super) struct Git<'a> {
    root: PathBuf,
    program: PathBuf,
    search: Vec<PathBuf>,
    sandbox: Sandbox,
    /// The files and folders outside of the working tree that git can read.
    read: Vec<PathBuf>,
    /// The files and folders that git can write.
    write: Vec<PathBuf>,
    environment: Vec<(&'static str, OsString)>,
    timeout: Duration,
    cancel: &'a CancellationToken,
}

/// Git's standard output.
pub(super) struct GitOutput {
    pub(super) bytes: Vec<u8>,
    /// Whether git wrote more than the limit, so that the rest was not read.
    pub(super) truncated: bool,
}

impl<'a> Git<'a> {
    pub(super) fn new(
        root: PathBuf,
        confinement: Confinement,
        cancel: &'a CancellationToken,
    ) -> Result<Self, GitRunError> {
        let search = search_path();
        let program = locate_program("git", &root, &search).map_err(GitRunError::GitNotFound)?;
        let repository = LinkedRepository::find(&root);
        Ok(Git {
            root,
            program,
            search,
            sandbox: Sandbox {
                confinement,
                ..Sandbox::default()
            },
            read: repository
                .into_iter()
                .map(|repository| repository.common)
                .collect(),
            write: Vec::new(),
            environment: Vec::new(),
            timeout: TIMEOUT,
            cancel,
        })
    }

    /// Lets git read a file or folder.
    pub(super) fn read(mut self, path: impl Into<PathBuf>) -> Self {
        self.read.push(path.into());
        self
    }

    /// Lets git write to a file or folder.
    pub(super) fn write(mut self, path: impl Into<PathBuf>) -> Self {
        self.write.push(path.into());
        self
    }

    /// Sets an environment variable.
    pub(super) fn variable(mut self, name: &'static str, value: impl Into<OsString>) -> Self {
        self.environment.push((name, value.into()));
        self
    }

    /// Sets the time after which git is killed.
    pub(super) fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Returns the names of the filters that the repository defines.
    pub(super) async fn filters(&self) -> Result<Vec<OsString>, GitError> {
        let settings = self.run(list_settings(), &[]).await?;
        match settings.truncated {
            true => Err(GitError::TooManySettings),
            false => Ok(filter_names(&settings.bytes)),
        }
    }

    /// Runs git like [`Self::run`], and returns its output as text without the line break at its end.
    pub(super) async fn words(&self, words: &[&str], filters: &[OsString]) -> Result<String, GitRunError> {
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        let output = self.run(words, filters).await?;
        Ok(String::from_utf8_lossy(&output.bytes)
            .trim_end_matches('\n')
            .to_owned())
    }

    /// Runs git with these arguments and with the repository's `filters` disabled, and returns its output.
    pub(super) async fn run(
        &self,
        arguments: Vec<String>,
        filters: &[OsString],
    ) -> Result<GitOutput, GitRunError> {
        let (mut supervisor, mut child) = self.start(arguments, filters).await?;
        let output = tokio::select! {
            biased;
            () = self.cancel.cancelled() => Err(GitRunError::Cancelled),
            output = tokio::time::timeout(self.timeout, collect_output(child.as_mut())) => {
                output.unwrap_or(Err(GitRunError::TimedOut(self.timeout)))
            },
        };
        let _ = child.start_kill();
        supervisor.end().await;
        // Reaps the process, which has ended.
        let _ = child.wait().await;
        // Dropping the supervisor joins its thread, which may block for a moment.
        let _ = tokio::task::spawn_blocking(move || drop(supervisor)).await;
        output
    }

    async fn start(
        &self,
        arguments: Vec<String>,
        filters: &[OsString],
    ) -> Result<(SandboxSupervisor, Box<dyn ChildWrapper>), GitRunError> {
        // Git can read everything that commands can read, including the workspace.
        let mut rules = AccessRules::new(&self.sandbox, &self.root, &self.root, &self.search, |_| None);
        rules.write.clone_from(&self.write);
        rules.read.push(self.root.clone());
        rules.read.extend(self.read.iter().cloned());
        let fixed = ENVIRONMENT
            .iter()
            .map(|(name, value)| (name.into(), value.into()));
        let settings = settings(filters)
            .into_iter()
            .map(|(name, value)| (name.into(), value));
        let path = std::env::var_os("PATH").map(|path| ("PATH".into(), path));
        let own = self
            .environment
            .iter()
            .map(|(name, value)| ((*name).into(), value.clone()));
        let program = Program {
            file: self.program.clone(),
            arguments: global_options(&self.root)
                .into_iter()
                .chain(arguments.into_iter().map(OsString::from))
                .collect(),
            folder: self.root.clone(),
            environment: fixed.chain(settings).chain(path).chain(own).collect(),
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
        // Git may block until the rest is read, so its exit is not awaited.
        return Ok(stdout);
    }
    let status = child
        .wait()
        .await
        .map_err(|error| GitRunError::SpawnFailed(error.to_string()))?;
    match status.success() {
        true => Ok(stdout),
        false => Err(GitRunError::Exited {
            error: String::from_utf8_lossy(&stderr.bytes).trim().to_owned(),
            code: status.code(),
            output: stdout.bytes,
        }),
    }
}

/// Reads up to `max_bytes` of a stream and leaves the rest unread.
async fn read(stream: Option<impl AsyncRead + Unpin>, max_bytes: usize) -> GitOutput {
    let mut bytes = Vec::new();
    if let Some(stream) = stream {
        // After a read error, the bytes read so far are the output.
        let _ = stream.take(max_bytes as u64 + 1).read_to_end(&mut bytes).await;
    }
    let truncated = bytes.len() > max_bytes;
    bytes.truncate(max_bytes);
    GitOutput { bytes, truncated }
}
