//! Keeping to a provider's limits.

use std::num::{NonZeroU32, NonZeroU64};
use std::sync::atomic::Ordering;
use std::time::Duration;

use dirigent_core::message::ModelFailureKind;
use dirigent_core::time::Millis;
use dirigent_model::{ChatModel, Limited, ModelLimits};
use futures::future::{FutureExt, join_all};

use crate::script::{Script, Scripted, ok, request, unavailable};

pub const NO_LIMITS: ModelLimits = ModelLimits {
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
