//! Messages to a conversation, and the answers and decisions that its turns wait for.
//!
//! A client that accepts `text/event-stream` gets the events of the turn, with previews of the replies. Any other client gets one answer when the turn has ended: nobody can be asked
//! within a request, so a turn that needs the user ends with what it needs, and continues when the user has answered.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use dirigent::workflows::UserRequest;
use dirigent::{Conversation, EndReason, RunHandle, RunId, Sent, SteerOutcome, UserPresence};
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::conversations::last_turn;
use crate::decisions::{DecisionInput, DecisionOutcome, decide_call, saved};
use crate::entrance::json_response;
use crate::event_stream::{self, Position, Previews, Watched};
use crate::input::{Input, Segments};
use crate::private_files::check_folder;
use crate::problem::Problem;
use crate::requested_goal::requested_goal;
use crate::requests_of_user;
use crate::run_slots::RunSlot;
use crate::schemas;
use crate::service::Service;
use crate::steering::{AnswerInput, effect, sent};

/// The body of `POST /context/{conversation}/messages`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MessageInput {
    /// The words, or the invocation of a workflow, such as `/create_project my-app`.
    message: String,
    /// Whether the turn begins with a summary of the conversation.
    #[serde(default)]
    compact: bool,
}

/// What the client gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Delivery {
    /// One answer at the end.
    Whole,
    /// Events as they occur.
    Stream,
}

impl Delivery {
    fn from_headers(headers: &HeaderMap) -> Self {
        match event_stream::wants_events(headers) {
            true => Delivery::Stream,
            false => Delivery::Whole,
        }
    }

    /// Whether the user can answer questions of the turn while it runs.
    fn user(self) -> UserPresence {
        match self {
            Delivery::Whole => UserPresence::Absent,
            Delivery::Stream => UserPresence::Present,
        }
    }
}

/// Sends a message. The answer comes when its turn has ended or, with `Accept: text/event-stream`, as events while it runs.
#[utoipa::path(post, path = "/context/{conversation}/messages", tag = "Conversations", params(schemas::ContextPath), request_body = MessageInput, responses((status = 200, description = "The answer", body = schemas::TurnAnswer)))]
pub(crate) async fn send(
    State(service): State<Service>,
    Segments(text): Segments<String>,
    headers: HeaderMap,
    Input(input): Input<MessageInput>,
) -> Result<Response, Problem> {
    let conversation = service.dirigent.find_conversation(&text).await?;
    let slot = slot_for_turn(&service, &conversation).await?;
    let delivery = Delivery::from_headers(&headers);
    let workspace = conversation.info().await?.workspace;
    check_folder(&service, &workspace).await?;
    let request = UserRequest::Text(&input.message);
    let goal = requested_goal(&service, request, &workspace).await?;
    let goal = goal.workspace(workspace).user(delivery.user());
    let goal = if input.compact { goal.compact() } else { goal };
    let (goal, _) = goal.include_files().await?;
    match conversation.send(goal).await? {
        Sent::Turn(run) => {
            slot.keep_for(&service, &run);
            follow(&service, &conversation, run, 0, None, delivery).await
        }
        Sent::Resumed(turn) => {
            slot.keep_for(&service, &turn.run);
            follow(&service, &conversation, turn.run, turn.after, None, delivery).await
        }
        Sent::Message { run, outcome } => Ok(sent(run, outcome)),
        Sent::AskedBack(waiting) => {
            let mut object = json!({
                "conversation": conversation.id(),
                "run": waiting.run,
                "state": "needs_user",
                "intent": waiting.intent,
            });
            requests_of_user::add(&mut object, &waiting.calls, &waiting.questions);
            Ok(json_response(&object))
        }
        Sent::Answer(answer) => Ok(json_response(&json!({
            "conversation": conversation.id(),
            "run": null,
            "state": "answered",
            "answer": answer,
        }))),
        _ => Err(Problem::new(
            StatusCode::NOT_IMPLEMENTED,
            "unknown_outcome",
            "the message was sent, but its outcome is not known to the service",
        )),
    }
}

/// The slot for a turn that a message, an answer or a decision may begin or resume.
enum TurnSlot {
    Reserved(RunSlot),
    /// The last turn is active and has its slot.
    Active,
}

impl TurnSlot {
    fn keep_for(self, service: &Service, run: &RunHandle) {
        match self {
            TurnSlot::Reserved(slot) => slot.keep_for(run),
            // The turn has ended meanwhile, and freed its slot.
            TurnSlot::Active => service.runs.count(run),
        }
    }
}

/// Reserves a slot, unless the last turn is active: messages to it are accepted even if all slots are taken.
async fn slot_for_turn(service: &Service, conversation: &Conversation) -> Result<TurnSlot, Problem> {
    match service.runs.reserve() {
        Ok(slot) => Ok(TurnSlot::Reserved(slot)),
        Err(problem) => match conversation.last_run().await? {
            Some(last) if last.owner_pid.is_some() => Ok(TurnSlot::Active),
            Some(_) | None => Err(problem),
        },
    }
}

