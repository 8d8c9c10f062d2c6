//! FLOW-2: the words after a workflow's name as a sentence, which a model understands.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use dirigent::workflows::InvocationWords;
use dirigent::{Dirigent, OfflineModel};
use dirigent_model_server::{Fault, Request, Script, ToolCall, Turn};
use dirigent_tests::cli::Place;
use dirigent_tests::pty::{CTRL_D, Terminal};
use dirigent_tests::served::{Served, call, mentions};
use dirigent_tests::stage::Stage;
use serde_json::{Value, json};

/// Returns true if a request asks for the values in a sentence.
fn is_extraction(request: &Request) -> bool {
    mentions(request, "<WORDS>")
}

/// A model that finds these values in every sentence, and answers every goal at once.
fn finding(values: Value) -> Script {
    Script::from_fn(move |request| match is_extraction(request) {
        true => call("set_parameters", &values),
        false => Turn::text("Done."),
    })
}

/// The values of the words that follow `workflow run`.
fn run_words<'a>(place: &Place, words: impl IntoIterator<Item = &'a str>) -> dirigent_tests::cli::Ended {
    let run = ["workflow", "run"].into_iter().chain(words);
    place.dirigent(run.chain(["--workspace", "work"]))
}

fn shown(place: &Place) -> Value {
    let shown = place.dirigent(["show", "last", "--json"]).with_code(0);
    serde_json::from_str(&shown.stdout).unwrap()
}

fn no_runs(place: &Place) {
    let runs = place.dirigent(["runs"]).with_code(0);
    assert!(runs.stdout.trim().is_empty(), "{}", runs.stdout);
}

/// A reply of the model.
type Reply = fn() -> Turn;

#[test]
fn flow_2_the_offline_model_understands_a_sentence() {
    let place = Place::new();
    let sentence = "create_project a python project called my-app please";
    let created = run_words(&place, sentence.split(' ')).with_code(0);
    assert!(
        created
            .stderr
            .contains("understood: name = my-app, language = python\n"),
        "{}",
        created.stderr
    );
    assert!(
        created.stdout.contains("Created the Python project `my-app`"),
        "{}",
        created.stdout
    );
    let renamed = place
        .run("/rename_symbol rename greeting to salutation in my-app/")
        .with_code(0);
    assert!(
        renamed
            .stderr
            .contains("understood: name = greeting, new_name = salutation, place = my-app/\n"),
        "{}",
        renamed.stderr
    );
    assert!(place.read("my-app/my_app.py").contains("def salutation(name):"));

    // The request for the values is the only one more than without a sentence.
    let found = place.run("/find_usages salutation").with_code(0);
    assert!(!found.stderr.contains("understood"), "{}", found.stderr);
    let without = shown(&place)["usage"]["model_calls"].as_u64().unwrap();
    let _ = place
        .run("/find_usages please find the usages of salutation")
        .with_code(0);
    assert_eq!(shown(&place)["usage"]["model_calls"], without + 1);
}

#[test]
fn flow_2_a_sentence_in_a_chat_starts_the_workflow_and_asks_for_the_rest() {
    let place = Place::new();
    place.write("a.py", "def greeting():\n    pass\n");
    let terminal = Terminal::start(place.command(["chat", "--workspace", "work"]));
    terminal.wait_for_prompt("›");
    terminal.enters("/find_usages please find the usages of greeting");
    terminal.wait_for("understood: name = greeting");
    terminal.wait_for("a.py:1");
    terminal.wait_for_prompt("›");
    terminal.enters("/create_project a python project please");
    terminal.wait_for("understood: language = python");
    terminal.wait_for("(the project's name");
    terminal.enters("my-app");
    terminal.wait_for("Created the Python project");
    terminal.wait_for_prompt("›");
    terminal.types(CTRL_D);
    let _ = terminal.end_with(0);
}

