//! The server: it accepts connections on loopback, answers by its script, and ends with its handle.
//!
//! It runs as tasks of the caller's tokio runtime, without threads, files or global state of its own.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use thiserror::Error;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tower::ServiceExt as _;

use crate::body::{Part, body, plain_parts, stream_parts, two_halves};
use crate::completion::Completion;
use crate::fault::{FaultResponse, RetryAfter, error_object, model_not_found};
use crate::flaw::Flaw;
use crate::gate::Wait;
use crate::reply::Reply;
use crate::request::Request;
use crate::request_log::{Decision, RequestLog};
use crate::response_guard::ResponseGuard;
use crate::script::{Script, Turn, TurnOutcome};
use crate::violation::Violation;

/// Pause after a connection could not be accepted, for example for lack of file handles.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A running server. Dropping it closes all connections.
#[derive(Debug)]
pub struct ModelServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

/// Why a server can't start.
#[derive(Debug, Error)]
#[error("cannot listen on 127.0.0.1:{port}: {source}; choose another port, or 0 for any free port")]
pub struct StartError {
    /// The requested port.
    pub port: u16,
    /// The system's error.
    pub source: io::Error,
}

struct Shared {
    script: Script,
    request_log: Arc<RequestLog>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("script", &self.script)
            .finish_non_exhaustive()
    }
}

/// Marks a response to be replaced by closing the connection.
#[derive(Clone)]
struct CloseConnection;

impl ModelServer {
    /// Starts on a free port of 127.0.0.1. Requires a tokio runtime with IO and time.
    pub async fn start(script: Script) -> Result<Self, StartError> {
        Self::start_on(0, script).await
    }

    /// Starts on this port of 127.0.0.1; 0 for any free port.
    pub async fn start_on(port: u16, script: Script) -> Result<Self, StartError> {
        let failed = |source| StartError { port, source };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
            .await
            .map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let shared = Arc::new(Shared {
            script,
            request_log: Arc::new(RequestLog::new()),
        });
        let accepting = tokio::spawn(accept(listener, router(Arc::clone(&shared))));
        Ok(Self {
            address,
            shared,
            accepting,
        })
    }

    /// Returns the address that the server listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the base URL for clients, such as `http://127.0.0.1:4000/v1`.
    pub fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Returns the chat requests so far, in the order of arrival.
    pub fn requests(&self) -> Vec<Arc<Request>> {
        self.shared.request_log.requests()
    }

    /// Waits until there are `count` chat requests, and returns all so far. There is no timeout.
    pub async fn wait_for_requests(&self, count: usize) -> Vec<Arc<Request>> {
        let enough = |request_log: &RequestLog| {
            Some(request_log.requests()).filter(|requests| requests.len() >= count)
        };
        self.shared.request_log.wait_until(enough).await
    }

    /// Returns the violations of all requests so far.
    pub fn violations(&self) -> Vec<Violation> {
        self.requests()
            .iter()
            .flat_map(|request| request.violations.clone())
            .collect()
    }

    /// Returns the numbers of the requests whose client hung up before the end of the response.
    pub fn hang_ups(&self) -> Vec<usize> {
        self.shared.request_log.hang_ups()
    }

    /// Waits until `count` clients have hung up, and returns the numbers of their requests. There is no timeout.
    pub async fn wait_for_hang_ups(&self, count: usize) -> Vec<usize> {
        let enough = |request_log: &RequestLog| {
            Some(request_log.hang_ups()).filter(|hang_ups| hang_ups.len() >= count)
        };
        self.shared.request_log.wait_until(enough).await
    }

    /// Stops the server and waits until its port is closed.
    pub async fn stop(mut self) {
        self.accepting.abort();
        // An aborted task ends with an error.
        let _ = (&mut self.accepting).await;
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Serves connections until the task is aborted, which closes them.
async fn accept(listener: TcpListener, router: Router) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(serve(stream, router.clone()));
                }
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn serve(stream: TcpStream, router: Router) {
    // Otherwise a small event would wait for the acknowledgment of the previous one.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| {
        let router = router.clone();
        async move {
            let response = router
                .oneshot(request)
                .await
                .unwrap_or_else(|never: Infallible| match never {});
            if response.extensions().get::<CloseConnection>().is_some() {
                return Err(io::Error::other("the script closes the connection here"));
            }
            Ok(response)
        }
    });
    // An error means that the client hung up or that the script closes the connection.
    let _ = hyper::server::conn::http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/v1/chat/completions", post(chat))
        .route("/v1/models", get(models))
        .route("/v1/models/{model}", get(model))
        .fallback(not_found)
        .layer(DefaultBodyLimit::disable())
        .with_state(shared)
}

async fn chat(State(shared): State<Arc<Shared>>, headers: HeaderMap, raw: Bytes) -> Response {
    let (request, decision) = shared.request_log.receive(&shared.script, headers, raw);
    let guard = ResponseGuard::new(Arc::clone(&shared.request_log), request.number);
    let turn = match decision {
        Decision::Answer(turn) => turn,
        Decision::Call(function) => function(&request),
        Decision::Refuse => return bad_request(&request.violations, guard),
    };
    let mut response = send_turn(turn, &request, guard).await;
    if let Ok(id) = HeaderValue::try_from(format!("req_{}", request.number)) {
        response.headers_mut().insert("x-request-id", id);
    }
    response
}

async fn send_turn(turn: Turn, request: &Request, guard: ResponseGuard) -> Response {
    if let Some(wait) = &turn.before_headers {
        wait.wait().await;
    }
    match turn.outcome {
        TurnOutcome::Reply(reply) => send_reply(&reply, request, turn.in_body, guard),
        TurnOutcome::Fault(fault) => {
            send_fault(fault.response(request.model()), request, turn.in_body, guard)
        }
    }
}

