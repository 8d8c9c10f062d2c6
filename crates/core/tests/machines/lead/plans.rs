//! The lead's plans: approved, changed or answered with guidance by the user, and refused with all their errors (LEAD-2, PAOR-4).

use dirigent_core::agent::{Agent, AgentInput};
use dirigent_core::agent_report::AgentAnswer;
use dirigent_core::approval::{Approval, ApprovalAnswer, Decision};
use dirigent_core::brief::AgentRole;
use dirigent_core::machine::Machine;
use dirigent_core::message::Message;
use dirigent_core::mode::Mode;
use dirigent_core::run::RunInput;
use dirigent_core::spec::RunSpec;
use dirigent_core::tool::Access;
use serde_json::{Value, json};

use super::{acting_spec, continued, gives, last, lead, submits};
use crate::driver::{give, refused, running};
use crate::fixture::{agent_resumed, at, effect, replied, says_call, started, text};

#[test]
fn lead_2_the_error_for_a_call_refused_in_plan_mode_tells_the_lead_to_plan_it() {
    let mut spec = acting_spec();
    spec.mode = Mode::Plan;
    spec.setup.lead.access = Access::ReadOnly;
    spec.setup.tools[1].access = Access::ReadWrite;
    let refused = |spec: RunSpec| {
        let mut lead = started(spec, AgentRole::Lead);
        let change = says_call("change", json!({"path": "x"}), false);
        gives(&mut lead, 10, replied("a7.1", change));
        last(&lead).content().to_owned()
    };
    assert_eq!(
        refused(spec.clone()),
        "Error (access_denied): this call of `change` needs read-write access, but you have read-only access: put it into the `calls` of \
         a plan, and submit that with `submit_plan`"
    );
    spec.setup.lead.tools = vec!["look".to_owned()];
    assert_eq!(
        refused(spec.clone()),
        "Error (access_denied): you may not call `change` yourself: put it into the `calls` of a plan, and submit that with `submit_plan`"
    );
    spec.mode = Mode::Auto;
    assert!(refused(spec).contains("you may not call it"));
}

#[test]
fn paor_4_all_errors_of_a_plan_that_cannot_be_read_are_told_at_once() {
    let mut lead = lead();
    let plan = json!({"summary": "s", "answers_guidance": [4], "subtasks": [
        {"id": "a", "depends_on": ["b", "none"], "agent": "explore", "task": "Look."},
        {"id": "b", "title": "B", "agent": "explore"},
        {"id": "c", "title": "C", "depends_on": ["c"], "calls": [{"tool": "lok", "parameters": {}}, {"tool": "look"}]},
        {"id": "d", "title": "D", "agent": "explorer", "task": "Look."},
    ]});
    gives(
        &mut lead,
        10,
        replied("a7.1", says_call("submit_plan", plan, true)),
    );
    let told = last(&lead).content();
    insta::assert_snapshot!(told);
}

/// A lead whose plans need approval, and its plan, which has been waiting since 10.
fn proposing() -> (Agent, Approval) {
    let mut spec = acting_spec();
    spec.mode = Mode::Plan;
    let mut lead = started(spec, AgentRole::Lead);
    let commands = gives(
        &mut lead,
        10,
        replied("a7.1", says_call("submit_plan", proposed("x"), true)),
    );
    assert!(
        commands
            .iter()
            .any(|command| command.contains("ask to approve a7.2 submit_plan")),
        "{commands:?}"
    );
    let approval = Approval::clone(lead.approval().unwrap());
    (lead, approval)
}

fn proposed(path: &str) -> Value {
    let calls = json!([{"tool": "look", "parameters": {"path": path}}]);
    json!({"summary": "Look.", "subtasks": [{"id": "a", "title": "Look", "calls": calls}]})
}

fn decided(approval: &Approval, answer: ApprovalAnswer) -> AgentInput {
    let (effect, digest) = (approval.effect, approval.digest.clone());
    AgentInput::Decided {
        effect,
        decision: Decision { digest, answer },
    }
}

#[test]
fn lead_2_a_plan_is_reported_once_the_user_has_approved_it() {
    let (mut lead, approval) = proposing();
    assert!(lead.report().is_none());
    gives(&mut lead, 20, decided(&approval, ApprovalAnswer::Approve));
    assert!(matches!(lead.report().unwrap().result, Ok(AgentAnswer::Plan(_))));
    gives(&mut lead, 30, continued(1, "Observed."));
    assert_eq!(last(&lead).content(), "Observed.");
}

