//! The conversation of an agent: its size, and how it is shortened (LOOP-11). A call and its result are never separated. Content that is
//! removed here remains in the journal.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::agent_spec::{AgentSpec, DELEGATE};
use crate::budget::RequestSize;
use crate::call::{ContextCalls, SUBMIT_PLAN};
use crate::delegation::findings_text;
use crate::id::EffectId;
use crate::loop_tools::{CALL_TOOL, DESCRIBE_TOOL};
use crate::message::{Message, ToolCall, Usage};
use crate::prompt;
use crate::tags::escape_tags;
use crate::text::shorten;
use crate::token_ratio::{TokenRatio, estimated_tokens};
use crate::tool::{ModelToolResult, ToolResult};
use crate::turn::{History, HistoryPart};

/// Results of at most this many bytes are not reduced to one line, because that would save too little.
const SHORT_RESULT: usize = 400;
/// Number of characters to keep of the error or output of a shortened result.
const SHORT_ERROR: usize = 200;

/// A conversation that grows at its end, so that each request begins with the messages of the previous one.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Conversation {
    messages: Arc<Vec<Message>>,
    /// The number of messages of earlier turns, which follow the system prompt; 0 after a summary has replaced them.
    history: usize,
    /// The calls in the conversation, by call id.
    calls: BTreeMap<String, ShownCall>,
    /// The estimated tokens of all messages plus the overhead of a request: its tool definitions.
    estimated: u64,
    counted: ProviderCounts,
    display: ResultDisplay,
    /// The calls that occur in messages to the model, including messages that were removed since. A reply may quote these calls (CALL-7).
    given: ContextCalls,
}

