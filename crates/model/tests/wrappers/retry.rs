//! Retries.

use std::num::NonZeroU32;

use dirigent_core::message::{FinishReason, ModelFailureKind};
use dirigent_model::{ChatModel, Jitter, Limited, ModelLimits, RetryPolicy, Retrying};
use futures::future::join_all;

use super::limits::NO_LIMITS;
use super::script::{POLICY, Script, Scripted, fails, ok, request, said, unavailable};

#[tokio::test(start_paused = true)]
async fn host_7_retry_pauses_grow_until_the_attempts_are_used_up() {
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
    assert_eq!(failure.message, "busy (after 4 attempts)");
}

#[tokio::test(start_paused = true)]
async fn host_7_a_retry_waits_at_least_as_long_as_the_model_asks() {
    let script = Scripted::new([unavailable(Some(20)), unavailable(Some(0)), ok()]);
    let reply = Retrying::new(Script(script.clone()), POLICY)
        .chat(request())
        .await;
    assert_eq!(reply, ok());
    assert_eq!(script.times(), [0, 21_000, 24_000]);
}

#[tokio::test(start_paused = true)]
async fn a_request_is_not_retried_if_the_pause_would_exceed_the_total_pause_limit() {
    let script = Scripted::new([unavailable(Some(101))]);
    let result = Retrying::new(Script(script.clone()), POLICY)
        .chat(request())
        .await;
    assert_eq!(result, unavailable(Some(101)));
    assert_eq!(script.began.elapsed().as_secs(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_random_pause_is_at_most_twice_the_base_pause() {
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
async fn failures_and_replies_that_a_retry_cannot_improve_are_returned() {
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
async fn host_7_waiting_in_the_queue_does_not_count_towards_the_total_of_retry_pauses() {
    // One request at a time, a second each: the last one waits longer for its turn than all retry pauses together may take.
    let replies = (0..150).map(|_| ok()).chain([unavailable(None), ok()]);
    let script = Scripted::new(replies);
    let limits = ModelLimits {
        concurrent: NonZeroU32::new(1),
        ..NO_LIMITS
    };
    let model = Retrying::new(Limited::new(Script(script.clone()), limits), POLICY);
    let replies = join_all((0..151).map(|_| model.chat(request()))).await;
    assert!(replies.iter().all(Result::is_ok), "{:?}", replies.last());
    assert_eq!(script.times().last(), Some(&152_000));
}

#[tokio::test(start_paused = true)]
async fn all_pauses_together_stay_within_the_total_pause_limit() {
    let script = Scripted::new([
        unavailable(Some(60)),
        unavailable(Some(30)),
        unavailable(Some(11)),
    ]);
    let result = Retrying::new(Script(script.clone()), POLICY)
        .chat(request())
        .await;
    assert_eq!(result.unwrap_err().message, "busy (after 3 attempts)");
    assert_eq!(script.times(), [0, 61_000, 92_000]);
}
