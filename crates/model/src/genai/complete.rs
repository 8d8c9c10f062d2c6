//! Completions for OpenAI clients, translated to the provider's API. The text is streamed as it comes, and each call as a whole.

use std::sync::Arc;

use futures::FutureExt as _;
use genai::chat::ReasoningEffort;
use tokio::sync::mpsc;

use super::HostedApi;
use super::client::Client;
use crate::completion::{
    Completion, CompletionError, CompletionRequest, ToolChoice, Translation, reply_completion, stream_reply,
    translate, unsupported,
};
use crate::{DeltaSink, ReplyFormat};

/// Sends a request, and returns the reply or its stream from the first text on.
pub(super) async fn complete(
    client: Arc<Client>,
    request: CompletionRequest,
) -> Result<Completion, CompletionError> {
    let Translation { chat, sampling } = translate(&request)?;
    let api = client.options.api;
    let offers_tools = !chat.tools.is_empty();
    let has_schema = matches!(chat.format, ReplyFormat::JsonSchema { .. });
    if has_schema && (api == HostedApi::Anthropic || offers_tools) {
        return Err(unsupported("response_format"));
    }
    if let Some(effort) = &sampling.reasoning_effort
        && (ReasoningEffort::from_keyword(effort).is_none() || (api == HostedApi::Anthropic && offers_tools))
    {
        return Err(unsupported("reasoning_effort"));
    }
    if sampling.tool_choice != ToolChoice::Auto && !offers_tools {
        return Err(CompletionError::invalid(
            "tool_choice",
            "`tool_choice` is invalid: the request has no tools",
        ));
    }
    if !request.is_streamed() {
        return reply_completion(client.exchange(&chat, &sampling).await?, &request);
    }
    let (sender, pieces) = mpsc::unbounded_channel();
    // The receiver is gone only if the reply is not wanted any more.
    let chat = chat.deltas(DeltaSink::new(move |text| drop(sender.send(text.to_owned()))));
    let reply = async move { Ok(client.exchange(&chat, &sampling).await?) };
    stream_reply(reply.boxed(), pieces, request).await
}
