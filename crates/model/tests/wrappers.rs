//! Models that wrap others: asking again, asking another, and keeping to a provider's limits (HOST-7). Time is paused: it passes
//! only where all wait, and by exactly as much as they wait for.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::VecDeque;
use std::num::{NonZeroU32, NonZeroU64};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dirigent_core::message::{FinishReason, Message, ModelFailure, ModelFailureKind, ModelReply, Usage};
use dirigent_core::time::Millis;
use dirigent_model::{
    Alternative, ChatModel, ChatRequest, CutShort, Fallback, Jitter, Limited, ModelLimits, RetryPolicy,
    Retrying,
};
use futures::future::{BoxFuture, FutureExt, join_all};
use tokio::time::Instant;

type Reply = Result<ModelReply, ModelFailure>;

/// A model that gives its replies in order, each after a second, and notes when it was asked for what.
struct Scripted {
    replies: Mutex<VecDeque<Reply>>,
    asked: Mutex<Vec<(u128, Option<String>)>>,
    busy: AtomicUsize,
    busiest: AtomicUsize,
    began: Instant,
}

impl Scripted {
    fn new(replies: impl IntoIterator<Item = Reply>) -> Arc<Self> {
        Arc::new(Scripted {
            replies: Mutex::new(replies.into_iter().collect()),
            asked: Mutex::default(),
            busy: AtomicUsize::new(0),
            busiest: AtomicUsize::new(0),
            began: Instant::now(),
        })
    }

    /// When it was asked, in milliseconds.
    fn times(&self) -> Vec<u128> {
        self.asked.lock().unwrap().iter().map(|(at, _)| *at).collect()
    }

    fn names(&self) -> Vec<Option<String>> {
        self.asked
            .lock()
            .unwrap()
            .iter()
            .map(|(_, name)| name.clone())
            .collect()
    }
}

struct Script(Arc<Scripted>);

impl Clone for Script {
    fn clone(&self) -> Self {
        Script(self.0.clone())
    }
}

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

fn request() -> ChatRequest {
    let content = "x".repeat(400);
    ChatRequest::new(Arc::new(vec![Message::User { content }])).max_output_tokens(100)
}

