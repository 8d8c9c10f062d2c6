//! The server: from its start to its orderly end.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use dirigent::{Dirigent, DirigentError};
use tokio::net::TcpListener;
use tokio::time::{Instant, timeout_at};

use crate::connections::Connections;
use crate::files::real_folder;
use crate::options::ServerOptions;
use crate::private_files::PrivateFiles;
use crate::router::router;
use crate::run_slots::RunSlots;
use crate::service::Service;
use crate::sessions::Sessions;
use crate::token::Token;
use crate::webhooks::watch_runs;

/// A server that listens, but answers only once it runs.
pub struct Server {
    service: Service,
    listener: TcpListener,
}

/// Why a server cannot start, or did not end in order.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The address cannot be used.
    #[error("cannot listen on {address}: end the program that uses the address, or choose another one")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The underlying error.
        source: io::Error,
    },
    /// The folder for requests that name none cannot be used.
    #[error("the workspace {} cannot be used: name an existing folder", path.display())]
    Workspace {
        /// The folder.
        path: PathBuf,
        /// The underlying error.
        source: io::Error,
    },
    /// Agents could read the token or the journal, because the workspace contains it.
    #[error(
        "the workspace {} contains {}, where agents could read it: name another workspace, or move the file",
        workspace.display(),
        file.display()
    )]
    Exposed {
        /// The folder.
        workspace: PathBuf,
        /// The token file or the journal.
        file: PathBuf,
    },
    /// The work of the server did not end in time. Its runs can be resumed.
    #[error(
        "some work did not end in time, and was stopped: what was done since the last journal entry may be done again when its run is resumed"
    )]
    ShutdownTimeout,
    /// The journal could not store what the runs had done.
    #[error(transparent)]
    Journal(#[from] DirigentError),
}

impl Server {
    /// Listens on the address of the options. Runs that were interrupted stay as they are: the caller resumes them with [`Dirigent::resume_interrupted`].
    ///
    /// Clients need the token for everything but `/health`. If the address is not a loopback address, the token and everything else goes over the network unencrypted, so there should be a proxy with TLS in front.
    ///
    /// # Errors
    /// [`ServerError::Listen`], [`ServerError::Workspace`], [`ServerError::Exposed`].
    pub async fn bind(
        dirigent: Dirigent,
        token: Token,
        mut options: ServerOptions,
    ) -> Result<Server, ServerError> {
        let private = PrivateFiles::new(&dirigent, options.token_file.as_deref());
        options.workspace = usable_workspace(options.workspace, &private).await?;
        let failed = |source| ServerError::Listen {
            address: options.listen,
            source,
        };
        let listener = TcpListener::bind(options.listen).await.map_err(failed)?;
        options.listen = listener.local_addr().map_err(failed)?;
        let sessions = load_sessions(options.token_file.clone(), token.clone()).await;
        Ok(Server {
            service: Service::new(dirigent, token, sessions, private, options),
            listener,
        })
    }

    /// The slots for active runs. Runs that the caller resumes must be counted in them ([`RunSlots::count`]), so that requests do not exceed
    /// [`ServerLimits::runs`](crate::ServerLimits::runs) together with them.
    pub fn run_slots(&self) -> RunSlots {
        self.service.runs.clone()
    }

    /// The address on which the server listens.
    pub fn address(&self) -> SocketAddr {
        self.service.options.listen
    }

    /// Answers requests until `shutdown` is ready. Then no work is accepted any more, event streams end with the reason, the runs of this process stop at their last journal entry, so that
    /// they can be resumed, and the orchestrator is shut down; all this within the time of [`ServerLimits::shutdown_time`](crate::ServerLimits::shutdown_time).
    ///
    /// # Errors
    /// [`ServerError::ShutdownTimeout`], [`ServerError::Journal`].
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<(), ServerError> {
        let Server { service, listener } = self;
        // If this future is dropped, everything that it has started ends as well.
        let _stopping = service.stopping.clone().drop_guard();
        let mut connections = Connections::new(router(service.clone()), service.clone());
        let webhooks = tokio::spawn(watch_runs(service.clone()));
        connections.accept(listener, shutdown).await;
        service.stopping.cancel();
        let deadline = Instant::now() + service.options.limits.shutdown_time;
        service.dirigent.cancel_starts();
        let stopped = timeout_at(deadline, service.dirigent.shutdown()).await;
        connections.close(deadline).await;
        // It ends at once. If it does not, messages may be delivered again after the next start.
        let _ = timeout_at(deadline, webhooks).await;
        match stopped {
            Ok(result) => Ok(result?),
            Err(_) => Err(ServerError::ShutdownTimeout),
        }
    }
}

/// Returns the workspace with its links resolved, if it is a folder in which agents find no private file.
async fn usable_workspace(workspace: PathBuf, private: &PrivateFiles) -> Result<PathBuf, ServerError> {
    let path = workspace.clone();
    let found = tokio::task::spawn_blocking(move || real_folder(&path)).await;
    let folder = found
        .unwrap_or_else(|stopped| Err(stopped.into()))
        .map_err(|source| ServerError::Workspace {
            path: workspace,
            source,
        })?;
    match private.file_in(&folder) {
        Some(file) => Err(ServerError::Exposed {
            file: file.to_owned(),
            workspace: folder,
        }),
        None => Ok(folder),
    }
}

/// Reads the sessions of browsers, which are kept next to the token.
async fn load_sessions(token_file: Option<PathBuf>, token: Token) -> Sessions {
    let file = token_file.map(|file| {
        let mut path = file.into_os_string();
        path.push("-sessions");
        PathBuf::from(path)
    });
    let (path, secret) = (file.clone(), token.clone());
    let loaded = tokio::task::spawn_blocking(move || Sessions::load(path, &secret)).await;
    // Reading does not panic; a server whose runtime shuts down needs no sessions.
    loaded.unwrap_or_else(|_| Sessions::load(None, &token))
}
