//! `/v1/mcp/services`: the MCP services, with their states and messages (MCP-1).

use std::path::Path;

use axum::extract::State;
use axum::response::Response;
use dirigent::services::RegisteredService;
use dirigent::{DirigentError, render};
use serde_json::{Value, json};

use crate::entrance::json_response;
use crate::input::Segments;
use crate::private_files::{WorkspaceFolder, WorkspaceQuery};
use crate::problem::Problem;
use crate::schemas;
use crate::service::Service;

/// Lists the MCP services with their states, each with the number of its tools.
#[utoipa::path(get, path = "/v1/mcp/services", tag = "MCP services", params(WorkspaceQuery),
    responses((status = 200, description = "The services", body = schemas::McpServices)))]
pub(crate) async fn list(
    State(service): State<Service>,
    WorkspaceFolder(folder): WorkspaceFolder,
) -> Result<Response, Problem> {
    let listed = service.dirigent.services(Some(&folder)).await?;
    let mut object = render::services(&listed);
    object["services"] = listed.services.iter().map(summary).collect();
    Ok(json_response(&object))
}

/// A service in a list: only the number of its tools.
fn summary(service: &RegisteredService) -> Value {
    let mut object = render::service(service);
    object["tools"] = json!(service.tools.specs().count());
    object
}

async fn find(service: &Service, name: &str, folder: &Path) -> Result<RegisteredService, Problem> {
    let listed = service.dirigent.services(Some(folder)).await?;
    Ok(listed.find(name).map_err(DirigentError::from)?.clone())
}

/// Returns an MCP service with its settings, without secrets, and its tools.
#[utoipa::path(get, path = "/v1/mcp/services/{name}", tag = "MCP services", params(schemas::NamePath, WorkspaceQuery),
    responses((status = 200, description = "The service", body = schemas::McpService)))]
pub(crate) async fn show(
    State(service): State<Service>,
    Segments(name): Segments<String>,
    WorkspaceFolder(folder): WorkspaceFolder,
) -> Result<Response, Problem> {
    let found = find(&service, &name, &folder).await?;
    Ok(json_response(&render::service(&found)))
}

/// Returns the last lines that an MCP service wrote to its standard error, and the error of its last start.
#[utoipa::path(get, path = "/v1/mcp/services/{name}/logs", tag = "MCP services", params(schemas::NamePath, WorkspaceQuery),
    responses((status = 200, description = "The last messages", body = schemas::McpLogs)))]
pub(crate) async fn logs(
    State(service): State<Service>,
    Segments(name): Segments<String>,
    WorkspaceFolder(folder): WorkspaceFolder,
) -> Result<Response, Problem> {
    let found = find(&service, &name, &folder).await?;
    let start = found.last_start.as_ref();
    Ok(json_response(&json!({
        "name": found.name.as_str(),
        "state": found.state_name().replace(' ', "_"),
        "at": start.map(|start| start.at),
        "error": start.and_then(|start| start.error.clone()),
        "stderr": start.map(|start| start.stderr.clone()).unwrap_or_default(),
    })))
}

/// Starts an MCP service, even if the user has stopped it, and waits until it is ready.
#[utoipa::path(post, path = "/v1/mcp/services/{name}/start", tag = "MCP services", params(schemas::NamePath, WorkspaceQuery),
    responses((status = 200, description = "The running service", body = schemas::McpService)))]
pub(crate) async fn start(
    State(service): State<Service>,
    Segments(name): Segments<String>,
    WorkspaceFolder(folder): WorkspaceFolder,
) -> Result<Response, Problem> {
    let started = service.dirigent.start_service(&name, Some(&folder)).await?;
    Ok(json_response(&render::service(&started)))
}

/// Stops an MCP service. No run starts it again until it is started here or on the command line.
#[utoipa::path(post, path = "/v1/mcp/services/{name}/stop", tag = "MCP services", params(schemas::NamePath, WorkspaceQuery),
    responses((status = 200, description = "The stopped service", body = schemas::McpService)))]
pub(crate) async fn stop(
    State(service): State<Service>,
    Segments(name): Segments<String>,
    WorkspaceFolder(folder): WorkspaceFolder,
) -> Result<Response, Problem> {
    let stopped = service.dirigent.stop_service(&name, Some(&folder)).await?;
    Ok(json_response(&render::service(&stopped)))
}
