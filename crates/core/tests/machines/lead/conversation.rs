//! The lead's one conversation over all iterations: what continues it, and guidance from the user (LEAD-1, PAOR-8).

use dirigent_core::agent::AgentInput;
use dirigent_core::machine::Machine;
use dirigent_core::message::Message;
use dirigent_core::tool::ToolResult;
use serde_json::json;

use super::{continued, deleted, gives, last, lead, submits};
use crate::fixture::{at, call, native, replied, says_call, text, tool_ended};

#[test]
fn lead_1_the_message_after_a_plan_becomes_the_result_of_the_plan_call() {
    let mut lead = lead();
    gives(
        &mut lead,
        10,
        replied("a7.1", says_call("submit_plan", submits(), true)),
    );
    assert!(lead.report().is_some());
    let before = lead.conversation().len();
    assert_eq!(
        gives(&mut lead, 400_000, continued(1, "<OBSERVATIONS>")),
        ["deadline 701000", "ask a7.2"],
        "its time begins anew"
    );
    assert_eq!(lead.conversation().len(), before + 1);
    let Message::Tool { name, content, .. } = last(&lead) else {
        panic!("a result");
    };
    assert_eq!(
        (name.as_str(), content.as_str()),
        ("submit_plan", "<OBSERVATIONS>")
    );
    assert_eq!((lead.report(), lead.turns(), lead.continuations()), (None, 1, 1));
    assert_eq!(lead.work().usage.tokens(), 0, "it reports the work since then");
    assert_eq!(lead.usage().tokens(), 15);
}

#[test]
fn loop_8_after_a_plan_the_leads_earlier_calls_and_changes_are_still_counted() {
    let mut lead = lead();
    let look = |path: &str| says_call("look", json!({"path": path}), false);
    gives(&mut lead, 10, replied("a7.1", look("x")));
    let failed = ToolResult::failure("gone").with_changes(vec![deleted()]);
    gives(&mut lead, 20, tool_ended("a7.2", failed));
    gives(
        &mut lead,
        30,
        replied("a7.3", says_call("submit_plan", submits(), true)),
    );
    gives(&mut lead, 40, continued(1, "<OBSERVATIONS>"));
    gives(&mut lead, 50, replied("a7.4", look("y")));
    gives(&mut lead, 60, tool_ended("a7.5", ToolResult::success(json!(1))));
    assert_eq!(
        last(&lead).content(),
        "So far: 2 calls, 1 failed; deleted x\nOutput:\n1"
    );
}

#[test]
fn lead_1_after_a_text_answer_the_continuation_is_a_user_message() {
    let mut lead = lead();
    gives(&mut lead, 10, replied("a7.1", text("It is 42.")));
    gives(&mut lead, 20, continued(1, "Go on."));
    let content = "Go on.".to_owned();
    assert_eq!(*last(&lead), Message::User { content });
    assert_eq!(
        gives(&mut lead, 30, replied("a7.2", text("It is 43."))),
        ["finish with It is 43."]
    );
}

#[test]
fn lead_1_calls_after_a_plan_get_a_result_too() {
    let mut lead = lead();
    let calls = vec![
        call("1", "submit_plan", submits()),
        call("2", "look", json!({"path": "x"})),
    ];
    gives(&mut lead, 10, replied("a7.1", native(calls)));
    gives(&mut lead, 20, continued(1, "Observed."));
    assert!(last(&lead).content().contains("it came after the plan"));
}

#[test]
fn lead_1_calls_cut_off_by_the_end_of_the_run_are_reported_as_interrupted() {
    let mut lead = lead();
    let calls = vec![
        call("1", "change", json!({"path": "x"})),
        call("2", "look", json!({"path": "x"})),
    ];
    gives(&mut lead, 10, replied("a7.1", native(calls)));
    assert_eq!(
        gives(&mut lead, 20, continued(1, "The run was resumed.")),
        ["deadline 301020", "ask a7.3"]
    );
    let told: Vec<&str> = lead
        .conversation()
        .iter()
        .rev()
        .take(3)
        .map(Message::content)
        .collect();
    assert_eq!(told[0], "The run was resumed.");
    assert!(
        told[1..].iter().all(|result| result.contains("interrupted")),
        "{told:?}"
    );
    let late = tool_ended("a7.2", ToolResult::success(json!("late")));
    assert!(lead.handle(at(30), late).is_err());
}

#[test]
fn lead_1_a_continuation_is_accepted_once() {
    let mut lead = lead();
    gives(&mut lead, 10, replied("a7.1", text("It is 42.")));
    gives(&mut lead, 20, continued(1, "Go on."));
    assert!(lead.handle(at(30), continued(1, "Go on.")).is_err());
    assert!(lead.handle(at(30), continued(3, "Go on.")).is_err());
}

#[test]
fn paor_8_guidance_joins_the_leads_conversation_before_its_next_request() {
    let mut lead = lead();
    let guided = |number| AgentInput::RunGuided {
        number,
        guidance: "Only in src.".to_owned(),
    };
    gives(&mut lead, 10, guided(1));
    assert!(lead.handle(at(10), guided(1)).is_err(), "known");
    assert!(lead.handle(at(10), guided(3)).is_err(), "the second is missing");
    gives(
        &mut lead,
        20,
        replied("a7.1", says_call("look", json!({"path": "x"}), false)),
    );
    gives(
        &mut lead,
        30,
        tool_ended("a7.2", ToolResult::success(json!("seen"))),
    );
    assert!(last(&lead).content().starts_with("<GUIDANCE>\n1. Only in src.\n"));
    gives(&mut lead, 40, guided(2));
    gives(&mut lead, 50, replied("a7.3", text("It is 42.")));
    assert_eq!(
        lead.report().unwrap().guidance,
        Some(1),
        "it did not hear the second"
    );
}

#[test]
fn paor_8_urgent_guidance_cancels_the_leads_request_or_call_not_the_lead() {
    let redirected = |number| AgentInput::Redirected {
        number,
        guidance: "Not that.".to_owned(),
    };
    let mut lead = lead();
    assert_eq!(gives(&mut lead, 10, redirected(1)), ["stop", "ask a7.2"]);
    assert_eq!(lead.turns(), 1);
    assert!(lead.handle(at(20), replied("a7.1", text("Late."))).is_err());
    let calls = vec![
        call("1", "change", json!({"path": "x"})),
        call("2", "change", json!({"path": "y"})),
    ];
    gives(&mut lead, 20, replied("a7.2", native(calls)));
    assert_eq!(gives(&mut lead, 30, redirected(2)), ["stop", "ask a7.4"]);
    let codes = lead.conversation().iter().rev().skip(1).take(2);
    assert!(
        codes
            .into_iter()
            .all(|result| result.content().contains("did not finish"))
    );
    let delegate = says_call("delegate", json!({"agent": "explore", "task": "Look."}), false);
    gives(&mut lead, 40, replied("a7.4", delegate));
    assert_eq!(
        gives(&mut lead, 50, redirected(3)),
        [""; 0],
        "the run stops the delegate"
    );
    let findings = tool_ended("a7.5", ToolResult::failure("cancelled"));
    assert_eq!(gives(&mut lead, 60, findings), ["deadline 301020", "ask a7.6"]);
}
