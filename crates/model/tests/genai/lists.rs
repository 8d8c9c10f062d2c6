//! The list of models that a provider offers.

use dirigent_core::message::ModelFailureKind;
use dirigent_model::genai::HostedApi;
use dirigent_model_server::HttpAnswer;
use serde_json::json;

use super::server::{model, serve};

#[tokio::test]
async fn the_models_for_conversations_are_listed() {
    let anthropic = json!({
        "data": [
            {"type": "model", "id": "claude-b", "display_name": "B"},
            {"type": "model", "id": "claude-a\nclaude"},
            {"type": "model", "id": "with the-whole-secret-key"},
        ],
        "has_more": false,
    });
    let gemini = json!({"models": [
        {"name": "models/gemini-a", "supportedGenerationMethods": ["generateContent", "countTokens"]},
        {"name": "models/embedding-a", "supportedGenerationMethods": ["embedContent"]},
        {"name": "gemini-b"},
        {"name": "gemini\u{202e}c"},
        {"name": "models/with the-whole-secret-key"},
    ]});
    for (provider, list, line, key, names) in [
        (
            HostedApi::Anthropic,
            anthropic,
            "GET /v1/models?limit=1000 HTTP/1.1\r\n",
            "x-api-key: the-whole-secret-key\r\n",
            &["claude-b", "with [secret]"][..],
        ),
        (
            HostedApi::Gemini,
            gemini,
            "GET /v1/models?pageSize=1000 HTTP/1.1\r\n",
            "x-goog-api-key: the-whole-secret-key\r\n",
            &["gemini-a", "gemini-b", "with [secret]"],
        ),
    ] {
        let server = serve([HttpAnswer::json("200 OK", list.to_string())]).await;
        assert_eq!(model(&server, provider).models().await.unwrap(), names);
        let head = &server.requests()[0].head;
        assert!(head.starts_with(line), "{head}");
        assert!(head.contains(key), "{head}");
        assert_eq!(head.matches("the-whole-secret-key").count(), 1, "{head}");
    }
}

#[tokio::test]
async fn the_error_for_an_unavailable_list_of_models_says_why() {
    for (answer, kind, said) in [
        (
            HttpAnswer::json(
                "401 Unauthorized",
                r#"{"error": {"message": "bad key the-whole-secret-key"}}"#,
            ),
            ModelFailureKind::Configuration,
            "it answered 401: bad key [secret]. Check the model's API key",
        ),
        (
            HttpAnswer::new("200 OK", &[], "<html>the-whole-secret-key</html>"),
            ModelFailureKind::Configuration,
            "its list of models can't be read: <html>[secret]</html>. Check base_url",
        ),
        (
            HttpAnswer::new("429 Slow", &[], ""),
            ModelFailureKind::Unavailable { retry_after: None },
            "it answered 429: (empty)",
        ),
    ] {
        let server = serve([answer]).await;
        let failure = model(&server, HostedApi::Gemini).models().await.unwrap_err();
        assert_eq!(failure.kind, kind);
        assert!(failure.message.ends_with(said), "{failure}");
    }
}
