//! The conversation of an agent: its size, and how it is shortened (LOOP-11). A call and its result are never separated. Content that is
//! removed here remains in the journal.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::tags::escape_tags;
use serde_json::{Map, Value};

use crate::agent_spec::AgentSpec;
use crate::budget::RequestSize;
use crate::call::{ContextCalls, SUBMIT_PLAN};
use crate::id::EffectId;
use crate::message::{Message, ToolCall, Usage};
use crate::prompt;
use crate::text::{shorten, shorten_value};
use crate::token_ratio::{TokenRatio, estimated_tokens};
use crate::tool::ToolResult;

/// Results of at most this many bytes are not reduced to one line, because that would save too little.
const SHORT_RESULT: usize = 400;
/// Number of characters to keep of the error or output of a shortened result.
const SHORT_ERROR: usize = 200;

/// The result field that tells the model that the user changed the call's parameters.
pub(super) const EDITED: &str = "edited";

/// A conversation that grows at its end, so that each request begins with the messages of the previous one.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Conversation {
    messages: Arc<Vec<Message>>,
    /// The effect id of each call in the conversation, by call id; `None` if the call did not run.
    calls: BTreeMap<String, Option<EffectId>>,
    /// The estimated tokens of all messages plus the overhead of a request ([`crate::run_context::RunContext::request_overhead`]).
    estimated: u64,
    counted: ProviderCounts,
    display: ResultDisplay,
    /// The calls that occur in messages to the model, including messages that were removed since. A reply may quote these calls (CALL-7).
    given: ContextCalls,
}

/// How results are shown to the model.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct ResultDisplay {
    /// Maximum number of characters of a result; `None` for no limit.
    max_result: Option<usize>,
    rest: OmittedOutput,
}

/// Whether the agent can read output that was omitted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum OmittedOutput {
    /// The agent has the tool `read_output`, which reads output by handle.
    #[default]
    Readable,
    /// The agent does not have the tool.
    Unavailable,
}

impl ResultDisplay {
    fn new(spec: &AgentSpec) -> Self {
        ResultDisplay {
            max_result: spec.profile.max_result,
            rest: if spec.tools.iter().any(|tool| tool == prompt::READ_OUTPUT) {
                OmittedOutput::Readable
            } else {
                OmittedOutput::Unavailable
            },
        }
    }

    /// Returns the handle to show to the model; `None` if the agent cannot read output by handle.
    fn handle(self, effect: Option<EffectId>) -> Option<EffectId> {
        match self.rest {
            OmittedOutput::Readable => effect,
            OmittedOutput::Unavailable => None,
        }
    }
}

/// The provider's token counts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct ProviderCounts {
    /// The last count; `None` if messages have changed since.
    last: Option<PrefixCount>,
    ratio: TokenRatio,
}

/// A provider's token count for the beginning of a conversation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct PrefixCount {
    tokens: u64,
    /// Dirigent's estimate for the same messages.
    estimated: u64,
    /// The token count of the reply; `None` once the reply was added to the conversation.
    reply: Option<u64>,
}

impl Conversation {
    /// Creates a conversation before its first request. `overhead` is the number of tokens of each request in addition to its messages.
    pub(super) fn new(
        spec: &AgentSpec,
        system: &str,
        task: String,
        overhead: u64,
        given: ContextCalls,
    ) -> Self {
        let mut conversation = Conversation {
            estimated: overhead,
            display: ResultDisplay::new(spec),
            given,
            ..Conversation::default()
        };
        conversation.push(Message::System {
            content: system.to_owned(),
        });
        conversation.push(Message::User { content: task });
        conversation
    }

    pub(super) fn messages(&self) -> &Arc<Vec<Message>> {
        &self.messages
    }

    /// The calls that occur in messages to the model.
    pub(super) fn given(&self) -> &ContextCalls {
        &self.given
    }

    /// The text of a message; empty if there is no such message.
    fn content(&self, index: usize) -> &str {
        self.messages.get(index).map_or("", Message::content)
    }

    /// Uses the provider's token count for a reply that is added as a message. The count may include thinking, which is not sent again, so
    /// it is limited to the maximum that the message's text can have. The message's overhead is still estimated.
    fn count_reply(&mut self, message: &Message) {
        if let Some(count) = &mut self.counted.last
            && let Some(reply) = count.reply.take()
        {
            let most = TokenRatio::MAX.tokens(message.estimated_tokens());
            count.tokens = count.tokens.saturating_add(reply.min(most));
            count.estimated = self.estimated.saturating_sub(message.overhead_tokens());
        }
    }

    pub(super) fn push(&mut self, message: Message) {
        self.estimated += message.estimated_tokens();
        match &message {
            Message::System { content } | Message::User { content } | Message::Tool { content, .. } => {
                self.given.add(content);
            }
            // The model wrote this message itself, so its calls are not quotations.
            Message::Assistant { .. } => self.count_reply(&message),
        }
        // Copies nothing, because the driver has dropped its clone of the messages by now.
        Arc::make_mut(&mut self.messages).push(message);
    }

