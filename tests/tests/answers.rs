//! PAOR-9, LEAD-4: every way to answer the questions of a run and its agents, and that each question accepts one answer.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::{BufRead, BufReader};
use std::process::{Output, Stdio};
use std::sync::mpsc;
use std::thread;

use dirigent_model_server::{Gate, Request, Script, Turn};
use dirigent_tests::approving::RUN;
use dirigent_tests::cli::{Ended, Place, Watched};
use dirigent_tests::pty::Terminal;
use dirigent_tests::scripted::{calls, delegate};
use dirigent_tests::served::{Served, achieved, ask_user, call, is_lead, is_reflector, mentions, plan};
use serde_json::{Value, json};

const CHOICES: [&str; 2] = ["the first file", "the second file"];

/// Asks which file is meant, and accepts any answer. The plan after the answer waits at the gate.
fn asking(choices: &'static [&'static str], gate: &Gate) -> Script {
    let gate = gate.clone();
    let look = || plan("Look.", [calls("look", [("search", json!({"pattern": "x"}))])]);
    Script::from_fn(move |request| match is_answered(request) {
        true if is_lead(request) => look().wait_before_headers(&gate),
        false if is_lead(request) => look(),
        true => achieved("It is clear."),
        false => ask_user("Which one?", choices),
    })
}

fn is_answered(request: &Request) -> bool {
    mentions(request, "<ANSWERS>")
}

/// A run that has stopped to wait for an answer to its question.
fn stopped(choices: &'static [&'static str], gate: &Gate) -> Served {
    let served = Served::new("", asking(choices, gate));
    let _ = served.place.dirigent(RUN).with_code(4);
    served
}

fn open() -> Gate {
    let gate = Gate::new();
    gate.open();
    gate
}

