//! Falling back to another model.

use std::sync::Arc;

use dirigent_core::message::{FinishReason, ModelFailureKind};
use dirigent_model::{Alternative, ChatModel, Fallback};

use super::script::{Script, Scripted, fails, ok, request, said, unavailable};

fn falls_back(first: &Arc<Scripted>, second: &Arc<Scripted>) -> Fallback {
    let other = Alternative {
        model: Arc::new(Script(second.clone())),
        name: Some("small".to_owned()),
    };
    Fallback::new(Arc::new(Script(first.clone())), [other])
}

#[tokio::test(start_paused = true)]
async fn host_7_another_model_is_asked_by_its_own_name() {
    for kind in [
        ModelFailureKind::Unavailable { retry_after: None },
        ModelFailureKind::TooLong,
        ModelFailureKind::Configuration,
    ] {
        let (first, second) = (Scripted::new([fails(kind, "no")]), Scripted::new([ok()]));
        let model = falls_back(&first, &second);
        assert_eq!(model.chat(request().model("big".to_owned())).await, ok());
        assert_eq!(first.names(), [Some("big".to_owned())]);
        assert_eq!(second.names(), [Some("small".to_owned())]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_rejected_request_or_interrupted_reply_does_not_fall_back() {
    for result in [
        fails(ModelFailureKind::Rejected, "no"),
        said(FinishReason::Interrupted),
    ] {
        let (first, second) = (Scripted::new([result.clone()]), Scripted::new([]));
        assert_eq!(falls_back(&first, &second).chat(request()).await, result);
    }
}

#[tokio::test(start_paused = true)]
async fn if_all_models_fail_the_messages_of_all_failures_are_returned() {
    let first = Scripted::new([fails(ModelFailureKind::TooLong, "too long")]);
    let second = Scripted::new([unavailable(None)]);
    let result = falls_back(&first, &second).chat(request()).await;
    assert_eq!(result, fails(ModelFailureKind::TooLong, "too long; then busy"));
}
