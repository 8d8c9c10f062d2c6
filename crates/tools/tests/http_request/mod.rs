//! The `http_request` tool with real servers on this machine, well-behaved and malicious, called as an agent calls it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod requests;
mod responses;
mod unfinished;

use crate::folder::{Folder, text};
use dirigent_core::tool::{ToolOutcome, ToolResult};
use dirigent_model_server::{HttpAnswer, HttpRequest, HttpServer};
use dirigent_tools::{HttpRules, http_request};
use serde_json::{Value, json};

/// Rules that allow these servers.
fn rules(servers: &[&HttpServer]) -> HttpRules {
    let host = |server: &&HttpServer| server.address().to_string();
    HttpRules {
        allow: servers.iter().map(host).collect(),
        ..HttpRules::default()
    }
}

async fn call(rules: &HttpRules, parameters: Value) -> ToolResult {
    Folder::with(&[]).call(http_request(rules), parameters).await
}

async fn get(rules: &HttpRules, url: &str) -> ToolResult {
    call(rules, json!({"method": "GET", "url": url})).await
}

/// The parts of the tool's output for a server with this response.
async fn got(said: impl Fn() -> HttpAnswer + Send + Sync + 'static) -> Value {
    let server = serve(move |_| said()).await;
    parts(&text(get(&rules(&[&server]), &server.url("/")).await))
}

/// The parts of an output: the status and the URL, the headers, the notes and the body, `null` if there is none.
fn parts(output: &str) -> Value {
    let (head, body) = match output.split_once("\n\n") {
        Some((head, body)) => (head, json!(body)),
        None => (output, Value::Null),
    };
    let mut lines: Vec<&str> = head.lines().collect();
    let is_field = |line: &&str| line.contains(": ");
    let fields = lines.split_off(lines.iter().position(is_field).unwrap_or(lines.len()));
    let (notes, headers): (Vec<&str>, Vec<&str>) =
        fields.into_iter().partition(|line| line.starts_with("Note: "));
    let headers = headers.into_iter().filter_map(|line| line.split_once(": "));
    let headers: serde_json::Map<String, Value> = headers
        .map(|(name, value)| (name.to_owned(), json!(value)))
        .collect();
    json!({"lines": lines, "headers": headers, "notes": notes, "body": body})
}

/// The code, error and output of a result, which must be a failure.
#[track_caller]
fn failure(result: &ToolResult) -> (&str, &str, &Value) {
    match &result.outcome {
        ToolOutcome::Failure { code, error, output } => (code, error, output),
        ToolOutcome::Success { output } => panic!("the call succeeded: {output}"),
    }
}

/// Starts a server that answers each request with the function's result.
async fn serve(answer: impl Fn(&HttpRequest) -> HttpAnswer + Send + Sync + 'static) -> HttpServer {
    HttpServer::from_fn(answer).await.unwrap()
}

fn answer(status: &str, headers: &[&str], body: &[u8]) -> HttpAnswer {
    HttpAnswer::new(status, headers, body)
}
