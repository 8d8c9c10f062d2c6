//! Cancelled requests, shared rate limits, and the end of the service.

use dirigent_model_server::{Fault, Gate, RetryAfter, Script, Turn};
use serde_json::json;

use super::{COMPLETIONS, Door, error, says, with};

#[tokio::test]
async fn host_8_a_client_that_goes_away_cancels_the_request_to_the_model() {
    let (before, within) = (Gate::new(), Gate::new());
    let (head, body) = (before.clone(), within.clone());
    let script = Script::from_fn(move |request| match request.last_user_message().as_str() {
        "before" => Turn::text("Never.").wait_before_headers(&head),
        _ => Turn::text("A reply of several events.").wait_in_body(&body),
    });
    let door = Door::open(script).await;
    let client = door.server.client.clone();
    let waiting = tokio::spawn(async move { client.post(COMPLETIONS, &says("before")).await });
    door.upstream.wait_for_requests(1).await;
    waiting.abort();
    door.upstream.wait_for_hang_ups(1).await;

    let mut source = door.stream(&with(says("within"), json!({"stream": true}))).await;
    source.next().await.unwrap();
    drop(source);
    door.upstream.wait_for_hang_ups(2).await;
    door.close().await;
}

#[tokio::test]
async fn host_7_a_stream_has_its_place_among_the_models_requests_until_it_ends() {
    let gate = Gate::new();
    let held = gate.clone();
    let script = Script::from_fn(move |request| match request.last_user_message().as_str() {
        "slow" => Turn::text("A reply of several events.").wait_in_body(&held),
        _ => Turn::text("Fast."),
    });
    let door = Door::with_settings(script, "attempts = 1\nconcurrent = 1").await;
    let mut slow = door.stream(&with(says("slow"), json!({"stream": true}))).await;
    slow.next().await.unwrap();
    let client = door.server.client.clone();
    let waiting = tokio::spawn(async move { client.post(COMPLETIONS, &says("fast")).await });
    // Another model is asked meanwhile.
    let other = with(says("hi"), json!({"model": "offline"}));
    door.post(&other).await.with_status(200);
    assert_eq!(door.upstream.requests().len(), 1);
    gate.open();
    assert_eq!(slow.rest().await.pop().unwrap().data, "[DONE]");
    waiting.await.unwrap().with_status(200);
    assert_eq!(door.upstream.requests().len(), 2);
    door.close().await;
}

#[tokio::test]
async fn host_7_a_model_that_is_busy_slows_all_and_clients_are_told_when_to_come_back() {
    let busy = Fault::RateLimited {
        retry_after: Some(RetryAfter::Seconds(300)),
    };
    let door = Door::open(Script::from_fn(move |_| busy.clone().into())).await;
    for _ in 0..3 {
        let reply = door.post(&says("hi")).await;
        let (status, error) = error(&reply);
        assert_eq!((status, &error["code"]), (429, &json!("rate_limit_exceeded")));
        let seconds: u64 = reply.header("retry-after").parse().unwrap();
        assert!((200..=300).contains(&seconds), "{seconds}");
    }
    // The later requests were refused without asking the server.
    assert_eq!(door.upstream.requests().len(), 1);
    door.close().await;
}

#[tokio::test]
async fn host_8_a_server_that_stops_tells_its_streams() {
    let gate = Gate::new();
    let turn = Turn::text("A reply of several events.").wait_in_body(&gate);
    let mut door = Door::open(Script::turns([turn])).await;
    let mut source = door.stream(&with(says("hi"), json!({"stream": true}))).await;
    source.next().await.unwrap();
    door.server.begin_to_stop();
    let last = source.rest().await.pop().unwrap();
    assert_eq!(last.data["error"]["code"], "shutting_down");
    door.upstream.wait_for_hang_ups(1).await;
    door.server.stopped().await;
}
