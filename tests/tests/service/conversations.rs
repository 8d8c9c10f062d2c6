//! PROMPT-3, INTENT-1, APPROVE-2: conversations over HTTP.

use dirigent::{OfflineModel, Policy, Rule, Ruling};
use dirigent_tests::http_client::{Client, ServerEvent};
use dirigent_tests::scripted::{Gate, Scripted, call, calls, plan, says};
use dirigent_tests::service::TestServer;
use dirigent_tests::stage::Stage;
use serde_json::{Value, json};

async fn message(client: &Client, context: &str, text: &str) -> Value {
    let sent = client
        .post(&format!("{context}/messages"), &json!({"message": text}))
        .await;
    sent.with_status(200)
}

#[tokio::test]
async fn prompt_3_a_message_is_answered_with_the_final_text_and_the_conversation_goes_on() {
    let model = Scripted::new().lead([
        call(
            "file_operations",
            json!({"operation": "read", "path": "notes.txt"}),
        ),
        says("It has two lines."),
        says("The first one says: first."),
    ]);
    let stage = Stage::new().file("notes.txt", "first\nsecond\n");
    let server = TestServer::start(stage, model.clone()).await;
    let context = server.begin_conversation(&json!({})).await;
    let first = message(&server.client, &context, "How many lines has notes.txt?").await;
    assert_eq!(
        (&first["state"], &first["answer"]),
        (&json!("answered"), &json!("It has two lines."))
    );
    let second = message(&server.client, &context, "And what does the first one say?").await;
    assert_eq!(second["answer"], "The first one says: first.");
    let asked = model.lead_asked();
    assert!(
        asked[2]
            .messages
            .iter()
            .any(|message| message.content() == "It has two lines.")
    );

    let shown = server
        .client
        .get(&format!("{context}?turns=1"))
        .await
        .with_status(200);
    assert_eq!(shown["turns"], 2);
    assert_eq!(shown["title"], "How many lines has notes.txt?");
    assert_eq!(
        shown["messages"][0]["message"],
        "And what does the first one say?"
    );
    assert_eq!(shown["usage"]["model_calls"], 3);
    let run = server
        .client
        .get(&format!("/v1/runs/{}", first["run"].as_str().unwrap()))
        .await
        .json();
    assert_eq!(
        (&run["turn"], &run["conversation"]),
        (&json!(1), &shown["conversation"])
    );
    server.stop().await;
}

#[tokio::test]
async fn prompt_3_a_client_that_accepts_events_gets_those_of_the_turn() {
    let model = Scripted::new().lead([says("Hello.")]);
    let server = TestServer::start(Stage::new(), model).await;
    let context = server.begin_conversation(&json!({})).await;
    let body = json!({"message": "Hello?"});
    let mut stream = server
        .client
        .stream("POST", &format!("{context}/messages"), &[], Some(&body))
        .await;
    let content_type = stream
        .headers
        .iter()
        .find(|(name, _)| name == "content-type")
        .unwrap();
    assert_eq!(content_type.1, "text/event-stream");
    let events = stream.rest().await;
    assert_eq!(
        (events[0].id.as_str(), &events[0].data["event"]),
        ("1.1.1", &json!("run_started"))
    );
    let finished = &events[events.len() - 2];
    assert_eq!(finished.data["summary"], "Hello.");

    // The same events are there afterwards, and go on where a client lost them.
    let path = format!("{context}/events");
    let again = server
        .client
        .stream("GET", &format!("{path}?turn=1"), &[], None)
        .await
        .rest()
        .await;
    assert_eq!(again.len(), events.len());
    let headers = [("last-event-id", events[2].id.as_str())];
    let rest = server
        .client
        .stream("GET", &path, &headers, None)
        .await
        .rest()
        .await;
    assert_eq!(rest[..], events[3..]);
    let run = finished.data["run"].as_str().unwrap();
    server.until_ended(&format!("/v1/runs/{run}")).await;
    let headers = [("last-event-id", finished.id.as_str())];
    assert_eq!(
        server.client.stream("GET", &path, &headers, None).await.status,
        204
    );
    assert_eq!(
        server.client.get(&format!("{path}?turn=2")).await.problem(),
        (404, "unknown_turn".to_owned())
    );
    server.stop().await;
}

