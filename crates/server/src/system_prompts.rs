//! `/v1/system-prompts`: base system prompts, and what Dirigent makes of them (PROMPT-1, PROMPT-2).

use std::path::PathBuf;

use axum::extract::State;
use axum::http::header::{ETAG, IF_MATCH, LOCATION};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use dirigent::system_prompts::{SystemPrompt, SystemPromptError};
use dirigent::{DirigentError, Mode};
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::{IntoParams, ToSchema};

use crate::entrance::json_response;
use crate::input::{Input, Parameters, Segments};
use crate::private_files::workspace;
use crate::problem::Problem;
use crate::schemas;
use crate::service::Service;

/// The body of `POST /v1/system-prompts`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewPrompt {
    /// The name.
    name: String,
    /// The text.
    text: String,
}

/// The body of `PUT /v1/system-prompts/{name}`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewText {
    /// The text of the new version.
    text: String,
}

/// Creates a base system prompt.
#[utoipa::path(post, path = "/v1/system-prompts", tag = "System prompts", request_body = NewPrompt, responses((status = 201, description = "The first version", body = schemas::SystemPrompt, headers(("ETag" = String, description = "The number of the version"), ("Location" = String, description = "The address of what was created")))))]
pub(crate) async fn create(
    State(service): State<Service>,
    Input(new): Input<NewPrompt>,
) -> Result<Response, Problem> {
    let prompts = service.dirigent.system_prompts();
    let prompt = prompts.create(&new.name, &new.text).await.map_err(problem)?;
    let location = [(LOCATION, format!("/v1/system-prompts/{}", prompt.name))];
    Ok((StatusCode::CREATED, location, with_tag(&prompt)).into_response())
}

/// Lists the base system prompts.
#[utoipa::path(get, path = "/v1/system-prompts", tag = "System prompts", responses((status = 200, description = "The latest versions", body = schemas::SystemPrompts)))]
pub(crate) async fn list(State(service): State<Service>) -> Result<Response, Problem> {
    let prompts = service.dirigent.system_prompts().list().await?;
    let listed: Vec<Value> = prompts.iter().map(prompt_json).collect();
    Ok(json_response(&json!({"system_prompts": listed})))
}

/// The query of `GET /v1/system-prompts/{name}`.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ShowQuery {
    /// The number of the version; the latest if absent.
    version: Option<u32>,
}

/// Returns a base system prompt; its version is also the `ETag`.
#[utoipa::path(get, path = "/v1/system-prompts/{name}", tag = "System prompts", params(schemas::NamePath, ShowQuery), responses((status = 200, description = "The version", body = schemas::SystemPrompt, headers(("ETag" = String, description = "The number of the version")))))]
pub(crate) async fn show(
    State(service): State<Service>,
    Segments(name): Segments<String>,
    Parameters(query): Parameters<ShowQuery>,
) -> Result<Response, Problem> {
    let prompts = service.dirigent.system_prompts();
    let prompt = prompts.get(&name, query.version).await.map_err(problem)?;
    Ok(with_tag(&prompt))
}

/// Adds a version, made from the one that `If-Match` names.
#[utoipa::path(put, path = "/v1/system-prompts/{name}", tag = "System prompts", params(schemas::NamePath, schemas::VersionHeader), request_body = NewText, responses((status = 200, description = "The new version", body = schemas::SystemPrompt, headers(("ETag" = String, description = "The number of the version")))))]
pub(crate) async fn update(
    State(service): State<Service>,
    Segments(name): Segments<String>,
    headers: HeaderMap,
    Input(new): Input<NewText>,
) -> Result<Response, Problem> {
    let version = matched_version(&headers)?;
    let prompts = service.dirigent.system_prompts();
    let prompt = prompts.update(&name, version, &new.text).await.map_err(problem)?;
    Ok(with_tag(&prompt))
}

