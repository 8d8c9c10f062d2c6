//! `/v1/runs`: starts, lists and shows runs.

use std::path::Path;

use axum::extract::State;
use axum::http::header::{CONTENT_TYPE, LOCATION};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use dirigent::events::{Plan, SUBMIT_PLAN, Timestamp};
use dirigent::report::PlanGraph;
use dirigent::{
    EffectId, EndReason, Resume, RunFilter, RunHandle, RunId, RunRecord, RunState, RunView, render,
};
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::{IntoParams, ToSchema};

use crate::entrance::json_response;
use crate::event_pages::{PageFilter, PageFrom};
use crate::event_stream::{self, Previews, Watched};
use crate::input::{Input, OptionalInput, Parameters, Segments, list_length};
use crate::limits::{limits, limits_json};
use crate::private_files::check_folder;
use crate::problem::Problem;
use crate::run_input::{ForkInput, NewRun, ResumeInput};
use crate::schemas;
use crate::service::Service;

/// Starts a run.
#[utoipa::path(post, path = "/v1/runs", tag = "Runs", request_body = NewRun, responses((status = 201, description = "The run, with its address in `Location`", body = schemas::StartedRun, headers(("Location" = String, description = "The address of what was created")))))]
pub(crate) async fn start(
    State(service): State<Service>,
    Input(new): Input<NewRun>,
) -> Result<Response, Problem> {
    let slot = service.runs.reserve()?;
    let (goal, notes) = new.goal(&service).await?;
    let run = service.dirigent.start(goal).await?;
    slot.keep_for(&run);
    created(&service, &run, &notes).await
}

/// The answer about a new run.
pub(crate) async fn created(
    service: &Service,
    run: &RunHandle,
    notes: &[String],
) -> Result<Response, Problem> {
    let mut object = run_json(&service.dirigent.record(run.id()).await?);
    object["notes"] = json!(notes);
    let headers = [(LOCATION, format!("/v1/runs/{}", run.id()))];
    Ok((StatusCode::CREATED, headers, json_response(&object)).into_response())
}

/// The query of `GET /v1/runs`.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListQuery {
    /// States, separated by commas.
    state: Option<String>,
    /// A part of the goal.
    q: Option<String>,
    /// Absolute path of a folder.
    workspace: Option<String>,
    /// The id of a conversation.
    conversation: Option<String>,
    /// In milliseconds since 1970-01-01 UTC.
    created_after: Option<u64>,
    /// In milliseconds since 1970-01-01 UTC.
    created_before: Option<u64>,
    /// The last run of the page before.
    after: Option<String>,
    /// From 1 to 500; 50 if absent.
    limit: Option<usize>,
}

/// Lists runs, newest first.
#[utoipa::path(get, path = "/v1/runs", tag = "Runs", params(ListQuery), responses((status = 200, description = "A page of runs", body = schemas::Runs)))]
pub(crate) async fn list(
    State(service): State<Service>,
    Parameters(query): Parameters<ListQuery>,
) -> Result<Response, Problem> {
    let page = service.dirigent.runs(filter(&service, query).await?).await?;
    Ok(json_response(&json!({
        "runs": page.runs.iter().map(run_json).collect::<Vec<_>>(),
        "total": page.total,
        "next": page.next,
    })))
}

/// The runs that a query selects.
async fn filter(service: &Service, query: ListQuery) -> Result<RunFilter, Problem> {
    let mut filter = RunFilter::new().limit(list_length("limit", query.limit, 50)?);
    for state in query.state.iter().flat_map(|states| states.split(',')) {
        let state: RunState = state
            .parse()
            .map_err(|error| Problem::invalid(format!("`state` is invalid: {error}")))?;
        filter = filter.state(state);
    }
    if let Some(text) = query.q {
        filter = filter.text(text);
    }
    if let Some(folder) = query.workspace {
        filter = filter.workspace(folder);
    }
    if let Some(text) = query.conversation {
        filter = filter.conversation(service.dirigent.find_conversation(&text).await?.id());
    }
    if let Some(at) = query.created_after {
        filter = filter.created_after(Timestamp(at));
    }
    if let Some(at) = query.created_before {
        filter = filter.created_before(Timestamp(at));
    }
    match query.after {
        Some(text) => Ok(filter.after(service.dirigent.find(&text).await?)),
        None => Ok(filter),
    }
}

/// A run in a list.
pub(crate) fn run_json(record: &RunRecord) -> Value {
    let turn = record.turn;
    let mut object = render::run_record(record);
    object["conversation"] = json!(turn.map(|turn| turn.conversation));
    object["turn"] = json!(turn.map(|turn| turn.number));
    object["problem"] = json!(record.problem);
    object
}

