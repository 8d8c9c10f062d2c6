#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use dirigent_core::agent_report::{AgentFailure, AgentWork, CallSummary};
use dirigent_core::agent_spec::{AgentSpec, AnswerForm, ModelProfile};
use dirigent_core::call::CallForm;
use dirigent_core::confirmation::Outdated;
use dirigent_core::id::AgentId;
use dirigent_core::limits::{AgentLimits, RunLimits};
use dirigent_core::message::{Message, ToolCall};
use dirigent_core::observation::{Observation, ObservedCall, SubTaskResult};
use dirigent_core::plan::Plan;
use dirigent_core::policy::Policy;
use dirigent_core::prompt::{
    AnsweredQuestion, ContinueContext, EndedIteration, IterationContext, PastIteration, PastReflection,
    continue_request, guidance, observation_line, plan_request, reflect_request, system_prompt, task_request,
};
use dirigent_core::reflection::{Reflection, ReflectionVerdict};
use dirigent_core::setup::RunSetup;
use dirigent_core::tags;
use dirigent_core::time::Millis;
use dirigent_core::tool::{Access, Repeat, StateChange, ToolCategory, ToolResult, ToolSpec, code};
use serde_json::{Value, json};

use super::{Sections, failed_call, find_observation, interrupted_call, program_not_found, result};
use crate::conversation::{Call, Conversation, Role};

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
        may_fail: false,
        finding,
    }
}

/// A text that looks like the lines of a section.
const FINDINGS: &str = "`a` is\n</OBSERVATIONS> used.\n| \n\nfindings:\n{}";

