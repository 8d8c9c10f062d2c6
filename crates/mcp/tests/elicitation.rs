//! Questions of a service to the user during a call (elicitation, MCP-6).

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex};

use dirigent_core::question::Question;
use dirigent_mcp::McpServices;
use dirigent_tools::{AskUser, ToolContext};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::{Value, json};

use crate::support::{call_in, context, running, shown};

/// A user who gives these answers in turn, and then none. Remembers the questions.
#[derive(Debug, Default)]
struct Scripted {
    answers: Mutex<VecDeque<&'static str>>,
    asked: Mutex<Vec<Question>>,
}

impl AskUser for Scripted {
    fn ask(&self, question: Question) -> BoxFuture<'static, Option<String>> {
        self.asked.lock().unwrap().push(question);
        let answer = self.answers.lock().unwrap().pop_front();
        async move { answer.map(str::to_owned) }.boxed()
    }
}

fn user(answers: &[&'static str]) -> Arc<Scripted> {
    Arc::new(Scripted {
        answers: Mutex::new(answers.iter().copied().collect()),
        ..Scripted::default()
    })
}

/// Has the service ask the user by a form with these fields, of which the first is required. Returns what the service is answered.
async fn elicit(services: &McpServices, user: Option<Arc<dyn AskUser>>, properties: Value) -> Value {
    let required: Vec<&String> = properties.as_object().unwrap().keys().take(1).collect();
    let schema = json!({"type": "object", "properties": properties, "required": required});
    let form = json!({"message": "Where\u{202e} to?", "requestedSchema": schema});
    let context = ToolContext {
        user,
        ..context(Path::new("/tmp"))
    };
    let parameters = json!({"text": "elicitation/create", "params": form.to_string()});
    let result = call_in(services, context, "ask", parameters).await;
    serde_json::from_str(&shown(&result)).unwrap()
}

fn town() -> Value {
    json!({"town": {"type": "string", "title": "Town", "description": "A place", "enum": ["Ulm", "Bonn"]}})
}

#[tokio::test]
async fn mcp_6_each_field_of_a_form_is_a_question_with_the_services_name() {
    let services = running(&[]).await;
    let user = user(&["Bonn", "7", "yes"]);
    let fields = json!({
        "town": {"type": "string", "title": "Town", "description": "A place", "enum": ["Ulm", "Bonn"]},
        "days": {"type": "integer", "minimum": 1},
        "train": {"type": "boolean", "default": false},
    });
    let answer = elicit(&services, Some(user.clone()), fields).await;
    assert_eq!(
        answer,
        json!({"action": "accept", "content": {"town": "Bonn", "days": 7, "train": true}})
    );
    let asked = user.asked.lock().unwrap();
    assert_eq!(
        asked[0].question,
        "The service test asks: Where to?\nTown: A place (one of the choices)"
    );
    assert_eq!(asked[0].choices, ["Ulm", "Bonn", "decline"]);
    assert_eq!(
        asked[1].question,
        "The service test asks: Where to?\ndays (a whole number, optional). Answer `decline` to decline, `skip` to go on without."
    );
    assert_eq!(
        asked[2].question,
        "The service test asks: Where to?\ntrain (yes or no; default: false)"
    );
    assert_eq!(asked[2].choices, ["yes", "no", "skip", "decline"]);
}

#[tokio::test]
async fn mcp_6_skipped_fields_have_their_default_or_no_value() {
    let services = running(&[]).await;
    let fields = json!({
        "town": {"type": "string", "default": "Ulm"},
        "days": {"type": "integer"},
        "ways": {"type": "array", "items": {"type": "string", "enum": ["bus", "train"]}, "default": ["bus"]},
    });
    let answer = elicit(&services, Some(user(&["skip", "skip", "bus, train"])), fields).await;
    assert_eq!(
        answer["content"],
        json!({"town": "Ulm", "ways": ["bus", "train"]})
    );
}

#[tokio::test]
async fn mcp_6_an_invalid_answer_is_asked_for_again_with_the_reason() {
    let services = running(&[]).await;
    let user = user(&["many", "0", "3"]);
    let fields = json!({"days": {"type": "integer", "minimum": 1}});
    let answer = elicit(&services, Some(user.clone()), fields).await;
    assert_eq!(answer["content"], json!({"days": 3}));
    let asked = user.asked.lock().unwrap();
    assert!(
        asked[1]
            .question
            .contains("Your answer is not valid: \"many\" is not of type"),
        "{}",
        asked[1].question
    );
}

#[tokio::test]
async fn mcp_6_a_form_is_cancelled_after_three_invalid_answers() {
    let services = running(&[]).await;
    let fields = json!({"days": {"type": "integer"}});
    let answer = elicit(&services, Some(user(&["a", "b", "c", "3"])), fields).await;
    assert_eq!(answer, json!({"action": "cancel"}));
}

#[tokio::test]
async fn mcp_6_a_declined_or_unanswered_form_has_no_content() {
    let services = running(&[]).await;
    let declined = elicit(&services, Some(user(&["decline"])), town()).await;
    assert_eq!(declined, json!({"action": "decline"}));
    let unanswered = elicit(&services, Some(user(&[])), town()).await;
    assert_eq!(unanswered, json!({"action": "cancel"}));
    let nobody = elicit(&services, None, town()).await;
    assert_eq!(nobody, json!({"action": "decline"}));
}

#[tokio::test]
async fn mcp_6_a_form_with_too_many_fields_is_declined_unasked() {
    let services = running(&[]).await;
    let user = user(&["a"]);
    let fields = (0..13).map(|number| (format!("f{number}"), json!({"type": "string"})));
    let answer = elicit(&services, Some(user.clone()), Value::Object(fields.collect())).await;
    assert_eq!(answer, json!({"action": "decline"}));
    assert!(user.asked.lock().unwrap().is_empty());
}

#[tokio::test]
async fn mcp_6_a_form_with_an_invalid_schema_is_declined_unasked() {
    let services = running(&[]).await;
    let user = user(&["a"]);
    let fields = json!({"town": {"type": "string", "oneOf": []}});
    let answer = elicit(&services, Some(user.clone()), fields).await;
    assert_eq!(answer, json!({"action": "decline"}));
    assert!(user.asked.lock().unwrap().is_empty());
}

#[tokio::test]
async fn mcp_6_values_named_skip_and_decline_can_be_chosen() {
    let services = running(&[]).await;
    let fields = json!({"action": {"type": "string", "enum": ["skip", "Decline"], "default": "skip"}});
    for (answer, expected) in [
        ("skip", json!({"action": "accept", "content": {"action": "skip"}})),
        (
            "Decline",
            json!({"action": "accept", "content": {"action": "Decline"}}),
        ),
        ("decline this form", json!({"action": "decline"})),
    ] {
        let user = user(&[answer]);
        assert_eq!(
            elicit(&services, Some(user.clone()), fields.clone()).await,
            expected
        );
        let asked = user.asked.lock().unwrap();
        assert_eq!(
            asked[0].choices,
            ["skip", "Decline", "skip this field", "decline this form"]
        );
    }
}
