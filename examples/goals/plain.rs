//! The plain conversation: what the same calls and results would take in one conversation with the lead's prompt and tools.
//!
//! It is computed from a run's recording:
//! 1. It begins with the lead's system prompt and the goal, in the user's words alone. Each request offers the lead's tools.
//! 2. Each reply of the lead or a sub-agent that called tools is one reply, with the results as the agent read them, in the order of the
//!    replies. `delegate` and what the run itself answers (`submit_plan`, `submit_reflection`) are left out.
//! 3. Each call that a plan contains itself is one reply, with the whole result, in the order of the results.
//! 4. One more request brings the final answer.

use std::collections::BTreeMap;
use std::sync::Arc;

use dirigent::events::{AgentId, AgentRole, EffectId, Scope};
use dirigent::journal::{AgentInput, Input, RecordedRequest, Recording, RunInput};
use dirigent::model::{Message, ToolCall};
use dirigent_model_server::Request;
use serde_json::{Value, json};

use crate::AnyError;
use crate::play::Size;
use crate::replies::Role;

/// The calls that belong to the run, not to the work.
const CALLS_OF_THE_RUN: [&str; 3] = ["delegate", "submit_plan", "submit_reflection"];

/// The plain conversation of a run.
pub struct PlainConversation {
    /// The requests, in order.
    pub requests: Vec<Size>,
}

impl PlainConversation {
    /// Computes the plain conversation of a run. Checks first that the recording gives exactly the requests that the server received.
    pub fn new(goal: &str, recording: &Recording, received: &[Arc<Request>]) -> Result<Self, AnyError> {
        let history = History::new(recording)?;
        history.check(received)?;
        let lead = received
            .iter()
            .find(|request| Role::from_request(request) == Role::Lead)
            .ok_or("the lead was never asked")?;
        let system = lead.messages().first().ok_or("the lead has no prompt")?.clone();
        let mut body = json!({
            "messages": [system, {"role": "user", "content": goal}],
            "tools": lead.body["tools"],
        });
        let mut requests = vec![Size::from_body(&body)];
        for turn in history.turns() {
            if let Some(messages) = body["messages"].as_array_mut() {
                messages.extend(turn.iter().map(wire_message));
            }
            requests.push(Size::from_body(&body));
        }
        Ok(PlainConversation { requests })
    }
}

/// The conversations and calls of a run, from its recording.
#[derive(Default)]
struct History {
    conversations: BTreeMap<AgentId, Conversation>,
    replies: Vec<RecordedReply>,
    /// The messages of each request.
    requests: Vec<Vec<Message>>,
}

#[derive(Default)]
struct Conversation {
    role: Option<AgentRole>,
    messages: Vec<Message>,
}

/// A reply that called tools.
enum RecordedReply {
    /// The reply of an agent: the message at this place of its conversation.
    Agent(AgentId, usize),
    /// A call of a plan, and its result.
    Plan(Vec<Message>),
}

impl History {
    fn new(recording: &Recording) -> Result<Self, AnyError> {
        let mut history = History::default();
        let mut calls: BTreeMap<EffectId, ToolCall> = BTreeMap::new();
        for entry in recording.entries() {
            match (entry.scope, &entry.input, &entry.answers) {
                (Scope::Agent(agent), Input::Agent(AgentInput::Started { brief }), _) => {
                    history.conversations.entry(agent).or_default().role = Some(brief.role.clone());
                }
                (
                    Scope::Agent(agent),
                    Input::Agent(AgentInput::ModelReplied { .. }),
                    Some(RecordedRequest::Request(request)),
                ) => {
                    let conversation = history.conversations.entry(agent).or_default();
                    if conversation.messages.len() != request.shared {
                        return Err("a conversation was compacted".into());
                    }
                    conversation.messages.extend(request.messages.iter().cloned());
                    history.requests.push(conversation.messages.clone());
                    let place = conversation.messages.len();
                    history.replies.push(RecordedReply::Agent(agent, place));
                }
                (
                    Scope::Run,
                    Input::Run(RunInput::ToolStarted { effect }),
                    Some(RecordedRequest::Call(call)),
                ) => {
                    calls.insert(*effect, call.clone());
                }
                (Scope::Run, Input::Run(RunInput::ToolFinished { effect, result }), _) => {
                    if let Some(mut call) = calls.remove(effect) {
                        call.id = effect.to_string();
                        let result = Message::Tool {
                            call_id: call.id.clone(),
                            name: call.tool.clone(),
                            content: result.for_model().to_string(),
                        };
                        let reply = Message::Assistant {
                            content: String::new(),
                            calls: vec![call],
                        };
                        history.replies.push(RecordedReply::Plan(vec![reply, result]));
                    }
                }
                _ => {}
            }
        }
        Ok(history)
    }

