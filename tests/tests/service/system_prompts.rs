//! PROMPT-1, PROMPT-2: base system prompts over HTTP.

use dirigent::OfflineModel;
use dirigent_tests::service::TestServer;
use dirigent_tests::stage::Stage;
use serde_json::json;

#[tokio::test]
async fn prompt_1_a_prompt_is_created_changed_by_its_version_and_deleted() {
    let server = TestServer::start(Stage::new(), OfflineModel).await;
    let client = &server.client;
    let new = json!({"name": "bakery", "text": "You sell bread."});
    let created = client.post("/v1/system-prompts", &new).await;
    assert_eq!((created.status, created.header("etag")), (201, "\"1\""));
    let path = created.header("location").to_owned();
    assert_eq!(
        client.post("/v1/system-prompts", &new).await.problem(),
        (409, "system_prompt_exists".to_owned())
    );

    let text = json!({"text": "You sell cakes."});
    let put = async |tag: &str| client.send("PUT", &path, &[("if-match", tag)], Some(&text)).await;
    assert_eq!(
        client.send("PUT", &path, &[], Some(&text)).await.problem(),
        (428, "no_version".to_owned())
    );
    assert_eq!(put("x").await.problem(), (422, "invalid_value".to_owned()));
    let changed = put("\"1\"").await;
    assert_eq!((changed.status, changed.header("etag")), (200, "\"2\""));
    let other = json!({"text": "You sell tea."});
    let stale = client
        .send("PUT", &path, &[("if-match", "\"1\"")], Some(&other))
        .await;
    assert_eq!(stale.problem(), (412, "version_conflict".to_owned()));
    assert_eq!(
        client.get(&path).await.with_status(200)["text"],
        "You sell cakes."
    );
    assert_eq!(
        client.get(&format!("{path}?version=1")).await.json()["text"],
        "You sell bread."
    );
    assert_eq!(
        client.get(&format!("{path}?version=9")).await.problem(),
        (404, "unknown_version".to_owned())
    );

    let listed = client.get("/v1/system-prompts").await.with_status(200);
    let names: Vec<_> = listed["system_prompts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|prompt| &prompt["name"])
        .collect();
    assert_eq!(names, ["default", "bakery"]);
    assert_eq!(client.delete(&path).await.with_status(200)["conversations"], 0);
    assert_eq!(
        client.get(&path).await.problem(),
        (404, "unknown_system_prompt".to_owned())
    );
    assert_eq!(
        client.delete("/v1/system-prompts/default").await.problem(),
        (409, "default_system_prompt".to_owned())
    );
    let wrong = json!({"name": "Not a name", "text": "x"});
    assert_eq!(
        client.post("/v1/system-prompts", &wrong).await.problem(),
        (422, "invalid_system_prompt".to_owned())
    );
    server.stop().await;
}

#[tokio::test]
async fn prompt_2_the_enhanced_prompt_begins_with_the_base_prompt_and_describes_the_tools() {
    let server = TestServer::start(Stage::new(), OfflineModel).await;
    let new = json!({"name": "bakery", "text": "You sell bread."});
    server
        .client
        .post("/v1/system-prompts", &new)
        .await
        .with_status(201);
    let enhanced = server
        .client
        .get("/v1/system-prompts/bakery/enhanced")
        .await
        .with_status(200);
    let system = enhanced["system"].as_str().unwrap();
    assert!(system.starts_with("You sell bread."), "{system}");
    assert!(
        system.contains("<AGENT_FLOW>") && system.contains("file_operations"),
        "{system}"
    );
    let unknown = server.client.get("/v1/system-prompts/none/enhanced").await;
    assert_eq!(unknown.problem(), (404, "unknown_system_prompt".to_owned()));
    server.stop().await;
}
