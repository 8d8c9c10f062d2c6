//! What a planner and a reflector know of the rounds before the last: in short, with handles, within the budget (PAOR-6).

use dirigent_core::prompt::Handle;
use dirigent_core::run::Run;
use serde_json::{Value, json};

use crate::driver::{answered, brief_of, give, planned, reflected, running};
use crate::fixture::spec;

/// A run whose reflector has sent it into the next round so many times, each time after agents with these findings.
fn after_rounds(rounds: u32, agents: u32, findings: impl Fn(u32) -> String) -> (Run, String) {
    let mut limited = spec();
    limited.limits.max_parallel = agents;
    limited.limits.max_agents = 100_000;
    let (mut run, _) = running(limited);
    let mut step = 1;
    for round in 1..=rounds {
        let subtasks: Vec<Value> = (1..=agents)
            .map(|agent| json!({"id": format!("look{agent}"), "title": "Look", "agent": "explore", "task": "t"}))
            .collect();
        give(
            &mut run,
            0,
            planned(
                &format!("run.{step}"),
                &json!({"summary": "Look.", "subtasks": subtasks}),
            ),
        );
        for _ in 0..agents {
            step += 1;
            give(&mut run, 0, answered(&format!("run.{step}"), &findings(round)));
        }
        step += 1;
        give(
            &mut run,
            0,
            reflected(&format!("run.{step}"), "continue", "Not yet."),
        );
        step += 1;
    }
    let planner = format!("run.{step}");
    (run, planner)
}

fn rounds(task: &str) -> Vec<Value> {
    let (_, rest) = task.split_once("<ROUNDS>\n").unwrap();
    let (section, _) = rest.split_once("\n</ROUNDS>").unwrap();
    section
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn paor_6_findings_of_two_rounds_ago_are_in_the_planners_request() {
    let (run, planner) = after_rounds(2, 1, |round| format!("Found {round}."));
    let rounds = rounds(&brief_of(&run, &planner).task);
    assert_eq!(
        rounds[0]["observations"],
        json!([{"subtask": "look1", "status": "succeeded", "agent": "explore", "findings": "Found 1.", "handle": "a2"}])
    );
    // Those of the last round stand in the request at length.
    assert_eq!(rounds[1].get("observations"), None);
    assert!(brief_of(&run, &planner).task.contains(r#""findings":"Found 2.""#));
}

#[test]
fn paor_6_findings_of_earlier_rounds_are_in_the_reflectors_request() {
    let (mut run, planner) = after_rounds(1, 1, |_| "Found it.".to_owned());
    let plan = json!({"summary": "Look.", "subtasks": [{"id": "look", "title": "Look", "agent": "explore", "task": "t"}]});
    give(&mut run, 0, planned(&planner, &plan));
    give(&mut run, 0, answered("run.5", "Nothing more."));
    let rounds = rounds(&brief_of(&run, "run.6").task);
    assert_eq!(rounds[0]["observations"][0]["findings"], "Found it.");
}

#[test]
fn paor_6_long_findings_of_earlier_rounds_are_shortened_with_the_handle_of_the_agent() {
    let (run, planner) = after_rounds(3, 1, |round| format!("{round}: {}", "x".repeat(50_000)));
    let rounds = rounds(&brief_of(&run, &planner).task);
    for (round, handle) in [(0, "a2"), (1, "a5")] {
        let findings = rounds[round]["observations"][0]["findings"].as_str().unwrap();
        assert!(findings.starts_with(&format!("{}: x", round + 1)), "{findings}");
        assert!(
            findings.contains(&format!(
                "characters left out: read them with read_output, handle {handle}]"
            )),
            "{findings}"
        );
        assert!(findings.len() < 1_000, "{} bytes", findings.len());
    }
}

#[test]
fn paor_6_earlier_rounds_keep_to_their_budget_and_what_is_left_out_has_the_handle_of_its_round() {
    let (run, planner) = after_rounds(15 - 1, 20, |_| "y".repeat(2_000));
    let task = &brief_of(&run, &planner).task;
    let rounds = rounds(task);
    let earlier: usize = rounds.iter().map(|round| round.to_string().len()).sum();
    assert!(earlier < 30_000, "{earlier} bytes");
    // The latest come first.
    assert_eq!(rounds[12]["observations"][0]["subtask"], "look1");
    let oldest = rounds[0]["observations"].as_array().unwrap();
    assert_eq!(oldest.len(), 1);
    assert_eq!(
        oldest[0],
        json!({"left_out": 20, "of_these_succeeded": 20, "handle": "round.1"})
    );
}

#[test]
fn paor_6_a_handle_is_a_call_an_agent_or_a_round() {
    for text in ["a3.7", "run.7", "a3", "round.2"] {
        assert_eq!(
            text.parse::<Handle>().map(|handle| handle.to_string()),
            Ok(text.to_owned())
        );
    }
    for text in ["", "run", "round", "round.x", "3", "b3.1"] {
        assert!(text.parse::<Handle>().is_err(), "{text}");
    }
}
