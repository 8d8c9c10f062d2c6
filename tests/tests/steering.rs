//! APPROVE, PAOR-8, PAOR-9, HOST-8, HOST-9 and HOST-11: steering a run from another terminal, whether its process is alive or has just been
//! killed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use dirigent_model_server::{Gate, Script, Turn};
use dirigent_tests::approving::{ASK, RUN, one_agent, two_agents};
use dirigent_tests::cli::{Ended, Place, Watched};
use dirigent_tests::pty::{CTRL_C, Terminal, last_line};
use dirigent_tests::scripted::{calls, delegate};
use dirigent_tests::served::{
    Served, achieved, ask_user, go_on, is_lead, is_reflector, mentions, plan, plan_for_guidance,
};
use serde_json::{Value, json};

fn look() -> Value {
    calls("look", [("search", json!({"pattern": "x"}))])
}

/// A first plan that does not reach the goal, and a second one for the guidance. The first reflection waits at the gate.
fn guided(gate: &Gate) -> Script {
    let gate = gate.clone();
    Script::from_fn(move |request| match () {
        () if is_lead(request) && mentions(request, "only in src") => {
            plan_for_guidance("Search in src only.", [look()])
        }
        () if is_lead(request) => plan("Search everywhere.", [look()]),
        () if mentions(request, "Search in src only.") => achieved("Found in src."),
        () => go_on("Not found.").wait_before_headers(&gate),
    })
}

/// Waits until the run's own terminal asks about the call.
#[track_caller]
fn asked(terminal: &Terminal, call: &str) {
    let (asked, prompt) = (format!("! {call}: "), format!("{call}: "));
    terminal.wait_until(call, |all| {
        all.contains(&asked) && last_line(all).starts_with(&prompt) && last_line(all).ends_with("· l later")
    });
}

fn has(place: &Place, file: &str) -> bool {
    place.work().join(file).exists()
}

/// Approves a call, and returns the command's JSON output.
fn approve(place: &Place, call: &str, code: i32) -> Value {
    let ended = place
        .dirigent(["approve", "last", call, "--json"])
        .with_code(code);
    ended.json_lines().remove(0)
}

/// The effect ids of the waiting calls.
fn waiting(place: &Place) -> Vec<String> {
    let shown = place
        .dirigent(["approve", "last", "--json"])
        .with_code(0)
        .json_lines();
    let calls = shown[0]["waiting"].as_array().unwrap().iter();
    calls
        .map(|call| call["effect"].as_str().unwrap().to_owned())
        .collect()
}

fn state(place: &Place) -> Value {
    place.dirigent(["runs", "--json"]).with_code(0).json_lines()[0]["state"].clone()
}

#[test]
fn approve_1_another_terminal_shows_pending_calls_in_full_without_deciding() {
    let served = Served::new(ASK, one_agent());
    let place = &served.place;
    let terminal = Terminal::start(place.command(RUN));
    asked(&terminal, "a2.2");
    let shown = place.dirigent(["approve", "last"]).with_code(0);
    for told in [
        "! a2.2: implement (a2) wants to use execute_command\n    $ touch first.txt\n  in      ",
        " a2.2 [--edit JSON | --reject [REASON] | --guide TEXT | --always CALLS]\n  with CALLS one of:\n    'execute_command(command: touch first.txt)'\n",
    ] {
        assert!(shown.stdout.contains(told), "{shown}");
    }
    assert_eq!(waiting(place), ["a2.2"]);
    // A decision needs a call.
    let _ = place.dirigent(["approve", "last", "--reject"]).with_code(2);
    assert_eq!(waiting(place), ["a2.2"]);

    assert_eq!(approve(place, "a2.2", 0)["state"], "accepted");
    let contents = terminal.end_with(0);
    assert!(contents.contains("a2.2 no longer needs an answer"), "{contents}");
    assert!(has(place, "first.txt"));
}

