//! Calls that wait for a person (APPROVE-1 to APPROVE-3, HOST-11, LOOP-5).

pub(crate) mod of_agents;
mod of_forks;
mod of_plans;
mod of_rules;
mod seen;

use dirigent_core::agent::{Agent, AgentInput, AgentTimer};
use dirigent_core::approval::{Approval, ApprovalAnswer, Decision};
use dirigent_core::brief::AgentRole;
use dirigent_core::limits::RunLimits;
use dirigent_core::machine::Machine;
use dirigent_core::policy::{Rule, Ruling};
use dirigent_core::run::{Run, RunInput};
use dirigent_core::spec::RunSpec;
use dirigent_core::time::Millis;
use dirigent_core::user_request::UserRequestKind;
use serde_json::{Value, json};

use crate::driver::acting;
use crate::fixture::{agent_outline, at, effect, spec, started};

/// Every `change` needs approval.
pub(super) fn asking() -> RunSpec {
    let mut spec = spec();
    spec.setup.tools[1].requires_approval = true;
    spec.limits = RunLimits {
        approval_timeout: Some(Millis(60_000)),
        timeout: Some(Millis(500_000)),
        ..RunLimits::default()
    };
    spec
}

pub(super) fn rule(ruling: Ruling, calls: &str) -> Rule {
    Rule {
        ruling,
        calls: calls.parse().unwrap(),
    }
}

pub(super) fn implementer(spec: RunSpec) -> Agent {
    started(spec, AgentRole::Sub("implement".to_owned()))
}

pub(super) fn tell(agent: &mut Agent, after: u64, input: AgentInput) -> Vec<String> {
    agent_outline(&agent.handle(at(after), input).unwrap())
}

pub(super) fn decision(approval: &Approval, answer: ApprovalAnswer) -> Decision {
    Decision {
        digest: approval.digest.clone(),
        answer,
    }
}

/// A decision about the agent's waiting call.
pub(super) fn decided(agent: &Agent, answer: ApprovalAnswer) -> AgentInput {
    let approval = agent.approval().unwrap();
    AgentInput::Decided {
        effect: approval.effect,
        decision: decision(approval, answer),
    }
}

pub(super) fn reject() -> ApprovalAnswer {
    ApprovalAnswer::Reject {
        reason: Some("not that file".to_owned()),
    }
}

pub(super) fn guide() -> ApprovalAnswer {
    ApprovalAnswer::Guide {
        guidance: "Change z instead.".to_owned(),
    }
}

pub(super) fn edit(parameters: Value) -> ApprovalAnswer {
    ApprovalAnswer::Edit { parameters }
}

pub(super) fn expiry() -> AgentInput {
    AgentInput::TimerFired {
        timer: AgentTimer::UserRequest,
    }
}

/// `p` changes x and then looks, `q` depends on it, `r` is an agent's task.
pub(super) fn sequences() -> Value {
    json!({"summary": "Change.", "subtasks": [
        {"id": "p", "title": "P", "calls": [
            {"tool": "change", "parameters": {"path": "x"}}, {"tool": "look", "parameters": {"path": "x"}}
        ]},
        {"id": "q", "title": "Q", "depends_on": ["p"], "agent": "explore", "task": "t"},
        {"id": "r", "title": "R", "agent": "implement", "task": "t"}
    ]})
}

/// A run in which a call of the plan has been waiting since 0, while an agent works.
pub(super) fn run_waiting() -> Run {
    let (run, commands) = acting(asking(), &sequences());
    assert_eq!(
        commands,
        [
            "timer Approval(2) 61000",
            r#"ask to approve run.2 change {"path":"x"}"#,
            "start run.3 a2 implement"
        ]
    );
    run
}

pub(super) fn run_decided(run: &Run, answer: ApprovalAnswer) -> RunInput {
    let approval = run.approvals().next().unwrap();
    RunInput::Decided {
        effect: approval.effect,
        decision: decision(approval, answer),
    }
}

pub(super) fn asked(of: &str) -> RunInput {
    RunInput::CallAwaitsUser {
        effect: effect(of),
        guidance: None,
        request: UserRequestKind::Decision,
        allowed: 0,
    }
}

pub(super) fn settled(of: &str) -> RunInput {
    RunInput::CallSettled { effect: effect(of) }
}

pub(super) fn absent(of: &str) -> RunInput {
    RunInput::UserAbsent {
        effect: effect(of),
        guided: false,
    }
}
