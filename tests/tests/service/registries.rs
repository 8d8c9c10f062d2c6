//! What runs work with: the memory, agents, MCP services and approval rules.

use dirigent::OfflineModel;
use dirigent_tests::scripted::{Scripted, achieved, calls, plan, says};
use dirigent_tests::service::TestServer;
use dirigent_tests::stage::Stage;
use serde_json::{Value, json};

#[tokio::test]
async fn intent_1_facts_are_added_found_and_deleted() {
    let server = TestServer::start(Stage::new(), OfflineModel).await;
    let client = &server.client;
    let blue = json!({"text": "The staging server is called blue"});
    let added = client.post("/v1/memory", &blue).await;
    let fact = added.with_status(201);
    assert_eq!((&fact["scope"], &fact["text"]), (&json!("user"), &blue["text"]));
    let address = added.header("location").to_owned();
    assert_eq!(client.post("/v1/memory", &blue).await.with_status(200), fact);
    let folder = server.stage.workspace().canonicalize().unwrap();
    let local = json!({"text": "Tests run with make check", "workspace": folder});
    client.post("/v1/memory", &local).await.with_status(201);

    let count = async |query: &str| {
        let listed = client.get(&format!("/v1/memory{query}")).await.with_status(200);
        listed["facts"].as_array().unwrap().len()
    };
    assert_eq!(count("").await, 2);
    assert_eq!(count("?q=staging").await, 1);
    assert_eq!(count("?workspace=/nowhere").await, 1);
    assert_eq!(count(&format!("?workspace={}", folder.display())).await, 2);

    let secret = json!({"text": "The key is sk-proj-4f9aK2mQ7xV1bN8cR3tY6wZ0pL5sD2hJ"});
    assert_eq!(
        client.post("/v1/memory", &secret).await.problem(),
        (422, "memory_refused".to_owned())
    );
    assert_eq!(client.get(&address).await.with_status(200), fact);
    assert_eq!(client.delete(&address).await.with_status(200), fact);
    assert_eq!(
        client.delete(&address).await.problem(),
        (404, "unknown_fact".to_owned())
    );
    assert_eq!(
        client.get("/v1/memory/x").await.problem(),
        (404, "unknown_address".to_owned())
    );
    server.stop().await;
}

#[tokio::test]
async fn paor_5_agents_are_listed_with_their_limits() {
    let server = TestServer::start(Stage::new(), OfflineModel).await;
    let listed = server.client.get("/v1/agents").await.with_status(200);
    let explore = listed["agents"]
        .as_array()
        .unwrap()
        .iter()
        .find(|agent| agent["name"] == "explore")
        .unwrap();
    assert!(explore["limits"]["max_turns"].as_u64().unwrap() > 0);
    assert!(listed["lead"]["max_turns"].as_u64().unwrap() > 0);
    let shown = server.client.get("/v1/agents/explore").await.with_status(200);
    assert_eq!(&shown, explore);
    assert_eq!(
        server.client.get("/v1/agents/nobody").await.problem(),
        (404, "unknown_agent".to_owned())
    );
    server.stop().await;
}

#[tokio::test]
async fn mcp_1_services_have_states_and_logs() {
    let server = TestServer::start(Stage::new(), OfflineModel).await;
    let script = dirigent_tests::cli::root().join("crates/mcp/tests/server.py");
    let settings = json!({"mcpServers": {
        "good": {"command": "python3", "args": [script]},
        "bad": {"command": "python3", "args": ["-c", "import sys; sys.exit('no disk')"]},
    }});
    server
        .dirigent
        .import_services(&settings.to_string(), &dirigent_tests::cli::root())
        .await
        .unwrap();
    let listed = server.client.get("/v1/mcp/services").await.with_status(200);
    let services = listed["services"].as_array().unwrap();
    assert_eq!(services.len(), 2);
    assert!(services.iter().all(|service| service["tools"].is_number()));
    let logs = server
        .client
        .get("/v1/mcp/services/bad/logs")
        .await
        .with_status(200);
    assert_eq!(logs["state"], "error");
    assert!(logs["stderr"].to_string().contains("no disk"), "{logs}");
    let failed = server.client.post_nothing("/v1/mcp/services/bad/start").await;
    assert_eq!(failed.problem(), (502, "service_failed".to_owned()));

    let started = server.client.post_nothing("/v1/mcp/services/good/start").await;
    assert_eq!(started.with_status(200)["state"], "running");
    let stopped = server.client.post_nothing("/v1/mcp/services/good/stop").await;
    assert_eq!(stopped.with_status(200)["state"], "stopped");
    let shown = server.client.get("/v1/mcp/services/good").await.with_status(200);
    assert!(!shown["tools"].as_array().unwrap().is_empty());
    assert_eq!(
        server.client.get("/v1/mcp/services/none").await.problem(),
        (404, "unknown_service".to_owned())
    );
    server.stop().await;
}

