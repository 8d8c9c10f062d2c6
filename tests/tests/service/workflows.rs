//! FLOW-1 to FLOW-3: workflows over HTTP.

use dirigent::OfflineModel;
use dirigent_tests::scripted::{Scripted, says};
use dirigent_tests::service::TestServer;
use dirigent_tests::stage::Stage;
use serde_json::json;

#[tokio::test]
async fn flow_3_workflows_are_listed_by_category_with_the_form_of_their_parameters() {
    let server = TestServer::start(Stage::new(), OfflineModel).await;
    let all = server.client.get("/v1/workflows").await.with_status(200);
    let code = server
        .client
        .get("/v1/workflows?category=code")
        .await
        .with_status(200);
    let names = |list: &serde_json::Value| -> Vec<String> {
        let listed = list["workflows"].as_array().unwrap();
        listed
            .iter()
            .map(|workflow| workflow["name"].as_str().unwrap().to_owned())
            .collect()
    };
    assert!(names(&all).contains(&"create_project".to_owned()));
    assert!(all["categories"].as_array().unwrap().contains(&json!("code")));
    assert!(!names(&code).is_empty() && names(&code).len() < names(&all).len());
    let shown = server
        .client
        .get("/v1/workflows/create_project")
        .await
        .with_status(200);
    let name = &shown["parameters"][0];
    assert_eq!(
        (&name["name"], &name["type"], &name["required"]),
        (&json!("name"), &json!("string"), &json!(true))
    );
    let unknown = server.client.get("/v1/workflows/create_projet").await;
    assert!(unknown.body.contains("create_project"), "{unknown:?}");
    assert_eq!(unknown.problem(), (404, "unknown_workflow".to_owned()));
    // Tools are for agents only.
    for path in ["/v1/tools", "/tools"] {
        assert_eq!(server.client.get(path).await.problem().1, "unknown_address");
    }
    server.stop().await;
}

#[tokio::test]
async fn flow_2_a_workflow_starts_as_a_run_once_it_has_its_parameters() {
    let server = TestServer::start(Stage::new(), OfflineModel).await;
    let path = "/v1/workflows/create_project/runs";
    let refused = server.client.post(path, &json!({})).await;
    let problem = refused.json();
    assert_eq!(refused.problem(), (422, "missing_parameters".to_owned()));
    assert_eq!(problem["workflow"], "create_project");
    assert_eq!(problem["missing"][0]["name"], "name");
    for (parameters, said) in [
        (json!({"name": "my-app", "colour": "red"}), "colour"),
        (json!({"name": "my app/.."}), "name"),
    ] {
        let refused = server.client.post(path, &json!({"parameters": parameters})).await;
        assert!(refused.body.contains(said), "{refused:?}");
        assert_eq!(refused.problem(), (422, "invalid_parameters".to_owned()));
    }
    let nested = json!({"parameters": {"name": ["my-app"]}});
    assert_eq!(
        server.client.post(path, &nested).await.problem(),
        (422, "invalid_value".to_owned())
    );
    let unknown = server.client.post("/v1/workflows/nothing/runs", &json!({})).await;
    assert_eq!(unknown.problem(), (404, "unknown_workflow".to_owned()));
    assert_eq!(server.client.get("/v1/runs").await.json()["total"], 0);

    let parameters = json!({"parameters": {"name": "my-app", "language": "python"}});
    let started = server.client.post(path, &parameters).await;
    started.with_status(201);
    let run = started.header("location").to_owned();
    server.until_ended(&run).await;
    assert_eq!(server.client.get(&run).await.json()["state"], "goal_achieved");
    server.stop().await;
}

