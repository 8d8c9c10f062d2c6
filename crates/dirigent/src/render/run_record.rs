//! A run's record as JSON, as lists of runs show it.

use dirigent_store::{RunRecord, RunState};
use serde_json::{Value, json};

/// Returns the JSON object of a run in a list: `{"run", "state", "goal", "workspace", "created_at", "ended_at", "owner_pid", "entries",
/// "forked_from"}`. Times are milliseconds since 1970-01-01 UTC.
pub fn run_record(record: &RunRecord) -> Value {
    json!({
        "run": record.run,
        "state": RunState::from_record(record),
        "goal": record.goal,
        "workspace": record.workspace,
        "created_at": record.created_at,
        "ended_at": record.ended_at,
        "owner_pid": record.owner_pid,
        "entries": record.entries,
        "forked_from": fork_point(record),
    })
}

/// Returns where the run was forked, as the JSON object `{"run", "at"}`; `null` if the run is not a fork.
pub fn fork_point(record: &RunRecord) -> Value {
    record
        .forked_from
        .map_or(Value::Null, |point| json!({"run": point.run, "at": point.seq}))
}
