//! The lead: one agent for the whole run, which answers, acts, delegates or plans (LEAD-1, LEAD-3).

use dirigent_core::agent::{Agent, AgentInput};
use dirigent_core::agent_report::{AgentAnswer, AgentReport, AgentWork, CallSummary};
use dirigent_core::approval::{Approval, ApprovalAnswer, Decision};
use dirigent_core::brief::{AgentRole, Continuation};
use dirigent_core::id::AgentId;
use dirigent_core::machine::Machine;
use dirigent_core::message::Message;
use dirigent_core::mode::Mode;
use dirigent_core::phase::Phase;
use dirigent_core::run::{Run, RunInput};
use dirigent_core::spec::RunSpec;
use dirigent_core::time::Millis;
use dirigent_core::tool::{Access, StateChange, ToolResult};
use serde_json::{Value, json};

use crate::agent_properties::assert_conversation;
use crate::driver::{agent_ended, give, planned, reflected, refused, running, told};
use crate::fixture::{
    agent_outline, agent_resumed, at, call, effect, ended_with, native, replied, says_call, spec, started,
    text, tool_ended,
};

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

fn deleted() -> StateChange {
    StateChange::FileDeleted {
        path: "x".to_owned(),
        diff: None,
        before: None,
    }
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
        !request.contains("<PLAN>") && request.contains("\"findings\":\"Done.\""),
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
