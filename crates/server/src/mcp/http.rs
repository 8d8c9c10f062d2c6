//! `/mcp`: the server over Streamable HTTP, behind the checks of the service.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::Method;
use axum::response::{IntoResponse as _, Response};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};

use super::folders::Folders;
use super::handler::Handler;
use super::host::{Decider, Host, Shared};
use crate::input::read_body;
use crate::problem::Problem;
use crate::service::Service;

/// The time without requests and notifications after which a session is ended: longer than a call may wait for a run.
const SESSION_TIME: Duration = Duration::from_secs(2 * 60 * 60);

/// The endpoint with its sessions. Clones share it.
#[derive(Clone)]
pub(crate) struct McpEndpoint {
    service: StreamableHttpService<Handler, LocalSessionManager>,
    sessions: Arc<LocalSessionManager>,
}

impl McpEndpoint {
    pub(crate) fn new(service: &Service) -> Self {
        let host = Host::new(Shared {
            dirigent: service.dirigent.clone(),
            folders: Folders::Any(service.clone()),
            decider: Decider::Person,
            runs: service.runs.clone(),
            stopping: service.stopping.clone(),
        });
        let mut sessions = LocalSessionManager::default();
        sessions.session_config.keep_alive = Some(SESSION_TIME);
        let sessions = Arc::new(sessions);
        // The service has checked the host, the origin and the length of the body.
        let config = StreamableHttpServerConfig::default()
            .disable_allowed_hosts()
            .disable_allowed_origins()
            .with_max_request_body_bytes(service.options.limits.body_bytes)
            .with_cancellation_token(service.stopping.child_token());
        let new_handler = move || Ok(Handler { host: host.clone() });
        McpEndpoint {
            service: StreamableHttpService::new(new_handler, sessions.clone(), config),
            sessions,
        }
    }

    /// Answers a request.
    pub(crate) async fn answer(
        self,
        State(service): State<Service>,
        request: Request,
    ) -> Result<Response, Problem> {
        let is_new = request.method() == Method::POST && !request.headers().contains_key("mcp-session-id");
        if is_new && self.sessions.sessions.read().await.len() >= service.options.limits.requests {
            return Err(Problem::too_many_requests());
        }
        let (parts, body) = request.into_parts();
        let body = read_body(body, &service).await?;
        let request = Request::from_parts(parts, Body::from(body));
        Ok(self.service.handle(request).await.map(Body::new).into_response())
    }
}
