//! The server over stdio: one client, which has started this process.

use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll};

use dirigent::{Dirigent, DirigentError};
use rmcp::service::ServerInitializeError;
use rmcp::service::serve_server_with_ct;
use rmcp::transport::async_rw::AsyncRwTransport;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::folders::Folders;
use super::handler::Handler;
use super::host::{Decider, Host, Shared};
use crate::files::real_folder;
use crate::options::ServerLimits;
use crate::run_slots::RunSlots;

/// The longest message of a client, in bytes.
const MAX_MESSAGE: usize = 4 << 20;

/// Dirigent as a server of the Model Context Protocol, for one client that reads and writes this process's standard streams.
pub struct McpServer {
    dirigent: Dirigent,
    workspace: PathBuf,
    decider: Decider,
}

/// Why a server cannot start, or did not end in order.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum McpServerError {
    /// The folder to which the server is limited cannot be used.
    #[error("the workspace {} cannot be used: name an existing folder", path.display())]
    Workspace {
        /// The folder.
        path: PathBuf,
        /// The underlying error.
        source: io::Error,
    },
    /// The client does not speak the protocol.
    #[error("the client does not speak the Model Context Protocol: {0}")]
    Protocol(String),
    /// The work of the server did not end in time. Its runs can be resumed.
    #[error(
        "some work did not end in time, and was stopped: what was done since the last journal entry may be done again when its run is resumed"
    )]
    ShutdownTimeout,
    /// The journal could not store what the runs had done.
    #[error(transparent)]
    Journal(#[from] DirigentError),
}

impl McpServer {
    /// Creates a server whose runs work in this folder, in folders within it, or in the roots of the client.
    ///
    /// # Errors
    /// [`McpServerError::Workspace`]
    pub fn new(dirigent: Dirigent, workspace: &Path, decider: Decider) -> Result<McpServer, McpServerError> {
        let failed = |source| McpServerError::Workspace {
            path: workspace.to_owned(),
            source,
        };
        Ok(McpServer {
            dirigent,
            workspace: real_folder(workspace).map_err(failed)?,
            decider,
        })
    }

    /// Answers the client until its input ends or `shutdown` is ready. Then no work is accepted any more, calls that wait return, and the runs of this process stop at their last
    /// journal entry, so that they can be resumed. Nothing but messages of the protocol is written to `output`.
    ///
    /// # Errors
    /// [`McpServerError::Protocol`], [`McpServerError::ShutdownTimeout`], [`McpServerError::Journal`].
    pub async fn serve(
        self,
        input: impl AsyncRead + Send + Unpin + 'static,
        output: impl AsyncWrite + Send + Unpin + 'static,
        shutdown: impl Future<Output = ()>,
    ) -> Result<(), McpServerError> {
        let stopping = CancellationToken::new();
        let limits = ServerLimits::default();
        let host = Host::new(Shared {
            dirigent: self.dirigent.clone(),
            folders: Folders::within(self.workspace),
            decider: self.decider,
            runs: RunSlots::new(limits.runs),
            stopping: stopping.clone(),
        });
        let input = ClientInput {
            input,
            ended: stopping.clone(),
        };
        let transport = AsyncRwTransport::new_server(input, output).with_max_line_length(MAX_MESSAGE);
        let cancel = CancellationToken::new();
        let serving = async {
            let running = serve_server_with_ct(Handler { host }, transport, cancel.clone()).await?;
            // Fails only if the task of the connection panics, which it reports itself.
            let _ = running.waiting().await;
            Ok(())
        };
        let result = {
            let mut serving = std::pin::pin!(serving);
            tokio::select! {
                result = &mut serving => result,
                () = shutdown => {
                    stopping.cancel();
                    cancel.cancel();
                    serving.await
                }
            }
        };
        stopping.cancel();
        self.dirigent.cancel_starts();
        match timeout(limits.shutdown_time, self.dirigent.shutdown()).await {
            Ok(stopped) => stopped?,
            Err(_) => return Err(McpServerError::ShutdownTimeout),
        }
        match result {
            // The client has gone before it said anything, or the process is to end.
            Ok(()) | Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => {
                Ok(())
            }
            Err(error) => Err(McpServerError::Protocol(error.to_string())),
        }
    }
}

/// The input of the client, which says when it ends: calls that wait return then, so that the process ends soon.
struct ClientInput<R> {
    input: R,
    ended: CancellationToken,
}

impl<R: AsyncRead + Unpin> AsyncRead for ClientInput<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.input).poll_read(context, buffer);
        let has_ended = match &read {
            Poll::Pending => false,
            Poll::Ready(Ok(())) => buffer.filled().len() == before && buffer.remaining() > 0,
            Poll::Ready(Err(_)) => true,
        };
        if has_ended {
            self.ended.cancel();
        }
        read
    }
}
