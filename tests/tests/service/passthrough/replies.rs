//! What the client gets: replies and streams.

use dirigent_model_server::{Flaw, Gate, Reply, Script, ToolCall, Turn, Usage};
use serde_json::{Value, json};

use super::{Door, events, offline, says, text_of, with};

fn streamed(text: &str) -> Value {
    with(says(text), json!({"stream": true}))
}

#[tokio::test]
async fn prompt_3_a_reply_is_passed_on_whole() {
    let door = Door::open(Script::turns([Turn::text("Grüße.")])).await;
    let reply = door.post(&says("hi")).await.with_status(200);
    assert_eq!(reply["object"], "chat.completion");
    assert_eq!(reply["choices"][0]["message"]["content"], "Grüße.");
    assert_eq!(reply["choices"][0]["finish_reason"], "stop");
    // A field that no client library of ours reads.
    assert_eq!(reply.get("system_fingerprint"), Some(&Value::Null));
    assert!(reply["usage"]["total_tokens"].is_u64());
    door.close().await;
}

#[tokio::test]
async fn prompt_3_a_stream_is_passed_on_chunk_by_chunk() {
    let gate = Gate::new();
    let turn = Turn::text("one two three four").wait_in_body(&gate);
    let door = Door::open(Script::turns([turn])).await;
    let mut source = door.stream(&streamed("count")).await;
    // The first chunk comes although the rest of the reply does not exist yet.
    let first = source.next().await.unwrap();
    assert_eq!(first.data["choices"][0]["delta"]["role"], "assistant");
    gate.open();
    let rest = events(source).await;
    assert_eq!(text_of(&rest), "one two three four");
    assert_eq!(rest.last().unwrap(), "[DONE]");
    assert!(
        rest.iter().all(|event| event["usage"].is_null()),
        "no usage was asked for"
    );
    assert!(rest.len() > 4, "{rest:?}");
    door.close().await;
}

#[tokio::test]
async fn prompt_3_usage_comes_at_the_end_of_a_stream_that_asks_for_it() {
    let reply = Reply::text("Done.").with_usage(Usage::Tokens {
        prompt: 7,
        completion: 3,
    });
    let door = Door::open(Script::turns([reply.into()])).await;
    let request = with(streamed("hi"), json!({"stream_options": {"include_usage": true}}));
    let events = events(door.stream(&request).await).await;
    let [.., usage, done] = events.as_slice() else {
        panic!("{events:?}");
    };
    assert_eq!(
        (&usage["usage"]["total_tokens"], done),
        (&json!(10), &json!("[DONE]"))
    );
    door.close().await;
}

