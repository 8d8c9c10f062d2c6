//! `/v1/workflows`: lists workflows, and starts them as runs (FLOW-1, FLOW-3).

use std::path::PathBuf;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use dirigent::workflows::UntrustedWorkflow;
use dirigent::{DirigentError, WorkflowError, render};
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::{IntoParams, ToSchema};

use crate::entrance::json_response;
use crate::input::{Input, OptionalInput, Parameters, Segments};
use crate::private_files::{WorkspaceFolder, WorkspaceQuery, workspace};
use crate::problem::Problem;
use crate::run_input::NewWorkflowRun;
use crate::runs::created;
use crate::schemas;
use crate::service::Service;

/// The query of `GET /v1/workflows`.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListQuery {
    /// Only the workflows of this category.
    category: Option<String>,
    /// Absolute path of the folder; that of the server if absent.
    #[param(value_type = Option<String>)]
    workspace: Option<PathBuf>,
}

/// Lists the workflows, all or those of a category.
#[utoipa::path(get, path = "/v1/workflows", tag = "Workflows", params(ListQuery), responses((status = 200, description = "The workflows", body = schemas::Workflows)))]
pub(crate) async fn list(
    State(service): State<Service>,
    Parameters(query): Parameters<ListQuery>,
) -> Result<Response, Problem> {
    let folder = workspace(&service, query.workspace).await?;
    let workflows = service.dirigent.workflows(Some(&folder)).await?;
    let mut object = render::workflows(&workflows, query.category.as_deref());
    object["categories"] = workflows.categories().into_iter().collect();
    object["untrusted"] = workflows.untrusted.iter().map(untrusted_json).collect();
    Ok(json_response(&object))
}

/// Returns a workflow with its parameters.
#[utoipa::path(get, path = "/v1/workflows/{name}", tag = "Workflows", params(schemas::NamePath, WorkspaceQuery), responses((status = 200, description = "The workflow", body = schemas::Workflow)))]
pub(crate) async fn show(
    State(service): State<Service>,
    Segments(name): Segments<String>,
    WorkspaceFolder(folder): WorkspaceFolder,
) -> Result<Response, Problem> {
    let workflows = service.dirigent.workflows(Some(&folder)).await?;
    let workflow = workflows.find(&name).map_err(unknown)?;
    Ok(json_response(&render::workflow(workflow)))
}

/// A file that is not trusted, with the text to read before it is.
pub(crate) fn untrusted_json(file: &UntrustedWorkflow) -> Value {
    json!({"name": file.name, "file": file.path, "digest": file.digest, "text": file.text})
}

/// The body of `POST /v1/workflows/{name}/trust`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TrustInput {
    /// The digest of the text that was shown: a file that has changed since is not trusted.
    digest: String,
    /// Absolute path of the folder; that of the server if absent.
    #[schema(value_type = Option<String>)]
    workspace: Option<PathBuf>,
}

/// Trusts a workflow file of the project with the text that was shown. After a change, it must be trusted again.
#[utoipa::path(post, path = "/v1/workflows/{name}/trust", tag = "Workflows", params(schemas::NamePath), request_body = TrustInput,
    responses((status = 200, description = "The workflow", body = schemas::Workflow)))]
pub(crate) async fn trust(
    State(service): State<Service>,
    Segments(name): Segments<String>,
    Input(input): Input<TrustInput>,
) -> Result<Response, Problem> {
    let folder = workspace(&service, input.workspace).await?;
    let workflows = service.dirigent.workflows(Some(&folder)).await?;
    let Some(file) = workflows.untrusted.iter().find(|file| file.name == name) else {
        workflows.find(&name).map_err(unknown)?;
        let detail = format!("the workflow `/{name}` needs no trust: invoke it");
        return Err(Problem::new(StatusCode::CONFLICT, "workflow_trusted", detail));
    };
    if file.digest != input.digest {
        let detail = format!(
            "{} is not trusted, because it has another digest than the text that was shown: read its current text, and trust it with its digest",
            file.path.display()
        );
        return Err(Problem::new(StatusCode::CONFLICT, "workflow_changed", detail)
            .with("untrusted", untrusted_json(file)));
    }
    service.dirigent.trust_workflow(file).await?;
    let workflows = service.dirigent.workflows(Some(&folder)).await?;
    let workflow = workflows.find(&name).map_err(unknown)?;
    Ok(json_response(&render::workflow(workflow)))
}

/// The error about a workflow that the address names.
fn unknown(error: WorkflowError) -> Problem {
    Problem::from(DirigentError::from(error)).with_status_of_address("unknown_workflow")
}

/// Starts a workflow as a run.
#[utoipa::path(post, path = "/v1/workflows/{name}/runs", tag = "Workflows", params(schemas::NamePath), request_body = NewWorkflowRun, responses((status = 201, description = "The run, with its address in `Location`", body = schemas::StartedRun, headers(("Location" = String, description = "The address of what was created")))))]
pub(crate) async fn start(
    State(service): State<Service>,
    Segments(name): Segments<String>,
    OptionalInput(new): OptionalInput<NewWorkflowRun>,
) -> Result<Response, Problem> {
    let slot = service.runs.reserve()?;
    let goal = new.goal(&service, &name).await;
    let (goal, notes) = goal.map_err(|problem| problem.with_status_of_address("unknown_workflow"))?;
    let run = service.dirigent.start(goal).await?;
    slot.keep_for(&run);
    created(&service, &run, &notes).await
}
