//! Messages to a run: guidance, answers, decisions and cancellation.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use dirigent::events::Scope;
use dirigent::{EffectId, RunId, SteerOutcome, Steering};
use serde::Deserialize;
use serde_json::json;
use utoipa::ToSchema;

use crate::entrance::json_response;
use crate::input::{Input, Segments};
use crate::problem::Problem;
use crate::schemas;
use crate::service::Service;

/// The body of `POST /v1/runs/{run}/guidance`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GuidanceInput {
    /// What to consider.
    guidance: String,
    /// The agent that gets the guidance, such as `a3`; the run if absent.
    agent: Option<String>,
    /// When it takes effect.
    #[serde(default)]
    when: GuidanceTime,
}

/// When guidance for a run takes effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum GuidanceTime {
    /// With the next plan.
    #[default]
    NextPlan,
    /// At once: the current work is stopped.
    Now,
}

/// The body of `…/answers`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AnswerInput {
    /// A text, or the number of a choice.
    pub(crate) answer: String,
    /// The id of the question; the only open one if absent.
    question: Option<String>,
}

impl AnswerInput {
    /// The answer, unless it is empty: then the question stays open.
    pub(crate) fn text(&self) -> Result<&str, Problem> {
        match self.answer.trim() {
            "" => Err(Problem::invalid("`answer` is invalid: it is empty")),
            _ => Ok(&self.answer),
        }
    }

    pub(crate) fn question(&self) -> Result<Option<EffectId>, Problem> {
        self.question
            .as_deref()
            .map(|text| effect("question", text))
            .transpose()
    }
}

/// Gives guidance to a run, or to one of its agents.
#[utoipa::path(post, path = "/v1/runs/{run}/guidance", tag = "Runs", params(schemas::RunPath), request_body = GuidanceInput, responses((status = 200, description = "The run has accepted it", body = schemas::SentMessage), (status = 202, description = "It waits until the run is resumed", body = schemas::SentMessage)))]
pub(crate) async fn guide(
    State(service): State<Service>,
    Segments(text): Segments<String>,
    Input(input): Input<GuidanceInput>,
) -> Result<Response, Problem> {
    let run = service.dirigent.find(&text).await?;
    let steering = guidance(input.guidance, input.agent.as_deref(), input.when)?;
    steer(&service, run, steering).await
}

/// The message with guidance for a run, or for one of its agents.
pub(crate) fn guidance(
    guidance: String,
    agent: Option<&str>,
    when: GuidanceTime,
) -> Result<Steering, Problem> {
    if guidance.trim().is_empty() {
        return Err(Problem::invalid("`guidance` is invalid: it is empty"));
    }
    match (agent, when) {
        (None, GuidanceTime::NextPlan) => Ok(Steering::Guide { guidance }),
        (None, GuidanceTime::Now) => Ok(Steering::Redirect { guidance }),
        (Some(_), GuidanceTime::Now) => Err(Problem::invalid(
            "`when` is invalid: guidance for an agent always comes with its next model request",
        )),
        (Some(agent), GuidanceTime::NextPlan) => {
            let scope: Result<Scope, _> = agent.parse();
            let Some(agent) = scope.ok().and_then(Scope::agent) else {
                return Err(Problem::invalid(format!(
                    "`agent` is invalid: `{agent}` is not the id of an agent, such as a3"
                )));
            };
            Ok(Steering::GuideAgent { agent, guidance })
        }
    }
}

/// Answers a question of a run.
#[utoipa::path(post, path = "/v1/runs/{run}/answers", tag = "Approvals", params(schemas::RunPath), request_body = AnswerInput, responses((status = 200, description = "The run has accepted it", body = schemas::SentMessage), (status = 202, description = "It waits until the run is resumed", body = schemas::SentMessage)))]
pub(crate) async fn answer(
    State(service): State<Service>,
    Segments(text): Segments<String>,
    Input(input): Input<AnswerInput>,
) -> Result<Response, Problem> {
    let run = service.dirigent.find(&text).await?;
    let outcome = service
        .dirigent
        .answer(run, input.question()?, input.text()?)
        .await?;
    Ok(sent(run, outcome))
}

/// Cancels a run.
#[utoipa::path(post, path = "/v1/runs/{run}/cancel", tag = "Runs", params(schemas::RunPath), responses((status = 200, description = "The run has accepted it", body = schemas::SentMessage), (status = 202, description = "It waits until the run is resumed", body = schemas::SentMessage)))]
pub(crate) async fn cancel(
    State(service): State<Service>,
    Segments(text): Segments<String>,
) -> Result<Response, Problem> {
    let run = service.dirigent.find(&text).await?;
    steer(&service, run, Steering::Cancel).await
}

pub(crate) async fn steer(service: &Service, run: RunId, steering: Steering) -> Result<Response, Problem> {
    let outcome = service.dirigent.steer(run, steering).await?;
    Ok(sent(run, outcome))
}

/// The answer about a message: accepted by the run, or kept until the run is resumed.
pub(crate) fn sent(run: RunId, outcome: SteerOutcome) -> Response {
    let (status, state) = match outcome {
        SteerOutcome::Accepted => (StatusCode::OK, "accepted"),
        SteerOutcome::Pending => (StatusCode::ACCEPTED, "pending"),
    };
    (status, json_response(&json!({"run": run, "state": state}))).into_response()
}

/// The id of a call or a question.
pub(crate) fn effect(field: &str, text: &str) -> Result<EffectId, Problem> {
    text.parse()
        .map_err(|error| Problem::invalid(format!("`{field}` is invalid: {error}")))
}
