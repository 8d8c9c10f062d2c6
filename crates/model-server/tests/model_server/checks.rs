//! What the server refuses, and how it says so.

use dirigent_model_server::{ModelServer, Script, Turn, ViolationKind};
use serde_json::{Value, json};

use crate::socket::{asking, post, post_as};

/// What is found in a body, as kinds and places. The answer says it too.
async fn check(body: &Value, expected: &[(ViolationKind, &str)]) {
    let server = ModelServer::start(Script::from_fn(|_| Turn::text("Fine.")))
        .await
        .unwrap();
    let answer = post(&server, body).await.unwrap();

    let violations = server.violations();
    let found: Vec<(ViolationKind, &str)> = violations
        .iter()
        .map(|violation| (violation.kind, violation.path.as_str()))
        .collect();
    assert_eq!(found, expected, "{body}");
    assert_eq!(server.requests()[0].violations, violations);
    if let Some(first) = violations.first() {
        assert_eq!(answer.status, 400);
        assert_eq!(answer.json()["error"]["param"], first.path);
        assert!(
            answer.json()["error"]["message"]
                .as_str()
                .unwrap()
                .starts_with(&first.to_string())
        );
    } else {
        assert_eq!(answer.status, 200);
    }
}

async fn check_messages(messages: Value, expected: &[(ViolationKind, &str)]) {
    check(&json!({ "model": "m", "messages": messages }), expected).await;
}

fn system() -> Value {
    json!({ "role": "system", "content": "Be brief." })
}

fn user() -> Value {
    json!({ "role": "user", "content": "Hi" })
}

fn calls(ids: &[&str]) -> Value {
    let calls: Vec<Value> = ids
        .iter()
        .map(|id| json!({ "id": id, "type": "function", "function": { "name": "read", "arguments": "{}" } }))
        .collect();
    json!({ "role": "assistant", "content": null, "tool_calls": calls })
}

fn result(id: &str) -> Value {
    json!({ "role": "tool", "tool_call_id": id, "content": "done" })
}

#[tokio::test]
async fn a_whole_conversation_is_fine() {
    let said = json!({ "role": "assistant", "content": "Yes?" });
    let parts = json!({ "role": "user", "content": [{ "type": "text", "text": "Again" }] });
    let developer = json!({ "role": "developer", "content": "Be kind." });
    let messages = json!([
        system(),
        developer,
        user(),
        said,
        parts,
        calls(&["a", "b"]),
        result("b"),
        result("a"),
        user(),
        calls(&["c"]),
        result("c"),
    ]);
    check_messages(messages, &[]).await;
}

#[tokio::test]
async fn calls_without_results_are_orphans_wherever_they_stand() {
    let orphan = ViolationKind::OrphanCall;
    check_messages(json!([user(), calls(&["a"])]), &[(orphan, "messages")]).await;
    check_messages(json!([user(), calls(&["a"]), user()]), &[(orphan, "messages[2]")]).await;
    check_messages(
        json!([user(), calls(&["a", "b"]), result("a")]),
        &[(orphan, "messages")],
    )
    .await;
    check_messages(
        json!([user(), calls(&["a"]), calls(&["b"]), result("b")]),
        &[(orphan, "messages[2]")],
    )
    .await;
}

#[tokio::test]
async fn results_without_calls_are_orphans() {
    let at = "messages[1].tool_call_id";
    check_messages(json!([user(), result("a")]), &[(ViolationKind::OrphanResult, at)]).await;
    let nameless = json!({ "role": "tool", "content": "done" });
    check_messages(json!([user(), nameless]), &[(ViolationKind::OrphanResult, at)]).await;
}

#[tokio::test]
async fn a_result_comes_once_and_right_after_its_call() {
    let at = "messages[3].tool_call_id";
    let twice = json!([user(), calls(&["a"]), result("a"), result("a")]);
    check_messages(twice, &[(ViolationKind::Duplicate, at)]).await;
    let late = json!([user(), calls(&["a"]), user(), result("a")]);
    check_messages(
        late,
        &[
            (ViolationKind::OrphanCall, "messages[2]"),
            (ViolationKind::Duplicate, at),
        ],
    )
    .await;
}

#[tokio::test]
async fn call_ids_are_unique() {
    let again = json!([user(), calls(&["a"]), result("a"), calls(&["a"]), result("a")]);
    check_messages(
        again,
        &[(ViolationKind::Duplicate, "messages[3].tool_calls[0].id")],
    )
    .await;
}

