//! Guidance that cannot wait (PAOR-8).

use dirigent_core::agent_report::{AgentAnswer, AgentFailure, AgentReport, AgentWork};
use dirigent_core::end_reason::EndReason;
use dirigent_core::observation::SubTaskResult;
use dirigent_core::phase::Phase;
use dirigent_core::plan::SubTaskState;
use dirigent_core::run::{Run, RunInput};
use dirigent_core::time::Millis;
use dirigent_core::tool::{StateChange, ToolResult};
use dirigent_core::user_request::UserRequestKind;
use serde_json::{Value, json};

use crate::driver::{
    acting, agent_ended, answered, ended, give, planned, reflected, reflecting, refused, running, told,
};
use crate::fixture::{effect, ended_with, plan, resumed, spec, usage};

fn redirected(guidance: &str) -> RunInput {
    RunInput::Redirected {
        guidance: guidance.to_owned(),
    }
}

fn cancelled(of: &str, changed: &str) -> RunInput {
    let report = AgentReport {
        result: Err(AgentFailure::Cancelled),
        work: AgentWork {
            changes: vec![StateChange::FileEdited {
                after: None,
                before: None,
                path: changed.to_owned(),
                diff: None,
            }],
            usage: usage(10, 5),
            ..AgentWork::default()
        },
        duration: Millis(40),
        guidance: None,
    };
    agent_ended(of, report)
}

/// The agent is `run.2`, the first of two calls is `run.3`; `then` waits for the agent, `last` for a free slot.
fn under_way() -> Run {
    let mut spec = spec();
    spec.limits.max_parallel = 2;
    let look = json!({"tool": "look", "parameters": {"path": "x"}});
    let four = json!({"summary": "s", "subtasks": [
        {"id": "edit", "title": "E", "agent": "implement", "task": "t"},
        {"id": "look", "title": "L", "calls": [look, look]},
        {"id": "then", "title": "T", "depends_on": ["edit"], "agent": "explore", "task": "t"},
        {"id": "last", "title": "Z", "agent": "explore", "task": "t"}
    ]});
    let (run, started) = acting(spec, &four);
    assert_eq!(
        started,
        [
            "start run.2 a2 implement",
            r#"run run.3 for look: look {"path":"x"}"#,
            "timer Call(3) 901000"
        ]
    );
    run
}

#[test]
fn paor_8_redirecting_stops_running_work_and_plans_again_after_its_end() {
    let mut run = under_way();
    assert_eq!(
        give(&mut run, 10, redirected("Only in src/utils.")),
        ["stop run.3", "stop agent a2"]
    );
    // sub-tasks that were ready do not start when work ends
    assert_eq!(
        give(&mut run, 20, cancelled("run.2", "a.rs")),
        ["Acting -> Observing (1)"]
    );
    assert_eq!(
        give(&mut run, 30, ended("run.3", ToolResult::success(Value::Null))),
        [
            "Observing -> Reflecting (1)",
            "Reflecting -> Planning (2)",
            "continue run.5 a1 lead"
        ]
    );
    let iteration = &run.iterations()[0];
    let states: Vec<SubTaskState> = (0..4).map(|index| iteration.graph.state(index)).collect();
    assert_eq!(
        states,
        [
            SubTaskState::Failed,
            SubTaskState::Failed,
            SubTaskState::Skipped,
            SubTaskState::Skipped
        ]
    );
    assert!(iteration.reflection.is_none());
    let SubTaskResult::Agent { result, .. } = &iteration.observation(0).unwrap().finding else {
        panic!("{iteration:?}");
    };
    assert_eq!(*result, Err(AgentFailure::Redirected));
    let SubTaskResult::Calls { calls } = &iteration.observation(1).unwrap().finding else {
        panic!("{iteration:?}");
    };
    let ends: Vec<bool> = calls.iter().map(|call| call.result.succeeded()).collect();
    assert_eq!(ends, [true, false]);
    for skipped in [2, 3] {
        assert_eq!(
            iteration.observation(skipped).unwrap().finding,
            SubTaskResult::Skipped { because: None }
        );
    }
    // the request for the next plan has everything
    let task = &told(&run, "run.5");
    for told in [
        "Only in src/utils.",
        "edited a.rs",
        "the agent was stopped, because the user gave guidance",
        "the call did not finish, because the user gave guidance",
        r#""because":"the user gave guidance that changes the plan""#,
    ] {
        assert!(task.contains(told), "{told} is not in {task}");
    }
}

