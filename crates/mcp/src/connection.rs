//! The life of one connection to a service, from the start of its process to its end.
//!
//! [`run`] is one task for each connection. It reports to the service's actor, and never decides whether the service is started again.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::FutureExt as _;
use rmcp::model::{ClientRequest, PingRequest};
use rmcp::service::{Peer, RunningService};
use rmcp::transport::Transport;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::{RoleClient, ServiceError, ServiceExt as _};
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::client::{Calls, Client};
use crate::config::{Endpoint, ServiceConfig};
use crate::error::StartError;
use crate::http::{self, MessageStream};
use crate::process::ServiceProcess;
use crate::protocol_error::{initialize_error, service_error};
use crate::service::Service;
use crate::stderr_tail::StderrTail;
use crate::tool_list::{ToolList, list_tools};
use crate::transport::BoundedTransport;

/// Maximum size of a message from a service, in bytes. A longer message is dropped, so a call that is waiting for it times out.
const MAX_MESSAGE: usize = 8 * 1024 * 1024;
/// Maximum time to wait for the exit status of a process that has closed its output.
const SETTLE: Duration = Duration::from_millis(250);

/// A connection to a running service.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) peer: Peer<RoleClient>,
    pub(crate) calls: Arc<Calls>,
    /// The end of the program's standard error. Empty for a server behind a URL.
    pub(crate) stderr: StderrTail,
    lost: CancellationToken,
    reason: OnceLock<String>,
}

impl Connection {
    /// Waits until the connection has ended, and returns the reason.
    pub(crate) async fn lost(&self) -> String {
        self.lost.cancelled().await;
        self.reason.get().cloned().unwrap_or_default()
    }

    fn end(&self, reason: &str) {
        // Never fails: the reason is set only here, and a connection ends once.
        let _ = self.reason.set(reason.to_owned());
        self.lost.cancel();
    }
}

/// How a connection ended.
#[derive(Debug)]
pub(crate) enum ConnectionEnd {
    /// The connection ended on request.
    Stopped,
    /// The connection could not be established.
    NotStarted { reason: String, stderr: Vec<String> },
    /// The connection was established, and then lost.
    Lost { reason: String, stderr: Vec<String> },
}

/// A report from an active connection.
#[derive(Debug)]
pub(crate) enum Report {
    /// The service is ready.
    Ready(Arc<Connection>, ToolList),
    /// The service's list of tools has changed.
    Listed(ToolList),
}

/// An initialized connection, and the service's descriptions of its tools.
type Ready = (RunningService<RoleClient, Client>, Vec<Value>);

/// Connects to the service and stays connected until `cancel` is cancelled or the connection is lost. No process is left afterwards.
pub(crate) async fn run(
    service: Arc<Service>,
    cancel: CancellationToken,
    report: impl Fn(Report),
) -> ConnectionEnd {
    let config = &service.config;
    let calls = Arc::<Calls>::default();
    let tools_changed = Arc::<Notify>::default();
    let client = Client {
        service: config.name.clone(),
        roots: service.roots.clone(),
        calls: calls.clone(),
        events: service.events.clone(),
        tools_changed: tools_changed.clone(),
    };
    let mut process = None;
    let started = tokio::select! {
        biased;
        () = cancel.cancelled() => None,
        started = start(config, client, &mut process) => Some(started),
    };
    let end = match started {
        None => ConnectionEnd::Stopped,
        Some(Err(error)) => ConnectionEnd::NotStarted {
            reason: error.to_string(),
            stderr: Vec::new(),
        },
        Some(Ok((running, listed))) => {
            let connection = Arc::new(Connection {
                peer: running.peer().clone(),
                calls,
                stderr: process
                    .as_ref()
                    .map_or_else(StderrTail::default, |process| process.stderr().clone()),
                lost: CancellationToken::new(),
                reason: OnceLock::new(),
            });
            report(Report::Ready(connection.clone(), ToolList::new(config, listed)));
            let lost = stay(&service, running, &mut process, &cancel, &tools_changed, &report).await;
            connection.end(lost.as_deref().unwrap_or("it was stopped"));
            match lost {
                None => ConnectionEnd::Stopped,
                Some(reason) => ConnectionEnd::Lost {
                    reason,
                    stderr: Vec::new(),
                },
            }
        }
    };
    match process {
        None => end,
        Some(mut process) => {
            process.end(service.supervision.stop_grace).await;
            with_stderr(end, process.stderr().lines())
        }
    }
}

fn with_stderr(end: ConnectionEnd, lines: Vec<String>) -> ConnectionEnd {
    match end {
        ConnectionEnd::Stopped => ConnectionEnd::Stopped,
        ConnectionEnd::NotStarted { reason, .. } => ConnectionEnd::NotStarted {
            reason,
            stderr: lines,
        },
        ConnectionEnd::Lost { reason, .. } => ConnectionEnd::Lost {
            reason,
            stderr: lines,
        },
    }
}

