//! From what comes of a stream to a [`ModelReply`].

use dirigent_core::call::read_arguments;
use dirigent_core::message::{FinishReason, MalformedCall, ModelReply, ToolCall};
use dirigent_core::token_ratio::estimated_tokens;
use genai::chat::{StopReason, StreamEnd};
use serde_json::Value;

use super::HostedApi;
use super::frame_sink::StreamMetadata;
use super::wire::original_tool_name;
use crate::ChatRequest;
use crate::request::DeltaSink;
use crate::secrets::{Redactor, Secrets};
use crate::usage::TokenCounts;

/// A reply that is under way.
pub(super) struct Collector {
    api: HostedApi,
    secrets: Secrets,
    redactor: Redactor,
    content: String,
    calls: Vec<PartialCall>,
}

/// A call as far as it has come.
struct PartialCall {
    id: String,
    name: String,
    /// The text of its arguments.
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

    /// Takes a piece of the text; what of it is certain to hold no secret is told.
    pub(super) fn add_text(&mut self, text: &str, deltas: Option<&DeltaSink>) {
        let clean = self.redactor.push(text);
        self.push_text(&clean, deltas);
    }

    /// No more of the text comes.
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

    /// Takes a call, or what there is of it now. Gemini's come whole; of Anthropic's, the text of the arguments comes each time
    /// with what was added to it.
    pub(super) fn add_call(&mut self, call: genai::chat::ToolCall) {
        let arguments = match (self.api, call.fn_arguments) {
            (_, Value::Null) => String::new(),
            (HostedApi::Anthropic, Value::String(text)) => text,
            (HostedApi::Anthropic | HostedApi::Gemini, value) => value.to_string(),
        };
        let name = original_tool_name(self.api, &call.fn_name).to_owned();
        let came = PartialCall {
            id: call.call_id,
            name,
            arguments,
        };
        match (self.api, self.calls.last_mut()) {
            (HostedApi::Anthropic, Some(last))
                if last.id == came.id && came.arguments.len() >= last.arguments.len() =>
            {
                *last = came;
            }
            (HostedApi::Anthropic | HostedApi::Gemini, _) => self.calls.push(came),
        }
    }

    /// Whether nothing has come that a model said.
    pub(super) fn is_empty(&self) -> bool {
        self.content.is_empty() && self.calls.is_empty()
    }

    /// The bytes that are held.
    pub(super) fn buffered_bytes(&self) -> usize {
        let calls = self
            .calls
            .iter()
            .map(|call| call.id.len() + call.name.len() + call.arguments.len());
        self.content.len() + self.redactor.buffered_bytes() + calls.sum::<usize>()
    }

    /// The reply to that request; `end` is none where it was cut.
    pub(super) fn finish(
        self,
        end: Option<&StreamEnd>,
        metadata: StreamMetadata,
        request: &ChatRequest,
    ) -> ModelReply {
        let stop = end.and_then(|end| end.captured_stop_reason.as_ref());
        let counted = end.and_then(|end| end.captured_usage.as_ref());
        let called = self
            .calls
            .iter()
            .map(|call| estimated_tokens(&call.name) + estimated_tokens(&call.arguments));
        let said = called.fold(estimated_tokens(&self.content), u64::saturating_add);
        let usage = counted.map(counts).unwrap_or_default().usage(request, said);
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

/// Where Gemini gives a call no id, `genai` makes one that another call may have too, and keeps it from Gemini when it comes back.
/// It does the same with this one, whose number no other call of the conversation has, as each call adds a message, its result.
fn unique_call_id(api: HostedApi, id: String, number: usize) -> String {
    match api {
        HostedApi::Gemini if id.starts_with("call#") => format!("call#gemini#{number}"),
        HostedApi::Anthropic | HostedApi::Gemini => id,
    }
}

/// The tokens that the provider counted. Those that were written to a cache or read from one are among the tokens sent.
fn counts(counted: &genai::chat::Usage) -> TokenCounts {
    let tokens = |count: Option<i32>| count.and_then(|count| u64::try_from(count).ok());
    let sent = counted.prompt_tokens_details.as_ref();
    let received = counted.completion_tokens_details.as_ref();
    TokenCounts {
        input: tokens(counted.prompt_tokens),
        cached: sent.and_then(|sent| tokens(sent.cached_tokens)),
        output: tokens(counted.completion_tokens)
            // Gemini may have thought and said nothing.
            .or_else(|| tokens(received?.reasoning_tokens))
            // An empty reply is not always counted.
            .or(counted.prompt_tokens.map(|_| 0)),
    }
}

/// Gemini gives a call that it could not read itself as a reason to stop.
fn unparsed_call(stop: &StopReason, message: String) -> Option<MalformedCall> {
    let word = stop.raw();
    matches!(word, "MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL").then(|| MalformedCall {
        name: String::new(),
        arguments: message,
        problem: format!("the provider could not read it ({word})"),
    })
}

/// Why a reply ended. Some say `stop` with calls present: calls decide, then the provider's word.
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
