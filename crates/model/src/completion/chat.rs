//! Completions of any [`ChatModel`], such as the offline model or a program's own; and the translation of requests and replies, which
//! hosted models share.

use std::collections::VecDeque;
use std::sync::Arc;

use dirigent_core::call::CallForm;
use dirigent_core::message::{FinishReason, Message, ModelFailureKind, ModelReply, ToolCall};
use dirigent_core::tool::{Access, Repeat, ToolCategory, ToolSpec};
use futures::StreamExt as _;
use futures::future::{BoxFuture, FutureExt as _};
use tokio::sync::mpsc::UnboundedReceiver;

use super::{
    ChunkWriter, ClientMessage, ClientRequest, ClientTool, Completion, CompletionError, CompletionEvent,
    CompletionModel, CompletionOutcome, CompletionRequest, FinishedCall, Role, Sampling, ToolChoice,
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
        match translate(&request).and_then(without_sampling) {
            Ok(chat) => {
                let reply = self.0.chat(chat);
                async move { reply_completion(reply.await?, &request) }.boxed()
            }
            Err(error) => std::future::ready(Err(error)).boxed(),
        }
    }
}

/// A client's request as a chat request, and what a chat request has no field for.
pub(crate) struct Translation {
    pub(crate) chat: ChatRequest,
    pub(crate) sampling: Sampling,
}

/// Refuses what changes the reply and cannot be part of a chat request.
fn without_sampling(translation: Translation) -> Result<ChatRequest, CompletionError> {
    let Sampling {
        tool_choice,
        stop,
        temperature: _,
        top_p: _,
        reasoning_effort: _,
    } = translation.sampling;
    match tool_choice {
        ToolChoice::Required | ToolChoice::Tool(_) => Err(unsupported("tool_choice")),
        ToolChoice::Auto | ToolChoice::None if !stop.is_empty() => Err(unsupported("stop")),
        ToolChoice::Auto | ToolChoice::None => Ok(translation.chat),
    }
}

