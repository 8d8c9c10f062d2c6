//! Whole runs with a faulty model server (HOST-7, LOOP-3, CALL-2, CALL-7, PAOR-12): every kind of fault, streamed and whole, over real
//! HTTP, and its consequences. `crates/model/tests/openai` has every status.
//!
//! A run makes four requests: one of the lead, two of an agent `writer` that calls `note`, and one of the reflector. The fault occurs once,
//! at the writer's first request ([`Once`]), or at every request ([`Always`]), with and without a second model to fall back to. In every
//! case no note is recorded twice or only in part, no request is out of order or superfluous, and a replay of the journal gives the run's
//! report.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod no_reply;
mod replies;
mod runs;

use dirigent::model::Delivery;
use dirigent_core::agent_spec::ModelProfile;
use dirigent_core::call::CallForm;
use dirigent_model_server::{Fault, FinishReason, Flaw, Gate, Reply, ToolCall, Turn};
use serde_json::json;

/// Maximum number of attempts of a request.
const ATTEMPTS: u32 = 3;
/// Part of the error after the last attempt.
const AGAIN: &str = "after 3 attempts";
/// Maximum size of a reply in bytes.
const LONGEST: usize = 20_000;

/// A fault to inject: a flaw in the reply, or something sent instead of the reply.
#[derive(Clone)]
enum Wrong {
    Instead(Fault),
    Delivered(Vec<Flaw>),
    Ends(FinishReason),
    /// Calls whose arguments are not valid JSON; in the text form, a truncated call.
    BrokenCall,
    /// The server sends nothing, not even headers.
    Silent,
    /// The server stops in the middle of the reply.
    Stalled,
}

impl Wrong {
    /// Returns the reply with the fault.
    fn with(&self, form: Form, reply: Reply) -> Turn {
        match self {
            Wrong::Instead(fault) => fault.clone().into(),
            Wrong::Delivered(flaws) => flaws.iter().copied().fold(reply, Reply::with_flaw).into(),
            Wrong::Ends(reason) => reply.with_finish_reason(reason.clone()).into(),
            Wrong::BrokenCall => form.broken(reply).into(),
            Wrong::Silent => Turn::from(reply).wait_before_headers(&Gate::new()),
            Wrong::Stalled => Turn::from(reply).wait_in_body(&Gate::new()),
        }
    }

    /// Returns true if only a timeout reveals the fault.
    fn takes_time(&self) -> bool {
        matches!(
            self,
            Wrong::Silent | Wrong::Stalled | Wrong::Instead(Fault::EndlessKeepAlive)
        )
    }
}

/// How the model calls tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// In its text (CALL-1). Padding follows the call, so that the call is complete where the reply is cut off.
    Text,
    /// Natively, separate from the text (CALL-2).
    Native,
}

impl Form {
    fn profile(self) -> ModelProfile {
        ModelProfile {
            calls: match self {
                Form::Text => CallForm::Json,
                Form::Native => CallForm::Native,
            },
            ..ModelProfile::default()
        }
    }

    /// A reply that makes these calls.
    fn calls(self, calls: &[(&str, serde_json::Value)], terminate: bool) -> Reply {
        match self {
            Form::Text => {
                let (tool, parameters) = &calls[0];
                let call = json!({"tool": tool, "parameters": parameters, "terminate": terminate});
                // Padding without words: prose would trigger a repeat request (CALL-7).
                Reply::text(format!("{call}\n\n{}", ". ".repeat(200)))
            }
            Form::Native => Reply::calls(
                calls
                    .iter()
                    .map(|(tool, parameters)| ToolCall::new(*tool, parameters)),
            ),
        }
    }

