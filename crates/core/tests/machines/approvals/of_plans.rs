//! Approvals of a plan's own calls, and what the run does while its agents' calls wait.

use dirigent_core::agent_report::{AgentFailure, AgentReport, AgentWork};
use dirigent_core::approval::ApprovalAnswer;
use dirigent_core::end_reason::EndReason;
use dirigent_core::phase::Phase;
use dirigent_core::policy::Ruling;
use dirigent_core::run::{RunInput, RunTimer};
use dirigent_core::time::Millis;
use dirigent_core::tool::ToolResult;
use serde_json::json;

use super::{absent, asked, asking, edit, guide, reject, rule, run_decided, run_waiting, settled};
use crate::driver::{acting, agent_ended, answered, ended, give, refused};
use crate::fixture::{at, effect, spec};

#[test]
fn host_11_the_other_branch_continues_while_one_waits() {
    let mut run = run_waiting();
    assert_eq!(
        give(&mut run, 10, answered("run.3", "Found.")),
        ["Acting -> Observing (1)", "await user run.2"]
    );
    let approve = run_decided(&run, ApprovalAnswer::Approve);
    assert_eq!(
        give(&mut run, 30, approve),
        [
            r#"run run.2 for p: change {"path":"x"}"#,
            "timer Call(2) 901030",
            "timer Deadline 501020"
        ]
    );
    assert_eq!(
        give(&mut run, 40, ended("run.2", ToolResult::success(json!("done"))))[0],
        r#"run run.4 for p: look {"path":"x"}"#
    );
}

#[test]
fn approve_2_a_rejected_call_of_a_plan_ends_its_sequence() {
    let mut run = run_waiting();
    let rejected = run_decided(&run, reject());
    assert_eq!(give(&mut run, 10, rejected), ["Acting -> Observing (1)"]);
    let observed = serde_json::to_value(&run.iterations()[0].observations).unwrap();
    assert_eq!(
        observed[0]["finding"]["calls"][0]["result"]["error"],
        "the user rejected the call: not that file"
    );
    assert_eq!(observed[0]["finding"]["calls"].as_array().unwrap().len(), 1);
    assert_eq!(observed[1]["finding"], json!({"kind": "skipped", "because": "p"}));
    assert!(run.guidance().is_empty());
}

#[test]
fn approve_2_rejected_calls_of_plans_and_agents_are_reported_with_their_reasons() {
    let mut run = run_waiting();
    let rejected = run_decided(&run, reject());
    give(&mut run, 10, rejected);
    let of_agent = AgentReport {
        result: Err(AgentFailure::Rejected {
            tool: "look".to_owned(),
            reason: None,
        }),
        work: AgentWork::default(),
        duration: Millis(1),
        guidance: None,
    };
    give(&mut run, 20, agent_ended("run.3", of_agent));
    assert_eq!(
        run.report().rejected,
        ["change, for P: not that file", "look, for R"]
    );
}

#[test]
fn approve_2_guidance_about_a_call_of_a_plan_joins_the_next_plan() {
    let mut run = run_waiting();
    let guided = run_decided(&run, guide());
    give(&mut run, 10, guided);
    let observed = serde_json::to_value(&run.iterations()[0].observations).unwrap();
    assert_eq!(
        observed[0]["finding"]["calls"][0]["result"]["error"],
        "the user did not approve this call and says: Change z instead.\nThe call did not run. Go another way by these words, or finish and say what is left."
    );
    assert_eq!(run.guidance(), ["Change z instead."]);
    let report = run.report();
    assert!(
        report.guided[0].starts_with("change, for ") && report.guided[0].ends_with(": Change z instead.")
    );
    assert_eq!(report.guidance[0].guidance, "Change z instead.");
    assert_eq!(report.guidance[0].iteration, None);
}

#[test]
fn approve_3_a_call_of_a_plan_that_is_not_approved_in_time_does_not_run() {
    let mut run = run_waiting();
    let expired = RunInput::TimerFired {
        timer: RunTimer::Approval(2),
    };
    refused(&mut run, 59_999, expired.clone());
    assert_eq!(give(&mut run, 60_000, expired), ["Acting -> Observing (1)"]);
    assert_eq!(run.usage().tool_calls, 0);
}

