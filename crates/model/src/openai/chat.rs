//! Chat requests: their bodies, and repeated requests without optional fields that the server refuses.

use std::collections::BTreeSet;

use dirigent_core::call::CallForm;
use dirigent_core::message::{Message, ModelFailure, ModelFailureKind, ModelReply};
use dirigent_core::tool::ToolSpec;

use super::client::{Client, ErrorResponse, OptionalField};
use super::conversation::{Conversation, Layout, ToolRoleSupport};
use super::options::Delivery;
use super::wire::{self, ResolvedRequest};
use crate::names::WireNames;
use crate::time::deadline_after;
use crate::{ChatRequest, ReplyFormat};

impl Client {
    /// Sends a request. If the server refuses an optional field, sends the request again without it. Refused fields are remembered, so
    /// that later requests leave them out from the start.
    pub(super) async fn chat(&self, request: &ChatRequest) -> Result<ModelReply, ModelFailure> {
        let model = request.model.as_deref().unwrap_or(&self.options.model);
        let resolved = ResolvedRequest { request, model };
        let until = deadline_after(self.options.timeouts.total);
        let wire_names = self.wire_names(request)?;
        let known = self.unsupported_by(model);
        let mut omitted = known.clone();
        loop {
            let body = self.body(resolved, &omitted)?;
            let error_response = match self.exchange(body, resolved, until).await? {
                Ok(mut reply) => {
                    if omitted != known {
                        self.remember_unsupported(model, omitted);
                    }
                    wire_names.restore(&mut reply);
                    return Ok(reply);
                }
                Err(error_response) => error_response,
            };
            match refused_field(request, &error_response) {
                Some(field) if omitted.insert(field) => {}
                Some(_) | None => return Err(error_response.failure),
            }
        }
    }

    fn wire_names(&self, request: &ChatRequest) -> Result<WireNames, ModelFailure> {
        WireNames::new(native_tools(request)).map_err(|(one, other)| {
            let message = format!(
                "the API can't tell the tools `{one}` and `{other}` apart by name: rename one of them"
            );
            self.failures.failure(ModelFailureKind::Rejected, &message)
        })
    }

    fn body(
        &self,
        resolved: ResolvedRequest<'_>,
        omitted: &BTreeSet<OptionalField>,
    ) -> Result<Vec<u8>, ModelFailure> {
        let ResolvedRequest { request, model } = resolved;
        let options = &self.options;
        let includes = |field| !omitted.contains(&field);
        let response_format = match &request.format {
            ReplyFormat::JsonSchema { name, schema } if includes(OptionalField::ResponseFormat) => {
                Some(wire::ResponseFormat { name, schema })
            }
            ReplyFormat::JsonSchema { .. } | ReplyFormat::Text => None,
        };
        let stream = options.delivery == Delivery::Streamed;
        let (max_tokens, max_completion_tokens) = if includes(OptionalField::MaxTokens) {
            (request.max_output_tokens, None)
        } else {
            (None, request.max_output_tokens)
        };
        let tool_role = if includes(OptionalField::ToolRole) {
            ToolRoleSupport::Supported
        } else {
            ToolRoleSupport::Unsupported
        };
        let body = wire::RequestBody {
            model,
            messages: Conversation {
                messages: &request.messages,
                layout: Layout::new(request.call_form, tool_role),
            },
            tools: wire::NativeTools(native_tools(request)),
            response_format,
            max_tokens,
            max_completion_tokens,
            stream,
            stream_options: (stream && includes(OptionalField::StreamOptions))
                .then_some(wire::StreamOptions { include_usage: true }),
            extra: &options.extra,
        };
        serde_json::to_vec(&body).map_err(|error| {
            let message = format!("the request can't be serialized: {error}");
            self.failures.failure(ModelFailureKind::Rejected, &message)
        })
    }
}

/// Returns the tools to offer natively.
fn native_tools(request: &ChatRequest) -> &[ToolSpec] {
    if request.call_form.is_native() {
        &request.tools
    } else {
        &[]
    }
}

/// Returns the optional field that the server refused, guessed from the text of its error.
fn refused_field(request: &ChatRequest, error_response: &ErrorResponse) -> Option<OptionalField> {
    if !matches!(error_response.status, 400 | 422) {
        return None;
    }
    let body = error_response.body.to_lowercase();
    let mentions = |words: &[&str]| words.iter().any(|word| body.contains(word));
    let has_schema = matches!(request.format, ReplyFormat::JsonSchema { .. });
    let has_results = || {
        let is_result = |message: &Message| matches!(message, Message::Tool { .. });
        request.messages.iter().any(is_result)
    };
    if has_schema && mentions(&["response_format", "json_schema", "json schema", "grammar"]) {
        Some(OptionalField::ResponseFormat)
    } else if mentions(&["stream_options"]) {
        Some(OptionalField::StreamOptions)
    } else if request.max_output_tokens.is_some() && mentions(&["max_completion_tokens"]) {
        Some(OptionalField::MaxTokens)
    } else if request.call_form == CallForm::ToolCall && mentions(&["tool_call_id", "role"]) && has_results()
    {
        Some(OptionalField::ToolRole)
    } else {
        None
    }
}
