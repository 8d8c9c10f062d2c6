//! What a run does when its process is restarted (HOST-2).

use dirigent_core::observation::SubTaskResult;
use dirigent_core::run::{Run, RunInput, RunTimer};
use dirigent_core::time::Millis;
use dirigent_core::tool::ToolResult;
use serde_json::{Value, json};

use crate::driver::{acting, answered, ended, give, refused, running};
use crate::fixture::{at, effect, resumed, spec};

fn tool_started(of: &str) -> RunInput {
    RunInput::ToolStarted { effect: effect(of) }
}

/// `look` is `run.2`, `change` is `run.3`, the agent is `run.4`.
fn three_under_way() -> Run {
    let three = json!({"summary": "s", "subtasks": [
        {"id": "p", "title": "P", "calls": [{"tool": "look", "parameters": {"path": "x"}}]},
        {"id": "q", "title": "Q", "calls": [{"tool": "change", "parameters": {"path": "x"}}]},
        {"id": "r", "title": "R", "agent": "explore", "task": "t"},
        {"id": "s", "title": "S", "depends_on": ["q"], "agent": "explore", "task": "t"}
    ]});
    acting(spec(), &three).0
}

#[test]
fn host_2_safe_or_unstarted_effects_are_commanded_again() {
    let mut run = three_under_way();
    give(&mut run, 0, tool_started("run.2"));
    assert_eq!(
        give(&mut run, 500, resumed()),
        [
            r#"run run.2+1 for p: look {"path":"x"}"#,
            r#"run run.3+1 for q: change {"path":"x"}"#,
            "start run.4+1 a2 explore",
            "timer Call(2) 901500",
            "timer Call(3) 901500",
        ]
    );
    for late in [
        ended("run.2", ToolResult::success(Value::Null)),
        tool_started("run.3"),
        answered("run.4", "late"),
    ] {
        refused(&mut run, 600, late);
    }
    give(&mut run, 600, ended("run.2+1", ToolResult::success(Value::Null)));
    give(&mut run, 600, answered("run.4+1", "in time"));
}

#[test]
fn host_2_an_unsafe_call_that_had_started_is_observed_as_interrupted() {
    let mut run = three_under_way();
    give(&mut run, 0, tool_started("run.3"));
    assert_eq!(
        give(&mut run, 500, resumed()),
        [
            r#"run run.2+1 for p: look {"path":"x"}"#,
            "start run.4+1 a2 explore",
            "timer Call(2) 901500",
            "Acting -> Observing (1)",
        ]
    );
    let observations = &run.iterations()[0].observations;
    let SubTaskResult::Calls { calls } = &observations[0].finding else {
        panic!("{observations:?}");
    };
    assert_eq!(
        calls[0].result,
        ToolResult::failure(
            "`change` was interrupted: the process ended while it ran, so it may or may not have taken effect. Check the \
             current state before you decide whether to call it again"
        )
        .with_code("interrupted")
    );
    assert_eq!(
        observations[1].finding,
        SubTaskResult::Skipped {
            because: Some("q".into())
        }
    );
}

#[test]
fn host_2_time_without_a_process_does_not_count() {
    let mut spec = spec();
    spec.limits.timeout = Some(Millis(1_000));
    let (mut run, _) = running(spec);
    assert_eq!(
        give(&mut run, 50_000, resumed()),
        ["start run.1+1 a1 lead", "timer Deadline 52000"]
    );
    let deadline = RunInput::TimerFired {
        timer: RunTimer::Deadline,
    };
    refused(&mut run, 50_999, deadline.clone());
    give(&mut run, 51_000, deadline);
}

#[test]
fn host_2_time_that_agents_worked_before_a_crash_counts() {
    let mut spec = spec();
    spec.limits.timeout = Some(Millis(1_000));
    let (mut run, _) = running(spec);
    let back = RunInput::Resumed {
        last_seen: at(400),
        forked: false,
        limits: None,
        interrupted: Default::default(),
    };
    assert_eq!(
        give(&mut run, 50_000, back),
        ["start run.1+1 a1 lead", "timer Deadline 51600"]
    );
}