#[test]
fn approve_1_denied_calls_of_a_plan_fail_and_other_sub_tasks_continue() {
    let mut spec = spec();
    spec.setup.policy.rules = vec![rule(Ruling::Deny, "change")];
    let change = json!([{"tool": "change", "parameters": {"path": "x"}}]);
    let late = json!([{"tool": "look", "parameters": {"path": "x"}}, {"tool": "change", "parameters": {"path": "x"}}]);
    let subtasks = json!([
        {"id": "p", "title": "P", "calls": change},
        {"id": "q", "title": "Q", "depends_on": ["p"], "calls": change},
        {"id": "r", "title": "R", "calls": late}
    ]);
    let (mut run, commands) = acting(spec, &json!({"summary": "Change.", "subtasks": subtasks}));
    assert_eq!(
        commands,
        [
            "Acting -> Observing (1)",
            r#"run run.3 for r: look {"path":"x"}"#,
            "timer Call(3) 901000"
        ]
    );
    assert_eq!(
        give(&mut run, 10, ended("run.3", ToolResult::success(json!("seen")))),
        ["Observing -> Reflecting (1)", "start run.5 a2 reflector"]
    );
    let observed = serde_json::to_value(&run.iterations()[0].observations).unwrap();
    assert_eq!(
        observed[0]["finding"]["calls"][0]["result"]["error"],
        "this run's rules deny `change`"
    );
    assert_eq!(observed[2]["finding"]["calls"].as_array().unwrap().len(), 2);
}

#[test]
fn host_11_a_run_whose_agents_all_wait_awaits_the_user_and_pauses_its_clock() {
    let mut run = run_waiting();
    assert_eq!(give(&mut run, 10, asked("a2.4")), ["await user run.2"]);
    refused(&mut run, 20, asked("a2.4"));
    refused(&mut run, 20, asked("a9.1"));
    let deadline = RunInput::TimerFired {
        timer: RunTimer::Deadline,
    };
    refused(&mut run, 600_000, deadline.clone());
    assert_eq!(
        give(&mut run, 600_010, settled("a2.4")),
        ["timer Deadline 1101000"]
    );
    refused(&mut run, 600_020, settled("a2.4"));
    assert_eq!(run.awaited_call(), None);
    assert_eq!(
        give(&mut run, 1_100_000, deadline),
        ["Acting -> Failed (1)", "finish, time limit"]
    );
}

#[test]
fn host_11_the_end_of_an_agent_settles_its_waiting_call() {
    let mut run = run_waiting();
    give(&mut run, 10, asked("a2.4"));
    assert_eq!(run.awaited_call(), Some(effect("run.2")));
    give(&mut run, 20, answered("run.3", "Found."));
    refused(&mut run, 30, settled("a2.4"));
}

#[test]
fn paor_12_a_run_without_a_user_stops_at_approvals_and_continues_when_approved() {
    let mut run = run_waiting();
    refused(&mut run, 5, absent("run.2"));
    give(&mut run, 10, asked("a2.4"));
    assert_eq!(
        give(&mut run, 20, absent("a2.4")),
        ["finish, user intervention required"]
    );
    assert_eq!(run.end(), Some(&EndReason::UserRequired));
    assert_eq!(run.phase(), Phase::Acting);
    let approve = run_decided(&run, ApprovalAnswer::Approve);
    refused(&mut run, 30, approve.clone());
    refused(&mut run, 30, settled("a2.4"));
    let resumed = RunInput::Resumed {
        last_seen: at(20),
        forked: false,
        limits: None,
        interrupted: Default::default(),
    };
    assert_eq!(
        give(&mut run, 700_020, resumed),
        [
            r#"ask to approve run.2 change {"path":"x"}"#,
            "start run.3+1 a2 implement",
            "timer Approval(2) 761000",
            "timer Deadline 1201010"
        ]
    );
    assert_eq!(give(&mut run, 700_030, asked("a2.4")), ["await user run.2"]);
    assert_eq!(
        give(&mut run, 700_040, approve)[0],
        r#"run run.2 for p: change {"path":"x"}"#
    );
}

#[test]
fn host_11_the_awaited_call_is_announced_again_when_another_one_has_waited_longest() {
    let mut spec = asking();
    spec.limits.max_parallel = 1;
    let one = |id: &str, depends_on: &[&str]| json!({"id": id, "title": "S", "depends_on": depends_on, "calls": [{"tool": "change", "parameters": {"path": id}}]});
    let plan = json!({"summary": "s", "subtasks": [one("p", &[]), one("q", &[]), one("r", &["q"])]});
    let (mut run, commands) = acting(spec, &plan);
    // the run reports that it waits for the user only when nothing more can start
    assert_eq!(
        commands,
        [
            "timer Approval(2) 61000",
            r#"ask to approve run.2 change {"path":"p"}"#,
            "timer Approval(3) 61000",
            r#"ask to approve run.3 change {"path":"q"}"#,
            "await user run.2"
        ]
    );
    let expired = RunInput::TimerFired {
        timer: RunTimer::Approval(2),
    };
    assert_eq!(
        give(&mut run, 60_000, expired),
        ["Acting -> Observing (1)", "await user run.3"]
    );
}