#[tokio::test]
async fn prompt_3_a_streaming_client_sees_the_reply_while_it_is_written() {
    use dirigent_model_server::{Gate, ModelServer, Script, Turn};
    let list = json!({"tool": "file_operations", "parameters": {"operation": "list", "path": "."}, "terminate": false});
    let first = Gate::new();
    let script = Script::turns([
        Turn::text(list.to_string()).wait_before_headers(&first),
        Turn::text("Hello, how are you?"),
    ]);
    let models = ModelServer::start(script).await.unwrap();
    let options = dirigent::model::OpenAiOptions::new(models.url(), "scripted");
    let model = dirigent::model::OpenAiModel::new(options).unwrap();
    let server = TestServer::start(Stage::new(), model).await;
    let context = server.begin_conversation(&json!({})).await;
    let body = json!({"message": "Hello?"});
    let mut stream = server
        .client
        .stream("POST", &format!("{context}/messages"), &[], Some(&body))
        .await;
    // Previews come from the next request on.
    first.open();
    let events = stream.rest().await;
    let of_second = |event: &&ServerEvent| event.data["turn"] == 2;
    let pieces = events
        .iter()
        .filter(of_second)
        .filter(|event| event.name == "delta");
    let text: String = pieces.map(|event| event.data["text"].as_str().unwrap()).collect();
    assert_eq!(text, "Hello, how are you?");
    let replied = events
        .iter()
        .filter(of_second)
        .find(|event| event.data["event"] == "model_replied");
    assert_eq!(replied.unwrap().data["content"], text);
    server.stop().await;
}

/// A plan that writes a file, and waits for approval in the mode `plan`.
fn planning_model() -> Scripted {
    let write = json!({"operation": "write", "path": "a.txt", "content": "one\n"});
    Scripted::new()
        .lead([
            plan("Write a file.", [calls("write", [("file_operations", write)])]),
            says("You are welcome."),
        ])
        .reflector([dirigent_tests::scripted::achieved("Written.")])
}

#[tokio::test]
async fn approve_2_a_turn_that_needs_the_user_says_what_it_needs_and_goes_on_with_the_decision() {
    let server = TestServer::start(Stage::new(), planning_model()).await;
    let context = server.begin_conversation(&json!({"mode": "plan"})).await;
    let stopped = message(&server.client, &context, "Write a.txt").await;
    assert_eq!(stopped["state"], "needs_user");
    let approval = &stopped["approvals"][0];
    assert_eq!(approval["tool"], "submit_plan");
    let waiting = server
        .client
        .get(&format!("{context}/approvals"))
        .await
        .with_status(200);
    assert_eq!(waiting["approvals"][0]["digest"], approval["digest"]);
    let path = format!("{context}/approvals/{}", approval["effect"].as_str().unwrap());
    let decision = json!({"digest": approval["digest"], "answer": "approve"});
    let answered = server.client.post(&path, &decision).await.with_status(200);
    assert_eq!(
        (&answered["state"], &answered["answer"]),
        (&json!("answered"), &json!("Written."))
    );
    assert_eq!(server.stage.read("a.txt"), "one\n");
    let thanks = message(&server.client, &context, "Thanks").await;
    assert_eq!(thanks["answer"], "You are welcome.");
    server.stop().await;
}

