//! What the reflector's request says about calls, and what it leaves out (PAOR-6).

use dirigent_core::agent_report::{AgentFailure, AgentWork, CallSummary};
use dirigent_core::confirmation::Outdated;
use dirigent_core::id::AgentId;
use dirigent_core::observation::{Observation, ObservedCall, SubTaskResult};
use dirigent_core::prompt::reflect_request;
use dirigent_core::run::FileChangeKind;
use dirigent_core::run_diff::{DiffedFile, ReflectorDiff};
use dirigent_core::time::Millis;
use dirigent_core::tool::{StateChange, ToolResult};
use serde_json::{Value, json};

use crate::fixture::{call, effect, plan, spec};
use crate::prompts::first_iteration;

fn made(id: &str, tool: &str, output: &str, outdates: Outdated) -> CallSummary {
    CallSummary {
        effect: (!id.is_empty()).then(|| effect(id)),
        tool: tool.to_owned(),
        parameters: json!({"path": format!("{id}{}", "x".repeat(200))}),
        success: !id.is_empty(),
        duration: Millis(3),
        error: id.is_empty().then(|| format!("refused {}", "y".repeat(500))),
        output: json!(output),
        shown_by_diff: false,
        outdates,
        agent: None,
    }
}

fn worked(subtask: &str, calls: Vec<CallSummary>) -> Observation {
    let exited = StateChange::ProcessExited {
        command: "cargo test".to_owned(),
        code: Some(0),
        files: Vec::new(),
    };
    Observation {
        subtask: subtask.into(),
        title: subtask.to_owned(),
        duration: Millis(1_234),
        may_fail: false,
        finding: SubTaskResult::Agent {
            agent: AgentId(2),
            name: "implement".to_owned(),
            result: Ok("Done.".to_owned()),
            work: AgentWork {
                calls,
                changes: vec![exited],
                ..AgentWork::default()
            },
        },
    }
}

fn request(observed: &[Observation], plan_of: &Value, diff: Option<&ReflectorDiff>) -> String {
    let spec = spec();
    let plan = plan(plan_of);
    reflect_request(&first_iteration(&spec), Some(&plan), observed, &[], &[], diff)
}

fn two_subtasks() -> Value {
    json!({"summary": "s", "subtasks": [
        {"id": "look", "title": "look", "agent": "implement", "task": "t"},
        {"id": "change", "title": "change", "depends_on": ["look"], "agent": "implement", "task": "t"},
        {"id": "aside", "title": "aside", "agent": "implement", "task": "t"}
    ]})
}

