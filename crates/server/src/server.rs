//! The server: from its start to its orderly end.

use std::future::Future;
use std::io;
use std::net::SocketAddr;

use dirigent::{Dirigent, DirigentError};
use tokio::net::TcpListener;
use tokio::time::{Instant, timeout_at};

use crate::connections::Connections;
use crate::options::ServerOptions;
use crate::router::router;
use crate::service::Service;
use crate::token::Token;
use crate::webhooks::watch_runs;

/// A server that listens, but answers only once it runs.
pub struct Server {
    service: Service,
    listener: TcpListener,
    address: SocketAddr,
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
        path: std::path::PathBuf,
        /// The underlying error.
        source: io::Error,
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
    /// [`ServerError::Listen`], [`ServerError::Workspace`].
    pub async fn bind(
        dirigent: Dirigent,
        token: Token,
        mut options: ServerOptions,
    ) -> Result<Server, ServerError> {
        options.workspace =
            std::path::absolute(&options.workspace).map_err(|source| ServerError::Workspace {
                path: options.workspace.clone(),
                source,
            })?;
        let failed = |source| ServerError::Listen {
            address: options.listen,
            source,
        };
        let listener = TcpListener::bind(options.listen).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Server {
            service: Service::new(dirigent, token, options),
            listener,
            address,
        })
    }

    /// The address on which the server listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers requests until `shutdown` is ready. Then no work is accepted any more, event streams end with the reason, the runs of this process stop at their last journal entry, so that
    /// they can be resumed, and the orchestrator is shut down; all this within the time of [`ServerLimits::shutdown_time`](crate::ServerLimits::shutdown_time).
    ///
    /// # Errors
    /// [`ServerError::ShutdownTimeout`], [`ServerError::Journal`].
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<(), ServerError> {
        let Server {
            service, listener, ..
        } = self;
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