#[tokio::test]
async fn intent_1_words_decide_about_the_only_call_that_waits() {
    let server = TestServer::start(Stage::new(), planning_model()).await;
    let context = server.begin_conversation(&json!({"mode": "plan"})).await;
    assert_eq!(
        message(&server.client, &context, "Write a.txt").await["state"],
        "needs_user"
    );
    let unclear = message(&server.client, &context, "yes, but wait").await;
    assert_eq!(unclear["state"], "needs_user", "{unclear}");
    assert!(!server.stage.workspace().join("a.txt").exists());
    let answered = message(&server.client, &context, "yes, go ahead").await;
    assert_eq!(answered["state"], "answered", "{answered}");
    assert_eq!(server.stage.read("a.txt"), "one\n");
    server.stop().await;
}

#[tokio::test]
async fn approve_2_a_streaming_client_decides_while_the_turn_runs() {
    let server = TestServer::start(Stage::new(), planning_model()).await;
    let context = server.begin_conversation(&json!({"mode": "plan"})).await;
    let body = json!({"message": "Write a.txt"});
    let mut stream = server
        .client
        .stream("POST", &format!("{context}/messages"), &[], Some(&body))
        .await;
    let asked = stream.wait_for_run_event("approval_asked").await;
    let approval = &asked.data["approval"];
    let path = format!("{context}/approvals/{}", approval["effect"].as_str().unwrap());
    let decision = json!({"digest": approval["digest"], "answer": "approve"});
    let accepted = server.client.post(&path, &decision).await.with_status(200);
    assert_eq!(accepted["state"], "accepted");
    let finished = stream.wait_for_run_event("run_finished").await;
    assert_eq!(finished.data["summary"], "Written.");
    server.stop().await;
}

#[tokio::test]
async fn host_8_a_turn_is_cancelled_and_the_conversation_stays() {
    let model = Scripted::new().lead([says("Never said.").behind(&Gate::shut()), says("Still here.")]);
    let server = TestServer::start(Stage::new(), model).await;
    let context = server.begin_conversation(&json!({})).await;
    let early = server.client.post_nothing(&format!("{context}/cancel")).await;
    assert_eq!(early.problem(), (409, "no_turn".to_owned()));
    let body = json!({"message": "Think"});
    let mut stream = server
        .client
        .stream("POST", &format!("{context}/messages"), &[], Some(&body))
        .await;
    stream.wait_for_run_event("agent_started").await;
    server
        .client
        .post_nothing(&format!("{context}/cancel"))
        .await
        .with_status(200);
    let finished = stream.wait_for_run_event("run_finished").await;
    assert_eq!(finished.data["reason"], "cancelled");
    assert_eq!(
        message(&server.client, &context, "Are you there?").await["answer"],
        "Still here."
    );
    server.stop().await;
}

#[tokio::test]
async fn host_2_a_client_that_goes_away_does_not_end_its_turn() {
    let gate = Gate::shut();
    let model = Scripted::new().lead([says("Done.").behind(&gate)]);
    let server = TestServer::start(Stage::new(), model.clone()).await;
    let context = server.begin_conversation(&json!({})).await;
    let (client, path) = (server.client.clone(), format!("{context}/messages"));
    let sending = tokio::spawn(async move { client.post(&path, &json!({"message": "Say done"})).await });
    model.until_asked().await;
    sending.abort();
    let _ = sending.await;
    let events = format!("{context}/events");
    let mut stream = server.client.stream("GET", &events, &[], None).await;
    stream.wait_for_run_event("agent_started").await;
    gate.open();
    let finished = stream.wait_for_run_event("run_finished").await;
    assert_eq!(finished.data["summary"], "Done.");
    server.stop().await;
}

