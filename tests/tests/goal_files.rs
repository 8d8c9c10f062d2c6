//! Files that a goal mentions as `@path`, and what models are told about tools before they call them, with the real command.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use dirigent_model_server::{Fault, Script, Turn};
use dirigent_tests::served::{Served, is_lead, mentions};

const FILE: &str = "<FILE path=\"src/main.rs\">\nfn main() {}\n</FILE>";

#[test]
fn host_3_a_goal_includes_the_files_that_it_mentions_even_after_an_outage() {
    let script = Script::from_fn(|request| match request.number {
        1 => Turn::from(Fault::Unavailable { retry_after: None }),
        _ => Turn::text("It does nothing."),
    });
    let served = Served::new("", script);
    let place = &served.place;
    place.write("src/main.rs", "fn main() {}\n");
    let goal = "What does @src/main.rs do, and @src/mian.rs? Ask me@example.com or @somebody.";
    let ended = place.run(goal).with_code(1);
    let note =
        "note: `@src/mian.rs` is not included: `src/mian.rs` does not exist; did you mean `src/main.rs`?\n";
    assert!(ended.stderr.contains(note), "{}", ended.stderr);
    assert_eq!(ended.stderr.matches("is not included").count(), 1);

    // The run has its own copy of the file.
    std::fs::remove_file(place.work().join("src/main.rs")).unwrap();
    let resumed = place.dirigent(["resume", "last"]).with_code(0);
    assert!(resumed.stdout.contains("It does nothing."), "{}", resumed.stdout);
    let requests = served.requests();
    assert_eq!(requests.len(), 2);
    for request in requests {
        assert!(mentions(&request, &format!("<GOAL>\n{goal}\n</GOAL>\n{FILE}")));
    }
    let shown = place.dirigent(["show", "last"]).with_code(0);
    assert!(!shown.stdout.contains("fn main()"), "{}", shown.stdout);
}

#[test]
fn models_are_told_about_connections_and_rules_before_they_call_a_tool() {
    let settings = "[connections.app]\ndatabase = \"sqlite\"\npath = \"app.db\"\n\
        [approvals]\ndeny = [\"execute_command(command: rm *)\"]\nask = [\"execute_command(command: git push*)\"]\n";
    let served = Served::new(settings, Script::turns([Turn::text("Hello.")]));
    let _ = served.place.run("Greet me").with_code(0);
    let requests = served.requests();
    assert!(is_lead(&requests[0]));
    let prompt = requests[0].system_prompt().to_owned();
    for part in [
        "Connections: `app` (SQLite, read-only).",
        "## http_request",
        "This run's rules deny command `rm *`, and require approval for command `git push*`.",
    ] {
        assert!(prompt.contains(part), "{part}: {prompt}");
    }
    assert!(!prompt.contains("app.db"), "{prompt}");

    let tools = |settings: &str, agent: &str| {
        let served = Served::new(settings, Script::turns([]));
        let listed = served.place.dirigent(["agents", "--json"]).with_code(0);
        let agents = listed.json_lines().remove(0);
        let entries = agents["agents"].as_array().unwrap().clone();
        let entry = entries.into_iter().find(|entry| entry["name"] == agent);
        entry.unwrap()["tools"].to_string()
    };
    for agent in ["explore", "review", "verify", "implement"] {
        assert!(tools(settings, agent).contains("\"execute_sql\""), "{agent}");
        let without = tools("", agent);
        assert!(!without.contains("execute_sql"), "{agent}: {without}");
        let looks_outside = ["explore", "verify"].contains(&agent);
        assert_eq!(
            without.contains("\"http_request\""),
            looks_outside,
            "{agent}: {without}"
        );
    }
}
