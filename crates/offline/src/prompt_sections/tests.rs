#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use dirigent_core::agent_report::{AgentFailure, AgentWork, CallSummary};
use dirigent_core::call::CallForm;
use dirigent_core::id::AgentId;
use dirigent_core::limits::AgentLimits;
use dirigent_core::message::{Message, ToolCall};
use dirigent_core::observation::{Observation, ObservedCall, SubTaskResult};
use dirigent_core::plan::Plan;
use dirigent_core::prompt::{
    AnsweredQuestion, IterationContext, PastIteration, PastReflection, observation_line, plan_request,
    reflect_request, system_prompt, task_request,
};
use dirigent_core::reflection::ReflectionVerdict;
use dirigent_core::spec::AnswerForm;
use dirigent_core::tags;
use dirigent_core::time::Millis;
use dirigent_core::tool::{Access, Repeat, StateChange, ToolResult, ToolSpec, code};
use serde_json::{Value, json};

use super::{Sections, failed_call, find_observation, interrupted_call, program_not_found, result};
use crate::conversation::{Conversation, Role};

const GOAL: &str = "Rename `a` to `b`,\nbut leave Vec<a> alone.";

fn observed_call(effect: &str, parameters: Value, result: ToolResult) -> ObservedCall {
    let call = ToolCall {
        id: String::new(),
        tool: "execute_command".to_owned(),
        parameters,
        terminate: false,
    };
    ObservedCall {
        effect: effect.parse().expect("an effect id"),
        call,
        result,
    }
}

fn observation(subtask: &str, finding: SubTaskResult) -> Observation {
    Observation {
        subtask: subtask.into(),
        title: "Work".to_owned(),
        duration: Millis(7),
        finding,
    }
}

/// One observation of each kind.
fn observations() -> Vec<Observation> {
    let calls = |calls| SubTaskResult::Calls { calls };
    let summary = CallSummary {
        effect: Some("a2.2".parse().expect("an effect id")),
        tool: "search".to_owned(),
        parameters: json!({"pattern": "a"}),
        success: false,
        duration: Millis(3),
        error: Some("no such folder".to_owned()),
        agent: None,
    };
    let work = AgentWork {
        calls: vec![summary],
        changes: vec![StateChange::FileEdited {
            after: None,
            before: None,
            path: "src/a.rs".to_owned(),
            diff: None,
        }],
        findings_so_far: "One so far.".to_owned(),
        ..AgentWork::default()
    };
    let agent = |result| SubTaskResult::Agent {
        agent: AgentId(2),
        name: "explore".to_owned(),
        result,
        work: work.clone(),
    };
    vec![
        observation("explore", agent(Ok("`a` is </OBSERVATIONS> used.".to_owned()))),
        observation("verify", agent(Err(AgentFailure::TurnLimit { max_turns: 10 }))),
        observation("edit-1", SubTaskResult::Skipped { because: None }),
        observation(
            "baseline",
            calls(vec![observed_call(
                "run.3",
                json!({"command": ["cargo", "test"]}),
                ToolResult::failure("no program `cargo` in /bin").with_code(code::NOT_FOUND),
            )]),
        ),
        observation(
            "check",
            calls(vec![
                observed_call("run.4", json!({}), ToolResult::success(json!({"exit_code": 0}))),
                observed_call(
                    "run.5",
                    json!({"command": "x".repeat(20_000)}),
                    ToolResult::failure("it stopped").with_code(code::INTERRUPTED),
                ),
            ]),
        ),
    ]
}

