//! Anthropic's and Gemini's APIs behind the OpenAI-compatible address.

use dirigent_model_server::{HttpAnswer, HttpRequest, HttpServer};
use dirigent_tests::http_client::Reply;
use dirigent_tests::service::TestServer;
use serde_json::{Value, json};

use super::{COMPLETIONS, KEY, error, events, serve, text_of, with};

/// A service whose model `hosted` is at a server with canned answers.
struct Hosted {
    upstream: HttpServer,
    server: TestServer,
}

impl Hosted {
    async fn open(provider: &str, answers: impl IntoIterator<Item = HttpAnswer>) -> Hosted {
        let upstream = HttpServer::start(answers).await.unwrap();
        let table = format!(
            "[models.hosted]\nprovider = \"{provider}\"\nname = \"served-name\"\nbase_url = \"{}\"\napi_key = \"{KEY}\"\nattempts = 1\n",
            upstream.url("/v1")
        );
        let server = serve(&table).await;
        Hosted { upstream, server }
    }

    async fn post(&self, body: &Value) -> Reply {
        self.server.client.post(COMPLETIONS, body).await
    }

    async fn stream(&self, body: &Value) -> Vec<Value> {
        let body = with(
            body.clone(),
            json!({"stream": true, "stream_options": {"include_usage": true}}),
        );
        let source = self
            .server
            .client
            .stream("POST", COMPLETIONS, &[], Some(&body))
            .await;
        events(source).await
    }

    /// The last request that the server got.
    fn sent(&self) -> HttpRequest {
        self.upstream.requests().last().unwrap().as_ref().clone()
    }
}

/// A conversation with a call and its result, a tool, and sampling parameters.
fn request() -> Value {
    json!({
        "model": "hosted",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "Weather in Rome?"}]},
            {"role": "assistant", "content": null, "tool_calls": [
                {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": "{\"city\":\"Rome\"}"}},
            ]},
            {"role": "tool", "tool_call_id": "call_1", "content": "sunny"},
        ],
        "tools": [{"type": "function", "function": {
            "name": "get_weather",
            "description": "Returns the weather.",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        }}],
        "tool_choice": {"type": "function", "function": {"name": "get_weather"}},
        "max_completion_tokens": 100,
        "temperature": 0.5,
        "stop": ["END"],
    })
}

fn anthropic(events: &[Value]) -> HttpAnswer {
    let event = |data: &Value| format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap());
    HttpAnswer::stream(events.iter().map(event).collect::<String>())
}

fn anthropic_reply() -> Vec<Value> {
    vec![
        json!({"type": "message_start", "message": {"model": "claude-served", "usage": {"input_tokens": 12, "output_tokens": 1}}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "It is "}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "sunny."}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "content_block_start", "index": 1, "content_block": {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {}}}),
        json!({"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": "{\"city\": \"Oslo\"}"}}),
        json!({"type": "content_block_stop", "index": 1}),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": null}, "usage": {"output_tokens": 9}}),
        json!({"type": "message_stop"}),
    ]
}

fn gemini(events: &[Value]) -> HttpAnswer {
    HttpAnswer::stream(
        events
            .iter()
            .map(|data| format!("data: {data}\r\n\r\n"))
            .collect::<String>(),
    )
}

fn gemini_reply() -> Vec<Value> {
    let part = |part: Value| json!({"candidates": [{"content": {"role": "model", "parts": [part]}}], "modelVersion": "gemini-served"});
    vec![
        part(json!({"text": "It is "})),
        part(json!({"text": "sunny."})),
        part(json!({"functionCall": {"name": "get_weather", "args": {"city": "Oslo"}}})),
        json!({
            "candidates": [{"content": {"role": "model", "parts": [{"text": ""}]}, "finishReason": "STOP"}],
            "usageMetadata": {"promptTokenCount": 12, "candidatesTokenCount": 9, "totalTokenCount": 21},
            "modelVersion": "gemini-served",
        }),
    ]
}

