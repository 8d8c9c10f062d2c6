//! Running git: in the sandbox of commands, with nothing writable and no network, and bounded.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use dirigent_core::tool::code;
use process_wrap::tokio::ChildWrapper;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio_util::sync::CancellationToken;

use super::arguments::{ENVIRONMENT, before, settings};
use crate::execute_command::{environment, program};
use crate::sandbox::{Confinement, Keeper, NotStarted, Program, Reach, Sandbox};

/// What is read of an answer at the most, in bytes; git is ended then.
const MAX_ANSWER: usize = 4 * 1024 * 1024;
/// What is read of its complaints.
const MAX_COMPLAINT: usize = 4 * 1024;
/// How long it may take.
const TIME: Duration = Duration::from_secs(30);

/// Git, for one workspace.
pub(super) struct Git<'a> {
    root: PathBuf,
    program: PathBuf,
    search: Vec<PathBuf>,
    sandbox: Sandbox,
    cancel: &'a CancellationToken,
}

/// What git said.
pub(super) struct Answer {
    pub(super) bytes: Vec<u8>,
    /// Whether it had more to say than is read.
    pub(super) is_cut: bool,
}

/// Why git did not say what was asked.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotRun {
    #[error("git is not there: {0}")]
    NoGit(String),
    #[error("git was not run, as this system cannot confine it: {0}")]
    NoSandbox(String),
    #[error("git could not be started: {0}")]
    Refused(String),
    #[error("git failed: {0}")]
    Exited(String),
    #[error("git took more than {} seconds and was ended: ask for less, such as fewer paths", TIME.as_secs())]
    TimedOut,
    #[error("cancelled")]
    Cancelled,
    #[error("the tool itself broke down: {0}")]
    BrokeDown(String),
}

impl NotRun {
    pub(super) fn code(&self) -> &'static str {
        match self {
            NotRun::NoGit(_) => "not_found",
            NotRun::NoSandbox(_) => "no_sandbox",
            NotRun::Refused(_) => "denied",
            NotRun::Exited(_) => "exited",
            NotRun::TimedOut => code::TIMED_OUT,
            NotRun::Cancelled => code::CANCELLED,
            NotRun::BrokeDown(_) => code::BROKE_DOWN,
        }
    }
}

impl<'a> Git<'a> {
    pub(super) fn new(
        root: PathBuf,
        confinement: Confinement,
        cancel: &'a CancellationToken,
    ) -> Result<Self, NotRun> {
        let search = environment::search_path();
        let program = program::locate("git", &root, &search).map_err(NotRun::NoGit)?;
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
    pub(super) async fn run(&self, words: Vec<String>, filters: &[OsString]) -> Result<Answer, NotRun> {
        let (mut keeper, mut child) = self.start(words, filters).await?;
        let answer = tokio::select! {
            biased;
            () = self.cancel.cancelled() => Err(NotRun::Cancelled),
            answer = tokio::time::timeout(TIME, answer(child.as_mut())) => answer.unwrap_or(Err(NotRun::TimedOut)),
        };
        let _ = child.start_kill();
        keeper.end().await;
        // It is ended: this only takes notice of it.
        let _ = child.wait().await;
        // Its thread has ended or is about to: waiting for it is not for this one.
        let _ = tokio::task::spawn_blocking(move || drop(keeper)).await;
        answer
    }

    async fn start(
        &self,
        words: Vec<String>,
        filters: &[OsString],
    ) -> Result<(Keeper, Box<dyn ChildWrapper>), NotRun> {
        let root = self
            .root
            .to_str()
            .ok_or_else(|| NotRun::Refused("the workspace's path is not Unicode".to_owned()))?;
        // What commands can read, the workspace among it, and nothing that they can write.
        let mut reach = Reach::new(&self.sandbox, &self.root, &self.root, &self.search, |_| None);
        reach.write.clear();
        reach.read.push(self.root.clone());
        let fixed = ENVIRONMENT
            .iter()
            .map(|(name, value)| (name.into(), value.into()));
        let settings = settings(filters)
            .into_iter()
            .map(|(name, value)| (name.into(), value));
        let path = std::env::var_os("PATH").map(|path| ("PATH".into(), path));
        let program = Program {
            file: self.program.clone(),
            arguments: before(root)
                .into_iter()
                .chain(words)
                .map(OsString::from)
                .collect(),
            folder: self.root.clone(),
            environment: fixed.chain(settings).chain(path).collect(),
        };
        Keeper::start(self.sandbox.clone(), reach, program)
            .await
            .map_err(|not_started| match not_started {
                NotStarted::NoSandbox(why) => NotRun::NoSandbox(why),
                NotStarted::Refused(error) => NotRun::Refused(error.to_string()),
            })
    }
}

async fn answer(child: &mut dyn ChildWrapper) -> Result<Answer, NotRun> {
    let (stdout, stderr) = (child.stdout().take(), child.stderr().take());
    let (said, complaint) = tokio::join!(read(stdout, MAX_ANSWER), read(stderr, MAX_COMPLAINT));
    if said.is_cut {
        // It may wait for somebody to read the rest.
        return Ok(said);
    }
    let status = child
        .wait()
        .await
        .map_err(|error| NotRun::Refused(error.to_string()))?;
    match status.success() {
        true => Ok(said),
        false => Err(NotRun::Exited(
            String::from_utf8_lossy(&complaint.bytes).trim().to_owned(),
        )),
    }
}

/// What it says, up to so many bytes; what comes after is left unread.
async fn read(stream: Option<impl AsyncRead + Unpin>, most: usize) -> Answer {
    let mut bytes = Vec::new();
    if let Some(stream) = stream {
        // What was read before an error is what there is.
        let _ = stream.take(most as u64 + 1).read_to_end(&mut bytes).await;
    }
    let is_cut = bytes.len() > most;
    bytes.truncate(most);
    Answer { bytes, is_cut }
}
