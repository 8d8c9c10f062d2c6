//! `/context`: conversations.

use std::path::PathBuf;

use axum::extract::State;
use axum::http::header::LOCATION;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use dirigent::{Conversation, ConversationFilter, ConversationSettings, Cost, Mode, RunRecord, Steering};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use crate::entrance::json_response;
use crate::event_stream::{self, Previews, Watched};
use crate::input::{Input, OptionalInput, Parameters, Segments};
use crate::problem::Problem;
use crate::run_input::workspace;
use crate::service::Service;
use crate::steering::steer;

/// The largest number of conversations of a list.
const MAX_LISTED: usize = 500;
/// The number of turns that are shown with a conversation.
const SHOWN_TURNS: usize = 50;

/// The body of `POST /context`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewConversation {
    workspace: Option<PathBuf>,
    title: Option<String>,
    #[serde(default)]
    mode: Mode,
    model: Option<String>,
    system_prompt: Option<String>,
    max_tokens: Option<u64>,
    max_cost: Option<Cost>,
}

/// `POST /context`
pub(crate) async fn create(
    State(service): State<Service>,
    OptionalInput(new): OptionalInput<NewConversation>,
) -> Result<Response, Problem> {
    let folder = workspace(new.workspace, &service.options.workspace)?;
    let settings = ConversationSettings {
        mode: new.mode,
        model: new.model,
        system_prompt: new.system_prompt,
        max_tokens: new.max_tokens,
        max_cost: new.max_cost,
    };
    check(&service, &settings).await?;
    let conversation = service.dirigent.create_conversation(folder, settings).await?;
    if let Some(title) = new.title {
        conversation.rename(&title).await?;
    }
    let headers = [(LOCATION, format!("/context/{}", conversation.id()))];
    let object = json!(conversation.info().await?);
    Ok((StatusCode::CREATED, headers, json_response(&object)).into_response())
}

/// Refuses a missing system prompt at once, not only when the first message needs it.
async fn check(service: &Service, settings: &ConversationSettings) -> Result<(), Problem> {
    if let Some(name) = &settings.system_prompt {
        service.dirigent.system_prompts().get(name, None).await?;
    }
    Ok(())
}

/// The query of `GET /context`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListQuery {
    /// A part of the title or of a message.
    q: Option<String>,
    workspace: Option<String>,
    limit: Option<usize>,
}

/// `GET /context`
pub(crate) async fn list(
    State(service): State<Service>,
    Parameters(query): Parameters<ListQuery>,
) -> Result<Response, Problem> {
    let filter = ConversationFilter {
        text: query.q,
        workspace: query.workspace,
        limit: Some(query.limit.unwrap_or(100).clamp(1, MAX_LISTED)),
    };
    let found = service.dirigent.conversations(filter).await?;
    let listed: Vec<Value> = found.iter().map(|info| json!(info)).collect();
    Ok(json_response(&json!({"conversations": listed})))
}

/// The query of `GET /context/{conversation}`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ShowQuery {
    /// The number of turns to show, the last ones; at most [`MAX_LISTED`].
    turns: Option<usize>,
}

/// `GET /context/{conversation}`
pub(crate) async fn show(
    State(service): State<Service>,
    Segments(text): Segments<String>,
    Parameters(query): Parameters<ShowQuery>,
) -> Result<Response, Problem> {
    let conversation = service.dirigent.find_conversation(&text).await?;
    let mut object = json!(conversation.info().await?);
    let turns = conversation
        .turns(query.turns.unwrap_or(SHOWN_TURNS).min(MAX_LISTED))
        .await?;
    object["messages"] = json!(turns);
    object["usage"] = json!(conversation.usage().await?);
    Ok(json_response(&object))
}

/// The body of `PATCH /context/{conversation}`: a field that is absent stays as it is, and `null` removes a setting.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Changes {
    title: Option<String>,
    mode: Option<Mode>,
    #[serde(default, deserialize_with = "present")]
    model: Option<Option<String>>,
    #[serde(default, deserialize_with = "present")]
    system_prompt: Option<Option<String>>,
    #[serde(default, deserialize_with = "present")]
    max_tokens: Option<Option<u64>>,
    #[serde(default, deserialize_with = "present")]
    max_cost: Option<Option<Cost>>,
}

