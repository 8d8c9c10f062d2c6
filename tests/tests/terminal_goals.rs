//! Whole goals as a person sees them: the command in a real terminal, a scripted model server, the shipped agents.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use dirigent_model_server::{Request, Script, Turn};
use dirigent_tests::pty::Terminal;
use dirigent_tests::scripted::{after, calls, delegate};
use dirigent_tests::served::{Served, achieved, call, command, go_on, is_lead, is_reflector, mentions, plan};
use serde_json::json;

const RUN: [&str; 4] = ["run", "Sums are wrong: mend them", "--workspace", "work"];

fn read(path: &str) -> Turn {
    call("file_operations", &json!({"operation": "read", "path": path}))
}

/// The reply of each agent, recognized by its task.
fn mender(request: &Request) -> Turn {
    let is_given = |task: &str| mentions(request, task);
    match request.turn {
        1 if is_given("Show the fault.") => command(&["sh", "sum.sh", "1", "2"]),
        1 => read("sum.sh"),
        2 if is_given("Mend the fault.") => call(
            "file_operations",
            &json!({"operation": "edit", "path": "sum.sh", "old": "total=1", "new": "total=0"}),
        ),
        _ if is_given("Find where") => Turn::text("sum.sh:1 begins with total=1."),
        _ if is_given("Show the fault.") => Turn::text("It printed 4 in place of 3."),
        _ if is_given("Mend the fault.") => Turn::text("sum.sh begins with total=0 now."),
        _ => Turn::text("I see nothing wrong with it."),
    }
}

/// The handle of the planned test in the reflector's request.
fn tested(request: &Request) -> String {
    let observations = request
        .messages()
        .iter()
        .find_map(|message| message["content"].as_str()?.split_once("<OBSERVATIONS>"));
    let (_, observations) = observations.unwrap();
    let observations = dirigent_core::prompt::parse_observations(observations);
    let test = observations.iter().find(|it| it["subtask"] == "test").unwrap();
    test["calls"][0]["handle"].as_str().unwrap().to_owned()
}

#[test]
fn paor_10_a_bug_fixed_in_five_steps_is_summarised() {
    let script = Script::from_fn(|request| match () {
        () if is_lead(request) => plan(
            "Find the fault, show it, mend it, test it, look at it again.",
            [
                delegate("explore", "explore", "Find where sums are made."),
                after(delegate("reproduce", "verify", "Show the fault."), ["explore"]),
                after(delegate("edit", "implement", "Mend the fault."), ["reproduce"]),
                after(
                    calls(
                        "test",
                        [("execute_command", json!({"command": ["sh", "test.sh"]}))],
                    ),
                    ["edit"],
                ),
                after(delegate("review", "review", "Review the change."), ["test"]),
            ],
        ),
        () if is_reflector(request) => call(
            "submit_reflection",
            &json!({
                "verdict": "achieved",
                "summary": "Sums were one too high, as they began with 1.",
                "confirmed_by": [{"call": tested(request)}]
            }),
        ),
        () => mender(request),
    });
    let served = Served::new("", script);
    served.place.write(
        "sum.sh",
        "total=1\nfor n in \"$@\"; do total=$((total + n)); done\necho $total\n",
    );
    served.place.write("test.sh", "test \"$(sh sum.sh 1 2)\" = 3\n");

    let seen = Terminal::start(served.place.command(RUN)).end_with(0);

    let (_, summary) = seen.split_once("Goal achieved after 1 iteration").unwrap();
    assert!(
        summary.contains("Sums were one too high, as they began with 1."),
        "{seen}"
    );
    assert!(summary.contains("sum.sh"), "{seen}");
    assert!(summary.contains("sh test.sh (exit code 0)"), "{seen}");
    for intermediate in ["It printed 4", "I see nothing wrong", "total=1"] {
        assert!(!summary.contains(intermediate), "{intermediate}: {seen}");
    }
    assert!(served.place.read("sum.sh").starts_with("total=0\n"));
    let verbose = served.place.dirigent(["show", "last", "--verbose"]).with_code(0);
    assert!(
        verbose.stdout.contains("It printed 4 in place of 3."),
        "{verbose}"
    );
}

#[test]
fn paor_1_a_goal_whose_first_approach_fails_is_reached_by_another() {
    let look = |path: &str| {
        calls(
            "look",
            [("file_operations", json!({"operation": "read", "path": path}))],
        )
    };
    let script = Script::from_fn(move |request| match () {
        () if is_lead(request) && mentions(request, "There is no add.sh.") => {
            plan("Look into sum.sh.", [look("sum.sh")])
        }
        () if is_lead(request) => plan("Look into add.sh.", [look("add.sh")]),
        () if mentions(request, "Look into sum.sh.") => achieved("Sums are made in sum.sh."),
        () => go_on("There is no add.sh."),
    });
    let served = Served::new("", script);
    served.place.write("sum.sh", "echo 0\n");

    let seen = Terminal::start(served.place.command(RUN)).end_with(0);

    let first = seen.find("plan: Look into add.sh.").unwrap();
    let second = seen.find("plan: Look into sum.sh.").unwrap();
    assert!(first < second, "{seen}");
    assert!(seen.contains("Goal achieved after 2 iterations"), "{seen}");
    assert!(seen.contains("Sums are made in sum.sh."), "{seen}");
}