/// The answers in the run's journal.
fn answers(place: &Place) -> Vec<Value> {
    let file = place.folder().join("recording.jsonl");
    let recorded = place
        .command(["show", "last", "--record"])
        .arg(&file)
        .status()
        .unwrap();
    assert!(recorded.success());
    let recording = std::fs::read_to_string(&file).unwrap();
    let answered = recording.lines().filter_map(|line| {
        let (_, input) = line.split_once(r#""user_answered":"#)?;
        let mut values = serde_json::Deserializer::from_str(input).into_iter::<Value>();
        Some(values.next()?.ok()?["answer"].clone())
    });
    answered.collect()
}

/// The run's entry in `dirigent runs --json`.
fn listed(place: &Place) -> Value {
    place
        .dirigent(["runs", "--json"])
        .with_code(0)
        .json_lines()
        .remove(0)
}

/// Runs the commands at the same time; returns them in the order in which they end.
fn at_once<const N: usize>(place: &Place, commands: [&[&str]; N]) -> mpsc::Receiver<Ended> {
    let (ended, end) = mpsc::channel();
    let children: Vec<_> = commands
        .into_iter()
        .map(|arguments| {
            let mut command = place.command(arguments);
            command
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    for child in children {
        let ended = ended.clone();
        thread::spawn(move || {
            let output: Output = child.wait_with_output().unwrap();
            let _ = ended.send(Ended::from(output));
        });
    }
    end
}

#[test]
fn paor_9_a_number_selects_a_choice_and_the_next_plan_receives_its_text() {
    for how in [&["resume", "last", "--answer", "2"][..], &["answer", "last", "2"]] {
        let served = stopped(&CHOICES, &open());
        let place = &served.place;
        let _ = place.dirigent(how).with_code(0);
        if how[0] == "answer" {
            assert_eq!(listed(place)["pending_messages"][0]["answer"], "the second file");
            let _ = place.dirigent(["resume", "last"]).with_code(0);
        }
        assert_eq!(answers(place), ["the second file"], "{how:?}");
        let told = served
            .requests()
            .into_iter()
            .filter(|request| is_answered(request));
        for request in told {
            assert!(mentions(&request, r#""answer":"the second file""#), "{how:?}");
        }
        assert_eq!(listed(place)["state"], "goal_achieved", "{how:?}");
    }
}

#[test]
fn paor_9_a_number_that_is_not_a_choice_is_refused_and_the_question_stays_open() {
    let served = stopped(&CHOICES, &open());
    let place = &served.place;
    for how in [
        &["resume", "last", "--answer", "3"][..],
        &["resume", "last", "--answer", "0", "--json"],
        &["resume", "last", "--answer", "-1"],
        &["answer", "last", "3"],
        &["answer", "last", "-1"],
    ] {
        let refused = place.dirigent(how).with_code(2);
        for told in [
            "is not one of the 2 choices: 1 `the first file`, 2 `the second file`",
            "Answer with a number from 1 to 2, or with your own text",
        ] {
            assert!(refused.stderr.contains(told), "{how:?}: {refused}");
        }
        let run = listed(place);
        assert_eq!(
            (&run["state"], &run["pending_messages"]),
            (&json!("user_required"), &json!([])),
            "{how:?}"
        );
        assert_eq!(run["question"]["question"], "Which one?", "{how:?}");
    }
    let as_json = place
        .dirigent(["answer", "last", "3", "--json"])
        .with_code(2)
        .json_lines();
    assert_eq!(as_json[0]["state"], "rejected");
    let _ = place
        .dirigent(["resume", "last", "--answer", "neither of them"])
        .with_code(0);
    assert_eq!(answers(place), ["neither of them"]);
}

#[test]
fn paor_9_the_terminal_and_other_processes_refuse_a_number_that_is_not_a_choice() {
    let served = Served::new("", asking(&CHOICES, &open()));
    let place = &served.place;
    let terminal = Terminal::start(place.command(RUN));
    terminal.wait_for_prompt("your answer: ");
    let refused = place.dirigent(["answer", "last", "3"]).with_code(2);
    assert!(
        refused.stderr.contains("3 is not one of the 2 choices"),
        "{refused}"
    );
    terminal.enters("4");
    terminal.wait_for("4 is not one of the 2 choices");
    terminal.wait_for_prompt("your answer: ");
    terminal.enters("2");
    let _ = terminal.end_with(0);
    assert_eq!(answers(place), ["the second file"]);
}

#[test]
fn paor_9_one_of_two_processes_that_resume_with_an_answer_is_refused() {
    let gate = Gate::new();
    let served = stopped(&[], &gate);
    let place = &served.place;
    let before = served.requests().len();
    let ended = at_once(
        place,
        [
            &["resume", "last", "--answer", "the left one"],
            &["resume", "last", "--answer", "the right one"],
        ],
    );
    // The command whose answer was accepted waits at the gate.
    let refused = ended.recv().unwrap().with_code(2);
    assert!(refused.stderr.contains("your answer was not used"), "{refused}");
    let lead = served.wait_for_requests(before + 1)[before].clone();
    gate.open();
    let _ = ended.recv().unwrap().with_code(0);

    let taken = answers(place);
    assert_eq!(taken.len(), 1, "{taken:?}");
    assert!(mentions(&lead, &format!(r#""answer":{}"#, taken[0])));
    let run = listed(place);
    assert_eq!(
        (&run["state"], &run["pending_messages"]),
        (&json!("goal_achieved"), &json!([]))
    );
}

#[test]
fn paor_9_the_second_of_two_answers_to_an_unowned_run_is_refused() {
    let served = stopped(&[], &open());
    let place = &served.place;
    let ended = at_once(
        place,
        [
            &["answer", "last", "the left one"],
            &["answer", "last", "the right one"],
        ],
    );
    let mut both = [ended.recv().unwrap(), ended.recv().unwrap()];
    both.sort_by_key(Ended::code);
    let [kept, refused] = both;
    assert_eq!(
        (kept.code(), refused.code()),
        (Some(0), Some(2)),
        "{kept}{refused}"
    );
    assert!(
        refused
            .stderr
            .contains("has no such open question: it was answered"),
        "{refused}"
    );
    // A later answer is also refused.
    let late = place
        .dirigent(["resume", "last", "--answer", "another"])
        .with_code(2);
    assert!(
        late.stderr.contains("has no such open question: it was answered"),
        "{late}"
    );
    let words = listed(place)["pending_messages"].clone();
    assert_eq!(words.as_array().unwrap().len(), 1, "{words}");
    let _ = place.dirigent(["resume", "last"]).with_code(0);
    assert_eq!(answers(place), [words[0]["answer"].clone()]);
}

#[test]
fn paor_9_one_of_two_concurrent_answers_by_resume_and_answer_is_refused() {
    let gate = Gate::new();
    let served = stopped(&[], &gate);
    let place = &served.place;
    let ended = at_once(
        place,
        [
            &["resume", "last", "--answer", "the left one"],
            &["answer", "last", "the right one"],
        ],
    );
    let first = ended.recv().unwrap();
    gate.open();
    let mut codes = [first.code(), ended.recv().unwrap().code()];
    codes.sort_unstable();
    assert_eq!(codes, [Some(0), Some(2)], "{first}");
    if listed(place)["state"] == "user_required" {
        let _ = place.dirigent(["resume", "last"]).with_code(0);
    }
    assert_eq!(answers(place).len(), 1);
}

#[test]
fn paor_8_stored_guidance_is_part_of_the_plan_after_the_answer() {
    let served = stopped(&[], &open());
    let place = &served.place;
    let before = served.requests().len();
    let _ = place.dirigent(["guide", "last", "only in src"]).with_code(0);
    let _ = place
        .dirigent(["resume", "last", "--answer", "the left one"])
        .with_code(0);
    let lead = &served.requests()[before];
    assert!(mentions(lead, "<GUIDANCE>\n1. only in src\n</GUIDANCE>"));
    assert!(mentions(lead, r#""answer":"the left one""#));
}

#[test]
fn paor_8_a_plan_that_answers_unknown_guidance_is_sent_back_to_the_lead() {
    let script = Script::from_fn(|request| match () {
        () if mentions(request, "but the user gave no guidance: omit `answers_guidance`") => {
            Turn::text("I was told.")
        }
        () => {
            let parameters = json!({"summary": "Nothing.", "answers_guidance": [1], "subtasks": []});
            Turn::text(
                json!({"tool": "submit_plan", "parameters": parameters, "terminate": true}).to_string(),
            )
        }
    });
    let served = Served::new("", script);
    let ended = served.place.dirigent(RUN).with_code(0);
    assert!(ended.stdout.contains("I was told."), "{ended}");
}

/// Two agents that each ask a question, and one that asks none. The second one asks once the gate is open.
fn agents_that_ask(gate: &Gate) -> Script {
    let gate = gate.clone();
    Script::from_fn(move |request| match () {
        () if is_lead(request) => plan(
            "Look at both.",
            [
                delegate("one", "explore", "Look at the first."),
                delegate("two", "explore", "Look at the second."),
                delegate("three", "explore", "Look at the third."),
            ],
        ),
        () if is_reflector(request) => achieved("It is clear."),
        () if mentions(request, "Look at the third.") => Turn::text("The third is fine."),
        () if request.turn > 1 => Turn::text("Now I know."),
        () if mentions(request, "Look at the first.") => asks("Which first?", &[]),
        () => asks("Which second?", &CHOICES).wait_before_headers(&gate),
    })
}

fn asks(question: &str, choices: &[&str]) -> Turn {
    call("ask_user", &json!({"question": question, "choices": choices}))
}

/// The last request of the agent with this task.
fn last_of(served: &Served, task: &str) -> std::sync::Arc<Request> {
    let of_agent = |request: &&std::sync::Arc<Request>| {
        !is_lead(request) && !is_reflector(request) && mentions(request, task)
    };
    served.requests().iter().rfind(of_agent).unwrap().clone()
}

#[test]
fn lead_4_when_all_work_waits_two_questions_can_be_answered_in_any_order() {
    let served = Served::new("", agents_that_ask(&open()));
    let place = &served.place;
    let stopped = place.dirigent(RUN).with_code(4);
    for told in [
        "a2.2: explore (a2) asks: Which first?",
        "a3.2: explore (a3) asks: Which second?",
        "a2.2 \"…\"",
    ] {
        assert!(stopped.stdout.contains(told), "{told}: {stopped}");
    }
    let questions = listed(place)["questions"].clone();
    let questions = questions.as_array().unwrap();
    assert!(
        questions.iter().any(|asked| asked["effect"] == "a3.2"),
        "{questions:?}"
    );
    let shown = place
        .dirigent(["show", "last", "--json"])
        .with_code(0)
        .json_lines();
    assert_eq!(
        shown[0]["iterations"][0]["observations"][0]["subtask"], "three",
        "the others went on"
    );

    // Two questions are open, so the answer must say which one it is for.
    for wrong in [
        &["answer", "last", "neither"][..],
        &["answer", "last", "a9.9", "neither"],
        &["answer", "last", "first", "neither"],
        &["answer", "last", "neither", "of", "them"],
        &["resume", "last", "--answer", "neither"],
    ] {
        let refused = place.dirigent(wrong).with_code(2);
        for open in ["a2.2 `Which first?`", "a3.2 `Which second?`"] {
            assert!(refused.stderr.contains(open), "{wrong:?}: {refused}");
        }
    }
    let unquoted = place.dirigent(["answer", "last", "the", "second"]).with_code(2);
    let advice = "`the` is not the id of a question, such as `a3.7`: put an answer of several words in quotes. Open questions: a";
    assert!(unquoted.stderr.contains(advice), "{unquoted}");
    let _ = place.dirigent(["answer", "last", "a3.2", "3"]).with_code(2);
    let _ = place.dirigent(["answer", "last", "a3.2", "2"]).with_code(0);
    let _ = place.dirigent(["answer", "last", "a3.2", "1"]).with_code(2);
    let again = place.dirigent(["resume", "last"]).with_code(4);
    assert!(again.stdout.contains("\nQuestion: Which first?\n"), "{again}");

    // One question is left.
    let id_alone = place.dirigent(["answer", "last", "a2.2"]).with_code(2);
    assert!(
        id_alone.stderr.contains("write your answer after it"),
        "{id_alone}"
    );
    let _ = place.dirigent(["answer", "last", "the red one"]).with_code(0);
    let _ = place.dirigent(["resume", "last"]).with_code(0);
    let (first, second) = (last_of(&served, "the first."), last_of(&served, "the second."));
    assert!(mentions(&first, r#"{"answer":"the red one"}"#));
    assert!(mentions(&second, r#"{"answer":"the second file"}"#));
    assert_eq!(listed(place)["state"], "goal_achieved");
}

#[test]
fn paor_8_a_stopped_run_continues_with_guidance_instead_of_answers() {
    let of_agents = Served::new("", agents_that_ask(&open()));
    let of_reflector = stopped(&CHOICES, &open());
    let _ = of_agents.place.dirigent(RUN).with_code(4);
    for served in [of_agents, of_reflector] {
        let place = &served.place;
        let before = served.requests().len();
        let _ = place.dirigent(["guide", "last", "only the first"]).with_code(0);
        let _ = place.dirigent(["resume", "last"]);
        let told = &served.requests()[before];
        assert!(mentions(told, "only the first"), "{told:?}");
        assert!(!is_reflector(told));
    }
}

#[test]
fn lead_4_questions_of_agents_are_answered_at_the_terminal_and_from_elsewhere() {
    let gate = Gate::new();
    let served = Served::new("", agents_that_ask(&gate));
    let place = &served.place;
    let terminal = Terminal::start(place.command(RUN));
    terminal.wait_for("explore (a2) asks");
    terminal.wait_for_prompt("your answer: ");
    let mut watch = place.command(["watch", "last", "--json"]);
    let mut watch = watch.stdout(Stdio::piped()).spawn().unwrap();
    let mut events = BufReader::new(watch.stdout.take().unwrap()).lines();
    gate.open();
    let second = events.find(|event| event.as_ref().unwrap().contains("Which second?"));
    assert!(second.is_some(), "the run ended without the second question");
    let _ = place.dirigent(["answer", "last", "a3.2", "1"]).with_code(0);
    terminal.enters("the red one");
    let _ = terminal.end_with(0);
    assert!(mentions(
        &last_of(&served, "the second."),
        r#""answer":"the first file""#
    ));
    assert!(mentions(
        &last_of(&served, "the first."),
        r#""answer":"the red one""#
    ));
    events.for_each(drop);
    assert_eq!(watch.wait().unwrap().code(), Some(0));
}

#[test]
fn lead_4_a_question_of_the_lead_survives_a_kill() {
    let script = Script::from_fn(|request| match request.turn {
        1 => asks("Which one?", &CHOICES),
        _ => Turn::text("Then that one."),
    });
    let served = Served::new("", script);
    let place = &served.place;
    let terminal = Terminal::start(place.command(RUN));
    terminal.wait_for_prompt("your answer: ");
    terminal.kill();
    let resumed = place.dirigent(["resume", "last", "--answer", "2"]).with_code(0);
    assert!(resumed.stdout.contains("Then that one."), "{resumed}");
    assert!(mentions(
        served.requests().last().unwrap(),
        r#""answer":"the second file""#
    ));
    assert_eq!(served.requests().len(), 2, "no request was repeated");
}

#[test]
fn host_2_a_sub_agents_question_survives_a_kill_while_a_sibling_works() {
    let gate = Gate::new();
    let waits = gate.clone();
    let served = Served::new(
        "",
        Script::from_fn(move |request| match () {
            () if is_lead(request) => plan(
                "Look at both.",
                [
                    delegate("one", "explore", "Look at the first."),
                    delegate("two", "explore", "Look at the second."),
                ],
            ),
            () if is_reflector(request) => achieved("It is clear."),
            () if mentions(request, "Look at the second.") => {
                Turn::text("The second is fine.").wait_before_headers(&waits)
            }
            () if request.turn > 1 => Turn::text("Now I know."),
            () => asks("Which first?", &[]),
        }),
    );
    let place = &served.place;
    let mut run = Watched::start(&mut place.command(RUN.iter().chain(&["--json"])));
    run.wait_for(|event| event["event"] == "question_asked");
    let _ = served.wait_for_requests(3);
    run.kill();
    gate.open();

    let resumed = place.dirigent(["resume", "last"]).with_code(4);
    assert!(resumed.stdout.contains("Which first?"), "{resumed}");
    let requests = served.requests();
    assert_eq!(requests.len(), 4, "only the sibling's request is made again");
    assert!(mentions(&requests[3], "Look at the second."));
    let _ = place
        .dirigent(["resume", "last", "--answer", "the red one"])
        .with_code(0);
    assert!(mentions(&last_of(&served, "the first."), "the red one"));
    assert_eq!(listed(place)["state"], "goal_achieved");
}

#[test]
fn lead_4_a_lead_that_gives_up_fails_its_run_with_its_reason() {
    let script = Script::from_fn(|request| match () {
        () if is_lead(request) && request.turn == 1 => plan("Try.", [delegate("try", "explore", "Try it.")]),
        () if is_lead(request) => call("give_up", &json!({"reason": "Nobody can do it."})),
        () if is_reflector(request) => dirigent_tests::served::go_on("It failed."),
        () => call("give_up", &json!({"reason": "The file is gone."})),
    });
    let served = Served::new("", script);
    let ended = served.place.dirigent(RUN).with_code(1);
    assert!(
        ended.stdout.contains("the lead gave up: Nobody can do it."),
        "{ended}"
    );
    let judged = served
        .requests()
        .iter()
        .find(|request| is_reflector(request))
        .unwrap()
        .clone();
    assert!(mentions(&judged, "the agent gave up: The file is gone."));
    assert!(
        !judged.system_prompt().contains("## report"),
        "a reflector has its verdicts"
    );
}
