//! The run machine from its start to its reflection: phases, the plan's graph, observations, guidance.

use dirigent_core::agent_report::{AgentAnswer, AgentFailure, AgentReport, AgentWork};
use dirigent_core::brief::{AgentBrief, AgentRole};
use dirigent_core::id::AgentId;
use dirigent_core::machine::Refusal;
use dirigent_core::observation::{Observation, ObservedCall, SubTaskResult};
use dirigent_core::phase::{ImpossibleTransition, Phase};
use dirigent_core::plan::SubTaskState;
use dirigent_core::run::{RunCommand, RunInput, RunTimer};
use dirigent_core::time::Millis;
use dirigent_core::tool::ToolResult;
use serde_json::{Value, json};

use crate::driver::{
    acting, agent_ended, answered, brief_of, ended, give, planned, reflected, reflecting, running, start_of,
    told,
};
use crate::fixture::{at, call, effect, ended_with, run_outline, spec, usage};

fn one_look() -> Value {
    json!({"summary": "Look.", "subtasks": [{"id": "p", "title": "P", "calls": [{"tool": "look", "parameters": {"path": "x"}}]}]})
}

fn done() -> ToolResult {
    ToolResult::success(json!("done"))
}

#[test]
fn paor_1_a_run_goes_through_its_phases_and_announces_each() {
    let (mut run, commands) = running(spec());
    assert_eq!(commands, ["Idle -> Planning (1)", "start run.1 a1 lead"]);
    assert_eq!(
        give(&mut run, 10, planned("run.1", &one_look())),
        [
            "Planning -> Acting (1)",
            r#"run run.2 for p: look {"path":"x"}"#,
            "timer Call(2) 901010"
        ]
    );
    assert_eq!(
        give(&mut run, 20, ended("run.2", done())),
        [
            "Acting -> Observing (1)",
            "Observing -> Reflecting (1)",
            "start run.3 a2 reflector"
        ]
    );
    assert_eq!(
        give(&mut run, 30, reflected("run.3", "continue", "Not yet.")),
        ["Reflecting -> Planning (2)", "continue run.4 a1 lead"]
    );
    give(&mut run, 40, planned("run.4", &one_look()));
    give(&mut run, 50, ended("run.5", done()));
    assert_eq!(
        give(&mut run, 60, reflected("run.6", "achieved", "All done.")),
        ["Reflecting -> Complete (2)", "finish, goal achieved"]
    );
    assert_eq!(run.phase(), Phase::Complete);
    assert_eq!(run.iteration(), 2);
}

#[test]
fn paor_1_every_other_transition_is_refused_with_both_names() {
    use Phase::{Acting, Complete, Failed, Idle, Observing, Planning, Reflecting};
    let phases = [Idle, Planning, Acting, Observing, Reflecting, Complete, Failed];
    let mut possible = Vec::new();
    for from in phases {
        for to in phases {
            match from.enter(to) {
                Ok(entered) => {
                    assert_eq!(entered, to);
                    possible.push((from, to));
                }
                Err(refused) => {
                    assert_eq!(refused, ImpossibleTransition { from, to });
                    assert_eq!(
                        refused.to_string(),
                        format!("a run cannot change from phase {from} to {to}")
                    );
                }
            }
        }
    }
    assert_eq!(
        possible,
        [
            (Idle, Planning),
            (Idle, Failed),
            (Planning, Acting),
            (Planning, Failed),
            (Acting, Observing),
            (Acting, Failed),
            (Observing, Reflecting),
            (Observing, Failed),
            (Reflecting, Planning),
            (Reflecting, Complete),
            (Reflecting, Failed),
            (Failed, Planning),
        ]
    );
}

#[test]
fn paor_1_an_empty_plan_goes_straight_to_reflection() {
    let (mut run, _) = running(spec());
    let empty = json!({"summary": "Nothing to do.", "subtasks": []});
    assert_eq!(
        give(&mut run, 10, planned("run.1", &empty)),
        [
            "Planning -> Acting (1)",
            "Acting -> Observing (1)",
            "Observing -> Reflecting (1)",
            "start run.2 a2 reflector"
        ]
    );
}

