//! The confirmations that a reflection lists are checked against the recorded calls, and nothing else counts as a confirmation (PAOR-10). A
//! reflector that answers only in words leaves the decision to the user.

use dirigent_core::agent::{Agent, AgentInput};
use dirigent_core::agent_report::AgentAnswer;
use dirigent_core::brief::AgentRole;
use dirigent_core::confirmation::{Confirmation, RecordedCall, check_confirmations};
use dirigent_core::machine::Machine;
use dirigent_core::tool::{StateChange, ToolOutcome, ToolResult};
use serde_json::{Value, json};

use crate::driver::{agent_ended, answered, give, reflecting};
use crate::fixture::{
    agent_outline, agent_resumed, at, effect, ended_with, reflection, replied, says_call, spec, started,
    text, tool_ended,
};
use crate::renamed;

fn give_agent(agent: &mut Agent, input: AgentInput) -> Vec<String> {
    agent_outline(&agent.handle(at(10), input).unwrap())
}

/// A reflector that has submitted a reflection with one confirmation.
fn confirming() -> (Agent, Vec<String>) {
    let mut agent = started(spec(), AgentRole::Reflector);
    let judgement = json!({"verdict": "achieved", "summary": "Renamed.", "confirmed_by": [{"call": "run.4", "line": "ok"}]});
    let commands = give_agent(
        &mut agent,
        replied("a7.1", says_call("submit_reflection", judgement, true)),
    );
    (agent, commands)
}

fn complete() -> Value {
    json!([{"call": "run.4", "command": "cargo test", "exit_code": 0, "line": "test result: ok. 12 passed"}])
}

fn confirmed_by(agent: &Agent) -> Value {
    let report = agent.report().unwrap();
    json!(report.result.as_ref().unwrap())["reflection"]["confirmed_by"].clone()
}

#[test]
fn paor_10_confirmations_are_checked_before_the_judgement_counts() {
    let (mut agent, commands) = confirming();
    let [command] = &commands[..] else {
        panic!("{commands:?}");
    };
    assert!(
        command.starts_with("run a7.2 call-1-1: submit_reflection"),
        "{command}"
    );
    let checked = tool_ended("a7.2", ToolResult::success(complete()));
    assert_eq!(
        give_agent(&mut agent, checked),
        ["finish with Achieved: Renamed."]
    );
    assert_eq!(confirmed_by(&agent), complete());
    let work = &agent.report().unwrap().work;
    assert_eq!((work.calls.len(), work.usage.tool_calls), (0, 0));
}

#[test]
fn paor_10_wrong_confirmations_are_sent_back_to_the_reflector() {
    let (mut agent, _) = confirming();
    let wrong = ToolResult::failure("`run.4` failed, so it confirms nothing");
    assert_eq!(give_agent(&mut agent, tool_ended("a7.2", wrong)), ["ask a7.3"]);
    let told = agent.conversation().last().unwrap().content();
    assert!(told.contains("`run.4` failed, so it confirms nothing"), "{told}");
    assert_eq!(agent.work().usage.tool_calls, 0);

    let without = json!({"verdict": "achieved", "summary": "Renamed; not tested."});
    assert_eq!(
        give_agent(
            &mut agent,
            replied("a7.3", says_call("submit_reflection", without, true))
        ),
        ["finish with Achieved: Renamed; not tested."]
    );
}

#[test]
fn host_2_the_check_of_confirmations_is_repeated_after_a_restart() {
    let (mut agent, _) = confirming();
    let began = AgentInput::ToolStarted {
        effect: effect("a7.2"),
    };
    give_agent(&mut agent, began);
    let commands = give_agent(&mut agent, agent_resumed());
    assert!(
        commands[0].starts_with("run a7.2+1 call-1-1: submit_reflection"),
        "{commands:?}"
    );
    let late = tool_ended("a7.2", ToolResult::success(complete()));
    assert!(agent.handle(at(20), late).is_err());
    give_agent(&mut agent, tool_ended("a7.2+1", ToolResult::success(complete())));
    assert_eq!(confirmed_by(&agent), complete());
}

#[test]
fn paor_10_an_invalid_handle_is_sent_back_and_an_old_list_of_files_is_ignored() {
    let mut agent = started(spec(), AgentRole::Reflector);
    let strange = json!({"verdict": "achieved", "summary": "s", "confirmed_by": [{"call": "the tests"}]});
    assert_eq!(
        give_agent(
            &mut agent,
            replied("a7.1", says_call("submit_reflection", strange, true))
        ),
        ["ask a7.2"]
    );
    let told = agent.conversation().last().unwrap().content();
    assert!(told.contains("`the tests` is not the handle of a call"), "{told}");

    let old = json!({"verdict": "achieved", "summary": "s", "changed_files": ["src/a.rs"]});
    assert_eq!(
        give_agent(
            &mut agent,
            replied("a7.2", says_call("submit_reflection", old, true))
        ),
        ["finish with Achieved: s"]
    );
}