fn said(finish: FinishReason) -> Reply {
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

fn ok() -> Reply {
    said(FinishReason::Stop)
}

fn fails(kind: ModelFailureKind, message: &str) -> Reply {
    Err(ModelFailure {
        kind,
        message: message.to_owned(),
    })
}

fn unavailable(retry_after: Option<u64>) -> Reply {
    let retry_after = retry_after.map(Millis::seconds);
    fails(ModelFailureKind::Unavailable { retry_after }, "busy")
}

const POLICY: RetryPolicy = RetryPolicy {
    attempts: 4,
    first_pause: Duration::from_secs(1),
    longest_pause: Duration::from_secs(3),
    total: Duration::from_secs(100),
    jitter: Jitter::None,
    cut_short: CutShort::Return,
};

#[tokio::test(start_paused = true)]
async fn host_7_pauses_grow_and_end() {
    let script = Scripted::new([
        unavailable(None),
        unavailable(None),
        unavailable(None),
        unavailable(None),
    ]);
    let failure = Retrying::new(Script(script.clone()), POLICY)
        .chat(request())
        .await
        .unwrap_err();
    // Each answer takes a second; the pauses are 1, 2 and 3 seconds.
    assert_eq!(script.times(), [0, 2_000, 5_000, 9_000]);
    assert_eq!(failure.message, "busy (asked 4 times)");
}

#[tokio::test(start_paused = true)]
async fn host_7_a_model_is_left_alone_as_long_as_it_asks_for() {
    let script = Scripted::new([unavailable(Some(20)), unavailable(Some(0)), ok()]);
    let reply = Retrying::new(Script(script.clone()), POLICY)
        .chat(request())
        .await;
    assert_eq!(reply, ok());
    assert_eq!(script.times(), [0, 21_000, 24_000]);
}

#[tokio::test(start_paused = true)]
async fn a_wait_beyond_the_total_is_not_begun() {
    let script = Scripted::new([unavailable(Some(100))]);
    let result = Retrying::new(Script(script.clone()), POLICY)
        .chat(request())
        .await;
    assert_eq!(result, unavailable(Some(100)));
    assert_eq!(script.began.elapsed().as_secs(), 1);
}

#[tokio::test(start_paused = true)]
async fn random_pauses_are_at_most_twice_as_long() {
    let policy = RetryPolicy {
        jitter: Jitter::Random,
        ..POLICY
    };
    let script = Scripted::new([unavailable(None), ok()]);
    Retrying::new(Script(script.clone()), policy)
        .chat(request())
        .await
        .unwrap();
    assert!(
        (2_000..=3_000).contains(&script.times()[1]),
        "{:?}",
        script.times()
    );
}

#[tokio::test(start_paused = true)]
async fn what_asking_again_does_not_mend_is_returned() {
    for result in [
        fails(ModelFailureKind::Configuration, "x"),
        fails(ModelFailureKind::Rejected, "x"),
        fails(ModelFailureKind::TooLong, "x"),
        fails(ModelFailureKind::Panicked, "x"),
        said(FinishReason::Length),
        said(FinishReason::Interrupted),
    ] {
        let script = Scripted::new([result.clone()]);
        assert_eq!(
            Retrying::new(Script(script), POLICY).chat(request()).await,
            result
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_broke_off_is_asked_for_again_if_so_set() {
    let policy = RetryPolicy {
        cut_short: CutShort::AskAgain,
        ..POLICY
    };
    let script = Scripted::new([said(FinishReason::Interrupted), ok()]);
    assert_eq!(Retrying::new(Script(script), policy).chat(request()).await, ok());
}

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
async fn a_request_at_fault_is_not_taken_to_another_model() {
    for result in [
        fails(ModelFailureKind::Rejected, "no"),
        said(FinishReason::Interrupted),
    ] {
        let (first, second) = (Scripted::new([result.clone()]), Scripted::new([]));
        assert_eq!(falls_back(&first, &second).chat(request()).await, result);
    }
}

#[tokio::test(start_paused = true)]
async fn when_all_fail_each_is_heard() {
    let first = Scripted::new([fails(ModelFailureKind::TooLong, "too long")]);
    let second = Scripted::new([unavailable(None)]);
    let result = falls_back(&first, &second).chat(request()).await;
    assert_eq!(result, fails(ModelFailureKind::TooLong, "too long; then busy"));
}

const NO_LIMITS: ModelLimits = ModelLimits {
    concurrent: None,
    tokens_per_minute: None,
    pause: Duration::from_secs(1),
    longest_wait: Duration::from_secs(60),
};

#[tokio::test(start_paused = true)]
async fn host_7_no_more_requests_side_by_side_than_allowed() {
    let script = Scripted::new((0..9).map(|_| ok()));
    let limits = ModelLimits {
        concurrent: NonZeroU32::new(3),
        ..NO_LIMITS
    };
    let model = Limited::new(Script(script.clone()), limits);
    join_all((0..9).map(|_| model.clone().chat(request()))).await;
    assert_eq!(script.busiest.load(Ordering::SeqCst), 3);
    assert_eq!(
        script.times(),
        [0, 0, 0, 1_000, 1_000, 1_000, 2_000, 2_000, 2_000]
    );
}

#[tokio::test(start_paused = true)]
async fn host_7_each_name_has_its_own_limits() {
    let script = Scripted::new([ok(), ok()]);
    let limits = ModelLimits {
        concurrent: NonZeroU32::new(1),
        ..NO_LIMITS
    };
    let model = Limited::new(Script(script.clone()), limits);
    join_all(["a", "b"].map(|name| model.chat(request().model(name.to_owned())))).await;
    assert_eq!(script.times(), [0, 0]);
}

#[tokio::test(start_paused = true)]
async fn host_7_tokens_come_back_over_a_minute() {
    // Each request has 200 tokens: 100 asked, 100 answered. 400 a minute are 200 in 30 seconds.
    let script = Scripted::new((0..4).map(|_| ok()));
    let limits = ModelLimits {
        tokens_per_minute: NonZeroU64::new(400),
        ..NO_LIMITS
    };
    let model = Limited::new(Script(script.clone()), limits);
    join_all((0..4).map(|_| model.chat(request()))).await;
    let times = script.times();
    assert_eq!(times[..2], [0, 0]);
    assert!((30_000..30_010).contains(&times[2]), "{times:?}");
    assert!((60_000..60_020).contains(&times[3]), "{times:?}");
}

#[tokio::test(start_paused = true)]
async fn a_request_beyond_a_minutes_tokens_waits_for_all_of_them_and_goes() {
    let script = Scripted::new([ok(), ok()]);
    let limits = ModelLimits {
        tokens_per_minute: NonZeroU64::new(50),
        ..NO_LIMITS
    };
    let model = Limited::new(Script(script.clone()), limits);
    model.chat(request()).await.unwrap();
    model.chat(request()).await.unwrap();
    // The first used 200 of 50: the debt is a minute's worth, so that two minutes fill the bucket.
    let second = script.times()[1];
    assert!((121_000..121_010).contains(&second), "{second}");
}

#[tokio::test(start_paused = true)]
async fn tokens_that_a_failed_request_did_not_use_are_given_back() {
    let script = Scripted::new([unavailable(Some(0)), ok()]);
    let limits = ModelLimits {
        tokens_per_minute: NonZeroU64::new(200),
        ..NO_LIMITS
    };
    let model = Limited::new(Script(script.clone()), limits);
    model.chat(request()).await.unwrap_err();
    model.chat(request()).await.unwrap();
    assert_eq!(script.times(), [0, 1_000]);
}

#[tokio::test(start_paused = true)]
async fn host_7_one_429_holds_all_back() {
    let script = Scripted::new([unavailable(Some(10)), ok(), ok()]);
    let limits = ModelLimits {
        concurrent: NonZeroU32::new(1),
        ..NO_LIMITS
    };
    let model = Limited::new(Script(script.clone()), limits);
    join_all((0..3).map(|_| model.chat(request()))).await;
    assert_eq!(script.times(), [0, 11_000, 12_000]);
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_names_no_time_makes_all_wait_a_moment() {
    let script = Scripted::new([unavailable(None), ok()]);
    let model = Limited::new(Script(script.clone()), NO_LIMITS);
    model.chat(request()).await.unwrap_err();
    model.chat(request()).await.unwrap();
    assert_eq!(script.times(), [0, 2_000]);
}

#[tokio::test(start_paused = true)]
async fn in_a_long_pause_others_are_told_at_once() {
    let script = Scripted::new([unavailable(Some(3_600))]);
    let model = Limited::new(Script(script.clone()), NO_LIMITS);
    model.chat(request()).await.unwrap_err();
    let failure = model.chat(request()).await.unwrap_err();
    let retry_after = Some(Millis::seconds(3_600));
    assert_eq!(failure.kind, ModelFailureKind::Unavailable { retry_after });
    assert_eq!(script.began.elapsed().as_secs(), 1);
}

#[tokio::test(start_paused = true)]
async fn host_8_who_leaves_gives_back_its_place_and_its_turn() {
    let script = Scripted::new([ok(), ok()]);
    let limits = ModelLimits {
        concurrent: NonZeroU32::new(1),
        ..NO_LIMITS
    };
    let model = Limited::new(Script(script.clone()), limits);
    let mut under_way = model.chat(request());
    let mut next = model.chat(request());
    assert!((&mut under_way).now_or_never().is_none());
    assert!((&mut next).now_or_never().is_none());
    drop(next);
    drop(under_way);
    model.chat(request()).await.unwrap();
    assert_eq!(script.times(), [0, 0]);
}

#[tokio::test(start_paused = true)]
async fn host_7_a_storm_of_agents_is_calmed_and_all_are_answered() {
    let replies = (0..20).map(|number| if number < 4 { unavailable(Some(5)) } else { ok() });
    let script = Scripted::new(replies);
    let limits = ModelLimits {
        concurrent: NonZeroU32::new(4),
        ..NO_LIMITS
    };
    let model = Retrying::new(Limited::new(Script(script.clone()), limits), POLICY);
    let results = join_all((0..16).map(|_| model.chat(request()))).await;
    assert!(results.iter().all(Result::is_ok));
    // Nobody asked in the five seconds after the first answers, and four at a time from then on.
    let times = script.times();
    assert_eq!(times[..4], [0, 0, 0, 0]);
    assert_eq!(times[4..8], [6_000, 6_000, 6_000, 6_000]);
    assert_eq!(script.busiest.load(Ordering::SeqCst), 4);
}
