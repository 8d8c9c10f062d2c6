//! `/v1/models`: the models that OpenAI clients can ask.

use axum::extract::State;
use axum::response::Response;
use dirigent::completions::OfferedModel;
use serde_json::{Value, json};

use super::errors::Refusal;
use crate::entrance::json_response;
use crate::input::Segments;
use crate::service::Service;

/// `GET /v1/models`
pub(super) async fn list(State(service): State<Service>) -> Response {
    let models = service.dirigent.completion_models();
    let models: Vec<Value> = models.iter().map(model_json).collect();
    json_response(&json!({"object": "list", "data": models}))
}

/// `GET /v1/models/{model}`
pub(super) async fn show(
    State(service): State<Service>,
    Segments(name): Segments<String>,
) -> Result<Response, Refusal> {
    let model = service.dirigent.completion_model(&name)?;
    Ok(json_response(&model_json(&model)))
}

fn model_json(model: &OfferedModel) -> Value {
    // Clients expect the time of creation, which a configuration does not have.
    json!({"id": model.name, "object": "model", "created": 0, "owned_by": model.provider})
}