    fn broken(self, reply: Reply) -> Reply {
        match self {
            Form::Text => Reply::text(r#"{"tool": "note", "parameters": {"text": "#),
            Form::Native => Reply {
                tool_calls: vec![ToolCall::raw("note", r#"{"text": "#)],
                ..reply
            },
        }
    }

    fn plan(self) -> Reply {
        let work = json!({"id": "write", "title": "Note it", "agent": "writer", "task": "Note it."});
        self.calls(
            &[("submit_plan", json!({"summary": "Note it.", "subtasks": [work]}))],
            true,
        )
    }

    fn work(self) -> Reply {
        let one_and_two = [("note", json!({"text": "one"})), ("note", json!({"text": "two"}))];
        self.calls(&one_and_two, false)
    }

    fn reflection(self) -> Reply {
        let judged = json!({"verdict": "achieved", "summary": "It is noted."});
        self.calls(&[("submit_reflection", judged)], true)
    }

    /// The notes of a run without faults.
    fn noted(self) -> &'static [&'static str] {
        match self {
            Form::Text => &["one"],
            Form::Native => &["one", "two"],
        }
    }
}

/// The outcome of a fault that occurs once, at the writer's first request.
#[derive(Clone, Copy, Debug)]
enum Once {
    /// The fault has no effect: the reply is understood.
    Unharmed,
    /// The request is repeated, and the second reply counts.
    AskedAgain,
    /// The model receives this error and corrects itself.
    ModelTold(&'static str),
    /// The writer fails with this error, and the reflector is told.
    AgentFails(&'static str),
}

/// The outcome of a fault at every request.
#[derive(Clone, Copy, Debug)]
enum Always {
    /// The fault has no effect.
    Unharmed,
    /// The run fails after this many requests of the lead, with an error that contains these parts.
    RunFails {
        asked: usize,
        says: &'static [&'static str],
        spare: Spare,
    },
}

/// Whether the second model is used.
#[derive(Clone, Copy, Debug)]
enum Spare {
    /// The second model answers instead of the first.
    Helps,
    /// The second model is not asked: the first model has answered, or no model could help.
    NotAsked,
}

struct Row {
    name: &'static str,
    wrong: Wrong,
    deliveries: &'static [Delivery],
    forms: &'static [Form],
    once: Once,
    always: Always,
}

const BOTH: &[Delivery] = &[Delivery::Streamed, Delivery::Whole];
const STREAMED: &[Delivery] = &[Delivery::Streamed];
const WHOLE: &[Delivery] = &[Delivery::Whole];
const TEXT: &[Form] = &[Form::Text];
const NATIVE: &[Form] = &[Form::Native];
const ANY_FORM: &[Form] = &[Form::Text, Form::Native];

fn flawed(
    name: &'static str,
    flaws: &[Flaw],
    deliveries: &'static [Delivery],
    forms: &'static [Form],
) -> Row {
    Row {
        name,
        wrong: Wrong::Delivered(flaws.to_vec()),
        deliveries,
        forms,
        once: Once::Unharmed,
        always: Always::Unharmed,
    }
}

impl Row {
    /// The reply is malformed, and the model is told why.
    fn malformed(self, told: &'static str) -> Row {
        Row {
            once: Once::ModelTold(told),
            always: Always::RunFails {
                asked: 3,
                says: &["malformed 3 times in a row"],
                spare: Spare::NotAsked,
            },
            ..self
        }
    }

    /// The reply is unusable as a whole.
    fn no_reply(self, says: &'static [&'static str]) -> Row {
        Row {
            once: Once::AskedAgain,
            always: Always::RunFails {
                asked: ATTEMPTS as usize,
                says,
                spare: Spare::Helps,
            },
            ..self
        }
    }

    /// The agent ends with this error, and its request is not repeated.
    fn ends_agent(self, says: &'static [&'static str]) -> Row {
        Row {
            once: Once::AgentFails(says[0]),
            always: Always::RunFails {
                asked: 1,
                says,
                spare: Spare::NotAsked,
            },
            ..self
        }
    }

    fn wrong(self, wrong: Wrong) -> Row {
        Row { wrong, ..self }
    }
}
