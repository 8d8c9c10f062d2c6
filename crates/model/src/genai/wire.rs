//! Conversion of a request to `genai`'s types. The table in [the module's documentation](super) shows how messages are written.

use std::borrow::Cow;
use std::sync::Arc;

use dirigent_core::message::Message;
use dirigent_core::tool::ToolSpec;
use genai::chat::{
    CacheControl, ChatMessage, ChatOptions, ChatRequest, ChatRole, ContentPart, JsonSpec, MessageContent,
    ReasoningEffort, Tool, ToolCall, ToolName, ToolResponse,
};

use super::frame_sink::RawFrameSink;
use super::{HostedApi, HostedOptions};
use crate::ReplyFormat;
use crate::completion::{Sampling, ToolChoice};
use crate::message_text::{EMPTY_MESSAGE, ToolResultText};
use crate::names::wire_name;

/// Role of a message in a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    System,
    User,
    Assistant,
}

/// Returns true if calls are native. Without tools in the request, earlier calls are written as text.
fn is_native(request: &crate::ChatRequest) -> bool {
    request.call_form.is_native() && !request.tools.is_empty()
}

/// Converts the conversation and the tools.
pub(super) fn chat_request(api: HostedApi, request: &crate::ChatRequest) -> ChatRequest {
    let native = is_native(request);
    let mut messages: Vec<ChatMessage> = request
        .messages
        .chunk_by(|a, b| role(a) == role(b))
        .map(|group| message(api, native, group))
        .collect();
    let mut tools: Vec<Tool> = match native {
        true => request.tools.iter().map(|spec| tool(api, spec)).collect(),
        false => Vec::new(),
    };
    match api {
        HostedApi::Anthropic => mark_for_caching(&mut messages, &mut tools),
        // Gemini caches without breakpoints.
        HostedApi::Gemini => {}
    }
    let chat = ChatRequest::new(messages);
    if tools.is_empty() {
        chat
    } else {
        chat.with_tools(tools)
    }
}

/// Converts the options.
pub(super) fn chat_options(
    options: &HostedOptions,
    request: &crate::ChatRequest,
    frame_sink: Arc<RawFrameSink>,
) -> ChatOptions {
    let mut chat = ChatOptions::default()
        .with_capture_usage(true)
        .with_raw_frame_sink_arc(frame_sink);
    chat.max_tokens = request
        .max_output_tokens
        .or(options.max_output_tokens)
        .map(|tokens| u32::try_from(tokens).unwrap_or(u32::MAX));
    let native = is_native(request);
    match (options.api, &request.format) {
        (HostedApi::Gemini, ReplyFormat::JsonSchema { name, schema }) if !native => {
            chat = chat.with_response_format(JsonSpec::new(name, schema.as_ref().clone()));
        }
        (HostedApi::Anthropic | HostedApi::Gemini, ReplyFormat::JsonSchema { .. } | ReplyFormat::Text) => {}
    }
    match options.api {
        // Thinking is turned off: Anthropic requires that thinking is sent back with the results of calls, but messages have no field for
        // it.
        HostedApi::Anthropic if native => chat.with_reasoning_effort(ReasoningEffort::Zero),
        HostedApi::Anthropic | HostedApi::Gemini => chat,
    }
}

/// Adds the sampling parameters of an OpenAI client.
pub(super) fn with_sampling(mut options: ChatOptions, api: HostedApi, sampling: &Sampling) -> ChatOptions {
    options.temperature = sampling.temperature;
    options.top_p = sampling.top_p;
    options.stop_sequences.clone_from(&sampling.stop);
    options.tool_choice = match &sampling.tool_choice {
        // The default.
        ToolChoice::Auto => None,
        ToolChoice::None => Some(genai::chat::ToolChoice::None),
        ToolChoice::Required => Some(genai::chat::ToolChoice::Required),
        ToolChoice::Tool(name) => Some(genai::chat::ToolChoice::tool(provider_tool_name(api, name))),
    };
    if let Some(effort) = &sampling.reasoning_effort {
        options.reasoning_effort = ReasoningEffort::from_keyword(effort);
    }
    options
}

fn role(message: &Message) -> Role {
    match message {
        Message::System { .. } => Role::System,
        Message::User { .. } | Message::Tool { .. } => Role::User,
        Message::Assistant { .. } => Role::Assistant,
    }
}

/// Joins consecutive messages of the same role.
fn message(api: HostedApi, native: bool, group: &[Message]) -> ChatMessage {
    match group.first().map(role) {
        None | Some(Role::User) => ChatMessage::user(user_content(api, native, group)),
        Some(Role::System) => ChatMessage::system(join_nonblank(group.iter().map(Message::content))),
        Some(Role::Assistant) => ChatMessage::assistant(assistant_content(api, native, group)),
    }
}