#[test]
fn flow_2_the_usage_of_a_sentence_belongs_to_its_run_and_replays() {
    let served = Served::new("", finding(json!({"name": "my-app", "language": "python"})));
    let place = &served.place;
    let ran = place
        .run("/create_project a Python package called my-app")
        .with_code(0);
    assert!(
        ran.stderr
            .contains("understood: name = my-app, language = python\n"),
        "{}",
        ran.stderr
    );
    let requests = served.requests();
    assert_eq!(requests.len(), 2);
    assert!(mentions(&requests[0], "a Python package called my-app\n</WORDS>"));
    assert!(mentions(&requests[1], "Create a minimal python project `my-app`"));
    let usage = &shown(place)["usage"];
    assert_eq!(usage["model_calls"], 2, "{usage}");

    let _ = place
        .dirigent(["show", "last", "--record", "run.jsonl"])
        .with_code(0);
    assert!(
        std::fs::read_to_string(place.folder().join("run.jsonl"))
            .unwrap()
            .contains("\"text\":\"a Python package called my-app\"")
    );
    let _ = place.dirigent(["run", "--replay", "run.jsonl"]).with_code(0);
    assert_eq!(served.requests().len(), 2, "a replay asks no model");
    assert_eq!(&shown(place)["usage"], usage);
}

#[test]
fn flow_2_words_that_fit_ask_no_model() {
    let served = Served::new("", finding(json!({})));
    for words in ["my-app python", "name=my-app", "'my-app' \"python\""] {
        let _ = served.place.run(&format!("/create_project {words}")).with_code(0);
    }
    let _ = served.place.run("/explain how don't it's a=b 'work").with_code(0);
    let _ = served
        .place
        .run("/create_project name=My-App please")
        .with_code(2);
    let requests = served.requests();
    assert!(!requests.iter().any(|request| is_extraction(request)));
}

#[test]
fn flow_2_a_value_that_the_user_did_not_write_is_not_used() {
    let served = Served::new("", finding(json!({"name": "super-app", "language": "python"})));
    let place = &served.place;
    let sentence = "/create_project a python package please";
    let missing = place.run(sentence).with_code(2);
    assert!(
        missing
            .stderr
            .contains("not used, because the value is not in your words: name"),
        "{}",
        missing.stderr
    );
    assert!(
        missing.stderr.contains("`/create_project` needs `name`"),
        "{}",
        missing.stderr
    );
    no_runs(place);

    // At a terminal, the user is asked.
    let terminal = Terminal::start(place.command(["run", sentence, "--workspace", "work"]));
    terminal.wait_for("(the project's name");
    terminal.enters("my-app");
    let _ = terminal.end_with(0);
    let goals = served.requests();
    assert!(mentions(goals.last().unwrap(), "python project `my-app`"));
}

#[test]
fn flow_2_a_value_in_the_sentence_is_checked_like_a_typed_one() {
    let cases = [
        (
            json!({"name": "my-app", "language": "cobol"}),
            "/create_project a cobol package called my-app",
            "`language` cannot be `cobol`: it must be one of rust, python",
        ),
        (
            json!({"name": "f", "place": "../up"}),
            "/find_usages where is f used in ../up",
            "`place` cannot be `../up`: it leads out of the workspace",
        ),
        // No word in the place of a value is ignored.
        (
            json!({"name": "my-app"}),
            "/create_project my-app cobol",
            "`language` cannot be `cobol`: it must be one of rust, python; write",
        ),
    ];
    for (values, goal, message) in cases {
        let served = Served::new("", finding(values));
        let ended = served.place.run(goal).with_code(2);
        assert!(ended.stderr.contains(message), "{goal}: {}", ended.stderr);
        no_runs(&served.place);
    }
}

