//! The model server: the OpenAI API on top of [`HttpServer`].

use std::io;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::body;
use crate::fault::error;
use crate::http::{HttpAnswer, HttpRequest, HttpServer};
use crate::request::Request;
use crate::request_log::{Decision, RequestLog};
use crate::script::{Outcome, Script, Turn};
use crate::violation::Violation;

/// A running server. Dropping it closes all connections.
pub struct ModelServer {
    http: HttpServer,
    request_log: Arc<RequestLog>,
}

impl ModelServer {
    /// Starts on a free port of 127.0.0.1. Requires a tokio runtime with IO and time.
    pub async fn start(script: Script) -> io::Result<Self> {
        let request_log = Arc::new(RequestLog::default());
        let log = Arc::clone(&request_log);
        let http = HttpServer::from_fn(move |request| answer(&script, &log, request)).await?;
        Ok(Self { http, request_log })
    }

    /// Returns the base URL for clients, such as `http://127.0.0.1:4000/v1`.
    pub fn url(&self) -> String {
        self.http.url("/v1")
    }

    /// Returns the chat requests so far, in the order of arrival.
    pub fn requests(&self) -> Vec<Arc<Request>> {
        self.request_log.requests()
    }

    /// Waits until there are `count` chat requests, and returns all so far. There is no timeout.
    pub async fn wait_for_requests(&self, count: usize) -> Vec<Arc<Request>> {
        self.http.wait_until(|| self.requests().len() >= count).await;
        self.requests()
    }

    /// Returns the violations of all requests so far.
    pub fn violations(&self) -> Vec<Violation> {
        let requests = self.requests();
        requests
            .iter()
            .flat_map(|request| request.violations.clone())
            .collect()
    }

    /// Waits until `count` clients have hung up before the end of their response. There is no timeout.
    pub async fn wait_for_hang_ups(&self, count: usize) {
        self.http.wait_for_hang_ups(count).await;
    }
}

fn answer(script: &Script, log: &RequestLog, request: &HttpRequest) -> HttpAnswer {
    let target = request.line().rsplit_once(' ').map_or("", |(target, _)| target);
    match target.split('?').next().unwrap_or_default() {
        "POST /v1/chat/completions" => chat(script, log, request),
        "GET /v1/models" => HttpAnswer::json(200, models(script).to_string()),
        other => error(
            404,
            &format!("Invalid URL ({other})"),
            "invalid_request_error",
            None,
            None,
        ),
    }
}

fn chat(script: &Script, log: &RequestLog, request: &HttpRequest) -> HttpAnswer {
    let (request, decision) = log.receive(script, request);
    let turn = match decision {
        Decision::Answer(turn) => turn,
        Decision::Call(function) => function(&request),
        Decision::Refuse => {
            let reasons: Vec<String> = request.violations.iter().map(Violation::to_string).collect();
            return error(400, &reasons.join("; "), "invalid_request_error", None, None);
        }
    };
    let Turn {
        outcome,
        before_headers,
        in_body,
    } = turn;
    let answer = match outcome {
        Outcome::Reply(reply) => body::answer(&reply, &request),
        Outcome::Fault(fault) => fault.answer(&request),
    };
    answer.wait(before_headers, in_body)
}

fn models(script: &Script) -> Value {
    let names = match script.models.as_slice() {
        [] => vec!["scripted-model"],
        models => models.iter().map(String::as_str).collect(),
    };
    let model = |name: &str| json!({ "id": name, "object": "model", "created": 0, "owned_by": "dirigent" });
    let data: Vec<Value> = names.into_iter().map(model).collect();
    json!({ "object": "list", "data": data })
}
