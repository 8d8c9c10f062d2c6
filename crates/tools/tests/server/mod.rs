//! A test server with scripted responses, including malformed ones, that records its requests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The server's response to a request, after which it closes the connection.
pub enum Answer {
    /// These bytes.
    Bytes(Vec<u8>),
    /// The first, and then the second over and over, until nobody reads them.
    Endless(Vec<u8>, Vec<u8>),
    /// These, and then nothing until the other side has had enough.
    Stalled(Vec<u8>),
}

pub struct Server {
    pub port: u16,
    asked: Arc<Mutex<Vec<String>>>,
    sent: Arc<AtomicUsize>,
}

impl Server {
    /// Starts a server that answers the text of each request with the function's response.
    pub async fn start(answer: impl Fn(&str) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let sent = Arc::new(AtomicUsize::new(0));
        let (log, count, answer) = (asked.clone(), sent.clone(), Arc::new(answer));
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(stream, log.clone(), count.clone(), answer.clone()));
            }
        });
        Server { port, asked, sent }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// Returns the complete requests so far.
    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    /// Returns the number of bytes sent of endless responses.
    pub fn sent(&self) -> usize {
        self.sent.load(Ordering::Relaxed)
    }

    /// Returns the first lines of the requests so far.
    pub fn lines(&self) -> Vec<String> {
        let first = |request: &String| request.lines().next().unwrap_or_default().to_owned();
        self.asked().iter().map(first).collect()
    }
}

async fn serve(
    mut stream: TcpStream,
    log: Arc<Mutex<Vec<String>>>,
    count: Arc<AtomicUsize>,
    answer: Arc<impl Fn(&str) -> Answer + Send + Sync + 'static>,
) {
    let Some(request) = read(&mut stream).await else {
        return;
    };
    log.lock().unwrap().push(request.clone());
    // That the other side hangs up is what some tests are about.
    let _ = match answer(&request) {
        Answer::Bytes(bytes) => stream.write_all(&bytes).await,
        Answer::Endless(head, piece) => {
            let mut sent = stream.write_all(&head).await;
            while sent.is_ok() {
                sent = stream.write_all(&piece).await;
                count.fetch_add(piece.len(), Ordering::Relaxed);
                tokio::task::yield_now().await;
            }
            sent
        }
        Answer::Stalled(bytes) => {
            let _ = stream.write_all(&bytes).await;
            stream.read_u8().await.map(|_| ())
        }
    };
}

/// Reads a request with a body of the declared length.
async fn read(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "));
        if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
            return Some(text);
        }
    }
}

/// Builds a complete response.
pub fn answer(status: &str, headers: &[&str], body: &[u8]) -> Answer {
    let mut bytes = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n", body.len());
    headers
        .iter()
        .for_each(|header| bytes.push_str(&format!("{header}\r\n")));
    bytes.push_str("\r\n");
    Answer::Bytes([bytes.as_bytes(), body].concat())
}

pub fn redirect(status: &str, location: &str) -> Answer {
    answer(status, &[&format!("location: {location}")], b"elsewhere")
}