/// Checks a confirmation by a call with this result and with this line of its output.
fn check(result: ToolResult, line: Option<&str>) -> Result<Value, String> {
    check_recorded(
        RecordedCall {
            tool: "execute_command".to_owned(),
            parameters: json!({"command": ["cargo", "test"]}),
            result,
            changed_since: None,
            failed_before: None,
        },
        line,
    )
}

fn check_recorded(recorded: RecordedCall, line: Option<&str>) -> Result<Value, String> {
    let named = Confirmation {
        call: effect("a3.2"),
        command: String::new(),
        exit_code: None,
        line: line.map(str::to_owned),
        failed_before: None,
    };
    let is_recorded = |call| (call == effect("a3.2")).then_some(&recorded);
    match check_confirmations(&[named], is_recorded).outcome {
        ToolOutcome::Success { output } => Ok(output[0].clone()),
        ToolOutcome::Failure { error, .. } => Err(error),
    }
}

fn tested(stdout: &str) -> ToolResult {
    let output = json!({"exit_code": 0, "signal": null, "stdout": stdout, "stderr": "", "timed_out": false});
    ToolResult::success(output).with_changes(vec![StateChange::ProcessExited {
        command: "cargo test".to_owned(),
        code: Some(0),
        files: Vec::new(),
    }])
}

