//! Errors of the registry of services.

use std::path::PathBuf;

use dirigent_mcp::{ImportError, InvalidService, ServiceName};

use super::ServiceOrigin;
use crate::memory::Secret;

/// Why a service cannot be added, changed or used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ServiceError {
    /// A setting cannot be used.
    #[error("the service {name} was not saved: {problem}")]
    Invalid {
        /// The name as the user wrote it.
        name: String,
        /// The setting, the error in it, and what to do.
        problem: InvalidService,
    },
    /// A setting looks like a secret, and secrets are never stored.
    #[error(
        "the service {name} was not saved: {setting} seems to contain {secret}, and secrets are not stored. Set a variable of your environment to it, \
         and write ${{VARIABLE}} in its place"
    )]
    Secret {
        /// The service.
        name: ServiceName,
        /// The setting: `env.API_KEY`, `headers.Authorization`, `args`.
        setting: String,
        /// The kind of secret.
        secret: Secret,
    },
    /// A service with this name exists.
    #[error("a service named {name} already exists in {origin}: choose another name, or change that service")]
    Exists {
        /// The name.
        name: ServiceName,
        /// Where the service is configured.
        origin: ServiceOrigin,
    },
    /// There is no service with this name.
    #[error("there is no service {name}: {}", describe_known(known))]
    NoSuchService {
        /// The name.
        name: String,
        /// The names of all services.
        known: Vec<String>,
    },
    /// A resumed run needs services whose names are in use by other services of this process.
    #[error(
        "the run cannot continue in this process, because other services here have the names {}: resume it in a separate process, or rename the services",
        names.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    )]
    Taken {
        /// The names.
        names: Vec<ServiceName>,
    },
    /// The service comes from a file, which only the user may change.
    #[error("the service {name} comes from {origin}, so it can only be changed there")]
    NotStored {
        /// The service.
        name: ServiceName,
        /// Where the service is configured.
        origin: ServiceOrigin,
    },
    /// A file with services cannot be read.
    #[error("{}: {problem}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error in the file.
        problem: String,
    },
    /// A text with services cannot be read.
    #[error("the services cannot be read: {0}")]
    Import(#[from] ImportError),
}

fn describe_known(known: &[String]) -> String {
    match known {
        [] => "there are none yet".to_owned(),
        known => format!("the available services are {}", known.join(", ")),
    }
}
