//! The requests that are sent, and the options that are left out after a server has refused them.

use std::sync::Arc;

use dirigent_core::call::CallForm;
use dirigent_core::message::{Message, ModelFailureKind, ToolCall};
use dirigent_core::tool::{Access, Repeat, ToolCategory, ToolSpec};
use dirigent_model::openai::{Delivery, OpenAiModel, OpenAiOptions};
use dirigent_model::{ChatModel, ChatRequest, ReplyFormat};
use dirigent_model_server::HttpAnswer;
use serde_json::{Value, json};

use super::server::{model, options, request, serve};

const DONE: &str = r#"{"choices": [{"message": {"content": "ok"}, "finish_reason": "stop"}]}"#;

fn ok() -> HttpAnswer {
    HttpAnswer::json("200 OK", DONE)
}

fn refuses(message: &str) -> HttpAnswer {
    HttpAnswer::json(
        "400 Bad Request",
        json!({"error": {"message": message}}).to_string(),
    )
}

fn tool(name: &str) -> Arc<Vec<ToolSpec>> {
    Arc::new(vec![ToolSpec {
        category: ToolCategory::Other,
        changes_where: None,
        read_only: None,
        name: name.to_owned(),
        description: "Looks.".to_owned(),
        parameters: json!({"type": "object"}),
        repeat: Repeat::Safe,
        access: Access::ReadOnly,
        requires_approval: false,
        approval_where: None,
        rules: Vec::new(),
        example: Value::Null,
    }])
}

fn as_json() -> ReplyFormat {
    ReplyFormat::JsonSchema {
        name: "plan".to_owned(),
        schema: Arc::new(json!({"type": "object"})),
    }
}

/// Proxies are read from the environment when a process starts, so the test runs itself again with a proxy in its environment.
#[tokio::test]
async fn requests_to_a_server_on_this_machine_bypass_the_proxy() {
    const BEHIND_PROXY: &str = "DIRIGENT_TEST_BEHIND_PROXY";
    if std::env::var_os(BEHIND_PROXY).is_some() {
        for host in ["127.0.0.1", "localhost"] {
            let server = serve([ok()]).await;
            let mut options = options(&server, Delivery::Whole);
            options.base_url = options.base_url.replace("127.0.0.1", host);
            OpenAiModel::new(options).unwrap().chat(request()).await.unwrap();
        }
        let elsewhere = OpenAiOptions::new("http://192.0.2.1/v1", "m");
        OpenAiModel::new(elsewhere)
            .unwrap()
            .chat(request())
            .await
            .unwrap();
        return;
    }
    let proxy = serve([ok()]).await;
    let mut again = std::process::Command::new(std::env::current_exe().unwrap());
    again
        .args([
            "--exact",
            "openai::requests::requests_to_a_server_on_this_machine_bypass_the_proxy",
        ])
        .envs(["HTTP_PROXY", "http_proxy"].map(|name| (name, proxy.url(""))))
        .envs([("NO_PROXY", ""), ("no_proxy", ""), (BEHIND_PROXY, "1")]);
    let output = tokio::task::spawn_blocking(move || again.output().unwrap());

    let output = output.await.unwrap();

    let report = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{report}");
    assert!(report.contains("1 passed"), "{report}");
    let got = proxy.requests();
    let asked: Vec<_> = got.iter().filter_map(|got| got.head.lines().next()).collect();
    assert_eq!(asked, ["POST http://192.0.2.1/v1/chat/completions HTTP/1.1"]);
}

