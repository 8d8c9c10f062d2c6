//! The server: accepts connections on loopback, answers by its script, and ends with its handle.
//!
//! All of it runs as tasks of the caller's tokio runtime; there is no thread, no file and no global state.

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

use crate::check::Violation;
use crate::completion::Completion;
use crate::fault::{RetryAfter, Sent, error_object, model_not_found};
use crate::flaw::Flaw;
use crate::gate::Hold;
use crate::ledger::{Decision, Delivery, Ledger};
use crate::reply::Reply;
use crate::request::Request;
use crate::script::{Answer, Script, Turn};
use crate::transmission::{Part, body, plain_parts, stream_parts, two_halves};

/// How long to wait where no connection can be accepted, for lack of file handles for example.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A running server. Dropping it ends it and every connection.
#[derive(Debug)]
pub struct ModelServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

/// Why the server does not start.
#[derive(Debug, Error)]
#[error("cannot listen on 127.0.0.1:{port}: {source}; choose another port, or 0 for any free one")]
pub struct StartError {
    /// The port asked for.
    pub port: u16,
    /// What the system says.
    pub source: io::Error,
}

struct Shared {
    script: Script,
    ledger: Arc<Ledger>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("script", &self.script)
            .finish_non_exhaustive()
    }
}

/// Marks a response in whose place the connection closes.
#[derive(Clone)]
struct NoAnswer;

impl ModelServer {
    /// Starts on a free port of 127.0.0.1. Must be called within a tokio runtime with IO and time.
    pub async fn start(script: Script) -> Result<Self, StartError> {
        Self::start_on(0, script).await
    }

