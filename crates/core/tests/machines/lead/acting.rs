//! A lead that acts itself: when the acting phase begins, what the reflector judges, and what the report says (LEAD-3).

use dirigent_core::agent_report::{AgentAnswer, AgentReport, AgentWork, CallSummary};
use dirigent_core::confirmation::Outdated;
use dirigent_core::id::AgentId;
use dirigent_core::machine::Machine;
use dirigent_core::phase::Phase;
use dirigent_core::run::{Run, RunInput};
use dirigent_core::time::Millis;
use dirigent_core::tool::{StateChange, ToolResult};
use serde_json::{Value, json};

use super::{acting_spec, deleted, gives, lead, submits};
use crate::driver::{agent_ended, give, planned, reflected, refused, running, told};
use crate::fixture::{
    agent_outline, agent_resumed, at, call, effect, ended_with, native, replied, says_call, tool_ended,
};

#[test]
fn lead_3_the_acting_phase_begins_once_at_the_first_unsafe_call() {
    let mut lead = lead();
    let look = |step| call("", "look", json!({"path": step}));
    assert_eq!(
        gives(&mut lead, 10, replied("a7.1", native(vec![look("1")]))),
        ["run a7.2 call-1-1: look {\"path\":\"1\"}"]
    );
    gives(
        &mut lead,
        20,
        tool_ended("a7.2", ToolResult::success(json!("seen"))),
    );
    let change = call("", "change", json!({"path": "x"}));
    assert_eq!(
        gives(
            &mut lead,
            30,
            replied("a7.3", native(vec![change.clone(), change]))
        )[0],
        "begin to act"
    );
    let resumed = agent_outline(&lead.clone().handle(at(40), agent_resumed()).unwrap());
    assert!(
        resumed.contains(&"begin to act".to_owned()),
        "told again: {resumed:?}"
    );
    let next = gives(
        &mut lead,
        40,
        tool_ended("a7.4", ToolResult::success(json!("done"))),
    );
    assert_eq!(next, ["run a7.5 call-2-2: change {\"path\":\"x\"}"]);
}

#[test]
fn lead_3_the_acting_phase_begins_when_the_lead_delegates() {
    let mut lead = lead();
    let delegate = says_call("delegate", json!({"agent": "explore", "task": "Look."}), false);
    assert_eq!(
        gives(&mut lead, 10, replied("a7.1", delegate)),
        ["begin to act", "delegate a7.2 to explore: Look."]
    );
}

fn own(answer: AgentAnswer, changes: Vec<StateChange>) -> AgentReport {
    let report = ended_with(answer);
    AgentReport {
        work: AgentWork {
            changes,
            ..report.work
        },
        guidance: Some(0),
        ..report
    }
}

fn answer() -> AgentAnswer {
    AgentAnswer::Text("Done.".to_owned())
}

fn requested(method: &str) -> StateChange {
    StateChange::RequestSent {
        method: method.to_owned(),
        url: "https://example.com".to_owned(),
        status: 200,
    }
}

/// A run whose lead has begun to act.
fn acting() -> Run {
    let (mut run, _) = running(acting_spec());
    let effect = effect("run.1");
    assert_eq!(
        give(&mut run, 5, RunInput::ActingBegan { effect }),
        ["Planning -> Acting (1)"]
    );
    assert_eq!(give(&mut run, 6, RunInput::ActingBegan { effect }), [""; 0]);
    run
}

#[test]
fn lead_3_changes_by_the_lead_itself_are_judged() {
    let exited = StateChange::ProcessExited {
        command: "true".to_owned(),
        code: Some(0),
        files: Vec::new(),
    };
    let cases = [
        (vec![deleted()], true),
        (vec![requested("POST")], true),
        (
            vec![requested("GET"), requested("HEAD"), requested("OPTIONS")],
            false,
        ),
        (vec![exited], false),
        (vec![], false),
    ];
    for (changes, is_judged) in cases {
        let mut run = acting();
        let case = format!("{changes:?}");
        let commands = give(&mut run, 10, agent_ended("run.1", own(answer(), changes)));
        let (phase, last) = if is_judged {
            (Phase::Reflecting, "start run.2 a2 reflector")
        } else {
            (Phase::Complete, "finish, goal achieved")
        };
        assert_eq!(
            (run.phase(), commands.last().unwrap().as_str()),
            (phase, last),
            "{case}"
        );
        assert_eq!(run.iterations()[0].observations[0].subtask.0, "lead");
        assert!(!run.iterations()[0].has_plan());
    }
}

