//! The HTTP server: it answers each request with the bytes that a test specifies, well-formed or not.
//!
//! It listens on loopback only, runs as tasks of the caller's tokio runtime, and closes every connection after one response.

use std::collections::VecDeque;
use std::fmt::Display;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::WriteHalf;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use crate::gate::Gate;

/// Pause after a connection could not be accepted, for example for lack of file handles.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Pause between two pieces of [`Then::Pour`].
const POUR_PAUSE: Duration = Duration::from_millis(5);

/// A request as received.
#[derive(Clone, Debug, Default)]
pub struct HttpRequest {
    /// The request line and the headers, with the empty line after them.
    pub head: String,
    /// The body.
    pub body: Vec<u8>,
}

impl HttpRequest {
    /// Returns the request line, such as `GET /path HTTP/1.1`.
    pub fn line(&self) -> &str {
        self.head.lines().next().unwrap_or_default()
    }

    /// Returns a header's value; `None` if it is missing.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.head.lines().filter_map(|line| line.split_once(": "));
        let (_, value) = headers.find(|(known, _)| known.eq_ignore_ascii_case(name))?;
        Some(value)
    }

    /// Returns the body as JSON; null if it is not JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// A response, byte by byte.
pub struct HttpAnswer {
    /// The status line and the headers; empty to send the body alone.
    head: String,
    parts: Vec<Vec<u8>>,
    then: Then,
    before_head: Option<Gate>,
    between_parts: Option<Gate>,
}