#[test]
fn flow_2_an_answer_that_cannot_be_used_is_repaired_once() {
    let sentence = "/create_project a package called my-app";
    let call = || call("set_parameters", &json!({"name": "my-app"}));
    let served = Served::new(
        "",
        Script::from_fn(move |request| match is_extraction(request) {
            true if mentions(request, "Your last reply could not be used") => call(),
            true => Turn::text("The name is my-app."),
            false => Turn::text("Done."),
        }),
    );
    let ran = served.place.run(sentence).with_code(0);
    assert!(
        ran.stderr
            .contains("understood: name = my-app, language = rust (the default)\n"),
        "{}",
        ran.stderr
    );
    assert_eq!(shown(&served.place)["usage"]["model_calls"], 3);

    let turns: [(Reply, usize, &str); 3] = [
        (
            || Turn::text("I cannot."),
            2,
            "the model's answer could not be used",
        ),
        (
            || Turn::from(Fault::Unavailable { retry_after: None }),
            1,
            "the model did not answer",
        ),
        (
            || dirigent_tests::served::call("set_parameters", &json!({})),
            1,
            "it is unclear which words are values",
        ),
    ];
    for (turn, count, reason) in turns {
        let served = Served::new("", Script::from_fn(move |_| turn()));
        let ended = served.place.run(sentence).with_code(2);
        for part in ["too many arguments", reason, "Write each value as name=value"] {
            assert!(ended.stderr.contains(part), "{part}: {}", ended.stderr);
        }
        assert_eq!(served.requests().len(), count, "{reason}");
        no_runs(&served.place);
    }
}

#[test]
fn flow_2_every_form_of_calls_can_give_the_values() {
    let native = || Turn::calls([ToolCall::new("set_parameters", &json!({"name": "my-app"}))]);
    let in_tool_call =
        || Turn::text(r#"{"tool_call": {"name": "set_parameters", "arguments": {"name": "my-app"}}}"#);
    let bare = || Turn::text("```json\n{\"name\": \"my-app\"}\n```");
    let cases: [(&str, Reply); 3] = [("native", native), ("tool_call", in_tool_call), ("json", bare)];
    for (form, turn) in cases {
        let served = Served::new(
            "",
            Script::from_fn(move |request| match is_extraction(request) {
                true => turn(),
                false => Turn::text("Done."),
            }),
        );
        let file = served.place.folder().join("home/.config/dirigent/dirigent.toml");
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, text.replace("\"json\"", &format!("\"{form}\""))).unwrap();
        let ran = served
            .place
            .run("/create_project a package called my-app")
            .with_code(0);
        assert!(
            ran.stderr.contains("understood: name = my-app"),
            "{form}: {}",
            ran.stderr
        );
        let offered = served.requests()[0].tool_names().len();
        assert_eq!(offered, usize::from(form == "native"), "{form}");
    }
}

#[tokio::test]
async fn flow_2_programs_fill_a_workflow_from_a_sentence() {
    let stage = Stage::new();
    let dirigent: Dirigent = stage.builder(OfflineModel).build().await.unwrap();
    let workflows = dirigent.workflows(Some(&stage.workspace())).await.unwrap();
    let text = "/create_project a python project called my-app";
    let invoked = workflows.invocation(text).unwrap().unwrap();
    let arguments = dirigent
        .workflow_arguments(invoked.workflow, invoked.words)
        .await
        .unwrap();
    let values: Vec<_> = arguments.iter().collect();
    assert_eq!(values, [("language", "python"), ("name", "my-app")]);
    let sentence = arguments.sentence().unwrap();
    assert_eq!(sentence.text, "a python project called my-app");
    assert_eq!((sentence.requests.len(), sentence.invented.len()), (1, 0));

    let words: Vec<String> = ["my-app", "python"].map(str::to_owned).into();
    let words = InvocationWords::Shell(&words);
    let arguments = dirigent
        .workflow_arguments(invoked.workflow, words)
        .await
        .unwrap();
    assert_eq!(arguments.sentence(), None);
    assert!(invoked.workflow.parse_arguments(invoked.words).is_err());
}