#[tokio::test]
async fn flow_1_a_message_and_a_goal_may_name_a_workflow() {
    let server = TestServer::start(Stage::new(), OfflineModel).await;
    let context = server.begin_conversation(&json!({})).await;
    let messages = format!("{context}/messages");
    for (path, body) in [
        (messages.as_str(), json!({"message": "/create_project"})),
        ("/v1/runs", json!({"goal": "/create_project"})),
    ] {
        let refused = server.client.post(path, &body).await;
        assert_eq!(refused.problem(), (422, "missing_parameters".to_owned()));
        assert_eq!(refused.json()["missing"][0]["name"], "name");
    }
    for (path, body) in [
        (messages.as_str(), json!({"message": "/create_projet my-app"})),
        ("/v1/runs", json!({"goal": "/create_projet my-app"})),
    ] {
        let refused = server.client.post(path, &body).await;
        assert_eq!(refused.problem(), (422, "unknown_workflow".to_owned()));
    }
    let message = json!({"message": "/create_project my-app python"});
    let answered = server.client.post(&messages, &message).await.with_status(200);
    assert_eq!(answered["state"], "answered", "{answered}");
    assert!(server.stage.workspace().join("my-app").is_dir());
    let shown = server.client.get(&context).await.json();
    assert_eq!(shown["turns"], 1);
    server.stop().await;
}

#[tokio::test]
async fn flow_1_a_workflow_of_the_project_is_not_used_before_it_is_trusted() {
    let file = "---\ndescription: Greets\n---\nSay hello.\n";
    let stage = Stage::new().file(".dirigent/workflows/greet.md", file);
    let server = TestServer::start(stage, Scripted::new().lead([says("Hello.")])).await;
    let listed = server.client.get("/v1/workflows").await.with_status(200);
    assert_eq!(listed["untrusted"][0]["name"], "greet");
    let started = server.client.post("/v1/runs", &json!({"goal": "/greet"})).await;
    assert_eq!(started.problem(), (422, "untrusted_workflow".to_owned()));
    let started = server.client.post("/v1/workflows/greet/runs", &json!({})).await;
    assert_eq!(started.problem(), (422, "untrusted_workflow".to_owned()));
    server.stop().await;
}

#[tokio::test]
async fn flow_1_a_workflow_of_the_project_is_trusted_with_the_text_that_was_shown() {
    let text = "---\ndescription: Greets\n---\nSay hello.\n";
    let stage = Stage::new().file(".dirigent/workflows/greet.md", text);
    let server = TestServer::start(stage, Scripted::new().lead([says("Hello.")])).await;
    let refused = server.client.post("/v1/runs", &json!({"goal": "/greet"})).await;
    assert_eq!(refused.problem(), (422, "untrusted_workflow".to_owned()));
    let shown = refused.json()["untrusted"].clone();
    assert_eq!((&shown["name"], &shown["text"]), (&json!("greet"), &json!(text)));
    let listed = server.client.get("/v1/workflows").await.with_status(200);
    assert_eq!(listed["untrusted"], json!([shown]));

    // A file that has changed since is not trusted.
    let path = "/v1/workflows/greet/trust";
    let file = server.stage.workspace().join(".dirigent/workflows/greet.md");
    std::fs::write(&file, text.replace("hello", "goodbye")).unwrap();
    let trust = json!({"digest": shown["digest"]});
    let changed = server.client.post(path, &trust).await;
    assert_eq!(changed.problem(), (409, "workflow_changed".to_owned()));
    assert_ne!(changed.json()["untrusted"]["digest"], shown["digest"]);
    let started = server.client.post("/v1/workflows/greet/runs", &json!({})).await;
    assert_eq!(started.problem(), (422, "untrusted_workflow".to_owned()));
    std::fs::write(&file, text).unwrap();

    let missing = server.client.post(path, &json!({})).await;
    assert_eq!(missing.problem(), (422, "invalid_value".to_owned()));
    let unknown = server.client.post("/v1/workflows/nothing/trust", &trust).await;
    assert_eq!(unknown.problem(), (404, "unknown_workflow".to_owned()));
    let trusted = server.client.post(path, &trust).await.with_status(200);
    assert_eq!(trusted["source"], "project");
    let again = server.client.post(path, &trust).await;
    assert_eq!(again.problem(), (409, "workflow_trusted".to_owned()));
    let started = server.client.post("/v1/workflows/greet/runs", &json!({})).await;
    started.with_status(201);
    let run = started.header("location").to_owned();
    server.until_ended(&run).await;
    assert_eq!(
        server.client.get(&run).await.json()["report"]["summary"],
        "Hello."
    );
    server.stop().await;
}
