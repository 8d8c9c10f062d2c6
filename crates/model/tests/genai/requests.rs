//! The requests that are sent: the whole body, and the key, which is only in its header.

use std::sync::Arc;

use dirigent_core::call::CallForm;
use dirigent_core::message::{Message, ToolCall};
use dirigent_core::tool::{Access, Repeat, ToolCategory, ToolSpec};
use dirigent_model::genai::{HostedApi, HostedModel, HostedOptions};
use dirigent_model::{ChatModel, ChatRequest, ReplyFormat};
use dirigent_model_server::{HttpAnswer, HttpRequest};
use serde_json::{Value, json};

use super::server::{anthropic_stream, gemini_stream, model, options, request, serve, system, user};

fn tool(name: &str) -> ToolSpec {
    ToolSpec {
        category: ToolCategory::Other,
        changes_where: None,
        read_only: None,
        name: name.to_owned(),
        description: format!("Does {name}."),
        parameters: json!({"type": "object", "properties": {"path": {"type": "string"}}}),
        repeat: Repeat::Safe,
        access: Access::ReadOnly,
        requires_approval: false,
        approval_where: None,
        rules: Vec::new(),
        example: Value::Null,
    }
}

/// A request with two native tools.
pub fn with_tools(messages: Vec<Message>) -> ChatRequest {
    ChatRequest::new(Arc::new(messages))
        .call_form(CallForm::Native)
        .tools(Arc::new(vec![tool("list"), tool("look")]))
}

fn assistant(content: &str, calls: &[(&str, &str, Value)]) -> Message {
    let call = |(id, tool, parameters): &(&str, &str, Value)| ToolCall {
        id: (*id).to_owned(),
        tool: (*tool).to_owned(),
        parameters: parameters.clone(),
        terminate: false,
    };
    Message::Assistant {
        content: content.to_owned(),
        calls: calls.iter().map(call).collect(),
    }
}

fn result(id: &str, name: &str) -> Message {
    Message::Tool {
        call_id: id.to_owned(),
        name: name.to_owned(),
        content: format!(r#"{{"success":true,"output":"{id}"}}"#),
    }
}

/// Two turns: two calls, their results and guidance, then a reply with an unreadable call and the message about it.
fn conversation() -> Vec<Message> {
    vec![
        system("Be brief."),
        user("Look at \"a\"."),
        assistant(
            "I look.",
            &[
                ("toolu_1", "look", json!({"path": "a"})),
                ("call-2", "list", json!({})),
            ],
        ),
        result("toolu_1", "look"),
        result("call-2", "list"),
        user("Hurry."),
        assistant("", &[]),
        user("Your call can't be read."),
        assistant("", &[("call#gemini#7", "look", json!({"path": "b"}))]),
        result("call#gemini#7", "look"),
    ]
}

fn done(provider: HostedApi) -> HttpAnswer {
    match provider {
        HostedApi::Anthropic => anthropic_stream(&[
            json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}),
            json!({"type": "message_stop"}),
        ]),
        HostedApi::Gemini => gemini_stream(&[json!({"candidates": [{"finishReason": "STOP"}]})]),
    }
}

async fn sent(provider: HostedApi, request: ChatRequest) -> Arc<HttpRequest> {
    let server = serve([done(provider)]).await;
    model(&server, provider).chat(request).await.unwrap();
    server.requests().remove(0)
}

async fn body(provider: HostedApi, request: ChatRequest) -> Value {
    sent(provider, request).await.json()
}

fn cached() -> Value {
    json!({"type": "ephemeral"})
}