#[tokio::test]
async fn a_request_body_contains_only_what_was_requested() {
    let server = serve([ok(), ok()]).await;
    model(&server, Delivery::Streamed).chat(request()).await.unwrap();
    let mut options = options(&server, Delivery::Whole);
    options.extra.insert("temperature".to_owned(), json!(0.5));
    let full = request()
        .model("other".to_owned())
        .call_form(CallForm::Native)
        .tools(tool("look"))
        .format(as_json())
        .max_output_tokens(100);
    OpenAiModel::new(options).unwrap().chat(full).await.unwrap();

    let got = server.requests();
    assert!(got[0].head.starts_with("POST /v1/chat/completions HTTP/1.1\r\n"));
    let messages = json!([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello?"}]);
    assert_eq!(
        got[0].json(),
        json!({"model": "test-model", "messages": messages, "stream": true, "stream_options": {"include_usage": true}})
    );
    assert_eq!(
        got[1].json(),
        json!({
            "model": "other",
            "messages": messages,
            "tools": [{"type": "function", "function": {"name": "look", "description": "Looks.", "parameters": {"type": "object"}}}],
            "response_format": {"type": "json_schema", "json_schema": {"name": "plan", "schema": {"type": "object"}}},
            "max_tokens": 100,
            "temperature": 0.5,
        })
    );
}

/// A conversation with a call of this tool and its result.
fn after_a_call(tool: &str) -> ChatRequest {
    let call = ToolCall {
        id: "c1".to_owned(),
        tool: tool.to_owned(),
        parameters: json!({}),
        terminate: false,
    };
    ChatRequest::new(Arc::new(vec![
        Message::User {
            content: "Go.".to_owned(),
        },
        Message::Assistant {
            content: String::new(),
            calls: vec![call],
        },
        Message::Tool {
            call_id: "c1".to_owned(),
            name: tool.to_owned(),
            content: "{}".to_owned(),
        },
    ]))
}

#[tokio::test]
async fn call_4_a_model_that_calls_in_its_text_is_offered_no_native_tools() {
    let forms = [
        CallForm::Json,
        CallForm::JsonSchema,
        CallForm::ToolCall,
        CallForm::Auto,
    ];
    let server = serve(forms.map(|_| ok())).await;
    let model = model(&server, Delivery::Whole);
    for form in forms {
        let request = after_a_call("look").call_form(form).tools(tool("look"));
        model.chat(request).await.unwrap();
    }
    for got in server.requests() {
        assert_eq!(got.json().get("tools"), None);
        assert_eq!(got.json()["messages"][1].get("tool_calls"), None);
    }
}

#[tokio::test]
async fn call_2_earlier_native_calls_are_sent_even_if_no_tools_are_offered() {
    let server = serve([ok()]).await;
    let request = after_a_call("look").call_form(CallForm::Native);
    model(&server, Delivery::Whole).chat(request).await.unwrap();
    let sent = server.requests()[0].json();
    assert_eq!(sent.get("tools"), None);
    assert_eq!(sent["messages"][1]["tool_calls"][0]["id"], "c1");
    assert_eq!(
        sent["messages"][2],
        json!({"role": "tool", "content": "{}", "tool_call_id": "c1"})
    );
}

#[tokio::test]
async fn call_2_a_tool_name_that_the_api_refuses_is_replaced_only_on_the_wire() {
    let wire = "files_read_feef3122";
    let calls = json!([
        {"index": 0, "id": "c2", "function": {"name": wire, "arguments": "{}"}},
        {"index": 1, "id": "c3", "function": {"name": wire, "arguments": "{"}},
        {"index": 2, "id": "c4", "function": {"name": "other", "arguments": "{}"}},
    ]);
    let reply = json!({"choices": [{"message": {"tool_calls": calls}}]}).to_string();
    let server = serve([HttpAnswer::json("200 OK", reply)]).await;
    let request = after_a_call("files.read")
        .call_form(CallForm::Native)
        .tools(tool("files.read"));
    let reply = model(&server, Delivery::Whole).chat(request).await.unwrap();

    let sent = server.requests()[0].json();
    assert_eq!(sent["tools"][0]["function"]["name"], wire);
    assert_eq!(sent["messages"][1]["tool_calls"][0]["function"]["name"], wire);
    let called: Vec<&str> = reply.calls.iter().map(|call| call.tool.as_str()).collect();
    assert_eq!(called, ["files.read", "other"]);
    assert_eq!(reply.malformed_calls[0].name, "files.read");
}

#[tokio::test]
async fn call_2_two_tools_with_the_same_wire_name_are_refused() {
    let server = serve([]).await;
    let both = ["files.read", "files_read_feef3122"]
        .map(|name| tool(name)[0].clone())
        .to_vec();
    let request = request().call_form(CallForm::Native).tools(Arc::new(both));
    let failure = model(&server, Delivery::Whole).chat(request).await.unwrap_err();
    assert_eq!(failure.kind, ModelFailureKind::Rejected);
    assert!(
        failure
            .message
            .contains("can't tell the tools `files.read` and `files_read_feef3122` apart"),
        "{failure}"
    );
}

#[tokio::test]
async fn call_3_results_become_user_messages_if_the_server_requires_call_ids() {
    let server = serve([refuses("messages[2]: missing tool_call_id"), ok(), ok()]).await;
    let model = model(&server, Delivery::Whole);
    for _ in 0..2 {
        let request = after_a_call("look").call_form(CallForm::ToolCall);
        model.chat(request).await.unwrap();
    }
    let sent: Vec<Value> = server
        .requests()
        .iter()
        .map(|got| got.json()["messages"][2].clone())
        .collect();
    let as_users = json!({"role": "user", "content": "Result of look:\n{}"});
    assert_eq!(
        sent,
        [
            json!({"role": "tool", "name": "look", "content": "{}"}),
            as_users.clone(),
            as_users
        ]
    );
}

#[tokio::test]
async fn a_response_format_that_the_server_refuses_is_requested_only_once() {
    let server = serve([refuses("response_format is not supported"), ok(), ok()]).await;
    let model = model(&server, Delivery::Whole);
    for _ in 0..2 {
        assert_eq!(
            model.chat(request().format(as_json())).await.unwrap().content,
            "ok"
        );
    }
    let asked: Vec<bool> = server
        .requests()
        .iter()
        .map(|got| got.json().get("response_format").is_some())
        .collect();
    assert_eq!(asked, [true, false, false]);
}

#[tokio::test]
async fn a_field_is_not_remembered_as_refused_if_omitting_it_did_not_help() {
    let server = serve([refuses("no response_format"), refuses("no, not at all"), ok()]).await;
    let model = model(&server, Delivery::Whole);
    let failure = model.chat(request().format(as_json())).await.unwrap_err();
    assert_eq!(failure.kind, ModelFailureKind::Rejected);
    model.chat(request().format(as_json())).await.unwrap();
    assert!(server.requests()[2].json().get("response_format").is_some());
}

#[tokio::test]
async fn the_token_limit_is_sent_in_the_field_that_the_server_accepts() {
    let server = serve([
        refuses("use max_completion_tokens"),
        refuses("unknown field stream_options"),
        ok(),
    ])
    .await;
    let model = model(&server, Delivery::Streamed);
    model.chat(request().max_output_tokens(9)).await.unwrap();
    let last = server.requests()[2].json();
    assert_eq!(last.get("max_tokens"), None);
    assert_eq!(last["max_completion_tokens"], 9);
    assert_eq!(last.get("stream_options"), None);
}

#[tokio::test]
async fn a_server_says_which_models_it_offers() {
    let list = r#"{"object": "list", "data": [{"id": "a", "context_length": 8192}, {"id": "b"}]}"#;
    let server = serve([HttpAnswer::json("200 OK", list)]).await;
    let models = model(&server, Delivery::Streamed).models().await.unwrap();
    assert_eq!(models[0].id, "a");
    assert_eq!(models[0].extra["context_length"], 8192);
    assert_eq!(models[1].id, "b");
    assert!(
        server.requests()[0]
            .head
            .starts_with("GET /v1/models HTTP/1.1\r\n")
    );
}

#[tokio::test]
async fn model_names_are_listed_and_invalid_ones_are_left_out() {
    let long = "x".repeat(201);
    let ids = [
        "qwen:0.6b",
        "a\u{1b}[2Jb",
        "a\nb",
        "a\u{202e}b",
        "",
        " ",
        &long,
        "größe/8 B",
    ];
    let entries: Vec<Value> = ids.iter().map(|id| json!({"id": id})).collect();
    let others = [json!({"id": 7}), json!({"name": "c"}), Value::Null];
    let with_others = [entries.as_slice(), &others].concat();
    for list in [
        json!({"data": entries}),
        json!({"models": entries}),
        json!(entries),
        json!({"data": with_others}),
    ] {
        let server = serve([HttpAnswer::json("200 OK", list.to_string())]).await;
        let models = model(&server, Delivery::Streamed).models().await.unwrap();
        let names: Vec<&str> = models.iter().map(|model| model.id.as_str()).collect();
        assert_eq!(names, ["qwen:0.6b", "größe/8 B"], "{list}");
    }
    let server = serve([HttpAnswer::json("200 OK", r#"{"data": null}"#)]).await;
    assert_eq!(model(&server, Delivery::Streamed).models().await, Ok(Vec::new()));
}

#[tokio::test]
async fn models_that_cannot_be_listed_say_what_to_do() {
    let unavailable = ModelFailureKind::Unavailable { retry_after: None };
    for (answer, kind, says) in [
        (
            HttpAnswer::json("200 OK", "{}"),
            ModelFailureKind::Configuration,
            "Check base_url",
        ),
        (
            HttpAnswer::json("200 OK", "<html>"),
            ModelFailureKind::Configuration,
            "Check base_url",
        ),
        (
            HttpAnswer::json("401 Unauthorized", "{}"),
            ModelFailureKind::Configuration,
            "API key",
        ),
        (
            HttpAnswer::json("404 Not Found", ""),
            ModelFailureKind::Configuration,
            "its base_url",
        ),
        (HttpAnswer::json("503 Busy", ""), unavailable, "answered 503"),
    ] {
        let server = serve([answer]).await;
        let failure = model(&server, Delivery::Streamed).models().await.unwrap_err();
        assert_eq!(failure.kind, kind, "{failure}");
        assert!(failure.message.contains(says), "{failure}");
    }
}

#[tokio::test]
async fn host_8_dropping_the_future_drops_the_request() {
    let server = serve([HttpAnswer::silence(), ok()]).await;
    let model = model(&server, Delivery::Whole);
    let waiting = model.chat(request());
    let asked = async {
        while server.requests().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        _ = waiting => panic!("it was answered"),
        () = asked => {}
    }
    assert_eq!(model.chat(request()).await.unwrap().content, "ok");
}