    /// Starts on this port of 127.0.0.1; 0 is any free one.
    pub async fn start_on(port: u16, script: Script) -> Result<Self, StartError> {
        let failed = |source| StartError { port, source };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
            .await
            .map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let shared = Arc::new(Shared {
            script,
            ledger: Arc::new(Ledger::new()),
        });
        let accepting = tokio::spawn(accept(listener, router(Arc::clone(&shared))));
        Ok(Self {
            address,
            shared,
            accepting,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The base URL for clients, as `http://127.0.0.1:4000/v1`.
    pub fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// The chat requests so far, in the order in which they came.
    pub fn requests(&self) -> Vec<Arc<Request>> {
        self.shared.ledger.requests()
    }

    /// Waits for the nth chat request and gives all so far. It has no timeout of its own.
    pub async fn wait_for_requests(&self, count: usize) -> Vec<Arc<Request>> {
        let enough = |ledger: &Ledger| Some(ledger.requests()).filter(|requests| requests.len() >= count);
        self.shared.ledger.wait_until(enough).await
    }

    /// What was wrong with the requests so far.
    pub fn violations(&self) -> Vec<Violation> {
        self.requests()
            .iter()
            .flat_map(|request| request.violations.clone())
            .collect()
    }

    /// The numbers of the requests whose client went away before it had the whole answer.
    pub fn hang_ups(&self) -> Vec<usize> {
        self.shared.ledger.hang_ups()
    }

    /// Waits until so many clients went away early. It has no timeout of its own.
    pub async fn wait_for_hang_ups(&self, count: usize) -> Vec<usize> {
        let enough = |ledger: &Ledger| Some(ledger.hang_ups()).filter(|hang_ups| hang_ups.len() >= count);
        self.shared.ledger.wait_until(enough).await
    }

    /// Ends the server and waits until its port is closed.
    pub async fn stop(mut self) {
        self.accepting.abort();
        // It ends by being aborted, which is an error only in name.
        let _ = (&mut self.accepting).await;
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Serves connections until it is aborted; they end with it.
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
    // Without it a small event would wait for the one before to be acknowledged.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| {
        let router = router.clone();
        async move {
            let response = router
                .oneshot(request)
                .await
                .unwrap_or_else(|never: Infallible| match never {});
            if response.extensions().get::<NoAnswer>().is_some() {
                return Err(io::Error::other("the script closes the connection here"));
            }
            Ok(response)
        }
    });
    // A connection that ends in an error is a client that went away or a script that wants it.
    let _ = hyper::server::conn::http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/v1/chat/completions", post(chat))
        .route("/v1/models", get(models))
        .route("/v1/models/{model}", get(model))
        .fallback(unknown)
        .layer(DefaultBodyLimit::disable())
        .with_state(shared)
}

async fn chat(State(shared): State<Arc<Shared>>, headers: HeaderMap, raw: Bytes) -> Response {
    let (request, decision) = shared.ledger.receive(&shared.script, headers, raw);
    let delivery = Delivery::new(Arc::clone(&shared.ledger), request.number);
    let turn = match decision {
        Decision::Answer(turn) => turn,
        Decision::Ask(function) => function(&request),
        Decision::Refuse => return refusal(&request.violations, delivery),
    };
    let mut response = answer(turn, &request, delivery).await;
    if let Ok(id) = HeaderValue::try_from(format!("req_{}", request.number)) {
        response.headers_mut().insert("x-request-id", id);
    }
    response
}

async fn answer(turn: Turn, request: &Request, delivery: Delivery) -> Response {
    if let Some(hold) = &turn.before_headers {
        hold.pass().await;
    }
    match turn.answer {
        Answer::Reply(reply) => deliver(&reply, request, turn.in_body, delivery),
        Answer::Fault(fault) => fail(fault.sent(request.model()), request, turn.in_body, delivery),
    }
}

/// Sends what comes in place of a reply.
fn fail(sent: Sent, request: &Request, hold: Option<Hold>, mut delivery: Delivery) -> Response {
    match sent {
        Sent::Error {
            status,
            body,
            retry_after,
        } => error(status, &body, retry_after, hold, delivery),
        Sent::Html { status, page } => {
            let parts = two_halves(page.into_bytes());
            respond(status, "text/html", None, body(parts.into_iter(), hold, delivery))
        }
        Sent::Redirect { to } => {
            delivery.complete();
            let status = StatusCode::TEMPORARY_REDIRECT;
            let mut response = respond(status, "text/plain", None, Body::empty());
            if let Ok(to) = HeaderValue::try_from(to) {
                response.headers_mut().insert(header::LOCATION, to);
            }
            response
        }
        Sent::Empty => {
            delivery.complete();
            success(request, None, Body::empty())
        }
        Sent::Nothing => {
            delivery.complete();
            let mut response = Response::new(Body::empty());
            response.extensions_mut().insert(NoAnswer);
            response
        }
        Sent::Garbage => {
            let garbage = if request.wants_stream() {
                "data: <garbage>\n\n"
            } else {
                "<garbage>"
            };
            let parts = two_halves(garbage.into());
            success(request, None, body(parts.into_iter(), hold, delivery))
        }
        Sent::Endless { every } => {
            let filler = if request.wants_stream() {
                ": keep-alive\n\n"
            } else {
                "\n"
            };
            let parts = std::iter::repeat(Part::Bytes(Bytes::from_static(filler.as_bytes())));
            success(request, None, body(parts, Some(Hold::Delay(every)), delivery))
        }
    }
}

/// Sends a reply as the request wants it.
fn deliver(reply: &Reply, request: &Request, hold: Option<Hold>, delivery: Delivery) -> Response {
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
        // A body that breaks off promises what it does not keep; one that ends early promises nothing.
        let promised = parts.contains(&Part::Break).then(|| whole.to_string().len());
        (parts, promised)
    };
    let mut response = success(request, length, body(parts.into_iter(), hold, delivery));
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
    hold: Option<Hold>,
    delivery: Delivery,
) -> Response {
    let parts = two_halves(object.to_string().into_bytes());
    let mut response = respond(
        status,
        "application/json",
        None,
        body(parts.into_iter(), hold, delivery),
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

fn refusal(violations: &[Violation], delivery: Delivery) -> Response {
    let reasons: Vec<String> = violations.iter().map(Violation::to_string).collect();
    let place = violations
        .first()
        .map(|violation| violation.place.as_str())
        .filter(|place| !place.is_empty());
    let object = error_object(&reasons.join("; "), "invalid_request_error", place, None);
    error(StatusCode::BAD_REQUEST, &object, None, None, delivery)
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

async fn unknown(method: Method, uri: Uri) -> Response {
    let message = format!("Invalid URL ({method} {})", uri.path());
    let object = error_object(&message, "invalid_request_error", None, None);
    (StatusCode::NOT_FOUND, axum::Json(object)).into_response()
}
