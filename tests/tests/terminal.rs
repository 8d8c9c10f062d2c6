//! HOST-3, PAOR-8, PAOR-9 and APPROVE: the command in a real terminal, with a person who reads and types.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use dirigent_model_server::{Gate, Script, Turn};
use dirigent_tests::approving::{ASK, RUN, one_agent_behind, touches, two_agents};
use dirigent_tests::cli::{Place, RENAME, binary};
use dirigent_tests::pty::{CTRL_C, CTRL_D, CTRL_U, Terminal, last_line};
use dirigent_tests::scripted::{after, calls, delegate};
use dirigent_tests::served::{
    Served, achieved, ask_user, call, go_on, is_lead, is_reflector, mentions, plan, plan_for_guidance,
};
use serde_json::json;

/// Checks that the answer `getPrice` led to the goal.
#[track_caller]
fn is_renamed(place: &Place) {
    assert!(place.read("price.js").contains("function getPrice("));
}

#[test]
fn paor_9_the_user_is_asked_at_the_terminal_and_an_empty_line_is_not_an_answer() {
    let place = Place::with_clash();
    let terminal = Terminal::start(place.command(RENAME));
    terminal.wait_for_prompt("your answer: ");
    terminal.enters("");
    terminal.types("getP");
    terminal.wait_for_prompt("your answer: getP");
    terminal.enters("rice");
    let contents = terminal.end_with(0);
    assert!(contents.contains("answer: getPrice"), "{contents}");
    is_renamed(&place);
}

#[test]
fn paor_9_the_end_of_the_input_leaves_the_question_for_resume() {
    let place = Place::with_clash();
    let terminal = Terminal::start(place.command(RENAME));
    terminal.wait_for_prompt("your answer: ");
    terminal.types(CTRL_D);
    let contents = terminal.end_with(4);
    assert!(
        contents.contains("Waiting for you after 1 iteration"),
        "{contents}"
    );
    let _ = place
        .dirigent(["resume", "last", "--answer", "getPrice"])
        .with_code(0);
    is_renamed(&place);
}

#[test]
fn paor_9_a_resumed_run_asks_only_what_is_still_open() {
    let place = Place::with_clash();
    let terminal = Terminal::start(place.command(RENAME));
    terminal.wait_for_prompt("your answer: ");
    terminal.enters("use another name");
    terminal.wait_until("a second question", |all| {
        all.matches("? ").count() >= 2 && last_line(all).starts_with("your answer: ")
    });
    terminal.types(CTRL_D);
    let _ = terminal.end_with(4);

    let resumed = Terminal::start(place.command(["resume", "last"]));
    resumed.wait_for_prompt("your answer: ");
    resumed.enters("getPrice");
    let contents = resumed.end_with(0);
    // Earlier events are shown again, and the open question is asked once.
    assert_eq!(contents.matches("? ").count(), 3, "{contents}");
    is_renamed(&place);
}

#[test]
fn paor_9_a_run_that_is_resumed_with_its_answer_asks_nothing() {
    let place = Place::with_clash();
    let _ = place.dirigent(RENAME).with_code(4);
    let resume = ["resume", "last", "--answer", "getPrice"];
    let resumed = Terminal::start(place.command(resume));
    let written = ended_bytes(resumed);
    assert!(!written.contains("your answer: "), "{written}");
    is_renamed(&place);
}

/// Everything that a successful command writes to its terminal.
#[track_caller]
fn ended_bytes(terminal: Terminal) -> String {
    let (status, contents, written) = terminal.end();
    assert!(status.success(), "{status}\n{contents}");
    String::from_utf8_lossy(&written).into_owned()
}

#[test]
fn paor_9_a_person_is_asked_at_a_dumb_terminal_too() {
    let place = Place::with_clash();
    let mut command = place.command(RENAME);
    command.env("TERM", "dumb").env("NO_COLOR", "1");
    let terminal = Terminal::start(command);
    terminal.wait_for_prompt("your answer:");
    terminal.types("getPrixe");
    terminal.wait_for_prompt("your answer: getPrixe");
    terminal.types("\u{7f}\u{7f}");
    terminal.wait_until("what is left", |all| last_line(all) == "your answer: getPri");
    terminal.types("ce");
    terminal.wait_for_prompt("your answer: getPrice");
    terminal.enters("");
    let written = ended_bytes(terminal);
    assert!(!written.contains('\u{1b}'), "{written:?}");
    is_renamed(&place);
}