#[tokio::test]
async fn host_3_usage_is_added_up_by_day_model_and_agent() {
    let model = Scripted::new().lead([says("One."), says("Two.")]);
    let server = TestServer::start(Stage::new(), model).await;
    for goal in ["Say one", "Say two"] {
        let run = server.start_run(&json!({"goal": goal})).await;
        server.until_ended(&run).await;
    }
    let usage = async |query: &str| {
        server
            .client
            .get(&format!("/v1/usage{query}"))
            .await
            .with_status(200)
    };
    let by_day = usage("").await;
    assert_eq!(
        (&by_day["runs"], &by_day["total"]["requests"]),
        (&json!(2), &json!(2))
    );
    let days = by_day["rows"].as_array().unwrap();
    let requests: u64 = days.iter().map(|day| day["requests"].as_u64().unwrap()).sum();
    assert_eq!(requests, 2);
    assert_eq!(days[0]["key"].as_str().unwrap().len(), "2026-03-01".len());
    let by_agent = usage("?by=agent").await;
    assert_eq!(by_agent["rows"][0]["key"], "lead");
    assert_eq!(by_agent["rows"][0]["requests"], 2);
    assert_eq!(usage("?by=model").await["rows"].as_array().unwrap().len(), 1);
    assert_eq!(usage("?to=1000").await["runs"], 0);
    let wrong = server.client.get("/v1/usage?by=colour").await;
    assert_eq!(wrong.problem(), (400, "invalid_query".to_owned()));
    server.stop().await;
}

#[tokio::test]
async fn host_10_usage_by_model_includes_the_calls_of_plans_and_a_fork_counts_only_its_own() {
    let list = json!({"operation": "list", "path": "."});
    let model = Scripted::new()
        .lead([plan(
            "Look twice.",
            [calls(
                "look",
                [("file_operations", list.clone()), ("file_operations", list)],
            )],
        )])
        .reflector([achieved("Looked."), achieved("Looked.")]);
    let server = TestServer::start(Stage::new(), model).await;
    let run = server.start_run(&json!({"goal": "Look", "user": "absent"})).await;
    server.until_ended(&run).await;
    let usage = async |by: &str| {
        let path = format!("/v1/usage?by={by}");
        server.client.get(&path).await.with_status(200)
    };
    let sum = |usage: &Value, field: &str| -> u64 {
        let rows = usage["rows"].as_array().unwrap().iter();
        rows.map(|row| row[field].as_u64().unwrap()).sum()
    };
    let fields = ["requests", "tool_calls", "input_tokens", "output_tokens", "cost"];
    for by in ["day", "model", "agent"] {
        let usage = usage(by).await;
        assert_eq!(usage["total"]["tool_calls"], 2, "{usage}");
        for field in fields {
            assert_eq!(sum(&usage, field), usage["total"][field], "{by} {field}: {usage}");
        }
    }
    let by_model = usage("model").await;
    let rows = by_model["rows"].as_array().unwrap();
    let of_run = rows.iter().find(|row| row["key"] == "run").unwrap();
    assert_eq!(
        (&of_run["tool_calls"], &of_run["requests"]),
        (&json!(2), &json!(0))
    );

    // The fork shares everything up to the plan's end, and asks its reflector.
    let before = usage("day").await["total"].clone();
    let events = server
        .client
        .get(&format!("{run}/events?format=json&kind=subtask_finished"))
        .await
        .with_status(200);
    let at = events["events"][0]["seq"].as_u64().unwrap();
    let forked = server
        .client
        .post(&format!("{run}/fork"), &json!({"at": at, "user": "absent"}))
        .await;
    forked.with_status(201);
    let fork = forked.header("location").to_owned();
    server.until_ended(&fork).await;
    let own = server.client.get(&fork).await.with_status(200)["report"]["usage"].clone();
    let after = usage("day").await["total"].clone();
    let added = |field: &str| after[field].as_u64().unwrap() - before[field].as_u64().unwrap();
    assert_eq!(added("tool_calls"), 0, "{after}");
    let requests = own["model_calls"].as_u64().unwrap();
    assert!(
        added("requests") >= 1 && added("requests") < requests,
        "{own} {after}"
    );
    assert!(added("input_tokens") < own["input_tokens"].as_u64().unwrap());
    server.stop().await;
}
