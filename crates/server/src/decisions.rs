//! Decisions about calls that wait for approval, and the check of a decision without deciding.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use dirigent::approval_rules::{CallPattern, Within};
use dirigent::events::Digest;
use dirigent::{
    ApprovalAnswer, Decision, DecisionError, DirigentError, EffectId, RunId, RuntimeError, SteerOutcome,
    Steering, render,
};
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::entrance::json_response;
use crate::input::{Input, Segments};
use crate::problem::Problem;
use crate::schemas;
use crate::service::Service;
use crate::steering::{effect, sent};

/// A decision about a call.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DecisionInput {
    /// The digest of the call that was shown: a call that has changed since is not decided.
    digest: String,
    /// What to do with the call.
    answer: AnswerKind,
    /// With `edit`: all parameters, with which the call runs instead.
    parameters: Option<Value>,
    /// With `reject`: why.
    reason: Option<String>,
    /// With `guide`: what the agent is told instead.
    guidance: Option<String>,
    /// With `always`: the pattern of the calls that are allowed from now on, such as one of the call's `suggestions`.
    calls: Option<String>,
    /// With `always`: where they are allowed.
    #[schema(inline)]
    within: Option<RuleWithin>,
}

/// The kind of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum AnswerKind {
    /// The call runs as shown.
    Approve,
    /// The call runs with other parameters.
    Edit,
    /// The call does not run, and its agent ends.
    Reject,
    /// The call does not run, and its agent gets guidance.
    Guide,
    /// The call runs, and calls like it need no approval from now on.
    Always,
}

/// Where a rule allows calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RuleWithin {
    /// In the run.
    Run,
    /// In the conversation of the run.
    Conversation,
    /// In all runs in the run's folder.
    Workspace,
    /// In all runs.
    Everywhere,
}

impl From<RuleWithin> for Within {
    fn from(within: RuleWithin) -> Self {
        match within {
            RuleWithin::Run => Within::Run,
            RuleWithin::Conversation => Within::Conversation,
            RuleWithin::Workspace => Within::Workspace,
            RuleWithin::Everywhere => Within::Everywhere,
        }
    }
}

/// What a decision asks for.
enum Decided {
    Message(Decision),
    Rule {
        digest: Digest,
        calls: CallPattern,
        within: RuleWithin,
    },
}

impl DecisionInput {
    /// Refuses fields that do not belong to the answer, and an answer without its field.
    fn decided(self) -> Result<Decided, Problem> {
        let digest = Digest(self.digest);
        let fields = [
            ("parameters", self.parameters.is_some(), AnswerKind::Edit),
            ("reason", self.reason.is_some(), AnswerKind::Reject),
            ("guidance", self.guidance.is_some(), AnswerKind::Guide),
            ("calls", self.calls.is_some(), AnswerKind::Always),
            ("within", self.within.is_some(), AnswerKind::Always),
        ];
        for (name, is_given, kind) in fields {
            if is_given && kind != self.answer {
                return Err(Problem::invalid(format!(
                    "`{name}` is invalid: it does not belong to this answer"
                )));
            }
        }
        let missing = |name: &str| Problem::invalid(format!("`{name}` is missing: the answer needs it"));
        let answer = match self.answer {
            AnswerKind::Approve => ApprovalAnswer::Approve,
            AnswerKind::Edit => ApprovalAnswer::Edit {
                parameters: self.parameters.ok_or_else(|| missing("parameters"))?,
            },
            AnswerKind::Reject => ApprovalAnswer::Reject { reason: self.reason },
            AnswerKind::Guide => ApprovalAnswer::Guide {
                guidance: self.guidance.ok_or_else(|| missing("guidance"))?,
            },
            AnswerKind::Always => {
                let calls = self.calls.ok_or_else(|| missing("calls"))?;
                return Ok(Decided::Rule {
                    digest,
                    calls: calls
                        .parse()
                        .map_err(|error| Problem::invalid(format!("`calls` is invalid: {error}")))?,
                    within: self.within.ok_or_else(|| missing("within"))?,
                });
            }
        };
        Ok(Decided::Message(Decision { digest, answer }))
    }
}

/// The outcome of a decision.
pub(crate) enum DecisionOutcome {
    /// The decision was sent to the run.
    Sent(SteerOutcome),
    /// A rule was saved.
    Saved {
        rule: Value,
        /// Whether the run has the decision; `None` if it has ended.
        sent: Option<SteerOutcome>,
    },
}