/// Translates a client's request.
pub(crate) fn translate(request: &CompletionRequest) -> Result<Translation, CompletionError> {
    let client = ClientRequest::read(request)?;
    let mut sampling = client.sampling;
    let tools = match sampling.tool_choice {
        ToolChoice::Auto | ToolChoice::Required | ToolChoice::Tool(_) => client.tools,
        ToolChoice::None => Vec::new(),
    };
    if sampling.tool_choice == ToolChoice::None {
        sampling.tool_choice = ToolChoice::Auto;
    }
    let messages = client.messages.into_iter().map(message).collect();
    let mut chat = ChatRequest::new(Arc::new(messages))
        .model(request.upstream_name().cloned())
        .call_form(CallForm::Native)
        .tools(Arc::new(tools.into_iter().map(tool).collect()));
    chat.max_output_tokens = client.max_output_tokens;
    if let Some(schema) = client.schema {
        chat.format = ReplyFormat::JsonSchema {
            name: schema.name,
            schema: Arc::new(schema.schema),
        };
    }
    Ok(Translation { chat, sampling })
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

fn message(message: ClientMessage) -> Message {
    let content = message.text;
    match message.role {
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
        Role::Tool { call_id, name } => Message::Tool {
            call_id,
            name,
            content,
        },
    }
}

/// Translates a reply. Calls that could not be parsed are passed on as they are: the client decides about them.
pub(crate) fn reply_completion(
    reply: ModelReply,
    request: &CompletionRequest,
) -> Result<Completion, CompletionError> {
    let model = reply.model.as_deref().unwrap_or(request.model());
    if request.is_streamed() {
        let mut writer = ChunkWriter::new(model, request.includes_usage());
        let mut chunks = Vec::new();
        if !reply.content.is_empty() || (reply.calls.is_empty() && reply.malformed_calls.is_empty()) {
            chunks.push(CompletionEvent::Chunk(writer.text(&reply.content)));
        }
        chunks.extend(last_events(reply, &mut writer)?);
        let events = futures::stream::iter(chunks.into_iter().map(Ok));
        return Ok(Completion::Stream(events.boxed()));
    }
    let reason = finish_word(reply.finish)?;
    let outcome = outcome(&reply, reason);
    let calls = calls(&reply);
    let json = whole_reply(model, &reply.content, &calls, reason, &reply.usage);
    Ok(Completion::Whole { json, outcome })
}

/// A reply in progress, and the pieces of its text, which come while the future is polled.
type PendingReply = BoxFuture<'static, Result<ModelReply, CompletionError>>;

/// Streams a reply from the first piece of its text on. Dropping the stream drops the reply.
pub(crate) async fn stream_reply(
    reply: PendingReply,
    pieces: UnboundedReceiver<String>,
    request: CompletionRequest,
) -> Result<Completion, CompletionError> {
    let model = request.upstream_name().map_or(request.model(), String::as_str);
    let mut state = ReplyStream {
        reply: Some(reply),
        pieces,
        writer: ChunkWriter::new(model, request.includes_usage()),
        events: VecDeque::new(),
    };
    match state.next().await {
        Some(Err(error)) => Err(error),
        first => {
            let rest = futures::stream::unfold(state, async |mut state| Some((state.next().await?, state)));
            Ok(Completion::Stream(
                futures::stream::iter(first).chain(rest).boxed(),
            ))
        }
    }
}

struct ReplyStream {
    /// `None` once it has ended.
    reply: Option<PendingReply>,
    pieces: UnboundedReceiver<String>,
    writer: ChunkWriter,
    events: VecDeque<Result<CompletionEvent, CompletionError>>,
}

impl ReplyStream {
    async fn next(&mut self) -> Option<Result<CompletionEvent, CompletionError>> {
        if let Some(event) = self.events.pop_front() {
            return Some(event);
        }
        let reply = self.reply.as_mut()?;
        tokio::select! {
            biased;
            Some(piece) = self.pieces.recv() => return Some(Ok(CompletionEvent::Chunk(self.writer.text(&piece)))),
            reply = reply => self.end(reply),
        }
        self.events.pop_front()
    }

    fn end(&mut self, reply: Result<ModelReply, CompletionError>) {
        self.reply = None;
        while let Ok(piece) = self.pieces.try_recv() {
            let chunk = self.writer.text(&piece);
            self.events.push_back(Ok(CompletionEvent::Chunk(chunk)));
        }
        match reply.and_then(|reply| last_events(reply, &mut self.writer)) {
            Ok(events) => self.events.extend(events.into_iter().map(Ok)),
            Err(error) => self.events.push_back(Err(error)),
        }
    }
}

/// Returns the events after a reply's text: its calls, its finish reason, and its usage.
fn last_events(reply: ModelReply, writer: &mut ChunkWriter) -> Result<Vec<CompletionEvent>, CompletionError> {
    let reason = finish_word(reply.finish)?;
    let mut chunks: Vec<String> = calls(&reply).iter().map(|call| writer.call(call)).collect();
    chunks.extend(writer.finish(reason, &reply.usage));
    let events = chunks.into_iter().map(CompletionEvent::Chunk);
    Ok(events
        .chain([CompletionEvent::Done(outcome(&reply, reason))])
        .collect())
}

fn outcome(reply: &ModelReply, reason: &str) -> CompletionOutcome {
    CompletionOutcome {
        input_tokens: Some(reply.usage.input_tokens),
        output_tokens: Some(reply.usage.output_tokens),
        model: reply.model.clone(),
        finish_reason: Some(reason.to_owned()),
    }
}

fn calls(reply: &ModelReply) -> Vec<FinishedCall> {
    let calls = reply.calls.iter().map(|call| FinishedCall {
        id: call.id.clone(),
        name: call.tool.clone(),
        arguments: call.parameters.to_string(),
    });
    let malformed = reply.malformed_calls.iter().map(|call| FinishedCall {
        id: String::new(),
        name: call.name.clone(),
        arguments: call.arguments.clone(),
    });
    let with_id = |call: FinishedCall| match call.id.as_str() {
        "" => FinishedCall {
            id: unique_id("call_"),
            ..call
        },
        _ => call,
    };
    calls.chain(malformed).map(with_id).collect()
}

/// Returns OpenAI's word for a finish reason. An incomplete reply is an error.
fn finish_word(finish: FinishReason) -> Result<&'static str, CompletionError> {
    match finish {
        FinishReason::Stop => Ok("stop"),
        FinishReason::ToolCalls => Ok("tool_calls"),
        FinishReason::Length => Ok("length"),
        FinishReason::Filtered => Ok("content_filter"),
        FinishReason::Interrupted => Err(incomplete("it was cut off: send the request again")),
        FinishReason::Oversized => Err(incomplete("it exceeds the maximum size: ask for a shorter one")),
    }
}

fn incomplete(problem: &str) -> CompletionError {
    CompletionError {
        class: "server_error".to_owned(),
        kind: ModelFailureKind::Rejected,
        ..CompletionError::invalid(None, format!("the model's reply is incomplete: {problem}"))
    }
    .with(502, "upstream_failed")
}