#[test]
fn approve_2_another_terminal_edits_rejects_and_guides() {
    for (flags, made, told) in [
        (
            ["--edit", r#"{"command": ["touch", "other.txt"]}"#],
            "other.txt",
            "runs with your parameters",
        ),
        (["--reject", "not here"], "", "a2.2 is rejected"),
        (["--guide", "by hand"], "", "its agent receives your guidance"),
    ] {
        let served = Served::new(ASK, one_agent());
        let place = &served.place;
        let terminal = Terminal::start(place.command(RUN));
        asked(&terminal, "a2.2");
        let said = place
            .dirigent(["approve", "last", "a2.2"].iter().chain(&flags))
            .with_code(0);
        assert!(said.stdout.contains(told), "{said}");
        let _ = terminal.end_with(0);
        assert!(!has(place, "first.txt"));
        assert!(made.is_empty() || has(place, made));
    }
}

#[test]
fn approve_3_parameters_that_do_not_fit_are_refused_and_the_call_still_waits() {
    let served = Served::new(ASK, one_agent());
    let place = &served.place;
    let terminal = Terminal::start(place.command(RUN));
    asked(&terminal, "a2.2");
    let refused = place
        .dirigent(["approve", "last", "a2.2", "--edit", r#"{"command": 5}"#])
        .with_code(2);
    assert!(
        refused.stderr.contains("the edited parameters are invalid"),
        "{refused}"
    );
    let no_json = place
        .dirigent(["approve", "last", "a2.2", "--edit", "{"])
        .with_code(2);
    assert!(no_json.stderr.contains("not JSON"), "{no_json}");
    let never_asked = place.dirigent(["approve", "last", "a9.9"]).with_code(2);
    assert!(
        never_asked.stderr.contains("call `a9.9` is not waiting"),
        "{never_asked}"
    );
    assert_eq!(waiting(place), ["a2.2"]);
    terminal.enters("a");
    let _ = terminal.end_with(0);
}

#[test]
fn host_11_approve_3_after_a_kill_between_two_approvals_the_other_call_still_waits() {
    let gate = Gate::new();
    let served = Served::new(ASK, two_agents(&gate));
    let place = &served.place;
    let terminal = Terminal::start(place.command(RUN));
    asked(&terminal, "a2.2");
    gate.open();
    terminal.wait_until("the second call", |_| waiting(place) == ["a2.2", "a3.2"]);
    // The second is answered, and its branch ends while the first still waits.
    assert_eq!(approve(place, "a3.2", 0)["state"], "accepted");
    terminal.wait_for("✓ two: ");
    assert!(has(place, "second.txt") && !has(place, "first.txt"));
    terminal.kill();

    assert_eq!(state(place), "interrupted");
    assert_eq!(waiting(place), ["a2.2"]);
    let resumed = Terminal::start(place.command(["resume", "last"]));
    asked(&resumed, "a2.2");
    assert_eq!(waiting(place), ["a2.2"]);
    resumed.enters("a");
    let _ = resumed.end_with(0);
    assert!(has(place, "first.txt"));
    approve(place, "a2.2", 2);
    let report = place
        .dirigent(["show", "last", "--json"])
        .with_code(0)
        .json_lines();
    assert_eq!(report[0].get("waiting"), None);
}

#[test]
fn approve_3_an_approval_given_without_a_process_is_applied_once_by_the_next_one() {
    let served = Served::new(ASK, one_agent());
    let place = &served.place;
    let terminal = Terminal::start(place.command(RUN));
    asked(&terminal, "a2.2");
    terminal.kill();

    let said = place.dirigent(["approve", "last", "a2.2"]).with_code(0);
    assert!(
        said.stdout
            .contains("handled when the run continues: `dirigent resume "),
        "{said}"
    );
    assert!(!has(place, "first.txt"));
    let resumed = place.dirigent(["resume", "last", "--json"]).with_code(0);
    assert!(has(place, "first.txt"));
    let events = resumed.json_lines();
    let decided = events.iter().filter(|event| event["event"] == "approval_decided");
    assert_eq!(decided.count(), 1);
}

#[test]
fn paor_8_guidance_from_another_terminal_is_in_the_next_plan() {
    let gate = Gate::new();
    let served = Served::new("", guided(&gate));
    let place = &served.place;
    let run = Watched::start(place.command(RUN).arg("--json"));
    served.wait_for_requests(2);
    let said = place
        .dirigent(["guide", "last", "search only in src"])
        .with_code(0);
    assert!(
        said.stdout.starts_with("Accepted: the next plan of run "),
        "{said}"
    );
    gate.open();
    let ended = run.end().with_code(0);
    assert!(ended.stdout.contains("Search in src only."), "{ended}");
    // A run that has ended accepts no message.
    let late = place.dirigent(["guide", "last", "and now?"]).with_code(2);
    assert!(late.stderr.contains("has already ended"), "{late}");
}

#[test]
fn paor_8_immediate_guidance_stops_running_work() {
    let never = Gate::new();
    let script = Script::from_fn(move |request| match () {
        () if is_lead(request) && mentions(request, "leave that") => {
            plan_for_guidance("Another way.", [look()])
        }
        () if is_lead(request) => plan("One way.", [delegate("one", "implement", "Make the first.")]),
        () if is_reflector(request) => achieved("The judgement is in."),
        () => Turn::text("never").wait_before_headers(&never),
    });
    let served = Served::new("", script);
    let place = &served.place;
    let run = Watched::start(place.command(RUN).arg("--json"));
    served.wait_for_requests(2);
    let _ = place
        .dirigent(["guide", "last", "leave that", "--now"])
        .with_code(0);
    assert!(run.end().with_code(0).stdout.contains("Another way."));
}

#[test]
fn paor_8_guidance_can_be_given_to_a_single_agent() {
    let gate = Gate::new();
    let held = gate.clone();
    let script = Script::from_fn(move |request| match () {
        () if is_lead(request) => plan("Look.", [delegate("one", "explore", "Look.")]),
        () if is_reflector(request) => achieved("The judgement is in."),
        () if mentions(request, "mind the tests") => Turn::text("The tests are fine."),
        () => dirigent_tests::served::call("search", &json!({"pattern": "x"})).wait_before_headers(&held),
    });
    let served = Served::new("", script);
    let place = &served.place;
    let run = Watched::start(place.command(RUN).arg("--json"));
    served.wait_for_requests(2);
    let nobody = place
        .dirigent(["guide", "last", "hello", "--agent", "a7"])
        .with_code(2);
    assert!(nobody.stderr.contains("a7"), "{nobody}");
    let _ = place
        .dirigent(["guide", "last", "mind the tests", "--agent", "a2"])
        .with_code(0);
    gate.open();
    let ended = run.end().with_code(0);
    assert!(ended.stdout.contains("The tests are fine."), "{ended}");
}

#[test]
fn paor_9_a_question_is_answered_from_another_terminal() {
    let script = Script::from_fn(|request| match () {
        () if is_lead(request) => plan("Look.", [look()]),
        () if mentions(request, "the second file") => achieved("It is the second."),
        () => ask_user("Which one?", &["the first file", "the second file"]),
    });
    let served = Served::new("", script);
    let place = &served.place;
    let terminal = Terminal::start(place.command(RUN));
    terminal.wait_for_prompt("your answer: ");
    let runs = place.dirigent(["runs"]).with_code(0);
    assert!(runs.stdout.contains("\n          ? Which one?\n"), "{runs}");
    let said = place.dirigent(["answer", "last", "2"]).with_code(0);
    assert!(said.stdout.contains("the second file"), "{said}");
    let _ = terminal.end_with(0);
    let late = place.dirigent(["answer", "last", "2"]).with_code(2);
    assert!(late.stderr.contains("no such open question"), "{late}");
}

#[test]
fn host_8_a_run_is_cancelled_from_another_terminal() {
    let served = Served::new(ASK, one_agent());
    let place = &served.place;
    let terminal = Terminal::start(place.command(RUN));
    asked(&terminal, "a2.2");
    let _ = place.dirigent(["cancel", "last"]).with_code(0);
    let _ = terminal.end_with(130);
    assert_eq!(state(place), "cancelled");
    assert!(!has(place, "first.txt"));
}

#[test]
fn host_11_ctrl_c_while_watching_a_run_of_another_process_ends_only_the_watching() {
    let gate = Gate::new();
    let served = Served::new("", guided(&gate));
    let place = &served.place;
    let run = Watched::start(place.command(RUN).arg("--json"));
    served.wait_for_requests(2);
    let leaving = Terminal::start(place.command(["watch", "last"]));
    leaving.wait_for("✓ look: ");
    leaving.types(CTRL_C);
    let contents = leaving.end_with(0);
    assert!(contents.contains("stopped watching; run "), "{contents}");

    let watching = Terminal::start(place.command(["watch"]));
    watching.wait_for("✓ look: ");
    let _ = place
        .dirigent(["guide", "last", "search only in src"])
        .with_code(0);
    watching.wait_for("guidance: search only in src");
    gate.open();
    let contents = watching.end_with(0);
    assert!(
        contents.contains("Goal achieved after 2 iterations"),
        "{contents}"
    );
    let _ = run.end().with_code(0);
}

/// The number of the entry before the first one that satisfies the predicate.
fn entry_before(place: &Place, is_it: impl Fn(&Value) -> bool) -> u64 {
    let steps = place.dirigent(["show", "last", "--steps", "--json"]).with_code(0);
    let found = steps.json_lines().into_iter().find(is_it).unwrap();
    found["seq"].as_u64().unwrap() - 1
}

#[test]
fn host_9_a_run_is_forked_at_an_entry_with_other_guidance() {
    let gate = Gate::new();
    gate.open();
    let script = Script::from_fn(move |request| match () {
        () if is_lead(request) && mentions(request, "only in src") => {
            plan_for_guidance("Search in src only.", [look()])
        }
        () if is_lead(request) => plan("Search everywhere.", [look()]),
        () if mentions(request, "Search in src only.") => achieved("Found in src."),
        () if mentions(request, "only in src") => go_on("Not there yet."),
        () => achieved("Found everywhere."),
    });
    let served = Served::new("", script);
    let place = &served.place;
    let _ = place.dirigent(RUN).with_code(0);
    let first = place.dirigent(["runs", "--json"]).with_code(0).json_lines()[0]["run"].clone();
    let at = entry_before(place, |step| {
        step["event"].as_str().unwrap().contains("Reflecting")
    });

    let forked = fork(
        place,
        &["--at", &at.to_string(), "--guidance", "search only in src"],
    )
    .with_code(0);
    assert!(forked.stdout.contains("plan: Search in src only."), "{forked}");
    let runs = place.dirigent(["runs", "--json"]).with_code(0).json_lines();
    assert_eq!(runs[0]["forked_from"], json!({"run": first, "at": at}));
    let shown = place.dirigent(["show", "last"]).with_code(0);
    assert!(shown.stdout.contains("\nforked from "), "{shown}");
    assert!(shown.stdout.contains(&format!(" at entry {at}\n")), "{shown}");

    let beyond = fork(place, &["--at", "100000"]).with_code(2);
    assert!(
        beyond.stderr.contains("cannot be forked at entry 100000"),
        "{beyond}"
    );
}

fn fork(place: &Place, more: &[&str]) -> Ended {
    place.dirigent(["fork", "last"].iter().chain(more))
}

#[test]
fn host_3_the_steps_of_a_run_are_listed_by_their_numbers() {
    let served = Served::new(
        "",
        Script::from_fn(|request| match () {
            () if is_lead(request) => plan("Look.", [look()]),
            () => achieved("Nothing\nis there."),
        }),
    );
    let place = &served.place;
    let _ = place.dirigent(RUN).with_code(0);
    let steps = place.dirigent(["show", "last", "--steps"]).with_code(0).stdout;
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(r"\d\d:\d\d:\d\d", "HH:MM:SS");
    settings.bind(|| insta::assert_snapshot!(steps));
}

#[test]
fn approve_3_a_pending_decision_is_shown_and_a_second_one_is_refused() {
    let served = Served::new(ASK, one_agent());
    let place = &served.place;
    let _ = place.dirigent(RUN).with_code(4);
    assert_eq!(state(place), "user_required");
    assert_eq!(approve(place, "a2.2", 0)["state"], "pending");
    let guided = place.dirigent(["guide", "last", "Be quick."]).with_code(0);
    assert!(guided.stdout.starts_with("Pending: "), "{guided}");

    let second = place
        .dirigent(["approve", "last", "a2.2", "--reject", "changed my mind"])
        .with_code(2);
    assert!(second.stderr.contains("call `a2.2` is not waiting"), "{second}");
    let kept = "pending until the next resume: approve a2.2 · guidance \"Be quick.\"";
    for command in ["show", "approve"] {
        let shown = place.dirigent([command, "last"]).with_code(0);
        assert!(shown.stdout.contains(kept), "{shown}");
    }
    let runs = place.dirigent(["runs"]).with_code(0);
    assert!(runs.stdout.contains(kept), "{runs}");
    for command in [["show", "last", "--json"].as_slice(), &["runs", "--json"]] {
        let shown = place.dirigent(command).with_code(0).json_lines()[0].clone();
        let said = shown["pending_messages"]
            .as_array()
            .unwrap()
            .iter()
            .map(|kept| &kept["kind"]);
        assert_eq!(said.collect::<Vec<_>>(), ["decide", "guide"]);
    }
    let _ = place.dirigent(["resume", "last"]).with_code(0);
    assert!(has(place, "first.txt"));
    let after = place.dirigent(["runs", "--json"]).with_code(0).json_lines()[0].clone();
    assert_eq!(after["pending_messages"], json!([]));
}

#[test]
fn host_8_a_run_without_an_owner_is_cancelled_at_once() {
    let served = Served::new(ASK, one_agent());
    let place = &served.place;
    let _ = place.dirigent(RUN).with_code(4);
    let _ = approve(place, "a2.2", 0);
    let cancelled = place.dirigent(["cancel", "last"]).with_code(0);
    assert!(cancelled.stdout.contains("is cancelled"), "{cancelled}");
    assert_eq!(state(place), "cancelled");
    assert!(!has(place, "first.txt"));
}
