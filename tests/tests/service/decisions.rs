//! APPROVE-2, APPROVE-3: decisions that are checked before, and decisions that become rules.

use dirigent::{Policy, Rule, Ruling, UserPresence};
use dirigent_tests::scripted::{Scripted, call, says};
use dirigent_tests::service::TestServer;
use dirigent_tests::stage::Stage;
use serde_json::{Value, json};

/// A server with a run that writes two files, and needs approval for each. Returns the run's address and what waits first.
async fn waiting() -> (TestServer, String, Value) {
    let write = json!({"operation": "write", "path": "a.txt", "content": "one"});
    let again = json!({"operation": "write", "path": "b.txt", "content": "two"});
    let model = Scripted::new()
        .lead([
            call("file_operations", write),
            call("file_operations", again),
            says("Written."),
        ])
        .reflector([dirigent_tests::scripted::achieved("Written.")]);
    let server = TestServer::start(Stage::new(), model).await;
    let rule = Rule {
        ruling: Ruling::Ask,
        calls: "file_operations".parse().unwrap(),
    };
    let goal = server.goal("Write a.txt").policy(Policy { rules: vec![rule] });
    let run = server
        .dirigent
        .start(goal.user(UserPresence::Present))
        .await
        .unwrap();
    let run = format!("/v1/runs/{}", run.id());
    let mut events = server
        .client
        .stream("GET", &format!("{run}/events"), &[], None)
        .await;
    events.wait_for_run_event("approval_asked").await;
    let shown = server
        .client
        .get(&format!("{run}/approvals"))
        .await
        .with_status(200);
    (server, run, shown["approvals"][0].clone())
}

#[tokio::test]
async fn approve_3_an_edit_is_checked_without_deciding() {
    let (server, run, approval) = waiting().await;
    let path = format!("{run}/approvals/{}/check", approval["effect"].as_str().unwrap());
    let edit = |digest: &Value, parameters: Value| json!({"digest": digest, "answer": "edit", "parameters": parameters});
    let digest = &approval["digest"];
    let fine = json!({"operation": "write", "path": "c.txt", "content": "three\n"});
    let checked = server.client.post(&path, &edit(digest, fine.clone())).await;
    assert_eq!(checked.with_status(200)["valid"], true);
    let wrong = server
        .client
        .post(&path, &edit(digest, json!({"operation": "fly"})))
        .await;
    assert_eq!(wrong.problem(), (422, "invalid_parameters".to_owned()));
    let changed = server
        .client
        .post(&path, &edit(&json!("0".repeat(64)), fine.clone()))
        .await;
    assert_eq!(changed.problem(), (409, "call_changed".to_owned()));
    for (body, said) in [
        (json!({"digest": digest, "answer": "edit"}), "`parameters`"),
        (
            json!({"digest": digest, "answer": "approve", "reason": "no"}),
            "`reason`",
        ),
        (
            json!({"digest": digest, "answer": "always", "within": "run"}),
            "`calls`",
        ),
        (
            json!({"digest": digest, "answer": "approve", "colour": "red"}),
            "colour",
        ),
    ] {
        let refused = server.client.post(&path, &body).await;
        assert!(refused.body.contains(said), "{refused:?}");
        assert_eq!(refused.problem(), (422, "invalid_value".to_owned()));
    }
    // Nothing was decided.
    assert!(!server.stage.workspace().join("c.txt").exists());
    let still = server.client.get(&format!("{run}/approvals")).await.json();
    assert_eq!(&still["approvals"][0]["digest"], digest);
    let decided = server
        .client
        .post(path.trim_end_matches("/check"), &edit(digest, fine))
        .await;
    assert_eq!(decided.with_status(200)["state"], "accepted");
    let mut events = server
        .client
        .stream("GET", &format!("{run}/events"), &[], None)
        .await;
    events.wait_for_run_event("tool_finished").await;
    server
        .client
        .post_nothing(&format!("{run}/cancel"))
        .await
        .with_status(200);
    server.until_ended(&run).await;
    assert_eq!(server.stage.read("c.txt"), "three\n");
    server.stop().await;
}

#[tokio::test]
async fn approve_2_always_saves_a_rule_that_is_listed_and_deleted() {
    let (server, run, approval) = waiting().await;
    let path = format!("{run}/approvals/{}", approval["effect"].as_str().unwrap());
    let always = |calls: &str| json!({"digest": approval["digest"], "answer": "always", "calls": calls, "within": "run"});
    let other = server.client.post(&path, &always("execute_command")).await;
    assert_eq!(other.problem(), (422, "approval_rule_refused".to_owned()));
    assert_eq!(
        server.client.get("/v1/approval-rules").await.json()["rules"],
        json!([])
    );

    // The program's own rule asks about all calls of the tool, so no rule can allow all of them.
    let refused = server.client.post(&path, &always("file_operations")).await;
    assert_eq!(refused.problem(), (422, "approval_rule_refused".to_owned()));
    // The list of all that waits has the same rules to offer.
    let all = server.client.get("/v1/approvals").await.with_status(200);
    assert_eq!(all["runs"][0]["approvals"], json!([approval]));
    let calls = approval["suggestions"][0].as_str().unwrap();
    let checked = server.client.post(&format!("{path}/check"), &always(calls)).await;
    let rule = checked.with_status(200)["rule"].clone();
    assert_eq!((&rule["calls"], &rule["scope"]), (&json!(calls), &json!("run")));
    let saved = server.client.post(&path, &always(calls)).await.with_status(200);
    assert_eq!(saved["rule"]["subject"], rule["subject"]);
    let listed = server.client.get("/v1/approval-rules").await.json();
    assert_eq!(listed["rules"], json!([saved["rule"]]));
    let address = format!("/v1/approval-rules/{}", saved["rule"]["id"]);
    assert_eq!(
        server.client.delete(&address).await.with_status(200),
        saved["rule"]
    );
    assert_eq!(
        server.client.delete(&address).await.problem(),
        (404, "unknown_rule".to_owned())
    );
    server.client.post_nothing(&format!("{run}/cancel")).await;
    server.until_ended(&run).await;
    server.stop().await;
}