    /// Gives each call an id that is unique in the conversation, because results refer to calls by id.
    pub(super) fn assign_call_ids(&mut self, turn: u32, calls: &mut [ToolCall]) {
        for (number, call) in (1..).zip(calls) {
            let mut next: usize = number;
            while call.id.is_empty() || self.calls.contains_key(&call.id) {
                call.id = format!("call-{turn}-{next}");
                next += 1;
            }
            self.calls.insert(call.id.clone(), None);
        }
    }

    /// Adds the result of a call, with a note if the call repeats itself. `effect` is `None` if the call did not run.
    pub(super) fn push_result(
        &mut self,
        call: &ToolCall,
        effect: Option<EffectId>,
        result: &ToolResult,
        note: Option<String>,
    ) {
        if let Some(handle) = self.calls.get_mut(&call.id) {
            *handle = effect;
        }
        let mut content = self.for_model(call, effect, result);
        if let Some(note) = note {
            content["repeated"] = Value::String(note);
        }
        self.push(Message::Tool {
            call_id: call.id.clone(),
            name: call.tool.clone(),
            // Tool output may look like a section of a prompt.
            content: escape_tags(&content.to_string()).into_owned(),
        });
    }

    /// Adds the run's message as the result of a call of the terminating tool.
    pub(super) fn push_submission_result(&mut self, call: &ToolCall, message: String) {
        self.push(Message::Tool {
            call_id: call.id.clone(),
            name: call.tool.clone(),
            content: message,
        });
    }

    /// The result as shown to the model. Results of `read_output`, and results with files that now count as seen, are not shortened,
    /// because their tools already limit the size.
    fn for_model(&self, call: &ToolCall, effect: Option<EffectId>, result: &ToolResult) -> Value {
        let whole = result.for_model();
        match self.display.max_result {
            Some(max) if result.seen.is_empty() && call.tool != prompt::READ_OUTPUT => {
                let handle = self.display.handle(effect).map(|effect| effect.to_string());
                prompt::shorten_result(whole, max, handle.as_deref())
            }
            Some(_) | None => whole,
        }
    }

    /// Adds a field to the last result.
    pub(super) fn add_to_last_result(&mut self, field: &str, value: &Value) {
        if let Some(Message::Tool { content, .. }) = Arc::make_mut(&mut self.messages).last_mut()
            // Every result is an object with at least the field `success`.
            && content.ends_with('}')
        {
            content.pop();
            let added = format!(",{}:{value}}}", Value::from(field));
            let added = escape_tags(&added);
            self.estimated += estimated_tokens(&added);
            content.push_str(&added);
        }
    }

    /// Records the provider's token counts of the request and its reply. Ignores estimated counts.
    pub(super) fn count(&mut self, usage: &Usage) {
        let tokens = usage.input_tokens;
        if tokens > 0 && usage.estimated_calls == 0 {
            self.counted = ProviderCounts {
                last: Some(PrefixCount {
                    tokens,
                    estimated: self.estimated,
                    reply: Some(usage.output_tokens),
                }),
                ratio: TokenRatio::from_counts(tokens, self.estimated),
            };
        }
    }

    /// The size of a request: the provider's count for the beginning, and an estimate for the remaining messages.
    pub(super) fn size(&self) -> RequestSize {
        let count = self.counted.last.unwrap_or_default();
        RequestSize {
            counted: count.tokens,
            estimated: self.estimated.saturating_sub(count.estimated),
        }
    }

    /// The estimated tokens of a request.
    pub(super) fn tokens(&self) -> u64 {
        self.size().tokens(self.counted.ratio)
    }

    /// Applies `change` to the messages. `change` returns the estimated number of tokens that it saved.
    fn change(&mut self, change: impl FnOnce(&mut [Message], &BTreeMap<String, Option<EffectId>>) -> u64) {
        let messages: &mut Vec<Message> = Arc::make_mut(&mut self.messages);
        let saved = change(messages, &self.calls);
        self.estimated = self.estimated.saturating_sub(saved);
        self.counted.last = None;
    }

    /// The index of the model's last message, which begins the latest turn.
    fn latest_turn(&self) -> usize {
        let is_model = |message: &Message| matches!(message, Message::Assistant { .. });
        self.messages
            .iter()
            .rposition(is_model)
            .unwrap_or(self.messages.len())
    }

    /// Reduces results of earlier turns to one line each, except those of plans, oldest first, until the conversation has at most this many tokens.
    pub(super) fn shrink_results(&mut self, tokens: u64) {
        self.counted.last = None;
        let (over, latest) = (self.tokens().saturating_sub(tokens), self.latest_turn());
        let (counted, display) = (self.counted, self.display);
        self.change(|messages, handles| {
            let mut saved = 0;
            for message in &mut messages[..latest] {
                if counted.ratio.tokens(saved) >= over {
                    break;
                }
                if let Message::Tool {
                    call_id,
                    content,
                    name,
                } = message
                    && content.len() > SHORT_RESULT
                    && name != SUBMIT_PLAN
                {
                    let line =
                        without_output(content, display.handle(handles.get(call_id).copied().flatten()));
                    saved += replace(content, line);
                }
            }
            saved
        });
    }