/// Returns the run's state with everything that its events have told up to `seq`.
#[utoipa::path(get, path = "/v1/runs/{run}", tag = "Runs", params(schemas::RunPath), responses((status = 200, description = "The state", body = schemas::RunState)))]
pub(crate) async fn show(
    State(service): State<Service>,
    Segments(text): Segments<String>,
) -> Result<Response, Problem> {
    let dirigent = &service.dirigent;
    let record = dirigent.record(dirigent.find(&text).await?).await?;
    let mut object = run_json(&record);
    object["worktree"] = json!(dirigent.worktree_folder(&record));
    let messages = dirigent.pending_messages(record.run).await?;
    let messages = messages.iter().map(|message| &message.steering);
    object["pending_messages"] = json!(messages.collect::<Vec<_>>());
    if record.entries > 0 {
        let (view, events) = dirigent.read(record.run).await?;
        object["seq"] = json!(events.last().map_or(0, |event| event.seq));
        object["report"] = json!(view.report());
        object["limits"] = limits_json(&view.run().spec().limits);
        // The process still owns a run that has just ended, and one that waits for its user.
        if let Some(end) = view.run().end()
            && *end != EndReason::UserRequired
        {
            object["state"] = json!(RunState::from_end(end));
        }
    }
    Ok(json_response(&object))
}

/// The query of `GET /v1/runs/{run}/events`.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct EventsQuery {
    /// The last journal entry or event that the client has.
    after: Option<String>,
    /// Whether to send the replies while they are written, too.
    #[serde(default)]
    deltas: bool,
    /// `json` returns a page instead of a stream, as `Accept: application/json` does.
    #[param(inline)]
    format: Option<EventsFormat>,
    /// Of a page: the event before which it ends.
    before: Option<String>,
    /// Of a page: the end of the run from which it is read.
    #[serde(default)]
    #[param(inline)]
    from: PageFrom,
    /// Of a page: names of events, separated by commas.
    kind: Option<String>,
    /// Of a page: the id of an agent, such as `a3`, or `run`.
    agent: Option<String>,
    /// Of a page: the id of a sub-task; its events, and those of its agents.
    subtask: Option<String>,
    /// Of a page: from 1 to 500; 100 if absent.
    limit: Option<usize>,
}

/// How events are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum EventsFormat {
    /// A stream of events.
    Stream,
    /// A page.
    Json,
}

/// Streams the events of a run, or returns a page of them.
#[utoipa::path(get, path = "/v1/runs/{run}/events", tag = "Runs", params(schemas::RunPath, EventsQuery, schemas::LastEventHeader), responses((status = 200, description = "The events, as they occur", body = String, content_type = "text/event-stream"), (status = 204, description = "The run has ended, and the client has all its events")))]
pub(crate) async fn events(
    State(service): State<Service>,
    Segments(text): Segments<String>,
    Parameters(query): Parameters<EventsQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let run = service.dirigent.find(&text).await?;
    let is_page = match query.format {
        Some(format) => format == EventsFormat::Json,
        None => event_stream::accepts(&headers, "application/json"),
    };
    if is_page {
        return page(&service, run, query).await;
    }
    let last = event_stream::last_event_id(&headers);
    let watched = Watched {
        run,
        after: last.or(query.after.as_deref()).unwrap_or("0").parse()?,
        turn: None,
        previews: Previews::from_query(&service, run, query.deltas),
    };
    let record = service.dirigent.record(run).await?;
    match (last, record.owner_pid) {
        (Some(_), None) => Ok(event_stream::stream_rest(&service, watched).await),
        _ => Ok(event_stream::stream(&service, watched)),
    }
}

/// A page of the events of a run.
async fn page(service: &Service, run: RunId, query: EventsQuery) -> Result<Response, Problem> {
    let position = |text: Option<String>| text.map(|text| text.parse()).transpose();
    let filter = PageFilter {
        after: position(query.after)?,
        before: position(query.before)?,
        from: query.from,
        kinds: query.kind,
        agent: query.agent,
        subtask: query.subtask,
        limit: query.limit,
    };
    let (_, events) = service.dirigent.read(run).await?;
    let mut object = filter.page(&events)?;
    object["run"] = json!(run);
    Ok(json_response(&object))
}

/// Resumes an interrupted or waiting run, or one that ended at a limit.
#[utoipa::path(post, path = "/v1/runs/{run}/resume", tag = "Runs", params(schemas::RunPath), request_body = ResumeInput, responses((status = 202, description = "The run", body = schemas::Run)))]
pub(crate) async fn resume(
    State(service): State<Service>,
    Segments(text): Segments<String>,
    OptionalInput(input): OptionalInput<ResumeInput>,
) -> Result<Response, Problem> {
    let dirigent = &service.dirigent;
    let run = dirigent.find(&text).await?;
    check_folder(&service, Path::new(&dirigent.record(run).await?.workspace)).await?;
    let slot = service.runs.reserve()?;
    let mut resume = Resume::new().user(input.user.into()).answer(input.answer);
    if !input.limits.is_empty() {
        let (view, _) = dirigent.read(run).await?;
        resume = resume.limits(limits(&input.limits, view.run().spec().limits.clone())?);
    }
    let handle = dirigent.resume(run, resume).await?;
    slot.keep_for(&handle);
    let object = run_json(&dirigent.record(handle.id()).await?);
    Ok((StatusCode::ACCEPTED, json_response(&object)).into_response())
}

