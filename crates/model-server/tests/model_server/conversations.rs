//! Who gets which turn: rules, conversations, repeats, and scripts from files.

use dirigent_model_server::{Fault, Matcher, ModelServer, Reply, Request, Rule, Script, ToolCall, Turn};
use serde_json::{Value, json};

use crate::socket::{asking, post};

async fn said(server: &ModelServer, body: &Value) -> String {
    let answer = post(server, body).await.unwrap();
    match answer.status {
        200 => answer.json()["choices"][0]["message"]["content"]
            .as_str()
            .unwrap()
            .to_owned(),
        status => status.to_string(),
    }
}

/// The same conversation, one exchange further.
fn going_on(mut body: Value, reply: &str, user: &str) -> Value {
    let messages = body["messages"].as_array_mut().unwrap();
    messages.push(json!({ "role": "assistant", "content": reply }));
    messages.push(json!({ "role": "user", "content": user }));
    body
}

fn with_system(prompt: &str, user: &str) -> Value {
    json!({ "model": "m", "messages": [
        { "role": "system", "content": prompt },
        { "role": "user", "content": [{ "type": "text", "text": user }] },
    ]})
}

#[tokio::test]
async fn each_conversation_has_the_turns_for_itself() {
    let turns = [Turn::text("one"), Turn::text("two")];
    let server = ModelServer::start(Script::turns(turns)).await.unwrap();
    let (a, b) = (asking("A"), asking("B"));

    assert_eq!(said(&server, &a).await, "one");
    assert_eq!(said(&server, &b).await, "one");
    assert_eq!(said(&server, &going_on(a, "one", "more")).await, "two");
    assert_eq!(said(&server, &going_on(b, "one", "more")).await, "two");

    let places: Vec<(usize, usize, usize)> = server
        .requests()
        .iter()
        .map(|request| (request.conversation, request.turn, request.attempt))
        .collect();
    assert_eq!(places, [(1, 1, 1), (2, 1, 1), (1, 2, 1), (2, 2, 1)]);
}

#[tokio::test]
async fn a_repeat_is_recorded_and_gets_the_next_turn() {
    let turns = [Fault::ServerError.into(), Turn::text("one"), Turn::text("two")];
    let server = ModelServer::start(Script::turns(turns)).await.unwrap();
    let body = asking("A");

    assert_eq!(said(&server, &body).await, "500");
    assert_eq!(said(&server, &body).await, "one");
    assert_eq!(said(&server, &going_on(body, "one", "more")).await, "two");

    let places: Vec<(usize, usize)> = server
        .wait_for_requests(3)
        .await
        .iter()
        .map(|request| (request.turn, request.attempt))
        .collect();
    assert_eq!(places, [(1, 1), (1, 2), (2, 1)]);
    assert_eq!(server.violations(), []);
}

#[tokio::test]
async fn the_first_rule_that_matches_and_has_a_turn_left_answers() {
    let server = ModelServer::start(Script::rules([
        Rule::new(Matcher::system("planner"), [Turn::text("plan")]),
        Rule::always(Matcher::system("planner").and_user("again"), Turn::text("replan")),
        Rule::always(Matcher::user("weather").and_model("m"), Turn::text("rain")),
        Rule::always(Matcher::any().and_turn(2), Turn::text("second")),
        Rule::always(Matcher::any().and_last("tail"), Turn::text("last")),
        Rule::always(Matcher::any().and_tool("read"), Turn::text("reader")),
        Rule::always(Matcher::any(), Turn::text("other")),
    ]))
    .await
    .unwrap();

    let planner = with_system("You are a planner.", "Go");
    assert_eq!(said(&server, &planner).await, "plan");
    assert_eq!(said(&server, &going_on(planner, "plan", "again")).await, "replan");
    assert_eq!(said(&server, &asking("The weather?")).await, "rain");
    assert_eq!(
        said(&server, &going_on(asking("X"), "y", "z")).await,
        "other",
        "it is the first request of X"
    );
    assert_eq!(said(&server, &going_on(asking("X"), "y", "zz")).await, "second");
    assert_eq!(said(&server, &asking("the tail")).await, "last");
    let mut tooled = asking("Y");
    tooled["tools"] = json!([{ "type": "function", "function": { "name": "read" } }]);
    assert_eq!(said(&server, &tooled).await, "reader");
    let mut other_model = asking("The weather, again?");
    other_model["model"] = "n".into();
    assert_eq!(said(&server, &other_model).await, "other");
}