    /// Shortens the results of the latest turn, which cannot be omitted, until the conversation has about this many tokens.
    pub(super) fn shorten_latest(&mut self, tokens: u64) {
        let (over, latest) = (self.tokens().saturating_sub(tokens), self.latest_turn());
        let results: usize = self.messages[latest..].iter().filter_map(result_characters).sum();
        let all = self.counted.ratio.tokens(results.div_ceil(4) as u64).max(1);
        if over == 0 || results == 0 {
            return;
        }
        let display = self.display;
        self.change(|messages, handles| {
            let mut saved = 0;
            for message in &mut messages[latest..] {
                if let Message::Tool {
                    call_id,
                    content,
                    name,
                } = message
                    && name != SUBMIT_PLAN
                {
                    let share = content.chars().count() as u128 * u128::from(all.saturating_sub(over))
                        / u128::from(all);
                    let max = usize::try_from(share).unwrap_or(usize::MAX).max(SHORT_ERROR);
                    let handle = display.handle(handles.get(call_id).copied().flatten());
                    let handle = handle.map(|effect| effect.to_string());
                    let shorten = |output: &str| shorten(output, max, handle.as_deref()).into_owned();
                    saved += replace(content, with_output(content, max, shorten));
                }
            }
            saved
        });
    }

    /// Returns a request for a summary of all turns except the latest; `None` if there are no earlier turns. The request begins with the
    /// same messages as the previous requests.
    pub(super) fn summary_request(&self) -> Option<Vec<Message>> {
        let latest = self.latest_turn();
        let is_turn = |message: &Message| matches!(message, Message::Assistant { .. });
        let earlier = self.messages.get(..latest)?;
        if !earlier.iter().any(is_turn) {
            return None;
        }
        let ask = Message::User {
            content: prompt::summarise_request(self.content(1)),
        };
        Some(earlier.iter().cloned().chain([ask]).collect())
    }

    /// Replaces all turns except the latest with a summary, which is appended to the task.
    pub(super) fn summarise(&mut self, task: &str, summary: &str) {
        let latest = self.latest_turn();
        let system = Message::System {
            content: self.content(0).to_owned(),
        };
        let task = Message::User {
            content: format!("{task}\n\n{}", prompt::summary(summary)),
        };
        let rest = self.messages.iter().skip(latest.max(2)).cloned();
        let messages: Vec<Message> = [system, task].into_iter().chain(rest).collect();
        let tokens = |messages: &[Message]| messages.iter().map(Message::estimated_tokens).sum::<u64>();
        let (before, now) = (tokens(&self.messages), tokens(&messages));
        self.estimated = self.estimated.saturating_sub(before) + now;
        self.messages = Arc::new(messages);
        self.counted.last = None;
    }
}

fn result_characters(message: &Message) -> Option<usize> {
    match message {
        Message::Tool { content, .. } => Some(content.chars().count()),
        Message::System { .. } | Message::User { .. } | Message::Assistant { .. } => None,
    }
}

/// Replaces a text and returns the estimated tokens saved. Does nothing if `shorter` does not have fewer tokens.
fn replace(content: &mut String, shorter: String) -> u64 {
    let (before, now) = (estimated_tokens(content), estimated_tokens(&shorter));
    if now < before {
        *content = shorter;
    }
    before.saturating_sub(now)
}

/// Returns the result without its output, with the handle for reading the output.
fn without_output(content: &str, handle: Option<EffectId>) -> String {
    with_output(content, SHORT_ERROR, |_| match handle {
        Some(handle) => format!("[output left out; read it with read_output {{\"handle\": \"{handle}\"}}]"),
        None => "[output left out]".to_owned(),
    })
}

/// Returns the result with its output, if any, mapped by `output`, and with its error truncated to `max_error` characters.
fn with_output(content: &str, max_error: usize, output: impl FnOnce(&str) -> String) -> String {
    let mut result = match serde_json::from_str(content) {
        Ok(Value::Object(result)) => result,
        // Not a result in Dirigent's format.
        Ok(_) | Err(_) => Map::from_iter([("output".to_owned(), Value::from(content))]),
    };
    result.retain(|field, _| ["success", "error", "output", "so_far", EDITED].contains(&field.as_str()));
    for field in ["error", EDITED] {
        if let Some(text) = result.get_mut(field) {
            *text = shorten_value(text, max_error, None);
        }
    }
    if let Some(whole) = result.get_mut("output") {
        let text = match &*whole {
            Value::String(text) => output(text),
            other => output(&other.to_string()),
        };
        *whole = Value::String(text);
    }
    Value::Object(result).to_string()
}
