//! Which model of a configuration is asked, and by which name.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use dirigent_core::message::{ModelFailure, ModelReply};
use dirigent_core::spec::ModelProfile;
use dirigent_model::{ChatModel, ChatRequest, ModelEntry, Models};
use futures::future::{BoxFuture, FutureExt};

/// A model that says who it is and by which name it was asked.
struct Named(&'static str);

impl ChatModel for Named {
    fn chat(&self, request: ChatRequest) -> BoxFuture<'static, Result<ModelReply, ModelFailure>> {
        let asked = request.model.unwrap_or_else(|| "its default".to_owned());
        let said = format!("{} as {asked}", self.0);
        async move { Ok(ModelReply::text(said)) }.boxed()
    }
}

/// A model of which a context window is known.
fn entry(provider: &'static str, name: Option<&str>, context_window: u64) -> ModelEntry {
    ModelEntry {
        model: Arc::new(Named(provider)),
        name: name.map(str::to_owned),
        profile: ModelProfile {
            context_window: Some(context_window),
            ..ModelProfile::default()
        },
    }
}

fn models() -> Models {
    Models::new(entry("provider", Some("provider/large-2"), 3))
        .with("small", entry("local", Some("qwen:0.6b"), 1))
        .with("plain", entry("other", None, 2))
        .with("large", entry("provider", Some("provider/large-1"), 4))
        .with("large", entry("provider", Some("provider/large-3"), 5))
}

async fn asked(name: Option<&str>) -> String {
    let request = ChatRequest::new(Arc::default()).model(name.map(str::to_owned));
    models().chat(request).await.unwrap().content
}

#[tokio::test]
async fn a_name_says_who_is_asked_and_by_which_name_of_the_providers() {
    assert_eq!(asked(None).await, "provider as provider/large-2");
    assert_eq!(asked(Some("small")).await, "local as qwen:0.6b");
    assert_eq!(asked(Some("plain")).await, "other as its default");
    assert_eq!(asked(Some("large")).await, "provider as provider/large-3");
}

#[tokio::test]
async fn a_name_that_is_not_configured_is_the_default_providers() {
    assert_eq!(asked(Some("provider/tiny")).await, "provider as provider/tiny");
    // A provider's name is none of the configuration's.
    assert_eq!(asked(Some("qwen:0.6b")).await, "provider as qwen:0.6b");
}

#[test]
fn a_profile_is_that_of_the_model_that_answers() {
    let window = |name| models().profile(name).context_window;
    assert_eq!(window(None), Some(3));
    assert_eq!(window(Some("small")), Some(1));
    assert_eq!(window(Some("plain")), Some(2));
    assert_eq!(window(Some("large")), Some(5));
    assert_eq!(window(Some("provider/tiny")), Some(3));
}
