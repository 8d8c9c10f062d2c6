//! `/v1/usage`: requests, tokens and cost by day, model or agent.
//!
//! The journal has no table of usage: the usage of a run is in its entries. Each run is read once, and what was read is kept until the run has new entries.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use dirigent::events::{Timestamp, Usage};
use dirigent::report::UsageReport;
use dirigent::{RunFilter, RunId, RunRecord};
use jiff::tz::TimeZone;
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::{IntoParams, ToSchema};

use crate::clock::now;
use crate::entrance::json_response;
use crate::input::Parameters;
use crate::problem::Problem;
use crate::schemas;
use crate::service::Service;

/// The largest number of runs whose usage is added up in one request.
const MAX_RUNS: usize = 2_000;

const DAY_MS: u64 = 24 * 60 * 60 * 1000;
/// The default length of the period.
const PERIOD_MS: u64 = 30 * DAY_MS;

/// The usage of the runs that were read, each with the number of the run's entries.
#[derive(Default)]
pub(crate) struct UsageCache(Mutex<HashMap<RunId, (u64, Arc<UsageReport>)>>);

/// By what usage is added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum UsageBy {
    /// By the day (UTC) on which runs began.
    #[default]
    Day,
    /// By the provider's name of the model.
    Model,
    /// By the name of the agent.
    Agent,
}

/// The query of `GET /v1/usage`.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct UsageQuery {
    /// By what usage is added up.
    #[serde(default)]
    #[param(inline)]
    by: UsageBy,
    /// Only runs that began after this time, in milliseconds since 1970-01-01 UTC; 30 days before the end if absent.
    from: Option<u64>,
    /// Only runs that began before this time, in milliseconds since 1970-01-01 UTC; now if absent.
    to: Option<u64>,
}

/// Returns requests, tokens and cost of the runs that began in a period.
#[utoipa::path(get, path = "/v1/usage", tag = "Usage", params(UsageQuery),
    responses((status = 200, description = "The usage", body = schemas::UsageBody)))]
pub(crate) async fn usage(
    State(service): State<Service>,
    Parameters(query): Parameters<UsageQuery>,
) -> Result<Response, Problem> {
    let to = query.to.unwrap_or_else(|| now().0);
    let from = query.from.unwrap_or(to.saturating_sub(PERIOD_MS));
    let filter = RunFilter::new()
        .created_after(Timestamp(from))
        .created_before(Timestamp(to))
        .limit(MAX_RUNS);
    let page = service.dirigent.runs(filter).await?;
    if page.next.is_some() {
        let detail = format!(
            "{} runs began in this period, more than {MAX_RUNS}, whose usage can be added up at once: choose a shorter period with `from` and `to`",
            page.total
        );
        return Err(Problem::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "period_too_long",
            detail,
        ));
    }
    let mut rows: BTreeMap<String, Usage> = BTreeMap::new();
    let mut total = Usage::default();
    for record in page.runs.iter().filter(|record| record.entries > 0) {
        let report = read(&service, record).await?;
        total += report.total.usage;
        for (key, usage) in parts(query.by, record, &report) {
            *rows.entry(key).or_default() += usage;
        }
    }
    let rows: Vec<Value> = rows.iter().map(|(key, usage)| row(Some(key), usage)).collect();
    Ok(json_response(&json!({
        "by": match query.by {
            UsageBy::Day => "day",
            UsageBy::Model => "model",
            UsageBy::Agent => "agent",
        },
        "from": from,
        "to": to,
        "runs": page.runs.len(),
        "total": row(None, &total),
        "rows": rows,
    })))
}

/// Reads the usage of a run, unless it is known.
async fn read(service: &Service, record: &RunRecord) -> Result<Arc<UsageReport>, Problem> {
    let known = |cache: &UsageCache| {
        let cache = cache.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (entries, report) = cache.get(&record.run)?;
        (*entries == record.entries).then(|| report.clone())
    };
    if let Some(report) = known(&service.usage) {
        return Ok(report);
    }
    let report = Arc::new(service.dirigent.usage(record.run).await?);
    let mut cache = service.usage.0.lock().unwrap_or_else(PoisonError::into_inner);
    if cache.len() >= MAX_RUNS {
        cache.clear();
    }
    cache.insert(record.run, (record.entries, report.clone()));
    Ok(report)
}

/// The key of what belongs to no model or agent but to the run itself, as in the tables of a run's usage: the calls of plans and, by model, requests without a reply.
const OF_RUN: &str = "run";

/// The usage of a run by keys, which adds up to the total.
fn parts(by: UsageBy, record: &RunRecord, report: &UsageReport) -> Vec<(String, Usage)> {
    let mut parts: Vec<(String, Usage)> = match by {
        UsageBy::Day => return vec![(day(record.created_at), report.total.usage)],
        UsageBy::Model => report
            .models
            .iter()
            .map(|model| (model.model.clone(), model.totals.usage))
            .collect(),
        UsageBy::Agent => report
            .agents
            .iter()
            .map(|agent| (agent.name.clone(), agent.totals.usage))
            .collect(),
    };
    let mut known = Usage::default();
    parts.iter().for_each(|(_, usage)| known += *usage);
    let rest = report.total.usage - known;
    if rest != Usage::default() {
        parts.push((OF_RUN.to_owned(), rest));
    }
    parts
}

/// The day in UTC, such as `2026-03-01`.
fn day(at: Timestamp) -> String {
    let at = i64::try_from(at.0)
        .ok()
        .and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    at.map_or_else(String::new, |at| at.to_zoned(TimeZone::UTC).date().to_string())
}

fn row(key: Option<&String>, usage: &Usage) -> Value {
    let mut object = json!({
        "requests": usage.model_calls,
        "estimated_requests": usage.estimated_calls,
        "tool_calls": usage.tool_calls,
        "input_tokens": usage.input_tokens,
        "cached_input_tokens": usage.cached_input_tokens,
        "output_tokens": usage.output_tokens,
        "cost": usage.cost,
    });
    if let Some(key) = key {
        object["key"] = json!(key);
    }
    object
}
