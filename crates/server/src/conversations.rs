//! `/context`: conversations.

use std::path::PathBuf;

use axum::extract::State;
use axum::http::header::LOCATION;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use dirigent::{
    Conversation, ConversationChanges, ConversationFilter, ConversationSettings, Mode, RunRecord, Steering,
};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use utoipa::{IntoParams, ToSchema};

use crate::entrance::json_response;
use crate::event_stream::{self, Position, Previews, Watched, invalid_position};
use crate::input::{Input, OptionalInput, Parameters, Segments, list_length};
use crate::limits::Money;
use crate::private_files::workspace;
use crate::problem::Problem;
use crate::schemas;
use crate::service::Service;
use crate::steering::steer;

/// The number of turns that are shown with a conversation.
const SHOWN_TURNS: usize = 50;

/// The body of `POST /context`.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewConversation {
    /// Absolute path of the folder; that of the server if absent.
    #[schema(value_type = Option<String>)]
    workspace: Option<PathBuf>,
    /// The title; the beginning of the first message if absent.
    title: Option<String>,
    /// The mode of its turns.
    #[serde(default)]
    #[schema(value_type = Option<schemas::Mode>)]
    mode: Mode,
    /// The default model: a name from `[models.NAME]`, `offline`, or `PROVIDER/NAME`.
    model: Option<String>,
    /// The name of a base system prompt.
    system_prompt: Option<String>,
    /// The maximum number of tokens of all turns.
    max_tokens: Option<u64>,
    /// The maximum cost of all turns, in nano-dollars; or as a text in US dollars, such as `"2.50"`.
    #[schema(value_type = Option<u64>)]
    max_cost: Option<Money>,
}

/// Creates a conversation.
#[utoipa::path(post, path = "/context", tag = "Conversations", request_body = NewConversation, responses((status = 201, description = "The conversation, with its address in `Location`", body = schemas::Conversation, headers(("Location" = String, description = "The address of what was created")))))]
pub(crate) async fn create(
    State(service): State<Service>,
    OptionalInput(new): OptionalInput<NewConversation>,
) -> Result<Response, Problem> {
    let folder = workspace(&service, new.workspace).await?;
    let settings = ConversationSettings {
        mode: new.mode,
        model: new.model,
        system_prompt: new.system_prompt,
        max_tokens: new.max_tokens,
        max_cost: new.max_cost.map(|money| money.0),
    };
    check(&service, settings.system_prompt.as_deref()).await?;
    let conversation = match new.title {
        Some(title) => {
            service
                .dirigent
                .create_titled_conversation(folder, &title, settings)
                .await?
        }
        None => service.dirigent.create_conversation(folder, settings).await?,
    };
    let headers = [(LOCATION, format!("/context/{}", conversation.id()))];
    let object = json!(conversation.info().await?);
    Ok((StatusCode::CREATED, headers, json_response(&object)).into_response())
}

/// Refuses a missing system prompt at once, not only when the first message needs it.
async fn check(service: &Service, system_prompt: Option<&str>) -> Result<(), Problem> {
    if let Some(name) = system_prompt {
        service.dirigent.system_prompts().get(name, None).await?;
    }
    Ok(())
}

/// The query of `GET /context`.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListQuery {
    /// A part of the title or of a message.
    q: Option<String>,
    /// Absolute path of a folder.
    workspace: Option<String>,
    /// From 1 to 500; 100 if absent.
    limit: Option<usize>,
}

/// Lists conversations, the last used first.
#[utoipa::path(get, path = "/context", tag = "Conversations", params(ListQuery), responses((status = 200, description = "The conversations", body = schemas::Conversations)))]
pub(crate) async fn list(
    State(service): State<Service>,
    Parameters(query): Parameters<ListQuery>,
) -> Result<Response, Problem> {
    let filter = ConversationFilter {
        text: query.q,
        workspace: query.workspace,
        limit: Some(list_length("limit", query.limit, 100)?),
    };
    let found = service.dirigent.conversations(filter).await?;
    let listed: Vec<Value> = found.iter().map(|info| json!(info)).collect();
    Ok(json_response(&json!({"conversations": listed})))
}

/// The query of `GET /context/{conversation}`.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ShowQuery {
    /// The number of turns to show, the last ones; from 1 to 500.
    turns: Option<usize>,
}

