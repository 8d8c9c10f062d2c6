//! HOST-3: requests with an `Idempotency-Key` have their effect once.

use dirigent_tests::http_client::{Client, Reply};
use dirigent_tests::scripted::{Gate, Scripted, says};
use dirigent_tests::service::TestServer;
use dirigent_tests::stage::Stage;
use serde_json::{Value, json};

async fn post(client: &Client, path: &str, key: &str, body: &Value) -> Reply {
    client
        .send("POST", path, &[("idempotency-key", key)], Some(body))
        .await
}

#[tokio::test]
async fn host_3_a_repeated_request_gets_the_first_answer_and_starts_nothing() {
    let model = Scripted::new().lead([says("One."), says("Two."), says("Three.")]);
    let server = TestServer::start(Stage::new(), model.clone()).await;
    let goal = json!({"goal": "Say one"});
    let first = post(&server.client, "/v1/runs", "k1", &goal).await;
    first.with_status(201);
    let run = first.header("location").to_owned();
    server.until_ended(&run).await;
    let again = post(&server.client, "/v1/runs", "k1", &goal).await;
    assert_eq!((again.status, &again.body), (201, &first.body));
    assert_eq!(again.header("location"), run);
    assert_eq!(again.header("idempotency-replayed"), "true");
    assert_eq!(server.client.get("/v1/runs").await.json()["total"], 1);

    let context = post(&server.client, "/context", "k2", &json!({})).await;
    assert_eq!(
        post(&server.client, "/context", "k2", &json!({})).await.body,
        context.body
    );
    let path = format!("{}/messages", context.header("location"));
    let message = json!({"message": "Say two"});
    let answered = post(&server.client, &path, "k3", &message).await;
    assert_eq!(answered.with_status(200)["answer"], "Two.");
    assert_eq!(
        post(&server.client, &path, "k3", &message).await.body,
        answered.body
    );
    assert_eq!(model.asked().len(), 2);

    // Another body or address under the same key.
    let other = json!({"goal": "Say something else"});
    for (path, body) in [("/v1/runs", &other), ("/v1/workflows/explain/runs", &goal)] {
        let refused = post(&server.client, path, "k1", body).await;
        assert_eq!(refused.problem(), (422, "idempotency_key_reused".to_owned()));
    }
    // The key outlasts a restart.
    let stage = server.stop().await;
    let server = TestServer::start(stage, Scripted::new()).await;
    let again = post(&server.client, "/v1/runs", "k1", &goal).await;
    assert_eq!((again.status, again.body), (201, first.body));
    server.stop().await;
}

#[tokio::test]
async fn host_3_a_key_is_free_again_after_a_request_that_had_no_effect() {
    let server = TestServer::start(Stage::new(), Scripted::new().lead([says("Done.")])).await;
    let empty = post(&server.client, "/v1/runs", "k", &json!({"goal": " "})).await;
    assert_eq!(empty.problem(), (422, "empty_goal".to_owned()));
    let started = post(&server.client, "/v1/runs", "k", &json!({"goal": "Say done"})).await;
    started.with_status(201);
    for key in ["", "with space", &"k".repeat(256)] {
        let refused = post(&server.client, "/v1/runs", key, &json!({"goal": "Say done"})).await;
        assert_eq!(
            refused.problem(),
            (400, "invalid_idempotency_key".to_owned()),
            "{key}"
        );
    }
    server.stop().await;
}

#[tokio::test]
async fn host_3_a_repetition_during_the_request_is_refused() {
    let gate = Gate::shut();
    let model = Scripted::new().lead([says("Done.").behind(&gate)]);
    let server = TestServer::start(Stage::new(), model.clone()).await;
    let context = server.begin_conversation(&json!({})).await;
    let (client, path) = (server.client.clone(), format!("{context}/messages"));
    let message = json!({"message": "Say done"});
    let first = {
        let (client, path, message) = (client.clone(), path.clone(), message.clone());
        tokio::spawn(async move { post(&client, &path, "k", &message).await })
    };
    model.until_asked().await;
    let refused = post(&client, &path, "k", &message).await;
    assert_eq!(refused.problem(), (409, "request_in_progress".to_owned()));
    gate.open();
    let first = first.await.unwrap();
    assert_eq!(first.with_status(200)["answer"], "Done.");
    let again = post(&client, &path, "k", &message).await;
    assert_eq!((again.status, again.body), (200, first.body));
    server.stop().await;
}

#[tokio::test]
async fn host_3_a_repeated_answer_has_the_headers_of_the_first_one() {
    let server = TestServer::start(Stage::new(), Scripted::new()).await;
    let prompt = json!({"name": "bakery", "text": "You are a baker."});
    let first = post(&server.client, "/v1/system-prompts", "k", &prompt).await;
    first.with_status(201);
    assert_eq!(first.header("etag"), "\"1\"");
    let again = post(&server.client, "/v1/system-prompts", "k", &prompt).await;
    assert_eq!((again.status, &again.body), (201, &first.body));
    assert_eq!(again.header("idempotency-replayed"), "true");
    let ignored = ["idempotency-replayed", "date"];
    let headers = |reply: &Reply| {
        let mut headers = reply.headers.clone();
        headers.retain(|(name, _)| !ignored.contains(&name.as_str()));
        headers.sort();
        headers
    };
    assert_eq!(headers(&again), headers(&first));
    // The version can be changed with what the repetition says.
    let changed = server
        .client
        .send(
            "PUT",
            again.header("location"),
            &[("if-match", again.header("etag"))],
            Some(&json!({"text": "You are a good baker."})),
        )
        .await;
    assert_eq!(changed.with_status(200)["version"], 2);
    server.stop().await;
}