#[track_caller]
fn assert_whole(reply: &Reply, model: &str) {
    let reply = reply.with_status(200);
    assert_eq!(
        (&reply["object"], &reply["model"]),
        (&json!("chat.completion"), &json!(model))
    );
    let choice = &reply["choices"][0];
    assert_eq!(choice["message"]["content"], "It is sunny.");
    let call = &choice["message"]["tool_calls"][0];
    assert_eq!(
        (&call["type"], &call["function"]["name"]),
        (&json!("function"), &json!("get_weather"))
    );
    assert_eq!(call["function"]["arguments"], r#"{"city":"Oslo"}"#);
    assert_eq!(choice["finish_reason"], "tool_calls");
    assert_eq!(
        (
            &reply["usage"]["prompt_tokens"],
            &reply["usage"]["completion_tokens"]
        ),
        (&json!(12), &json!(9))
    );
}

#[track_caller]
fn assert_streamed(events: &[Value]) {
    let texts: Vec<&str> = events
        .iter()
        .filter_map(|event| event["choices"][0]["delta"]["content"].as_str())
        .collect();
    assert_eq!(texts, ["It is ", "sunny."]);
    let call = events
        .iter()
        .find_map(|event| event["choices"][0]["delta"]["tool_calls"].get(0))
        .unwrap();
    assert_eq!(
        (&call["index"], &call["function"]["arguments"]),
        (&json!(0), &json!(r#"{"city":"Oslo"}"#))
    );
    let [.., finish, usage, done] = events else {
        panic!("{events:?}");
    };
    assert_eq!(finish["choices"][0]["finish_reason"], "tool_calls");
    assert_eq!(
        (&usage["usage"]["total_tokens"], done),
        (&json!(21), &json!("[DONE]"))
    );
}

#[tokio::test]
async fn prompt_3_anthropics_api_is_translated() {
    let answers = [anthropic(&anthropic_reply()), anthropic(&anthropic_reply())];
    let hosted = Hosted::open("anthropic", answers).await;
    assert_whole(&hosted.post(&request()).await, "claude-served");
    let sent = hosted.sent();
    assert_eq!(sent.header("x-api-key"), Some(KEY));
    let body = sent.json();
    assert_eq!(body["model"], "served-name");
    assert_eq!(
        (&body["max_tokens"], &body["temperature"]),
        (&json!(100), &json!(0.5))
    );
    assert_eq!(
        (&body["stop_sequences"], &body["tool_choice"]),
        (&json!(["END"]), &json!({"type": "tool", "name": "get_weather"}))
    );
    assert_eq!(body["tools"][0]["name"], "get_weather");
    assert_eq!(body["messages"].as_array().unwrap().len(), 3);
    assert_eq!(body["messages"][1]["content"][0]["type"], "tool_use");
    assert_eq!(body["messages"][2]["content"][0]["type"], "tool_result");
    assert_streamed(&hosted.stream(&request()).await);
    hosted.server.stop().await;
}

#[tokio::test]
async fn prompt_3_geminis_api_is_translated() {
    let answers = [gemini(&gemini_reply()), gemini(&gemini_reply())];
    let hosted = Hosted::open("gemini", answers).await;
    assert_whole(&hosted.post(&request()).await, "gemini-served");
    let body = hosted.sent().json();
    let generation = &body["generationConfig"];
    assert_eq!(
        (&generation["maxOutputTokens"], &generation["temperature"]),
        (&json!(100), &json!(0.5))
    );
    assert_eq!(generation["stopSequences"], json!(["END"]));
    let choice = &body["toolConfig"]["functionCallingConfig"];
    assert_eq!(
        (&choice["mode"], &choice["allowedFunctionNames"]),
        (&json!("ANY"), &json!(["get_weather"]))
    );
    assert_eq!(body["contents"].as_array().unwrap().len(), 3);
    assert_streamed(&hosted.stream(&request()).await);
    hosted.server.stop().await;
}

#[tokio::test]
async fn prompt_3_a_hosted_stream_that_breaks_off_ends_in_an_error() {
    let half = &anthropic_reply()[..4];
    let hosted = Hosted::open("anthropic", [anthropic(half)]).await;
    let events = hosted.stream(&request()).await;
    assert_eq!(text_of(&events), "It is sunny.");
    assert!(
        events.last().unwrap()["error"]["message"].is_string(),
        "{events:?}"
    );
    hosted.server.stop().await;
}

#[tokio::test]
async fn prompt_3_what_has_no_translation_is_refused_by_name() {
    let hosted = Hosted::open("anthropic", []).await;
    let image = json!([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]}]);
    let schema = json!({"type": "json_schema", "json_schema": {"name": "x", "schema": {}}});
    for (fields, param) in [
        (json!({"seed": 1}), "seed"),
        (json!({"n": 2}), "n"),
        (json!({"logit_bias": {"1": 2}}), "logit_bias"),
        (json!({"response_format": schema}), "response_format"),
        (
            json!({"tools": [{"type": "web_search"}]}),
            "tools of type web_search",
        ),
        (
            json!({"messages": image}),
            "messages[0].content of type image_url",
        ),
    ] {
        let reply = hosted.post(&with(request(), fields)).await;
        let (status, error) = error(&reply);
        assert_eq!((status, &error["param"]), (400, &json!(param)), "{error}");
    }
    assert!(hosted.upstream.requests().is_empty());
    hosted.server.stop().await;
}

#[tokio::test]
async fn host_7_hosted_servers_errors_keep_their_meaning() {
    let answer = |status: &str, headers: &[&str], kind: &str| {
        let body = json!({"type": "error", "error": {"type": kind, "message": format!("no {KEY}")}});
        let headers: Vec<&str> = headers
            .iter()
            .copied()
            .chain(["content-type: application/json"])
            .collect();
        HttpAnswer::new(status, &headers, body.to_string())
    };
    for (answer, status, retry_after) in [
        (answer("429 X", &["retry-after: 7"], "rate_limit_error"), 429, "7"),
        (answer("529 X", &[], "overloaded_error"), 503, ""),
        (answer("401 X", &[], "authentication_error"), 502, ""),
        (answer("404 X", &[], "not_found_error"), 404, ""),
        (answer("400 X", &[], "invalid_request_error"), 400, ""),
    ] {
        let hosted = Hosted::open("anthropic", [answer]).await;
        let reply = hosted.post(&request()).await;
        assert_eq!(
            (error(&reply).0, reply.header("retry-after")),
            (status, retry_after),
            "{reply:?}"
        );
        hosted.server.stop().await;
    }
}
