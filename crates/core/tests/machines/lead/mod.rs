//! The lead: one agent for the whole run, which answers, acts, delegates or plans (LEAD-1, LEAD-3).

mod acting;
mod conversation;
mod plans;

use dirigent_core::agent::{Agent, AgentInput};
use dirigent_core::brief::{AgentRole, Continuation};
use dirigent_core::machine::Machine;
use dirigent_core::message::Message;
use dirigent_core::spec::RunSpec;
use dirigent_core::tool::StateChange;
use serde_json::{Value, json};

use crate::agent_properties::assert_conversation;
use crate::fixture::{agent_outline, at, spec, started};

/// A lead that may look, change and delegate.
fn acting_spec() -> RunSpec {
    let mut spec = spec();
    let tools = ["look", "change", "delegate"];
    spec.setup.lead.tools = tools.map(str::to_owned).to_vec();
    spec
}

fn lead() -> Agent {
    started(acting_spec(), AgentRole::Lead)
}

fn gives(agent: &mut Agent, after: u64, input: AgentInput) -> Vec<String> {
    let commands = agent_outline(&agent.handle(at(after), input).unwrap());
    assert_conversation(agent);
    commands
}

fn continued(number: u32, message: &str) -> AgentInput {
    AgentInput::Continued {
        continuation: Continuation {
            number,
            message: message.to_owned(),
            agents_left: 3,
            guidance: 0,
        },
    }
}

fn submits() -> Value {
    json!({"summary": "Look.", "subtasks": []})
}

fn last(agent: &Agent) -> &Message {
    agent.conversation().last().unwrap()
}

fn deleted() -> StateChange {
    StateChange::FileDeleted {
        path: "x".to_owned(),
        diff: None,
        before: None,
    }
}