/// What the server does after the body of a response.
#[derive(Clone, Copy)]
pub enum Then {
    /// The connection closes.
    Close,
    /// The connection is reset.
    Reset,
    /// The connection stays open, and nothing more is sent.
    Hang,
    /// These bytes, over and over, as fast as the client reads them.
    Repeat(&'static [u8]),
    /// These bytes, over and over, every few milliseconds.
    Pour(&'static [u8]),
}

impl HttpAnswer {
    /// Creates a response whose body ends with the connection, unless a header says otherwise.
    pub fn new(status: impl Display, headers: &[&str], body: impl AsRef<[u8]>) -> Self {
        let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
        Self {
            head: format!("HTTP/1.1 {status}\r\nconnection: close\r\n{headers}"),
            ..Self::raw(body)
        }
    }

    /// Creates a response of JSON.
    pub fn json(status: impl Display, body: impl AsRef<[u8]>) -> Self {
        Self::new(status, &["content-type: application/json"], body)
    }

    /// Creates an event stream with this text.
    pub fn stream(body: impl AsRef<[u8]>) -> Self {
        Self::new("200 OK", &["content-type: text/event-stream"], body)
    }

    /// Creates an event stream with one event per text.
    pub fn events(events: &[&str]) -> Self {
        let body: String = events.iter().map(|data| format!("data: {data}\n\n")).collect();
        Self::stream(body)
    }

    /// Creates a response of these bytes alone, HTTP or not.
    pub fn raw(bytes: impl AsRef<[u8]>) -> Self {
        Self {
            head: String::new(),
            parts: vec![bytes.as_ref().to_vec()],
            then: Then::Close,
            before_head: None,
            between_parts: None,
        }
    }

    /// Creates a response that never begins.
    pub fn silence() -> Self {
        Self::raw("").then(Then::Hang)
    }

    /// Sets what the server does after the body.
    pub fn then(self, then: Then) -> Self {
        Self { then, ..self }
    }

    /// Sends the body in HTTP chunks of these sizes, in turn.
    pub fn in_chunks(self, sizes: &[usize]) -> Self {
        let body = self.parts.concat();
        let (mut rest, mut chunks, mut sizes) = (&body[..], Vec::new(), sizes.iter().cycle());
        while !rest.is_empty() {
            let size = sizes
                .next()
                .map_or(rest.len(), |size| (*size).clamp(1, rest.len()));
            let (chunk, after) = rest.split_at(size);
            chunks.push(chunk.to_vec());
            rest = after;
        }
        self.with_chunks(&chunks, true)
    }

    /// Replaces the body by these HTTP chunks. If the body is incomplete, the final chunk is omitted.
    pub(crate) fn with_chunks(mut self, chunks: &[Vec<u8>], complete: bool) -> Self {
        self.head.push_str("transfer-encoding: chunked\r\n");
        let chunk = |bytes: &Vec<u8>| [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat();
        self.parts = chunks.iter().map(chunk).collect();
        self.parts.extend(complete.then(|| b"0\r\n\r\n".to_vec()));
        self
    }

    /// Waits for these gates before the head, and before each part of the body but the first.
    pub(crate) fn wait(self, before_head: Option<Gate>, between_parts: Option<Gate>) -> Self {
        Self {
            before_head,
            between_parts,
            ..self
        }
    }

    async fn send(&self, writer: &mut WriteHalf<'_>, repeated: &AtomicUsize) -> io::Result<()> {
        if let Some(gate) = &self.before_head {
            gate.wait_open().await;
        }
        if !self.head.is_empty() {
            writer.write_all(format!("{}\r\n", self.head).as_bytes()).await?;
        }
        for (index, part) in self.parts.iter().enumerate() {
            if index > 0 {
                tokio::task::yield_now().await;
                if let Some(gate) = &self.between_parts {
                    gate.wait_open().await;
                }
            }
            writer.write_all(part).await?;
        }
        match self.then {
            Then::Close | Then::Reset => Ok(()),
            Then::Hang => std::future::pending().await,
            Then::Repeat(piece) => loop {
                writer.write_all(piece).await?;
                repeated.fetch_add(piece.len(), Ordering::Relaxed);
                tokio::task::yield_now().await;
            },
            Then::Pour(piece) => loop {
                writer.write_all(piece).await?;
                tokio::time::sleep(POUR_PAUSE).await;
            },
        }
    }
}

/// A running server. Dropping it closes all connections.
pub struct HttpServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

struct Shared {
    /// Chooses the response to a request.
    answer: Box<dyn Fn(&HttpRequest) -> HttpAnswer + Send + Sync>,
    reads_requests: bool,
    requests: Mutex<Vec<Arc<HttpRequest>>>,
    hang_ups: AtomicUsize,
    repeated: AtomicUsize,
    /// Notified of each request and each hang-up.
    changed: watch::Sender<()>,
}

impl HttpServer {
    /// Starts a server that answers each request with the next of these responses. Further connections are closed without one.
    pub async fn start(answers: impl IntoIterator<Item = HttpAnswer>) -> io::Result<Self> {
        let answers: Mutex<VecDeque<HttpAnswer>> = Mutex::new(answers.into_iter().collect());
        Self::from_fn(move |_| lock(&answers).pop_front().unwrap_or_else(|| HttpAnswer::raw(""))).await
    }

    /// Starts a server that answers each request with the function's result.
    pub async fn from_fn(
        answer: impl Fn(&HttpRequest) -> HttpAnswer + Send + Sync + 'static,
    ) -> io::Result<Self> {
        Self::listen(Box::new(answer), true).await
    }

    /// Starts a server that sends these bytes over each connection without reading anything, like a server of another protocol.
    pub async fn greeting(bytes: &'static [u8]) -> io::Result<Self> {
        Self::listen(Box::new(move |_| HttpAnswer::raw(bytes)), false).await
    }

    async fn listen(
        answer: Box<dyn Fn(&HttpRequest) -> HttpAnswer + Send + Sync>,
        reads_requests: bool,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            answer,
            reads_requests,
            requests: Mutex::default(),
            hang_ups: AtomicUsize::new(0),
            repeated: AtomicUsize::new(0),
            changed: watch::Sender::new(()),
        });
        let accepting = tokio::spawn(accept(listener, Arc::clone(&shared)));
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

    /// Returns the URL of a path, such as `http://127.0.0.1:4000/path`.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Returns the requests so far, in the order of arrival.
    pub fn requests(&self) -> Vec<Arc<HttpRequest>> {
        lock(&self.shared.requests).clone()
    }

    /// Waits until there are `count` requests, and returns all so far. There is no timeout.
    pub async fn wait_for_requests(&self, count: usize) -> Vec<Arc<HttpRequest>> {
        self.wait_until(|| self.requests().len() >= count).await;
        self.requests()
    }

    /// Waits until `count` clients have hung up before the end of their response. There is no timeout.
    pub async fn wait_for_hang_ups(&self, count: usize) {
        self.wait_until(|| self.shared.hang_ups.load(Ordering::SeqCst) >= count)
            .await;
    }

    /// Returns the number of bytes sent by [`Then::Repeat`].
    pub fn repeated(&self) -> usize {
        self.shared.repeated.load(Ordering::Relaxed)
    }

    /// Waits until a condition on the requests or the hang-ups holds.
    pub(crate) async fn wait_until(&self, holds: impl Fn() -> bool) {
        let mut changes = self.shared.changed.subscribe();
        while !holds() {
            // The sender lives in `self`, so this only ends with a change.
            let _ = changes.changed().await;
        }
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Serves connections until the task is aborted, which closes them.
async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(serve(stream, Arc::clone(&shared)));
                }
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn serve(mut stream: TcpStream, shared: Arc<Shared>) {
    // Otherwise a small part would wait for the acknowledgment of the previous one.
    let _ = stream.set_nodelay(true);
    let request = if shared.reads_requests {
        let Some(request) = read(&mut stream).await else {
            return;
        };
        Arc::new(request)
    } else {
        Arc::default()
    };
    lock(&shared.requests).push(Arc::clone(&request));
    let answer = (shared.answer)(&request);
    shared.changed.send_replace(());

    let (mut reader, mut writer) = stream.split();
    let hung_up = tokio::select! {
        biased;
        sent = answer.send(&mut writer, &shared.repeated) => sent.is_err(),
        _ = reader.read_u8() => true,
    };
    if hung_up {
        shared.hang_ups.fetch_add(1, Ordering::SeqCst);
        shared.changed.send_replace(());
    } else if matches!(answer.then, Then::Reset) {
        let _ = stream.set_zero_linger();
    }
}

/// Reads a request with a body of the declared length; `None` if the client hangs up before its end.
async fn read(stream: &mut TcpStream) -> Option<HttpRequest> {
    let mut head = Vec::new();
    let end = loop {
        if let Some(end) = head.windows(4).position(|four| four == b"\r\n\r\n") {
            break end + 4;
        }
        if stream.read_buf(&mut head).await.ok()? == 0 {
            return None;
        }
    };
    let body = head.split_off(end);
    let head = String::from_utf8_lossy(&head).into_owned();
    let mut request = HttpRequest { head, body };
    let length = request
        .header("content-length")
        .and_then(|length| length.parse().ok());
    while request.body.len() < length.unwrap_or(0) {
        if stream.read_buf(&mut request.body).await.ok()? == 0 {
            return None;
        }
    }
    Some(request)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code panics while a lock is held.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