#[tokio::test]
async fn system_messages_come_first_and_roles_are_known() {
    check_messages(
        json!([user(), system()]),
        &[(ViolationKind::Order, "messages[1].role")],
    )
    .await;
    let robot = json!({ "role": "robot", "content": "Beep" });
    check_messages(
        json!([user(), robot]),
        &[(ViolationKind::Order, "messages[1].role")],
    )
    .await;
}

fn says(content: &str) -> Value {
    json!({ "role": "assistant", "content": content })
}

fn tells(content: &str) -> Value {
    json!({ "role": "user", "content": content })
}

fn named(tool: &str) -> Value {
    json!({ "role": "tool", "name": tool, "content": "{\"success\":true}" })
}

const TWO_CALLS: &str = r#"First {"tool_call": {"name": "read", "arguments": {}}}, then
{"tool_call": {"name": "find", "arguments": {"text": "{"}}}"#;

#[tokio::test]
async fn call_3_a_result_names_the_tool_that_the_text_before_it_calls() {
    check_messages(
        json!([system(), user(), says(TWO_CALLS), named("read"), named("find")]),
        &[],
    )
    .await;
    check_messages(
        json!([
            user(),
            says(TWO_CALLS),
            named("find"),
            named("read"),
            tells("Hurry."),
            says("Done.")
        ]),
        &[],
    )
    .await;
    // A reply that could not be used is not acted on.
    check_messages(
        json!([user(), says(TWO_CALLS), tells("One call at a time.")]),
        &[],
    )
    .await;
    // Not every client is as strict about JSON.
    check_messages(
        json!([user(), says("{'tool_call': {'name': 'read'}}"), named("read")]),
        &[],
    )
    .await;
}

#[tokio::test]
async fn call_3_orphans_and_doubles_are_found_by_name() {
    let (no_call, orphan, twice) = (
        ViolationKind::OrphanResult,
        ViolationKind::OrphanCall,
        ViolationKind::Duplicate,
    );
    check_messages(
        json!([user(), says("I am done."), named("read")]),
        &[(no_call, "messages[2].name")],
    )
    .await;
    check_messages(json!([user(), named("read")]), &[(no_call, "messages[1].name")]).await;
    check_messages(
        json!([user(), says(TWO_CALLS), named("read"), says("Done.")]),
        &[(orphan, "messages[3]")],
    )
    .await;
    check_messages(
        json!([
            user(),
            says(TWO_CALLS),
            named("read"),
            named("read"),
            named("find")
        ]),
        &[(twice, "messages[3].name")],
    )
    .await;
    check_messages(
        json!([user(), says(TWO_CALLS), tells("No."), named("read")]),
        &[(no_call, "messages[3].name")],
    )
    .await;
}

#[tokio::test]
async fn call_1_results_in_the_users_text_follow_the_call_of_their_tool() {
    let call = r#"{"tool": "read", "parameters": {"path": "a"}, "terminate": false}"#;
    let result = "Result of read:\n{\"success\":true}";
    check_messages(
        json!([
            user(),
            says(call),
            tells(&format!("{result}\n\nHurry.")),
            says("Done.")
        ]),
        &[],
    )
    .await;
    let at = "messages[2].content";
    check_messages(
        json!([user(), says("(no text)"), tells(result)]),
        &[(ViolationKind::OrphanResult, at)],
    )
    .await;
    check_messages(
        json!([user(), says(call), tells(&format!("{result}\n\n{result}"))]),
        &[(ViolationKind::Duplicate, at)],
    )
    .await;
    check_messages(
        json!([
            user(),
            says(&format!("{call} {}", call.replace("read", "find"))),
            tells(result)
        ]),
        &[(ViolationKind::OrphanCall, "messages[2]")],
    )
    .await;
}

#[tokio::test]
async fn roles_alternate_where_calls_are_in_the_text() {
    let order = ViolationKind::Order;
    check_messages(json!([user(), user()]), &[(order, "messages[1].role")]).await;
    check_messages(
        json!([user(), says("One."), says("Two.")]),
        &[(order, "messages[2].role")],
    )
    .await;
    check_messages(json!([system(), says("Hi.")]), &[(order, "messages[1].role")]).await;
    // Nothing is known of the form where tools are on offer.
    let mut body = asking("Hi");
    body["tools"] = json!([{ "type": "function", "function": { "name": "read" } }]);
    body["messages"] = json!([user(), user()]);
    check(&body, &[]).await;
}

