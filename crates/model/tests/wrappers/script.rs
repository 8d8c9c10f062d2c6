//! A model with scripted replies.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dirigent_core::message::{FinishReason, Message, ModelFailure, ModelFailureKind, ModelReply, Usage};
use dirigent_core::time::Millis;
use dirigent_model::{ChatModel, ChatRequest, Jitter, RetryPolicy};
use futures::future::{BoxFuture, FutureExt};
use tokio::time::Instant;

pub type Reply = Result<ModelReply, ModelFailure>;

/// A model that gives its replies in order, each after a second, and records the times and contents of requests.
pub struct Scripted {
    replies: Mutex<VecDeque<Reply>>,
    asked: Mutex<Vec<(u128, Option<String>)>>,
    busy: AtomicUsize,
    pub busiest: AtomicUsize,
    pub began: Instant,
}

impl Scripted {
    pub fn new(replies: impl IntoIterator<Item = Reply>) -> Arc<Self> {
        Arc::new(Scripted {
            replies: Mutex::new(replies.into_iter().collect()),
            asked: Mutex::default(),
            busy: AtomicUsize::new(0),
            busiest: AtomicUsize::new(0),
            began: Instant::now(),
        })
    }

    /// The times of the requests, in milliseconds.
    pub fn times(&self) -> Vec<u128> {
        self.asked.lock().unwrap().iter().map(|(at, _)| *at).collect()
    }

    pub fn names(&self) -> Vec<Option<String>> {
        self.asked
            .lock()
            .unwrap()
            .iter()
            .map(|(_, name)| name.clone())
            .collect()
    }
}

#[derive(Clone)]
pub struct Script(pub Arc<Scripted>);

struct Busy(Arc<Scripted>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.busy.fetch_sub(1, Ordering::SeqCst);
    }
}

impl ChatModel for Script {
    fn chat(&self, request: ChatRequest) -> BoxFuture<'static, Reply> {
        let script = self.0.clone();
        async move {
            let busy = Busy(script.clone());
            let now = script.busy.fetch_add(1, Ordering::SeqCst) + 1;
            script.busiest.fetch_max(now, Ordering::SeqCst);
            let at = script.began.elapsed().as_millis();
            script.asked.lock().unwrap().push((at, request.model));
            let reply = script.replies.lock().unwrap().pop_front().expect("a reply");
            tokio::time::sleep(Duration::from_secs(1)).await;
            drop(busy);
            reply
        }
        .boxed()
    }
}

/// A request of a hundred tokens, four of them for the message itself, whose reply is limited to a hundred.
pub fn request() -> ChatRequest {
    let content = "x".repeat(384);
    ChatRequest::new(Arc::new(vec![Message::User { content }])).max_output_tokens(100)
}

pub fn said(finish: FinishReason) -> Reply {
    Ok(ModelReply {
        content: "ok".to_owned(),
        calls: Vec::new(),
        malformed_calls: Vec::new(),
        finish,
        usage: Usage {
            model_calls: 1,
            tool_calls: 0,
            input_tokens: 100,
            output_tokens: 100,
            ..Usage::default()
        },
        model: None,
    })
}

pub fn ok() -> Reply {
    said(FinishReason::Stop)
}

pub fn fails(kind: ModelFailureKind, message: &str) -> Reply {
    Err(ModelFailure {
        kind,
        message: message.to_owned(),
    })
}

pub fn unavailable(retry_after: Option<u64>) -> Reply {
    let retry_after = retry_after.map(Millis::from_secs);
    fails(ModelFailureKind::Unavailable { retry_after }, "busy")
}

pub const POLICY: RetryPolicy = RetryPolicy {
    attempts: 4,
    first_pause: Duration::from_secs(1),
    longest_pause: Duration::from_secs(3),
    total: Duration::from_secs(100),
    jitter: Jitter::None,
};
