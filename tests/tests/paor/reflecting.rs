//! What a reflector receives, how it looks, and the confirmations that it lists.

use dirigent::{Detail, EndReason, Goal, render};
use dirigent_tests::scripted::{Scripted, after, call, calls, delegate, last_call, plan, says};
use dirigent_tests::stage::{Stage, achieved_report};
use serde_json::{Value, json};

fn command(script: &str) -> Value {
    json!({"command": ["sh", "-c", script]})
}

fn judgement(confirmed_by: Value) -> Value {
    json!({"verdict": "achieved", "summary": "It is written.", "confirmed_by": confirmed_by})
}

#[tokio::test]
async fn paor_6_paor_10_a_reflector_sees_the_diff_and_confirms_by_calls_of_all_agents() {
    let stage = Stage::new().file("a.txt", "one\n");
    let write = json!({"operation": "write", "path": "new.txt", "content": "hello\n"});
    let edit = json!({"operation": "edit", "path": "a.txt", "old": "one", "new": "two"});
    let wrong = json!([{"call": "run.99"}, {"call": "a2.6", "line": "3 passed"}]);
    let right = json!([{"call": "a2.6", "line": "2 passed"}, {"call": "run.3"}]);
    let model = Scripted::new()
        .lead([plan(
            "Write, then look.",
            [
                delegate("write", "implement", "Write new.txt."),
                after(
                    calls("look", [("execute_command", command("test -e new.txt"))]),
                    ["write"],
                ),
            ],
        )])
        .agent(
            "implement",
            [
                call("file_operations", write),
                call("file_operations", edit),
                call("execute_command", command("echo 'Ran it: 2 passed, 0 failed'")),
                says("Written."),
            ],
        )
        .reflector([
            call("file_operations", json!({"operation": "read", "path": "new.txt"})),
            call(
                "file_operations",
                json!({"operation": "delete", "path": "new.txt"}),
            ),
            call("read_output", json!({"handle": "diff.1"})),
            last_call("submit_reflection", judgement(wrong)),
            last_call("submit_reflection", judgement(right)),
        ]);
    let dirigent = stage.builder(model.clone()).build().await.unwrap();
    let run = dirigent.start(stage.goal("Write new.txt")).await.unwrap();
    let report = achieved_report(&run).await;

    let asked = model.reflector_asked();
    let diff = asked[0].section("DIFF").unwrap();
    for part in ["-one\n+two", "new file mode 100644", "+++ b/new.txt", "+hello"] {
        assert!(diff.contains(part), "{diff}");
    }
    let observed = asked[0].observations("OBSERVATIONS");
    let ran = &observed[0]["calls"][2];
    assert_eq!(
        (&ran["handle"], &ran["success"], &ran["output"]),
        (
            &json!("a2.6"),
            &json!(true),
            &json!("Ran it: 2 passed, 0 failed\n")
        )
    );
    assert_eq!(asked[1].result()["success"], true, "{}", asked[1].last());
    assert_eq!(asked[2].result()["code"], "access_denied", "{}", asked[2].last());
    let whole = asked[3].result()["output"].clone();
    assert!(whole.as_str().unwrap().contains("+++ b/new.txt\n"), "{whole}");
    for fault in [
        "no call with the handle `run.99` has run",
        "no line of the output of `a2.6` contains `3 passed`",
    ] {
        assert!(asked[4].last().contains(fault), "{}", asked[4].last());
    }

    assert_eq!(
        json!(report.confirmed_by),
        json!([
            {"call": "a2.6", "command": "sh -c 'echo '\\''Ran it: 2 passed, 0 failed'\\'''", "exit_code": 0, "line": "Ran it: 2 passed, 0 failed"},
            {"call": "run.3", "command": "sh -c 'test -e new.txt'", "exit_code": 0}
        ])
    );
    let text = render::report(&report, Detail::Concise);
    let shown = "\nConfirmed by:\n  sh -c 'echo '\\''Ran it: 2 passed, 0 failed'\\''' (exit code 0)\n    Ran it: 2 passed, 0 failed\n";
    assert!(text.contains(shown), "{text}");

    let recording = dirigent.recording(run.id()).await.unwrap();
    let replayed = dirigent
        .replay(&recording, Goal::from_recording(&recording))
        .await
        .unwrap();
    let replayed = replayed.outcome().await.unwrap();
    assert_eq!(replayed.confirmed_by, report.confirmed_by);
}

#[tokio::test]
async fn paor_6_the_diff_has_one_net_change_for_a_file_that_tools_and_commands_changed() {
    let stage = Stage::new().file("a.txt", "one\n");
    let edit = json!({"operation": "edit", "path": "a.txt", "old": "one", "new": "two"});
    let append = "echo three >> a.txt; echo draft > draft.txt";
    let delete = json!({"operation": "delete", "path": "draft.txt"});
    let model = Scripted::new()
        .lead([
            call("file_operations", edit),
            call("execute_command", command(append)),
            call("file_operations", delete),
            says("Done."),
        ])
        .reflector([last_call("submit_reflection", judgement(json!([])))]);
    let dirigent = stage.builder(model.clone()).build().await.unwrap();
    let run = dirigent.start(stage.goal("Edit a.txt")).await.unwrap();
    achieved_report(&run).await;

    let asked = model.reflector_asked();
    let diff = asked[0].section("DIFF").unwrap();
    assert!(
        diff.starts_with("# a.txt: changed by file tools, and while command 1 ran\ndiff --git"),
        "{diff}"
    );
    assert!(
        diff.ends_with(
            "@@ -1 +1,2 @@\n-one\n+two\n+three\n# draft.txt: changed by file tools, and while command 1 ran; now it is as before the run"
        ),
        "{diff}"
    );
    let changed = asked[0].section("CHANGED_FILES").unwrap();
    assert_eq!(
        changed,
        format!(
            "- a.txt (edited; also changed while command 1 ran)\n- draft.txt (as before the run; also changed while command 1 ran)\n\
             Commands, during which they or something else changed files:\n1. `sh -c '{append}'`"
        )
    );
}