#[test]
fn paor_8_a_second_redirection_is_added_to_the_first() {
    let mut run = under_way();
    give(&mut run, 10, redirected("One."));
    assert_eq!(give(&mut run, 20, redirected("Two.")), [""; 0]);
    give(&mut run, 30, answered("run.2", "found"));
    give(&mut run, 40, ended("run.3", ToolResult::failure("stopped")));
    assert_eq!(run.phase(), Phase::Planning);
    let task = &told(&run, "run.4");
    assert!(task.contains("One.") && task.contains("Two."), "{task}");
}

#[test]
fn paor_8_a_call_that_does_not_stop_ends_at_its_own_time_limit() {
    let mut run = under_way();
    give(&mut run, 10, redirected("Stop."));
    give(&mut run, 20, answered("run.2", "found"));
    let timer = RunInput::TimerFired {
        timer: dirigent_core::run::RunTimer::Call(3),
    };
    assert_eq!(
        give(&mut run, 900_000, timer),
        [
            "stop run.3",
            "Observing -> Reflecting (1)",
            "Reflecting -> Planning (2)",
            "continue run.4 a1 lead"
        ]
    );
}

#[test]
fn paor_8_after_a_restart_interrupted_stops_are_repeated() {
    let mut run = under_way();
    give(&mut run, 10, redirected("Stop."));
    assert_eq!(
        give(&mut run, 20, resumed()),
        [
            "start run.2+1 a2 implement",
            "stop agent a2",
            "Acting -> Observing (1)"
        ]
    );
    assert_eq!(
        give(&mut run, 30, cancelled("run.2+1", "a.rs")),
        [
            "Observing -> Reflecting (1)",
            "Reflecting -> Planning (2)",
            "continue run.4 a1 lead"
        ]
    );
}

#[test]
fn paor_8_a_working_lead_receives_guidance_and_plans_the_same_iteration() {
    let (mut run, _) = running(spec());
    assert_eq!(
        give(&mut run, 10, redirected("Rather so.")),
        ["redirect a1 1. Rather so."]
    );
    assert_eq!((run.iteration(), run.phase()), (1, Phase::Planning));
    // Guidance is answered only by a plan whose lead has received it.
    let heard = |guidance| AgentReport {
        guidance: Some(guidance),
        ..ended_with(AgentAnswer::Plan(plan(&json!({"summary": "s", "subtasks": []}))))
    };
    for (guidance, after) in [(1, Phase::Complete), (0, Phase::Planning)] {
        let mut run = run.clone();
        give(&mut run, 20, agent_ended("run.1", heard(guidance)));
        give(&mut run, 30, reflected("run.2", "achieved", "Done."));
        assert_eq!(run.phase(), after, "{guidance}");
    }
}

#[test]
fn paor_8_a_reflector_is_stopped_and_the_next_iteration_planned() {
    let mut run = reflecting(spec());
    assert_eq!(
        give(&mut run, 10, redirected("Not so.")),
        [
            "stop agent a2",
            "Reflecting -> Planning (2)",
            "continue run.4 a1 lead"
        ]
    );
    assert_eq!(
        give(&mut run, 20, reflected("run.3", "achieved", "Done.")),
        [""; 0]
    );
    assert_eq!(run.usage().tokens(), 30);
    assert!(run.iterations()[0].reflection.is_none());
}

#[test]
fn paor_8_a_question_is_withdrawn() {
    let mut run = reflecting(spec());
    give(&mut run, 10, reflected("run.3", "ask_user", "Hm."));
    assert_eq!(
        give(&mut run, 20, redirected("Neither.")),
        ["Reflecting -> Planning (2)", "continue run.5 a1 lead"]
    );
    refused(
        &mut run,
        30,
        RunInput::UserAnswered {
            effect: effect("run.4"),
            answer: "a".to_owned(),
        },
    );
}