#[tokio::test]
async fn the_key_is_in_its_header_and_nowhere_else() {
    let anthropic = sent(HostedApi::Anthropic, request()).await;
    assert!(
        anthropic.head.starts_with("POST /v1/messages HTTP/1.1\r\n"),
        "{}",
        anthropic.head
    );
    assert!(
        anthropic.head.contains("x-api-key: the-whole-secret-key\r\n"),
        "{}",
        anthropic.head
    );
    assert!(
        anthropic.head.contains("anthropic-version: 2023-06-01\r\n"),
        "{}",
        anthropic.head
    );
    let gemini = sent(HostedApi::Gemini, request()).await;
    let line = "POST /v1/models/test-model:streamGenerateContent?alt=sse HTTP/1.1\r\n";
    assert!(gemini.head.starts_with(line), "{}", gemini.head);
    assert!(
        gemini.head.contains("x-goog-api-key: the-whole-secret-key\r\n"),
        "{}",
        gemini.head
    );
    for got in [anthropic, gemini] {
        assert!(got.head.contains("user-agent: dirigent/"), "{}", got.head);
        assert_eq!(
            got.head.matches("the-whole-secret-key").count(),
            1,
            "{}",
            got.head
        );
        assert!(!String::from_utf8_lossy(&got.body).contains("the-whole-secret-key"));
    }
}

#[tokio::test]
async fn without_a_key_the_environment_is_not_read() {
    for provider in [HostedApi::Anthropic, HostedApi::Gemini] {
        let server = serve([done(provider)]).await;
        let mut options = options(&server, provider);
        options.api_key = None;
        HostedModel::new(options).unwrap().chat(request()).await.unwrap();
        let head = &server.requests()[0].head;
        assert!(head.contains("api-key: \r\n"), "{head}");
    }
}

#[tokio::test]
async fn a_base_url_may_end_with_a_slash_a_query_or_neither() {
    let server = serve((0..3).map(|_| done(HostedApi::Anthropic))).await;
    for end in ["", "/", "/?key=x#y"] {
        let options = options(&server, HostedApi::Anthropic);
        let base_url = format!("{}{end}", options.base_url);
        let model = HostedModel::new(HostedOptions { base_url, ..options }).unwrap();
        model.chat(request()).await.unwrap();
    }
    for got in server.requests() {
        assert!(
            got.head.starts_with("POST /v1/messages HTTP/1.1\r\n"),
            "{}",
            got.head
        );
    }
}

#[tokio::test]
async fn call_2_anthropic_receives_native_calls_with_their_results() {
    let conversation = with_tools(conversation())
        .model("claude-test".to_owned())
        .max_output_tokens(100);
    let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}});
    assert_eq!(
        body(HostedApi::Anthropic, conversation).await,
        json!({
            "model": "claude-test",
            "stream": true,
            "max_tokens": 100,
            "system": [{"type": "text", "text": "Be brief.", "cache_control": cached()}],
            "tools": [
                {"name": "list", "description": "Does list.", "input_schema": schema},
                {"name": "look", "description": "Does look.", "input_schema": schema},
            ],
            "messages": [
                {"role": "user", "content": "Look at \"a\"."},
                {"role": "assistant", "content": [
                    {"type": "text", "text": "I look."},
                    {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"path": "a"}},
                    {"type": "tool_use", "id": "call-2", "name": "list", "input": {}},
                ]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "toolu_1", "content": "{\"success\":true,\"output\":\"toolu_1\"}"},
                    {"type": "tool_result", "tool_use_id": "call-2", "content": "{\"success\":true,\"output\":\"call-2\"}"},
                    {"type": "text", "text": "Hurry."},
                ]},
                {"role": "assistant", "content": "(no text)"},
                {"role": "user", "content": "Your call can't be read."},
                {"role": "assistant", "content": [
                    {"type": "tool_use", "id": "call_gemini_7", "name": "look", "input": {"path": "b"}, "cache_control": cached()},
                ]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "call_gemini_7",
                     "content": "{\"success\":true,\"output\":\"call#gemini#7\"}", "cache_control": cached()},
                ]},
            ],
        })
    );
}

