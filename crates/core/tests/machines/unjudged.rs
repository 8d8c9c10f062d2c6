//! Work of an iteration that ended without a reflection: the reflector judges it before the run completes (LEAD-3, PAOR-10).

use dirigent_core::agent_report::{AgentAnswer, AgentFailure, AgentReport, AgentWork};
use dirigent_core::end_reason::EndReason;
use dirigent_core::message::{ModelFailure, ModelFailureKind};
use dirigent_core::phase::Phase;
use dirigent_core::run::{Run, RunInput};
use dirigent_core::tool::StateChange;
use serde_json::json;

use crate::driver::{acting, agent_ended, give, reflected, running, told};
use crate::fixture::{effect, ended_with, resumed, spec};

fn guided() -> RunInput {
    RunInput::Guided {
        guidance: "Only in src.".to_owned(),
    }
}

/// The lead's report after it edited a file and answered, having received this much guidance.
fn edited(guidance: u32) -> AgentReport {
    AgentReport {
        work: AgentWork {
            changes: vec![StateChange::FileEdited {
                path: "a.rs".to_owned(),
                diff: None,
                before: None,
                after: None,
            }],
            ..AgentWork::default()
        },
        ..answered("Edited.", guidance)
    }
}

fn answered(text: &str, guidance: u32) -> AgentReport {
    AgentReport {
        guidance: Some(guidance),
        ..ended_with(AgentAnswer::Text(text.to_owned()))
    }
}

fn failed(failure: AgentFailure) -> AgentReport {
    AgentReport {
        result: Err(failure),
        ..edited(0)
    }
}

fn unavailable() -> AgentFailure {
    AgentFailure::Model {
        failure: ModelFailure {
            kind: ModelFailureKind::Unavailable { retry_after: None },
            message: "no answer".to_owned(),
        },
    }
}

/// Continues the lead as `lead` in iteration 2; it answers without a call. Checks that the reflector judges the earlier work.
#[track_caller]
fn check_judged(mut run: Run, lead: &str, reflector: &str, guidance: u32) {
    let commands = give(
        &mut run,
        100,
        agent_ended(lead, answered("Nothing more to do.", guidance)),
    );
    assert_eq!(run.phase(), Phase::Reflecting, "{commands:?}");
    let request = told(&run, reflector);
    assert!(
        request.contains("a.rs") && request.contains("Nothing more to do."),
        "{request}"
    );
    let continues = reflected(reflector, "continue", "One is left.");
    let mut continued = run.clone();
    give(&mut continued, 110, continues);
    assert_eq!(continued.phase(), Phase::Planning);
    give(&mut run, 110, reflected(reflector, "achieved", "It is done."));
    assert_eq!(run.end(), Some(&EndReason::GoalAchieved));
    let [first, second] = run.iterations() else {
        panic!("{:?}", run.iterations());
    };
    assert_eq!((first.number, second.number), (1, 2));
    assert!(first.reflection.is_none() && second.reflection.is_some());
}

#[test]
fn lead_3_work_before_a_failure_is_judged_once_the_run_is_resumed() {
    // The reflector's model is unavailable.
    let (mut run, _) = running(spec());
    give(&mut run, 10, agent_ended("run.1", edited(0)));
    give(&mut run, 20, agent_ended("run.2", failed(unavailable())));
    give(&mut run, 30, resumed());
    check_judged(run, "run.3", "run.4", 0);
    // The lead reaches one of its own limits.
    let (mut run, _) = running(spec());
    let limit = AgentFailure::TurnLimit { max_turns: 3 };
    give(&mut run, 10, agent_ended("run.1", failed(limit)));
    give(&mut run, 20, resumed());
    check_judged(run, "run.2", "run.3", 0);
}

#[test]
fn lead_3_work_before_late_guidance_is_judged_after_the_next_answer() {
    let (mut run, _) = running(spec());
    give(&mut run, 10, guided());
    give(&mut run, 20, agent_ended("run.1", edited(0)));
    check_judged(run, "run.2", "run.3", 1);
}

#[test]
fn lead_3_work_of_a_plan_stopped_by_urgent_guidance_is_judged_after_the_next_answer() {
    let edit = json!({"id": "edit", "title": "E", "agent": "implement", "task": "t"});
    let (mut run, _) = acting(spec(), &json!({"summary": "s", "subtasks": [edit]}));
    let guidance = "Only in src.".to_owned();
    give(&mut run, 10, RunInput::Redirected { guidance });
    give(
        &mut run,
        20,
        agent_ended("run.2", failed(AgentFailure::Cancelled)),
    );
    check_judged(run, "run.3", "run.4", 1);
}

#[test]
fn lead_3_an_answer_after_a_continue_verdict_is_judged_even_without_new_changes() {
    let (mut run, _) = running(spec());
    give(&mut run, 10, agent_ended("run.1", edited(0)));
    give(&mut run, 20, reflected("run.2", "continue", "One is left."));
    give(&mut run, 30, agent_ended("run.3", answered("I edited a.rs.", 0)));
    assert_eq!(run.phase(), Phase::Reflecting);
    assert!(told(&run, "run.4").contains("I edited a.rs."));
    give(&mut run, 40, reflected("run.4", "achieved", "It is done."));
    assert_eq!(run.end(), Some(&EndReason::GoalAchieved));
}

#[test]
fn lead_3_an_answer_after_a_continue_verdict_on_a_plan_that_only_looked_is_judged() {
    let look = json!({"id": "look", "title": "L", "agent": "implement", "task": "t"});
    let (mut run, _) = acting(spec(), &json!({"summary": "s", "subtasks": [look]}));
    give(&mut run, 10, agent_ended("run.2", answered("It is in a.rs.", 0)));
    give(
        &mut run,
        20,
        reflected("run.3", "continue", "The comment is missing."),
    );
    give(&mut run, 30, agent_ended("run.4", answered("Done.", 0)));
    assert_eq!(run.phase(), Phase::Reflecting);
}

#[test]
fn lead_3_an_answer_after_the_users_decision_is_judged_even_if_nothing_more_changed() {
    let (mut run, _) = running(spec());
    give(&mut run, 10, agent_ended("run.1", edited(0)));
    give(&mut run, 20, reflected("run.2", "ask_user", "Is that enough?"));
    let answer = RunInput::UserAnswered {
        effect: effect("run.3"),
        answer: "No.".to_owned(),
    };
    give(&mut run, 30, answer);
    give(&mut run, 40, agent_ended("run.4", answered("I edited a.rs.", 0)));
    assert_eq!(run.phase(), Phase::Reflecting);
}

#[test]
fn lead_3_work_judged_as_achieving_the_goal_is_not_judged_again() {
    let (mut run, _) = running(spec());
    give(&mut run, 10, agent_ended("run.1", edited(0)));
    give(&mut run, 20, guided());
    give(&mut run, 30, reflected("run.2", "achieved", "It is done."));
    give(&mut run, 40, agent_ended("run.3", answered("It was in src.", 1)));
    assert_eq!(run.answer(), Some("It was in src."));
}
