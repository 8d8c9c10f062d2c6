//! A client of the Model Context Protocol that sends what tests tell it to, and remembers all that it receives.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::VecDeque;
use std::process::{Command, ExitStatus, Stdio};

use dirigent::Dirigent;
use dirigent_server::{Decider, McpServer, McpServerError};
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader, Lines,
};
use tokio::process::Child;
use tokio::task::JoinHandle;

use crate::stage::Stage;

type Input = Box<dyn AsyncRead + Send + Unpin>;
type Output = Box<dyn AsyncWrite + Send + Unpin>;

/// The version of the protocol that clients offer unless a test says otherwise.
const VERSION: &str = "2025-06-18";

/// A client and its server.
pub struct McpClient {
    input: Lines<BufReader<Input>>,
    output: Option<Output>,
    server: ServerEnd,
    next: u64,
    /// The answer of the server to `initialize`.
    pub initialized: Value,
    /// The results that the client answers requests of the server with, in order. Without any, a request stays unanswered.
    pub answers: VecDeque<Value>,
    /// The requests of the server.
    pub asked: Vec<Value>,
    /// The notifications of the server.
    pub notified: Vec<Value>,
}

/// What runs the server.
enum ServerEnd {
    Task(JoinHandle<Result<(), McpServerError>>),
    Process(Child),
}

impl McpClient {
    /// Connects to a server of this process, for the workspace of the stage.
    pub async fn of(dirigent: Dirigent, stage: &Stage, decider: Decider, capabilities: Value) -> McpClient {
        McpClient::in_process(dirigent, stage, decider, VERSION, capabilities).await
    }

    /// Connects to a server of this process with another version of the protocol.
    pub async fn with_version(dirigent: Dirigent, stage: &Stage, version: &str) -> McpClient {
        McpClient::in_process(dirigent, stage, Decider::Person, version, json!({})).await
    }

    async fn in_process(
        dirigent: Dirigent,
        stage: &Stage,
        decider: Decider,
        version: &str,
        capabilities: Value,
    ) -> McpClient {
        // A pipe for each direction, so that the end of one can be seen.
        let (writer, input) = tokio::io::duplex(1 << 16);
        let (output, reader) = tokio::io::duplex(1 << 16);
        let server = McpServer::new(dirigent, &stage.workspace(), decider).unwrap();
        let task = tokio::spawn(server.serve(input, output, std::future::pending()));
        let server = ServerEnd::Task(task);
        McpClient::connect(
            (Box::new(reader), Box::new(writer)),
            server,
            version,
            capabilities,
        )
        .await
    }

    /// Starts a command, and connects to its standard streams.
    pub async fn start(mut command: Command, capabilities: Value) -> McpClient {
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = tokio::process::Command::from(command).spawn().unwrap();
        let (reader, writer) = (child.stdout.take().unwrap(), child.stdin.take().unwrap());
        let server = ServerEnd::Process(child);
        McpClient::connect(
            (Box::new(reader), Box::new(writer)),
            server,
            VERSION,
            capabilities,
        )
        .await
    }

    async fn connect(
        (input, output): (Input, Output),
        server: ServerEnd,
        version: &str,
        capabilities: Value,
    ) -> McpClient {
        let mut client = McpClient {
            input: BufReader::new(input).lines(),
            output: Some(output),
            server,
            next: 0,
            initialized: Value::Null,
            answers: VecDeque::new(),
            asked: Vec::new(),
            notified: Vec::new(),
        };
        let hello = json!({
            "protocolVersion": version,
            "capabilities": capabilities,
            "clientInfo": {"name": "test", "version": "1"},
        });
        client.initialized = client.request("initialize", hello).await["result"].clone();
        let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        client.send(&ready).await;
        client
    }

    /// Sends any message.
    pub async fn send(&mut self, message: &Value) {
        let output = self.output.as_mut().expect("the input of the server is open");
        output.write_all(format!("{message}\n").as_bytes()).await.unwrap();
        output.flush().await.unwrap();
    }

    /// Sends a request, and returns its id.
    pub async fn begin(&mut self, method: &str, params: Value) -> u64 {
        self.next += 1;
        let id = self.next;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
            .await;
        id
    }

    /// Sends a request, and waits for the response.
    pub async fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.begin(method, params).await;
        self.response(id).await
    }

    /// Waits for the response to a request, and answers requests of the server meanwhile.
    pub async fn response(&mut self, id: u64) -> Value {
        loop {
            let message = self.receive().await.expect("the server answers");
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
        }
    }

    /// Waits for the next message; `None` if the server has ended.
    pub async fn receive(&mut self) -> Option<Value> {
        let line = self.input.next_line().await.unwrap()?;
        let message: Value =
            serde_json::from_str(&line).expect("standard output has messages of the protocol only");
        if message.get("method").is_some() {
            if message.get("id").is_none() {
                self.notified.push(message.clone());
            } else {
                self.asked.push(message.clone());
                if let Some(result) = self.answers.pop_front() {
                    let id = message["id"].clone();
                    self.send(&json!({"jsonrpc": "2.0", "id": id, "result": result}))
                        .await;
                }
            }
        }
        Some(message)
    }

    /// Calls a tool, and returns the result.
    pub async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let response = self.try_call(tool, arguments).await;
        assert!(response["error"].is_null(), "{response}");
        response["result"].clone()
    }

    /// Calls a tool, and returns the whole response.
    pub async fn try_call(&mut self, tool: &str, arguments: Value) -> Value {
        let params = json!({"name": tool, "arguments": arguments, "_meta": {"progressToken": "p"}});
        self.request("tools/call", params).await
    }

    /// Starts a goal, and returns the id of the run.
    pub async fn start_goal(&mut self, goal: &str) -> String {
        let started = self.call("start_goal", json!({"goal": goal})).await;
        started["structuredContent"]["run"].as_str().unwrap().to_owned()
    }

    /// Waits for a run, and returns its state.
    pub async fn wait(&mut self, run: &str) -> Value {
        let waited = self.call("wait_run", json!({"run": run, "timeout": 60})).await;
        waited["structuredContent"].clone()
    }

    /// Closes the input of the server, and waits for the end of its task.
    pub async fn close(mut self) {
        drop(self.output.take());
        while self.receive().await.is_some() {}
        match self.server {
            ServerEnd::Task(task) => task.await.unwrap().unwrap(),
            ServerEnd::Process(_) => panic!("the server is a process"),
        }
    }

    /// Closes the input of the process, and waits for its end: its status and its standard error.
    pub async fn end(mut self) -> (ExitStatus, String) {
        drop(self.output.take());
        while self.receive().await.is_some() {}
        let ServerEnd::Process(mut child) = self.server else {
            panic!("the server is a task");
        };
        let mut stderr = String::new();
        let mut pipe = child.stderr.take().unwrap();
        pipe.read_to_string(&mut stderr).await.unwrap();
        (child.wait().await.unwrap(), stderr)
    }

    /// The id of the server's process.
    pub fn pid(&self) -> u32 {
        match &self.server {
            ServerEnd::Process(child) => child.id().expect("the process runs"),
            ServerEnd::Task(_) => panic!("the server is a task"),
        }
    }
}

/// The text of a tool's result.
pub fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap()
}
