//! A small HTTP client that sends exactly the bytes that a test wants, and reads server-sent events.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

/// A client of a server on this machine.
#[derive(Clone, Debug)]
pub struct Client {
    /// The server's address.
    pub address: SocketAddr,
    /// The token that the requests contain; `None` for requests without one.
    pub token: Option<String>,
}

/// A response.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The status code.
    pub status: u16,
    /// The headers, with names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: String,
}

impl Reply {
    /// The value of a header; empty if it is absent.
    pub fn header(&self, name: &str) -> &str {
        header(&self.headers, name).unwrap_or_default()
    }

    /// The body as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The body as JSON, if the response has this status.
    #[track_caller]
    pub fn with_status(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{self:?}");
        match self.body.is_empty() {
            true => Value::Null,
            false => self.json(),
        }
    }

    /// The status and the code of a problem.
    #[track_caller]
    pub fn problem(&self) -> (u16, String) {
        let problem = self.json();
        assert_eq!(
            self.header("content-type"),
            "application/problem+json",
            "{self:?}"
        );
        assert_eq!(problem["status"], self.status, "{self:?}");
        assert!(
            problem["detail"]
                .as_str()
                .is_some_and(|detail| !detail.is_empty())
        );
        (self.status, problem["code"].as_str().unwrap().to_owned())
    }
}

/// A server-sent event.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerEvent {
    /// The id; empty if there is none.
    pub id: String,
    /// The name; empty for the events of runs.
    pub name: String,
    /// The data.
    pub data: Value,
}

impl Client {
    /// The same client without a token.
    pub fn without_token(&self) -> Client {
        Client {
            token: None,
            ..self.clone()
        }
    }

    /// Sends a GET request.
    pub async fn get(&self, path: &str) -> Reply {
        self.send("GET", path, &[], None).await
    }

    /// Sends a DELETE request.
    pub async fn delete(&self, path: &str) -> Reply {
        self.send("DELETE", path, &[], None).await
    }

    /// Sends a POST request with a JSON body.
    pub async fn post(&self, path: &str, body: &Value) -> Reply {
        self.send("POST", path, &[], Some(body)).await
    }

    /// Sends a POST request without a body.
    pub async fn post_nothing(&self, path: &str) -> Reply {
        self.send("POST", path, &[], None).await
    }

    /// Sends a request with additional headers.
    pub async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Reply {
        self.raw(&self.request(method, path, headers, body)).await
    }

    /// Sends bytes, and reads the response.
    pub async fn raw(&self, request: &[u8]) -> Reply {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        // The server may refuse a request before it has read all of it.
        let _ = stream.write_all(request).await;
        let mut reader = BufReader::new(stream);
        let (status, headers) = read_head(&mut reader).await;
        let body = read_body(&mut reader, &headers).await;
        Reply {
            status,
            headers,
            body,
        }
    }

    /// Sends a request whose response is a stream of events.
    pub async fn stream(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> EventSource {
        let mut all = vec![("accept", "text/event-stream")];
        all.extend_from_slice(headers);
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream
            .write_all(&self.request(method, path, &all, body))
            .await
            .unwrap();
        let mut reader = BufReader::new(stream);
        let (status, headers) = read_head(&mut reader).await;
        EventSource {
            status,
            headers,
            reader,
            buffer: String::new(),
        }
    }

    /// The bytes of a request. A header in `headers` replaces the usual one.
    pub fn request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Vec<u8> {
        let mut all: Vec<(&str, String)> = vec![("host", self.address.to_string())];
        all.extend(
            self.token
                .as_ref()
                .map(|token| ("authorization", format!("Bearer {token}"))),
        );
        let body = body.map(Value::to_string).unwrap_or_default();
        if !body.is_empty() {
            all.push(("content-type", "application/json".to_owned()));
        }
        all.push(("content-length", body.len().to_string()));
        all.retain(|(name, _)| headers.iter().all(|(other, _)| !other.eq_ignore_ascii_case(name)));
        let own = headers.iter().map(|(name, value)| (*name, (*value).to_owned()));
        let lines = all
            .into_iter()
            .chain(own)
            .map(|(name, value)| format!("{name}: {value}\r\n"));
        let head: String = lines.collect();
        format!("{method} {path} HTTP/1.1\r\nconnection: close\r\n{head}\r\n{body}").into_bytes()
    }
}

/// A stream of events.
pub struct EventSource {
    /// The status code.
    pub status: u16,
    /// The headers, with names in lower case.
    pub headers: Vec<(String, String)>,
    reader: BufReader<TcpStream>,
    /// What was received and not yet read.
    buffer: String,
}

impl EventSource {
    /// Waits for the next event; `None` if the server has ended the stream.
    pub async fn next(&mut self) -> Option<ServerEvent> {
        assert_eq!(self.status, 200, "no stream of events");
        loop {
            if let Some((block, rest)) = self.buffer.split_once("\n\n") {
                let event = parse(block);
                self.buffer = rest.to_owned();
                match event {
                    Some(event) => return Some(event),
                    // A comment that keeps the connection open.
                    None => continue,
                }
            }
            let chunk = read_chunk(&mut self.reader).await?;
            self.buffer.push_str(&chunk);
        }
    }

