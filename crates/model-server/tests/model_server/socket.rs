//! A client that knows just enough HTTP to show what is on the wire.

use dirigent_model_server::{ModelServer, Reply, Script, Turn};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// An answer as it came.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    /// The body's frames, as the chunks of HTTP or as one.
    pub frames: Vec<Vec<u8>>,
    /// Whether the body ended as HTTP says that it must.
    pub complete: bool,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }

    pub fn bytes(&self) -> Vec<u8> {
        self.frames.concat()
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.bytes()).unwrap()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes()).unwrap()
    }

    /// What a reader of events gets: the data of each, comments left out.
    pub fn events(&self) -> Vec<String> {
        let mut events = Vec::new();
        let mut data: Vec<String> = Vec::new();
        for line in self.text().lines() {
            if let Some(value) = line.strip_prefix("data:") {
                data.push(value.strip_prefix(' ').unwrap_or(value).to_owned());
            } else if line.is_empty() && !data.is_empty() {
                events.push(std::mem::take(&mut data).join("\n"));
            }
        }
        events
    }

    /// The events that are JSON.
    pub fn chunks(&self) -> Vec<Value> {
        self.events()
            .iter()
            .filter_map(|event| serde_json::from_str(event).ok())
            .collect()
    }

    /// The deltas of the first choice.
    pub fn deltas(&self) -> Vec<Value> {
        self.chunks()
            .iter()
            .map(|chunk| chunk["choices"][0]["delta"].clone())
            .filter(|d| !d.is_null())
            .collect()
    }

    /// The text of all deltas.
    pub fn streamed_text(&self) -> String {
        self.deltas()
            .iter()
            .filter_map(|delta| delta["content"].as_str())
            .collect()
    }

    /// The fragments of tool calls, in the order in which they came.
    pub fn call_fragments(&self) -> Vec<Value> {
        self.deltas()
            .iter()
            .filter_map(|delta| delta["tool_calls"].get(0).cloned())
            .collect()
    }
}

/// A request of one user message.
pub fn asking(text: &str) -> Value {
    json!({ "model": "m", "messages": [{ "role": "user", "content": text }] })
}

/// The same as a stream.
pub fn streaming(mut body: Value) -> Value {
    body["stream"] = true.into();
    body
}

/// Sends a request and leaves the connection open.
pub async fn open(server: &ModelServer, content_type: &str, body: &str) -> TcpStream {
    let mut socket = TcpStream::connect(server.address()).await.unwrap();
    let request = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: model\r\nConnection: close\r\n\
         Authorization: Bearer test-key\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    socket.write_all(request.as_bytes()).await.unwrap();
    socket
}

/// Reads on until all of it has this in it.
pub async fn read_until(socket: &mut TcpStream, read: &mut String, part: &str) {
    while !read.contains(part) {
        let mut buffer = [0; 4096];
        let count = socket.read(&mut buffer).await.unwrap();
        assert!(count > 0, "the connection ended after {read:?}");
        read.push_str(std::str::from_utf8(&buffer[..count]).unwrap());
    }
}

/// Sends a request and reads the answer; none where the connection closes without one.
pub async fn post(server: &ModelServer, body: &Value) -> Option<Answer> {
    post_as(server, "application/json", &body.to_string()).await
}

/// Sends any text as a request.
pub async fn post_as(server: &ModelServer, content_type: &str, body: &str) -> Option<Answer> {
    let mut socket = open(server, content_type, body).await;
    let mut bytes = Vec::new();
    // A reset is an end like another: what came before it counts.
    let _ = socket.read_to_end(&mut bytes).await;
    (!bytes.is_empty()).then(|| parse(&bytes))
}

/// Starts a server with one turn and asks it once, streaming or not.
pub async fn answer_to(turn: impl Into<Turn>, body: Value) -> Answer {
    let server = ModelServer::start(Script::turns([turn.into()])).await.unwrap();
    post(&server, &body).await.unwrap()
}

/// The stream of a reply.
pub async fn stream_of(reply: Reply) -> Answer {
    answer_to(reply, streaming(asking("Hi"))).await
}

/// The plain JSON of a reply.
pub async fn plain_of(reply: Reply) -> Answer {
    answer_to(reply, asking("Hi")).await
}

fn parse(bytes: &[u8]) -> Answer {
    let end = bytes
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .expect("the end of the headers");
    let head = std::str::from_utf8(&bytes[..end]).unwrap();
    let mut lines = head.lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let headers: Vec<(String, String)> = lines
        .map(|line| line.split_once(": ").unwrap())
        .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
        .collect();
    let body = &bytes[end + 4..];
    let mut answer = Answer {
        status,
        headers,
        frames: Vec::new(),
        complete: false,
    };
    match answer
        .header("content-length")
        .map(|length| length.parse::<usize>().unwrap())
    {
        Some(length) => {
            answer.complete = body.len() == length;
            answer.frames = vec![body.to_vec()];
        }
        None => (answer.frames, answer.complete) = frames(body),
    }
    answer
}

/// Takes chunked encoding apart.
fn frames(mut body: &[u8]) -> (Vec<Vec<u8>>, bool) {
    let mut frames = Vec::new();
    while let Some(line) = body.windows(2).position(|two| two == b"\r\n") {
        let size = usize::from_str_radix(std::str::from_utf8(&body[..line]).unwrap(), 16).unwrap();
        if size == 0 {
            return (frames, true);
        }
        body = &body[line + 2..];
        frames.push(body[..size].to_vec());
        body = &body[size + 2..];
    }
    (frames, false)
}