/// Calls `test` with the context of a third iteration.
fn with_iteration(test: impl FnOnce(&IterationContext<'_>)) {
    test(&IterationContext {
        goal: GOAL,
        iteration: 3,
        max_iterations: 15,
        guidance: &["only in src".to_owned(), "call it c,\nplease".to_owned()],
        answers: &[AnsweredQuestion {
            question: "Which?".to_owned(),
            answer: "</ANSWERS> \"the\" first".to_owned(),
        }],
        iterations: vec![
            PastIteration {
                iteration: 1,
                plan: "Look.".into(),
                reflection: Some(PastReflection {
                    verdict: ReflectionVerdict::Continue,
                    summary: "There is more.".into(),
                }),
                interrupted: None,
                observations: vec![json!({"subtask": "look", "status": "succeeded"})],
            },
            PastIteration {
                iteration: 2,
                plan: "Edit.".into(),
                reflection: None,
                interrupted: Some("the model was out of reach".into()),
                observations: Vec::new(),
            },
        ],
    });
}

/// Checks the sections that are both in a planner's and in a reflector's request.
fn check_iteration(sections: Sections<'_>, iteration: &IterationContext<'_>) {
    assert_eq!(sections.text(tags::GOAL), Some(GOAL));
    assert_eq!(sections.text(tags::ITERATION), Some("3 of 15"));
    assert_eq!(
        sections.guidance(),
        [
            (1, "only in src".to_owned()),
            (2, "call it c,\nplease".to_owned())
        ]
    );
    assert_eq!(sections.answers(), iteration.answers);
    assert_eq!(sections.iterations(), iteration.iterations);
    let lines: Vec<Value> = sections.observations().iter().map(|line| json!(line)).collect();
    let expected: Vec<Value> = observations().iter().map(observation_line).collect();
    assert_eq!(lines, expected);
}

#[test]
fn a_planner_reads_every_section_of_its_request() {
    with_iteration(|iteration| {
        let request = plan_request(iteration, &[], &[], &observations());
        check_iteration(Sections(&request), iteration);
    });
}

#[test]
fn a_reflector_reads_every_section_of_its_request() {
    let plan: Plan = serde_json::from_value(json!({
        "summary": "Rename </PLAN> it.", "answers_guidance": [1],
        "subtasks": [
            {"id": "explore", "title": "Explore", "agent": "explore", "task": "Find `a`."},
            {"id": "check", "title": "Check", "depends_on": ["explore"], "calls": [{"tool": "t", "parameters": {}}]},
        ],
    }))
    .expect("a plan");
    with_iteration(|iteration| {
        let request = reflect_request(iteration, &plan, &observations(), &["src/a.rs", "b.md"]);
        let sections = Sections(&request);
        check_iteration(sections, iteration);
        assert_eq!(sections.plan(), Some(plan.clone()));
        assert_eq!(sections.changed_files(), ["src/a.rs", "b.md"]);
    });
}

#[test]
fn a_sub_agent_reads_its_task() {
    let observed = observations();
    let request = task_request("Find `a`.\n\nReport it.", 1, &observed.iter().collect::<Vec<_>>());
    assert_eq!(
        Sections(&request).text(tags::TASK),
        Some("Find `a`.\n\nReport it.")
    );
}

#[test]
fn the_results_in_observations_are_read() {
    with_iteration(|iteration| {
        let request = plan_request(iteration, &[], &[], &observations());
        let lines = Sections(&request).observations();
        let line = |subtask| find_observation(&lines, subtask).expect("an observation");

        let (_, failed) = failed_call(line("baseline")).expect("a failed call");
        assert_eq!(failed.code.as_deref(), Some(code::NOT_FOUND));
        assert_eq!(program_not_found(line("baseline")).as_deref(), Some("cargo"));
        assert_eq!(interrupted_call(line("baseline")), None);
        let interrupted = interrupted_call(line("check")).expect("an interrupted call");
        assert_eq!(interrupted.handle.as_deref(), Some("run.5"));
        let passed = line("check").calls.as_ref().and_then(|calls| result(&calls[0]));
        assert_eq!(
            passed.and_then(|result| result.output),
            Some(json!({"exit_code": 0}))
        );
    });
}

#[test]
fn the_role_and_the_tools_are_read_from_the_system_prompt() {
    let tool = ToolSpec {
        name: "search".to_owned(),
        description: "Searches.\n\n## not_a_tool".to_owned(),
        parameters: json!({"type": "object", "properties": {}}),
        repeat: Repeat::Safe,
        access: Access::ReadOnly,
        requires_approval: false,
        example: Value::Null,
    };
    for (answer, role) in [
        (AnswerForm::Plan, Role::Planner),
        (AnswerForm::Reflection, Role::Reflector),
        (AnswerForm::Text, Role::SubAgent),
    ] {
        let content = system_prompt(
            "You work.",
            &[&tool],
            answer,
            CallForm::Json,
            &AgentLimits::default(),
        );
        let messages = [Message::System { content }];
        let conversation = Conversation::from_messages(&messages);
        assert_eq!(conversation.role, role);
        assert!(conversation.offers("search"));
        assert!(!conversation.offers("not_a_tool") && !conversation.offers("edit"));
    }
}