/// Answers a question of the last turn. A turn that had stopped goes on.
#[utoipa::path(post, path = "/context/{conversation}/answers", tag = "Conversations", params(schemas::ContextPath), request_body = AnswerInput, responses((status = 200, description = "The answer of the turn", body = schemas::TurnAnswer)))]
pub(crate) async fn answer(
    State(service): State<Service>,
    Segments(text): Segments<String>,
    headers: HeaderMap,
    Input(input): Input<AnswerInput>,
) -> Result<Response, Problem> {
    let conversation = service.dirigent.find_conversation(&text).await?;
    let run = last_turn(&conversation).await?.run;
    let slot = slot_for_turn(&service, &conversation).await?;
    let outcome = service
        .dirigent
        .answer(run, input.question()?, input.text()?)
        .await?;
    let delivery = Delivery::from_headers(&headers);
    go_on(&service, &conversation, slot, (run, outcome, None), delivery).await
}

/// Decides about a call of the last turn. A turn that had stopped goes on.
#[utoipa::path(post, path = "/context/{conversation}/approvals/{effect}", tag = "Conversations", params(schemas::ContextPath, schemas::EffectPath), request_body = DecisionInput, responses((status = 200, description = "The answer of the turn", body = schemas::TurnAnswer)))]
pub(crate) async fn decide(
    State(service): State<Service>,
    Segments((text, id)): Segments<(String, String)>,
    headers: HeaderMap,
    Input(decision): Input<DecisionInput>,
) -> Result<Response, Problem> {
    let conversation = service.dirigent.find_conversation(&text).await?;
    let run = last_turn(&conversation).await?.run;
    let slot = slot_for_turn(&service, &conversation).await?;
    let decided = decide_call(&service, run, effect("effect", &id)?, decision).await?;
    let (outcome, rule) = match decided {
        DecisionOutcome::Sent(outcome) => (outcome, None),
        DecisionOutcome::Saved {
            sent: Some(outcome),
            rule,
        } => (outcome, Some(rule)),
        DecisionOutcome::Saved { sent: None, rule } => return Ok(saved(run, None, &rule)),
    };
    let delivery = Delivery::from_headers(&headers);
    go_on(&service, &conversation, slot, (run, outcome, rule), delivery).await
}

/// Resumes a turn that had stopped until now, because it needed the user. The answer includes the rule that a decision has saved, if any.
async fn go_on(
    service: &Service,
    conversation: &Conversation,
    slot: TurnSlot,
    (run, outcome, rule): (RunId, SteerOutcome, Option<Value>),
    delivery: Delivery,
) -> Result<Response, Problem> {
    let answer = || match &rule {
        Some(rule) => saved(run, Some(outcome), rule),
        None => sent(run, outcome),
    };
    if outcome == SteerOutcome::Accepted {
        return Ok(answer());
    }
    match conversation.resume_last(delivery.user()).await? {
        Some(turn) => {
            slot.keep_for(service, &turn.run);
            follow(service, conversation, turn.run, turn.after, rule, delivery).await
        }
        None => Ok(answer()),
    }
}

/// Sends what the client gets of a turn, after journal entry `after`, with the rule that a decision has saved, if any.
async fn follow(
    service: &Service,
    conversation: &Conversation,
    run: RunHandle,
    after: u64,
    rule: Option<Value>,
    delivery: Delivery,
) -> Result<Response, Problem> {
    match delivery {
        Delivery::Whole => {
            let mut object = outcome(service, conversation, &run).await?;
            if let Some(rule) = rule {
                object["rule"] = rule;
            }
            Ok(json_response(&object))
        }
        Delivery::Stream => {
            // Subscribed first, as the turn is already asking its model.
            let previews = Previews::of(run.clone());
            let turn = service.dirigent.record(run.id()).await?.turn;
            let watched = Watched {
                run: run.id(),
                after: Position::after_entry(after),
                turn: turn.map(|turn| turn.number),
                previews: Some(previews),
            };
            Ok(event_stream::stream_with_rule(service, watched, rule.as_ref()))
        }
    }
}

/// Waits for the end of a turn, and returns its answer or what it needs.
async fn outcome(service: &Service, conversation: &Conversation, run: &RunHandle) -> Result<Value, Problem> {
    let report = run.outcome().await?;
    let mut object = json!({
        "conversation": conversation.id(),
        "run": run.id(),
        "state": report.end.as_ref().map(state),
        "answer": report.summary,
        "usage": report.usage,
    });
    match &report.end {
        Some(EndReason::UserRequired) => {
            let (view, _) = service.dirigent.read(run.id()).await?;
            requests_of_user::add(&mut object, &view.waiting(), &view.questions());
        }
        Some(EndReason::GoalAchieved) | None => {}
        Some(reason) => object["end"] = json!(reason),
    }
    Ok(object)
}

/// What became of a turn, in a word.
fn state(end: &EndReason) -> &'static str {
    match end {
        EndReason::GoalAchieved => "answered",
        EndReason::UserRequired => "needs_user",
        EndReason::IterationLimit { .. } | EndReason::TimeLimit | EndReason::BudgetExhausted { .. } => {
            "limit"
        }
        EndReason::Cancelled => "cancelled",
        EndReason::Failed { .. } => "failed",
    }
}