#[test]
fn paor_8_redirecting_in_the_last_iteration_ends_the_run_at_its_limit() {
    let mut spec = spec();
    spec.limits.max_iterations = 1;
    let one =
        json!({"summary": "s", "subtasks": [{"id": "p", "title": "P", "agent": "explore", "task": "t"}]});
    let (mut run, _) = acting(spec, &one);
    assert_eq!(give(&mut run, 10, redirected("Stop.")), ["stop agent a2"]);
    give(&mut run, 20, cancelled("run.2", "a.rs"));
    assert_eq!(run.end(), Some(&EndReason::IterationLimit { max_iterations: 1 }));
}

#[test]
fn paor_8_a_planned_call_that_waits_for_a_person_never_runs() {
    let mut spec = spec();
    spec.setup.tools[1].requires_approval = true;
    let one = json!({"summary": "s", "subtasks": [
        {"id": "p", "title": "P", "calls": [{"tool": "change", "parameters": {"path": "x"}}]}
    ]});
    let (mut run, asked) = acting(spec, &one);
    assert!(asked.iter().any(|line| line == "await user run.2"), "{asked:?}");
    assert_eq!(
        give(&mut run, 10, redirected("Not that.")),
        [
            "Acting -> Observing (1)",
            "Observing -> Reflecting (1)",
            "Reflecting -> Planning (2)",
            "continue run.3 a1 lead"
        ]
    );
    assert_eq!(run.approvals().count(), 0);
    let task = &told(&run, "run.3");
    assert!(task.contains("the call did not finish"), "{task}");
}

#[test]
fn paor_8_sub_tasks_skipped_for_a_failure_are_not_attributed_to_guidance() {
    let mut run = under_way();
    give(&mut run, 10, redirected("Only in src/utils."));
    let failed = AgentReport {
        result: Err(AgentFailure::TurnLimit { max_turns: 10 }),
        work: AgentWork::default(),
        duration: Millis(40),
        guidance: None,
    };
    give(&mut run, 20, agent_ended("run.2", failed));
    give(&mut run, 30, ended("run.3", ToolResult::failure("stopped")));
    let because = |index| run.iterations()[0].observation(index).unwrap().finding.clone();
    assert_eq!(
        because(2),
        SubTaskResult::Skipped {
            because: Some("edit".into())
        }
    );
    assert_eq!(because(3), SubTaskResult::Skipped { because: None });
}

#[test]
fn paor_8_an_agent_whose_call_waits_for_approval_is_stopped_before_the_next_plan() {
    let mut run = under_way();
    let call = effect("a2.2");
    give(
        &mut run,
        5,
        RunInput::CallAwaitsUser {
            effect: call,
            guidance: None,
            request: UserRequestKind::Decision,
            allowed: 0,
        },
    );
    give(&mut run, 6, ended("run.3", ToolResult::failure("no such file")));
    assert_eq!(run.awaited_call(), None, "`last` goes on");
    give(&mut run, 7, answered("run.4", "found"));
    assert_eq!(run.awaited_call(), Some(call));
    assert_eq!(give(&mut run, 10, redirected("Not that.")), ["stop agent a2"]);
    // the call ends without a person: the run no longer waits for one
    assert_eq!(run.awaited_call(), None);
    give(&mut run, 11, RunInput::CallSettled { effect: call });
    assert_eq!(
        give(&mut run, 12, cancelled("run.2", "a.rs")),
        [
            "Observing -> Reflecting (1)",
            "Reflecting -> Planning (2)",
            "continue run.5 a1 lead"
        ]
    );
}

