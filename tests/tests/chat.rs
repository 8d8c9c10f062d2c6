//! HOST-3: `chat` and `conversations`, at a terminal and from scripts.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::Write as _;
use std::process::Stdio;

use dirigent_model_server::{Gate, Request, Script, Turn};
use dirigent_tests::cli::{Place, Watched, ended};
use dirigent_tests::pty::{CTRL_C, CTRL_D, Dimensions, Terminal, last_line};
use dirigent_tests::served::{Served, call, mentions};
use serde_json::{Value, json};

const ESCAPE: &str = "\u{1b}";

/// A lead that answers with the number of user messages in its conversation.
fn counting() -> Script {
    Script::from_fn(|request| Turn::text(format!("Answer {}.", user_messages(request))))
}

fn user_messages(request: &Request) -> usize {
    let is_user = |message: &&Value| message["role"] == "user";
    request.messages().iter().filter(is_user).count()
}

fn listed(place: &Place) -> Vec<Value> {
    place
        .dirigent(["conversations", "list", "--json"])
        .with_code(0)
        .json_lines()
}

#[test]
fn host_3_a_chat_at_the_terminal_continues_with_the_earlier_messages() {
    let served = Served::new("", counting());
    let terminal = Terminal::start(served.place.command(["chat"]));
    terminal.wait_for_prompt("›");
    terminal.enters("hello");
    terminal.wait_for("Answer 1.");
    terminal.wait_for_prompt("›");
    terminal.enters("and again");
    terminal.wait_for("Answer 2.");
    terminal.wait_for_prompt("›");
    for command in ["/mode plan", "/title Greetings"] {
        terminal.enters(command);
        terminal.wait_until("the next prompt", |all| {
            all.contains(command) && last_line(all).trim() == "›"
        });
    }
    terminal.enters("/cost");
    terminal.wait_for("turns: 2 · requests: 2");
    terminal.wait_for_prompt("›");
    terminal.types(CTRL_D);
    let _ = terminal.end_with(0);

    let list = listed(&served.place);
    assert_eq!(
        (&list[0]["title"], &list[0]["turns"]),
        (&json!("Greetings"), &json!(2))
    );
    assert_eq!(list[0]["settings"]["mode"], "plan");
    let wide = Dimensions {
        rows: 30,
        columns: 250,
    };
    let again = Terminal::sized(served.place.command(["chat", "--context", "last"]), wide);
    again.wait_for("plan mode");
    again.wait_for("› and again");
    again.wait_for_prompt("›");
    again.enters("/clear");
    again.wait_until("the new conversation", |all| {
        let greetings = all.lines().filter(|line| line.starts_with("conversation "));
        greetings.count() == 2 && last_line(all).trim() == "›"
    });
    again.enters("/quit");
    let _ = again.end_with(0);
    assert_eq!(listed(&served.place).len(), 2);
}

#[test]
fn host_3_esc_stops_the_turn_and_the_chat_continues() {
    let gate = Gate::new();
    let held = gate.clone();
    let script = Script::from_fn(move |request| match request.number {
        1 => Turn::text("Never.").wait_before_headers(&held),
        _ => Turn::text("Here I am."),
    });
    let served = Served::new("", script);
    let terminal = Terminal::start(served.place.command(["chat"]));
    terminal.wait_for_prompt("›");
    terminal.enters("think");
    let _ = served.wait_for_requests(1);
    terminal.types(ESCAPE);
    terminal.wait_for("stopped; changes made so far remain");
    terminal.wait_for_prompt("›");
    terminal.enters("still there?");
    terminal.wait_for("Here I am.");
    terminal.wait_for_prompt("›");
    terminal.types(CTRL_D);
    let _ = terminal.end_with(0);
    gate.open();
    let last = served.requests().last().unwrap().last_message();
    assert!(
        last.contains("Your last turn ended without an answer: cancelled"),
        "{last}"
    );
}