#[tokio::test]
async fn call_2_gemini_receives_native_calls_with_their_results() {
    let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}});
    let answer = |id: &str| format!(r#"{{"success":true,"output":"{id}"}}"#);
    assert_eq!(
        body(HostedApi::Gemini, with_tools(conversation())).await,
        json!({
            "systemInstruction": {"parts": [{"text": "Be brief."}]},
            "tools": [{"functionDeclarations": [
                {"name": "list", "description": "Does list.", "parametersJsonSchema": schema},
                {"name": "look", "description": "Does look.", "parametersJsonSchema": schema},
            ]}],
            "contents": [
                {"role": "user", "parts": [{"text": "Look at \"a\"."}]},
                {"role": "model", "parts": [
                    {"text": "I look."},
                    {"functionCall": {"id": "toolu_1", "name": "look", "args": {"path": "a"}}},
                    {"functionCall": {"id": "call-2", "name": "list", "args": {}}},
                ]},
                {"role": "user", "parts": [
                    {"functionResponse": {"id": "toolu_1", "name": "look", "response": {"name": "look", "content": answer("toolu_1")}}},
                    {"functionResponse": {"id": "call-2", "name": "list", "response": {"name": "list", "content": answer("call-2")}}},
                    {"text": "Hurry."},
                ]},
                {"role": "model", "parts": [{"text": "(no text)"}]},
                {"role": "user", "parts": [{"text": "Your call can't be read."}]},
                {"role": "model", "parts": [{"functionCall": {"name": "look", "args": {"path": "b"}}}]},
                {"role": "user", "parts": [
                    {"functionResponse": {"name": "look", "response": {"name": "look", "content": answer("call#gemini#7")}}},
                ]},
            ],
        })
    );
}

#[tokio::test]
async fn call_4_calls_in_the_text_stay_text_and_roles_alternate() {
    let results = "Result of look:\n{\"success\":true,\"output\":\"toolu_1\"}\n\n\
                   Result of list:\n{\"success\":true,\"output\":\"call-2\"}\n\nHurry.";
    let last = "Result of look:\n{\"success\":true,\"output\":\"call#gemini#7\"}";
    let native_without_tools = ChatRequest::new(Arc::new(conversation())).call_form(CallForm::Native);
    let mut requests = vec![native_without_tools];
    for form in [
        CallForm::Json,
        CallForm::JsonSchema,
        CallForm::ToolCall,
        CallForm::Auto,
    ] {
        requests.push(with_tools(conversation()).call_form(form));
    }
    for request in requests {
        assert_eq!(
            body(HostedApi::Anthropic, request.clone()).await,
            json!({
                "model": "test-model",
                "stream": true,
                "max_tokens": 16384,
                "system": [{"type": "text", "text": "Be brief.", "cache_control": cached()}],
                "messages": [
                    {"role": "user", "content": "Look at \"a\"."},
                    {"role": "assistant", "content": "I look."},
                    {"role": "user", "content": results},
                    {"role": "assistant", "content": "(no text)"},
                    {"role": "user", "content": "Your call can't be read."},
                    {"role": "assistant", "content": [{"type": "text", "text": "(no text)", "cache_control": cached()}]},
                    {"role": "user", "content": [{"type": "text", "text": last, "cache_control": cached()}]},
                ],
            })
        );
        assert_eq!(
            body(HostedApi::Gemini, request).await,
            json!({
                "systemInstruction": {"parts": [{"text": "Be brief."}]},
                "contents": [
                    {"role": "user", "parts": [{"text": "Look at \"a\"."}]},
                    {"role": "model", "parts": [{"text": "I look."}]},
                    {"role": "user", "parts": [{"text": results}]},
                    {"role": "model", "parts": [{"text": "(no text)"}]},
                    {"role": "user", "parts": [{"text": "Your call can't be read."}]},
                    {"role": "model", "parts": [{"text": "(no text)"}]},
                    {"role": "user", "parts": [{"text": last}]},
                ],
            })
        );
    }
}