#[tokio::test]
async fn paor_10_a_test_before_the_change_or_the_change_confirms_nothing() {
    let stage = Stage::new().file("a.txt", "one\n");
    let edit = json!({"operation": "edit", "path": "a.txt", "old": "one", "new": "two"});
    let early = json!([{"call": "run.2", "line": "2 passed"}, {"call": "a2.2"}]);
    let late = json!([{"call": "a2.4", "line": "2 passed"}]);
    let baseline = calls("baseline", [("execute_command", command("echo '2 passed'"))]);
    let model = Scripted::new()
        .lead([plan(
            "Test, then edit.",
            [
                baseline,
                after(delegate("edit", "implement", "Edit a.txt."), ["baseline"]),
            ],
        )])
        .agent(
            "implement",
            [
                call("file_operations", edit),
                call("execute_command", command("echo '2 passed'")),
                says("Edited."),
            ],
        )
        .reflector([
            last_call("submit_reflection", judgement(early)),
            last_call("submit_reflection", judgement(late)),
        ]);
    let dirigent = stage.builder(model.clone()).build().await.unwrap();
    let run = dirigent.start(stage.goal("Edit a.txt")).await.unwrap();
    let report = achieved_report(&run).await;

    let asked = model.reflector_asked();
    for fault in [
        "`run.2` began before `a2.2` made a change",
        "`a2.2` made a change itself (edited a.txt)",
    ] {
        assert!(asked[1].last().contains(fault), "{}", asked[1].last());
    }
    let [confirmed] = &report.confirmed_by[..] else {
        panic!("{:?}", report.confirmed_by)
    };
    assert_eq!(confirmed.call.to_string(), "a2.4");
}

#[tokio::test]
async fn paor_10_a_check_that_failed_before_the_changes_too_can_confirm_that_nothing_else_failed() {
    let stage = Stage::new().file("a.txt", "one\n");
    let test = || command("echo '7 passed; 1 failed'; exit 1");
    let edit = json!({"operation": "edit", "path": "a.txt", "old": "one", "new": "two"});
    let early = json!([{"call": "a1.2", "line": "1 failed"}]);
    let other = json!([{"call": "a1.6"}]);
    let late = json!([{"call": "a1.8", "line": "7 passed"}]);
    let model = Scripted::new()
        .lead([
            call("execute_command", test()),
            call("file_operations", edit),
            call("execute_command", command("exit 2")),
            call("execute_command", test()),
            says("Edited; one test failed before, too."),
        ])
        .reflector([
            last_call("submit_reflection", judgement(early)),
            last_call("submit_reflection", judgement(other)),
            last_call("submit_reflection", judgement(late)),
        ]);
    let dirigent = stage.builder(model.clone()).build().await.unwrap();
    let run = dirigent.start(stage.goal("Edit a.txt")).await.unwrap();
    let report = achieved_report(&run).await;

    let asked = model.reflector_asked();
    let early = asked[1].last();
    assert!(
        early.contains("`a1.2` began before `a1.4` made a change"),
        "{early}"
    );
    let other = asked[2].last();
    assert!(other.contains("did not fail in the same way before"), "{other}");
    let [confirmed] = &report.confirmed_by[..] else {
        panic!("{:?}", report.confirmed_by)
    };
    assert_eq!(
        confirmed.failed_before.map(|call| call.to_string()).as_deref(),
        Some("a1.2")
    );
    let shown = render::report(&report, Detail::Concise);
    assert!(
        shown.contains("(exit code 1, failed before the changes too)"),
        "{shown}"
    );
}

#[tokio::test]
async fn paor_10_without_confirmations_of_the_reflector_nothing_counts_as_confirmed() {
    let stage = Stage::new();
    let write = json!({"operation": "write", "path": "new.txt", "content": "hello\n"});
    let model = Scripted::new()
        .lead([
            call("file_operations", write),
            call("execute_command", command("test -e new.txt")),
            says("Written."),
        ])
        .reflector([last_call("submit_reflection", judgement(json!([])))]);
    let dirigent = stage.builder(model).build().await.unwrap();
    let run = dirigent.start(stage.goal("Write new.txt")).await.unwrap();
    let report = achieved_report(&run).await;
    assert_eq!(report.confirmed_by, []);
    assert!(!render::report(&report, Detail::Concise).contains("Confirmed by"));
}

#[tokio::test]
async fn paor_9_a_reflectors_third_answer_in_words_becomes_a_question() {
    let stage = Stage::new();
    let model = Scripted::new()
        .lead([plan("Nothing to do.", [])])
        .reflector(["Fine.", "Looks fine.", "It looks fine to me."].map(says));
    let dirigent = stage.builder(model.clone()).build().await.unwrap();
    let run = dirigent.start(stage.goal("Look")).await.unwrap();
    let report = run.outcome().await.unwrap();

    assert_eq!(report.end, Some(EndReason::UserRequired));
    assert_eq!(model.reflector_asked().len(), 3);
    let question = &report.question.as_ref().unwrap().question;
    assert!(question.starts_with("It looks fine to me.\n"), "{question}");
}