#[test]
fn intent_1_a_fact_typed_while_a_turn_runs_is_kept_and_is_no_guidance() {
    let gate = Gate::new();
    let held = gate.clone();
    let script = Script::from_fn(move |request| match request.number {
        1 => call("search", &json!({"pattern": "x"})).wait_before_headers(&held),
        _ => Turn::text("Found nothing."),
    });
    let served = Served::new("", script);
    let terminal = Terminal::start(served.place.command(["chat"]));
    terminal.wait_for_prompt("›");
    terminal.enters("look for x");
    let _ = served.wait_for_requests(1);
    terminal.wait_for("send guidance");
    terminal.enters("remember that the staging server is called blue");
    terminal.wait_for("I will remember (about this folder): the staging server is called blue");
    terminal.enters("what did I tell you about the staging server?");
    terminal.wait_for("You told me: the staging server is called blue");
    terminal.enters("look in src only");
    terminal.wait_for("guidance: look in src only");
    gate.open();
    terminal.wait_for("Found nothing.");
    terminal.wait_for_prompt("›");
    terminal.types(CTRL_D);
    let _ = terminal.end_with(0);
    let requests = served.requests();
    let told = requests.last().unwrap();
    assert!(mentions(told, "look in src only"));
    assert!(!mentions(told, "staging"), "the facts are no guidance");
    let facts = served.place.dirigent(["memory", "list"]).with_code(0);
    assert!(
        facts.stdout.contains("the staging server is called blue"),
        "{facts:?}"
    );
}

#[test]
fn prompt_1_a_conversation_goes_on_with_another_system_prompt() {
    let served = Served::new("", counting());
    let place = &served.place;
    let _ = place
        .dirigent(["prompts", "add", "bakery", "You work for a bakery."])
        .with_code(0);
    let _ = place.dirigent(["chat", "hello"]).with_code(0);
    let unknown = place
        .dirigent(["chat", "--context", "last", "--system-prompt", "bakry", "hello"])
        .with_code(2);
    assert!(
        unknown.stderr.contains("there is no system prompt `bakry`"),
        "{unknown}"
    );
    let switched = place
        .dirigent(["chat", "--context", "last", "--system-prompt", "bakery", "hello"])
        .with_code(0);
    assert_eq!(switched.stdout.trim(), "Answer 2.");
    // The conversation keeps the prompt.
    let _ = place
        .dirigent(["chat", "--context", "last", "hello"])
        .with_code(0);
    let of_bakery: Vec<bool> = served
        .requests()
        .iter()
        .map(|request| request.system_prompt().starts_with("You work for a bakery."))
        .collect();
    assert_eq!(of_bakery, [false, true, true]);
}

#[test]
fn host_2_a_killed_turn_continues_when_the_chat_is_opened() {
    let gate = Gate::new();
    let held = gate.clone();
    let script = Script::from_fn(move |request| match request.number {
        1 => call("search", &json!({"pattern": "x"})),
        2 => Turn::text("Lost.").wait_before_headers(&held),
        _ => Turn::text("Found nothing."),
    });
    let served = Served::new("", script);
    let watched = Watched::start(&mut served.place.command(["chat", "look for x", "--json"]));
    let _ = served.wait_for_requests(2);
    watched.kill();
    gate.open();

    let terminal = Terminal::start(served.place.command(["chat", "--context", "last"]));
    terminal.wait_for("continuing the last turn");
    terminal.wait_for("Found nothing.");
    terminal.wait_for_prompt("›");
    terminal.types(CTRL_D);
    let _ = terminal.end_with(0);
    assert_eq!(served.requests().len(), 3, "the search was not repeated");
    assert_eq!(listed(&served.place)[0]["turns"], 1);
}