/// Decides about a call of a run.
pub(crate) async fn decide_call(
    service: &Service,
    run: RunId,
    effect: EffectId,
    input: DecisionInput,
) -> Result<DecisionOutcome, Problem> {
    match input.decided()? {
        Decided::Message(decision) => {
            let sent = service
                .dirigent
                .steer(run, Steering::Decide { effect, decision })
                .await?;
            Ok(DecisionOutcome::Sent(sent))
        }
        Decided::Rule {
            digest,
            calls,
            within,
        } => {
            check_rule(service, run, effect, &digest, &calls).await?;
            let rules = service.dirigent.approval_rules();
            let saved = rules.allow(run, within.into(), calls).await?;
            Ok(DecisionOutcome::Saved {
                rule: render::approval_rule(&saved.rule),
                sent: saved.outcome,
            })
        }
    }
}

/// Checks that a rule allows a call as it was shown.
async fn check_rule(
    service: &Service,
    run: RunId,
    effect: EffectId,
    digest: &Digest,
    calls: &CallPattern,
) -> Result<(), Problem> {
    let (view, _) = service.dirigent.read(run).await?;
    let waiting = view.waiting();
    let failed = |error| Problem::from(DirigentError::from(RuntimeError::Decision { run, error }));
    let found = waiting
        .iter()
        .find(|call| call.approval.effect.is_same_effect(effect));
    let Some(call) = found else {
        return Err(failed(DecisionError::NotPending { effect }));
    };
    if call.approval.digest != *digest {
        return Err(failed(DecisionError::DigestMismatch { effect }));
    }
    if call
        .approval
        .is_approved_by(calls, &view.run().spec().setup.policy)
    {
        return Ok(());
    }
    let detail = format!(
        "`{calls}` does not allow this call: the pattern does not match it, the call is a plan (no pattern allows plans), or the configuration always asks about such calls"
    );
    Err(Problem::new(
        StatusCode::UNPROCESSABLE_ENTITY,
        "approval_rule_refused",
        detail,
    ))
}

/// Decides about a call that waits for approval.
#[utoipa::path(post, path = "/v1/runs/{run}/approvals/{effect}", tag = "Approvals",
    params(schemas::RunPath, schemas::EffectPath), request_body = DecisionInput,
    responses(
        (status = 200, description = "The run has accepted it; with `always`, also the `rule`", body = schemas::SentMessage),
        (status = 202, description = "It waits until the run is resumed", body = schemas::SentMessage)))]
pub(crate) async fn decide(
    State(service): State<Service>,
    Segments((text, id)): Segments<(String, String)>,
    Input(input): Input<DecisionInput>,
) -> Result<Response, Problem> {
    let run = service.dirigent.find(&text).await?;
    let outcome = decide_call(&service, run, effect("effect", &id)?, input).await?;
    match outcome {
        DecisionOutcome::Sent(outcome) => Ok(sent(run, outcome)),
        DecisionOutcome::Saved { rule, sent } => Ok(saved(run, sent, &rule)),
    }
}

/// The answer about a saved rule.
pub(crate) fn saved(run: RunId, outcome: Option<SteerOutcome>, rule: &Value) -> Response {
    let (status, state) = match outcome {
        Some(SteerOutcome::Accepted) => (StatusCode::OK, "accepted"),
        Some(SteerOutcome::Pending) => (StatusCode::ACCEPTED, "pending"),
        None => (StatusCode::OK, "ended"),
    };
    (
        status,
        json_response(&json!({"run": run, "state": state, "rule": rule})),
    )
        .into_response()
}

/// Checks a decision without deciding: the answer is an error if the decision would be refused.
#[utoipa::path(post, path = "/v1/runs/{run}/approvals/{effect}/check", tag = "Approvals",
    params(schemas::RunPath, schemas::EffectPath), request_body = DecisionInput,
    responses((status = 200, description = "The decision would be accepted; with `always`, also the rule that it would save", body = schemas::CheckedDecision)))]
pub(crate) async fn check(
    State(service): State<Service>,
    Segments((text, id)): Segments<(String, String)>,
    Input(input): Input<DecisionInput>,
) -> Result<Response, Problem> {
    let run = service.dirigent.find(&text).await?;
    let effect = effect("effect", &id)?;
    match input.decided()? {
        Decided::Message(decision) => {
            let message = Steering::Decide { effect, decision };
            service.dirigent.check_message(run, message).await?;
            Ok(json_response(&json!({"run": run, "valid": true, "rule": null})))
        }
        Decided::Rule {
            digest,
            calls,
            within,
        } => {
            check_rule(&service, run, effect, &digest, &calls).await?;
            let record = service.dirigent.record(run).await?;
            let (scope, subject) = match within {
                RuleWithin::Run => ("run", json!(run)),
                RuleWithin::Conversation => {
                    ("conversation", json!(record.turn.map(|turn| turn.conversation)))
                }
                RuleWithin::Workspace => ("workspace", json!(record.workspace)),
                RuleWithin::Everywhere => ("everywhere", Value::Null),
            };
            let rule = json!({"calls": calls.to_string(), "scope": scope, "subject": subject});
            Ok(json_response(&json!({"run": run, "valid": true, "rule": rule})))
        }
    }
}
