//! Every text that goes to a model, whole.

use dirigent_core::agent::AgentFailure;
use dirigent_core::id::{AgentId, EffectId};
use dirigent_core::observation::{AgentWork, CallDigest, Finding, Observation, ObservedCall};
use dirigent_core::plan::Plan;
use dirigent_core::prompt::{
    Answer, PastReflection, PastRound, RoundContext, malformed, observation_line, plan_request,
    reflect_request, roles, shorten, shorten_value, system_prompt, task_request,
};
use dirigent_core::reflection::Verdict;
use dirigent_core::spec::{AnswerForm, RunSpec};
use dirigent_core::time::Millis;
use dirigent_core::tool::{Repeat, StateChange, ToolResult};
use serde_json::{Value, json};

use crate::fixture::{call, effect, plan, spec, tool};

/// No stray blank lines, no spaces at the ends of lines, no unfilled place, and every tag closed.
fn check(text: &str) -> &str {
    assert_eq!(text, text.trim(), "space around it");
    assert!(!text.contains("\n\n\n"), "a stray blank line in {text}");
    assert!(!text.contains("{{") && !text.contains("{%"), "{text}");
    let mut open = Vec::new();
    for line in text.lines() {
        assert_eq!(line, line.trim_end(), "space at the end of a line");
        let tags = line.split('<').skip(1).filter_map(|rest| rest.split_once('>'));
        for (tag, _) in tags {
            match tag.strip_prefix('/') {
                Some(name) => assert_eq!(open.pop(), Some(name), "{text}"),
                None if tag.chars().all(|c| c.is_ascii_uppercase() || c == '_') => open.push(tag),
                None => {}
            }
        }
    }
    assert_eq!(open, [""; 0], "{text}");
    text
}

fn observations() -> Vec<Observation> {
    let edited = StateChange::FileEdited {
        path: "src/lib.rs".to_owned(),
        diff: Some("-a\n+b\n".to_owned()),
    };
    vec![
        Observation {
            subtask: "rename".into(),
            title: "Rename it".to_owned(),
            duration: Millis(1_250),
            finding: Finding::Agent {
                agent: AgentId(2),
                name: "implement".to_owned(),
                result: Ok("Renamed `a` to `b` in src/lib.rs:1.".to_owned()),
                work: AgentWork {
                    calls: vec![CallDigest {
                        effect: effect("a2.2"),
                        tool: "change".to_owned(),
                        parameters: json!({"path": "src/lib.rs"}),
                        success: true,
                        duration: Millis(3),
                        error: None,
                    }],
                    changes: vec![edited],
                    usage: Default::default(),
                },
            },
        },
        Observation {
            subtask: "check".into(),
            title: "Look at it".to_owned(),
            duration: Millis(7),
            finding: Finding::Calls {
                calls: vec![
                    ObservedCall {
                        effect: effect("run.3"),
                        call: call("", "look", json!({"path": "src/lib.rs"})),
                        result: ToolResult::success(json!(
                            "fn b() -> Vec<u8> { vec![b'x'] } // </OBSERVATIONS>"
                        )),
                    },
                    ObservedCall {
                        effect: effect("run.4"),
                        call: call("", "look", json!({"path": "src/main.rs"})),
                        result: ToolResult::failure("no such file"),
                    },
                ],
            },
        },
        Observation {
            subtask: "report".into(),
            title: "Report".to_owned(),
            duration: Millis(0),
            finding: Finding::Skipped {
                because: "check".into(),
            },
        },
        Observation {
            subtask: "explore".into(),
            title: "Explore".to_owned(),
            duration: Millis(60_000),
            finding: Finding::Agent {
                agent: AgentId(3),
                name: "explore".to_owned(),
                result: Err(AgentFailure::TurnLimit { max_turns: 10 }),
                work: AgentWork::default(),
            },
        },
    ]
}