#[test]
fn host_3_scripts_send_one_message_or_a_line_for_each() {
    let served = Served::new("", counting());
    let place = &served.place;
    let first = place.dirigent(["chat", "hello"]).with_code(0);
    assert_eq!(first.stdout.trim(), "Answer 1.");
    let second = place
        .dirigent(["chat", "--context", "last", "hello"])
        .with_code(0);
    assert_eq!(second.stdout.trim(), "Answer 2.");

    let mut command = place.command(["chat", "-c", "last"]);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"one\n\ntwo\n").unwrap();
    let output = child.wait_with_output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert_eq!(
        stdout.split_whitespace().collect::<Vec<_>>(),
        ["Answer", "3.", "Answer", "4."]
    );
    assert!(output.status.success());

    let shown = place
        .dirigent(["conversations", "show", "last", "--markdown"])
        .with_code(0);
    let expected = "# hello\n\n## hello\n\nAnswer 1.\n\n## hello\n\nAnswer 2.\n\n## one\n\nAnswer 3.\n\n## two\n\nAnswer 4.";
    assert_eq!(shown.stdout.trim(), expected);
    let shown = place.dirigent(["conversations", "show", "--json"]).with_code(0);
    assert_eq!(
        shown.json_lines()[0]["messages"][3]["report"]["summary"],
        "Answer 4."
    );
}

#[test]
fn host_3_the_last_conversation_is_the_last_of_the_current_folder() {
    let served = Served::new("", counting());
    let place = &served.place;
    let none = place.dirigent(["chat", "-c", "last", "hello"]).with_code(2);
    assert!(none.stderr.contains("no conversation `last`"), "{}", none.stderr);
    let _ = place.dirigent(["chat", "-w", "work", "hello"]).with_code(0);
    let elsewhere = place.dirigent(["chat", "-c", "last", "hello"]).with_code(2);
    let id = listed(place)[0]["conversation"].as_str().unwrap().to_owned();
    assert!(
        elsewhere.stderr.contains("no conversation works in ")
            && elsewhere.stderr.contains("/work: continue it with its id"),
        "{}",
        elsewhere.stderr
    );

    let _ = place.dirigent(["chat", "hello"]).with_code(0);
    let _ = place.dirigent(["chat", "-c", &id, "and again"]).with_code(0);
    let here = place.dirigent(["chat", "-c", "last", "hello"]).with_code(0);
    assert_eq!(here.stdout.trim(), "Answer 2.");
    let turns: Vec<Value> = listed(place).iter().map(|one| one["turns"].clone()).collect();
    assert_eq!(turns, [2, 2]);

    let list = place.dirigent(["conversations", "list"]).with_code(0).stdout;
    let folders: Vec<bool> = list.lines().map(|line| line.ends_with("/work")).collect();
    assert_eq!(folders, [false, true], "{list}");
}

#[test]
fn host_3_a_pipe_gets_the_markdown_of_an_answer_unchanged() {
    let answer = "# Title\n\n```mermaid\ngraph TD\n```\n\nuse `%` and **that**\n";
    let served = Served::new("", Script::from_fn(move |_| Turn::text(answer)));
    let shown = served.place.dirigent(["chat", "hello"]).with_code(0);
    assert_eq!(shown.stdout.trim_end(), answer.trim_end());
}

#[test]
fn host_3_conversations_are_renamed_and_deleted() {
    let served = Served::new("", counting());
    let place = &served.place;
    let none = place.dirigent(["conversations", "list"]);
    assert!(
        none.stderr.contains("no conversations yet") || none.code() == Some(5),
        "{}",
        none.stderr
    );
    let _ = place.dirigent(["chat", "hello"]).with_code(0);
    let _ = place
        .dirigent(["conversations", "rename", "last", "A greeting"])
        .with_code(0);
    let list = place
        .dirigent(["conversations", "list", "--search", "GREET"])
        .with_code(0);
    assert!(list.stdout.contains("A greeting"), "{}", list.stdout);
    let id = listed(place)[0]["conversation"].as_str().unwrap().to_owned();
    let refused = place.dirigent(["conversations", "delete", &id]).with_code(2);
    assert!(
        refused.stderr.contains("add --yes") && refused.stderr.contains("(1 turn)"),
        "{refused}"
    );
    for wrong in [
        ["conversations", "rename", "last", " "].as_slice(),
        &["conversations", "list", "--limit", "0"],
        &["chat", "/undo"],
        &["fork", "nothing"],
    ] {
        let _ = place.dirigent(wrong).with_code(2);
    }
    let undo = place.dirigent(["chat", "/undo"]).with_code(2).stderr;
    assert!(
        undo.contains("/undo is a command of the interactive chat"),
        "{undo}"
    );
    // A turn is pruned only together with its conversation.
    let _ = place.dirigent(["journal", "prune", "--older-than", "0s", "--yes"]);
    assert_eq!(
        place.dirigent(["runs", "--json"]).with_code(0).json_lines().len(),
        1
    );
    let _ = place
        .dirigent(["conversations", "delete", &id, "--yes"])
        .with_code(0);
    assert_eq!(
        place.dirigent(["runs", "--json"]).with_code(0).json_lines().len(),
        0
    );
    let gone = place.dirigent(["chat", "-c", &id, "hello"]).with_code(2);
    assert!(gone.stderr.contains("no conversation"), "{}", gone.stderr);
}

