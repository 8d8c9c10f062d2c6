//! What runs ask their user for, as JSON.

use dirigent::RunView;
use dirigent::events::OpenQuestion;
use dirigent::report::WaitingCall;
use serde_json::{Value, json};

/// A run's open questions, and its calls that wait for approval. Each call has the patterns with which the user can allow it and calls like
/// it from now on.
pub(crate) fn of_view(view: &RunView) -> Value {
    let mut object = json!({});
    add(&mut object, &view.waiting(), &view.questions());
    object
}

/// The calls and questions in JSON, as fields of an object.
pub(crate) fn add(object: &mut Value, calls: &[WaitingCall], questions: &[OpenQuestion]) {
    object["approvals"] = json!(calls);
    object["questions"] = json!(questions);
}
