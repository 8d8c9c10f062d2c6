//! The log of requests, conversations and hang-ups, and the choice of the next turn.
//!
//! One lock guards all of it, and is never held across an await.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::body::Bytes;
use axum::http::HeaderMap;
use serde_json::Value;
use tokio::sync::watch;

use crate::check::check;
use crate::fault::Fault;
use crate::message::messages;
use crate::request::{Request, conversation_key};
use crate::script::{Rule, Script, Turn, TurnFn, TurnSource};
use crate::violation::{Violation, ViolationKind};

/// Log of everything received so far, with notification of changes.
pub(crate) struct RequestLog {
    state: Mutex<LogState>,
    changed: watch::Sender<()>,
}

#[derive(Default)]
struct LogState {
    requests: Vec<Arc<Request>>,
    hang_ups: Vec<usize>,
    /// Conversations by their [`conversation_key`].
    conversations: HashMap<String, Conversation>,
}

struct Conversation {
    number: usize,
    /// Messages of the latest request; `turn` and `attempt` are that request's, too.
    messages: Vec<Value>,
    turn: usize,
    attempt: usize,
    /// Number of used turns by index of the rule.
    used: HashMap<usize, usize>,
}

/// Decision about a request.
pub(crate) enum Decision {
    /// Refuse it, as it breaks a rule.
    Refuse,
    Answer(Turn),
    /// Call the script's function for a turn, after releasing the lock.
    Call(TurnFn),
}

impl RequestLog {
    pub(crate) fn new() -> Self {
        Self {
            state: Mutex::default(),
            changed: watch::Sender::new(()),
        }
    }

    /// Logs a request and decides about it.
    pub(crate) fn receive(
        &self,
        script: &Script,
        headers: HeaderMap,
        raw: Bytes,
    ) -> (Arc<Request>, Decision) {
        let mut state = self.lock();
        let (request, decision) = state.receive(script, headers, raw);
        drop(state);
        self.changed.send_replace(());
        (request, decision)
    }

    pub(crate) fn requests(&self) -> Vec<Arc<Request>> {
        self.lock().requests.clone()
    }

    pub(crate) fn hang_ups(&self) -> Vec<usize> {
        self.lock().hang_ups.clone()
    }

    /// Waits until the condition returns a value.
    pub(crate) async fn wait_until<T>(&self, condition: impl Fn(&Self) -> Option<T>) -> T {
        let mut changes = self.changed.subscribe();
        loop {
            changes.mark_unchanged();
            if let Some(found) = condition(self) {
                return found;
            }
            // The sender lives in `self`, so this only ends with a change.
            let _ = changes.changed().await;
        }
    }

    /// Logs that the client of this request has hung up.
    pub(crate) fn hung_up(&self, request: usize) {
        self.lock().hang_ups.push(request);
        self.changed.send_replace(());
    }

    fn lock(&self) -> MutexGuard<'_, LogState> {
        // No code panics while the lists are inconsistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LogState {
    fn receive(&mut self, script: &Script, mut headers: HeaderMap, raw: Bytes) -> (Arc<Request>, Decision) {
        if let Some(authorization) = headers.get_mut("authorization") {
            authorization.set_sensitive(true);
        }
        let number = self.requests.len() + 1;
        let parsed: Option<Value> = serde_json::from_slice(&raw).ok();
        let content_type = headers.get("content-type").and_then(|value| value.to_str().ok());
        let violations = check(number, content_type, parsed.as_ref());
        let body = parsed.unwrap_or_default();

        let conversation = self.conversation(&body);
        let mut request = Request {
            number,
            conversation: conversation.number,
            turn: conversation.turn,
            attempt: conversation.attempt,
            raw,
            body,
            violations,
            headers,
        };
        let decision = decide(script, conversation, &mut request);
        let request = Arc::new(request);
        self.requests.push(Arc::clone(&request));
        (request, decision)
    }

    /// Returns the conversation of a body, and records the body as its latest request.
    fn conversation(&mut self, body: &Value) -> &mut Conversation {
        let number = self.conversations.len() + 1;
        let conversation = self
            .conversations
            .entry(Value::Array(conversation_key(body)).to_string())
            .or_insert_with(|| Conversation::new(number));
        let messages = messages(body);
        if conversation.turn > 0 && conversation.messages == messages {
            conversation.attempt += 1;
        } else {
            conversation.turn += 1;
            conversation.attempt = 1;
            conversation.messages = messages.to_vec();
        }
        conversation
    }
}

impl Conversation {
    fn new(number: usize) -> Self {
        Self {
            number,
            messages: Vec::new(),
            turn: 0,
            attempt: 0,
            used: HashMap::new(),
        }
    }

    /// Returns the next turn of the first matching rule that has one left, and counts it as used.
    fn next_turn(&mut self, rules: &[Rule], request: &Request) -> Option<Turn> {
        for (index, rule) in rules
            .iter()
            .enumerate()
            .filter(|(_, rule)| rule.when.matches(request))
        {
            let used = self.used.entry(index).or_insert(0);
            if let Some(turn) = rule.turn(*used) {
                *used += 1;
                return Some(turn.clone());
            }
        }
        None
    }
}

fn decide(script: &Script, conversation: &mut Conversation, request: &mut Request) -> Decision {
    let bearer = request
        .header("authorization")
        .and_then(|value| value.strip_prefix("Bearer "));
    if script.api_key.as_deref().is_some_and(|key| bearer != Some(key)) {
        return Decision::Answer(Fault::InvalidApiKey.into());
    }
    if !request.violations.is_empty() {
        return Decision::Refuse;
    }
    if !script.models.is_empty() && !script.models.iter().any(|model| model == request.model()) {
        return Decision::Answer(Fault::ModelNotFound.into());
    }
    match &script.turn_source {
        TurnSource::Function(function) => Decision::Call(Arc::clone(function)),
        TurnSource::Rules(rules) => conversation.next_turn(rules, request).map_or_else(
            || {
                request.violations.push(unscripted(request));
                Decision::Refuse
            },
            Decision::Answer,
        ),
    }
}

fn unscripted(request: &Request) -> Violation {
    Violation {
        request: request.number,
        path: String::new(),
        kind: ViolationKind::Unscripted,
        reason: format!(
            "the script has no turn for request {} of conversation {} (attempt {})",
            request.turn, request.conversation, request.attempt
        ),
    }
}