#[test]
fn paor_9_no_question_is_asked_if_the_prompt_would_not_be_visible() {
    let place = Place::with_clash();
    let mut command = std::process::Command::new("sh");
    place.settle(&mut command);
    command
        .args(["-c", "exec \"$@\" 2>said", "sh"])
        .arg(binary())
        .arg("--db")
        .arg(place.db())
        .args(RENAME);
    let contents = Terminal::start(command).end_with(4);
    assert!(
        contents.contains("Waiting for you after 1 iteration"),
        "{contents}"
    );
    assert_eq!(std::fs::read_to_string(place.folder().join("said")).unwrap(), "");
}

// With a scripted model

/// A plan with one agent, which makes a file, and the outcome.
fn one_file(file: &'static str) -> Script {
    Script::from_fn(move |request| match () {
        () if is_lead(request) => plan(
            "Make one file.",
            [
                delegate("one", "implement", "Make the first."),
                after(calls("look", [("search", json!({"pattern": "x"}))]), ["one"]),
            ],
        ),
        () if is_reflector(request) => achieved("The judgement is in."),
        () => touches(request, file),
    })
}

/// Waits for the dialog about the first call of this agent, and returns the screen.
#[track_caller]
fn dialog(terminal: &Terminal, call: &str) -> String {
    let (asked, prompt) = (format!("! {call}: "), format!("{call}: "));
    terminal.wait_until(call, |all| {
        all.contains(&asked) && last_line(all).starts_with(&prompt) && last_line(all).ends_with("· l later")
    })
}

/// Waits until `above` appears over a tree whose last lines end with `ends`, and returns the screen. The tree is drawn line by line.
#[track_caller]
fn drawn(terminal: &Terminal, above: &str, ends: &[&str]) -> String {
    terminal.wait_until(above, |all| {
        let last = all.rsplit('\n').zip(ends.iter().rev());
        all.contains(above) && last.filter(|(line, end)| line.ends_with(*end)).count() == ends.len()
    })
}

/// Compares the screen with the snapshot, without the parts that differ between runs.
fn with_redactions(place: &Place, check: impl FnOnce()) {
    let folder = place.folder().canonicalize().unwrap();
    let mut settings = insta::Settings::clone_current();
    for (found, shown) in [
        (folder.to_str().unwrap(), "PLACE"),
        (r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "RUN-ID"),
        (r"\b(run|show|resume|approve) [0-9a-f]{8}\b", "$1 RUN"),
        ("[\u{2800}-\u{28ff}]", "*"),
        (r"\b(\d+ min )?\d+(\.\d+)? (ms|s)\b", "TIME"),
        (r"\b\d+s\b", "TIME"),
        (r"digest  [0-9a-f]{12}", "digest  DIGEST"),
        (r"\d{4}-\d\d-\d\d \d\d:\d\d", "DATE"),
        (r"dirigent (diff|undo) [0-9a-f]{8}", "dirigent $1 RUN"),
        (r"\b\d+ tokens", "N tokens"),
        (r"(?m)^ +model +calls .*$", "  model  FIGURES"),
        (r"(?m)^ +scripted +\d.*$", "  scripted  FIGURES"),
        (r"(?m)^  run +\d.*$", "  run  FIGURES"),
    ] {
        settings.add_filter(found, shown);
    }
    settings.bind(check);
}

#[test]
fn approve_1_a_call_is_shown_in_full_and_runs_once_it_is_approved() {
    let served = Served::new(ASK, one_file("a \u{202e}b.txt"));
    let terminal = Terminal::start(served.place.command(RUN));
    let tree = ["s", "s", ": Title of look", "· l later"];
    let asked = drawn(&terminal, "! a2.2: ", &tree);
    with_redactions(&served.place, || insta::assert_snapshot!("dialog", asked));
    assert!(!served.place.work().join("a \u{202e}b.txt").exists());
    terminal.enters("a");
    let contents = terminal.end_with(0);
    assert!(served.place.work().join("a \u{202e}b.txt").exists());
    with_redactions(&served.place, || insta::assert_snapshot!("summary", contents));
    let shown = Terminal::start(served.place.command(["show", "last"])).end_with(0);
    with_redactions(&served.place, || insta::assert_snapshot!("show", shown));
}