#[test]
fn loop_11_compact_replaces_the_messages_by_a_summary() {
    let script = Script::from_fn(|request| {
        if request.last_message().contains("summary") || request.last_message().contains("Summar") {
            Turn::text("They greeted each other.")
        } else {
            Turn::text(format!("Answer {}.", request.number))
        }
    });
    let served = Served::new("", script);
    let place = &served.place;
    let _ = place.dirigent(["chat", "hello"]).with_code(0);
    let _ = place.dirigent(["chat", "-c", "last", "hello"]).with_code(0);
    let mut command = place.command(["chat", "-c", "last"]);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(b"/compact\nwhat now?\n")
        .unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let last = served.requests().last().unwrap().clone();
    let messages: Vec<String> = last.messages().iter().map(Value::to_string).collect();
    assert_eq!(messages.len(), 4, "{messages:?}");
    assert!(messages[1].contains("They greeted each other."), "{messages:?}");
    assert!(
        messages[3].contains("what now?") && !messages[1].contains("what now?"),
        "{messages:?}"
    );
}

#[test]
fn host_3_an_answer_that_was_shown_while_it_arrived_is_not_shown_again() {
    let answer = "**First** part.\n\n- a point\n\nLast part.";
    let served = Served::new("", Script::from_fn(move |_| Turn::text(answer)));
    let terminal = Terminal::start(served.place.command(["chat"]));
    terminal.wait_for_prompt("›");
    terminal.enters("hello");
    terminal.wait_until("the answer and the next prompt", |all| {
        all.contains("Last part.") && last_line(all).trim() == "›"
    });
    terminal.types(CTRL_D);
    let shown = terminal.end_with(0);
    for line in ["First part.", "• a point", "Last part."] {
        let times = shown.lines().filter(|shown| shown.trim() == line).count();
        assert_eq!(times, 1, "{line}: {shown}");
    }
}

#[test]
fn flow_1_workflows_are_listed_and_run_as_turns() {
    let place = Place::new();
    place.write("notes.txt", "one\ntwo\n");
    let terminal = Terminal::start(place.command(["chat", "-w", "work"]));
    terminal.wait_for_prompt("›");
    terminal.enters("/workflows");
    terminal.wait_for("/replace_text");
    terminal.wait_for_prompt("›");
    terminal.types("/replace_t\t");
    terminal.wait_for("› /replace_text");
    terminal.enters(" two three");
    terminal.wait_until("the answer and the next prompt", |all| {
        all.contains("file changed") && last_line(all).trim() == "›"
    });
    terminal.types(CTRL_D);
    let _ = terminal.end_with(0);
    assert_eq!(place.read("notes.txt"), "one\nthree\n");
    let list = listed(&place);
    assert_eq!(list[0]["turns"], 1, "{list:?}");
}

