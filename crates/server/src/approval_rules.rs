//! `/v1/approval-rules`: the calls that the user always allows.

use axum::extract::State;
use axum::response::Response;
use dirigent::render;
use serde_json::{Value, json};

use crate::entrance::json_response;
use crate::input::Segments;
use crate::problem::Problem;
use crate::schemas;
use crate::service::Service;

/// Lists the rules by which you always allow calls, in the order in which they were added.
#[utoipa::path(get, path = "/v1/approval-rules", tag = "Approvals",
    responses((status = 200, description = "The rules", body = schemas::ApprovalRules)))]
pub(crate) async fn list(State(service): State<Service>) -> Result<Response, Problem> {
    let rules = service.dirigent.approval_rules().list().await?;
    let rules: Vec<Value> = rules.iter().map(render::approval_rule).collect();
    Ok(json_response(&json!({"rules": rules})))
}

/// Deletes a rule, and returns it. Runs that already have the rule keep it.
#[utoipa::path(delete, path = "/v1/approval-rules/{rule}", tag = "Approvals", params(schemas::RulePath),
    responses((status = 200, description = "The deleted rule", body = schemas::ApprovalRule)))]
pub(crate) async fn delete(
    State(service): State<Service>,
    Segments(id): Segments<u64>,
) -> Result<Response, Problem> {
    let rule = service.dirigent.approval_rules().delete(id).await?;
    Ok(json_response(&render::approval_rule(&rule)))
}