#[tokio::test]
async fn prompt_3_a_conversation_is_created_and_changed_as_a_whole_or_not_at_all() {
    let server = TestServer::start(Stage::new(), Scripted::new()).await;
    for refused in [json!({"title": " "}), json!({"system_prompt": "none"})] {
        assert_eq!(server.client.post("/context", &refused).await.problem().0, 422);
    }
    assert_eq!(
        server.client.get("/context").await.json()["conversations"],
        json!([])
    );
    let context = server.begin_conversation(&json!({"title": "The parser"})).await;
    for refused in [
        json!({"title": "\u{200b}", "mode": "plan"}),
        json!({"title": "The lexer", "system_prompt": "none"}),
    ] {
        let reply = server.client.send("PATCH", &context, &[], Some(&refused)).await;
        assert_eq!(reply.problem().0, 422);
    }
    let kept = server.client.get(&context).await.json();
    assert_eq!(
        (&kept["title"], &kept["settings"]),
        (&json!("The parser"), &json!({"mode": "auto"}))
    );
    // Concurrent changes of different fields are all kept.
    let changes = [
        json!({"title": "The lexer"}),
        json!({"mode": "plan"}),
        json!({"model": "fast"}),
        json!({"max_tokens": 1000}),
        json!({"max_cost": 5}),
    ];
    let mut changing = tokio::task::JoinSet::new();
    for change in changes {
        let (client, context) = (server.client.clone(), context.clone());
        changing.spawn(async move { client.send("PATCH", &context, &[], Some(&change)).await });
    }
    for reply in changing.join_all().await {
        reply.with_status(200);
    }
    let changed = server.client.get(&context).await.json();
    assert_eq!(changed["title"], "The lexer");
    assert_eq!(
        changed["settings"],
        json!({"mode": "plan", "model": "fast", "max_tokens": 1000, "max_cost": 5})
    );
    // The unit is that of every cost; a text is in US dollars.
    let dollars = json!({"max_cost": "0.50"});
    server
        .client
        .send("PATCH", &context, &[], Some(&dollars))
        .await
        .with_status(200);
    let changed = server.client.get(&context).await.json();
    assert_eq!(changed["settings"]["max_cost"], 500_000_000);
    for wrong in [json!(2.5), json!(0), json!("-1")] {
        let body = json!({"max_cost": wrong});
        let refused = server.client.send("PATCH", &context, &[], Some(&body)).await;
        assert_eq!(refused.problem(), (422, "invalid_value".to_owned()), "{body}");
        assert!(refused.body.contains("nano-dollars"), "{refused:?}");
    }
    server.stop().await;
}

#[tokio::test]
async fn prompt_3_conversations_are_listed_changed_and_deleted() {
    let model = Scripted::new().lead([says("Hello.")]);
    let server = TestServer::start(Stage::new(), model.clone()).await;
    let one = server
        .begin_conversation(&json!({"title": "The parser", "max_tokens": 1000}))
        .await;
    server.begin_conversation(&json!({"title": "The printer"})).await;
    let listed = server.client.get("/context?q=parser").await.with_status(200);
    assert_eq!(listed["conversations"].as_array().unwrap().len(), 1);
    assert_eq!(listed["conversations"][0]["settings"]["max_tokens"], 1000);

    let changes = json!({"title": "The lexer", "model": "fast", "mode": "plan", "max_tokens": null});
    let changed = server
        .client
        .send("PATCH", &one, &[], Some(&changes))
        .await
        .with_status(200);
    assert_eq!(changed["title"], "The lexer");
    assert_eq!(changed["settings"], json!({"mode": "plan", "model": "fast"}));
    let kept = server
        .client
        .send("PATCH", &one, &[], Some(&json!({"mode": "auto"})))
        .await
        .with_status(200);
    assert_eq!(kept["settings"], json!({"mode": "auto", "model": "fast"}));
    message(&server.client, &one, "Hello?").await;
    assert_eq!(model.asked()[0].model.as_deref(), Some("fast"));

    let wrong = json!({"system_prompt": "none"});
    let refused = server.client.send("PATCH", &one, &[], Some(&wrong)).await;
    assert_eq!(refused.problem(), (422, "unknown_system_prompt".to_owned()));
    assert_eq!(
        server.client.post("/context", &wrong).await.problem().1,
        "unknown_system_prompt"
    );
    let empty = server
        .client
        .send("PATCH", &one, &[], Some(&json!({"title": " "})))
        .await;
    assert_eq!(empty.problem(), (422, "empty_title".to_owned()));

    server.client.delete(&one).await.with_status(204);
    assert_eq!(
        server.client.get(&one).await.problem(),
        (404, "unknown_conversation".to_owned())
    );
    assert_eq!(server.client.delete("/context/nothing").await.status, 404);
    server.stop().await;
}