    /// Waits for the next event for which `fits` returns true.
    pub async fn wait_for(&mut self, fits: impl Fn(&ServerEvent) -> bool) -> ServerEvent {
        while let Some(event) = self.next().await {
            if fits(&event) {
                return event;
            }
        }
        panic!("the stream ended without the event");
    }

    /// Waits for the next event of a run with this name.
    pub async fn wait_for_run_event(&mut self, name: &str) -> ServerEvent {
        self.wait_for(|event| event.data["event"] == name).await
    }

    /// Reads all events until the end of the stream.
    pub async fn rest(&mut self) -> Vec<ServerEvent> {
        let mut events = Vec::new();
        while let Some(event) = self.next().await {
            events.push(event);
        }
        events
    }
}

fn parse(block: &str) -> Option<ServerEvent> {
    let fields = |name: &str| -> Vec<&str> {
        let lines = block.lines().filter_map(|line| line.split_once(':'));
        lines
            .filter(|(field, _)| *field == name)
            .map(|(_, value)| value.trim_start())
            .collect()
    };
    let data = fields("data").join("\n");
    let one = |name| fields(name).first().copied().unwrap_or_default().to_owned();
    (!data.is_empty()).then(|| ServerEvent {
        id: one("id"),
        name: one("event"),
        data: match data.as_str() {
            // The end of a stream for OpenAI clients.
            "[DONE]" => Value::String(data),
            json => serde_json::from_str(json).expect("JSON"),
        },
    })
}

fn header<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers
        .iter()
        .find(|(other, _)| other == name)
        .map(|(_, value)| value.as_str())
}

async fn read_head(reader: &mut BufReader<TcpStream>) -> (u16, Vec<(String, String)>) {
    let status = read_line(reader).await.expect("a status line");
    let status = status.split(' ').nth(1).and_then(|status| status.parse().ok());
    let mut headers = Vec::new();
    while let Some(line) = read_line(reader).await.filter(|line| !line.is_empty()) {
        let (name, value) = line.split_once(':').expect("a header");
        headers.push((name.to_lowercase(), value.trim().to_owned()));
    }
    (status.expect("a status"), headers)
}

async fn read_line(reader: &mut BufReader<TcpStream>) -> Option<String> {
    let mut line = String::new();
    match reader.read_line(&mut line).await {
        Ok(0) | Err(_) => None,
        Ok(_) => Some(line.trim_end_matches(['\r', '\n']).to_owned()),
    }
}

async fn read_body(reader: &mut BufReader<TcpStream>, headers: &[(String, String)]) -> String {
    if header(headers, "transfer-encoding") == Some("chunked") {
        let mut body = String::new();
        while let Some(chunk) = read_chunk(reader).await {
            body.push_str(&chunk);
        }
        return body;
    }
    let length = header(headers, "content-length").and_then(|length| length.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body).await.expect("the whole body");
    match header(headers, "content-encoding") {
        // Not decompressed.
        Some(_) => String::from_utf8_lossy(&body).into_owned(),
        None => String::from_utf8(body).expect("UTF-8"),
    }
}

/// Reads a chunk of a body; `None` after the last one, or if the connection was closed.
async fn read_chunk(reader: &mut BufReader<TcpStream>) -> Option<String> {
    let length = usize::from_str_radix(&read_line(reader).await?, 16).expect("a length");
    let mut chunk = vec![0; length];
    reader.read_exact(&mut chunk).await.ok()?;
    read_line(reader).await;
    (length > 0).then(|| String::from_utf8(chunk).expect("UTF-8"))
}
