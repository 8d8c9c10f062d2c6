//! Resuming a run that failed at a limit, or because no model could be reached (PAOR-1, PAOR-3).

use std::collections::BTreeMap;

use dirigent_core::agent_report::{AgentFailure, AgentReport, AgentWork};
use dirigent_core::end_reason::{EndReason, FailureCause};
use dirigent_core::id::AgentId;
use dirigent_core::limits::RunLimits;
use dirigent_core::message::{ModelFailure, ModelFailureKind, Usage};
use dirigent_core::observation::SubTaskResult;
use dirigent_core::phase::Phase;
use dirigent_core::run::{RunInput, RunTimer};
use dirigent_core::spec::RunSpec;
use dirigent_core::time::Millis;
use dirigent_core::tool::StateChange;
use serde_json::json;

use crate::driver::{
    acting, agent_ended, answered, give, planned, reflected, reflecting, refused, running, told,
};
use crate::fixture::{at, spec, usage};

fn limited(change: impl FnOnce(&mut RunLimits)) -> RunSpec {
    let mut spec = spec();
    change(&mut spec.limits);
    spec
}

/// The input with which the user resumes the run, with changed limits.
fn resumed_with(change: impl FnOnce(&mut RunLimits)) -> RunInput {
    let mut limits = RunLimits::default();
    change(&mut limits);
    RunInput::Resumed {
        last_seen: at(0),
        forked: false,
        limits: Some(Box::new(limits)),
        interrupted: BTreeMap::new(),
    }
}

fn resumed_as_it_was() -> RunInput {
    RunInput::Resumed {
        last_seen: at(0),
        forked: false,
        limits: None,
        interrupted: BTreeMap::new(),
    }
}

fn model_failed(kind: ModelFailureKind) -> AgentReport {
    let failure = ModelFailure {
        kind,
        message: "no answer".to_owned(),
    };
    failed(AgentFailure::Model { failure })
}

fn failed(failure: AgentFailure) -> AgentReport {
    AgentReport {
        result: Err(failure),
        work: AgentWork::default(),
        duration: Millis(5),
        guidance: None,
    }
}

#[test]
fn paor_3_a_run_at_its_iteration_limit_continues_with_a_higher_one() {
    let mut run = reflecting(limited(|limits| limits.max_iterations = 1));
    give(&mut run, 0, reflected("run.3", "continue", "Half of it is done."));
    assert_eq!(run.phase(), Phase::Failed);
    assert_eq!(
        refused(&mut run, 10, resumed_as_it_was()),
        "the run cannot continue, because it has reached a limit: iteration limit: 1 planning iteration did not reach the goal. Resume it with a \
         higher limit"
    );
    assert_eq!(
        give(&mut run, 10, resumed_with(|limits| limits.max_iterations = 2)),
        ["Failed -> Planning (2)", "continue run.4 a1 lead"]
    );
    assert_eq!(run.end(), None);
    let task = &told(&run, "run.4");
    assert!(task.contains("Half of it is done."), "{task}");
    assert!(task.contains("<ITERATION>2 of 2</ITERATION>"), "{task}");
}

#[test]
fn paor_1_a_run_whose_model_could_not_be_reached_plans_the_same_iteration_again() {
    for kind in [
        ModelFailureKind::Unavailable { retry_after: None },
        ModelFailureKind::Configuration,
    ] {
        let (mut run, _) = running(spec());
        give(&mut run, 10, agent_ended("run.1", model_failed(kind)));
        let Some(EndReason::Failed { cause, .. }) = run.end() else {
            panic!("{:?}", run.end());
        };
        assert_eq!(*cause, FailureCause::ModelUnavailable);
        assert_eq!(
            give(&mut run, 20, resumed_as_it_was()),
            ["Failed -> Planning (1)", "continue run.2 a1 lead"]
        );
    }
}

#[test]
fn paor_1_a_run_whose_lead_reached_its_own_limit_can_be_resumed() {
    for failure in [
        AgentFailure::TurnLimit { max_turns: 3 },
        AgentFailure::TimeLimit { timeout: Millis(9) },
        AgentFailure::Stuck {
            tool: "look".to_owned(),
            times: 5,
        },
    ] {
        let (mut run, _) = running(spec());
        give(&mut run, 10, agent_ended("run.1", failed(failure)));
        assert_eq!(
            give(&mut run, 20, resumed_as_it_was()),
            ["Failed -> Planning (1)", "continue run.2 a1 lead"]
        );
    }
}

#[test]
fn paor_1_a_run_that_ended_unrecoverably_is_not_resumed() {
    let mut rejected = reflecting(spec());
    give(&mut rejected, 0, reflected("run.3", "failed", "There is no `a`."));
    assert_eq!(
        refused(&mut rejected, 10, resumed_as_it_was()),
        "the run has finished: There is no `a`."
    );
    let (mut refused_by_provider, _) = running(spec());
    let report = agent_ended("run.1", model_failed(ModelFailureKind::Rejected));
    give(&mut refused_by_provider, 10, report);
    refused(&mut refused_by_provider, 20, resumed_as_it_was());
}

