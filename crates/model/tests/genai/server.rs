//! A server that answers each request with the next of its canned answers, byte by byte as they were given.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use dirigent_core::message::{Message, ModelFailure, ModelReply};
use dirigent_model::genai::{HostedApi, HostedModel, HostedOptions};
use dirigent_model::{ChatModel, ChatRequest};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::log;

/// What a server does with a request.
pub struct Answer {
    bytes: Vec<u8>,
    then: Then,
}

/// What it does after that.
pub enum Then {
    Close,
    /// It keeps the connection open and sends nothing more.
    Hang,
    /// It sends this over and over.
    Repeat(&'static [u8]),
}

impl Answer {
    pub fn new(status: &str, headers: &[&str], body: impl AsRef<[u8]>) -> Self {
        let mut head = format!("HTTP/1.1 {status}\r\nconnection: close\r\n");
        for header in headers {
            head.push_str(header);
            head.push_str("\r\n");
        }
        head.push_str("\r\n");
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(body.as_ref());
        Answer {
            bytes,
            then: Then::Close,
        }
    }

    pub fn json(status: &str, body: impl AsRef<[u8]>) -> Self {
        Answer::new(status, &["content-type: application/json"], body)
    }

    /// A stream of that text.
    pub fn stream(body: impl AsRef<[u8]>) -> Self {
        Answer::new("200 OK", &["content-type: text/event-stream"], body)
    }

    /// A stream of Anthropic's: each event with the name that its `type` gives it.
    pub fn anthropic(events: &[Value]) -> Self {
        let event = |data: &Value| format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap());
        Answer::stream(events.iter().map(event).collect::<String>())
    }

    /// A stream of Gemini's.
    pub fn gemini(events: &[Value]) -> Self {
        Answer::stream(
            events
                .iter()
                .map(|data| format!("data: {data}\r\n\r\n"))
                .collect::<String>(),
        )
    }

    /// A stream of that API's.
    pub fn events(api: HostedApi, events: &[Value]) -> Self {
        match api {
            HostedApi::Anthropic => Answer::anthropic(events),
            HostedApi::Gemini => Answer::gemini(events),
        }
    }

    /// The same body in HTTP chunks of that many bytes.
    pub fn in_chunks(mut self, size: usize) -> Self {
        let head = b"transfer-encoding: chunked\r\n\r\n";
        let end = self
            .bytes
            .windows(4)
            .position(|four| four == b"\r\n\r\n")
            .unwrap();
        let body = self.bytes.split_off(end + 4);
        self.bytes.truncate(end + 2);
        self.bytes.extend_from_slice(head);
        for chunk in body.chunks(size) {
            self.bytes
                .extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
            self.bytes.extend_from_slice(chunk);
            self.bytes.extend_from_slice(b"\r\n");
        }
        self.bytes.extend_from_slice(b"0\r\n\r\n");
        self
    }

    pub fn then(mut self, then: Then) -> Self {
        self.then = then;
        self
    }
}

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Got {
    pub head: String,
    pub body: Vec<u8>,
}

impl Got {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

/// The server. It ends with the test.
pub struct Server {
    pub base_url: String,
    got: Arc<Mutex<Vec<Got>>>,
}

impl Server {
    pub async fn start(answers: impl IntoIterator<Item = Answer>) -> Self {
        log::listen();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
        let got = Arc::<Mutex<Vec<Got>>>::default();
        let mut answers: VecDeque<Answer> = answers.into_iter().collect();
        let seen = got.clone();
        tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                // Dropping the listener refuses what was not foreseen.
                let Some(answer) = answers.pop_front() else { return };
                tokio::spawn(serve(connection, answer, seen.clone()));
            }
        });
        Server { base_url, got }
    }

    pub fn got(&self) -> Vec<Got> {
        self.got.lock().unwrap().clone()
    }

    pub fn options(&self, api: HostedApi) -> HostedOptions {
        HostedOptions::new(api, &self.base_url, "test-model").api_key("the-whole-secret-key")
    }

    pub fn model(&self, api: HostedApi) -> HostedModel {
        HostedModel::new(self.options(api)).unwrap()
    }
}

async fn serve(mut connection: TcpStream, answer: Answer, seen: Arc<Mutex<Vec<Got>>>) -> std::io::Result<()> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end + 4;
        }
        if connection.read_buf(&mut bytes).await? == 0 {
            return Ok(());
        }
    };
    let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok())
        .unwrap_or(0);
    while bytes.len() < end + length {
        if connection.read_buf(&mut bytes).await? == 0 {
            return Ok(());
        }
    }
    let body = bytes.split_off(end);
    let head = String::from_utf8_lossy(&bytes).into_owned();
    seen.lock().unwrap().push(Got { head, body });
    connection.write_all(&answer.bytes).await?;
    connection.flush().await?;
    match answer.then {
        Then::Close => connection.shutdown().await,
        Then::Hang => std::future::pending().await,
        Then::Repeat(piece) => loop {
            connection.write_all(piece).await?;
        },
    }
}

pub fn system(content: &str) -> Message {
    Message::System {
        content: content.to_owned(),
    }
}

pub fn user(content: &str) -> Message {
    Message::User {
        content: content.to_owned(),
    }
}

/// A short conversation.
pub fn request() -> ChatRequest {
    ChatRequest::new(Arc::new(vec![system("Be brief."), user("Hello?")]))
}

/// What comes of one answer.
pub async fn ask(api: HostedApi, answer: Answer) -> Result<ModelReply, ModelFailure> {
    let server = Server::start([answer]).await;
    server.model(api).chat(request()).await
}

/// The calls of a reply, each as `tool arguments`, then those that can't be read, each as `! tool arguments`.
pub fn calls(reply: &ModelReply) -> Vec<String> {
    let good = reply
        .calls
        .iter()
        .map(|call| format!("{} {}", call.tool, call.parameters));
    let bad = reply
        .malformed_calls
        .iter()
        .map(|call| format!("! {} {}", call.name, call.arguments));
    good.chain(bad).collect()
}
