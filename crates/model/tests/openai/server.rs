//! A server that answers each request with the next of its canned answers, byte by byte as they were given.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use dirigent_core::message::{Message, ModelFailure, ModelReply};
use dirigent_model::openai::{Delivery, OpenAiModel, OpenAiOptions};
use dirigent_model::{ChatModel, ChatRequest};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::log;

/// What a server does with a request.
pub struct Answer {
    pieces: Vec<Vec<u8>>,
    then: Then,
}

/// What it does after the last piece.
pub enum Then {
    Close,
    /// It keeps the connection open and sends nothing more.
    Hang,
    /// It sends this over and over.
    Repeat(&'static [u8]),
    /// It sends this over and over, with time between.
    Pour(&'static [u8]),
    /// It breaks the connection.
    Reset,
}

impl Answer {
    pub fn new(status: &str, headers: &[&str], body: impl AsRef<[u8]>) -> Self {
        let mut head = format!("HTTP/1.1 {status}\r\nconnection: close\r\n");
        for header in headers {
            head.push_str(header);
            head.push_str("\r\n");
        }
        head.push_str("\r\n");
        Answer {
            pieces: vec![head.into_bytes(), body.as_ref().to_vec()],
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

    /// A stream with one event for each text.
    pub fn events(events: &[&str]) -> Self {
        let body: String = events.iter().map(|data| format!("data: {data}\n\n")).collect();
        Answer::stream(body)
    }

    /// Nothing at all is sent.
    pub fn silence() -> Self {
        Answer {
            pieces: Vec::new(),
            then: Then::Hang,
        }
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

    pub fn options(&self, delivery: Delivery) -> OpenAiOptions {
        OpenAiOptions {
            delivery,
            ..OpenAiOptions::new(&self.base_url, "test-model")
        }
    }

    pub fn model(&self, delivery: Delivery) -> OpenAiModel {
        OpenAiModel::new(self.options(delivery)).unwrap()
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
    for piece in &answer.pieces {
        connection.write_all(piece).await?;
    }
    connection.flush().await?;
    match answer.then {
        Then::Close => connection.shutdown().await,
        Then::Hang => std::future::pending().await,
        Then::Repeat(piece) => loop {
            connection.write_all(piece).await?;
        },
        Then::Pour(piece) => loop {
            connection.write_all(piece).await?;
            connection.flush().await?;
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        },
        Then::Reset => connection.set_zero_linger(),
    }
}

/// A short conversation.
pub fn request() -> ChatRequest {
    ChatRequest::new(Arc::new(vec![
        Message::System {
            content: "Be brief.".to_owned(),
        },
        Message::User {
            content: "Hello?".to_owned(),
        },
    ]))
}

/// What comes of one answer.
pub async fn ask(delivery: Delivery, answer: Answer) -> Result<ModelReply, ModelFailure> {
    let server = Server::start([answer]).await;
    server.model(delivery).chat(request()).await
}