#[test]
fn approve_2_edited_parameters_of_a_call_of_a_plan_run_once_they_fit() {
    let mut run = run_waiting();
    let wrong = run_decided(&run, edit(json!({"file": "z"})));
    assert!(refused(&mut run, 10, wrong).starts_with("the edited parameters are invalid: "));
    let right = run_decided(&run, edit(json!({"path": "z"})));
    assert_eq!(
        give(&mut run, 20, right),
        [r#"run run.2 for p: change {"path":"z"}"#, "timer Call(2) 901020"]
    );
    give(&mut run, 30, ended("run.2", ToolResult::success(json!("done"))));
    give(&mut run, 40, ended("run.4", ToolResult::success(json!("seen"))));
    let observed = serde_json::to_value(&run.iterations()[0].observations).unwrap();
    assert_eq!(
        observed[0]["finding"]["calls"][0]["call"]["parameters"],
        json!({"path": "z"})
    );
}

#[test]
fn approve_2_an_approved_call_of_a_plan_runs_once_and_unchanged() {
    let mut run = run_waiting();
    let approve = run_decided(&run, ApprovalAnswer::Approve);
    assert_eq!(
        give(&mut run, 10, approve.clone())[0],
        r#"run run.2 for p: change {"path":"x"}"#
    );
    assert_eq!(
        refused(&mut run, 20, approve),
        "call `run.2` is not waiting for approval: it was already decided, has ended, or needed none"
    );
}

#[test]
fn host_11_a_sub_task_that_waits_for_the_user_frees_its_slot() {
    let mut spec = asking();
    spec.limits.max_parallel = 1;
    let look = json!({"tool": "look", "parameters": {"path": "x"}});
    let change = json!({"tool": "change", "parameters": {"path": "x"}});
    let subtasks = json!([
        {"id": "p", "title": "P", "agent": "implement", "task": "t"},
        {"id": "q", "title": "Q", "calls": [look, change]},
        {"id": "r", "title": "R", "agent": "explore", "task": "t"},
        {"id": "s", "title": "S", "agent": "explore", "task": "t"}
    ]);
    let (mut run, commands) = acting(spec, &json!({"summary": "s", "subtasks": subtasks}));
    assert_eq!(commands, ["start run.2 a2 implement"]);
    assert_eq!(
        give(&mut run, 10, asked("a2.2")),
        [r#"run run.3 for q: look {"path":"x"}"#, "timer Call(3) 901010"]
    );
    assert_eq!(
        give(&mut run, 20, ended("run.3", ToolResult::success(json!("seen")))),
        [
            "timer Approval(4) 61020",
            r#"ask to approve run.4 change {"path":"x"}"#,
            "start run.5 a3 explore"
        ]
    );
    // for a while two calls are waiting
    assert_eq!(give(&mut run, 30, settled("a2.2")), [""; 0]);
    assert_eq!(
        give(&mut run, 40, answered("run.5", "Found.")),
        ["Acting -> Observing (1)"]
    );
    assert_eq!(
        give(&mut run, 50, answered("run.2", "Done.")),
        ["start run.6 a4 explore"]
    );
    assert_eq!(
        give(&mut run, 60, answered("run.6", "Found.")),
        ["await user run.4"]
    );
}

#[test]
fn host_11_an_agent_whose_delegate_waits_for_the_user_frees_its_slot() {
    let mut spec = asking();
    spec.limits.max_parallel = 1;
    spec.setup.agents[1].tools.push("delegate".to_owned());
    let subtasks = json!([
        {"id": "p", "title": "P", "agent": "implement", "task": "t"},
        {"id": "q", "title": "Q", "agent": "explore", "task": "t"}
    ]);
    let (mut run, _) = acting(spec, &json!({"summary": "s", "subtasks": subtasks}));
    let delegated = RunInput::Delegated {
        effect: effect("a2.2"),
        agent: "implement".to_owned(),
        task: "t".to_owned(),
    };
    assert_eq!(give(&mut run, 10, delegated), ["start run.3 a3 implement"]);
    assert_eq!(give(&mut run, 20, asked("a3.2")), ["start run.4 a4 explore"]);
}
