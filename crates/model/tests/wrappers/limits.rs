//! Observing a provider's rate limits.

use std::num::{NonZeroU32, NonZeroU64};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use dirigent_core::message::{Message, ModelFailureKind};
use dirigent_core::time::Millis;
use dirigent_model::{ChatModel, ChatRequest, Limited, ModelLimits};
use futures::future::{FutureExt, join_all};

use super::script::{Script, Scripted, ok, request, unavailable};

pub const NO_LIMITS: ModelLimits = ModelLimits {
    concurrent: None,
    tokens_per_minute: None,
    pause: Duration::from_secs(1),
    longest_wait: Duration::from_secs(60),
};

#[tokio::test(start_paused = true)]
async fn host_7_no_more_requests_run_in_parallel_than_allowed() {
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

fn per_minute(tokens: u64) -> ModelLimits {
    ModelLimits {
        tokens_per_minute: NonZeroU64::new(tokens),
        ..NO_LIMITS
    }
}

#[tokio::test(start_paused = true)]
async fn host_7_tokens_per_minute_are_limited_from_the_first_minute() {
    // Each request uses 200 tokens: 100 sent, and 100 received a second later.
    let script = Scripted::new((0..5).map(|_| ok()));
    let model = Limited::new(Script(script.clone()), per_minute(400));
    join_all((0..5).map(|_| model.chat(request()))).await;
    // Sent tokens count for a little more than a minute, received tokens until a second later.
    assert_eq!(script.times(), [0, 0, 61_000, 62_000, 123_000]);
}

/// The most tokens that a provider counts in any minute: tokens sent at the start of each request, tokens received at its end.
fn most_in_any_minute(times: &[u128], input: u64, output: u64) -> u64 {
    let sent = times.iter().map(|at| (*at, input));
    let all: Vec<(u128, u64)> = sent.chain(times.iter().map(|at| (*at + 1_000, output))).collect();
    let minute = |begin: u128| {
        let within = all
            .iter()
            .filter(move |(at, _)| (begin..begin + 60_000).contains(at));
        within.map(|(_, tokens)| tokens).sum()
    };
    all.iter().map(|(at, _)| minute(*at)).max().unwrap_or(0)
}

#[tokio::test(start_paused = true)]
async fn host_7_no_minute_has_more_tokens_than_the_limit_for_any_requests() {
    for limit in [200, 250, 500, 999, 1_400, 5_000] {
        let script = Scripted::new((0..60).map(|_| ok()));
        let model = Limited::new(Script(script.clone()), per_minute(limit));
        // The requests are made over five minutes, some at the same time.
        let asks = (0..60_u64).map(|number| {
            let model = model.clone();
            async move {
                tokio::time::sleep(Duration::from_secs(number / 3 * 15)).await;
                model.chat(request()).await
            }
        });
        let replies = join_all(asks).await;
        assert!(replies.iter().all(Result::is_ok));
        let most = most_in_any_minute(&script.times(), 100, 100);
        assert!(most <= limit, "{most} of {limit}");
    }
}

#[tokio::test(start_paused = true)]
async fn host_7_a_request_beyond_a_minutes_tokens_is_sent_alone() {
    let script = Scripted::new((0..4).map(|_| ok()));
    let model = Limited::new(Script(script.clone()), per_minute(150));
    let small = || {
        let content = "x".repeat(40);
        ChatRequest::new(Arc::new(vec![Message::User { content }])).max_output_tokens(10)
    };
    let asks = [request(), small(), request(), small()];
    join_all(asks.map(|asked| model.chat(asked))).await;
    // Larger requests wait until no tokens count any more; the small ones are sent while a reply is outstanding.
    assert_eq!(script.times(), [0, 61_000, 123_000, 184_000]);
}

#[tokio::test(start_paused = true)]
async fn host_7_a_reply_longer_than_expected_delays_the_next_requests() {
    let script = Scripted::new([ok(), ok()]);
    let model = Limited::new(Script(script.clone()), per_minute(250));
    let expected = || request().max_output_tokens(10);
    model.chat(expected()).await.unwrap();
    model.chat(expected()).await.unwrap();
    // The first request used 200 tokens instead of the expected 110: 50 are left.
    assert_eq!(script.times(), [0, 61_000]);
}

#[tokio::test(start_paused = true)]
async fn host_7_an_absurd_token_count_expires_after_a_minute() {
    let mut nonsense = ok();
    if let Ok(reply) = &mut nonsense {
        reply.usage.output_tokens = u64::MAX;
    }
    let script = Scripted::new([nonsense, ok()]);
    let model = Limited::new(Script(script.clone()), per_minute(1_000));
    model.chat(request()).await.unwrap();
    model.chat(request()).await.unwrap();
    assert_eq!(script.times(), [0, 62_000]);
}

#[tokio::test(start_paused = true)]
async fn host_7_a_failed_request_gives_back_the_tokens_of_its_reply() {
    let script = Scripted::new([unavailable(Some(0)), ok(), ok()]);
    let model = Limited::new(Script(script.clone()), per_minute(300));
    model.chat(request()).await.unwrap_err();
    model.chat(request()).await.unwrap();
    model.chat(request()).await.unwrap();
    // The failed request sent 100 tokens, which the provider may have counted.
    assert_eq!(script.times(), [0, 1_000, 62_000]);
}

#[tokio::test(start_paused = true)]
async fn host_7_a_request_that_is_given_up_counts_in_full() {
    let script = Scripted::new([ok(), ok()]);
    let model = Limited::new(Script(script.clone()), per_minute(399));
    let mut given_up = model.chat(request());
    assert!((&mut given_up).now_or_never().is_none());
    drop(given_up);
    model.chat(request()).await.unwrap();
    assert_eq!(script.times(), [0, 61_000]);
}

#[tokio::test(start_paused = true)]
async fn host_7_one_429_pauses_all_requests() {
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
async fn a_failure_without_a_retry_delay_pauses_all_requests_briefly() {
    let script = Scripted::new([unavailable(None), ok()]);
    let model = Limited::new(Script(script.clone()), NO_LIMITS);
    model.chat(request()).await.unwrap_err();
    model.chat(request()).await.unwrap();
    assert_eq!(script.times(), [0, 2_000]);
}

#[tokio::test(start_paused = true)]
async fn in_a_long_pause_other_requests_fail_at_once() {
    let script = Scripted::new([unavailable(Some(3_600))]);
    let model = Limited::new(Script(script.clone()), NO_LIMITS);
    model.chat(request()).await.unwrap_err();
    let failure = model.chat(request()).await.unwrap_err();
    let retry_after = Some(Millis::from_secs(3_600));
    assert_eq!(failure.kind, ModelFailureKind::Unavailable { retry_after });
    assert_eq!(script.began.elapsed().as_secs(), 1);
}

#[tokio::test(start_paused = true)]
async fn host_8_a_dropped_request_frees_its_slot_and_its_place_in_the_queue() {
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