#[test]
fn lead_2_the_lead_is_told_how_the_user_changed_its_plan() {
    let (mut lead, approval) = proposing();
    let parameters = json!({"summary": "Look.", "subtasks": [{"id": "lead", "title": "?", "calls": []}]});
    let before = lead.clone();
    let invalid = lead.handle(at(20), decided(&approval, ApprovalAnswer::Edit { parameters }));
    assert!(invalid.unwrap_err().to_string().contains("the plan was refused"));
    assert_eq!(lead, before);

    let parameters = proposed("y");
    gives(
        &mut lead,
        30,
        decided(&approval, ApprovalAnswer::Edit { parameters }),
    );
    let Ok(AgentAnswer::Plan(plan)) = &lead.report().unwrap().result else {
        panic!("a plan");
    };
    assert_eq!(json!(plan), proposed("y"));
    gives(&mut lead, 40, continued(1, "Observed."));
    let told = last(&lead).content();
    assert!(
        told.starts_with("Observed.") && told.contains("The user changed the plan"),
        "{told}"
    );
}

#[test]
fn lead_2_guidance_withdraws_the_plan_that_waits() {
    let (mut lead, _) = proposing();
    let guidance = "look at y".to_owned();
    let commands = gives(&mut lead, 20, AgentInput::RunGuided { number: 1, guidance });
    assert!(
        commands.iter().any(|command| command == "ask a7.3"),
        "{commands:?}"
    );
    assert!(lead.approval().is_none());
    assert!(last(&lead).content().contains("look at y"));
}

#[test]
fn paor_8_guidance_that_answers_a_plan_is_guidance_for_the_run() {
    let (mut lead, approval) = proposing();
    let guidance = "look at y".to_owned();
    let answer = ApprovalAnswer::Guide {
        guidance: guidance.clone(),
    };
    let tells = "guide the run about a7.2: look at y".to_owned();
    assert_eq!(
        gives(&mut lead, 20, decided(&approval, answer)),
        std::slice::from_ref(&tells)
    );
    let again = lead.handle(at(21), decided(&approval, ApprovalAnswer::Approve));
    assert!(again.is_err(), "it counts once");
    let resumed = gives(&mut lead, 30, agent_resumed());
    assert!(resumed.contains(&tells), "{resumed:?}");

    let (mut run, _) = running(acting_spec());
    let guided = |guidance: &str| RunInput::PlanGuided {
        effect: effect("a1.2"),
        guidance: guidance.to_owned(),
    };
    assert_eq!(give(&mut run, 10, guided("look at y")), ["guide a1 1. look at y"]);
    refused(&mut run, 20, guided("look at y"));
    assert_eq!(run.guidance(), ["look at y"]);

    gives(&mut lead, 40, AgentInput::RunGuided { number: 1, guidance });
    let told: Vec<&str> = lead
        .conversation()
        .iter()
        .rev()
        .take(2)
        .map(Message::content)
        .collect();
    assert!(told[0].starts_with("<GUIDANCE>\n1. look at y\n"), "{told:?}");
    assert!(
        told[1].contains("gave guidance instead of approving it"),
        "{told:?}"
    );
}

#[test]
fn lead_2_a_plan_without_sub_tasks_and_an_answer_need_no_approval() {
    for reply in [says_call("submit_plan", submits(), true), text("It is 42.")] {
        let mut spec = acting_spec();
        spec.mode = Mode::Plan;
        let mut lead = started(spec, AgentRole::Lead);
        gives(&mut lead, 10, replied("a7.1", reply));
        assert!(lead.report().is_some());
    }
}

#[test]
fn lead_3_no_subtask_has_the_leads_id() {
    let mut lead = lead();
    let plan =
        json!({"summary": "s", "subtasks": [{"id": "lead", "title": "T", "agent": "explore", "task": "t"}]});
    gives(
        &mut lead,
        10,
        replied("a7.1", says_call("submit_plan", plan, true)),
    );
    assert!(
        last(&lead).content().contains("has the id `lead`"),
        "{:?}",
        last(&lead)
    );
}
