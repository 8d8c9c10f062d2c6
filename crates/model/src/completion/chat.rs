//! Completions of any [`ChatModel`], such as the offline model or a program's own.

use std::sync::Arc;

use dirigent_core::call::CallForm;
use dirigent_core::message::{FinishReason, Message, ModelFailureKind, ModelReply, ToolCall};
use dirigent_core::tool::{Access, Repeat, ToolCategory, ToolSpec};
use futures::StreamExt as _;
use futures::future::{BoxFuture, FutureExt as _};

use super::{
    ChunkWriter, ClientMessage, ClientRequest, ClientTool, Completion, CompletionError, CompletionEvent,
    CompletionModel, CompletionOutcome, CompletionRequest, ContentPart, FinishedCall, Role, ToolChoice,
    unique_id, unsupported, whole_reply,
};
use crate::{ChatModel, ChatRequest, ReplyFormat};

/// A chat model that answers OpenAI clients. A stream has the whole text in one chunk, because the pieces that a chat model sends before
/// its reply is complete are only a preview.
///
/// Chat requests have no sampling parameters, so `temperature` and `top_p` are left out.
#[derive(Clone, Debug)]
pub struct ChatCompletions<M>(pub M);

impl<M: ChatModel> CompletionModel for ChatCompletions<M> {
    fn complete(
        &self,
        request: CompletionRequest,
    ) -> BoxFuture<'static, Result<Completion, CompletionError>> {
        let chat = match chat_request(&request) {
            Ok(chat) => chat,
            Err(error) => return std::future::ready(Err(error)).boxed(),
        };
        let reply = self.0.chat(chat);
        async move { completion(reply.await?, &request) }.boxed()
    }
}

/// Translates a client's request.
fn chat_request(request: &CompletionRequest) -> Result<ChatRequest, CompletionError> {
    let client = ClientRequest::read(request)?;
    if !client.stop.is_empty() {
        return Err(unsupported("stop"));
    }
    let tools = match client.tool_choice {
        ToolChoice::Auto => client.tools.into_iter().map(tool).collect(),
        ToolChoice::None => Vec::new(),
        ToolChoice::Required | ToolChoice::Tool(_) => return Err(unsupported("tool_choice")),
    };
    let messages = client.messages.into_iter().map(message);
    let mut chat = ChatRequest::new(Arc::new(messages.collect::<Result<_, _>>()?))
        .model(request.upstream_name().cloned())
        .call_form(CallForm::Native)
        .tools(Arc::new(tools));
    chat.max_output_tokens = client.max_output_tokens;
    if let Some(schema) = client.schema {
        chat.format = ReplyFormat::JsonSchema {
            name: schema.name,
            schema: Arc::new(schema.schema),
        };
    }
    Ok(chat)
}

fn tool(tool: ClientTool) -> ToolSpec {
    ToolSpec {
        name: tool.name,
        description: tool.description,
        category: ToolCategory::Other,
        parameters: tool.parameters,
        repeat: Repeat::Unsafe,
        access: Access::ReadWrite,
        changes_where: None,
        read_only: None,
        requires_approval: false,
        approval_where: None,
        rules: Vec::new(),
        example: serde_json::Value::Null,
    }
}

fn message(message: ClientMessage) -> Result<Message, CompletionError> {
    if message
        .parts
        .iter()
        .any(|part| matches!(part, ContentPart::Image { .. }))
    {
        return Err(unsupported("messages with images"));
    }
    let content = message.joined_text();
    Ok(match message.role {
        Role::System => Message::System { content },
        Role::User => Message::User { content },
        Role::Assistant => {
            let calls = message.calls.into_iter().map(|call| ToolCall {
                id: call.id,
                tool: call.name,
                parameters: call.arguments,
                terminate: false,
            });
            Message::Assistant {
                content,
                calls: calls.collect(),
            }
        }
        Role::Tool => {
            let (call_id, name) = message.answered.unwrap_or_default();
            Message::Tool {
                call_id,
                name,
                content,
            }
        }
    })
}

/// Translates the reply. Calls that could not be parsed are passed on as they are: the client decides about them.
fn completion(reply: ModelReply, request: &CompletionRequest) -> Result<Completion, CompletionError> {
    let reason = finish_word(reply.finish)?;
    let calls = reply.calls.into_iter().map(|call| FinishedCall {
        id: call.id,
        name: call.tool,
        arguments: call.parameters.to_string(),
    });
    let malformed = reply.malformed_calls.into_iter().map(|call| FinishedCall {
        id: String::new(),
        name: call.name,
        arguments: call.arguments,
    });
    let mut calls: Vec<FinishedCall> = calls.chain(malformed).collect();
    for call in calls.iter_mut().filter(|call| call.id.is_empty()) {
        call.id = unique_id("call_");
    }
    let usage = reply.usage;
    let model = reply.model.as_deref().unwrap_or(request.model());
    let outcome = CompletionOutcome {
        input_tokens: Some(usage.input_tokens),
        output_tokens: Some(usage.output_tokens),
        model: Some(model.to_owned()),
        finish_reason: Some(reason.to_owned()),
    };
    if !request.is_streamed() {
        let json = whole_reply(model, &reply.content, &calls, reason, &usage);
        return Ok(Completion::Whole { json, outcome });
    }
    let mut writer = ChunkWriter::new(model, request.includes_usage());
    let mut chunks = Vec::new();
    if !reply.content.is_empty() || calls.is_empty() {
        chunks.push(writer.text(&reply.content));
    }
    chunks.extend(calls.iter().map(|call| writer.call(call)));
    chunks.extend(writer.finish(reason, &usage));
    let events = chunks.into_iter().map(CompletionEvent::Chunk);
    let events = events.chain([CompletionEvent::Done(outcome)]).map(Ok);
    Ok(Completion::Stream(
        futures::stream::iter(events.collect::<Vec<_>>()).boxed(),
    ))
}

/// Returns OpenAI's word for a finish reason. An incomplete reply is an error.
fn finish_word(finish: FinishReason) -> Result<&'static str, CompletionError> {
    match finish {
        FinishReason::Stop => Ok("stop"),
        FinishReason::ToolCalls => Ok("tool_calls"),
        FinishReason::Length => Ok("length"),
        FinishReason::Filtered => Ok("content_filter"),
        FinishReason::Interrupted => Err(incomplete("its reply was cut off: send the request again")),
        FinishReason::Oversized => Err(incomplete(
            "its reply exceeds the maximum size: ask for a shorter one",
        )),
    }
}

fn incomplete(problem: &str) -> CompletionError {
    CompletionError {
        class: "server_error".to_owned(),
        kind: ModelFailureKind::Rejected,
        ..CompletionError::invalid(None, format!("the model's reply is incomplete: {problem}"))
    }
    .with(502, "upstream_interrupted")
}