#[tokio::test]
async fn call_2_tool_calls_are_passed_on_and_not_executed() {
    let calls = [
        ToolCall::new("execute_command", &json!({"command": ["touch", "x"]})),
        ToolCall::raw("look", "{not json"),
    ];
    let door = Door::open(Script::from_fn(move |_| Turn::calls(calls.clone()))).await;
    let reply = door.post(&says("hi")).await.with_status(200);
    let message = &reply["choices"][0]["message"];
    assert_eq!(message["tool_calls"][0]["function"]["name"], "execute_command");
    assert_eq!(message["tool_calls"][1]["function"]["arguments"], "{not json");
    assert_eq!(reply["choices"][0]["finish_reason"], "tool_calls");

    let events = events(door.stream(&streamed("hi")).await).await;
    let pieces = events
        .iter()
        .flat_map(|event| event["choices"][0]["delta"]["tool_calls"].as_array());
    let arguments: String = pieces
        .flatten()
        .filter(|piece| piece["index"] == 0)
        .filter_map(|piece| piece["function"]["arguments"].as_str())
        .collect();
    assert_eq!(arguments, r#"{"command":["touch","x"]}"#);
    assert_eq!(door.upstream.requests().len(), 2);
    assert_eq!(
        std::fs::read_dir(door.server.stage.workspace()).unwrap().count(),
        0
    );
    door.close().await;
}

#[tokio::test]
async fn prompt_3_streams_of_unusual_servers_arrive_in_the_usual_form() {
    for flaws in [
        vec![Flaw::MissingDone],
        vec![Flaw::CrlfLines, Flaw::SmallFrames { bytes: 3 }],
        vec![Flaw::MultiLineData, Flaw::KeepAliveComments],
        vec![Flaw::NoSpaceAfterColon, Flaw::WrongContentType],
        vec![Flaw::EmptyChoices, Flaw::NullContent],
    ] {
        let mut reply = Reply::text("Grüße an alle.");
        reply.flaws.clone_from(&flaws);
        let door = Door::open(Script::turns([reply.into()])).await;
        let events = events(door.stream(&streamed("hi")).await).await;
        assert_eq!(text_of(&events), "Grüße an alle.", "{flaws:?}");
        assert_eq!(events.last().unwrap(), "[DONE]", "{flaws:?}");
        door.close().await;
    }
}

#[tokio::test]
async fn prompt_3_a_stream_that_breaks_off_ends_in_an_error_and_never_as_if_complete() {
    for flaw in [
        Flaw::CutMidEvent,
        Flaw::CutMidCharacter,
        Flaw::CutBetweenEvents,
        Flaw::EndsEarly,
        Flaw::ErrorObject,
        Flaw::GarbageEvent,
    ] {
        let reply = Reply::text("A reply that is long enough for several events.").with_flaw(flaw);
        let door = Door::open(Script::turns([reply.into()])).await;
        let events = events(door.stream(&streamed("hi")).await).await;
        assert!(!events.contains(&json!("[DONE]")), "{flaw:?}: {events:?}");
        let error = &events.last().unwrap()["error"];
        assert!(error["message"].is_string(), "{flaw:?}: {events:?}");
        assert!(events.len() > 1, "{flaw:?}: {events:?}");
        door.close().await;
    }
}

#[tokio::test]
async fn host_4_the_offline_model_answers() {
    let server = offline().await;
    let models = server.client.get("/v1/models").await.with_status(200);
    let name = models["data"][0]["id"].clone();
    let request = with(says("Hello"), json!({"model": name}));
    let reply = server
        .client
        .post(super::COMPLETIONS, &request)
        .await
        .with_status(200);
    assert_eq!(reply["choices"][0]["finish_reason"], "stop");
    let text = reply["choices"][0]["message"]["content"].as_str().unwrap();
    assert!(!text.is_empty());
    let request = with(
        request.clone(),
        json!({"stream": true, "stream_options": {"include_usage": true}}),
    );
    let source = server
        .client
        .stream("POST", super::COMPLETIONS, &[], Some(&request))
        .await;
    let events = events(source).await;
    assert_eq!(text_of(&events), text);
    assert_eq!(events.last().unwrap(), "[DONE]");
    assert!(events[events.len() - 2]["usage"]["total_tokens"].is_u64());
    server.stop().await;
}

#[tokio::test]
async fn prompt_3_the_models_are_listed_by_the_names_that_clients_send() {
    let door = Door::open(Script::turns([])).await;
    let client = &door.server.client;
    let models = client.get("/v1/models").await.with_status(200);
    let names: Vec<&str> = models["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|model| model["id"].as_str().unwrap())
        .collect();
    assert_eq!(
        (&models["object"], names),
        (&json!("list"), vec!["default", "small", "offline"])
    );
    for (path, name, owner) in [
        ("/v1/models/small", "small", "openai"),
        ("/v1/models/offline", "offline", "offline"),
        (
            "/v1/models/anthropic%2Fclaude-x",
            "anthropic/claude-x",
            "anthropic",
        ),
        ("/v1/models/openai/gpt-x", "openai/gpt-x", "openai"),
    ] {
        let model = client.get(path).await.with_status(200);
        assert_eq!(
            model,
            json!({"id": name, "object": "model", "created": 0, "owned_by": owner})
        );
    }
    let (status, error) = super::error(&client.get("/v1/models/large").await);
    assert_eq!((status, &error["code"]), (404, &json!("model_not_found")));
    door.close().await;
}