#[tokio::test]
async fn intent_1_facts_are_kept_and_recalled_without_a_model() {
    let server = TestServer::start(Stage::new(), OfflineModel).await;
    let context = server.begin_conversation(&json!({})).await;
    message(
        &server.client,
        &context,
        "remember that my favourite colour is teal",
    )
    .await;
    let recalled = message(&server.client, &context, "what is my favourite colour?").await;
    assert!(
        recalled["answer"].as_str().unwrap().contains("teal"),
        "{recalled}"
    );
    server.stop().await;
}

#[tokio::test]
async fn approve_2_a_rule_that_a_decision_of_a_conversation_saves_is_in_the_answer() {
    let write = |path: &str| json!({"operation": "write", "path": path, "content": "one\n"});
    let model = Scripted::new()
        .lead([
            call("file_operations", write("a.txt")),
            call("file_operations", write("b.txt")),
            call("file_operations", write("c.txt")),
            says("Written."),
        ])
        .reflector([dirigent_tests::scripted::achieved("Written.")]);
    let rule = Rule {
        ruling: Ruling::Ask,
        calls: "file_operations".parse().unwrap(),
    };
    let stage = Stage::new();
    let dirigent = stage.builder(model).policy(Policy { rules: vec![rule] });
    let dirigent = dirigent.build().await.unwrap();
    let server = TestServer::serve(stage, dirigent, |options| options).await;
    let context = server.begin_conversation(&json!({})).await;
    let always = |shown: &Value| {
        let approval = &shown["approvals"][0];
        let calls = &approval["suggestions"][0];
        let path = format!("{context}/approvals/{}", approval["effect"].as_str().unwrap());
        let body = json!({"digest": approval["digest"], "answer": "always", "calls": calls, "within": "conversation"});
        (path, body)
    };
    // A turn that had stopped goes on, and stops again.
    let stopped = message(&server.client, &context, "Write the files").await;
    assert_eq!(stopped["state"], "needs_user", "{stopped}");
    let (path, body) = always(&stopped);
    let stopped = server.client.post(&path, &body).await.with_status(200);
    assert_eq!(stopped["state"], "needs_user", "{stopped}");
    assert_eq!(stopped["rule"]["calls"], body["calls"], "{stopped}");
    assert_eq!(stopped["rule"]["scope"], "conversation");
    // A client that streams gets the rule first, and decides while the turn runs.
    let (path, body) = always(&stopped);
    let mut stream = server.client.stream("POST", &path, &[], Some(&body)).await;
    let first = stream.next().await.unwrap();
    assert_eq!(
        (first.name.as_str(), &first.data["calls"]),
        ("rule", &body["calls"])
    );
    stream.wait_for_run_event("approval_asked").await;
    let shown = server
        .client
        .get(&format!("{context}/approvals"))
        .await
        .with_status(200);
    let (path, body) = always(&shown);
    let accepted = server.client.post(&path, &body).await.with_status(200);
    assert_eq!(
        (&accepted["state"], &accepted["rule"]["calls"]),
        (&json!("accepted"), &body["calls"])
    );
    stream.wait_for_run_event("run_finished").await;
    let rules = server.client.get("/v1/approval-rules").await.with_status(200);
    assert_eq!(rules["rules"].as_array().unwrap().len(), 3);
    server.stop().await;
}
