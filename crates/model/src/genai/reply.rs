//! Conversion of a stream's events to a [`ModelReply`].

use dirigent_core::call::read_arguments;
use dirigent_core::message::{FinishReason, MalformedCall, ModelReply, ToolCall};
use dirigent_core::token_ratio::estimated_tokens;
use genai::chat::{StopReason, StreamEnd};
use serde_json::Value;

use super::HostedApi;
use super::frame_sink::StreamMetadata;
use super::wire::original_tool_name;
use crate::ChatRequest;
use crate::deltas::DeltaSink;
use crate::secrets::{Redactor, Secrets};
use crate::usage::TokenCounts;

/// A reply in progress.
pub(super) struct Collector {
    api: HostedApi,
    secrets: Secrets,
    redactor: Redactor,
    content: String,
    calls: Vec<PartialCall>,
}

/// A call in progress.
struct PartialCall {
    id: String,
    name: String,
    /// JSON text of the arguments.
    arguments: String,
}

impl Collector {
    pub(super) fn new(api: HostedApi, secrets: &Secrets) -> Self {
        Collector {
            api,
            secrets: secrets.clone(),
            redactor: Redactor::new(secrets),
            content: String::new(),
            calls: Vec::new(),
        }
    }

    /// Adds a piece of the text, and sends its redacted text to `deltas`.
    pub(super) fn add_text(&mut self, text: &str, deltas: Option<&DeltaSink>) {
        let clean = self.redactor.push(text);
        self.push_text(&clean, deltas);
    }

    /// Ends the text, and sends its rest to `deltas`.
    pub(super) fn end_text(&mut self, deltas: Option<&DeltaSink>) {
        let clean = self.redactor.finish();
        self.push_text(&clean, deltas);
    }

    fn push_text(&mut self, clean: &str, deltas: Option<&DeltaSink>) {
        if let Some(deltas) = deltas {
            deltas.send(clean);
        }
        self.content.push_str(clean);
    }

    /// Adds a call, or replaces the last call if `call` is a later state of the last call. Gemini sends each call once; for Anthropic,
    /// `genai` repeats a call with all arguments received so far.
    pub(super) fn add_call(&mut self, call: genai::chat::ToolCall) {
        let arguments = match (self.api, call.fn_arguments) {
            (_, Value::Null) => String::new(),
            (HostedApi::Anthropic, Value::String(text)) => text,
            (HostedApi::Anthropic | HostedApi::Gemini, value) => value.to_string(),
        };
        let name = original_tool_name(self.api, &call.fn_name).to_owned();
        let update = PartialCall {
            id: call.call_id,
            name,
            arguments,
        };
        match (self.api, self.calls.last_mut()) {
            (HostedApi::Anthropic, Some(last))
                if last.id == update.id && update.arguments.len() >= last.arguments.len() =>
            {
                *last = update;
            }
            (HostedApi::Anthropic | HostedApi::Gemini, _) => self.calls.push(update),
        }
    }

    /// Returns true if no output of the model has arrived.
    pub(super) fn is_empty(&self) -> bool {
        self.content.is_empty() && self.calls.is_empty()
    }

    /// Number of buffered bytes.
    pub(super) fn buffered_bytes(&self) -> usize {
        let calls = self
            .calls
            .iter()
            .map(|call| call.id.len() + call.name.len() + call.arguments.len());
        self.content.len() + self.redactor.buffered_bytes() + calls.sum::<usize>()
    }