#[test]
fn paor_10_a_confirmation_has_its_command_exit_code_and_whole_line() {
    let output = "running 2 tests\n  test result: ok. 2 passed; 0 failed\n";
    assert_eq!(
        check(tested(output), Some("ok. 2 passed")).unwrap(),
        json!({"call": "a3.2", "command": "cargo test", "exit_code": 0, "line": "test result: ok. 2 passed; 0 failed"})
    );
    assert_eq!(
        check(tested(""), None).unwrap(),
        json!({"call": "a3.2", "command": "cargo test", "exit_code": 0})
    );
    let found = ToolResult::success(json!({"matches": [], "total": 0}));
    assert_eq!(
        check(found, Some(r#""total": 0"#)).unwrap(),
        json!({"call": "a3.2", "command": r#"execute_command {"command":["cargo","test"]}"#, "line": r#""total": 0"#})
    );
}

#[test]
fn paor_10_a_line_that_is_not_in_the_output_confirms_nothing() {
    let refused = |result, line| check(result, line).unwrap_err();
    for (result, line, why) in [
        (
            tested("1 passed\n"),
            Some("2 passed"),
            "no line of the output of `a3.2` contains `2 passed`",
        ),
        (
            tested("1 passed\n"),
            None,
            "`a3.2` has output: copy the output line that shows the result into the field",
        ),
        (
            ToolResult::failure("exited with 1"),
            Some("ok"),
            "`a3.2` failed, and did not fail in the same way before the changes, so it confirms nothing: exited with 1",
        ),
    ] {
        let told = refused(result, line);
        assert!(told.contains(why), "{told}");
    }
    let unknown = Confirmation {
        call: effect("run.9"),
        command: String::new(),
        exit_code: None,
        line: None,
        failed_before: None,
    };
    let told = check_confirmations(&[unknown.clone(), unknown], |_| None)
        .for_model()
        .to_string();
    assert_eq!(
        told.matches("no call with the handle `run.9` has run").count(),
        2,
        "{told}"
    );
}

#[test]
fn paor_10_a_check_that_failed_before_the_changes_too_may_be_cited() {
    let failed = ToolResult::failure("`cargo test` exited with 101")
        .with_code("exited")
        .with_output(json!(
            "test old ... FAILED\ntest result: FAILED. 7 passed; 1 failed\n"
        ))
        .with_changes(vec![StateChange::ProcessExited {
            command: "cargo test".to_owned(),
            code: Some(101),
            files: Vec::new(),
        }]);
    let recorded = |failed_before| RecordedCall {
        tool: "execute_command".to_owned(),
        parameters: Value::Null,
        result: failed.clone(),
        changed_since: None,
        failed_before,
    };
    let line = Some("7 passed; 1 failed");
    assert_eq!(
        check_recorded(recorded(Some(effect("a2.1"))), line).unwrap(),
        json!({
            "call": "a3.2", "command": "cargo test", "exit_code": 101,
            "line": "test result: FAILED. 7 passed; 1 failed", "failed_before": "a2.1",
        })
    );
    let told = check_recorded(recorded(None), line).unwrap_err();
    assert!(told.contains("did not fail in the same way before"), "{told}");
}

#[test]
fn paor_10_only_a_change_of_what_a_call_read_outdates_it() {
    let made = |change: StateChange| ToolResult::success(Value::Null).with_changes(vec![change]);
    let file = made(StateChange::FileEdited {
        path: "report.md".to_owned(),
        diff: None,
        before: None,
        after: None,
    });
    let rows = made(StateChange::RowsChanged {
        connection: "shop".to_owned(),
        table: None,
        rows: 1,
    });
    let command = made(StateChange::ProcessExited {
        command: "make".to_owned(),
        code: Some(0),
        files: vec![StateChange::FileDeleted {
            path: "a".to_owned(),
            diff: None,
            before: None,
        }],
    });
    for (result, tool, outdated) in [
        (&file, "execute_sql", false),
        (&file, "search", true),
        (&file, "execute_command", true),
        (&rows, "execute_sql", true),
        (&rows, "file_operations", false),
        (&rows, "http_request", true),
        (&command, "execute_sql", true),
        (&command, "file_operations", true),
    ] {
        assert_eq!(
            RecordedCall::may_outdate(result, tool),
            outdated,
            "{tool}: {result:?}"
        );
    }
}

#[test]
fn paor_10_a_call_before_a_change_or_with_a_change_confirms_nothing() {
    let recorded = RecordedCall {
        tool: "execute_command".to_owned(),
        parameters: Value::Null,
        result: tested("2 passed\n"),
        changed_since: Some(effect("a2.4")),
        failed_before: None,
    };
    let told = check_recorded(recorded.clone(), Some("2 passed")).unwrap_err();
    assert!(
        told.contains("`a3.2` began before `a2.4` made a change") && told.contains("after `a2.4`"),
        "{told}"
    );
    let edited = StateChange::FileEdited {
        path: "a.rs".to_owned(),
        diff: None,
        before: None,
        after: None,
    };
    let rows = StateChange::RowsChanged {
        connection: "db".to_owned(),
        table: None,
        rows: 1,
    };
    let changed = |change: &StateChange| ToolResult::success(json!("ok")).with_changes(vec![change.clone()]);
    let told = check(changed(&edited), Some("ok")).unwrap_err();
    assert!(
        told.contains("`a3.2` made a change itself (edited a.rs)"),
        "{told}"
    );
    assert!(check(changed(&rows), Some("ok")).is_ok(), "the database says so");

    assert!(RecordedCall::outdates(&changed(&edited)) && RecordedCall::outdates(&changed(&rows)));
    assert!(!RecordedCall::outdates(&tested("2 passed\n")));
    let mut delegated = changed(&edited);
    delegated.metadata.insert("started_agent".to_owned(), json!(4));
    assert!(!RecordedCall::outdates(&delegated), "the agent's own call did");
}

#[test]
fn paor_10_the_report_has_the_confirmations_of_the_reflector_and_no_others() {
    let judged = |confirmed_by: Value| {
        let mut run = renamed::tested();
        let judgement = json!({"verdict": "achieved", "summary": "s", "confirmed_by": confirmed_by});
        let answer = AgentAnswer::Reflection(reflection(&judgement));
        give(&mut run, 70_000, agent_ended("run.5", ended_with(answer)));
        json!(run.report().confirmed_by)
    };
    assert_eq!(judged(json!([])), json!([]));
    assert_eq!(judged(complete()), complete());
}

#[test]
fn paor_9_a_reflector_that_answers_in_words_is_asked_for_the_form_twice() {
    let mut agent = started(spec(), AgentRole::Reflector);
    for (of, expected) in [
        ("a7.1", "ask a7.2"),
        ("a7.2", "ask a7.3"),
        ("a7.3", "finish with It looks fine."),
    ] {
        assert_eq!(
            give_agent(&mut agent, replied(of, text("It looks fine."))),
            [expected]
        );
    }
    let mut agent = started(spec(), AgentRole::Reflector);
    for (of, expected) in [("a7.1", "ask a7.2"), ("a7.2", "ask a7.3")] {
        assert_eq!(give_agent(&mut agent, replied(of, text(" "))), [expected]);
    }
    let ended = give_agent(&mut agent, replied("a7.3", text(" ")));
    assert!(
        ended[0].starts_with("finish, as the model's reply was malformed 3 times"),
        "{ended:?}"
    );
}

#[test]
fn paor_9_the_reflectors_words_become_a_question_to_the_user() {
    let mut run = reflecting(spec());
    assert_eq!(
        give(&mut run, 10, answered("run.3", "It looks fine.")),
        [
            "ask user run.4 It looks fine.\n\nThe reflector gave no verdict, only these words. Is the goal reached, or what is left to do? []"
        ]
    );
    assert_eq!(run.summary(), "It looks fine.");
}
