//! A program that is to be started, and the gate that it waits behind.
//!
//! Limits can only be set for a process that is there, and by then a program may have begun. So what is started is a shell that waits for a
//! line and then becomes the program: what runs is limited from its first instruction on, and so is all that it starts.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use process_wrap::tokio::{CommandWrap, KillOnDrop, ProcessGroup};

/// Where nobody is there any more to open it, the input ends and so does the shell.
const GATE: &str = r#"read -r _ && exec "$0" "$@" </dev/null"#;
const SHELL: &str = "/bin/sh";

/// A program with all that it is given. Its input is closed, its output is a pipe.
pub(crate) struct Program {
    /// Its file.
    pub(crate) file: PathBuf,
    /// What it is called by: a path, or a name that the `PATH` of its environment leads from to its file.
    pub(crate) name: OsString,
    pub(crate) arguments: Vec<OsString>,
    /// The folder that it runs in.
    pub(crate) folder: PathBuf,
    /// Its whole environment.
    pub(crate) environment: Vec<(OsString, OsString)>,
}

impl Program {
    /// What starts it as the leader of a process group: on Linux behind its gate, elsewhere, where nothing is limited, as it is.
    pub(super) fn command(&self) -> CommandWrap {
        let is_gated = cfg!(target_os = "linux");
        let file = if is_gated { Path::new(SHELL) } else { &self.file };
        let mut command = CommandWrap::with_new(file, |command| {
            if is_gated {
                command.args([OsStr::new("-c"), OsStr::new(GATE), self.called()]);
                command.stdin(Stdio::piped());
            } else {
                command.arg0(&self.name).stdin(Stdio::null());
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

    /// Its name, but where the shell would take that for an option.
    fn called(&self) -> &OsStr {
        match self.name.as_bytes() {
            [b'-', ..] => self.file.as_os_str(),
            _ => &self.name,
        }
    }
}