#[test]
fn paor_6_outputs_that_a_later_change_has_outdated_are_left_out() {
    let observed = [
        worked(
            "look",
            vec![made("a2.1", "look", "OUTDATED BY A DEPENDENT", Outdated::Nothing)],
        ),
        worked(
            "aside",
            vec![made("a4.1", "look", "MAY BE LATER", Outdated::Nothing)],
        ),
        worked(
            "change",
            vec![
                made("a3.1", "look", "OUTDATED BY ITSELF", Outdated::Nothing),
                made("a3.2", "execute_sql", "STILL TRUE", Outdated::Nothing),
                made("a3.3", "change", "THE CHANGE", Outdated::Files),
                made("a3.4", "look", "THE CHECK", Outdated::Nothing),
            ],
        ),
    ];
    let request = request(&observed, &two_subtasks(), None);
    for (output, is_shown) in [
        ("OUTDATED BY A DEPENDENT", false),
        ("MAY BE LATER", true),
        ("OUTDATED BY ITSELF", false),
        ("STILL TRUE", true),
        ("THE CHANGE", true),
        ("THE CHECK", true),
    ] {
        assert_eq!(request.contains(output), is_shown, "{output}: {request}");
    }
    // Each call keeps its line.
    for handle in ["a2.1", "a3.1", "a3.4"] {
        assert!(request.contains(&format!(r#""handle":"{handle}""#)), "{request}");
    }
}

#[test]
fn paor_6_refused_calls_durations_and_exits_of_commands_take_little_room() {
    let observed = [worked(
        "aside",
        vec![
            made("", "change", "", Outdated::Nothing),
            made("a2.1", "look", "ok", Outdated::Nothing),
        ],
    )];
    let request = request(&observed, &two_subtasks(), None);
    let refused = request.lines().find(|line| line.contains("refused yyy")).unwrap();
    assert!(refused.len() < 450, "{refused}");
    assert!(!request.contains("duration_ms"), "{request}");
    assert!(!request.contains("exited with 0"), "{request}");
}

#[test]
fn lead_4_the_findings_of_an_agent_that_gives_up_are_not_cut() {
    let reason = format!("{}THE MIDDLE{}", "x ".repeat(1_500), "y ".repeat(1_500));
    let mut gave_up = worked("aside", Vec::new());
    if let SubTaskResult::Agent { result, .. } = &mut gave_up.finding {
        *result = Err(AgentFailure::GaveUp { reason });
    }
    let request = request(&[gave_up], &two_subtasks(), None);
    assert!(request.contains("THE MIDDLE"), "{request}");
}

#[test]
fn paor_6_the_plan_says_what_each_call_works_on() {
    let calls = json!([{"tool": "change", "parameters": {"path": "src/a.rs", "old": "x".repeat(500)}}]);
    let of = json!({"summary": "s", "subtasks": [{"id": "p", "title": "P", "calls": calls}]});
    let observed = [Observation {
        subtask: "p".into(),
        title: "P".to_owned(),
        duration: Millis(1),
        may_fail: false,
        finding: SubTaskResult::Calls {
            calls: vec![ObservedCall {
                effect: effect("run.2"),
                call: call("", "change", calls[0]["parameters"].clone()),
                result: ToolResult::success(json!("ok")),
            }],
        },
    }];
    let request = request(&observed, &of, None);
    let (_, after) = request.split_once("<PLAN>").unwrap();
    let (plan, _) = after.split_once("</PLAN>").unwrap();
    assert!(plan.contains(r#""path":"src/a.rs""#), "{plan}");
    assert!(plan.len() < 300, "{plan}");
}

#[test]
fn paor_6_shortened_parameters_have_a_handle_of_their_own() {
    let long = CallSummary {
        parameters: json!({"text": "z".repeat(9_000)}),
        ..made("a2.1", "look", "ok", Outdated::Nothing)
    };
    let request = request(&[worked("aside", vec![long])], &two_subtasks(), None);
    assert!(
        request.contains("characters left out: read them with read_output, handle a2.1.parameters]"),
        "{request}"
    );
}

#[test]
fn paor_10_the_text_of_a_command_occurs_once_however_many_files_it_changed() {
    let file = |path: &str, during: &[&str], kind| {
        let diff = match kind {
            Some(_) => format!("diff --git a/{path} b/{path}\n@@ -1 +1 @@\n-a\n+b\n"),
            None => String::new(),
        };
        let during = during.iter().map(|command| (*command).to_owned()).collect();
        DiffedFile::new(path.to_owned(), kind, diff).during(during, false)
    };
    let edited = Some(FileChangeKind::Edited);
    let diff = ReflectorDiff::bounded(vec![
        file("a", &["make all"], edited),
        file("b", &["make all", "make docs"], edited),
        file("c", &["make docs"], None),
    ]);
    let request = request(&[], &two_subtasks(), Some(&diff));
    assert_eq!(request.matches("make all").count(), 1, "{request}");
    for line in [
        "- a (edited; changed while command 1 ran)",
        "- b (edited; changed while commands 1 and 2 ran)",
        "- c (as before the run; changed while command 2 ran)",
        "1. `make all`",
        "# b: changed while commands 1 and 2 ran",
        "# c: changed while command 2 ran; now it is as before the run",
    ] {
        assert!(request.lines().any(|other| other == line), "{line}: {request}");
    }
}

#[test]
fn paor_6_the_lines_of_several_diffs_of_a_file_are_counted_without_their_headers() {
    let part = "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n a\n--- b\n+++ c\n";
    let file = DiffedFile::new("x".to_owned(), None, part.repeat(2));
    assert_eq!((file.added, file.removed), (2, 2));
}
