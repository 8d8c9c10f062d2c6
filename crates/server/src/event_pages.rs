//! Pages of the events of a run, filtered and from either end.

use std::collections::HashSet;

use axum::http::StatusCode;
use dirigent::{Event, EventKind};
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::event_stream::Position;
use crate::input::list_length;
use crate::problem::Problem;

/// From which end of the run a page is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PageFrom {
    /// The oldest events that follow `after`.
    #[default]
    Start,
    /// The newest events that precede `before`.
    End,
}

/// Selects a page.
pub(crate) struct PageFilter {
    pub(crate) after: Option<Position>,
    pub(crate) before: Option<Position>,
    pub(crate) from: PageFrom,
    /// Names of events, separated by commas.
    pub(crate) kinds: Option<String>,
    /// The id of an agent, such as `a3`, or `run`.
    pub(crate) agent: Option<String>,
    /// The id of a sub-task.
    pub(crate) subtask: Option<String>,
    pub(crate) limit: Option<usize>,
}

impl PageFilter {
    /// Returns the page of these events, which are all events of a run.
    pub(crate) fn page(&self, events: &[Event]) -> Result<Value, Problem> {
        let limit = list_length("limit", self.limit, 100)?;
        self.check_kinds()?;
        let of_subtask = self.subtask.as_deref().map(|subtask| scopes_of(subtask, events));
        let mut position = Position::after_entry(0);
        let mut selected: Vec<Value> = Vec::new();
        for event in events {
            position = position.next(event.seq);
            let (before, after) = (self.before, self.after);
            if before.is_some_and(|before| position >= before) || after.is_some_and(|after| position <= after)
            {
                continue;
            }
            let mut object = json!(event);
            if self.fits(&object, of_subtask.as_ref()) {
                object["id"] = json!(position.to_string());
                selected.push(object);
            }
        }
        let total = selected.len();
        let rest = total.saturating_sub(limit);
        let page = match self.from {
            PageFrom::Start => selected.drain(..total - rest).collect::<Vec<_>>(),
            PageFrom::End => selected.split_off(rest),
        };
        let next = match self.from {
            _ if rest == 0 => None,
            PageFrom::Start => page.last(),
            PageFrom::End => page.first(),
        };
        Ok(json!({
            "seq": events.last().map_or(0, |event| event.seq),
            "total": total,
            "next": next.map(|event| event["id"].clone()),
            "events": page,
        }))
    }

    /// Refuses a kind of events that does not exist.
    fn check_kinds(&self) -> Result<(), Problem> {
        let kinds = self.kinds.iter().flat_map(|kinds| kinds.split(','));
        let unknown = kinds.map(str::trim).find(|kind| !EventKind::NAMES.contains(kind));
        let Some(unknown) = unknown else {
            return Ok(());
        };
        let detail = format!(
            "the query is invalid: `kind` is `{unknown}`, but must be names of events, separated by commas: {}",
            EventKind::NAMES.join(", ")
        );
        Err(Problem::new(StatusCode::BAD_REQUEST, "invalid_query", detail))
    }

    fn fits(&self, event: &Value, of_subtask: Option<&HashSet<String>>) -> bool {
        let kind = event["event"].as_str().unwrap_or_default();
        let scope = event["scope"].as_str().unwrap_or_default();
        let is_kind = self
            .kinds
            .as_deref()
            .is_none_or(|kinds| kinds.split(',').any(|wanted| wanted.trim() == kind));
        let is_agent = self.agent.as_deref().is_none_or(|agent| agent == scope);
        let is_subtask = of_subtask.is_none_or(|scopes| {
            let named = event["subtask"]
                .as_str()
                .or(event["observation"]["subtask"].as_str());
            scopes.contains(scope) || named.is_some() && named == self.subtask.as_deref()
        });
        is_kind && is_agent && is_subtask
    }
}

/// The agents that work on a sub-task.
fn scopes_of(subtask: &str, events: &[Event]) -> HashSet<String> {
    let started = events.iter().map(|event| json!(event));
    started
        .filter(|event| event["event"] == "subtask_started" && event["subtask"] == subtask)
        .filter_map(|event| Some(format!("a{}", event["agent"].as_u64()?)))
        .collect()
}