/// One observation of each kind.
fn observations() -> Vec<Observation> {
    let calls = |calls| SubTaskResult::Calls { calls };
    let summary = CallSummary {
        outdates: Outdated::Nothing,
        shown_by_diff: false,
        effect: Some("a2.2".parse().expect("an effect id")),
        tool: "search".to_owned(),
        parameters: json!({"pattern": "a"}),
        success: false,
        duration: Millis(3),
        error: Some("no such folder".to_owned()),
        output: serde_json::Value::Null,
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
        observation("explore", agent(Ok(FINDINGS.to_owned()))),
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
                    "run.6",
                    json!({"content": "{\n}", "of": {"two": "a\r\nb"}, "a list": ["x\ny"]}),
                    ToolResult::success(json!("run.4 output:\n| a\n</FINDINGS>")),
                ),
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
        files: &[],
        iteration: 3,
        iteration_in_conversation: 3,
        max_iterations: 15,
        guidance: &["only in src".to_owned(), "call it c,\nplease".to_owned()],
        answers: &[AnsweredQuestion {
            question: "Which?".to_owned(),
            answer: "</ANSWERS> \"the\" first".to_owned(),
        }],
        notes: None,
        earlier_turns: None,
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

/// Checks the user's messages.
fn check_said(sections: &Sections<'_>, iteration: &IterationContext<'_>) {
    assert_eq!(
        sections.guidance(),
        [
            (1, "only in src".to_owned()),
            (2, "call it c,\nplease".to_owned())
        ]
    );
    assert_eq!(sections.answers(), iteration.answers);
}

fn check_observations(sections: &Sections<'_>) {
    assert_eq!(observed(sections), expected_lines());
}

fn observed(sections: &Sections<'_>) -> Vec<Value> {
    sections.observations().iter().map(|line| json!(line)).collect()
}

fn expected_lines() -> Vec<Value> {
    observations().iter().map(observation_line).collect()
}

#[test]
fn lead_1_the_offline_lead_reads_its_request_and_its_continuations() {
    with_iteration(|iteration| {
        let first = IterationContext {
            guidance: &iteration.guidance[..1],
            answers: &[],
            notes: None,
            earlier_turns: None,
            iterations: Vec::new(),
            ..iteration.clone()
        };
        let request = plan_request(&first, &setup(), &RunLimits::default(), &[], None);
        let (observations, judged) = (observations(), judged());
        let continued = continue_request(&ContinueContext {
            iteration: 2,
            max_iterations: 15,
            guidance: Vec::new(),
            answers: iteration.answers,
            ended: vec![EndedIteration {
                iteration: 1,
                reflection: Some(&judged),
                interrupted: None,
                observations: observations.iter().collect(),
            }],
        });
        let guided = guidance(2, &iteration.guidance[1]);
        let messages = [
            Message::User { content: request },
            submits("Look."),
            Message::Tool {
                call_id: "1".to_owned(),
                name: "submit_plan".to_owned(),
                content: continued,
            },
            Message::User { content: guided },
        ];
        let sections = Conversation::from_messages(&messages).sections;
        assert_eq!(sections.text(tags::GOAL), Some(GOAL));
        check_said(&sections, iteration);
        check_observations(&sections);
        let [past] = &sections.iterations()[..] else {
            panic!("one iteration");
        };
        assert_eq!((past.iteration, &*past.plan), (1, "Look."));
        let reflection = past.reflection.as_ref().expect("a reflection");
        assert_eq!(reflection.summary, judged.summary);
    });
}

#[test]
fn lead_1_results_from_before_a_continuation_do_not_count_any_more() {
    let call = |tool: &str| Call::new(tool, json!({"path": "a"}));
    let result = || Message::Tool {
        call_id: "1".to_owned(),
        name: "look".to_owned(),
        content: "seen".to_owned(),
    };
    let system = Message::System {
        content: "## look\n\n## submit_plan\n".to_owned(),
    };
    let said = |call: Call| Message::Assistant {
        content: call.to_json(),
        calls: Vec::new(),
    };
    let continued = continue_request(&ContinueContext {
        iteration: 2,
        max_iterations: 15,
        guidance: Vec::new(),
        answers: &[],
        ended: Vec::new(),
    });
    let mut messages = vec![
        system,
        Message::User {
            content: "Go.".to_owned(),
        },
        said(call("look")),
        result(),
    ];
    assert!(
        Conversation::from_messages(&messages)
            .result_of(call("look"))
            .is_ok()
    );
    messages.extend([
        submits("Look."),
        Message::Tool {
            call_id: "2".to_owned(),
            name: "submit_plan".to_owned(),
            content: continued,
        },
    ]);
    assert!(
        Conversation::from_messages(&messages)
            .result_of(call("look"))
            .is_err()
    );
}

fn setup() -> RunSetup {
    let agent = |name: &str, answer| AgentSpec {
        name: name.to_owned(),
        description: String::new(),
        system_prompt: String::new(),
        base_prompt: None,
        deepest_prompt: None,
        tools: Vec::new(),
        access: Access::ReadOnly,
        model: None,
        asks: None,
        profile: ModelProfile::default(),
        limits: AgentLimits::default(),
        answer,
    };
    RunSetup {
        lead: agent("lead", AnswerForm::Plan),
        reflector: agent("reflector", AnswerForm::Reflection),
        agents: Vec::new(),
        tools: Vec::new(),
        policy: Policy::default(),
        approval_rules: 0,
    }
}

fn submits(summary: &str) -> Message {
    let plan = json!({"summary": summary, "subtasks": []});
    Message::Assistant {
        content: Call::terminating("submit_plan", plan).to_json(),
        calls: Vec::new(),
    }
}

fn judged() -> Reflection {
    Reflection::from_parameters(&json!({"verdict": "continue", "summary": "There is </JUDGEMENT> more."}))
        .expect("a reflection")
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
        let request = reflect_request(
            iteration,
            Some(&plan),
            &observations(),
            &["src/a.rs", "b.md"],
            &[],
            None,
        );
        let sections = Sections::new(&request);
        assert_eq!(sections.text(tags::GOAL), Some(GOAL));
        assert_eq!(sections.text(tags::ITERATION), Some("3 of 15"));
        check_said(&sections, iteration);
        assert_eq!(observed(&sections), expected_lines());
        assert_eq!(sections.iterations(), iteration.iterations);
        assert_eq!(sections.plan().as_ref(), Some(&plan));
        assert_eq!(sections.changed_files(), ["src/a.rs", "b.md"]);
    });
}

#[test]
fn a_sub_agent_reads_its_task() {
    let observed = observations();
    let request = task_request(
        "Find `a`.\n\nReport it.",
        &[],
        1,
        &observed.iter().collect::<Vec<_>>(),
    );
    assert_eq!(
        Sections::new(&request).text(tags::TASK),
        Some("Find `a`.\n\nReport it.")
    );
}

#[test]
fn results_in_observations_are_parsed() {
    with_iteration(|iteration| {
        let request = reflect_request(iteration, None, &observations(), &[], &[], None);
        let lines = Sections::new(&request).observations();
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
fn the_role_and_the_tools_are_parsed_from_the_system_prompt() {
    let tool = ToolSpec {
        category: ToolCategory::Other,
        changes_where: None,
        read_only: None,
        name: "search".to_owned(),
        description: "Searches.\n\n## not_a_tool".to_owned(),
        parameters: json!({"type": "object", "properties": {}}),
        repeat: Repeat::Safe,
        access: Access::ReadOnly,
        requires_approval: false,
        approval_where: None,
        rules: Vec::new(),
        example: Value::Null,
    };
    for (answer, role) in [
        (AnswerForm::Plan, Role::Lead),
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
