//! Errors of services.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::config::ServiceName;

/// Why a service could not be started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    /// A setting cannot be used: a variable is not set, or the value is invalid.
    #[error("`{setting}`: {problem}")]
    Setting {
        /// The setting.
        setting: &'static str,
        /// The error in the setting.
        problem: String,
    },
    /// The operating system did not start the program.
    #[error("{}", describe_spawn(command, folder.as_ref(), source))]
    Spawn {
        /// The program.
        command: String,
        /// The folder in which the program should have run.
        folder: Option<PathBuf>,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The service did not become ready in time.
    #[error(
        "it did not answer as an MCP server within {} s: check its command or URL, or raise `start_timeout` if it needs longer",
        .0.as_secs_f32()
    )]
    TimedOut(Duration),
    /// The service broke the protocol, or the connection failed.
    #[error("{0}")]
    Protocol(String),
}

impl StartError {
    /// Returns the error without the query of the service's URL, which may contain a key.
    pub(crate) fn without(self, query: Option<&str>) -> Self {
        match (self, query.filter(|query| !query.is_empty())) {
            (StartError::Protocol(reason), Some(query)) => StartError::Protocol(reason.replace(query, "…")),
            (error, _) => error,
        }
    }
}

fn describe_spawn(command: &str, folder: Option<&PathBuf>, error: &io::Error) -> String {
    match (error.kind(), folder.filter(|folder| !folder.is_dir())) {
        (io::ErrorKind::NotFound, Some(folder)) => {
            format!(
                "its folder {} does not exist: create it, or change `cwd`",
                folder.display()
            )
        }
        (io::ErrorKind::NotFound, None) => {
            format!("there is no program `{command}`: install it, or give its full path")
        }
        _ => format!("the program `{command}` cannot be started: {error}"),
    }
}

/// Why an operation on services failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum McpError {
    /// There is no service with this name.
    #[error("there is no service {name}: {}", hint(known))]
    UnknownService {
        /// The name.
        name: String,
        /// The names of all services.
        known: Vec<String>,
    },
    /// The service is configured but disabled.
    #[error("the service {name} is disabled: enable it in its configuration")]
    Disabled {
        /// The service.
        name: ServiceName,
    },
    /// The user stopped the service.
    #[error("the service {name} is stopped: start it, then try again")]
    Stopped {
        /// The service.
        name: ServiceName,
    },
    /// The service was removed, or replaced by one with other settings.
    #[error(
        "the service {name} was removed, or its settings have changed: if it still exists, call the tool again"
    )]
    Removed {
        /// The service.
        name: ServiceName,
    },
    /// The service has another program or address than when the run started.
    #[error(
        "the service {name} has another program or address than when this run started, so nothing was called: continue without it; a new run \
         can use it"
    )]
    Replaced {
        /// The service.
        name: ServiceName,
    },
    /// The service failed, and is not restarted automatically.
    #[error("the service {name} has failed: {reason}{}", describe_stderr(stderr))]
    Failed {
        /// The service.
        name: ServiceName,
        /// The error.
        reason: String,
        /// The last lines of its standard error.
        stderr: Vec<String>,
    },
    /// Two services have the same name.
    #[error("there are two services {name}: rename one of them")]
    Twice {
        /// The name.
        name: ServiceName,
    },
    /// The services were shut down.
    #[error("the services are shut down")]
    ShutDown,
}

fn hint(known: &[String]) -> String {
    if known.is_empty() {
        "no service is configured".to_owned()
    } else {
        format!("the configured services are {}", known.join(", "))
    }
}

fn describe_stderr(lines: &[String]) -> String {
    /// The number of lines of standard error that a message shows.
    const SHOWN: usize = 5;
    if lines.is_empty() {
        return String::new();
    }
    let shown = lines.get(lines.len().saturating_sub(SHOWN)..).unwrap_or_default();
    format!(". Its last messages: {}", shown.join(" | "))
}
