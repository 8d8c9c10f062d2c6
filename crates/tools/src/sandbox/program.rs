//! A program that is to be started, and the gate that it waits behind.
//!
//! Limits can only be set for a process that is there, and by then a program may have begun. So what is started is a shell that waits for a
//! line and then becomes the program: what runs is limited from its first instruction on, and so is all that it starts.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use process_wrap::tokio::{ChildWrapper, CommandWrap, KillOnDrop, ProcessGroup};

/// Where nobody is there any more to open it, the input ends and so does the shell.
const GATE: &str = r#"read -r _ && exec "$0" "$@" </dev/null"#;
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
                command.args(["-c", GATE]).arg(&self.file).stdin(Stdio::piped());
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

    /// Starts it. Its gate is closed.
    pub(super) fn start(&self) -> io::Result<Box<dyn ChildWrapper>> {
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
