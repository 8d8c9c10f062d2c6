//! LEAD-2: a lead that only looks and plans, and a user who approves, changes or guides its plan.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use dirigent_tests::cli::Place;
use dirigent_tests::pty::{CTRL_D, Terminal, last_line};
use serde_json::Value;

const REPLACE: [&str; 4] = ["run", "--mode", "plan", "replace 'colour' with 'color'"];

fn two_files() -> Place {
    let place = Place::new();
    place.write("a.txt", "red\ncolour\n");
    place.write("docs/b.txt", "colour\n");
    place
}

/// The only waiting call: a plan.
fn waiting(place: &Place) -> Value {
    let shown = place.dirigent(["approve", "last", "--json"]).with_code(0);
    let waiting = shown.json_lines().remove(0)["waiting"].take();
    let [call] = waiting.as_array().unwrap().as_slice() else {
        panic!("{waiting}")
    };
    assert_eq!(call["tool"], "submit_plan", "{call}");
    call.clone()
}

fn approve(place: &Place, arguments: &[&str]) {
    let call = waiting(place);
    let command = ["approve", "last", call["effect"].as_str().unwrap()];
    let _ = place.dirigent(command.iter().chain(arguments)).with_code(0);
}

fn resume(place: &Place, code: i32) {
    let _ = place
        .dirigent(["resume", "last", "--non-interactive"])
        .with_code(code);
}

#[test]
fn lead_2_a_plan_waits_until_the_user_approves_it() {
    let place = two_files();
    let stopped = place.dirigent(REPLACE).with_code(4);
    assert!(
        stopped.stdout.contains("lead (a1) proposes a plan"),
        "{}",
        stopped.stdout
    );
    assert_eq!(place.read("a.txt"), "red\ncolour\n");

    approve(&place, &[]);
    resume(&place, 0);
    assert_eq!(place.read("a.txt"), "red\ncolor\n");
    assert_eq!(place.read("docs/b.txt"), "color\n");
}

#[test]
fn lead_2_guidance_replaces_an_approval_and_leads_to_another_plan() {
    let place = two_files();
    let _ = place.dirigent(REPLACE).with_code(4);
    approve(&place, &["--guide", "only in work/docs"]);
    resume(&place, 4);
    let plan = waiting(&place)["parameters"].take();
    assert_eq!(
        plan["subtasks"][0]["title"], "Replace the text in work/docs/b.txt",
        "{plan}"
    );

    approve(&place, &[]);
    resume(&place, 0);
    assert_eq!(place.read("a.txt"), "red\ncolour\n");
    assert_eq!(place.read("docs/b.txt"), "color\n");
}

#[test]
fn lead_2_guidance_for_an_unowned_run_reaches_the_lead_before_the_run_pauses_again() {
    // The tests of the machines cover each order of the messages (`lead_2_a_run_does_not_stop_between_guidance_and_the_withdrawal_of_a_request`).
    let place = two_files();
    let _ = place.dirigent(REPLACE).with_code(4);
    let before = waiting(&place)["effect"].take();
    let _ = place
        .dirigent(["guide", "last", "only in work/docs"])
        .with_code(0);
    resume(&place, 4);
    let plan = waiting(&place);
    assert_ne!(plan["effect"], before, "the first plan was withdrawn");
    assert_eq!(
        plan["parameters"]["subtasks"][0]["title"], "Replace the text in work/docs/b.txt",
        "{plan}"
    );
}

#[test]
fn lead_2_an_edited_plan_is_validated_and_executed_as_edited() {
    let place = two_files();
    let _ = place.dirigent(REPLACE).with_code(4);
    let mut plan = waiting(&place)["parameters"].take();
    let effect = waiting(&place)["effect"].as_str().unwrap().to_owned();

    let agent = std::mem::replace(&mut plan["subtasks"][0]["agent"], "nobody".into());
    let refused = place
        .dirigent(["approve", "last", &effect, "--edit", &plan.to_string()])
        .with_code(2);
    assert!(
        refused.stderr.contains("`nobody`, which does not exist"),
        "{}",
        refused.stderr
    );

    plan["subtasks"][0]["agent"] = agent;
    let task = plan["subtasks"][0]["task"].as_str().unwrap();
    plan["subtasks"][0]["task"] = task.replace(r#""work/a.txt", "#, "").into();
    approve(&place, &["--edit", &plan.to_string()]);
    let _ = place.dirigent(["resume", "last", "--non-interactive"]);
    assert_eq!(place.read("a.txt"), "red\ncolour\n");
    assert_eq!(place.read("docs/b.txt"), "color\n");
}

#[test]
fn lead_2_yes_approves_plans_in_advance_and_only_in_plan_mode() {
    let place = two_files();
    let _ = place.dirigent(REPLACE.iter().chain(&["--yes"])).with_code(0);
    assert_eq!(place.read("a.txt"), "red\ncolor\n");

    let refused = place.dirigent(["run", "--yes", "list the files"]).with_code(2);
    assert!(refused.stderr.contains("--mode plan"), "{}", refused.stderr);
}

#[test]
fn lead_2_a_rejected_plan_ends_the_run() {
    let place = two_files();
    let _ = place.dirigent(REPLACE).with_code(4);
    approve(&place, &["--reject", "not now"]);
    resume(&place, 1);
    let shown = place.dirigent(["show", "last"]).with_code(0);
    assert!(shown.stdout.contains("not now"), "{}", shown.stdout);
    assert_eq!(place.read("a.txt"), "red\ncolour\n");
}

#[test]
fn lead_2_a_plan_is_edited_in_the_users_editor() {
    let place = two_files();
    // The editor is a shell command that gets the file as its argument.
    place.write("editor.sh", r#"sed -i 's/\\"work.a.txt\\", //' "$1""#);
    let mut command = place.command(REPLACE);
    let editor = format!("sh {}", place.work().join("editor.sh").display());
    command.env("VISUAL", editor);
    let terminal = Terminal::start(command);
    terminal.wait_until("the plan", |all| {
        all.contains("proposes a plan") && last_line(all).ends_with("· l later")
    });
    terminal.enters("e");
    // The work that the edited plan left out leads to another plan.
    terminal.wait_until("another plan", |all| {
        all.matches("proposes a plan").count() == 2 && last_line(all).ends_with("· l later")
    });
    terminal.types(CTRL_D);
    let contents = terminal.end_with(4);
    assert!(contents.contains("approved with other parameters"), "{contents}");
    assert_eq!(place.read("a.txt"), "red\ncolour\n");
    assert_eq!(place.read("docs/b.txt"), "color\n");
}