#[test]
fn paor_8_a_delegate_is_stopped_with_its_caller_and_its_changes_are_observed() {
    let mut spec = spec();
    spec.setup.agents[1].tools.push("delegate".to_owned());
    let one =
        json!({"summary": "s", "subtasks": [{"id": "p", "title": "P", "agent": "implement", "task": "t"}]});
    let (mut run, _) = acting(spec, &one);
    let delegated = RunInput::Delegated {
        effect: effect("a2.2"),
        agent: "explore".to_owned(),
        task: "t".to_owned(),
    };
    give(&mut run, 5, delegated);
    assert_eq!(
        give(&mut run, 10, redirected("Not that.")),
        ["stop agent a2", "stop agent a3"]
    );
    // the next plan is made once both have ended
    assert_eq!(give(&mut run, 20, cancelled("run.2", "own.rs")), [""; 0]);
    assert_eq!(
        give(&mut run, 30, cancelled("run.3", "others.rs")),
        [
            "Acting -> Observing (1)",
            "Observing -> Reflecting (1)",
            "Reflecting -> Planning (2)",
            "continue run.4 a1 lead"
        ]
    );
    let observed = run.iterations()[0].observation(0).unwrap();
    let changed: Vec<String> = observed.changes().map(ToString::to_string).collect();
    assert_eq!(changed, ["edited own.rs", "edited others.rs"]);
    let SubTaskResult::Agent { result, .. } = &observed.finding else {
        panic!("{observed:?}");
    };
    assert_eq!(*result, Err(AgentFailure::Redirected));
}

/// A run whose lead has crashed in the given iteration while its delegate works.
fn crashed_while_delegating(iteration: u32) -> Run {
    let mut spec = spec();
    spec.setup.lead.tools.push("delegate".to_owned());
    let (mut run, _) = running(spec);
    let (mut lead, mut delegate) = ("run.1", "a2");
    if iteration == 2 {
        let look = json!({"id": "look", "title": "L", "agent": "explore", "task": "t"});
        give(
            &mut run,
            1,
            planned("run.1", &json!({"summary": "s", "subtasks": [look]})),
        );
        give(&mut run, 2, answered("run.2", "found"));
        give(&mut run, 3, reflected("run.3", "continue", "Go on."));
        (lead, delegate) = ("run.4", "a4");
    }
    let call = effect("a1.2");
    let (agent, task) = ("explore".to_owned(), "Find `a`.".to_owned());
    give(&mut run, 4, RunInput::ActingBegan { effect: effect(lead) });
    give(
        &mut run,
        5,
        RunInput::Delegated {
            effect: call,
            agent,
            task,
        },
    );
    let crashed = AgentReport {
        result: Err(AgentFailure::Panicked {
            message: "boom".to_owned(),
        }),
        ..ended_with(AgentAnswer::Text(String::new()))
    };
    assert_eq!(
        give(&mut run, 6, agent_ended(lead, crashed)),
        [format!("stop agent {delegate}")]
    );
    run
}

#[test]
fn paor_8_guidance_for_a_lead_that_crashed_while_delegating_starts_nothing() {
    for (iteration, delegate) in [(1, "run.2"), (2, "run.5")] {
        let mut run = crashed_while_delegating(iteration);
        assert_eq!(
            give(&mut run, 10, redirected("Not that.")),
            [""; 0],
            "iteration {iteration}"
        );
        assert_eq!(run.guidance(), ["Not that."]);
        give(&mut run, 20, cancelled(delegate, "a.rs"));
        assert!(
            matches!(run.end(), Some(EndReason::Failed { error, .. }) if error.contains("boom")),
            "{:?}",
            run.end()
        );
    }
}

#[test]
fn host_9_a_fork_of_a_run_whose_delegating_lead_crashed_waits_for_the_delegate() {
    let forked = RunInput::Resumed {
        last_seen: crate::fixture::at(6),
        forked: true,
        limits: None,
        interrupted: Default::default(),
    };
    for (iteration, delegate) in [(1, "run.2+1"), (2, "run.5+1")] {
        let mut run = crashed_while_delegating(iteration);
        give(&mut run, 10, forked.clone());
        assert_eq!(run.phase(), Phase::Acting, "iteration {iteration}");
        give(&mut run, 20, cancelled(delegate, "a.rs"));
        assert_eq!(run.phase(), Phase::Failed);
    }
}
