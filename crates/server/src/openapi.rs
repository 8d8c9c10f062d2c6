//! The description of the API in OpenAPI 3.1, made from the handlers.

use std::sync::LazyLock;

use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use serde_json::{Value, json};
use utoipa::OpenApi as _;

use crate::router::api;
use crate::{described_routes, schemas};

/// Where the description begins: what holds for all addresses.
#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Dirigent",
        description = "Runs and conversations over HTTP. docs/service.md explains them."
    ),
    components(schemas(schemas::Problem, schemas::OpenAiError)),
    paths(
        described_routes::complete,
        described_routes::list_models,
        described_routes::show_model,
        described_routes::send_to_mcp,
        described_routes::stream_from_mcp,
        described_routes::end_mcp_session
    ),
    tags(
        (name = "Runs", description = "Goals that agents work on."),
        (name = "Approvals", description = "What runs ask you for."),
        (name = "Conversations", description = "Messages and answers; each message is a run."),
        (name = "System prompts", description = "With what the lead's system prompt begins."),
        (name = "Workflows", description = "Goals that you invoke by name."),
        (name = "Memory", description = "The facts that agents are told."),
        (name = "Agents", description = "The sub-agents of plans."),
        (name = "MCP services", description = "Programs that give agents tools."),
        (name = "OpenAI clients", description = "The API of OpenAI; errors have its form, too."),
        (name = "MCP", description = "Dirigent as a server of the Model Context Protocol."),
        (name = "Usage", description = "Requests, tokens and cost."),
        (name = "Service", description = "The server itself."),
    )
)]
struct Introduction;

pub(crate) fn introduction() -> utoipa::openapi::OpenApi {
    Introduction::openapi()
}

/// The tag of the addresses whose errors have OpenAI's form.
const OPENAI: &str = "OpenAI clients";
/// The tag of the address of another protocol, which has no keys of its own.
const MCP: &str = "MCP";

static DOCUMENT: LazyLock<Value> = LazyLock::new(|| {
    let (_, described) = api();
    let mut document = json!(described);
    let items = document["paths"].as_object_mut().into_iter();
    for (path, item) in items.flatten() {
        for (method, operation) in item.as_object_mut().into_iter().flatten() {
            operation["operationId"] = operation_id(method, path).into();
            complete(method, operation);
        }
    }
    document["components"]["securitySchemes"] = json!({"token": {"type": "http", "scheme": "bearer"}});
    document["security"] = json!([{"token": []}]);
    document["paths"]["/health"]["get"]["security"] = json!([]);
    document
});

/// The name of an operation for generated clients, unique in the document: `get_v1_runs_run_diff`.
fn operation_id(method: &str, path: &str) -> String {
    let words = path.split(|c: char| !c.is_ascii_alphanumeric());
    let words = words.filter(|word| !word.is_empty());
    std::iter::once(method).chain(words).collect::<Vec<_>>().join("_")
}

/// Adds what holds for all requests of a kind: the form of errors, and the key of requests that change something.
fn complete(method: &str, operation: &mut Value) {
    let tag = operation["tags"][0].as_str().unwrap_or_default().to_owned();
    let (kind, schema) = match tag == OPENAI {
        true => ("application/json", "OpenAiError"),
        false => ("application/problem+json", "Problem"),
    };
    let reference = format!("#/components/schemas/{schema}");
    operation["responses"]["default"] = json!({
        "description": "An error",
        "headers": {
            "Retry-After": {
                "description": "After how many seconds to try again, if that may help",
                "schema": {"type": "integer"},
            },
        },
        "content": {kind: {"schema": {"$ref": reference}}},
    });
    if method == "get" || tag == OPENAI || tag == MCP {
        return;
    }
    let key = json!({
        "name": "Idempotency-Key",
        "in": "header",
        "required": false,
        "description": "A key of this request, with which it can be sent again without a further effect.",
        "schema": {"type": "string"},
    });
    match operation["parameters"].as_array_mut() {
        Some(parameters) => parameters.push(key),
        None => operation["parameters"] = json!([key]),
    }
    let responses = operation["responses"].as_object_mut().into_iter().flatten();
    for (_, response) in responses.filter(|(status, _)| status.starts_with('2')) {
        response["headers"]["Idempotency-Replayed"] = json!({
            "description": "`true` if the answer is that of an earlier request with the same key",
            "schema": {"type": "string"},
        });
    }
}

/// The description of the API in OpenAPI 3.1.
pub fn openapi() -> &'static Value {
    &DOCUMENT
}

/// `GET /openapi.json`
pub(crate) async fn document() -> Response {
    ([(CONTENT_TYPE, "application/json")], openapi().to_string()).into_response()
}