/// Joins user messages. Tool results come first, because they answer the calls of the message before.
fn user_content(api: HostedApi, native: bool, group: &[Message]) -> MessageContent {
    let mut parts = Vec::new();
    let mut texts = Vec::new();
    for message in group {
        match message {
            Message::Tool {
                call_id,
                name,
                content,
            } if native => {
                let result = ToolResponse::new(wire_call_id(api, call_id), content)
                    .with_fn_name(provider_tool_name(api, name));
                parts.push(ContentPart::ToolResponse(result));
            }
            Message::Tool { name, content, .. } => {
                let text = ToolResultText {
                    tool: name,
                    result: content,
                };
                texts.push(Cow::Owned(text.to_string()));
            }
            Message::System { content } | Message::User { content } | Message::Assistant { content, .. } => {
                texts.push(Cow::Borrowed(content.as_str()))
            }
        }
    }
    let text = join_nonblank(texts);
    if !text.is_empty() {
        parts.push(ContentPart::Text(text));
    } else if parts.is_empty() {
        parts.push(ContentPart::Text(EMPTY_MESSAGE.to_owned()));
    }
    MessageContent::from_parts(parts)
}

fn assistant_content(api: HostedApi, native: bool, group: &[Message]) -> MessageContent {
    let calls = group.iter().flat_map(|message| match message {
        Message::Assistant { calls, .. } if native => calls.as_slice(),
        Message::Assistant { .. } | Message::System { .. } | Message::User { .. } | Message::Tool { .. } => {
            &[]
        }
    });
    let calls: Vec<ContentPart> = calls
        .map(|call| {
            ContentPart::ToolCall(ToolCall {
                call_id: wire_call_id(api, &call.id),
                fn_name: provider_tool_name(api, &call.tool),
                fn_arguments: call.parameters.clone(),
                thought_signatures: None,
            })
        })
        .collect();
    let text = join_nonblank(group.iter().map(Message::content));
    let mut parts = match (text.is_empty(), calls.is_empty()) {
        (true, true) => vec![ContentPart::Text(EMPTY_MESSAGE.to_owned())],
        (true, false) => Vec::new(),
        (false, _) => vec![ContentPart::Text(text)],
    };
    parts.extend(calls);
    MessageContent::from_parts(parts)
}

/// Joins texts with an empty line between; blank texts are left out.
fn join_nonblank<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> String {
    let mut all = String::new();
    for text in texts {
        let text = text.as_ref();
        if !text.trim().is_empty() {
            if !all.is_empty() {
                all.push_str("\n\n");
            }
            all.push_str(text);
        }
    }
    all
}

/// Returns a call's id in a form that the provider accepts: Anthropic accepts only letters, digits, `_` and `-`.
fn wire_call_id(api: HostedApi, id: &str) -> String {
    match api {
        HostedApi::Anthropic => id
            .chars()
            .map(|c| {
                if c.is_ascii_alphanumeric() || c == '-' {
                    c
                } else {
                    '_'
                }
            })
            .collect(),
        HostedApi::Gemini => id.to_owned(),
    }
}

/// Returns true for names that `genai` reserves for the provider's own tools.
fn is_provider_tool(api: HostedApi, name: &str) -> bool {
    match api {
        HostedApi::Anthropic => name == "web_search",
        HostedApi::Gemini => matches!(
            name,
            "googleSearch" | "googleSearchRetrieval" | "codeExecution" | "urlContext"
        ),
    }
}

/// Returns a tool's name as it is sent to the provider.
fn provider_tool_name(api: HostedApi, name: &str) -> String {
    match is_provider_tool(api, name) {
        true => format!("_{name}"),
        false => wire_name(name).into_owned(),
    }
}

/// Reverts the prefix of [`provider_tool_name`].
pub(super) fn original_tool_name(api: HostedApi, name: &str) -> &str {
    match name.strip_prefix('_') {
        Some(own) if is_provider_tool(api, own) => own,
        Some(_) | None => name,
    }
}

fn tool(api: HostedApi, spec: &ToolSpec) -> Tool {
    Tool::new(ToolName::Custom(provider_tool_name(api, &spec.name)))
        .with_description(&spec.description)
        .with_schema(spec.parameters_for_model())
}

/// Sets three cache breakpoints, at the ends of parts that the next request is likely to repeat. Anthropic allows four.
fn mark_for_caching(messages: &mut [ChatMessage], tools: &mut [Tool]) {
    let is_system = |message: &&mut ChatMessage| message.role == ChatRole::System;
    if let Some(system) = messages.iter_mut().rfind(is_system) {
        system.options = Some(CacheControl::Ephemeral.into());
    } else if let Some(tool) = tools.last_mut() {
        tool.cache_control = Some(CacheControl::Ephemeral);
    }
    let conversation = messages
        .iter_mut()
        .filter(|message| message.role != ChatRole::System);
    for message in conversation.rev().take(2) {
        message.options = Some(CacheControl::Ephemeral.into());
    }
}
