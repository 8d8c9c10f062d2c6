//! What waits for the user: of one run, of a conversation, or of all runs.

use axum::extract::State;
use axum::response::Response;
use serde_json::{Value, json};

use crate::entrance::json_response;
use crate::input::Segments;
use crate::problem::Problem;
use crate::requests_of_user;
use crate::runs::run_json;
use crate::schemas;
use crate::service::Service;

/// Lists the runs that wait for you, each with its calls and questions.
#[utoipa::path(get, path = "/v1/approvals", tag = "Approvals", responses((status = 200, description = "The runs", body = schemas::WaitingRuns)))]
pub(crate) async fn list(State(service): State<Service>) -> Result<Response, Problem> {
    let waiting = service.dirigent.waiting_runs().await?;
    let runs: Vec<Value> = waiting
        .iter()
        .map(|run| {
            let mut object = run_json(&run.record);
            requests_of_user::add(&mut object, &run.calls, &run.questions);
            object
        })
        .collect();
    Ok(json_response(&json!({"runs": runs})))
}

/// Returns the calls and the questions with which a run waits for you.
#[utoipa::path(get, path = "/v1/runs/{run}/approvals", tag = "Approvals", params(schemas::RunPath), responses((status = 200, description = "The calls and questions", body = schemas::PendingRequests)))]
pub(crate) async fn of_run(
    State(service): State<Service>,
    Segments(text): Segments<String>,
) -> Result<Response, Problem> {
    let run = service.dirigent.find(&text).await?;
    let (view, _) = service.dirigent.read(run).await?;
    Ok(json_response(&requests_of_user::of_view(&view)))
}

/// Returns the calls and the questions with which the last turn waits for you.
#[utoipa::path(get, path = "/context/{conversation}/approvals", tag = "Conversations", params(schemas::ContextPath), responses((status = 200, description = "The calls and questions", body = schemas::PendingRequests)))]
pub(crate) async fn of_conversation(
    State(service): State<Service>,
    Segments(text): Segments<String>,
) -> Result<Response, Problem> {
    let conversation = service.dirigent.find_conversation(&text).await?;
    let Some(record) = conversation.last_run().await? else {
        return Ok(json_response(&json!({"approvals": [], "questions": []})));
    };
    let (view, _) = service.dirigent.read(record.run).await?;
    Ok(json_response(&requests_of_user::of_view(&view)))
}