#[tokio::test]
async fn a_request_reuses_the_prompt_cache_of_the_previous_turn() {
    let first = with_tools(conversation()[..3].to_vec());
    let second = with_tools(conversation()[..6].to_vec());
    let [first, second] = [
        body(HostedApi::Anthropic, first).await,
        body(HostedApi::Anthropic, second).await,
    ];
    assert_eq!(first["tools"], second["tools"]);
    assert_eq!(first["system"], second["system"]);
    let last = &first["messages"][1]["content"][2];
    assert_eq!(last["cache_control"], cached());
    assert_eq!(second["messages"][1]["content"][2], *last);
    assert_eq!(second["messages"][2]["content"][2]["cache_control"], cached());

    let without_system = body(HostedApi::Anthropic, with_tools(vec![user("Hello?")])).await;
    assert_eq!(without_system["tools"][0].get("cache_control"), None);
    assert_eq!(without_system["tools"][1]["cache_control"], cached());
}

#[tokio::test]
async fn thinking_is_turned_off_if_it_would_have_to_be_sent_back() {
    let native = with_tools(vec![user("Hello?")]).model("claude-sonnet-5".to_owned());
    assert_eq!(
        body(HostedApi::Anthropic, native.clone()).await["thinking"],
        json!({"type": "disabled"})
    );
    let in_text = body(HostedApi::Anthropic, native.call_form(CallForm::Json)).await;
    assert_eq!(in_text.get("thinking"), None);
}

#[tokio::test]
async fn tools_named_like_the_providers_own_tools_are_offered() {
    for (provider, name, hidden) in [
        (HostedApi::Anthropic, "web_search", "_web_search"),
        (HostedApi::Gemini, "googleSearch", "_googleSearch"),
        (HostedApi::Anthropic, "files.read", "files_read_feef3122"),
        (HostedApi::Gemini, "files.read", "files_read_feef3122"),
    ] {
        let answer = match provider {
            HostedApi::Anthropic => anthropic_stream(&[
                json!({"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "x", "name": hidden}}),
                json!({"type": "content_block_stop", "index": 0}),
                json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}}),
                json!({"type": "message_stop"}),
            ]),
            HostedApi::Gemini => gemini_stream(&[json!({"candidates": [
                {"content": {"parts": [{"functionCall": {"id": "x", "name": hidden}}]}, "finishReason": "STOP"},
            ]})]),
        };
        let server = serve([answer]).await;
        let said = vec![
            user("Search."),
            assistant("", &[("y", name, json!({}))]),
            result("y", name),
        ];
        let request = ChatRequest::new(Arc::new(said))
            .call_form(CallForm::Native)
            .tools(Arc::new(vec![tool(name)]));
        let reply = model(&server, provider).chat(request).await.unwrap();
        assert_eq!(reply.calls[0].tool, name);
        let body = server.requests().remove(0).json();
        let (offered, called) = match provider {
            HostedApi::Anthropic => ("/tools/0/name", "/messages/1/content/0/name"),
            HostedApi::Gemini => (
                "/tools/0/functionDeclarations/0/name",
                "/contents/1/parts/0/functionCall/name",
            ),
        };
        assert_eq!(body.pointer(offered), Some(&json!(hidden)));
        assert_eq!(body.pointer(called), Some(&json!(hidden)));
    }
}

#[tokio::test]
async fn gemini_receives_the_reply_schema_unless_tools_are_offered() {
    let format = ReplyFormat::JsonSchema {
        name: "plan".to_owned(),
        schema: Arc::new(json!({"type": "object"})),
    };
    let full = request().format(format.clone()).max_output_tokens(50);
    assert_eq!(
        body(HostedApi::Gemini, full.clone()).await["generationConfig"],
        json!({
            "responseMimeType": "application/json", "responseJsonSchema": {"type": "object"}, "maxOutputTokens": 50,
        })
    );
    let native = with_tools(vec![user("Hello?")]).format(format);
    assert_eq!(
        body(HostedApi::Gemini, native).await.get("generationConfig"),
        None
    );
    assert_eq!(body(HostedApi::Anthropic, full).await.get("output_config"), None);
}
