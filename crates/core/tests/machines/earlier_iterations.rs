//! What a reflector is told about earlier iterations: shortened, with handles, within the budget (PAOR-6).

use dirigent_core::prompt::OutputHandle;
use dirigent_core::run::Run;
use serde_json::{Value, json};

use crate::driver::{answered, give, planned, reflected, running, told};
use crate::fixture::spec;

/// A run with this many finished iterations, each with this many agents and their findings; returns it with the effect of the next
/// iteration's reflector.
fn after_iterations(iterations: u32, agents: u32, findings: impl Fn(u32) -> String) -> (Run, String) {
    let mut limited = spec();
    limited.limits.max_parallel = agents;
    limited.limits.max_agents = 100_000;
    let (mut run, _) = running(limited);
    let mut step = 1;
    for iteration in 1..=iterations {
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
            give(
                &mut run,
                0,
                answered(&format!("run.{step}"), &findings(iteration)),
            );
        }
        step += 1;
        give(
            &mut run,
            0,
            reflected(&format!("run.{step}"), "continue", "Not yet."),
        );
        step += 1;
    }
    let plan = json!({"summary": "Look.", "subtasks": [{"id": "look", "title": "Look", "agent": "explore", "task": "t"}]});
    give(&mut run, 0, planned(&format!("run.{step}"), &plan));
    give(
        &mut run,
        0,
        answered(&format!("run.{}", step + 1), "Nothing more."),
    );
    (run, format!("run.{}", step + 2))
}

fn iterations(task: &str) -> Vec<Value> {
    let (_, rest) = task.split_once("<ITERATIONS>\n").unwrap();
    let (section, _) = rest.split_once("\n</ITERATIONS>").unwrap();
    section
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn paor_6_findings_of_earlier_iterations_are_in_the_reflectors_request() {
    let (run, reflector) = after_iterations(2, 1, |iteration| format!("Found {iteration}."));
    let iterations = iterations(&told(&run, &reflector));
    assert_eq!(
        iterations[0]["observations"],
        json!([{"subtask": "look1", "status": "succeeded", "agent": "explore", "findings": "Found 1.", "handle": "a2"}])
    );
    assert_eq!(iterations[1]["observations"][0]["findings"], "Found 2.");
    // The observations of the reflector's own iteration are complete.
    assert!(told(&run, &reflector).contains(r#""findings":"Nothing more.""#));
}

#[test]
fn paor_6_long_findings_of_earlier_iterations_are_shortened_with_the_agents_handle() {
    let (run, reflector) = after_iterations(3, 1, |iteration| format!("{iteration}: {}", "x".repeat(50_000)));
    let iterations = iterations(&told(&run, &reflector));
    for (iteration, handle) in [(0, "a2"), (1, "a4")] {
        let findings = iterations[iteration]["observations"][0]["findings"]
            .as_str()
            .unwrap();
        assert!(
            findings.starts_with(&format!("{}: x", iteration + 1)),
            "{findings}"
        );
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
fn paor_6_earlier_iterations_stay_within_their_budget_and_omissions_have_a_handle() {
    let (run, reflector) = after_iterations(15 - 1, 20, |_| "y".repeat(2_000));
    let task = &told(&run, &reflector);
    let iterations = iterations(task);
    let earlier: usize = iterations
        .iter()
        .map(|iteration| iteration.to_string().len())
        .sum();
    assert!(earlier < 30_000, "{earlier} bytes");
    // The latest iterations come first.
    assert_eq!(iterations[12]["observations"][0]["subtask"], "look1");
    let oldest = iterations[0]["observations"].as_array().unwrap();
    assert_eq!(oldest.len(), 1);
    assert_eq!(
        oldest[0],
        json!({"left_out": 20, "of_these_succeeded": 20, "handle": "iteration.1"})
    );
}

#[test]
fn paor_6_a_handle_names_a_call_an_agent_or_an_iteration() {
    for text in ["a3.7", "run.7", "a3", "iteration.2"] {
        assert_eq!(
            text.parse::<OutputHandle>().map(|handle| handle.to_string()),
            Ok(text.to_owned())
        );
    }
    for text in ["", "run", "iteration", "iteration.x", "3", "b3.1"] {
        assert!(text.parse::<OutputHandle>().is_err(), "{text}");
    }
}