#[test]
fn approve_3_keys_buffered_in_the_terminal_before_a_dialog_opens_approve_nothing() {
    let gate = Gate::new();
    let served = Served::new(ASK, one_agent_behind(&gate));
    let terminal = Terminal::start(served.place.command(RUN));
    served.wait_for_requests(2);
    terminal.wait_for_prompt("> ");
    let signal = |signal| {
        let process = rustix::process::Pid::from_raw(terminal.id().try_into().unwrap()).unwrap();
        rustix::process::kill_process(process, signal).unwrap();
    };
    // The stopped process cannot read this input now, and reads it together with the call that needs approval.
    signal(rustix::process::Signal::STOP);
    terminal.types("a\ra\r");
    gate.open();
    signal(rustix::process::Signal::CONT);
    terminal.wait_for("! a2.2: ");
    // The typed text may have become guidance, or may still be on the line.
    terminal.wait_until("a line to be dropped, or none", |all| {
        last_line(all).contains("a2.2: a") || last_line(all).starts_with("a2.2: ▏")
    });
    terminal.types(CTRL_U);
    terminal.wait_for_prompt("a2.2: ▏");
    assert!(!served.place.work().join("first.txt").exists());
    terminal.enters("a");
    let _ = terminal.end_with(0);
    assert!(served.place.work().join("first.txt").exists());
}

#[test]
fn approve_1_a_long_call_is_seen_in_full_before_it_can_be_approved() {
    let content: String = (1..=60).map(|line| format!("line {line}\n")).collect();
    let script = Script::from_fn(move |request| match () {
        () if is_lead(request) => plan("Write it.", [delegate("one", "implement", "Write it.")]),
        () if is_reflector(request) => call(
            "submit_reflection",
            &json!({"verdict": "achieved", "summary": "It is written."}),
        ),
        () if request.turn == 1 => call(
            "file_operations",
            &json!({"operation": "write", "path": "long.txt", "content": content}),
        ),
        () => Turn::text("Written."),
    });
    let served = Served::new("[approvals]\nask = [\"file_operations\"]\n", script);
    let terminal = Terminal::start(served.place.command(RUN));
    let asked = dialog(&terminal, "a2.2");
    assert!(
        asked.contains("│ line 1\n") && !asked.contains("│ line 60"),
        "{asked}"
    );
    assert!(
        asked.contains("more lines, ") && asked.contains("are not shown: v shows the whole call"),
        "{asked}"
    );
    terminal.enters("a");
    terminal.wait_for("you have not seen the whole call");
    terminal.enters("v");
    terminal.wait_until("the end of it", |all| {
        all.contains("│ line 60\n") && last_line(all).starts_with("a2.2: ▏a approve")
    });
    assert!(!served.place.work().join("long.txt").exists());
    terminal.enters("a");
    let _ = terminal.end_with(0);
    assert_eq!(served.place.read("long.txt").lines().count(), 60);
}

#[test]
fn host_3_a_run_in_the_background_is_not_stopped_by_its_terminal() {
    let place = Place::new();
    let mut command = std::process::Command::new("sh");
    place.settle(&mut command);
    // With job control, each command has its own process group, and the shell keeps the terminal.
    command
        .args(["-c", "set -m; \"$@\" & wait $!; echo ended with $?", "sh"])
        .arg(binary())
        .arg("--db")
        .arg(place.db())
        .args(["run", "count the files", "--workspace", "work"]);
    let terminal = Terminal::start(command);
    terminal.types("for the shell");
    let contents = terminal.end_with(0);
    assert!(contents.contains("ended with 0"), "{contents}");
}