/// Starts a run that shares the beginning of another one.
#[utoipa::path(post, path = "/v1/runs/{run}/fork", tag = "Runs", params(schemas::RunPath), request_body = ForkInput, responses((status = 201, description = "The new run", body = schemas::StartedRun, headers(("Location" = String, description = "The address of what was created")))))]
pub(crate) async fn fork(
    State(service): State<Service>,
    Segments(text): Segments<String>,
    OptionalInput(input): OptionalInput<ForkInput>,
) -> Result<Response, Problem> {
    let dirigent = &service.dirigent;
    let run = dirigent.find(&text).await?;
    check_folder(&service, Path::new(&dirigent.record(run).await?.workspace)).await?;
    let slot = service.runs.reserve()?;
    let fork = dirigent
        .fork(run, input.at, input.guidance, input.user.into())
        .await?;
    slot.keep_for(&fork);
    created(&service, &fork, &[]).await
}

/// The query of `GET /v1/runs/{run}/graph`.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct GraphQuery {
    /// The number of an iteration; all if absent.
    iteration: Option<u32>,
    /// JSON or Mermaid.
    #[serde(default)]
    #[param(inline)]
    format: GraphFormat,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum GraphFormat {
    #[default]
    Json,
    Mermaid,
}

/// Returns the plans of a run with the states of their sub-tasks.
#[utoipa::path(get, path = "/v1/runs/{run}/graph", tag = "Runs", params(schemas::RunPath, GraphQuery), responses((status = 200, description = "The plans; with `format=mermaid`, a drawing", body = schemas::Graph)))]
pub(crate) async fn graph(
    State(service): State<Service>,
    Segments(text): Segments<String>,
    Parameters(query): Parameters<GraphQuery>,
) -> Result<Response, Problem> {
    let dirigent = &service.dirigent;
    let run = dirigent.find(&text).await?;
    let (view, _) = dirigent.read(run).await?;
    let mut plans = plans(&view);
    plans.retain(|plan| query.iteration.is_none_or(|wanted| wanted == plan.iteration));
    match query.format {
        GraphFormat::Json => {
            let plans: Vec<Value> = plans.iter().map(plan_json).collect();
            Ok(json_response(&json!({"run": run, "iterations": plans})))
        }
        GraphFormat::Mermaid => {
            let drawings: Vec<String> = plans.iter().map(|plan| render::mermaid(&plan.graph)).collect();
            let headers = [(CONTENT_TYPE, "text/vnd.mermaid; charset=utf-8")];
            Ok((headers, drawings.join("\n")).into_response())
        }
    }
}

/// A plan of a run.
struct ShownPlan {
    iteration: u32,
    graph: PlanGraph,
    /// The call that submits the plan, if it waits for approval.
    approval: Option<EffectId>,
}

/// The plans of a run, and after them a plan that waits for approval.
fn plans(view: &RunView) -> Vec<ShownPlan> {
    let accepted = view.run().iterations().iter();
    let mut plans: Vec<ShownPlan> = accepted
        .map(|iteration| ShownPlan {
            iteration: iteration.number,
            graph: iteration.graph.clone(),
            approval: None,
        })
        .collect();
    let submitted = view
        .waiting()
        .into_iter()
        .filter(|call| call.approval.tool == SUBMIT_PLAN);
    plans.extend(submitted.filter_map(|call| {
        let plan = Plan::from_parameters(&call.approval.parameters).ok()?;
        Some(ShownPlan {
            iteration: view.run().iteration(),
            graph: PlanGraph::new(plan.into()).ok()?,
            approval: Some(call.approval.effect),
        })
    }));
    plans
}

/// A plan as a graph: its sub-tasks in plan order, each with its state and the ids of the sub-tasks that it depends on.
fn plan_json(shown: &ShownPlan) -> Value {
    let graph = &shown.graph;
    let subtasks = graph.plan().subtasks.iter().enumerate().map(|(index, subtask)| {
        let mut object = json!(subtask);
        object["state"] = match shown.approval {
            Some(_) => json!("waiting"),
            None => json!(graph.state(index)),
        };
        object
    });
    json!({
        "iteration": shown.iteration,
        "approval": shown.approval,
        "summary": graph.plan().summary,
        "subtasks": subtasks.collect::<Vec<_>>(),
    })
}