#[tokio::test]
async fn content_has_the_type_of_its_role() {
    let wrong = |role: &str, content: Value| match role {
        "user" => {
            json!([user(), { "role": "assistant", "content": "Yes?" }, { "role": role, "content": content }])
        }
        _ => json!([user(), { "role": role, "content": content }]),
    };
    let content = &[(ViolationKind::Content, "messages[2].content")];
    check_messages(wrong("user", Value::Null), content).await;
    check_messages(wrong("user", json!({ "text": "Hi" })), content).await;
    check_messages(wrong("user", json!([])), content).await;
    let spoken = &[(ViolationKind::Content, "messages[1].content")];
    check_messages(wrong("assistant", Value::Null), spoken).await;
    let part = &[(ViolationKind::Content, "messages[2].content[0]")];
    check_messages(wrong("user", json!(["Hi"])), part).await;
    check_messages(wrong("user", json!([{ "type": "text" }])), part).await;
}

#[tokio::test]
async fn a_call_has_id_type_name_and_arguments_as_text() {
    let call = json!({ "id": "", "type": "tool", "function": { "name": "a b", "arguments": {} } });
    let messages = json!([user(), { "role": "assistant", "content": null, "tool_calls": [call] }]);
    let field = ViolationKind::Field;
    check_messages(
        messages,
        &[
            (field, "messages[1].tool_calls[0].type"),
            (field, "messages[1].tool_calls[0].function.name"),
            (field, "messages[1].tool_calls[0].function.arguments"),
            (field, "messages[1].tool_calls[0].id"),
        ],
    )
    .await;
    let none = json!([user(), { "role": "assistant", "content": "Yes", "tool_calls": [] }]);
    check_messages(none, &[(field, "messages[1].tool_calls")]).await;
}

#[tokio::test]
async fn options_go_together() {
    let field = ViolationKind::Field;
    for (option, value, place) in [
        ("stream", json!("yes"), "stream"),
        (
            "stream_options",
            json!({ "include_usage": true }),
            "stream_options",
        ),
        ("tool_choice", json!("auto"), "tool_choice"),
        ("tools", json!([]), "tools"),
        ("model", json!(""), "model"),
        ("messages", json!([]), "messages"),
    ] {
        let mut body = asking("Hi");
        body[option] = value;
        check(&body, &[(field, place)]).await;
    }
}

#[tokio::test]
async fn tools_are_functions_with_names_of_their_own() {
    let tool = |name: &str| json!({ "type": "function", "function": { "name": name, "parameters": {} } });
    let mut body = asking("Hi");
    body["tools"] = json!([tool("read"), tool("write")]);
    check(&body, &[]).await;

    body["tools"] = json!([tool("read"), tool("read"), { "function": { "name": "", "parameters": "none" } }]);
    check(
        &body,
        &[
            (ViolationKind::Duplicate, "tools[1].function.name"),
            (ViolationKind::Field, "tools[2].type"),
            (ViolationKind::Field, "tools[2].function.name"),
            (ViolationKind::Field, "tools[2].function.parameters"),
        ],
    )
    .await;
}

#[tokio::test]
async fn a_body_is_json_and_says_so() {
    let server = ModelServer::start(Script::turns([])).await.unwrap();
    let body = asking("Hi").to_string();
    for (content_type, body, kind) in [
        ("text/plain", body.as_str(), ViolationKind::ContentType),
        ("application/json", "{\"model\":", ViolationKind::NotJson),
        ("application/json; charset=utf-8", "[]", ViolationKind::NotJson),
    ] {
        let answer = post_as(&server, content_type, body).await.unwrap();
        assert_eq!(
            (answer.status, answer.json()["error"]["type"].clone()),
            (400, json!("invalid_request_error"))
        );
        assert_eq!(server.violations().last().unwrap().kind, kind);
    }
    assert_eq!(server.requests()[1].raw, "{\"model\":");
}

#[tokio::test]
async fn a_request_beyond_the_script_is_a_violation() {
    let server = ModelServer::start(Script::turns([Turn::text("Only once")]))
        .await
        .unwrap();
    assert_eq!(post(&server, &asking("Hi")).await.unwrap().status, 200);
    let answer = post(&server, &asking("Hi")).await.unwrap();

    assert_eq!(answer.status, 400);
    let violations = server.violations();
    assert_eq!(violations[0].kind, ViolationKind::Unscripted);
    assert_eq!(
        violations[0].to_string(),
        "request 2: the script has no turn for request 1 of conversation 1 (attempt 2)"
    );
}