    /// Builds the reply to a request; `end` is `None` if the reply was cut off.
    pub(super) fn finish(
        self,
        end: Option<&StreamEnd>,
        metadata: StreamMetadata,
        request: &ChatRequest,
    ) -> ModelReply {
        let stop = end.and_then(|end| end.captured_stop_reason.as_ref());
        let counted = end.and_then(|end| end.captured_usage.as_ref());
        let call_tokens = self
            .calls
            .iter()
            .map(|call| estimated_tokens(&call.name) + estimated_tokens(&call.arguments));
        let reply_estimate = call_tokens.fold(estimated_tokens(&self.content), u64::saturating_add);
        let usage = counted
            .map(counts)
            .unwrap_or_default()
            .usage(request, reply_estimate);
        let (api, secrets) = (self.api, self.secrets);
        let (calls, mut malformed_calls) = self
            .calls
            .into_iter()
            .zip(request.messages.len()..)
            .map(|(call, number)| call.redact(&secrets).into_call(api, number))
            .fold((Vec::new(), Vec::new()), |(mut calls, mut malformed), read| {
                match read {
                    Ok(call) => calls.push(call),
                    Err(call) => malformed.push(call),
                }
                (calls, malformed)
            });
        malformed_calls
            .extend(stop.and_then(|stop| unparsed_call(stop, secrets.redact(&metadata.finish_message))));
        let finish = match stop {
            _ if metadata.garbled => FinishReason::Interrupted,
            stop => finish_reason(stop, calls.is_empty() && malformed_calls.is_empty()),
        };
        ModelReply {
            content: self.content,
            calls,
            malformed_calls,
            finish,
            usage,
            model: metadata.model.map(|model| secrets.redact(&model)),
        }
    }
}

impl PartialCall {
    fn redact(self, secrets: &Secrets) -> Self {
        PartialCall {
            id: secrets.redact(&self.id),
            name: secrets.redact(&self.name),
            arguments: secrets.redact(&self.arguments),
        }
    }

    fn into_call(self, api: HostedApi, number: usize) -> Result<ToolCall, MalformedCall> {
        let parameters = match read_arguments(&self.arguments) {
            _ if self.name.is_empty() => Err("it names no tool".to_owned()),
            read => read,
        };
        match parameters {
            Ok(parameters) => Ok(ToolCall {
                id: unique_call_id(api, self.id, number),
                tool: self.name,
                parameters,
                terminate: false,
            }),
            Err(problem) => Err(MalformedCall {
                name: self.name,
                arguments: self.arguments,
                problem,
            }),
        }
    }
}

/// Replaces the id that `genai` generates for a Gemini call without an id, because generated ids may repeat. `genai` recognizes both
/// kinds of ids and does not send them to Gemini. `number` is unique in the conversation: it counts from the number of messages, and the
/// result of each call adds a message.
fn unique_call_id(api: HostedApi, id: String, number: usize) -> String {
    match api {
        HostedApi::Gemini if id.starts_with("call#") => format!("call#gemini#{number}"),
        HostedApi::Anthropic | HostedApi::Gemini => id,
    }
}

/// Reads the provider's token counts. Tokens written to or read from a cache are part of the input tokens.
fn counts(counted: &genai::chat::Usage) -> TokenCounts {
    let tokens = |count: Option<i32>| count.and_then(|count| u64::try_from(count).ok());
    let sent = counted.prompt_tokens_details.as_ref();
    let received = counted.completion_tokens_details.as_ref();
    TokenCounts {
        input: tokens(counted.prompt_tokens),
        cached: sent.and_then(|sent| tokens(sent.cached_tokens)),
        output: tokens(counted.completion_tokens)
            // Gemini may report only thinking tokens.
            .or_else(|| tokens(received?.reasoning_tokens))
            // If only the prompt's count is present, the reply is empty.
            .or(counted.prompt_tokens.map(|_| 0)),
    }
}

/// Returns a malformed call that Gemini reports as the stop reason, because it could not parse the call itself.
fn unparsed_call(stop: &StopReason, message: String) -> Option<MalformedCall> {
    let word = stop.raw();
    matches!(word, "MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL").then(|| MalformedCall {
        name: String::new(),
        arguments: message,
        problem: format!("the provider could not parse it ({word})"),
    })
}

/// Interprets a provider's stop reason. Some providers send `stop` along with calls, so calls take precedence over the reason.
fn finish_reason(stop: Option<&StopReason>, no_calls: bool) -> FinishReason {
    match stop {
        Some(StopReason::MaxTokens(_)) => FinishReason::Length,
        Some(StopReason::Completed(_) | StopReason::StopSequence(_)) if no_calls => FinishReason::Stop,
        Some(StopReason::Completed(_) | StopReason::ToolCall(_) | StopReason::StopSequence(_)) => {
            FinishReason::ToolCalls
        }
        Some(StopReason::Other(word)) if word.ends_with("_CALL") && !no_calls => FinishReason::ToolCalls,
        Some(StopReason::ContentFilter(_)) => FinishReason::Filtered,
        Some(StopReason::Other(_)) | None => FinishReason::Interrupted,
    }
}
