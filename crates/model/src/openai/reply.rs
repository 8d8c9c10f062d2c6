//! Conversion of the chunks that a server sends to a [`ModelReply`]. A reply in one piece is a single chunk.

use dirigent_core::message::{FinishReason, ModelReply};
use dirigent_core::token_ratio::estimated_tokens;

use super::calls::CallAssembler;
use super::chunk::{Chunk, WireUsage};
use super::wire::ResolvedRequest;
use crate::deltas::DeltaSink;
use crate::names::is_model_name;
use crate::secrets::{Redactor, Secrets};

/// How the transfer of a reply ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplyEnd {
    /// The server marked the end.
    Complete,
    /// The transfer stopped before the end.
    Interrupted,
    /// The transfer was stopped, as the reply exceeds the size limit.
    Oversized,
}

/// A reply in progress. Secrets in it are redacted.
#[derive(Debug)]
pub(super) struct Collector {
    redactor: Redactor,
    secrets: Secrets,
    content: String,
    refusal: String,
    calls: CallAssembler,
    finish_reason: String,
    model: String,
    usage: WireUsage,
}

impl Collector {
    /// Starts a reply in which these secrets are redacted.
    pub(super) fn new(secrets: &Secrets) -> Self {
        Collector {
            redactor: Redactor::new(secrets),
            secrets: secrets.clone(),
            content: String::new(),
            refusal: String::new(),
            calls: CallAssembler::default(),
            finish_reason: String::new(),
            model: String::new(),
            usage: WireUsage::default(),
        }
    }

    /// Adds a chunk, and sends its text to `deltas`.
    pub(super) fn add(&mut self, chunk: Chunk, deltas: Option<&DeltaSink>) {
        if chunk.usage.prompt_tokens > Some(0) || chunk.usage.completion_tokens > Some(0) {
            self.usage = chunk.usage;
        }
        if self.model.is_empty() && is_model_name(&chunk.model) {
            self.model = chunk.model;
        }
        // Requests ask for one choice only.
        for choice in chunk.choices.into_iter().filter(|choice| choice.index == 0) {
            let message = choice.delta.or(choice.message).unwrap_or_default();
            let clean = self.redactor.push(&message.content.0);
            self.push_text(&clean, deltas);
            self.refusal.push_str(&message.refusal);
            for piece in message.tool_calls {
                self.calls.add(piece);
            }
            // A reason for an early end is final: a later reason does not make the reply complete.
            if !choice.finish_reason.is_empty() && early_finish(&self.finish_reason).is_none() {
                self.finish_reason = choice.finish_reason;
            }
        }
    }

    fn push_text(&mut self, text: &str, deltas: Option<&DeltaSink>) {
        if let Some(deltas) = deltas {
            deltas.send(text);
        }
        self.content.push_str(text);
    }

    /// Adds a reply in one piece. Each of its calls is complete, so calls with equal indexes are not joined.
    pub(super) fn add_whole(&mut self, mut chunk: Chunk, deltas: Option<&DeltaSink>) {
        for choice in &mut chunk.choices {
            let calls = choice
                .message
                .iter_mut()
                .flat_map(|message| &mut message.tool_calls);
            for (index, call) in (0..).zip(calls) {
                call.index = Some(index);
            }
        }
        self.add(chunk, deltas);
    }

    /// Returns true if the server has sent a finish reason.
    pub(super) fn has_finish_reason(&self) -> bool {
        !self.finish_reason.is_empty()
    }

    /// Returns true if no output of the model has arrived.
    pub(super) fn is_empty(&self) -> bool {
        self.content.is_empty()
            && self.redactor.buffered_bytes() == 0
            && self.refusal.is_empty()
            && self.calls.is_empty()
            && self.finish_reason.is_empty()
    }

    /// Number of buffered bytes.
    pub(super) fn buffered_bytes(&self) -> usize {
        let text = self.content.len() + self.redactor.buffered_bytes() + self.refusal.len();
        text.saturating_add(self.calls.buffered_bytes())
    }

    /// Builds the reply.
    pub(super) fn finish(mut self, end: ReplyEnd, resolved: ResolvedRequest<'_>) -> ModelReply {
        let rest = self.redactor.finish();
        self.push_text(&rest, resolved.request.deltas.as_ref());
        let content = if self.content.is_empty() {
            self.secrets.redact(&self.refusal)
        } else {
            self.content
        };
        let reply_estimate = estimated_tokens(&content).saturating_add(self.calls.estimated_tokens());
        let usage = self.usage.counts().usage(resolved.request, reply_estimate);
        let finish = match end {
            ReplyEnd::Interrupted => FinishReason::Interrupted,
            ReplyEnd::Oversized => FinishReason::Oversized,
            ReplyEnd::Complete => finish_reason(&self.finish_reason, self.calls.is_empty()),
        };
        let model = match self.model.as_str() {
            "" => resolved.model.to_owned(),
            named => self.secrets.redact(named),
        };
        let (calls, malformed_calls) = self.calls.finish(&self.secrets);
        ModelReply {
            content,
            calls,
            malformed_calls,
            finish,
            usage,
            model: Some(model),
        }
    }
}

/// Interprets a server's finish reason. Several servers send `stop` along with calls, so calls take precedence over the reason. An unknown
/// or missing reason means that the reply is complete.
fn finish_reason(word: &str, no_calls: bool) -> FinishReason {
    match early_finish(word) {
        Some(reason) => reason,
        None if no_calls && !announces_calls(word) => FinishReason::Stop,
        None => FinishReason::ToolCalls,
    }
}

/// Returns the reason why the reply ended early; `None` if the finish reason `word` does not mean an early end.
fn early_finish(word: &str) -> Option<FinishReason> {
    match word.to_ascii_lowercase().as_str() {
        "length"
        | "max_tokens"
        | "max_output_tokens"
        | "max_length"
        | "model_length"
        | "model_context_window_exceeded" => Some(FinishReason::Length),
        "content_filter"
        | "content_filtered"
        | "safety"
        | "sensitive"
        | "refusal"
        | "recitation"
        | "blocklist"
        | "prohibited_content"
        | "spii"
        | "guardrail_intervened" => Some(FinishReason::Filtered),
        "error" | "abort" | "cancelled" | "network_error" | "insufficient_system_resource" => {
            Some(FinishReason::Interrupted)
        }
        _ => None,
    }
}

/// Returns true if the finish reason `word` means that the model wants to call tools.
fn announces_calls(word: &str) -> bool {
    let words = [
        "tool_calls",
        "tool_call",
        "tool_use",
        "function_call",
        "function_calls",
    ];
    words.iter().any(|known| word.eq_ignore_ascii_case(known))
}