#[test]
fn approve_2_edited_parameters_run_instead_of_the_original_ones() {
    let served = Served::new(ASK, one_file("first.txt"));
    let terminal = Terminal::start(served.place.command(RUN));
    dialog(&terminal, "a2.2");
    terminal.enters("e");
    terminal.wait_for_prompt(r#"a2.2, parameters: {"command":["touch","first.txt"]}"#);
    terminal.enters(&format!("{CTRL_U}{{\"command\": 5}}"));
    // Invalid parameters are reported, and can be corrected.
    terminal.wait_for_prompt(r#"a2.2, parameters: {"command":5}"#);
    terminal.enters(&format!("{CTRL_U}{{\"command\": [\"touch\", \"other.txt\"]}}"));
    let _ = terminal.end_with(0);
    assert!(served.place.work().join("other.txt").exists());
    assert!(!served.place.work().join("first.txt").exists());
}

#[test]
fn approve_2_a_rejection_at_the_terminal_ends_the_agent_and_passes_on_the_reason() {
    let served = Served::new(ASK, one_file("first.txt"));
    let terminal = Terminal::start(served.place.command(RUN));
    dialog(&terminal, "a2.2");
    terminal.enters("r not on this machine");
    let contents = terminal.end_with(0);
    assert!(
        contents.contains("a2.2: rejected: not on this machine"),
        "{contents}"
    );
    assert!(
        contents.contains("- look: Title of look (skipped: one did not succeed)"),
        "{contents}"
    );
    assert!(contents.contains("Rejected by you:"), "{contents}");
    assert!(!served.place.work().join("first.txt").exists());
    // The agent is not asked again, but the reflector is told.
    let requests = served.requests();
    assert_eq!(requests.len(), 3);
    assert!(mentions(&requests[2], "not on this machine"));
}

#[test]
fn approve_2_guidance_goes_to_the_agent_instead_of_the_result() {
    let served = Served::new(ASK, one_file("first.txt"));
    let terminal = Terminal::start(served.place.command(RUN));
    dialog(&terminal, "a2.2");
    terminal.enters("g write it by hand");
    let _ = terminal.end_with(0);
    assert!(!served.place.work().join("first.txt").exists());
    assert!(mentions(&served.requests()[2], "write it by hand"));
}

#[test]
fn approve_3_text_typed_before_the_dialog_approves_nothing_and_is_kept() {
    let gate = Gate::new();
    let served = Served::new(ASK, one_agent_behind(&gate));
    let terminal = Terminal::start(served.place.command(RUN));
    served.wait_for_requests(2);
    // The user is typing when the dialog appears.
    terminal.types("a");
    terminal.wait_for_prompt("> a");
    gate.open();
    terminal.wait_for_prompt("guidance (a2.2 is still waiting for your answer): a");
    terminal.types("sk me first\r");
    terminal.wait_for("guidance: ask me first");
    assert!(!served.place.work().join("first.txt").exists());
    dialog(&terminal, "a2.2");
    terminal.enters("");
    terminal.wait_for("Enter alone approves nothing");
    terminal.enters("a");
    let _ = terminal.end_with(0);
    assert!(served.place.work().join("first.txt").exists());
}

#[test]
fn host_11_the_second_of_two_calls_can_be_decided_first_and_its_branch_continues() {
    let gate = Gate::new();
    let served = Served::new(ASK, two_agents(&gate));
    let terminal = Terminal::start(served.place.command(RUN));
    dialog(&terminal, "a2.2");
    terminal.enters("l");
    terminal.wait_for_prompt("> ▏Enter: show the waiting call");
    gate.open();
    dialog(&terminal, "a3.2");
    terminal.enters("a");
    terminal.wait_for("✓ two: ");
    assert!(served.place.work().join("second.txt").exists());
    assert!(!served.place.work().join("first.txt").exists());
    terminal.wait_for_prompt("> ▏Enter: show the waiting call");
    terminal.enters("");
    dialog(&terminal, "a2.2");
    terminal.enters("a");
    let _ = terminal.end_with(0);
    assert!(served.place.work().join("first.txt").exists());
}

#[test]
fn approve_1_without_a_user_the_run_stops_and_says_how_to_continue() {
    let served = Served::new(ASK, one_file("first.txt"));
    let place = &served.place;
    let stopped = place.dirigent(RUN).with_code(4);
    with_redactions(place, || insta::assert_snapshot!("stopped", stopped.stdout));
    let shown = place.dirigent(["show", "last"]).with_code(0);
    assert!(
        shown
            .stdout
            .contains("! a2.2: implement (a2) wants to use execute_command"),
        "{shown}"
    );
    let runs = place.dirigent(["runs"]).with_code(0);
    assert!(
        runs.stdout
            .contains("! a2.2 execute_command {\"command\":[\"touch\",\"first.txt\"]}"),
        "{runs}"
    );
}

#[test]
fn paor_8_a_line_that_is_typed_is_guidance_for_the_next_plan() {
    let gate = Gate::new();
    let held = gate.clone();
    let look = || calls("look", [("search", json!({"pattern": "x"}))]);
    let script = Script::from_fn(move |request| match () {
        () if is_lead(request) && mentions(request, "only in src") => {
            plan_for_guidance("Search in src only.", [look()])
        }
        () if is_lead(request) => plan("Search everywhere.", [look()]),
        () if mentions(request, "Search in src only.") => achieved("Found in src."),
        () => go_on("Not found.").wait_before_headers(&held),
    });
    let served = Served::new("", script);
    let terminal = Terminal::start(served.place.command(RUN));
    served.wait_for_requests(2);
    terminal.wait_for_prompt("> ▏text + Enter: send guidance (!text: interrupt and replan) · Ctrl-C: cancel");
    terminal.enters("search only in src");
    terminal.wait_for("guidance: search only in src");
    gate.open();
    let contents = terminal.end_with(0);
    assert!(contents.contains("plan: Search in src only."), "{contents}");
}

#[test]
fn paor_8_a_line_with_an_exclamation_mark_stops_running_work_and_plans_again() {
    let never = Gate::new();
    let script = Script::from_fn(move |request| match () {
        () if is_lead(request) && mentions(request, "leave that") => plan_for_guidance(
            "Another way.",
            [calls("look", [("search", json!({"pattern": "x"}))])],
        ),
        () if is_lead(request) => plan("One way.", [delegate("one", "implement", "Make the first.")]),
        () if is_reflector(request) => achieved("The judgement is in."),
        () => Turn::text("never").wait_before_headers(&never),
    });
    let served = Served::new("", script);
    let terminal = Terminal::start(served.place.command(RUN));
    served.wait_for_requests(2);
    terminal.enters("! leave that");
    let contents = terminal.end_with(0);
    assert!(contents.contains("immediate guidance: leave that"), "{contents}");
    assert!(contents.contains("plan: Another way."), "{contents}");
}

#[test]
fn host_8_ctrl_c_in_a_dialog_cancels_the_run() {
    let served = Served::new(ASK, one_file("first.txt"));
    let terminal = Terminal::start(served.place.command(RUN));
    dialog(&terminal, "a2.2");
    terminal.types("a");
    terminal.wait_for_prompt("a2.2: a");
    terminal.types(CTRL_C);
    let contents = terminal.end_with(130);
    assert!(!served.place.work().join("first.txt").exists(), "{contents}");
}

#[test]
fn paor_9_a_question_is_shown_with_its_choices_and_a_number_picks_one() {
    let script = Script::from_fn(|request| match () {
        () if is_lead(request) => plan("Look.", [calls("look", [("search", json!({"pattern": "x"}))])]),
        () if mentions(request, "the second file") => achieved("It is the second."),
        () => ask_user(
            "Which one?\nBoth would do.",
            &["the first file", "the second file"],
        ),
    });
    let served = Served::new("", script);
    let terminal = Terminal::start(served.place.command(RUN));
    let asked = drawn(&terminal, "? Which one?", &["s", "s)", "`dirigent resume`"]);
    with_redactions(&served.place, || insta::assert_snapshot!("question", asked));
    terminal.enters("2");
    let contents = terminal.end_with(0);
    assert!(contents.contains("answer: the second file"), "{contents}");
}

#[test]
fn host_3_the_terminals_mode_is_restored() {
    let place = Place::new();
    let mut command = std::process::Command::new("sh");
    place.settle(&mut command);
    command
        .args(["-c", "stty -a > before; \"$@\"; stty -a > after", "sh"])
        .arg(binary())
        .arg("--db")
        .arg(place.db())
        .args(["run", "count the files", "--workspace", "work"]);
    let (_, contents, written) = Terminal::start(command).end();
    let read = |name: &str| std::fs::read_to_string(place.folder().join(name)).unwrap();
    assert_eq!(read("before"), read("after"), "{contents}");
    let written = String::from_utf8_lossy(&written);
    assert_eq!(
        written.matches("\u{1b}[?2004h").count(),
        written.matches("\u{1b}[?2004l").count()
    );
}

#[test]
fn paor_9_a_run_under_nohup_whose_terminal_is_closed_stops_at_its_question() {
    let place = Place::with_clash();
    let mut command = std::process::Command::new("sh");
    place.settle(&mut command);
    command
        .args(["-c", "trap '' HUP; exec \"$@\"", "sh"])
        .arg(binary())
        .arg("--db")
        .arg(place.db())
        .args(RENAME);
    let terminal = Terminal::start(command);
    terminal.wait_for_prompt("your answer: ");
    let status = terminal.hang_up();
    assert_eq!(status.code(), Some(4), "{status}");
    let runs = place.dirigent(["runs", "--json"]).with_code(0).json_lines();
    assert_eq!(runs[0]["state"], "user_required");
}

#[test]
fn host_3_a_run_whose_terminal_is_closed_is_cancelled_and_its_process_ends() {
    let place = Place::with_clash();
    let terminal = Terminal::start(place.command_with_hang_up(RENAME));
    terminal.wait_for_prompt("your answer: ");
    let status = terminal.hang_up();
    assert_eq!(status.code(), Some(130), "{status}");
    let runs = place.dirigent(["runs", "--json"]).with_code(0).json_lines();
    assert_eq!(runs[0]["state"], "cancelled");
}