#[test]
fn lead_3_a_lead_that_answers_in_text_completes_the_run_without_another_request() {
    let (mut run, _) = running(spec());
    let report = ended_with(AgentAnswer::Text("It is 42.".to_owned()));
    assert_eq!(
        give(&mut run, 10, agent_ended("run.1", report)),
        [
            "Planning -> Acting (1)",
            "Acting -> Observing (1)",
            "Observing -> Reflecting (1)",
            "Reflecting -> Complete (1)",
            "finish, goal achieved"
        ]
    );
    assert_eq!(run.answer(), Some("It is 42."));
    assert_eq!(run.summary(), "It is 42.");
}

fn diamond() -> Value {
    let calls = json!([{"tool": "look", "parameters": {"path": "x"}}]);
    json!({"summary": "A diamond.", "subtasks": [
        {"id": "join", "title": "J", "depends_on": ["left", "right"], "calls": calls},
        {"id": "left", "title": "L", "depends_on": ["top"], "calls": calls},
        {"id": "right", "title": "R", "depends_on": ["top"], "calls": calls},
        {"id": "top", "title": "T", "calls": calls}
    ]})
}

#[test]
fn paor_4_a_subtask_runs_only_when_all_that_it_depends_on_succeeded() {
    let (mut run, started) = acting(spec(), &diamond());
    assert_eq!(
        started,
        [r#"run run.2 for top: look {"path":"x"}"#, "timer Call(2) 901000"]
    );
    assert_eq!(
        give(&mut run, 0, ended("run.2", done())),
        [
            "Acting -> Observing (1)",
            r#"run run.3 for left: look {"path":"x"}"#,
            "timer Call(3) 901000",
            r#"run run.4 for right: look {"path":"x"}"#,
            "timer Call(4) 901000"
        ]
    );
    assert_eq!(give(&mut run, 0, ended("run.4", done())), [""; 0]);
    assert_eq!(
        give(&mut run, 0, ended("run.3", done())),
        [r#"run run.5 for join: look {"path":"x"}"#, "timer Call(5) 901000"]
    );
}

#[test]
fn paor_4_at_most_max_parallel_sub_tasks_run_in_parallel() {
    let mut spec = spec();
    spec.limits.max_parallel = 2;
    let subtasks: Vec<Value> = (1..=3)
        .map(|n| json!({"id": format!("s{n}"), "title": "S", "agent": "explore", "task": "t"}))
        .collect();
    let (mut run, started) = acting(spec, &json!({"summary": "s", "subtasks": subtasks}));
    assert_eq!(started, ["start run.2 a2 explore", "start run.3 a3 explore"]);
    assert_eq!(
        give(&mut run, 0, answered("run.3", "found")),
        ["Acting -> Observing (1)", "start run.4 a4 explore"]
    );
}

#[test]
fn paor_4_the_dependents_of_a_failed_subtask_are_skipped_and_reflection_sees_both() {
    let (mut run, _) = acting(spec(), &diamond());
    give(&mut run, 0, ended("run.2", done()));
    give(&mut run, 5, ended("run.3", ToolResult::failure("no such file")));
    let commands = give(&mut run, 9, ended("run.4", done()));
    assert_eq!(
        commands,
        ["Observing -> Reflecting (1)", "start run.5 a2 reflector"]
    );
    let iteration = &run.iterations()[0];
    let states: Vec<SubTaskState> = (0..4).map(|index| iteration.graph.state(index)).collect();
    assert_eq!(
        states,
        [
            SubTaskState::Skipped,
            SubTaskState::Failed,
            SubTaskState::Succeeded,
            SubTaskState::Succeeded
        ]
    );
    let ends: Vec<(&str, bool)> = iteration
        .observations
        .iter()
        .map(|seen| (seen.subtask.0.as_str(), seen.succeeded()))
        .collect();
    assert_eq!(
        ends,
        [("top", true), ("left", false), ("join", false), ("right", true)]
    );
    assert_eq!(
        iteration.observations[2].finding,
        SubTaskResult::Skipped {
            because: Some("left".into())
        }
    );
    let task = &told(&run, "run.5");
    assert!(
        task.contains(r#""subtask":"left","title":"L","status":"failed""#),
        "{task}"
    );
    assert!(
        task.contains(r#""subtask":"join","title":"J","status":"skipped","because":"left""#),
        "{task}"
    );
}

#[test]
fn paor_4_an_invalid_plan_from_the_lead_ends_the_run() {
    for (subtasks, error) in [
        (
            json!([{"id": "p", "title": "P", "depends_on": ["p"], "agent": "explore", "task": "t"}]),
            "finish, sub-task `p` depends on itself: remove this dependency",
        ),
        (
            json!([{"id": "p", "title": "P", "calls": []}]),
            "finish, sub-task `p` has an empty list of `calls`: add at least one call, or set `agent` and `task` instead",
        ),
    ] {
        let (mut run, _) = running(spec());
        let faulty = json!({"summary": "s", "subtasks": subtasks});
        assert_eq!(
            give(&mut run, 10, planned("run.1", &faulty)),
            ["Planning -> Failed (1)", error]
        );
    }
}

#[test]
fn paor_5_a_sub_agent_receives_its_task_and_the_findings_of_its_dependencies() {
    let three = json!({"summary": "s", "subtasks": [
        {"id": "p", "title": "P", "agent": "explore", "task": "Find a."},
        {"id": "q", "title": "Q", "agent": "explore", "task": "Find b."},
        {"id": "r", "title": "R", "depends_on": ["p"], "agent": "implement", "task": "Change a."}
    ]});
    let (mut run, started) = acting(spec(), &three);
    assert_eq!(started, ["start run.2 a2 explore", "start run.3 a3 explore"]);
    give(&mut run, 0, answered("run.3", "b is nowhere"));
    give(&mut run, 0, answered("run.2", "a is in x.rs:3"));
    let brief = brief_of(&run, "run.4");
    assert_eq!(
        *brief,
        AgentBrief {
            agent: AgentId(4),
            role: AgentRole::Sub("implement".to_owned()),
            task: "<TASK>\nChange a.\n</TASK>\n<FINDINGS>\n{\"subtask\":\"p\",\"title\":\"P\",\"status\":\"succeeded\",\
                   \"agent\":\"explore\",\"findings\":\"a is in x.rs:3\",\"calls\":[],\"changes\":[]}\n\
                   </FINDINGS>"
                .to_owned(),
            agents_left: None,
            guidance: None,
            depth: 1,
            caller: None,
        }
    );
}

#[test]
fn paor_5_the_lead_is_told_how_many_agents_are_left() {
    let mut spec = spec();
    spec.limits.max_agents = 3;
    let two = json!({"summary": "s", "subtasks": [
        {"id": "p", "title": "P", "agent": "explore", "task": "t"},
        {"id": "q", "title": "Q", "agent": "explore", "task": "t"}
    ]});
    let (mut run, _) = acting(spec, &two);
    give(&mut run, 0, answered("run.2", "found"));
    give(&mut run, 0, answered("run.3", "found"));
    give(&mut run, 0, reflected("run.4", "continue", "More."));
    let (brief, continuation) = start_of(&run, "run.5");
    assert_eq!(brief.agents_left, Some(3));
    assert_eq!(continuation.unwrap().agents_left, 1);
}

#[test]
fn paor_6_a_sequence_is_observed_with_every_call_in_it() {
    let sequence = json!({"summary": "s", "subtasks": [{"id": "p", "title": "P", "calls": [
        {"tool": "look", "parameters": {"path": "x"}},
        {"tool": "change", "parameters": {"path": "x"}},
        {"tool": "look", "parameters": {"path": "y"}}
    ]}]});
    let (mut run, _) = acting(spec(), &sequence);
    let mut seen = done();
    seen.duration = Millis(5);
    seen.metadata.insert("bytes".to_owned(), json!(4));
    assert_eq!(
        give(&mut run, 10, ended("run.2", seen.clone())),
        [r#"run run.3 for p: change {"path":"x"}"#, "timer Call(3) 901010"]
    );
    // The first failed call ends the sequence.
    let failure = ToolResult::failure("read-only");
    assert_eq!(
        give(&mut run, 20, ended("run.3", failure.clone())),
        [
            "Acting -> Observing (1)",
            "Observing -> Reflecting (1)",
            "start run.4 a2 reflector"
        ]
    );
    let calls = vec![
        ObservedCall {
            effect: effect("run.2"),
            call: call("", "look", json!({"path": "x"})),
            result: seen,
        },
        ObservedCall {
            effect: effect("run.3"),
            call: call("", "change", json!({"path": "x"})),
            result: failure,
        },
    ];
    assert_eq!(
        run.iterations()[0].observations,
        [Observation {
            subtask: "p".into(),
            title: "P".to_owned(),
            duration: Millis(20),
            may_fail: false,
            finding: SubTaskResult::Calls { calls },
        }]
    );
    assert_eq!(run.usage().tool_calls, 2);
}

#[test]
fn paor_6_a_long_output_is_shortened_visibly_with_its_handle() {
    let (mut run, _) = acting(spec(), &one_look());
    let whole = ToolResult::success(json!("z".repeat(5_000)));
    give(&mut run, 0, ended("run.2", whole.clone()));
    let task = &told(&run, "run.3");
    assert!(
        task.contains("zzz… [2000 characters left out: read them with read_output, handle run.2] …zzz"),
        "{task}"
    );
    assert!(!task.contains(&"z".repeat(2_001)));
    let SubTaskResult::Calls { calls } = &run.iterations()[0].observations[0].finding else {
        panic!("calls");
    };
    assert_eq!(calls[0].result, whole, "the record has all of it");
}

#[test]
fn paor_7_a_failed_or_broken_agent_is_an_observation() {
    for failure in [
        AgentFailure::TurnLimit { max_turns: 10 },
        AgentFailure::Panicked {
            message: "index out of bounds".to_owned(),
        },
    ] {
        let agent =
            json!({"summary": "s", "subtasks": [{"id": "p", "title": "P", "agent": "explore", "task": "t"}]});
        let (mut run, _) = acting(spec(), &agent);
        let report = AgentReport {
            result: Err(failure.clone()),
            work: AgentWork::default(),
            duration: Millis(3),
            guidance: None,
        };
        assert_eq!(
            give(&mut run, 0, agent_ended("run.2", report)),
            [
                "Acting -> Observing (1)",
                "Observing -> Reflecting (1)",
                "start run.3 a3 reflector"
            ]
        );
        assert_eq!(
            run.iterations()[0].observations[0].finding,
            SubTaskResult::Agent {
                agent: AgentId(2),
                name: "explore".to_owned(),
                result: Err(failure.clone()),
                work: AgentWork::default(),
            }
        );
        let task = &told(&run, "run.3");
        assert!(
            task.contains(&format!("{}", json!(failure.to_string()))[1..20]),
            "{task}"
        );
    }
}

#[test]
fn paor_7_a_call_that_takes_too_long_is_stopped_and_observed() {
    let (mut run, _) = acting(spec(), &one_look());
    let overdue = RunInput::TimerFired {
        timer: RunTimer::Call(2),
    };
    let before = run.clone();
    assert_eq!(
        crate::driver::refused(&mut run, 899_999, overdue.clone()),
        "the expiry of a timer is not accepted: the run is in phase Acting"
    );
    assert_eq!(run, before);
    assert_eq!(
        give(&mut run, 900_000, overdue),
        [
            "stop run.2",
            "Acting -> Observing (1)",
            "Observing -> Reflecting (1)",
            "start run.3 a2 reflector"
        ]
    );
    let SubTaskResult::Calls { calls } = &run.iterations()[0].observations[0].finding else {
        panic!("calls");
    };
    assert_eq!(
        calls[0].result,
        ToolResult::failure("the call took longer than 15 min and was stopped").with_code("timed_out")
    );
    assert_eq!(
        crate::driver::refused(&mut run, 900_001, ended("run.2", done())),
        Refusal::Stale {
            effect: effect("run.2")
        }
        .to_string()
    );
}

#[test]
fn paor_8_guidance_given_at_any_moment_is_in_the_next_plans_request() {
    let guide = |text: &str| RunInput::Guided {
        guidance: text.to_owned(),
    };
    let mut run = reflecting(spec());
    give(&mut run, 0, guide("search only in src/utils"));
    give(&mut run, 0, reflected("run.3", "continue", "Stuck."));
    let task = told(&run, "run.4");
    assert!(
        task.contains("<GUIDANCE>\n1. search only in src/utils\n</GUIDANCE>"),
        "{task}"
    );
    give(&mut run, 0, guide("and mind the tests"));
    give(&mut run, 0, planned("run.4", &diamond()));
    assert_eq!(run.phase(), Phase::Acting);
    give(&mut run, 0, guide("not the docs"));
    give(&mut run, 0, ended("run.5", done()));
    assert_eq!(run.phase(), Phase::Observing);
    give(&mut run, 0, guide("and be brief"));
    for effect in ["run.6", "run.7", "run.8"] {
        give(&mut run, 0, ended(effect, done()));
    }
    give(&mut run, 0, reflected("run.9", "continue", "Still stuck."));
    let task = told(&run, "run.10");
    assert!(
        task.contains("<GUIDANCE>\n2. and mind the tests\n3. not the docs\n4. and be brief\n</GUIDANCE>"),
        "{task}"
    );
}

#[test]
fn paor_8_a_run_does_not_end_before_a_plan_has_taken_all_guidance_into_account() {
    for verdict in ["achieved", "failed"] {
        let mut run = reflecting(spec());
        let guidance = "also in the docs".to_owned();
        give(&mut run, 0, RunInput::Guided { guidance });
        give(&mut run, 0, reflected("run.3", verdict, "All that was planned."));
        assert_eq!(run.phase(), Phase::Planning, "{verdict}");
        assert!(told(&run, "run.4").contains("1. also in the docs"));
    }
}

#[test]
fn paor_8_guidance_given_after_the_leads_last_request_leads_to_another_iteration() {
    let answer = |text: &str| ended_with(AgentAnswer::Text(text.to_owned()));
    let (mut run, _) = running(spec());
    let guidance = "also in the docs".to_owned();
    give(&mut run, 0, RunInput::Guided { guidance });
    assert_eq!(
        give(&mut run, 10, agent_ended("run.1", answer("It is 42."))),
        [
            "Planning -> Acting (1)",
            "Acting -> Observing (1)",
            "Observing -> Reflecting (1)",
            "Reflecting -> Planning (2)",
            "continue run.2 a1 lead"
        ]
    );
    assert!(told(&run, "run.2").contains("1. also in the docs"));
    give(
        &mut run,
        20,
        agent_ended("run.2", answer("It is 42, in the docs too.")),
    );
    assert_eq!(run.phase(), Phase::Complete);
    assert_eq!(run.summary(), "It is 42, in the docs too.");
}

#[test]
fn paor_8_the_plan_names_the_guidance_that_it_answers() {
    let answers = json!({"summary": "s", "answers_guidance": [1], "subtasks": []});
    let (run, _) = acting(spec(), &answers);
    assert_eq!(run.iterations()[0].graph.plan().answers_guidance, [1]);
}

#[test]
fn the_usage_of_a_run_covers_all_agents_and_calls() {
    let run = reflecting(spec());
    let mut expected = usage(10, 5);
    expected.tool_calls = 1;
    assert_eq!(run.usage(), expected);
}

#[test]
fn a_run_starts_once() {
    let (mut run, _) = running(spec());
    let again = RunInput::Started { spec: spec().into() };
    assert_eq!(
        crate::driver::refused(&mut run, 0, again),
        "the start of the run is not accepted: the run is in phase Planning"
    );
}

#[test]
fn the_outstanding_command_that_starts_an_agent_keeps_its_brief() {
    let (run, _) = running(spec());
    let [RunCommand::StartAgent { brief, .. }] = &run.outstanding()[..] else {
        panic!("{:?}", run.outstanding());
    };
    assert_eq!(*brief, brief_of(&run, "run.1"));
    assert_eq!(run_outline(&run.outstanding()), ["start run.1 a1 lead"]);
    assert_eq!(run.started_at(), at(0));
}