/// Reads a field that is present, so that `null` differs from an absent field.
fn present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// `PATCH /context/{conversation}`
pub(crate) async fn change(
    State(service): State<Service>,
    Segments(text): Segments<String>,
    Input(changes): Input<Changes>,
) -> Result<Response, Problem> {
    let conversation = service.dirigent.find_conversation(&text).await?;
    let old = conversation.info().await?.settings;
    let settings = ConversationSettings {
        mode: changes.mode.unwrap_or(old.mode),
        model: changes.model.unwrap_or(old.model.clone()),
        system_prompt: changes.system_prompt.unwrap_or(old.system_prompt.clone()),
        max_tokens: changes.max_tokens.unwrap_or(old.max_tokens),
        max_cost: changes.max_cost.unwrap_or(old.max_cost),
    };
    if settings != old {
        check(&service, &settings).await?;
        conversation.set_settings(settings).await?;
    }
    if let Some(title) = changes.title {
        conversation.rename(&title).await?;
    }
    Ok(json_response(&json!(conversation.info().await?)))
}

/// `DELETE /context/{conversation}`
pub(crate) async fn delete(
    State(service): State<Service>,
    Segments(text): Segments<String>,
) -> Result<Response, Problem> {
    service.dirigent.find_conversation(&text).await?.delete().await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// `POST /context/{conversation}/cancel`: cancels the last turn. The conversation stays.
pub(crate) async fn cancel(
    State(service): State<Service>,
    Segments(text): Segments<String>,
) -> Result<Response, Problem> {
    let conversation = service.dirigent.find_conversation(&text).await?;
    let last = last_turn(&conversation).await?;
    steer(&service, last.run, Steering::Cancel).await
}

/// The run of the last turn.
pub(crate) async fn last_turn(conversation: &Conversation) -> Result<RunRecord, Problem> {
    let last = conversation.last_run().await?;
    last.ok_or_else(|| {
        Problem::new(
            StatusCode::CONFLICT,
            "no_turn",
            "the conversation has no turn yet: send a message",
        )
    })
}

/// The query of `GET /context/{conversation}/events`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EventsQuery {
    /// The number of the turn; the last one if absent.
    turn: Option<u32>,
    /// The last journal entry or event of the turn that the client has.
    after: Option<String>,
    #[serde(default)]
    deltas: bool,
}

/// `GET /context/{conversation}/events`: the events of a turn. Their ids begin with the number of the turn, so that a client which connects again goes on with the same turn.
pub(crate) async fn events(
    State(service): State<Service>,
    Segments(text): Segments<String>,
    Parameters(query): Parameters<EventsQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let conversation = service.dirigent.find_conversation(&text).await?;
    let last = event_stream::last_event_id(&headers).and_then(|id| id.split_once('.'));
    let wanted =
        match last {
            Some((turn, _)) => Some(turn.parse().map_err(|_| {
                Problem::invalid("`Last-Event-ID` is invalid: it is not an id of this stream")
            })?),
            None => query.turn,
        };
    let after = last.map(|(_, rest)| rest).or(query.after.as_deref());
    let after = after.unwrap_or("0").parse()?;
    let record = turn(&service, &conversation, wanted).await?;
    let watched = Watched {
        run: record.run,
        after,
        turn: record.turn.map(|turn| turn.number),
        previews: Previews::from_query(&service, record.run, query.deltas),
    };
    match (last, record.owner_pid) {
        (Some(_), None) => Ok(event_stream::stream_rest(&service, watched).await),
        _ => Ok(event_stream::stream(&service, watched)),
    }
}

/// The run of a turn, or of the last one.
async fn turn(
    service: &Service,
    conversation: &Conversation,
    number: Option<u32>,
) -> Result<RunRecord, Problem> {
    let last = last_turn(conversation).await?;
    let Some(number) = number else {
        return Ok(last);
    };
    let filter = dirigent::RunFilter::new()
        .conversation(conversation.id())
        .limit(usize::MAX);
    let turns = service.dirigent.runs(filter).await?.runs;
    let found = turns
        .into_iter()
        .find(|record| record.turn.is_some_and(|turn| turn.number == number));
    found.ok_or_else(|| {
        Problem::new(
            StatusCode::NOT_FOUND,
            "unknown_turn",
            format!("the conversation has no turn {number}"),
        )
    })
}
