//! Many simultaneous requests to a provider that asks clients to wait (HOST-7): all are answered, with no more attempts than necessary.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use dirigent_core::message::ModelFailureKind;
use dirigent_model::{ChatModel, ChatRequest, DeltaSink, Limited, ModelLimits, Retrying};
use futures::FutureExt;
use futures::future::{BoxFuture, join_all};

use super::limits::NO_LIMITS;
use super::script::{POLICY, Reply, Script, Scripted, fails, ok, request, unavailable};

/// Makes a hundred requests at once; each answer takes a second.
async fn storm(replies: impl IntoIterator<Item = Reply>, concurrent: Option<u32>) -> Arc<Scripted> {
    let script = Scripted::new(replies);
    let limits = ModelLimits {
        concurrent: concurrent.and_then(NonZeroU32::new),
        ..NO_LIMITS
    };
    let model = Retrying::new(Limited::new(Script(script.clone()), limits), POLICY);
    let results = join_all((0..100).map(|_| model.chat(request()))).await;
    assert!(results.iter().all(Result::is_ok));
    script
}

/// The number of requests at each time, in milliseconds.
fn made(script: &Scripted) -> Vec<(u128, usize)> {
    let times = script.times();
    let same = times.chunk_by(|one, next| one == next);
    same.map(|at| (at[0], at.len())).collect()
}

#[tokio::test(start_paused = true)]
async fn host_7_one_429_costs_one_request_and_fails_no_agent() {
    let replies = [unavailable(Some(1))].into_iter().chain((0..100).map(|_| ok()));
    let script = storm(replies, Some(8)).await;
    let made = made(&script);
    // Eight requests were outstanding. After the pause of a second, one is sent alone, and then eight at a time.
    assert_eq!(made[..4], [(0, 8), (2_000, 1), (3_000, 8), (4_000, 8)]);
    assert_eq!(made.iter().map(|(_, requests)| requests).sum::<usize>(), 101);
    assert_eq!(script.busiest.load(Ordering::SeqCst), 8);
}

#[tokio::test(start_paused = true)]
async fn host_7_after_a_pause_one_probe_is_sent_and_the_rest_follow_its_answer() {
    let replies = (0..100)
        .map(|_| unavailable(Some(1)))
        .chain((0..100).map(|_| ok()));
    let script = storm(replies, None).await;
    assert_eq!(made(&script), [(0, 100), (2_000, 1), (3_000, 99)]);
}

#[tokio::test(start_paused = true)]
async fn host_7_a_failed_probe_pauses_all_requests_again() {
    let failing = (0..100)
        .map(|_| unavailable(Some(1)))
        .chain([unavailable(Some(5))]);
    let script = storm(failing.chain((0..100).map(|_| ok())), None).await;
    assert_eq!(made(&script), [(0, 100), (2_000, 1), (8_000, 1), (9_000, 99)]);
}

/// A model in a pause of ten seconds.
async fn paused(replies: impl IntoIterator<Item = Reply>) -> (Arc<Scripted>, Limited<Script>) {
    let script = Scripted::new([unavailable(Some(10))].into_iter().chain(replies));
    let model = Limited::new(Script(script.clone()), NO_LIMITS);
    model.chat(request()).await.unwrap_err();
    (script, model)
}

#[tokio::test(start_paused = true)]
async fn a_probe_with_an_invalid_request_also_admits_the_other_requests() {
    let (script, model) = paused([fails(ModelFailureKind::Rejected, "odd"), ok(), ok()]).await;
    join_all((0..3).map(|_| model.chat(request()))).await;
    assert_eq!(script.times(), [0, 11_000, 12_000, 12_000]);
}

#[tokio::test(start_paused = true)]
async fn host_8_if_a_probe_is_dropped_the_next_request_becomes_the_probe() {
    let (script, model) = paused([ok(), ok(), ok()]).await;
    let given_up = tokio::time::timeout(Duration::from_millis(10_500), model.chat(request()));
    let rest = join_all((0..2).map(|_| model.chat(request())));
    let (given_up, _) = tokio::join!(given_up, rest);
    given_up.unwrap_err();
    assert_eq!(script.times(), [0, 11_000, 11_500, 12_500]);
}

/// A model whose replies begin immediately and end after an hour.
#[derive(Clone)]
struct Slow(Script);

impl ChatModel for Slow {
    fn chat(&self, request: ChatRequest) -> BoxFuture<'static, Reply> {
        let deltas = request.deltas.clone();
        let reply = self.0.chat(request);
        async move {
            let reply = reply.await?;
            if let Some(deltas) = deltas {
                deltas.send("o");
            }
            tokio::time::sleep(Duration::from_secs(3_600)).await;
            Ok(reply)
        }
        .boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn the_beginning_of_a_streamed_reply_ends_the_probe() {
    let script = Scripted::new([unavailable(Some(10)), ok(), ok(), ok()]);
    let model = Limited::new(Slow(Script(script.clone())), NO_LIMITS);
    model.chat(request()).await.unwrap_err();
    let told = Arc::new(std::sync::Mutex::new(String::new()));
    let tellers = (0..3).map(|_| {
        let told = told.clone();
        DeltaSink::new(move |text| told.lock().unwrap().push_str(text))
    });
    join_all(tellers.map(|deltas| model.chat(request().deltas(deltas)))).await;
    assert_eq!(script.times(), [0, 11_000, 12_000, 12_000]);
    assert_eq!(*told.lock().unwrap(), "ooo");
}

/// A model that sends nothing for an hour.
#[derive(Clone)]
struct Silent(Script);

impl ChatModel for Silent {
    fn chat(&self, request: ChatRequest) -> BoxFuture<'static, Reply> {
        let reply = self.0.chat(request);
        async move {
            let reply = reply.await?;
            tokio::time::sleep(Duration::from_secs(3_600)).await;
            Ok(reply)
        }
        .boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_probe_delays_other_requests_at_most_by_the_longest_wait() {
    let script = Scripted::new([unavailable(Some(10)), ok(), ok(), ok()]);
    let model = Limited::new(Silent(Script(script.clone())), NO_LIMITS);
    model.chat(request()).await.unwrap_err();
    join_all((0..3).map(|_| model.chat(request()))).await;
    assert_eq!(script.times(), [0, 11_000, 71_000, 71_000]);
}
