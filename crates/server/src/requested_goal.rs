//! What a message or a goal requests: words, or a workflow such as `/create_project my-app`.

use std::path::Path;

use axum::http::StatusCode;
use dirigent::workflows::{InvokedWorkflow, RequestedGoal, UserRequest};
use dirigent::{DirigentError, Goal, WorkflowError, render};
use serde_json::{Map, Value, json};

use crate::problem::Problem;
use crate::service::Service;
use crate::workflows::untrusted_json;

/// Returns the goal that a user requests. If a workflow lacks values, the problem lists the parameters to ask for, as nobody can be asked within a
/// request.
pub(crate) async fn requested_goal(
    service: &Service,
    request: UserRequest<'_>,
    workspace: &Path,
) -> Result<Goal, Problem> {
    let dirigent = &service.dirigent;
    match dirigent.requested_goal(request, Some(workspace)).await? {
        RequestedGoal::Goal(goal) => Ok(*goal),
        RequestedGoal::Workflow(invoked) => goal(&invoked),
        RequestedGoal::Untrusted(file) => {
            let problem = Problem::from(DirigentError::from(WorkflowError::from(&file)));
            Err(problem.with("untrusted", untrusted_json(&file)))
        }
    }
}

fn goal(invoked: &InvokedWorkflow) -> Result<Goal, Problem> {
    match invoked.goal() {
        Ok(goal) => Ok(goal),
        Err(error @ WorkflowError::Missing { .. }) => Err(missing(invoked, &error)),
        Err(error) => Err(DirigentError::from(error).into()),
    }
}

/// The problem of a workflow that lacks values, with the form of the missing parameters and the values so far.
fn missing(invoked: &InvokedWorkflow, error: &WorkflowError) -> Problem {
    let missing: Vec<Value> = invoked.missing().map(render::workflow_parameter).collect();
    let given: Map<String, Value> = invoked
        .arguments
        .iter()
        .map(|(name, value)| (name.to_owned(), json!(value)))
        .collect();
    Problem::new(
        StatusCode::UNPROCESSABLE_ENTITY,
        "missing_parameters",
        error.to_string(),
    )
    .with("workflow", json!(invoked.workflow.name))
    .with("usage", json!(invoked.workflow.usage()))
    .with("missing", json!(missing))
    .with("parameters", Value::Object(given))
}
