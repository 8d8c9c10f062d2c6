//! The changes of a run to files: shows and undoes them.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use dirigent::{CommandDiff, RefusedPath, RunDiff, RunId, Undo, Undone};
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::{IntoParams, ToSchema};

use crate::entrance::json_response;
use crate::event_stream::accepts;
use crate::input::{OptionalInput, Parameters, Segments};
use crate::problem::Problem;
use crate::schemas;
use crate::service::Service;

/// The query of `GET /v1/runs/{run}/diff`.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct DiffQuery {
    /// The journal entry after which changes are shown.
    after: Option<u64>,
}

/// Returns a run's changes to files, as JSON or, with `Accept: text/x-diff`, in a form for `git apply`.
#[utoipa::path(get, path = "/v1/runs/{run}/diff", tag = "Runs", params(schemas::RunPath, DiffQuery), responses((status = 200, description = "The changes", body = schemas::Diff)))]
pub(crate) async fn diff(
    State(service): State<Service>,
    Segments(text): Segments<String>,
    Parameters(query): Parameters<DiffQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let run = service.dirigent.find(&text).await?;
    let diff = service.dirigent.diff(run, query.after).await?;
    if accepts(&headers, "text/x-diff") {
        return Ok(([(CONTENT_TYPE, "text/x-diff; charset=utf-8")], diff.bytes()).into_response());
    }
    Ok(json_response(&diff_json(run, &diff)))
}

fn diff_json(run: RunId, diff: &RunDiff) -> Value {
    let files = diff.files.iter().map(|file| {
        let diff = String::from_utf8_lossy(&file.diff);
        json!({"path": file.path, "diff": diff, "also_changed": file.also_changed})
    });
    json!({
        "run": run,
        "files": files.collect::<Vec<_>>(),
        "commands": diff.commands.iter().map(command_json).collect::<Vec<_>>(),
        "diff": String::from_utf8_lossy(&diff.bytes()),
        "unfinished": diff.unfinished,
    })
}

fn command_json(command: &CommandDiff) -> Value {
    let files = command.files.iter().map(|file| {
        let diff = file.diff.as_deref().map(String::from_utf8_lossy);
        json!({"path": file.path, "kind": file.kind, "diff": diff})
    });
    let mut object =
        json!({"call": command.call, "command": command.command, "files": files.collect::<Vec<_>>()});
    if !command.in_parallel.is_empty() {
        object["in_parallel"] = json!(command.in_parallel);
    }
    object
}

/// What an undo includes: the query of `GET /v1/runs/{run}/undo`, and the body of `POST /v1/runs/{run}/undo`.
#[derive(Debug, Default, Deserialize, IntoParams, ToSchema)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct UndoInput {
    /// The journal entry whose changes are kept, with those before it.
    after: Option<u64>,
    /// Whether to undo what changed while commands ran, too.
    #[serde(default)]
    include_commands: bool,
    /// Whether to leave out paths that cannot be undone.
    #[serde(default)]
    skip_refused: bool,
}

/// Returns what an undo would do.
#[utoipa::path(get, path = "/v1/runs/{run}/undo", tag = "Runs", params(schemas::RunPath, UndoInput), responses((status = 200, description = "The steps", body = schemas::Undo)))]
pub(crate) async fn preview_undo(
    State(service): State<Service>,
    Segments(text): Segments<String>,
    Parameters(input): Parameters<UndoInput>,
) -> Result<Response, Problem> {
    let (undo, refused) = plan_undo(&service, &text, &input).await?;
    Ok(json_response(&undo_json(&undo, &refused, None)))
}

/// Undoes a run's changes to files.
#[utoipa::path(post, path = "/v1/runs/{run}/undo", tag = "Runs", params(schemas::RunPath), request_body = UndoInput, responses((status = 200, description = "What was done", body = schemas::Undo)))]
pub(crate) async fn undo(
    State(service): State<Service>,
    Segments(text): Segments<String>,
    OptionalInput(input): OptionalInput<UndoInput>,
) -> Result<Response, Problem> {
    let (undo, refused) = plan_undo(&service, &text, &input).await?;
    let undone = undo.clone().apply().await?;
    Ok(json_response(&undo_json(&undo, &refused, Some(&undone))))
}

/// Plans an undo, and returns it with the paths that cannot be undone.
async fn plan_undo(
    service: &Service,
    text: &str,
    input: &UndoInput,
) -> Result<(Undo, Vec<RefusedPath>), Problem> {
    let run = service.dirigent.find(text).await?;
    let mut undo = service.dirigent.undo(run, input.after).await?;
    if input.include_commands {
        undo = undo.include_commands().await?;
    }
    let refused = undo.refused().to_vec();
    if input.skip_refused {
        undo = undo.skip_refused();
    }
    Ok((undo, refused))
}

fn undo_json(undo: &Undo, refused: &[RefusedPath], undone: Option<&Undone>) -> Value {
    let mut object = json!({
        "run": undo.run(),
        "after": undo.after(),
        "workspace": undo.workspace(),
        "steps": undo.steps(),
        "refused": refused,
        "other_changes": undo.other_changes(),
        "unfinished": undo.unfinished(),
    });
    if let Some(undone) = undone {
        object["done"] = json!(undone.done);
        object["failed"] = json!(undone.failed);
    }
    object
}
