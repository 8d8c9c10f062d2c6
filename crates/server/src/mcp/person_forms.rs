//! The forms in which a person sees the requests of a run, and the meaning of a filled form.

use dirigent::Steering;
use dirigent::events::OpenQuestion;
use dirigent::render::escape_invisible;
use dirigent::{ApprovalAnswer, Decision};
use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema};
use serde_json::{Map, Value, json};

use super::requests::{UserRequest, WaitingApproval};

/// Maximum length of a form's message, in bytes. A longer call is not asked about here: nobody could read it in a dialog, and it must be shown in full.
const MAX_MESSAGE: usize = 32_000;

const DECISION: &str = "decision";
const TEXT: &str = "text";
const CHOICE: &str = "choice";
const ANSWER: &str = "answer";

/// What a person has done with a form.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Filled {
    /// They have answered or decided. The message goes to the run.
    Done(Steering),
    /// They have not: why, in a sentence.
    Open(String),
}

/// The form for a request; `None` if the request is too long for one.
pub(crate) fn form(request: &UserRequest) -> Option<ElicitRequestParams> {
    let (message, schema) = match request {
        UserRequest::Question(open) => question_form(open),
        UserRequest::Call(waiting) => (waiting.text(), approval_schema()),
    };
    if message.len() > MAX_MESSAGE {
        return None;
    }
    let Value::Object(schema) = schema else {
        return None;
    };
    // Never fails: the schemas of this file are those that the protocol allows.
    let requested_schema = ElicitationSchema::from_json_schema(schema).ok()?;
    Some(ElicitRequestParams::FormElicitationParams {
        meta: None,
        message,
        requested_schema,
    })
}

fn question_form(open: &OpenQuestion) -> (String, Value) {
    let question = &open.question;
    let asked = escape_invisible(&question.question);
    let message = match &open.agent {
        Some(agent) => format!("Dirigent's agent {} asks:\n\n{asked}", escape_invisible(agent)),
        None => format!("Dirigent asks:\n\n{asked}"),
    };
    let own = |title: &str| json!({"type": "string", "title": title});
    let mut choices: Vec<&str> = Vec::new();
    for choice in &question.choices {
        if !choices.contains(&choice.as_str()) {
            choices.push(choice);
        }
    }
    let schema = match choices.is_empty() {
        true => json!({
            "type": "object",
            "properties": {ANSWER: own("Answer")},
            "required": [ANSWER],
        }),
        false => json!({
            "type": "object",
            "properties": {
                CHOICE: {"type": "string", "title": "Choice", "enum": choices},
                ANSWER: own("Another answer, in place of a choice"),
            },
        }),
    };
    (message, schema)
}

fn approval_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            DECISION: {
                "type": "string",
                "title": "Decision",
                "description": "approve: it is done exactly as shown. reject: it is not done, and the work that needs it ends. guide: it is not done, and the agent gets your guidance.",
                "enum": ["approve", "reject", "guide"],
            },
            TEXT: {
                "type": "string",
                "title": "Guidance, or the reason of a rejection",
            },
        },
        "required": [DECISION],
    })
}

/// The meaning of a filled form.
pub(crate) fn read(request: &UserRequest, filled: &ElicitResult) -> Filled {
    match filled.action {
        ElicitationAction::Accept => {}
        ElicitationAction::Decline => return Filled::Open("The user declined to answer.".to_owned()),
        _ => return Filled::Open("The user closed the dialog without an answer.".to_owned()),
    }
    let empty = Map::new();
    let content = filled
        .content
        .as_ref()
        .and_then(Value::as_object)
        .unwrap_or(&empty);
    match request {
        UserRequest::Question(open) => read_answer(open, content),
        UserRequest::Call(waiting) => read_decision(waiting, content),
    }
}

fn read_answer(open: &OpenQuestion, content: &Map<String, Value>) -> Filled {
    match text(content, ANSWER).or_else(|| text(content, CHOICE)) {
        Some(answer) => Filled::Done(Steering::Answer {
            effect: open.effect,
            answer: answer.to_owned(),
        }),
        None => Filled::Open("The user sent an empty answer.".to_owned()),
    }
}

fn read_decision(waiting: &WaitingApproval, content: &Map<String, Value>) -> Filled {
    let words = text(content, TEXT).map(str::to_owned);
    let answer = match (text(content, DECISION), words) {
        (Some("approve"), None) => ApprovalAnswer::Approve,
        (Some("approve"), Some(_)) => {
            return Filled::Open(
                "The user approved the call and wrote something as well, so nothing was decided: guidance goes with guide.".to_owned(),
            );
        }
        (Some("reject"), reason) => ApprovalAnswer::Reject { reason },
        (Some("guide"), Some(guidance)) => ApprovalAnswer::Guide { guidance },
        (Some("guide"), None) => {
            return Filled::Open("The user chose to guide the agent without writing guidance.".to_owned());
        }
        (_, _) => return Filled::Open("The user sent no decision.".to_owned()),
    };
    let approval = waiting.approval();
    Filled::Done(Steering::Decide {
        effect: approval.effect,
        decision: Decision {
            // Exactly the call that was shown: the run refuses the decision if it has changed since.
            digest: approval.digest.clone(),
            answer,
        },
    })
}

/// A text that is not empty.
fn text<'a>(content: &'a Map<String, Value>, field: &str) -> Option<&'a str> {
    content
        .get(field)?
        .as_str()
        .filter(|text| !text.trim().is_empty())
}