/// Returns a conversation with its usage and its last turns.
#[utoipa::path(get, path = "/context/{conversation}", tag = "Conversations", params(schemas::ContextPath, ShowQuery), responses((status = 200, description = "The conversation", body = schemas::ConversationState)))]
pub(crate) async fn show(
    State(service): State<Service>,
    Segments(text): Segments<String>,
    Parameters(query): Parameters<ShowQuery>,
) -> Result<Response, Problem> {
    let conversation = service.dirigent.find_conversation(&text).await?;
    let length = list_length("turns", query.turns, SHOWN_TURNS)?;
    let mut object = json!(conversation.info().await?);
    let turns = conversation.turns(length).await?;
    object["messages"] = json!(turns);
    object["usage"] = json!(conversation.usage().await?);
    Ok(json_response(&object))
}

/// The body of `PATCH /context/{conversation}`: a field that is absent stays as it is, and `null` removes a setting other than the mode.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Changes {
    /// The new title.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<String>, nullable = false)]
    title: Option<String>,
    /// The mode of the next turns.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<schemas::Mode>, nullable = false)]
    mode: Option<Mode>,
    /// The default model of the next turns.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<String>)]
    model: Option<Option<String>>,
    /// The name of a base system prompt.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<String>)]
    system_prompt: Option<Option<String>>,
    /// The maximum number of tokens of all turns.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<u64>)]
    max_tokens: Option<Option<u64>>,
    /// The maximum cost of all turns, in nano-dollars; or as a text in US dollars, such as `"2.50"`.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<u64>)]
    max_cost: Option<Option<Money>>,
}

/// Reads a field that is present, so that `null` differs from an absent field.
fn present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// Changes the title and the settings of a conversation: all of them, or none if one is invalid.
#[utoipa::path(patch, path = "/context/{conversation}", tag = "Conversations", params(schemas::ContextPath), request_body = Changes, responses((status = 200, description = "The conversation", body = schemas::Conversation)))]
pub(crate) async fn change(
    State(service): State<Service>,
    Segments(text): Segments<String>,
    Input(changes): Input<Changes>,
) -> Result<Response, Problem> {
    let conversation = service.dirigent.find_conversation(&text).await?;
    let changes = ConversationChanges {
        title: changes.title,
        mode: changes.mode,
        model: changes.model,
        system_prompt: changes.system_prompt,
        max_tokens: changes.max_tokens,
        max_cost: changes.max_cost.map(|money| money.map(|money| money.0)),
    };
    let prompt = changes.system_prompt.as_ref().and_then(Option::as_deref);
    check(&service, prompt).await?;
    conversation.change(changes).await?;
    Ok(json_response(&json!(conversation.info().await?)))
}

/// Deletes a conversation with its turns.
#[utoipa::path(delete, path = "/context/{conversation}", tag = "Conversations", params(schemas::ContextPath), responses((status = 204, description = "It is deleted")))]
pub(crate) async fn delete(
    State(service): State<Service>,
    Segments(text): Segments<String>,
) -> Result<Response, Problem> {
    service.dirigent.find_conversation(&text).await?.delete().await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Cancels the last turn. The conversation stays.
#[utoipa::path(post, path = "/context/{conversation}/cancel", tag = "Conversations", params(schemas::ContextPath), responses((status = 200, description = "The turn has accepted it", body = schemas::SentMessage), (status = 202, description = "It waits until the turn is resumed", body = schemas::SentMessage)))]
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
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct EventsQuery {
    /// The number of the turn; the last one if absent.
    turn: Option<u32>,
    /// The last journal entry or event of the turn that the client has.
    after: Option<String>,
    /// Whether to send the replies while they are written, too.
    #[serde(default)]
    deltas: bool,
}

/// Streams the events of a turn.
#[utoipa::path(get, path = "/context/{conversation}/events", tag = "Conversations", params(schemas::ContextPath, EventsQuery, schemas::LastEventHeader), responses((status = 200, description = "The events, as they occur", body = String, content_type = "text/event-stream"), (status = 204, description = "The turn has ended, and the client has all its events")))]
pub(crate) async fn events(
    State(service): State<Service>,
    Segments(text): Segments<String>,
    Parameters(query): Parameters<EventsQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let conversation = service.dirigent.find_conversation(&text).await?;
    let last = event_stream::last_event_id(&headers)
        .map(turn_position)
        .transpose()?;
    let wanted = last.map(|(turn, _)| turn).or(query.turn);
    let after = match (last, &query.after) {
        (Some((_, after)), _) => after,
        (None, Some(after)) => after.parse()?,
        (None, None) => Position::after_entry(0),
    };
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

/// Reads the id of an event of this stream: the number of its turn, and its position in the turn.
fn turn_position(id: &str) -> Result<(u32, Position), Problem> {
    let Some((turn, position)) = id.split_once('.') else {
        return Err(invalid_position(id));
    };
    let turn = turn.parse().map_err(|_| invalid_position(id))?;
    let position = position.parse().map_err(|_: Problem| invalid_position(id))?;
    Ok((turn, position))
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
