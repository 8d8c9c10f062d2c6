//! What an agent and its model have said, how long it is, and how it is made shorter (LOOP-11). A call and its result are never
//! separated, and what is left out here stays in the journal.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::tags::escape_tags;
use serde_json::{Map, Value};

use crate::budget::RequestSize;
use crate::call::ContextCalls;
use crate::id::EffectId;
use crate::message::{Message, ToolCall, Usage};
use crate::prompt;
use crate::spec::AgentSpec;
use crate::text::{shorten, shorten_value};
use crate::token_ratio::{TokenRatio, estimated_tokens};
use crate::tool::ToolResult;

/// Bytes up to which a result is left as it is: a line in its place would save nothing.
const SHORT_RESULT: usize = 400;
/// Characters that are left of an error whose output is left out.
const SHORT_ERROR: usize = 200;

/// The field of a result that says that a person changed the call.
pub(super) const EDITED: &str = "edited";

/// A conversation that grows at its end, so that each request begins with the one before it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Conversation {
    messages: Arc<Vec<Message>>,
    /// The ids of its calls, with the handles of those that were carried out.
    calls: BTreeMap<String, Option<EffectId>>,
    /// About how many tokens it has, with what goes with each of its requests ([`crate::run_context::RunContext::request_overhead`]).
    estimated: u64,
    counted: ProviderCounts,
    display: ResultDisplay,
    /// The calls in what the model was given, in messages that were left out since as well (CALL-7).
    given: ContextCalls,
}

/// How results are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct ResultDisplay {
    /// Characters of one; none for all.
    max_result: Option<usize>,
    rest: OmittedOutput,
}

/// What can be done about what is left out.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum OmittedOutput {
    /// The agent has the tool that reads it by its handle.
    #[default]
    Readable,
    /// Nothing.
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

    /// The handle that the model is told.
    fn handle(self, effect: Option<EffectId>) -> Option<EffectId> {
        match self.rest {
            OmittedOutput::Readable => effect,
            OmittedOutput::Unavailable => None,
        }
    }
}

/// How its provider counts tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct ProviderCounts {
    /// What it counted last; none where messages were changed since.
    last: Option<PrefixCount>,
    ratio: TokenRatio,
}

/// A provider's count of the beginning of a conversation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct PrefixCount {
    tokens: u64,
    /// What was estimated of it.
    estimated: u64,
    /// What it counted of the reply, until that is said.
    reply: Option<u64>,
}

impl Conversation {
    /// The conversation before its first request; `overhead` are the tokens that each request has beside its messages.
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

    /// The calls in what the model was given.
    pub(super) fn given(&self) -> &ContextCalls {
        &self.given
    }

    /// The text of a message by its place; empty if there is none.
    fn content(&self, index: usize) -> &str {
        self.messages.get(index).map_or("", Message::content)
    }

    /// The provider has counted the reply that is said with this message, but not what stands around it. What the model thought for its
    /// reply is not sent again: it has no more tokens than its text can have.
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
            // What the model said itself is not given.
            Message::Assistant { .. } => self.count_reply(&message),
        }
        // In place: the request that shared the conversation is gone when its reply comes in.
        Arc::make_mut(&mut self.messages).push(message);
    }

    /// A call's result names it by its id, so each has one of its own in the whole conversation.
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

    /// The result of a call, with what is to be said about it; `effect` where it was carried out.
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
            // What a tool read may look like a part of a prompt.
            content: escape_tags(&content.to_string()).into_owned(),
        });
    }

    /// A result as the model is shown it. What counts as seen is shown whole, as is what was asked for by its handle: their tools bound them.
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

    /// Adds a field to the result that was told last.
    pub(super) fn add_to_last_result(&mut self, field: &str, value: &Value) {
        if let Some(Message::Tool { content, .. }) = Arc::make_mut(&mut self.messages).last_mut()
            // A result is an object that says at least whether it was a success.
            && content.ends_with('}')
        {
            content.pop();
            let added = format!(",{}:{value}}}", Value::from(field));
            let added = escape_tags(&added);
            self.estimated += estimated_tokens(&added);
            content.push_str(&added);
        }
    }

    /// The provider has counted the request of all that is said now. An estimate in the place of its count says nothing new.
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

    /// How long a request is: what its provider has counted, and the estimate of what came after.
    pub(super) fn size(&self) -> RequestSize {
        let count = self.counted.last.unwrap_or_default();
        RequestSize {
            counted: count.tokens,
            estimated: self.estimated.saturating_sub(count.estimated),
        }
    }

    /// About how many tokens a request has.
    pub(super) fn tokens(&self) -> u64 {
        self.size().tokens(self.counted.ratio)
    }

    /// Changes messages; `change` returns what it thereby saved, as estimated.
    fn change(&mut self, change: impl FnOnce(&mut [Message], &BTreeMap<String, Option<EffectId>>) -> u64) {
        let messages: &mut Vec<Message> = Arc::make_mut(&mut self.messages);
        let saved = change(messages, &self.calls);
        self.estimated = self.estimated.saturating_sub(saved);
        self.counted.last = None;
    }

    /// Where the latest turn begins: with the model's last message.
    fn latest_turn(&self) -> usize {
        let is_model = |message: &Message| matches!(message, Message::Assistant { .. });
        self.messages
            .iter()
            .rposition(is_model)
            .unwrap_or(self.messages.len())
    }

    /// Makes the results of earlier turns a line each, the oldest first, until the conversation has at most that many tokens.
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
                if let Message::Tool { call_id, content, .. } = message
                    && content.len() > SHORT_RESULT
                {
                    let line =
                        without_output(content, display.handle(handles.get(call_id).copied().flatten()));
                    saved += replace(content, line);
                }
            }
            saved
        });
    }

    /// Shortens the results of the latest turn, which cannot be left out, until the conversation has about that many tokens.
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
                if let Message::Tool { call_id, content, .. } = message {
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

    /// The request that has the model summarise all turns but the latest; none where there are no others. It begins as the
    /// requests before it did.
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

    /// Puts a summary in the place of all turns but the latest. It stands with the task, which is `task`.
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

/// Puts a shorter text in the place of one, and returns the tokens that it saves; one that is no shorter is left out.
fn replace(content: &mut String, shorter: String) -> u64 {
    let (before, now) = (estimated_tokens(content), estimated_tokens(&shorter));
    if now < before {
        *content = shorter;
    }
    before.saturating_sub(now)
}

/// A result without its output, which can be read again by its handle.
fn without_output(content: &str, handle: Option<EffectId>) -> String {
    with_output(content, SHORT_ERROR, |_| match handle {
        Some(handle) => format!("[output left out; read it with read_output {{\"handle\": \"{handle}\"}}]"),
        None => "[output left out]".to_owned(),
    })
}

/// A result with another text for its output, if it has one, and at most so many characters of its error.
fn with_output(content: &str, max_error: usize, output: impl FnOnce(&str) -> String) -> String {
    let mut result = match serde_json::from_str(content) {
        Ok(Value::Object(result)) => result,
        // No result of ours.
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
