//! The description of the API in OpenAPI 3.1, made from the handlers.

use std::sync::LazyLock;

use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use serde_json::{Value, json};
use utoipa::OpenApi as _;

use crate::router::api;
use crate::schemas;

/// Where the description begins: what holds for all addresses.
#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Dirigent",
        description = "Runs and conversations over HTTP. docs/service.md explains them."
    ),
    components(schemas(schemas::Problem)),
    tags(
        (name = "Runs", description = "Goals that agents work on."),
        (name = "Approvals", description = "What runs ask you for."),
        (name = "Conversations", description = "Messages and answers; each message is a run."),
        (name = "System prompts", description = "With what the lead's system prompt begins."),
        (name = "Workflows", description = "Goals that you invoke by name."),
        (name = "Memory", description = "The facts that agents are told."),
        (name = "Agents", description = "The sub-agents of plans."),
        (name = "MCP services", description = "Programs that give agents tools."),
        (name = "Usage", description = "Requests, tokens and cost."),
        (name = "Service", description = "The server itself."),
    )
)]
struct Introduction;

pub(crate) fn introduction() -> utoipa::openapi::OpenApi {
    Introduction::openapi()
}

static DOCUMENT: LazyLock<Value> = LazyLock::new(|| {
    let (_, described) = api();
    let mut document = json!(described);
    let problem = json!({
        "description": "An error",
        "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
    });
    let paths = document["paths"].as_object_mut();
    for item in paths.into_iter().flat_map(|paths| paths.values_mut()) {
        for operation in item
            .as_object_mut()
            .into_iter()
            .flat_map(|item| item.values_mut())
        {
            operation["responses"]["default"] = problem.clone();
        }
    }
    document["components"]["securitySchemes"] = json!({"token": {"type": "http", "scheme": "bearer"}});
    document["security"] = json!([{"token": []}]);
    document["paths"]["/health"]["get"]["security"] = json!([]);
    document
});

/// The description of the API in OpenAPI 3.1.
pub fn openapi() -> &'static Value {
    &DOCUMENT
}

/// `GET /openapi.json`
pub(crate) async fn document() -> Response {
    ([(CONTENT_TYPE, "application/json")], openapi().to_string()).into_response()
}
