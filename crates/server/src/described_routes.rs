//! The description of the addresses whose handlers are not part of [`crate::router::api`]: those of other protocols.
#![expect(dead_code, reason = "describes addresses")]

use crate::schemas;

/// Forwards a chat completion of OpenAI's API to a model. Fields that are not listed go to the model unchanged.
#[utoipa::path(post, path = "/v1/chat/completions", tag = "OpenAI clients", params(schemas::SystemPromptHeader),
    request_body = schemas::ChatCompletion,
    responses((status = 200, description = "The completion or, with `stream`, its chunks as events", body = schemas::AnyJson)))]
pub(crate) fn complete() {}

/// Lists the models that clients can name.
#[utoipa::path(get, path = "/v1/models", tag = "OpenAI clients",
    responses((status = 200, description = "The models", body = schemas::OfferedModels)))]
pub(crate) fn list_models() {}

/// Returns a model. Its name may contain slashes.
#[utoipa::path(get, path = "/v1/models/{model}", tag = "OpenAI clients", params(schemas::ModelPath),
    responses((status = 200, description = "The model", body = schemas::OfferedModel)))]
pub(crate) fn show_model() {}

/// Sends a message of the Model Context Protocol (Streamable HTTP); docs/mcp-server.md describes the tools.
#[utoipa::path(post, path = "/mcp", tag = "MCP", params(schemas::McpSessionHeader), request_body = schemas::AnyJson,
    responses(
        (status = 200, description = "The response, as JSON or as events", body = schemas::AnyJson,
            headers(("Mcp-Session-Id" = String, description = "The id of a new session"))),
        (status = 202, description = "A notification or a response was accepted")))]
pub(crate) fn send_to_mcp() {}

/// Streams the messages of the server to a session of the Model Context Protocol.
#[utoipa::path(get, path = "/mcp", tag = "MCP", params(schemas::McpSessionHeader),
    responses((status = 200, description = "The messages, as they occur", body = String, content_type = "text/event-stream")))]
pub(crate) fn stream_from_mcp() {}

/// Ends a session of the Model Context Protocol.
#[utoipa::path(delete, path = "/mcp", tag = "MCP", params(schemas::McpSessionHeader),
    responses((status = 202, description = "The session has ended")))]
pub(crate) fn end_mcp_session() {}
