//! A program that is to be started, and the gate that it waits behind.
//!
//! Limits can only be set for a process that is there, and by then a program may have begun. So what is started is a shell that waits for a
//! line and then becomes the program: what runs is limited from its first instruction on, and so is all that it starts.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use process_wrap::tokio::{ChildWrapper, CommandWrap, KillOnDrop, ProcessGroup};
use rustix::fs::{Access, Mode, OFlags};

/// Where nobody is there any more to open it, the input ends and so does the shell.
const GATE_SCRIPT: &str = r#"read -r _ && exec "$0" "$@" </dev/null"#;
const SHELL: &str = "/bin/sh";

/// A program with all that it is given. Its input is closed, its output is a pipe.
pub(crate) struct Program {
    /// Its file, absolute. It is the name that it is called by, too: any other could lead the shell to another file.
    pub(crate) file: PathBuf,
    pub(crate) arguments: Vec<OsString>,
    /// The folder that it runs in.
    pub(crate) folder: PathBuf,
    /// Its whole environment; a shell adds the folder (`PWD`), and some add `SHLVL` and `_`.
    pub(crate) environment: Vec<(OsString, OsString)>,
}

impl Program {
    /// What starts it as the leader of a process group: on Linux behind its gate, elsewhere, where nothing is limited, as it is.
    fn command(&self) -> CommandWrap {
        let is_gated = cfg!(target_os = "linux");
        let file = if is_gated { Path::new(SHELL) } else { &self.file };
        let mut command = CommandWrap::with_new(file, |command| {
            if is_gated {
                command
                    .args(["-c", GATE_SCRIPT])
                    .arg(&self.file)
                    .stdin(Stdio::piped());
            } else {
                command.stdin(Stdio::null());
            }
            command
                .args(&self.arguments)
                .current_dir(&self.folder)
                .env_clear()
                .envs(self.environment.iter().map(|(name, value)| (name, value)))
                .stdout(Stdio::piped())
                .stderr(Stdio::piped());
        });
        command.wrap(KillOnDrop).wrap(ProcessGroup::leader());
        command
    }

    /// Starts it, if it can run where the calling thread may. Its gate is closed.
    pub(super) fn start(&self) -> io::Result<Box<dyn ChildWrapper>> {
        self.check()?;
        self.command()
            .spawn()
            .map_err(|error| match Path::new(SHELL).exists() {
                true => error,
                false => io::Error::new(
                    error.kind(),
                    format!("programs are started by {SHELL}, which is not there"),
                ),
            })
    }

    /// The shell of the gate can only say in words of its own that the program cannot run.
    fn check(&self) -> io::Result<()> {
        rustix::fs::access(&self.file, Access::EXEC_OK)?;
        if rustix::fs::access(&self.file, Access::READ_OK).is_err() {
            return Ok(());
        }
        // Where the user may read a file and the domain does not let it be opened, it does not let it be run either.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::open(&self.file, flags, Mode::empty())?;
        let Some(path) = interpreter(file.into())? else {
            return Ok(());
        };
        rustix::fs::access(self.folder.join(&path), Access::EXEC_OK).map_err(|error| {
            let error = io::Error::from(error);
            io::Error::new(
                error.kind(),
                format!("its interpreter, {:?}: {error}", path.display()),
            )
        })
    }
}

/// What the first line of a script says that it is run by.
fn interpreter(script: File) -> io::Result<Option<PathBuf>> {
    let mut start = Vec::new();
    // The system reads no more of it either.
    script.take(256).read_to_end(&mut start)?;
    let line = start.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let words = line.strip_prefix(b"#!").unwrap_or_default();
    let mut words = words.split(|byte| matches!(byte, b' ' | b'\t'));
    let path = words.find(|word| !word.is_empty());
    Ok(path.map(|path| PathBuf::from(OsStr::from_bytes(path))))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    #![allow(clippy::unwrap_used)]

    use tempfile::TempDir;

    use super::*;

    fn touch(folder: &TempDir) -> Program {
        Program {
            file: "/bin/sh".into(),
            arguments: ["-c", ": > made"].map(OsString::from).into(),
            folder: folder.path().to_owned(),
            environment: Vec::new(),
        }
    }

    #[tokio::test]
    async fn a_program_runs_once_its_gate_is_opened() {
        let folder = TempDir::new().unwrap();
        let mut child = touch(&folder).start().unwrap();
        let mut gate = child.stdin().take().unwrap();
        tokio::io::AsyncWriteExt::write_all(&mut gate, b"\n")
            .await
            .unwrap();
        assert!(child.wait().await.unwrap().success());
        assert!(folder.path().join("made").exists());
    }

    #[tokio::test]
    async fn a_program_whose_gate_nobody_opens_does_not_run() {
        let folder = TempDir::new().unwrap();
        let mut child = touch(&folder).start().unwrap();
        drop(child.stdin().take());
        assert!(!child.wait().await.unwrap().success());
        assert!(!folder.path().join("made").exists());
    }
}