/// Deletes all versions of a base system prompt.
#[utoipa::path(delete, path = "/v1/system-prompts/{name}", tag = "System prompts", params(schemas::NamePath), responses((status = 200, description = "How many conversations use it", body = schemas::DeletedPrompt)))]
pub(crate) async fn delete(
    State(service): State<Service>,
    Segments(name): Segments<String>,
) -> Result<Response, Problem> {
    let deleted = service.dirigent.system_prompts().delete(&name).await;
    let conversations = deleted.map_err(problem)?;
    Ok(json_response(&json!({"conversations": conversations})))
}

/// The query of `GET /v1/system-prompts/{name}/enhanced`.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct EnhancedQuery {
    /// Absolute path of the folder; that of the server if absent.
    #[param(value_type = Option<String>)]
    workspace: Option<PathBuf>,
    /// The mode of the run.
    #[serde(default)]
    #[param(value_type = Option<schemas::Mode>, inline)]
    mode: Mode,
}

/// Returns the system prompt and the native tools that the lead's model gets with a base prompt.
#[utoipa::path(get, path = "/v1/system-prompts/{name}/enhanced", tag = "System prompts", params(schemas::NamePath, EnhancedQuery), responses((status = 200, description = "The prompt", body = schemas::EnhancedPrompt)))]
pub(crate) async fn enhanced(
    State(service): State<Service>,
    Segments(name): Segments<String>,
    Parameters(query): Parameters<EnhancedQuery>,
) -> Result<Response, Problem> {
    let folder = workspace(&service, query.workspace).await?;
    let prompts = service
        .dirigent
        .prompts(Some(&folder), query.mode, Some(&name))
        .await;
    let prompts = prompts.map_err(problem)?;
    let lead = prompts.into_iter().find(|prompt| prompt.agent == "lead");
    let lead = lead.ok_or_else(Problem::unknown_address)?;
    Ok(json_response(&json!({
        "agent": lead.agent,
        "calls": lead.calls,
        "system": lead.system,
        "tools": lead.tools,
        "tokens": lead.tokens,
    })))
}

fn prompt_json(prompt: &SystemPrompt) -> Value {
    json!({"name": prompt.name, "version": prompt.version, "text": prompt.text, "at": prompt.at})
}

/// A prompt with its version as the entity tag.
fn with_tag(prompt: &SystemPrompt) -> Response {
    let tag = [(ETAG, format!("\"{}\"", prompt.version))];
    (tag, json_response(&prompt_json(prompt))).into_response()
}

/// The version from which the client made its change.
fn matched_version(headers: &HeaderMap) -> Result<u32, Problem> {
    let Some(sent) = headers.get(IF_MATCH) else {
        let detail = "the request does not say which version was changed: send the entity tag of the prompt that you read as `If-Match`";
        return Err(Problem::new(
            StatusCode::PRECONDITION_REQUIRED,
            "no_version",
            detail,
        ));
    };
    let version = sent
        .to_str()
        .ok()
        .and_then(|tag| tag.trim().trim_matches('"').parse().ok());
    version.ok_or_else(|| {
        Problem::invalid("`If-Match` is invalid: it is not the entity tag of a system prompt, such as \"3\"")
    })
}

/// The error of a request about a prompt.
fn problem(error: DirigentError) -> Problem {
    let found = match &error {
        DirigentError::SystemPrompt(SystemPromptError::NoSuchPrompt { .. }) => {
            (StatusCode::NOT_FOUND, "unknown_system_prompt")
        }
        DirigentError::SystemPrompt(SystemPromptError::NoSuchVersion { .. }) => {
            (StatusCode::NOT_FOUND, "unknown_version")
        }
        DirigentError::SystemPrompt(SystemPromptError::Conflict { .. }) => {
            (StatusCode::PRECONDITION_FAILED, "version_conflict")
        }
        DirigentError::SystemPrompt(SystemPromptError::Exists { .. }) => {
            (StatusCode::CONFLICT, "system_prompt_exists")
        }
        DirigentError::SystemPrompt(SystemPromptError::Default) => {
            (StatusCode::CONFLICT, "default_system_prompt")
        }
        DirigentError::SystemPrompt(_) => (StatusCode::UNPROCESSABLE_ENTITY, "invalid_system_prompt"),
        _ => return error.into(),
    };
    Problem::new(found.0, found.1, error.to_string())
}
