//! Services that misbehave: none of them blocks another one (MCP-6).

use std::time::{Duration, Instant};

use dirigent_mcp::{ServiceConfig, ServiceEvent, Supervision};
use dirigent_tools::ToolSource as _;
use serde_json::json;

use crate::support::{call, context, quick, running, service, services, shown, until};

#[tokio::test]
async fn mcp_6_garbage_long_lines_and_unknown_ids_do_not_affect_answers() {
    let services = running(&["garbage"]).await;
    for word in ["one", "two"] {
        assert_eq!(shown(&call(&services, "echo", json!({"text": word})).await), word);
    }
}

#[tokio::test]
async fn mcp_6_a_flood_of_errors_blocks_nothing() {
    let services = running(&["flood-stderr"]).await;
    assert_eq!(
        shown(&call(&services, "echo", json!({"text": "dry"})).await),
        "dry"
    );
}

#[tokio::test]
async fn mcp_6_a_service_that_dies_on_the_third_call_answers_again_afterwards() {
    let services = running(&["dies-on-third-call"]).await;
    let mut results = Vec::new();
    for number in 0..4 {
        results.push(shown(
            &call(&services, "echo", json!({"text": number.to_string()})).await,
        ));
    }
    assert!(results[2].starts_with("interrupted: "), "{}", results[2]);
    results.remove(2);
    assert_eq!(results, ["0", "1", "3"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mcp_6_a_service_that_sends_endless_requests_does_not_block_others() {
    let rules = Supervision {
        ping_interval: Duration::from_millis(50),
        ping_timeout: Duration::from_millis(300),
        max_restarts: 1,
        ..quick()
    };
    let flood = ServiceConfig {
        start_timeout: Duration::from_secs(2),
        ..service("flood", &["flood-requests"])
    };
    let configs = vec![flood, service("test", &[])];
    let services = dirigent_mcp::McpServices::start_up(configs, rules).await.unwrap();
    let (flooded, good) = tokio::join!(services.start("flood"), services.start("test"));
    good.unwrap();
    assert!(flooded.is_err());
    assert_eq!(
        shown(&call(&services, "echo", json!({"text": "calm"})).await),
        "calm"
    );
}

#[tokio::test]
async fn mcp_2_a_service_that_changes_its_tools_all_the_time_is_followed_ever_more_slowly() {
    let services = services(vec![service("test", &["flipping"])]).await;
    let mut events = services.watch();
    services.start("test").await.unwrap();
    let mut changes = 0;
    let start = Instant::now();
    while changes < 5 {
        if let ServiceEvent::ToolsChanged { .. } = events.recv().await.unwrap() {
            changes += 1;
        }
    }
    // The pauses between five changes.
    assert!(start.elapsed() >= Duration::from_millis(100 + 200 + 400 + 800));
}

#[tokio::test]
async fn mcp_6_calls_at_the_same_time_do_not_wait_for_each_other() {
    let services = running(&[]).await;
    let slow = services.get("mcp__test__wait").unwrap().tool;
    let slow = tokio::spawn(slow.call(context(std::path::Path::new("/tmp")), json!({"seconds": 1000})));
    until("others are answered", async || {
        shown(&call(&services, "echo", json!({"text": "quick"})).await) == "quick"
    })
    .await;
    assert!(!slow.is_finished());
    slow.abort();
}