#[test]
fn paor_1_used_time_counts_and_time_without_a_process_does_not() {
    let (mut run, _) = running(limited(|limits| limits.timeout = Some(Millis(50))));
    let deadline = RunInput::TimerFired {
        timer: RunTimer::Deadline,
    };
    give(&mut run, 50, deadline);
    refused(
        &mut run,
        1_000,
        resumed_with(|limits| limits.timeout = Some(Millis(50))),
    );
    assert_eq!(
        give(
            &mut run,
            1_000,
            resumed_with(|limits| limits.timeout = Some(Millis(80)))
        ),
        // 30 ms are left.
        [
            "timer Deadline 2030",
            "Failed -> Planning (1)",
            "continue run.2 a1 lead"
        ]
    );
}

#[test]
fn host_6_a_budget_that_was_used_up_must_be_raised() {
    let mut run = reflecting(limited(|limits| limits.max_tokens = Some(20)));
    give(&mut run, 0, reflected("run.3", "continue", "Not yet."));
    assert!(matches!(run.end(), Some(EndReason::BudgetExhausted { .. })));
    for too_low in [20, 30] {
        refused(
            &mut run,
            10,
            resumed_with(|limits| limits.max_tokens = Some(too_low)),
        );
    }
    assert_eq!(
        give(&mut run, 10, resumed_with(|limits| limits.max_tokens = Some(31))),
        ["Failed -> Planning (2)", "continue run.4 a1 lead"]
    );
}

#[test]
fn paor_8_guidance_for_a_run_that_failed_is_part_of_its_next_plan() {
    let mut run = reflecting(limited(|limits| limits.max_iterations = 1));
    give(&mut run, 0, reflected("run.3", "continue", "Not yet."));
    let guidance = "look in src only".to_owned();
    assert!(give(&mut run, 5, RunInput::Guided { guidance }).is_empty());
    give(&mut run, 10, resumed_with(|limits| limits.max_iterations = 2));
    let task = &told(&run, "run.4");
    assert!(task.contains("look in src only"), "{task}");
}

#[test]
fn paor_6_work_interrupted_by_the_end_of_a_run_is_observed_once_the_run_is_resumed() {
    let three = json!({"summary": "s", "subtasks": [
        {"id": "p", "title": "P", "calls": [{"tool": "change", "parameters": {"path": "x"}}]},
        {"id": "r", "title": "R", "agent": "implement", "task": "t"},
        {"id": "s", "title": "S", "depends_on": ["r"], "agent": "explore", "task": "t"}
    ]});
    let (mut run, _) = acting(limited(|limits| limits.timeout = Some(Millis(50))), &three);
    let deadline = RunInput::TimerFired {
        timer: RunTimer::Deadline,
    };
    give(&mut run, 50, deadline);
    let work = AgentWork {
        changes: vec![StateChange::FileDeleted {
            path: "y".to_owned(),
            diff: None,
            before: None,
        }],
        usage: usage(100, 10),
        ..AgentWork::default()
    };
    let before = run.usage();
    let limits = RunLimits {
        max_iterations: 2,
        ..RunLimits::default()
    };
    let commands = give(
        &mut run,
        60,
        RunInput::Resumed {
            last_seen: at(50),
            forked: false,
            limits: Some(Box::new(limits)),
            interrupted: BTreeMap::from([(AgentId(2), work.clone())]),
        },
    );
    assert_eq!(commands, ["Failed -> Planning (2)", "continue run.4 a1 lead"]);
    let iteration = &run.iterations()[0];
    let ids: Vec<String> = iteration
        .observations
        .iter()
        .map(|seen| seen.subtask.to_string())
        .collect();
    assert_eq!(ids, ["p", "r", "s"]);
    let SubTaskResult::Calls { calls } = &iteration.observations[0].finding else {
        panic!("{:?}", iteration.observations[0]);
    };
    assert!(!calls[0].result.succeeded());
    let SubTaskResult::Agent {
        result, work: seen, ..
    } = &iteration.observations[1].finding
    else {
        panic!("{:?}", iteration.observations[1]);
    };
    assert_eq!((result, seen), (&Err(AgentFailure::RunEnded), &work));
    let mut used = Usage {
        tool_calls: before.tool_calls + 1,
        ..before
    };
    used += work.usage;
    assert_eq!(run.usage(), used);
    let task = &told(&run, "run.4");
    assert!(
        task.contains("the run ended before this plan was completed: time limit"),
        "{task}"
    );
    assert!(!run.report().changed.is_empty());
    // Late completions of abandoned work no longer count.
    refused(&mut run, 70, answered("run.3", "late"));
    give(&mut run, 80, planned("run.4", &three));
}
