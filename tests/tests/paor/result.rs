//! PAOR-10, PAOR-11: what the user reads at the end.

use dirigent::{Detail, Report, render};
use dirigent_tests::scripted::{Scripted, achieved, after, call, calls, delegate, plan, says};
use dirigent_tests::stage::{Stage, achieved_report, agent, timeless};
use serde_json::json;

/// A run that looks, changes a file and confirms it.
async fn report() -> Report {
    let stage = Stage::new().file("greeting.txt", "helo world\n");
    let edit = (
        "file_operations",
        json!({"operation": "edit", "path": "greeting.txt", "old": "helo", "new": "hello"}),
    );
    let check = (
        "execute_command",
        json!({"command": ["grep", "-c", "hello", "greeting.txt"]}),
    );
    let model = Scripted::new()
        .planner([plan(
            "Look, mend, check.",
            [
                delegate("look", "scout", "Find the misspelt greeting."),
                after(calls("mend", [edit]), ["look"]),
                after(calls("check", [check]), ["mend"]),
            ],
        )])
        .agent(
            "scout",
            [
                call("search", json!({"pattern": "helo"})),
                says("greeting.txt:1 says helo."),
            ],
        )
        .reflector([achieved("The greeting in greeting.txt is spelt right.")]);
    let dirigent = stage
        .builder(model)
        .agent(agent("scout", &["search"]))
        .build()
        .await
        .unwrap();
    let run = dirigent.start(stage.goal("Mend the greeting")).await.unwrap();
    let report = achieved_report(&run).await;
    assert_eq!(stage.read("greeting.txt"), "hello world\n");
    timeless(&report)
}

#[tokio::test]
async fn paor_10_the_result_says_what_changed_and_how_it_was_confirmed_without_intermediate_output() {
    let text = render::report(&report().await, Detail::Concise);

    insta::assert_snapshot!(text, @r#"
    Goal achieved after 1 iteration, 0 ms: 4 model calls, 3 tool calls, 440 tokens.

    The greeting in greeting.txt is spelt right.

    Changed 1 file:
      edited   greeting.txt

    Confirmed by:
      grep -c hello greeting.txt
    "#);
    assert!(!text.contains("helo "), "intermediate output shows");
}

#[tokio::test]
async fn paor_11_on_request_every_step_and_observation_is_shown() {
    let text = render::report(&report().await, Detail::Verbose);

    // The command's own measure of its time differs from run to run.
    let (before, measured) = text.split_once("\"duration_ms\":").unwrap();
    let (_, rest) = measured.split_once('}').unwrap();
    let text = format!("{before}\"duration_ms\":0}}{rest}");
    insta::assert_snapshot!(text, @r#"
    Goal achieved after 1 iteration, 0 ms: 4 model calls, 3 tool calls, 440 tokens.

    The greeting in greeting.txt is spelt right.

    Changed 1 file:
      edited   greeting.txt

    Confirmed by:
      grep -c hello greeting.txt

    Iteration 1: Look, mend, check.

      look [Title of look] succeeded (0 ms)
        a2.2 search {"pattern":"helo"} (0 ms)
        scout (a2) found: greeting.txt:1 says helo.

      mend [Title of mend] succeeded (0 ms)
        run.3 file_operations {"operation":"edit","path":"greeting.txt","old":"helo","new":"hello"} (0 ms)
          → {"path":"greeting.txt","line":1}

      check [Title of check] succeeded (0 ms)
        run.4 execute_command {"command":["grep","-c","hello","greeting.txt"]} (0 ms)
          → {"exit_code":0,"signal":null,"stdout":"1\n","stderr":"","timed_out":false,"duration_ms":0}
          metadata {"confined":true,"network":false}

      Reflection (achieved): The greeting in greeting.txt is spelt right.
    "#);
}
