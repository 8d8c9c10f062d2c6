//! `/v1/mcp/services`: the MCP services, with their states and messages (MCP-1).

use axum::extract::State;
use axum::response::Response;
use dirigent::render;
use dirigent::services::RegisteredService;
use serde_json::{Value, json};

use crate::entrance::json_response;
use crate::input::{Parameters, Segments};
use crate::private_files::{WorkspaceQuery, workspace};
use crate::problem::Problem;
use crate::schemas;
use crate::service::Service;

/// Lists the MCP services with their states, each with the number of its tools.
#[utoipa::path(get, path = "/v1/mcp/services", tag = "MCP services", params(WorkspaceQuery),
    responses((status = 200, description = "The services", body = schemas::McpServices)))]
pub(crate) async fn list(
    State(service): State<Service>,
    Parameters(query): Parameters<WorkspaceQuery>,
) -> Result<Response, Problem> {
    let folder = workspace(&service, query.workspace).await?;
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

/// Returns an MCP service with its settings, without secrets, and its tools.
#[utoipa::path(get, path = "/v1/mcp/services/{name}", tag = "MCP services", params(schemas::NamePath, WorkspaceQuery),
    responses((status = 200, description = "The service", body = schemas::McpService)))]
pub(crate) async fn show(
    State(service): State<Service>,
    Segments(name): Segments<String>,
    Parameters(query): Parameters<WorkspaceQuery>,
) -> Result<Response, Problem> {
    let folder = workspace(&service, query.workspace).await?;
    let listed = service.dirigent.services(Some(&folder)).await?;
    let found = listed.find(&name).map_err(dirigent::DirigentError::from)?;
    Ok(json_response(&render::service(found)))
}

/// Returns the last lines that an MCP service wrote to its standard error, and the error of its last start.
#[utoipa::path(get, path = "/v1/mcp/services/{name}/logs", tag = "MCP services", params(schemas::NamePath, WorkspaceQuery),
    responses((status = 200, description = "The last messages", body = schemas::McpLogs)))]
pub(crate) async fn logs(
    State(service): State<Service>,
    Segments(name): Segments<String>,
    Parameters(query): Parameters<WorkspaceQuery>,
) -> Result<Response, Problem> {
    let folder = workspace(&service, query.workspace).await?;
    let listed = service.dirigent.services(Some(&folder)).await?;
    let found = listed.find(&name).map_err(dirigent::DirigentError::from)?;
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
    Parameters(query): Parameters<WorkspaceQuery>,
) -> Result<Response, Problem> {
    let folder = workspace(&service, query.workspace).await?;
    let started = service.dirigent.start_service(&name, Some(&folder)).await?;
    Ok(json_response(&render::service(&started)))
}

/// Stops an MCP service. No run starts it again until it is started here or on the command line.
#[utoipa::path(post, path = "/v1/mcp/services/{name}/stop", tag = "MCP services", params(schemas::NamePath, WorkspaceQuery),
    responses((status = 200, description = "The stopped service", body = schemas::McpService)))]
pub(crate) async fn stop(
    State(service): State<Service>,
    Segments(name): Segments<String>,
    Parameters(query): Parameters<WorkspaceQuery>,
) -> Result<Response, Problem> {
    let folder = workspace(&service, query.workspace).await?;
    let stopped = service.dirigent.stop_service(&name, Some(&folder)).await?;
    Ok(json_response(&render::service(&stopped)))
}
