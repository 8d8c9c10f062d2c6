//! CALL-4: how a model calls tools is detected once if its configuration does not specify it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use dirigent_model_server::{Fault, Request, Script, ToolCall, Turn};
use dirigent_tests::approving::RUN;
use dirigent_tests::served::{Served, call};
use serde_json::{Value, json};

/// Another run with the same model.
const AGAIN: [&str; 4] = ["run", "What do the notes say?", "--workspace", "work"];

/// A place whose model's configuration does not specify the form of calls.
fn served(script: Script) -> Served {
    let served = Served::new("", script);
    let file = served.place.folder().join("home/.config/dirigent/dirigent.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("calls = \"json\"\n", "")).unwrap();
    served.place.write("notes.txt", "remember the milk\n");
    served
}

fn is_probe(request: &Request) -> bool {
    offered(request) == ["confirm_tool_calling"]
}

/// The tools that a request defines natively.
fn offered(request: &Request) -> Vec<&str> {
    let tools = request.body["tools"].as_array();
    let names = tools.into_iter().flatten().map(|tool| &tool["function"]["name"]);
    names.filter_map(Value::as_str).collect()
}

fn confirmed() -> Turn {
    Turn::calls([ToolCall::new("confirm_tool_calling", &json!({"ready": true}))])
}

fn read() -> Value {
    json!({"operation": "read", "path": "notes.txt"})
}

/// All requests except the probes.
fn of_runs(served: &Served) -> Vec<Arc<Request>> {
    let requests = served.requests().into_iter();
    requests.filter(|request| !is_probe(request)).collect()
}

#[test]
fn call_4_a_model_with_native_calls_is_probed_once_and_offered_tools_natively() {
    let served = served(Script::from_fn(|request| match request.turn {
        _ if is_probe(request) => confirmed(),
        1 => Turn::calls([ToolCall::new("file_operations", &read())]),
        _ => Turn::text("The notes say milk."),
    }));
    let _ = served.place.dirigent(RUN).with_code(0);
    let shown: Value = serde_json::from_str(
        &served
            .place
            .dirigent(["show", "last", "--json"])
            .with_code(0)
            .stdout,
    )
    .unwrap();
    assert_eq!(shown["usage"]["model_calls"], 3, "the probe counts");
    let _ = served.place.dirigent(AGAIN).with_code(0);

    let requests = served.requests();
    assert_eq!(requests.iter().filter(|request| is_probe(request)).count(), 1);
    assert_eq!(of_runs(&served).len(), 4);
    for request in of_runs(&served) {
        assert!(offered(&request).contains(&"file_operations"));
        assert!(!request.system_prompt().contains("\"terminate\""));
    }
}

#[test]
fn call_4_calls_in_the_text_of_a_model_with_native_tools_are_executed_too() {
    let served = served(Script::from_fn(|request| match request.turn {
        _ if is_probe(request) => confirmed(),
        1 => call("file_operations", &read()),
        _ => Turn::text("The notes say milk."),
    }));
    let _ = served.place.dirigent(RUN).with_code(0);
    let requests = of_runs(&served);
    assert_eq!(requests.len(), 2);
    assert!(requests[1].last_message().contains("remember the milk"));
}

#[test]
fn call_4_a_model_without_native_calls_is_taught_a_call_form_in_its_prompt() {
    let words = || Turn::text("I am ready.");
    let refused = || Turn::from(Fault::Status(400, "this model does not support tools"));
    for probed in [words as fn() -> Turn, refused] {
        let served = served(Script::from_fn(move |request| match request.turn {
            _ if is_probe(request) => probed(),
            1 => call("file_operations", &read()),
            _ => Turn::text("The notes say milk."),
        }));
        let _ = served.place.dirigent(RUN).with_code(0);
        let requests = of_runs(&served);
        assert_eq!(requests.len(), 2);
        assert!(offered(&requests[0]).is_empty());
        assert!(requests[0].system_prompt().contains("\"terminate\""));
        assert!(requests[1].last_message().contains("remember the milk"));
    }
}

#[test]
fn call_4_a_probe_that_fails_is_not_retried_and_the_run_begins_with_calls_in_text() {
    let served = served(Script::from_fn(|request| match () {
        () if is_probe(request) => Turn::from(Fault::Unavailable { retry_after: None }),
        () => Turn::text("The notes say milk."),
    }));
    let file = served.place.folder().join("home/.config/dirigent/dirigent.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("attempts = 1", "attempts = 4")).unwrap();
    let _ = served.place.dirigent(RUN).with_code(0);
    let requests = served.requests();
    assert_eq!(requests.iter().filter(|request| is_probe(request)).count(), 1);
    assert!(offered(&requests[1]).is_empty());
    assert_eq!(requests.len(), 2);
}

#[test]
fn call_4_a_model_whose_probe_failed_is_probed_again_before_the_next_run() {
    let served = served(Script::from_fn(|request| match request.number {
        1 => Turn::from(Fault::Unavailable { retry_after: None }),
        _ if is_probe(request) => confirmed(),
        _ => Turn::text("The notes say milk."),
    }));
    let _ = served.place.dirigent(RUN).with_code(0);
    let _ = served.place.dirigent(AGAIN).with_code(0);
    let probes = served
        .requests()
        .iter()
        .filter(|request| is_probe(request))
        .count();
    assert_eq!(probes, 2);
    assert!(!offered(of_runs(&served).last().unwrap()).is_empty());
}
