//! How a run ends, for exactly one reason each (PAOR-12), and how it waits for the user (PAOR-9).

use dirigent_core::agent_report::{AgentAnswer, AgentFailure, AgentReport, AgentWork};
use dirigent_core::budget::BudgetKind;
use dirigent_core::end_reason::EndReason;
use dirigent_core::limits::RunLimits;
use dirigent_core::plan::Plan;
use dirigent_core::run::{Run, RunInput, RunTimer};
use dirigent_core::spec::RunSpec;
use dirigent_core::time::Millis;
use dirigent_core::tool::ToolResult;
use serde_json::{Value, json};

use crate::driver::{
    acting, agent_ended, answered, ended, give, reflected, reflecting, refused, running, told,
};
use crate::fixture::{effect, ended_with, resumed, run_outline, spec};

fn deadline() -> RunInput {
    RunInput::TimerFired {
        timer: RunTimer::Deadline,
    }
}

fn user_answered(of: &str) -> RunInput {
    RunInput::UserAnswered {
        effect: effect(of),
        answer: "a, please".to_owned(),
    }
}

fn absent(of: &str) -> RunInput {
    RunInput::UserAbsent {
        effect: effect(of),
        guided: false,
    }
}

fn limited(change: impl FnOnce(&mut RunSpec)) -> RunSpec {
    let mut spec = spec();
    change(&mut spec);
    spec
}

/// Checks that the run has ended for this reason, and accepts no more inputs.
fn check_ended(run: &mut Run, reason: EndReason) {
    assert_eq!(run.end(), Some(&reason));
    assert_eq!(run_outline(&run.outstanding()), [format!("finish, {reason}")]);
    for input in [
        RunInput::Started { spec: spec().into() },
        answered("run.1", "late"),
        RunInput::ToolStarted {
            effect: effect("run.2"),
        },
        ended("run.2", ToolResult::success(Value::Null)),
        user_answered("run.4"),
        absent("run.4"),
        deadline(),
        RunInput::TimerFired {
            timer: RunTimer::Call(2),
        },
        RunInput::Cancelled,
    ] {
        let expected = format!(
            "{} is not accepted: the run is in phase {}",
            input.description(),
            run.phase()
        );
        assert_eq!(refused(run, 9_999_999, input), expected);
    }
    if !reason.is_resumable() {
        let guided = RunInput::Guided {
            guidance: "g".to_owned(),
        };
        let expected = format!("guidance is not accepted: the run is in phase {}", run.phase());
        assert_eq!(refused(run, 9_999_999, guided), expected);
        assert_eq!(
            refused(run, 9_999_999, resumed()),
            format!("the run has finished: {reason}")
        );
    }
}

#[test]
fn paor_12_goal_achieved() {
    let mut run = reflecting(spec());
    assert_eq!(
        give(&mut run, 0, reflected("run.3", "achieved", "Done.")),
        ["Reflecting -> Complete (1)", "finish, goal achieved"]
    );
    check_ended(&mut run, EndReason::GoalAchieved);
}

#[test]
fn paor_3_paor_12_iteration_limit() {
    let mut run = reflecting(limited(|spec| spec.limits.max_iterations = 1));
    assert_eq!(
        give(&mut run, 0, reflected("run.3", "continue", "Half of it is done.")),
        [
            "Reflecting -> Failed (1)",
            "finish, iteration limit: 1 planning iteration did not reach the goal"
        ]
    );
    check_ended(&mut run, EndReason::IterationLimit { max_iterations: 1 });
}

#[test]
fn paor_3_the_last_iteration_allowed_may_still_reach_the_goal() {
    let mut run = reflecting(limited(|spec| spec.limits.max_iterations = 1));
    give(&mut run, 0, reflected("run.3", "achieved", "Done."));
    check_ended(&mut run, EndReason::GoalAchieved);
}

#[test]
fn paor_3_fifteen_iterations_are_the_default() {
    assert_eq!(RunLimits::default().max_iterations, 15);
}

#[test]
fn paor_12_time_limit() {
    let timed = limited(|spec| spec.limits.timeout = Some(Millis(50)));
    let (mut run, commands) = running(timed);
    assert_eq!(
        commands,
        [
            "timer Deadline 1050",
            "Idle -> Planning (1)",
            "start run.1 a1 lead"
        ]
    );
    assert_eq!(
        refused(&mut run, 49, deadline()),
        "the expiry of a timer is not accepted: the run is in phase Planning"
    );
    assert_eq!(
        give(&mut run, 50, deadline()),
        ["Planning -> Failed (1)", "finish, time limit"]
    );
    check_ended(&mut run, EndReason::TimeLimit);
}