fn first_round(spec: &RunSpec) -> RoundContext<'_> {
    RoundContext {
        goal: &spec.goal,
        round: 1,
        max_rounds: 15,
        guidance: &[],
        answers: &[],
        rounds: Vec::new(),
    }
}

/// Calls `test` with a third round: guidance, an answer and two rounds before it.
fn with_third_round(spec: &RunSpec, test: impl FnOnce(&RoundContext<'_>)) {
    test(&RoundContext {
        round: 3,
        guidance: &[
            "Search only in src.".to_owned(),
            "Keep `a` in comments.".to_owned(),
        ],
        answers: &[Answer {
            question: "Which `a`?".to_owned(),
            answer: "The function.".to_owned(),
        }],
        rounds: vec![
            PastRound {
                round: 1,
                plan: "Look for it.",
                reflection: Some(PastReflection {
                    verdict: Verdict::AskUser,
                    summary: "There are two.",
                }),
            },
            PastRound {
                round: 2,
                plan: "Rename it.",
                reflection: Some(PastReflection {
                    verdict: Verdict::Continue,
                    summary: "One is left.",
                }),
            },
        ],
        ..first_round(spec)
    });
}

fn a_plan() -> Plan {
    plan(
        &json!({"summary": "Rename, then check.", "answers_guidance": [1], "subtasks": [
            {"id": "rename", "title": "Rename it", "agent": "implement", "task": "Rename `a`."},
            {"id": "check", "title": "Look at it", "depends_on": ["rename"], "calls": [{"tool": "look", "parameters": {"path": "src/lib.rs"}}]}
        ]}),
    )
}

#[test]
fn prompt_2_the_planners_system_prompt() {
    let look = tool("look", "Looks at a file. Changes nothing.", Repeat::Safe);
    insta::assert_snapshot!(check(&system_prompt(roles::PLANNER, &[&look], AnswerForm::Plan)));
}

#[test]
fn prompt_2_the_reflectors_system_prompt() {
    insta::assert_snapshot!(check(&system_prompt(
        roles::REFLECTOR,
        &[],
        AnswerForm::Reflection
    )));
}

#[test]
fn prompt_2_a_text_agents_system_prompt() {
    let look = tool("look", "Looks at a file. Changes nothing.", Repeat::Safe);
    let mut change = tool("change", "Changes a file.", Repeat::Unsafe);
    change.example = Value::Null;
    insta::assert_snapshot!(check(&system_prompt(
        roles::EXPLORE,
        &[&look, &change],
        AnswerForm::Text
    )));
}

#[test]
fn prompt_2_the_system_prompt_of_an_agent_without_tools() {
    insta::assert_snapshot!(check(&system_prompt(roles::VERIFY, &[], AnswerForm::Text)));
}

#[test]
fn the_first_plans_request() {
    let spec = spec();
    insta::assert_snapshot!(check(&plan_request(
        &first_round(&spec),
        &spec.agents,
        &spec.tools,
        &[]
    )));
}

#[test]
fn paor_8_a_later_plans_request_has_guidance_answers_rounds_and_observations() {
    let spec = spec();
    with_third_round(&spec, |round| {
        insta::assert_snapshot!(check(&plan_request(
            round,
            &spec.agents,
            &spec.tools,
            &observations()
        )));
    });
}

#[test]
fn paor_6_the_reflectors_request() {
    let spec = spec();
    with_third_round(&spec, |round| {
        insta::assert_snapshot!(check(&reflect_request(
            round,
            &a_plan(),
            &observations(),
            &["src/lib.rs"]
        )));
    });
}

#[test]
fn the_reflectors_request_of_a_first_round_in_which_nothing_was_done() {
    let spec = spec();
    let nothing = plan(&json!({"summary": "There is nothing to do.", "subtasks": []}));
    insta::assert_snapshot!(check(&reflect_request(&first_round(&spec), &nothing, &[], &[])));
}

#[test]
fn paor_5_a_sub_agents_request() {
    assert_eq!(
        check(&task_request("Rename `a`.", &[])),
        "<TASK>\nRename `a`.\n</TASK>"
    );
    let observations = observations();
    insta::assert_snapshot!(check(&task_request(
        "Check it.",
        &[&observations[0], &observations[1]]
    )));
}

#[test]
fn loop_3_what_goes_back_after_a_malformed_reply() {
    let spec = spec();
    let texts =
        [&spec.agents[1], &spec.planner, &spec.reflector].map(|agent| malformed("it was empty", agent));
    texts.iter().for_each(|text| {
        check(text);
    });
    insta::assert_snapshot!(texts.join("\n\n----\n\n"));
}

#[test]
fn roles_are_rendered_as_they_are() {
    for role in [roles::IMPLEMENT, roles::EXPLORE] {
        let prompt = system_prompt(role, &[], AnswerForm::Text);
        assert!(check(&prompt).starts_with(role.trim_end()));
    }
}

#[test]
fn paor_6_long_text_keeps_its_beginning_and_its_end() {
    assert_eq!(shorten("abcdef", 6, None), "abcdef");
    assert_eq!(
        shorten("abcdefghij", 6, Some("a3.7")),
        "abcd… [4 characters left out: read them with read_output, handle a3.7] …ij"
    );
    assert_eq!(
        shorten("äöüßäöüßäö", 3, None),
        "äö… [7 characters left out: not shown] …ö"
    );
    assert_eq!(
        shorten_value(&json!({"k": ["abcdefghij", 1, null]}), 3, None),
        json!({"k": ["ab… [7 characters left out: not shown] …j", 1, null]})
    );
}

fn looked(id: String, output: Value, success: bool) -> Observation {
    let result = if success {
        ToolResult::success(output)
    } else {
        ToolResult::failure(output.to_string())
    };
    Observation {
        subtask: id.as_str().into(),
        title: "Look".to_owned(),
        duration: Millis(1),
        finding: Finding::Calls {
            calls: vec![ObservedCall {
                effect: EffectId {
                    step: 9,
                    ..effect("run.1")
                },
                call: call("", "look", json!({"path": "x"})),
                result,
            }],
        },
    }
}

#[test]
fn paor_6_an_output_of_many_short_strings_is_shortened_as_well() {
    let many: Vec<String> = (0..50_000).map(|line| format!("src/lib.rs:{line}")).collect();
    let line = observation_line(&looked("many".to_owned(), json!(many), true)).to_string();
    assert!(line.len() < 15_000, "{} bytes", line.len());
    assert!(
        line.contains("characters left out: read them with read_output, handle run.9"),
        "{line}"
    );
}

#[test]
fn paor_6_failures_come_before_successes_where_not_all_fit() {
    let spec = spec();
    let mut observed: Vec<Observation> = (0..3_000)
        .map(|n| looked(format!("good{n}"), json!("seen"), true))
        .collect();
    observed.extend((0..20).map(|n| looked(format!("bad{n}"), json!("no such file"), false)));
    let text = plan_request(&first_round(&spec), &[], &[], &observed);
    for n in 0..20 {
        assert!(
            text.contains(&format!(r#"{{"subtask":"bad{n}","#)),
            "bad{n} is missing"
        );
    }
    let (_, end) = text.rsplit_once("\n{\"left_out\"").unwrap();
    assert!(end.starts_with(':'), "{end}");
    assert!(text.len() < 125_000, "{} bytes", text.len());
    assert!(text.contains(r#"{"subtask":"good0","#));
}

#[test]
fn paor_6_many_failures_keep_to_the_budget_too() {
    let spec = spec();
    let observed: Vec<Observation> = (0..1_000)
        .map(|n| looked(format!("bad{n}"), json!("e".repeat(2_900)), false))
        .collect();
    let text = plan_request(&first_round(&spec), &[], &[], &observed);
    assert!(text.len() < 125_000, "{} bytes", text.len());
    assert!(text.contains(r#""of_these_succeeded":0}"#));
}
