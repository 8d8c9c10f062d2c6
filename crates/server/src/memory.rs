//! `/v1/memory`: the facts that agents are told (INTENT-1).

use std::path::PathBuf;

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::response::{IntoResponse as _, Response};
use dirigent::memory::{Added, FactId, FactScope, Visible};
use serde::Deserialize;
use serde_json::json;
use utoipa::{IntoParams, ToSchema};

use crate::entrance::json_response;
use crate::input::{Input, Parameters, Segments};
use crate::problem::Problem;
use crate::schemas;
use crate::service::Service;

/// The query of `GET /v1/memory`.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListQuery {
    /// Words to search for, the best matches first; all facts if absent, the newest first.
    q: Option<String>,
    /// Absolute path of a folder: only the facts about the user and about this folder. All facts if absent.
    #[param(value_type = Option<String>)]
    workspace: Option<PathBuf>,
}

/// Lists or searches facts.
#[utoipa::path(get, path = "/v1/memory", tag = "Memory", params(ListQuery),
    responses((status = 200, description = "The facts", body = schemas::Facts)))]
pub(crate) async fn list(
    State(service): State<Service>,
    Parameters(query): Parameters<ListQuery>,
) -> Result<Response, Problem> {
    let visible = query.workspace.map_or(Visible::All, Visible::Workspace);
    let text = query.q.unwrap_or_default();
    let facts = service.dirigent.memory().search(visible, &text).await?;
    Ok(json_response(&json!({"facts": facts})))
}

/// The body of `POST /v1/memory`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewFact {
    /// The fact. Facts are sent to models, so one that seems to contain a secret is refused.
    text: String,
    /// Absolute path of the folder that the fact is about; the user if absent.
    #[schema(value_type = Option<String>)]
    workspace: Option<PathBuf>,
}

/// Adds a fact.
#[utoipa::path(post, path = "/v1/memory", tag = "Memory", request_body = NewFact,
    responses(
        (status = 201, description = "The fact was added", body = schemas::Fact, headers(("Location" = String, description = "The address of what was created"))),
        (status = 200, description = "An equal fact was there", body = schemas::Fact)))]
pub(crate) async fn add(
    State(service): State<Service>,
    Input(new): Input<NewFact>,
) -> Result<Response, Problem> {
    let scope = new.workspace.map_or(FactScope::User, FactScope::Workspace);
    let added = service.dirigent.memory().add(scope, &new.text).await?;
    let status = match &added {
        Added::Kept(_) => StatusCode::CREATED,
        Added::Known(_) => StatusCode::OK,
    };
    let location = [(LOCATION, format!("/v1/memory/{}", added.fact().id.0))];
    Ok((status, location, json_response(added.fact())).into_response())
}

/// Returns a fact.
#[utoipa::path(get, path = "/v1/memory/{fact}", tag = "Memory", params(schemas::FactPath),
    responses((status = 200, description = "The fact", body = schemas::Fact)))]
pub(crate) async fn show(
    State(service): State<Service>,
    Segments(id): Segments<u64>,
) -> Result<Response, Problem> {
    Ok(json_response(&service.dirigent.memory().show(FactId(id)).await?))
}

/// Deletes a fact, and returns it.
#[utoipa::path(delete, path = "/v1/memory/{fact}", tag = "Memory", params(schemas::FactPath),
    responses((status = 200, description = "The deleted fact", body = schemas::Fact)))]
pub(crate) async fn delete(
    State(service): State<Service>,
    Segments(id): Segments<u64>,
) -> Result<Response, Problem> {
    Ok(json_response(
        &service.dirigent.memory().delete(FactId(id)).await?,
    ))
}
