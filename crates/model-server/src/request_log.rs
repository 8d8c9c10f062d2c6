//! The log of chat requests and conversations, and the choice of the next turn.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use crate::check::check;
use crate::fault::Fault;
use crate::http::HttpRequest;
use crate::message::messages;
use crate::request::{Request, conversation_key};
use crate::script::{Rule, Script, Turn, TurnFn, TurnSource};
use crate::violation::Violation;

/// Log of everything received so far.
#[derive(Default)]
pub(crate) struct RequestLog(Mutex<LogState>);

#[derive(Default)]
struct LogState {
    requests: Vec<Arc<Request>>,
    /// Conversations by their [`conversation_key`].
    conversations: HashMap<String, Conversation>,
}

struct Conversation {
    number: usize,
    /// Messages of the latest request; `turn` and `attempt` are that request's, too.
    messages: Vec<Value>,
    turn: usize,
    attempt: usize,
    /// For each rule, by its index, how many of its turns were used.
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
    /// Logs a request and decides about it.
    pub(crate) fn receive(&self, script: &Script, http: &HttpRequest) -> (Arc<Request>, Decision) {
        self.lock().receive(script, http)
    }

    pub(crate) fn requests(&self) -> Vec<Arc<Request>> {
        self.lock().requests.clone()
    }

    fn lock(&self) -> MutexGuard<'_, LogState> {
        // No code panics while the lists are inconsistent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LogState {
    fn receive(&mut self, script: &Script, http: &HttpRequest) -> (Arc<Request>, Decision) {
        let number = self.requests.len() + 1;
        let body = http.json();
        let violations = check(number, http.header("content-type"), &body);
        let conversation = self.conversation(&body);
        let mut request = Request {
            number,
            conversation: conversation.number,
            turn: conversation.turn,
            attempt: conversation.attempt,
            http: http.clone(),
            body,
            violations,
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
        .http
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
        reason: format!(
            "the script has no turn for request {} of conversation {} (attempt {})",
            request.turn, request.conversation, request.attempt
        ),
    }
}
