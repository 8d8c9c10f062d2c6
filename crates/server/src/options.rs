//! The options of a server.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use crate::webhooks::WebhookOptions;

/// The address on which a server listens unless another one is given.
pub const DEFAULT_ADDRESS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 7341);

/// The options of a server.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// The address to listen on; port 0 chooses a free port.
    pub listen: SocketAddr,
    /// The names, besides `localhost` and numeric addresses, under which clients may reach the server: what the `Host` header of a request may contain.
    pub hosts: Vec<String>,
    /// The folder in which runs and conversations work whose requests name none.
    pub workspace: PathBuf,
    /// The file of the token, if it has one. No run may work in a folder that contains it, and the sessions of browsers are kept next to it, in a file whose name ends
    /// with `-sessions`; without it, sessions end with the server.
    pub token_file: Option<PathBuf>,
    /// The limits of requests.
    pub limits: ServerLimits,
    /// The addresses that the server calls when a run has ended or waits for its user.
    pub webhooks: WebhookOptions,
}

impl Default for ServerOptions {
    /// Listens on [`DEFAULT_ADDRESS`]; the workspace is the current folder.
    fn default() -> Self {
        ServerOptions {
            listen: DEFAULT_ADDRESS,
            hosts: Vec::new(),
            workspace: PathBuf::from("."),
            token_file: None,
            limits: ServerLimits::default(),
            webhooks: WebhookOptions::default(),
        }
    }
}

/// The limits of requests.
#[derive(Clone, Debug)]
pub struct ServerLimits {
    /// The maximum length of a request's body in bytes. A longer body is refused with status 413.
    pub body_bytes: usize,
    /// The maximum length of a request's line and headers in bytes, at least 8,192. Longer ones are refused with status 431.
    pub header_bytes: usize,
    /// The maximum time for a client to send the line and the headers of a request.
    pub header_time: Duration,
    /// The maximum time for a client to send a body.
    pub body_time: Duration,
    /// The maximum number of requests under way, event streams included. Further requests are refused with status 429.
    pub requests: usize,
    /// The maximum number of connections. Further clients wait until a connection is closed.
    pub connections: usize,
    /// The maximum number of active runs of this server: those that it started or resumed, and that have not ended. Further runs are refused with status 429.
    pub runs: usize,
    /// The maximum number of sessions of MCP clients at `/mcp`. Further clients are refused with status 429.
    pub mcp_sessions: usize,
    /// The time without a request under way after which the session of an MCP client ends.
    pub mcp_idle_time: Duration,
    /// The maximum time for a client to acknowledge what it was sent. After that its connection is closed, which has no effect on runs.
    pub send_time: Duration,
    /// The maximum time for the end of all work when the server shuts down.
    pub shutdown_time: Duration,
}

impl Default for ServerLimits {
    fn default() -> Self {
        ServerLimits {
            body_bytes: 1 << 20,
            header_bytes: 64 << 10,
            header_time: Duration::from_secs(10),
            body_time: Duration::from_secs(30),
            requests: 256,
            connections: 1_024,
            runs: 64,
            mcp_sessions: 64,
            mcp_idle_time: Duration::from_secs(30 * 60),
            send_time: Duration::from_secs(30),
            shutdown_time: Duration::from_secs(10),
        }
    }
}