    /// Checks that these are the requests that the server received.
    fn check(&self, received: &[Arc<Request>]) -> Result<(), AnyError> {
        let messages =
            |messages: &Vec<Message>| messages.iter().map(wire_message).collect::<Value>().to_string();
        let mut recorded: Vec<String> = self.requests.iter().map(messages).collect();
        let mut received: Vec<String> = received
            .iter()
            .map(|request| request.body["messages"].to_string())
            .collect();
        recorded.sort();
        received.sort();
        if recorded == received {
            Ok(())
        } else {
            Err("the recording has other requests than the server received".into())
        }
    }

    /// Returns the replies that called tools, each with its results.
    fn turns(&self) -> impl Iterator<Item = Vec<Message>> {
        self.replies.iter().filter_map(|reply| match reply {
            RecordedReply::Plan(messages) => Some(messages.clone()),
            RecordedReply::Agent(agent, place) => {
                let conversation = self.conversations.get(agent)?;
                let is_reflector = conversation.role == Some(AgentRole::Reflector);
                let rest = conversation.messages.get(*place..).filter(|_| !is_reflector)?;
                work(rest)
            }
        })
    }
}

/// Returns a reply and its results without the calls of the run; `None` if it has no others.
fn work(rest: &[Message]) -> Option<Vec<Message>> {
    let (Message::Assistant { content, calls }, rest) = rest.split_first()? else {
        return None;
    };
    let is_work = |tool: &str| !CALLS_OF_THE_RUN.contains(&tool);
    let calls: Vec<ToolCall> = calls.iter().filter(|call| is_work(&call.tool)).cloned().collect();
    if calls.is_empty() {
        return None;
    }
    let results = rest
        .iter()
        .take_while(|message| !matches!(message, Message::Assistant { .. }))
        .filter(|message| matches!(message, Message::Tool { name, .. } if is_work(name)));
    let reply = Message::Assistant {
        content: content.clone(),
        calls,
    };
    Some(std::iter::once(&reply).chain(results).cloned().collect())
}

/// Returns a message in the form of the OpenAI API with native calls.
fn wire_message(message: &Message) -> Value {
    match message {
        Message::System { content } => json!({"role": "system", "content": content}),
        Message::User { content } => json!({"role": "user", "content": content}),
        Message::Assistant { content, calls } if calls.is_empty() => {
            json!({"role": "assistant", "content": content})
        }
        Message::Assistant { content, calls } => {
            let content = Some(content).filter(|content| !content.is_empty());
            let calls: Vec<Value> = calls
                .iter()
                .map(|call| {
                    let function = json!({"name": call.tool, "arguments": call.parameters.to_string()});
                    json!({"id": call.id, "type": "function", "function": function})
                })
                .collect();
            json!({"role": "assistant", "content": content, "tool_calls": calls})
        }
        Message::Tool { call_id, content, .. } => {
            json!({"role": "tool", "content": content, "tool_call_id": call_id})
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(id: &str, tool: &str) -> ToolCall {
        ToolCall {
            id: id.to_owned(),
            tool: tool.to_owned(),
            parameters: json!({}),
            terminate: false,
        }
    }

    fn assistant(calls: Vec<ToolCall>) -> Message {
        let content = String::new();
        Message::Assistant { content, calls }
    }

    fn result(id: &str, tool: &str) -> Message {
        Message::Tool {
            call_id: id.to_owned(),
            name: tool.to_owned(),
            content: "{}".to_owned(),
        }
    }

    #[test]
    fn the_runs_own_calls_are_left_out_of_the_plain_conversation() {
        let both = [
            assistant(vec![call("1", "search"), call("2", "delegate")]),
            result("1", "search"),
            result("2", "delegate"),
            assistant(vec![call("3", "search")]),
            result("3", "search"),
        ];
        let expected = vec![assistant(vec![call("1", "search")]), result("1", "search")];
        assert_eq!(work(&both), Some(expected));
        assert_eq!(work(&[assistant(vec![call("1", "submit_plan")])]), None);
        assert_eq!(work(&[assistant(Vec::new())]), None);
    }
}