/// Sends a response in place of a reply.
fn send_fault(
    response: FaultResponse,
    request: &Request,
    wait: Option<Wait>,
    mut guard: ResponseGuard,
) -> Response {
    match response {
        FaultResponse::Error {
            status,
            body,
            retry_after,
        } => error(status, &body, retry_after, wait, guard),
        FaultResponse::Html { status, page } => {
            let parts = two_halves(page.into_bytes());
            respond(status, "text/html", None, body(parts.into_iter(), wait, guard))
        }
        FaultResponse::Redirect { to } => {
            guard.mark_complete();
            let status = StatusCode::TEMPORARY_REDIRECT;
            let mut response = respond(status, "text/plain", None, Body::empty());
            if let Ok(to) = HeaderValue::try_from(to) {
                response.headers_mut().insert(header::LOCATION, to);
            }
            response
        }
        FaultResponse::Empty => {
            guard.mark_complete();
            success(request, None, Body::empty())
        }
        FaultResponse::CloseConnection => {
            guard.mark_complete();
            let mut response = Response::new(Body::empty());
            response.extensions_mut().insert(CloseConnection);
            response
        }
        FaultResponse::Garbage => {
            let garbage = if request.wants_stream() {
                "data: <garbage>\n\n"
            } else {
                "<garbage>"
            };
            let parts = two_halves(garbage.into());
            success(request, None, body(parts.into_iter(), wait, guard))
        }
        FaultResponse::Endless { every } => {
            let filler = if request.wants_stream() {
                ": keep-alive\n\n"
            } else {
                "\n"
            };
            let parts = std::iter::repeat(Part::Bytes(Bytes::from_static(filler.as_bytes())));
            success(request, None, body(parts, Some(Wait::Delay(every)), guard))
        }
    }
}

/// Sends a reply, streamed or whole as requested.
fn send_reply(reply: &Reply, request: &Request, wait: Option<Wait>, guard: ResponseGuard) -> Response {
    let completion = Completion {
        reply,
        request,
        created: jiff::Timestamp::now().as_second(),
    };
    let (parts, length) = if request.wants_stream() {
        (stream_parts(reply, completion.chunks()), None)
    } else {
        let whole = completion.whole();
        let parts = plain_parts(reply, &whole);
        // Only a body that breaks off announces its length; one that ends early must look complete.
        let length = parts.contains(&Part::Break).then(|| whole.to_string().len());
        (parts, length)
    };
    let mut response = success(request, length, body(parts.into_iter(), wait, guard));
    if reply.has(Flaw::WrongContentType) {
        response
            .headers_mut()
            .insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    }
    response
}

fn success(request: &Request, length: Option<usize>, body: Body) -> Response {
    let content_type = if request.wants_stream() {
        "text/event-stream; charset=utf-8"
    } else {
        "application/json"
    };
    respond(StatusCode::OK, content_type, length, body)
}

fn error(
    status: StatusCode,
    object: &Value,
    retry_after: Option<RetryAfter>,
    wait: Option<Wait>,
    guard: ResponseGuard,
) -> Response {
    let parts = two_halves(object.to_string().into_bytes());
    let mut response = respond(
        status,
        "application/json",
        None,
        body(parts.into_iter(), wait, guard),
    );
    if let Some(when) = retry_after
        && let Ok(value) = HeaderValue::try_from(when.value())
    {
        response.headers_mut().insert(when.name(), value);
    }
    response
}

fn respond(status: StatusCode, content_type: &'static str, length: Option<usize>, body: Body) -> Response {
    let mut response = (status, [(header::CONTENT_TYPE, content_type)], body).into_response();
    response
        .headers_mut()
        .insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    if let Some(length) = length {
        response
            .headers_mut()
            .insert(header::CONTENT_LENGTH, length.into());
    }
    response
}

fn bad_request(violations: &[Violation], guard: ResponseGuard) -> Response {
    let reasons: Vec<String> = violations.iter().map(Violation::to_string).collect();
    let place = violations
        .first()
        .map(|violation| violation.path.as_str())
        .filter(|place| !place.is_empty());
    let object = error_object(&reasons.join("; "), "invalid_request_error", place, None);
    error(StatusCode::BAD_REQUEST, &object, None, None, guard)
}

async fn models(State(shared): State<Arc<Shared>>) -> Response {
    let data: Vec<Value> = names(&shared.script).into_iter().map(model_object).collect();
    axum::Json(json!({ "object": "list", "data": data })).into_response()
}

async fn model(State(shared): State<Arc<Shared>>, Path(name): Path<String>) -> Response {
    if names(&shared.script).contains(&name.as_str()) {
        return axum::Json(model_object(&name)).into_response();
    }
    (StatusCode::NOT_FOUND, axum::Json(model_not_found(&name))).into_response()
}

fn names(script: &Script) -> Vec<&str> {
    if script.models.is_empty() {
        return vec!["scripted-model"];
    }
    script.models.iter().map(String::as_str).collect()
}

fn model_object(name: &str) -> Value {
    json!({ "id": name, "object": "model", "created": 0, "owned_by": "dirigent" })
}

async fn not_found(method: Method, uri: Uri) -> Response {
    let message = format!("Invalid URL ({method} {})", uri.path());
    let object = error_object(&message, "invalid_request_error", None, None);
    (StatusCode::NOT_FOUND, axum::Json(object)).into_response()
}