#[test]
fn paor_12_a_run_without_a_time_limit_has_no_deadline() {
    let (mut run, _) = running(spec());
    refused(&mut run, u64::MAX / 2, deadline());
}

/// The lead's 15 tokens stay below this limit; those of a second agent reach it.
fn thirty_tokens() -> RunSpec {
    limited(|spec| spec.limits.max_tokens = Some(30))
}

fn exhausted() -> EndReason {
    EndReason::BudgetExhausted {
        budget: BudgetKind::Tokens,
        used: 30,
        limit: 30,
    }
}

#[test]
fn paor_12_budget() {
    let mut run = reflecting(thirty_tokens());
    assert_eq!(
        give(&mut run, 0, reflected("run.3", "continue", "Half of it is done.")),
        ["Reflecting -> Failed (1)", "finish, budget: 30 of 30 tokens used"]
    );
    check_ended(&mut run, exhausted());
    assert_eq!(run.summary(), "Half of it is done.");
}

#[test]
fn paor_12_a_question_is_not_asked_if_no_budget_is_left() {
    let mut run = reflecting(thirty_tokens());
    assert_eq!(
        give(&mut run, 0, reflected("run.3", "ask_user", "Unclear.")),
        ["Reflecting -> Failed (1)", "finish, budget: 30 of 30 tokens used"]
    );
}

#[test]
fn paor_12_a_goal_achieved_with_the_last_tokens_counts_as_achieved() {
    let mut run = reflecting(thirty_tokens());
    give(&mut run, 0, reflected("run.3", "achieved", "Done."));
    check_ended(&mut run, EndReason::GoalAchieved);
}

#[test]
fn paor_6_the_agent_that_used_up_the_budget_is_observed() {
    let two = json!({"summary": "s", "subtasks": [
        {"id": "p", "title": "P", "agent": "explore", "task": "t"},
        {"id": "q", "title": "Q", "depends_on": ["p"], "agent": "explore", "task": "t"}
    ]});
    let (mut run, _) = acting(thirty_tokens(), &two);
    assert_eq!(
        give(&mut run, 0, answered("run.2", "found")),
        [
            "Acting -> Observing (1)",
            "Observing -> Failed (1)",
            "finish, budget: 30 of 30 tokens used"
        ]
    );
    assert!(run.iterations()[0].observations[0].succeeded());
    assert_eq!(run.report().remaining, ["Q (not started)"]);
    check_ended(&mut run, exhausted());
}

#[test]
fn paor_12_cancelled() {
    let mut run = reflecting(spec());
    assert_eq!(
        give(&mut run, 0, RunInput::Cancelled),
        ["Reflecting -> Failed (1)", "finish, cancelled"]
    );
    check_ended(&mut run, EndReason::Cancelled);
}

#[test]
fn paor_12_unrecoverable_error() {
    let mut run = reflecting(spec());
    give(&mut run, 0, reflected("run.3", "failed", "There is no `a`."));
    check_ended(&mut run, EndReason::failed("There is no `a`."));
}

#[test]
fn paor_12_a_lead_or_reflector_without_an_answer_is_an_unrecoverable_error() {
    let failed = AgentReport {
        result: Err(AgentFailure::TurnLimit { max_turns: 10 }),
        work: AgentWork::default(),
        duration: Millis(1),
        guidance: None,
    };
    let (mut run, _) = running(spec());
    assert_eq!(
        give(&mut run, 0, agent_ended("run.1", failed.clone())),
        [
            "Planning -> Failed (1)",
            "finish, the lead ended without an answer: the agent reached its limit of 10 model turns before it finished: \
             raise `max_turns` in this agent's limits"
        ]
    );
    let mut run = reflecting(spec());
    assert_eq!(
        give(
            &mut run,
            0,
            agent_ended("run.3", ended_with(AgentAnswer::Plan(Plan::default())))
        ),
        [
            "Reflecting -> Failed (1)",
            "finish, the reflector's answer is not a reflection"
        ]
    );
    assert!(matches!(run.end(), Some(EndReason::Failed { .. })));
}

