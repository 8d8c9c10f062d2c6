//! A program to start, and the shell script (the gate) that delays the program until its limits are set.
//!
//! Limits can be set only for an existing process. By then, the process may already be running the program.
//! So Dirigent starts a shell that waits for a line of input and then becomes the program. The limits apply
//! from the program's first instruction on, and to its children.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use process_wrap::tokio::{ChildWrapper, CommandWrap, KillOnDrop, ProcessGroup};
use rustix::fs::{Access, Mode, OFlags};

/// A shell script that waits for a line of input, then `exec`s the program. If the input ends because
/// Dirigent has ended, the script exits without running the program.
const GATE_SCRIPT: &str = r#"read -r _ && exec "$0" "$@" </dev/null"#;
const SHELL: &str = "/bin/sh";

/// A program with its arguments, folder and environment. Its input is empty; its output and error output are pipes.
pub(crate) struct Program {
    /// Absolute path of the program's file. Also used as `argv[0]`, because the shell's `exec` runs the file that `argv[0]` names.
    pub(crate) file: PathBuf,
    pub(crate) arguments: Vec<OsString>,
    /// Working directory.
    pub(crate) folder: PathBuf,
    /// The program's whole environment. The shell that runs [`GATE_SCRIPT`] adds `PWD`, and some shells add `SHLVL` and `_`.
    pub(crate) environment: Vec<(OsString, OsString)>,
}

impl Program {
    /// Builds the command that starts the program as leader of a process group: through [`GATE_SCRIPT`] on Linux, directly on other
    /// systems, where no limits are set.
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

    /// Checks that the calling thread may run the program, then starts it. On Linux, this starts [`GATE_SCRIPT`], which waits for a line on
    /// its stdin.
    pub(super) fn start(&self) -> io::Result<Box<dyn ChildWrapper>> {
        self.check()?;
        self.command()
            .spawn()
            .map_err(|error| match Path::new(SHELL).exists() {
                true => error,
                false => io::Error::new(
                    error.kind(),
                    format!("programs are started by {SHELL}, which does not exist"),
                ),
            })
    }

    /// Checks that the program can run. The shell of [`GATE_SCRIPT`] would report less clear errors.
    fn check(&self) -> io::Result<()> {
        rustix::fs::access(&self.file, Access::EXEC_OK)?;
        if rustix::fs::access(&self.file, Access::READ_OK).is_err() {
            return Ok(());
        }
        // If the file's permissions allow reading but opening it fails, the domain denies access, and the program could not be run either.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::open(&self.file, flags, Mode::empty())?;
        let Some(path) = interpreter(file.into())? else {
            return Ok(());
        };
        rustix::fs::access(self.folder.join(&path), Access::EXEC_OK).map_err(|error| {
            let error = io::Error::from(error);
            io::Error::new(
                error.kind(),
                format!("its interpreter {:?} cannot be run: {error}", path.display()),
            )
        })
    }
}

/// Reads the interpreter from the first line (`#!`) of a script. `None` if there is none.
fn interpreter(script: File) -> io::Result<Option<PathBuf>> {
    let mut start = Vec::new();
    // The kernel does not read more than this, either.
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
    async fn a_program_runs_after_its_gate_was_opened() {
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
    async fn a_program_does_not_run_while_its_gate_is_closed() {
        let folder = TempDir::new().unwrap();
        let mut child = touch(&folder).start().unwrap();
        drop(child.stdin().take());
        assert!(!child.wait().await.unwrap().success());
        assert!(!folder.path().join("made").exists());
    }
}