#[test]
fn intent_1_facts_and_decisions_can_be_given_in_words() {
    let touch = json!({"command": "touch made.txt"});
    let script = Script::from_fn(move |request| match request.number {
        1 => call("execute_command", &touch),
        _ => Turn::text("Made it."),
    });
    let served = Served::new("[approvals]\nask = [\"execute_command\"]\n", script);
    let place = &served.place;
    let kept = place
        .dirigent(["chat", "-w", "work", "remember that my name is Ann"])
        .with_code(0);
    assert!(
        kept.stdout.contains("I will remember (about you"),
        "{}",
        kept.stdout
    );
    let id = listed(place)[0]["conversation"].as_str().unwrap().to_owned();
    let recalled = place
        .dirigent(["chat", "-c", &id, "what is my name?"])
        .with_code(0);
    assert_eq!(recalled.stdout.trim(), "You told me: my name is Ann");
    assert!(served.requests().is_empty());
    let facts = place.dirigent(["memory", "list"]).with_code(0);
    assert!(facts.stdout.contains("my name is Ann"), "{}", facts.stdout);

    // A call about which the user decides in words was shown in full before.
    let waiting = place.dirigent(["chat", "-c", &id, "make a file"]).with_code(4);
    assert!(waiting.stderr.contains("touch made.txt"), "{waiting}");
    assert!(
        waiting.stderr.contains("works in "),
        "the conversation has another folder: {waiting}"
    );
    let unclear = place.dirigent(["chat", "-c", &id, "yes, but wait"]).with_code(4);
    assert!(unclear.stdout.contains("touch made.txt"), "{}", unclear.stdout);
    let done = place.dirigent(["chat", "-c", &id, "yes, go ahead"]).with_code(0);
    assert_eq!(done.stdout.trim(), "Made it.");
    assert!(place.folder().join("work/made.txt").exists());

    let shown = place.dirigent(["conversations", "show", "last"]).with_code(0);
    assert!(
        shown.stdout.contains("memory (remember: \"remember that\")"),
        "{}",
        shown.stdout
    );
    let shown = place.dirigent(["show", "last", "--verbose"]).with_code(0);
    assert!(
        shown.stdout.contains("intent: normal (no rule matched)"),
        "{}",
        shown.stdout
    );
}

#[test]
fn host_4_the_offline_model_works_in_a_conversation() {
    let place = Place::new();
    place.write("notes.txt", "one\ntwo\n");
    let first = place
        .dirigent(["chat", "-w", "work", "count the lines in notes.txt"])
        .with_code(0);
    assert!(first.stdout.contains('2'), "{}", first.stdout);
    let id = listed(&place)[0]["conversation"].as_str().unwrap().to_owned();
    let second = place
        .dirigent(["chat", "-c", &id, "replace 'two' with 'three'"])
        .with_code(0);
    assert!(
        second.stderr.contains(" · 1 file changed: notes.txt · "),
        "{}",
        second.stderr
    );
    assert!(second.stdout.contains("three"), "{}", second.stdout);
    assert_eq!(place.read("notes.txt"), "one\nthree\n");
    let undone = ended(&mut place.command(["undo", "last", "--yes"])).with_code(0);
    assert_eq!(place.read("notes.txt"), "one\ntwo\n", "{}", undone.stdout);
    let third = place
        .dirigent(["chat", "-c", &id, "run `touch made.txt`"])
        .with_code(0);
    assert!(
        third
            .stderr
            .contains(" · 1 file changed while commands ran: made.txt · "),
        "{}",
        third.stderr
    );
}
#[test]
fn flow_1_ctrl_c_and_commands_leave_the_question_for_a_parameter_and_nothing_else() {
    let served = Served::new("", counting());
    let terminal = Terminal::start(served.place.command(["chat"]));
    terminal.wait_for_prompt("›");
    for (leave, times) in [(CTRL_C, 1), ("/quit\r", 2)] {
        terminal.enters("/find_usages");
        terminal.wait_until("the question", |all| {
            last_line(all).starts_with("name (the name):")
        });
        terminal.types(leave);
        terminal.wait_until("the next prompt", |all| {
            all.matches("the workflow was not started").count() == times && last_line(all).trim() == "›"
        });
    }
    terminal.enters("hello");
    terminal.wait_for("Answer 1.");
    terminal.wait_for_prompt("›");
    terminal.enters("/quit");
    let _ = terminal.end_with(0);
    assert_eq!(listed(&served.place)[0]["turns"], 1);
}
