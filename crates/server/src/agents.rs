//! `/v1/agents`: the sub-agents that plans can use.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use dirigent::{Agents, render};
use serde_json::json;

use crate::entrance::json_response;
use crate::input::{Parameters, Segments};
use crate::private_files::{WorkspaceQuery, workspace};
use crate::problem::Problem;
use crate::schemas;
use crate::service::Service;

async fn read(service: &Service, query: WorkspaceQuery) -> Result<Agents, Problem> {
    let folder = workspace(service, query.workspace).await?;
    Ok(service.dirigent.agents(Some(&folder)).await?)
}

/// Lists the sub-agents that plans can use, with the limits of lead and reflector, and the agent files that are refused.
#[utoipa::path(get, path = "/v1/agents", tag = "Agents", params(WorkspaceQuery),
    responses((status = 200, description = "The agents", body = schemas::Agents)))]
pub(crate) async fn list(
    State(service): State<Service>,
    Parameters(query): Parameters<WorkspaceQuery>,
) -> Result<Response, Problem> {
    let agents = read(&service, query).await?;
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
    Parameters(query): Parameters<WorkspaceQuery>,
) -> Result<Response, Problem> {
    let agents = read(&service, query).await?;
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