#[tokio::test]
async fn first_attempts_can_fail_by_rule() {
    let server = ModelServer::start(Script::rules([
        Rule::always(Matcher::any().and_attempt(1), Fault::BadGateway.into()),
        Rule::always(Matcher::any(), Turn::text("fine")),
    ]))
    .await
    .unwrap();
    for body in [asking("A"), going_on(asking("A"), "fine", "B")] {
        assert_eq!(said(&server, &body).await, "502");
        assert_eq!(said(&server, &body).await, "fine");
    }
}

#[tokio::test]
async fn a_function_sees_the_request() {
    let server = ModelServer::start(Script::from_fn(|request: &Request| {
        match request.tool_results().as_slice() {
            [] => Turn::calls([ToolCall::new(
                "read",
                &json!({ "path": request.last_user_message() }),
            )]),
            [(id, text), ..] => Reply::text(format!("{id} gave {text}")).into(),
        }
    }))
    .await
    .unwrap();

    let mut body = asking("notes.txt");
    let first = post(&server, &body).await.unwrap().json();
    let message = first["choices"][0]["message"].clone();
    assert_eq!(
        message["tool_calls"][0]["function"]["arguments"],
        "{\"path\":\"notes.txt\"}"
    );
    let messages = body["messages"].as_array_mut().unwrap();
    messages.push(message);
    messages.push(json!({ "role": "tool", "tool_call_id": "call_1_0", "content": "milk" }));
    assert_eq!(said(&server, &body).await, "call_1_0 gave milk");
    assert_eq!(server.violations(), []);
}

#[tokio::test]
async fn a_request_is_read_for_assertions() {
    let server = ModelServer::start(Script::turns([Turn::text("Hi")]))
        .await
        .unwrap();
    said(&server, &with_system("Be brief.", "Hello")).await;

    let requests = server.requests();
    let request = &requests[0];
    assert_eq!((request.number, request.model()), (1, "m"));
    assert_eq!(request.system_prompt(), "Be brief.");
    assert_eq!(
        (request.last_user_message(), request.last_message()),
        ("Hello".to_owned(), "Hello".to_owned())
    );
    assert_eq!((request.wants_stream(), request.wants_usage()), (false, false));
    assert_eq!(request.header("content-type"), Some("application/json"));
    assert_eq!(request.messages().len(), 2);
}

#[track_caller]
fn refused(text: &str, expected: &str) {
    assert_eq!(Script::from_json(text).unwrap_err().to_string(), expected);
}

#[test]
fn a_script_file_is_refused_with_the_place_and_the_reason() {
    refused(
        r#"{ "rules": [{ "turns": [] }] }"#,
        "the script is not valid at rules[0].turns: it is empty: give at least one turn",
    );
    refused(
        r#"{ "rules": [{ "turns": [{ "reply": {}, "fault": "conflict" }] }] }"#,
        "the script is not valid at rules[0].turns[0]: a turn is either a `reply` or a `fault` at line 1 column 61",
    );
    refused(
        r#"{ "rules": [{ "turns": [{ "fault": { "html_page": { "status": 302 } } }] }] }"#,
        "the script is not valid at rules[0].turns[0].fault.html_page.status: status 302 has no page: use 200 or 400 to 599 at line 1 column 67",
    );
    let unknown =
        Script::from_json(r#"{ "rules": [{ "when": { "user": "x" }, "turns": [] }] }"#).unwrap_err();
    assert_eq!(unknown.path, "rules[0].when.user");
    assert!(
        unknown
            .problem
            .starts_with("unknown field `user`, expected one of `system_contains`")
    );
}