/// Starts the process, if the service has one, and waits until the service is ready. Stores the process in `process`, even if an error
/// follows.
async fn start(
    config: &ServiceConfig,
    client: Client,
    process: &mut Option<ServiceProcess>,
) -> Result<Ready, StartError> {
    let limit = config.start_timeout;
    match &config.endpoint {
        Endpoint::Command(endpoint) => {
            let (started, stdout, stdin) = ServiceProcess::start(endpoint)?;
            let process = process.insert(started);
            let transport = AsyncRwTransport::new_client(stdout, stdin).with_max_line_length(MAX_MESSAGE);
            let result = tokio::select! {
                biased;
                ready = ready(client, BoundedTransport::new(transport), limit) => ready,
                reason = process.exited() => Err(StartError::Protocol(reason)),
            };
            match (result, timeout(SETTLE, process.exited())) {
                (Err(StartError::Protocol(reason)), exit) => {
                    let reason = exit.await.unwrap_or(reason);
                    Err(StartError::Protocol(format!(
                        "{reason} before it was ready: check that its command starts an MCP server"
                    )))
                }
                (result, _) => result,
            }
        }
        Endpoint::Url(endpoint) => {
            let stream = MessageStream::default();
            let transport = BoundedTransport::new(http::transport(endpoint, &stream)?);
            let ready = ready(client, transport, limit).await;
            let ready = ready.map_err(|error| error.without(endpoint.url.query()))?;
            stream.answered().await;
            Ok(ready)
        }
    }
}

/// Initializes the connection and lists the tools.
async fn ready(
    client: Client,
    transport: BoundedTransport<impl Transport<RoleClient> + 'static>,
    limit: Duration,
) -> Result<Ready, StartError> {
    let ready = async {
        let running = client.serve(transport).await.map_err(initialize_error)?;
        let tools = list_tools(running.peer()).await.map_err(|error| {
            StartError::Protocol(format!("it did not list its tools: {}", service_error(&error)))
        })?;
        Ok((running, tools))
    };
    match timeout(limit, ready).await {
        Ok(ready) => ready,
        Err(_) => Err(StartError::TimedOut(limit)),
    }
}

/// Watches a connection. Returns the reason for its loss, or `None` if it ended on request. The connection is closed afterwards.
async fn stay(
    service: &Service,
    running: RunningService<RoleClient, Client>,
    process: &mut Option<ServiceProcess>,
    cancel: &CancellationToken,
    tools_changed: &Notify,
    report: &impl Fn(Report),
) -> Option<String> {
    let (peer, closing) = (running.peer().clone(), running.cancellation_token());
    let calls = running.service().calls.clone();
    // Shared, because the end of the connection is awaited again below.
    let closed = running.waiting().map(drop).shared();
    let lost = tokio::select! {
        biased;
        () = cancel.cancelled() => None,
        reason = exited(process) => Some(reason),
        () = closed.clone() => Some("it closed the connection".to_owned()),
        reason = unhealthy(service, &peer, &calls) => Some(reason),
        () = follow(service, &peer, tools_changed, report) => None,
    };
    closing.cancel();
    let grace = service.supervision.stop_grace;
    // Closes the service's standard input. Fails if the service does not read its input; then the end of its process closes the input.
    let _ = timeout(grace, closed).await;
    match (lost, process) {
        (Some(reason), Some(process)) => {
            // The exit status of the process is more informative than the end of its output.
            Some(timeout(SETTLE, process.exited()).await.unwrap_or(reason))
        }
        (lost, _) => lost,
    }
}

/// Waits for the end of the process; forever if there is no process.
async fn exited(process: &mut Option<ServiceProcess>) -> String {
    match process {
        Some(process) => {
            let reason = process.exited().await;
            // Gives the reader time to read the last output of the process.
            sleep(SETTLE).await;
            reason
        }
        None => std::future::pending().await,
    }
}

/// Pings the service regularly, and returns once the service does not answer. Sends no ping during a call, because a service that handles
/// one request at a time cannot answer then, and because the call has its own timeout.
async fn unhealthy(service: &Service, peer: &Peer<RoleClient>, calls: &Calls) -> String {
    let rules = &service.supervision;
    loop {
        sleep(rules.ping_interval).await;
        if !calls.is_empty() {
            continue;
        }
        match timeout(rules.ping_timeout, ping(peer)).await {
            // An error is also an answer.
            Ok(Ok(()) | Err(ServiceError::McpError(_))) => {}
            Ok(Err(_)) => return "the connection failed".to_owned(),
            Err(_) if !calls.is_empty() => {}
            Err(_) => {
                let seconds = rules.ping_timeout.as_secs_f32();
                return format!("it did not answer a ping within {seconds} s");
            }
        }
    }
}

async fn ping(peer: &Peer<RoleClient>) -> Result<(), ServiceError> {
    let request = ClientRequest::PingRequest(PingRequest::default());
    peer.send_request(request).await.map(drop)
}

/// Lists the tools again whenever the service says that they have changed. Never ends.
async fn follow(
    service: &Service,
    peer: &Peer<RoleClient>,
    tools_changed: &Notify,
    report: &impl Fn(Report),
) {
    loop {
        tools_changed.notified().await;
        match timeout(service.config.call_timeout, list_tools(peer)).await {
            Ok(Ok(listed)) => report(Report::Listed(ToolList::new(&service.config, listed))),
            Ok(Err(_)) | Err(_) => {
                tracing::warn!(service = %service.config.name, "a service did not list its changed tools");
            }
        }
        sleep(service.pause_after_list()).await;
    }
}
