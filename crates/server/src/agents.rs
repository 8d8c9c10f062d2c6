//! `/v1/agents`: the sub-agents that plans can use.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use dirigent::render;
use serde_json::json;

use crate::entrance::json_response;
use crate::input::Segments;
use crate::private_files::{WorkspaceFolder, WorkspaceQuery};
use crate::problem::Problem;
use crate::schemas;
use crate::service::Service;

/// Lists the sub-agents that plans can use, with the limits of lead and reflector, and the agent files that are refused.
#[utoipa::path(get, path = "/v1/agents", tag = "Agents", params(WorkspaceQuery),
    responses((status = 200, description = "The agents", body = schemas::Agents)))]
pub(crate) async fn list(
    State(service): State<Service>,
    WorkspaceFolder(folder): WorkspaceFolder,
) -> Result<Response, Problem> {
    let agents = service.dirigent.agents(Some(&folder)).await?;
    let mut object = render::agents(&agents);
    object["lead"] = json!(agents.lead);
    object["reflector"] = json!(agents.reflector);
    Ok(json_response(&object))
}

/// Returns a sub-agent.
#[utoipa::path(get, path = "/v1/agents/{name}", tag = "Agents", params(schemas::NamePath, WorkspaceQuery),
    responses((status = 200, description = "The agent", body = schemas::Agent)))]
pub(crate) async fn show(
    State(service): State<Service>,
    Segments(name): Segments<String>,
    WorkspaceFolder(folder): WorkspaceFolder,
) -> Result<Response, Problem> {
    let agents = service.dirigent.agents(Some(&folder)).await?;
    let agent = agents.agents.iter().find(|agent| agent.name == name);
    let agent = agent.ok_or_else(|| {
        Problem::new(
            StatusCode::NOT_FOUND,
            "unknown_agent",
            format!("there is no agent `{name}`: list the agents to see their names"),
        )
    })?;
    Ok(json_response(&render::agent(agent)))
}
