//! `/mcp`: the server over Streamable HTTP, behind the checks of the service.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method};
use axum::response::{IntoResponse as _, Response};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde::Deserialize;

use super::folders::Folders;
use super::handler::Handler;
use super::host::{Decider, Host, Shared};
use super::sessions::{SESSION_ID, Sessions};
use crate::input::read_body;
use crate::problem::Problem;
use crate::service::Service;

/// The endpoint with its sessions. Clones share it.
#[derive(Clone)]
pub(crate) struct McpEndpoint {
    service: StreamableHttpService<Handler, LocalSessionManager>,
    sessions: Sessions,
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
        let mut manager = LocalSessionManager::default();
        // It would end a session in the middle of a call that waits.
        manager.session_config.keep_alive = None;
        let manager = Arc::new(manager);
        let limits = &service.options.limits;
        // The service has checked the host, the origin and the length of the body.
        let config = StreamableHttpServerConfig::default()
            .disable_allowed_hosts()
            .disable_allowed_origins()
            .with_max_request_body_bytes(service.options.limits.body_bytes)
            .with_cancellation_token(service.stopping.child_token());
        let new_handler = move || Ok(Handler { host: host.clone() });
        McpEndpoint {
            service: StreamableHttpService::new(new_handler, manager.clone(), config),
            sessions: Sessions::new(
                manager,
                limits.mcp_sessions,
                limits.mcp_idle_time,
                service.stopping.clone(),
            ),
        }
    }

    /// Answers a request.
    pub(crate) async fn answer(
        self,
        State(service): State<Service>,
        request: Request,
    ) -> Result<Response, Problem> {
        let (parts, body) = request.into_parts();
        let body = read_body(body, &service).await?;
        let session = header(&parts.headers).map(str::to_owned);
        let is_end = parts.method == Method::DELETE;
        let place = match begins_session(&parts.method, session.as_deref(), &body) {
            true => Some(self.sessions.reserve()?),
            false => None,
        };
        let used = session.as_deref().and_then(|id| self.sessions.begin_request(id));
        let request = Request::from_parts(parts, Body::from(body));
        let response = self.service.handle(request).await.map(Body::new).into_response();
        if let (Some(id), true) = (&session, is_end && response.status().is_success()) {
            self.sessions.forget(id);
        }
        let used = match (header(response.headers()), place) {
            (Some(id), Some(place)) => {
                self.sessions.begin(id, place);
                self.sessions.begin_request(id)
            }
            (_, _) => used,
        };
        Ok(match used {
            Some(used) => used.keep_for(response),
            None => response,
        })
    }
}

fn header(headers: &HeaderMap) -> Option<&str> {
    headers.get(SESSION_ID)?.to_str().ok()
}

/// Returns true for a request that begins a session. Newer versions of the protocol have none.
fn begins_session(method: &Method, session: Option<&str>, body: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Message {
        method: String,
    }
    let is_initialize = || {
        let message = serde_json::from_slice::<Message>(body);
        message.is_ok_and(|message| message.method == "initialize")
    };
    method == Method::POST && session.is_none() && is_initialize()
}