/// A run that has asked its question as `run.4`.
fn asking(spec: RunSpec) -> Run {
    let mut run = reflecting(spec);
    assert_eq!(
        give(&mut run, 100, reflected("run.3", "ask_user", "Two fit.")),
        [r#"ask user run.4 Which one? ["a", "b"]"#]
    );
    run
}

#[test]
fn paor_9_the_answer_goes_into_the_next_plan() {
    let mut run = asking(spec());
    assert_eq!(
        run.question()
            .map(|(effect, question)| (effect.to_string(), question.question.clone())),
        Some(("run.4".to_owned(), "Which one?".to_owned()))
    );
    assert_eq!(
        give(&mut run, 200, user_answered("run.4")),
        ["Reflecting -> Planning (2)", "continue run.5 a1 lead"]
    );
    let task = &told(&run, "run.5");
    assert!(
        task.contains("<ANSWERS>\n{\"question\":\"Which one?\",\"answer\":\"a, please\"}\n</ANSWERS>"),
        "{task}"
    );
    assert_eq!(
        refused(&mut run, 300, user_answered("run.4")),
        "effect run.4 is not in progress: it has ended or never started"
    );
}

#[test]
fn paor_9_without_a_user_the_run_pauses_once_and_continues_with_a_later_answer() {
    let mut run = asking(spec());
    assert_eq!(
        give(&mut run, 200, absent("run.4")),
        ["finish, user intervention required"]
    );
    assert_eq!(run.end(), Some(&EndReason::UserRequired));
    assert_eq!(
        refused(&mut run, 201, absent("run.4")),
        "the absence of the user is not accepted: the run is in phase Reflecting"
    );
    assert_eq!(
        refused(&mut run, 202, user_answered("run.4")),
        "the answer is not accepted: the run is in phase Reflecting"
    );
    assert_eq!(
        run_outline(&run.outstanding()),
        [
            r#"ask user run.4 Which one? ["a", "b"]"#,
            "finish, user intervention required"
        ]
    );
    assert_eq!(
        give(&mut run, 300, resumed()),
        [r#"ask user run.4+1 Which one? ["a", "b"]"#]
    );
    assert_eq!(run.end(), None);
    assert_eq!(
        give(&mut run, 400, user_answered("run.4+1")),
        ["Reflecting -> Planning (2)", "continue run.5 a1 lead"]
    );
}

#[test]
fn paor_9_waiting_for_the_user_does_not_count_as_the_runs_time() {
    let mut run = asking(limited(|spec| spec.limits.timeout = Some(Millis(1_000))));
    assert_eq!(
        refused(&mut run, 5_000, deadline()),
        "the expiry of a timer is not accepted: the run is in phase Reflecting"
    );
    // The process is also stopped for a while; this time is part of the waiting and counts once.
    give(&mut run, 6_000, resumed());
    assert_eq!(
        give(&mut run, 10_100, user_answered("run.4+1")),
        [
            "timer Deadline 12000",
            "Reflecting -> Planning (2)",
            "continue run.5 a1 lead"
        ]
    );
    refused(&mut run, 10_999, deadline());
    give(&mut run, 11_000, deadline());
}

#[test]
fn paor_9_a_run_that_waits_for_the_user_can_be_cancelled() {
    let mut run = asking(spec());
    give(&mut run, 200, absent("run.4"));
    assert_eq!(
        give(&mut run, 300, RunInput::Cancelled),
        ["Reflecting -> Failed (1)", "finish, cancelled"]
    );
    check_ended(&mut run, EndReason::Cancelled);
}

#[test]
fn paor_3_a_question_is_not_asked_if_no_iteration_is_left() {
    let mut run = reflecting(limited(|spec| spec.limits.max_iterations = 1));
    assert_eq!(
        give(&mut run, 100, reflected("run.3", "ask_user", "Two fit.")),
        [
            "Reflecting -> Failed (1)",
            "finish, iteration limit: 1 planning iteration did not reach the goal"
        ]
    );
    check_ended(&mut run, EndReason::IterationLimit { max_iterations: 1 });
    let report = run.report();
    assert_eq!(report.summary, "Two fit.");
    assert_eq!(report.question.unwrap().choices, ["a", "b"]);
}

#[test]
fn paor_12_late_guidance_without_budget_does_not_undo_an_achieved_goal() {
    let mut run = reflecting(thirty_tokens());
    let guidance = "also in the docs".to_owned();
    give(&mut run, 0, RunInput::Guided { guidance });
    give(&mut run, 0, reflected("run.3", "achieved", "Done."));
    check_ended(&mut run, EndReason::GoalAchieved);
}
