//! Sub-tasks that may fail (PAOR-4): their dependents start whatever the outcome, unless the user stops them.

use dirigent_core::agent_report::{AgentFailure, AgentReport, AgentWork};
use dirigent_core::observation::SubTaskResult;
use dirigent_core::plan::SubTaskState;
use dirigent_core::run::{Run, RunInput};
use dirigent_core::time::Millis;
use dirigent_core::tool::{ToolResult, code};
use serde_json::{Value, json};

use crate::approvals::{asking, reject, run_decided};
use crate::driver::{acting, agent_ended, answered, brief_of, ended, give, told};
use crate::fixture::spec;

/// A baseline of one call, an agent that depends on it, and a sub-task that depends on the agent.
fn baseline(tool: &str) -> Value {
    json!({"summary": "Check, then change.", "subtasks": [
        {"id": "baseline", "title": "Run the tests", "may_fail": true, "calls": [{"tool": tool, "parameters": {"path": "x"}}]},
        {"id": "edit", "title": "Change x", "depends_on": ["baseline"], "agent": "implement", "task": "Change it."},
        {"id": "after", "title": "Look", "depends_on": ["edit"], "agent": "explore", "task": "Look."}
    ]})
}

fn states(run: &Run) -> Vec<SubTaskState> {
    let graph = &run.iterations()[0].graph;
    (0..3).map(|index| graph.state(index)).collect()
}

#[test]
fn paor_4_dependents_of_a_sub_task_that_may_fail_start_and_see_its_failure() {
    let (mut run, _) = acting(spec(), &baseline("look"));
    assert_eq!(
        give(&mut run, 10, ended("run.2", ToolResult::failure("2 tests fail"))),
        ["Acting -> Observing (1)", "start run.3 a2 implement"]
    );
    let task = &brief_of(&run, "run.3").task;
    assert!(task.contains(r#""status":"failed","may_fail":true"#), "{task}");
    assert!(task.contains("2 tests fail"), "{task}");

    give(&mut run, 20, answered("run.3", "Changed."));
    give(&mut run, 30, answered("run.4", "Looked."));
    let judged = told(&run, "run.5");
    assert!(
        judged.contains(r#""status":"failed","may_fail":true"#),
        "{judged}"
    );
    assert_eq!(
        states(&run),
        [
            SubTaskState::Failed,
            SubTaskState::Succeeded,
            SubTaskState::Succeeded
        ]
    );
    assert_eq!(
        run.report().remaining,
        Vec::<String>::new(),
        "nothing is left to do"
    );
}

#[test]
fn paor_4_dependents_receive_the_error_of_an_agent_that_may_fail() {
    let plan = json!({"summary": "s", "subtasks": [
        {"id": "try", "title": "Try", "may_fail": true, "agent": "explore", "task": "Try."},
        {"id": "then", "title": "Then", "depends_on": ["try"], "agent": "explore", "task": "Go on."}
    ]});
    let (mut run, _) = acting(spec(), &plan);
    let failed = AgentReport {
        result: Err(AgentFailure::TurnLimit { max_turns: 10 }),
        work: AgentWork::default(),
        duration: Millis(1),
        guidance: None,
    };
    assert_eq!(
        give(&mut run, 10, agent_ended("run.2", failed)),
        ["Acting -> Observing (1)", "start run.3 a3 explore"]
    );
    assert!(
        brief_of(&run, "run.3")
            .task
            .contains("its limit of 10 model turns")
    );
}

#[test]
fn paor_4_a_rejected_call_skips_dependents_even_if_the_sub_task_may_fail() {
    let (mut run, _) = acting(asking(), &baseline("change"));
    let rejected = run_decided(&run, reject());
    give(&mut run, 10, rejected);
    assert_eq!(
        states(&run),
        [SubTaskState::Failed, SubTaskState::Skipped, SubTaskState::Skipped]
    );
    assert_eq!(
        run.report().remaining,
        [
            "Run the tests (failed)",
            "Change x (skipped because `baseline` failed)",
            "Look (skipped because `baseline` failed)"
        ]
    );
}

#[test]
fn paor_4_urgent_guidance_does_not_count_as_an_allowed_failure() {
    let (mut run, _) = acting(spec(), &baseline("look"));
    let guidance = "Only look.".to_owned();
    assert_eq!(
        give(&mut run, 10, RunInput::Redirected { guidance }),
        ["stop run.2"]
    );
    assert_eq!(
        give(
            &mut run,
            20,
            ended("run.2", ToolResult::failure("stopped").with_code(code::CANCELLED))
        ),
        [
            "Acting -> Observing (1)",
            "Observing -> Reflecting (1)",
            "Reflecting -> Planning (2)",
            "continue run.3 a1 lead"
        ]
    );
    assert_eq!(
        states(&run),
        [SubTaskState::Failed, SubTaskState::Skipped, SubTaskState::Skipped]
    );
    assert_eq!(
        run.report().remaining,
        [
            "Run the tests (failed)",
            "Change x (skipped because of your guidance)",
            "Look (skipped because of your guidance)"
        ]
    );
    let observation = run.iterations()[0].observation(0).unwrap();
    let SubTaskResult::Calls { calls } = &observation.finding else {
        panic!("{observation:?}");
    };
    let stopped = ToolResult::failure("stopped").with_code(code::REDIRECTED);
    assert_eq!(calls[0].result, stopped);
}