/// A call, and its result as shown to the model.
#[derive(Clone, Debug, Default, PartialEq)]
struct ShownCall {
    /// `None` if the call did not run.
    effect: Option<EffectId>,
    /// `None` if the call has no result yet, or if a message from the run took the place of its result.
    result: Option<ModelToolResult>,
    /// True if the model called the tool through `call_tool`.
    by_name: bool,
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
        history: Option<&History>,
        request: String,
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
        for part in history.into_iter().flat_map(History::parts) {
            conversation.add_part(part);
        }
        conversation.history = conversation.messages.len() - 1;
        conversation.push(Message::User { content: request });
        conversation
    }

    /// Adds messages of an earlier turn.
    fn add_part(&mut self, part: &HistoryPart) {
        for message in &part.messages {
            if let Message::Assistant { calls, .. } = message {
                for call in calls {
                    let effect = part.effects.get(&call.id).copied();
                    let shown = ShownCall {
                        effect,
                        ..ShownCall::default()
                    };
                    self.calls.insert(call.id.clone(), shown);
                }
            }
            self.push(message.clone());
        }
    }

    /// The effects of the calls in the conversation, by call id.
    pub(super) fn effects(&self) -> BTreeMap<String, EffectId> {
        let effect = |(id, call): (&String, &ShownCall)| Some((id.clone(), call.effect?));
        self.calls.iter().filter_map(effect).collect()
    }

    /// The messages since the agent started, without the system prompt and the messages of earlier turns.
    pub(super) fn own_messages(&self) -> &[Message] {
        &self.messages[(self.history + 1).min(self.messages.len())..]
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
            self.calls.insert(call.id.clone(), ShownCall::default());
        }
    }

    /// Records that the model called the tool through `call_tool`. The result then has the name `call_tool`, because providers require the
    /// name of the tool that the model called.
    pub(super) fn set_called_by_name(&mut self, call: &ToolCall) {
        self.calls.entry(call.id.clone()).or_default().by_name = true;
    }

    /// Adds the result of a call, with a note if the call repeats itself. `effect` is `None` if the call did not run.
    pub(super) fn push_result(
        &mut self,
        call: &ToolCall,
        effect: Option<EffectId>,
        result: &ToolResult,
        note: Option<String>,
    ) {
        let result = ModelToolResult {
            repeated: note,
            ..self.for_model(call, effect, result)
        };
        let content = content(&result);
        let shown = self.calls.entry(call.id.clone()).or_default();
        (shown.effect, shown.result) = (effect, Some(result));
        let name = if shown.by_name { CALL_TOOL } else { &call.tool };
        self.push(Message::Tool {
            call_id: call.id.clone(),
            name: name.to_owned(),
            content,
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

    /// The result as shown to the model. Three kinds of results are not shortened: results of `read_output` and results with files that now
    /// count as seen, because their tools already limit the size, and descriptions of tools, because a part of a description is useless
    /// (MCP-4).
    fn for_model(&self, call: &ToolCall, effect: Option<EffectId>, result: &ToolResult) -> ModelToolResult {
        let mut whole = result.for_model();
        if call.tool == DELEGATE
            && let Some(findings) = whole.output.as_ref().and_then(findings_text)
        {
            whole.output = Some(Value::from(findings));
        }
        let is_whole = [prompt::READ_OUTPUT, DESCRIBE_TOOL].contains(&call.tool.as_str());
        match self.display.max_result {
            Some(max) if result.seen.is_empty() && !is_whole => {
                let handle = self.display.handle(effect).map(|effect| effect.to_string());
                prompt::shorten_result(whole, max, handle.as_deref())
            }
            Some(_) | None => whole,
        }
    }

    /// Changes the last message, which must be a result.
    pub(super) fn amend_last_result(&mut self, amend: impl FnOnce(&mut ModelToolResult)) {
        if let Some(Message::Tool {
            call_id,
            content: text,
            ..
        }) = Arc::make_mut(&mut self.messages).last_mut()
            && let Some(result) = self.calls.get_mut(call_id).and_then(|call| call.result.as_mut())
        {
            amend(result);
            let amended = content(result);
            self.estimated += estimated_tokens(&amended);
            self.estimated = self.estimated.saturating_sub(estimated_tokens(text));
            *text = amended;
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
    fn change(&mut self, change: impl FnOnce(&mut [Message], &mut BTreeMap<String, ShownCall>) -> u64) {
        let messages: &mut Vec<Message> = Arc::make_mut(&mut self.messages);
        let saved = change(messages, &mut self.calls);
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

    /// Reduces results of earlier turns to one line each, oldest first, until the conversation has at most this many tokens. Results of
    /// plans are not reduced.
    pub(super) fn shrink_results(&mut self, tokens: u64) {
        self.counted.last = None;
        let (over, latest) = (self.tokens().saturating_sub(tokens), self.latest_turn());
        let (counted, display) = (self.counted, self.display);
        self.change(|messages, calls| {
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
                    let call = calls.entry(call_id.clone()).or_default();
                    let short = without_output(call.shown(content), display.handle(call.effect));
                    saved += call.replace(content, short);
                }
            }
            saved
        });
    }

    /// Shortens the results of the latest turn, which cannot be omitted, until the conversation has about this many tokens.
    pub(super) fn shorten_latest(&mut self, tokens: u64) {
        let (over, latest) = (self.tokens().saturating_sub(tokens), self.latest_turn());
        let Some(share) = Share::new(&self.messages[latest..], over, self.counted.ratio) else {
            return;
        };
        let display = self.display;
        self.change(|messages, calls| {
            let mut saved = 0;
            for message in &mut messages[latest..] {
                if let Some((call_id, content)) = shortenable(message) {
                    let call = calls.entry(call_id.to_owned()).or_default();
                    let shorter = call.shortened(content, share.of(content), display);
                    saved += call.replace(content, shorter);
                }
            }
            saved
        });
    }

    /// Returns a request for a summary of all turns except the latest; `None` if there are no earlier turns. The
    /// request begins with the same messages as the previous requests, with their outputs, so that the summary can say
    /// what the outputs showed. Outputs are shortened only if the request would exceed `most` tokens. `task` is the
    /// agent's task.
    pub(super) fn summary_request(&self, task: &str, most: Option<u64>) -> Option<Vec<Message>> {
        let latest = self.latest_turn();
        let is_turn = |message: &Message| matches!(message, Message::Assistant { .. });
        let earlier = self.messages.get(..latest)?;
        if !earlier.iter().any(is_turn) {
            return None;
        }
        let ask = Message::User {
            content: prompt::summarise_request(task),
        };
        let left_out: u64 = self.messages[latest..]
            .iter()
            .map(Message::estimated_tokens)
            .sum();
        let estimated = self.estimated.saturating_sub(left_out) + ask.estimated_tokens();
        let over = most.map_or(0, |most| {
            self.counted.ratio.tokens(estimated).saturating_sub(most)
        });
        let mut messages = earlier.to_vec();
        if let Some(share) = Share::new(earlier, over, self.counted.ratio) {
            for message in &mut messages {
                if let Some((call_id, text)) = shortenable(message) {
                    let call = self.calls.get(call_id).cloned().unwrap_or_default();
                    *text = content(&call.shortened(text, share.of(text), self.display));
                }
            }
        }
        messages.push(ask);
        Some(messages)
    }

    /// Returns true if a summary replaces only messages of earlier turns of the conversation, so that the task stays a
    /// separate message.
    pub(super) fn keeps_task(&self) -> bool {
        self.history > 0 && self.latest_turn() <= self.history
    }

    /// Replaces all turns except the latest with a summary, which is appended to the agent's first request.
    pub(super) fn summarise(&mut self, request: &str, summary: &str) {
        let latest = self.latest_turn();
        let system = Message::System {
            content: self.content(0).to_owned(),
        };
        let request = Message::User {
            content: format!("{request}\n\n{}", prompt::summary(summary))
                .trim_start()
                .to_owned(),
        };
        let rest = self.messages.iter().skip(latest.max(2)).cloned();
        let messages: Vec<Message> = [system, request].into_iter().chain(rest).collect();
        let tokens = |messages: &[Message]| messages.iter().map(Message::estimated_tokens).sum::<u64>();
        let (before, now) = (tokens(&self.messages), tokens(&messages));
        self.estimated = self.estimated.saturating_sub(before) + now;
        self.messages = Arc::new(messages);
        self.history = 0;
        self.counted.last = None;
    }
}

/// The share of each result that remains if results are shortened evenly.
#[derive(Clone, Copy)]
struct Share {
    remaining: u64,
    all: u64,
}

impl Share {
    /// Computes the share that saves `over` tokens of the messages; `None` if there is nothing to save or to shorten.
    fn new(messages: &[Message], over: u64, ratio: TokenRatio) -> Option<Self> {
        let results = messages.iter().filter_map(|message| match message {
            Message::Tool { content, .. } => Some(content.chars().count()),
            Message::System { .. } | Message::User { .. } | Message::Assistant { .. } => None,
        });
        let results: usize = results.sum();
        let all = ratio.tokens(results.div_ceil(4) as u64).max(1);
        let remaining = all.saturating_sub(over);
        (over > 0 && results > 0).then_some(Share { remaining, all })
    }

    /// Returns how many characters of a result remain.
    fn of(self, content: &str) -> usize {
        let share = content.chars().count() as u128 * u128::from(self.remaining) / u128::from(self.all);
        usize::try_from(share).unwrap_or(usize::MAX).max(SHORT_ERROR)
    }
}

/// Returns the call's id and the text of a result that may be shortened; `None` for the result of a plan and for any other message.
fn shortenable(message: &mut Message) -> Option<(&str, &mut String)> {
    match message {
        Message::Tool {
            call_id,
            content,
            name,
        } if name != SUBMIT_PLAN => Some((call_id, content)),
        Message::Tool { .. } | Message::System { .. } | Message::User { .. } | Message::Assistant { .. } => {
            None
        }
    }
}

impl ShownCall {
    /// The call's result as shown to the model; if there is none, a success with the message's `text` as its output.
    fn shown(&self, text: &str) -> ModelToolResult {
        self.result.clone().unwrap_or_else(|| ModelToolResult {
            success: true,
            output: Some(Value::from(text)),
            ..ModelToolResult::default()
        })
    }

    /// Returns the shown result, shortened to about `max` characters. `text` is the text of its message.
    fn shortened(&self, text: &str, max: usize, display: ResultDisplay) -> ModelToolResult {
        let handle = display.handle(self.effect).map(|effect| effect.to_string());
        prompt::shorten_result(self.shown(text), max, handle.as_deref())
    }

    /// Replaces the text of the message with a shorter result, and returns the estimated number of tokens saved. Does nothing if `shorter`
    /// does not have fewer tokens.
    fn replace(&mut self, text: &mut String, shorter: ModelToolResult) -> u64 {
        let short = content(&shorter);
        let (before, now) = (estimated_tokens(text), estimated_tokens(&short));
        if now < before {
            *text = short;
            self.result = Some(shorter);
        }
        before.saturating_sub(now)
    }
}

/// The text of a result's message. Tags are escaped, because tool output may look like a section of a prompt.
fn content(result: &ModelToolResult) -> String {
    escape_tags(&result.to_string()).into_owned()
}

/// Returns the result without its output and changes, with the handle for reading the output.
fn without_output(result: ModelToolResult, handle: Option<EffectId>) -> ModelToolResult {
    let shorten = |text: Option<String>| text.map(|text| shorten(&text, SHORT_ERROR, None).into_owned());
    let left_out = match handle {
        Some(handle) => format!("[output left out: read it with read_output, handle {handle}]"),
        None => "[output left out]".to_owned(),
    };
    ModelToolResult {
        error: shorten(result.error),
        output: result.output.map(|_| Value::String(left_out)),
        changes: Vec::new(),
        edited: shorten(result.edited),
        so_far: None,
        repeated: None,
        ..result
    }
}