#[test]
fn paor_10_the_report_has_the_leads_answer_beside_the_reflectors_summary() {
    let mut run = acting();
    give(&mut run, 10, agent_ended("run.1", own(answer(), vec![deleted()])));
    assert_eq!(run.report().answer, None);
    give(&mut run, 20, reflected("run.2", "achieved", "The file is gone."));
    let report = run.report();
    assert_eq!(report.summary, "The file is gone.");
    assert_eq!(report.answer.as_deref(), Some("Done."));
    // An answer that nothing had to confirm is the summary.
    let mut run = acting();
    give(&mut run, 10, agent_ended("run.1", own(answer(), vec![])));
    let report = run.report();
    assert_eq!((report.summary.as_str(), report.answer), ("Done.", None));
}

#[test]
fn lead_3_the_reflector_is_told_what_changed_besides_files() {
    let rows = |rows| StateChange::RowsChanged {
        connection: "shop".to_owned(),
        table: Some("orders".to_owned()),
        rows,
    };
    let changes = vec![
        rows(1),
        requested("POST"),
        rows(2),
        requested("POST"),
        requested("GET"),
    ];
    let mut run = acting();
    give(&mut run, 10, agent_ended("run.1", own(answer(), changes)));
    let request = told(&run, "run.2");
    let expected = "<OTHER_CHANGES>\n- changed 3 rows of orders in shop\n- sent POST https://example.com, received status 200\n\
                    </OTHER_CHANGES>";
    assert!(request.contains(expected), "{request}");
}

#[test]
fn lead_3_the_work_of_the_leads_delegate_is_judged() {
    let mut run = acting();
    let mut report = own(answer(), Vec::new());
    report.work.calls.push(CallSummary {
        outdates: Outdated::Nothing,
        shown_by_diff: false,
        effect: Some(effect("a1.2")),
        tool: "delegate".to_owned(),
        parameters: Value::Null,
        success: true,
        duration: Millis(1),
        error: None,
        output: Value::Null,
        agent: Some(AgentId(2)),
    });
    give(&mut run, 10, agent_ended("run.1", report));
    assert_eq!(run.phase(), Phase::Reflecting);
    let request = told(&run, "run.2");
    assert!(
        !request.contains("<PLAN>") && request.contains("\"answer\":\"Done.\""),
        "{request}"
    );
    give(&mut run, 20, reflected("run.2", "continue", "One is left."));
    let request = told(&run, "run.3");
    assert!(
        request.contains("One is left.") && !request.contains("Done."),
        "{request}"
    );
}

#[test]
fn lead_3_the_leads_own_work_is_observed_before_its_plan_and_counted() {
    let mut run = acting();
    let submitted = AgentAnswer::Plan(crate::fixture::plan(&submits()));
    give(
        &mut run,
        10,
        agent_ended("run.1", own(submitted, vec![deleted()])),
    );
    assert_eq!(run.phase(), Phase::Reflecting);
    assert_eq!(run.report().changed[0].path, "x");
    assert!(told(&run, "run.2").contains("{\"subtask\":\"lead\""));
}

#[test]
fn paor_7_changes_of_a_failed_lead_are_in_the_report() {
    let mut run = acting();
    let report = AgentReport {
        result: Err(dirigent_core::agent_report::AgentFailure::Stuck {
            tool: "look".to_owned(),
            times: 4,
        }),
        ..own(answer(), vec![deleted()])
    };
    give(&mut run, 10, agent_ended("run.1", report));
    assert_eq!(run.phase(), Phase::Failed);
    assert_eq!(run.report().changed[0].path, "x");
}

#[test]
fn paor_8_guidance_reaches_a_lead_that_works_and_again_after_a_restart() {
    let (mut run, _) = running(acting_spec());
    let guidance = "Only in src.".to_owned();
    assert_eq!(
        give(&mut run, 10, RunInput::Guided { guidance }),
        ["guide a1 1. Only in src."]
    );
    let resumed = give(&mut run, 20, crate::fixture::resumed());
    assert!(
        resumed.contains(&"guide a1 1. Only in src.".to_owned()),
        "{resumed:?}"
    );
    let heard = |guidance| AgentReport {
        guidance: Some(guidance),
        ..ended_with(answer())
    };
    for (guidance, phase) in [(0, Phase::Planning), (1, Phase::Complete)] {
        let mut run = run.clone();
        give(&mut run, 30, agent_ended("run.1+1", heard(guidance)));
        assert_eq!(run.phase(), phase, "heard {guidance}");
    }
}

#[test]
fn lead_1_only_the_lead_can_begin_the_acting_phase() {
    let (mut run, _) = running(acting_spec());
    give(&mut run, 10, planned("run.1", &submits()));
    let effect = effect("run.2");
    refused(&mut run, 20, RunInput::ActingBegan { effect });
}
