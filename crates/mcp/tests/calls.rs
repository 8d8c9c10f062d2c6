//! Calls of services' tools (MCP-2, MCP-5).

use std::path::Path;
use std::time::Duration;

use dirigent_core::tool::ToolOutcome;
use dirigent_mcp::{ServiceConfig, ServiceEvent};
use dirigent_tools::ToolSource as _;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::support::{
    call, call_in, call_json, context, running, service, services, shown, until, until_waiting,
};

#[tokio::test]
async fn mcp_5_results_and_failures_reach_the_caller() {
    let services = running(&[]).await;
    assert_eq!(
        shown(&call(&services, "echo", json!({"text": "héllo\u{7}"})).await),
        "héllo"
    );
    let failed = call(&services, "fail", json!({})).await;
    assert_eq!(
        shown(&failed),
        "tool_failed: the tool of service test failed: no such thing"
    );
    match failed.outcome {
        ToolOutcome::Failure { output, .. } => assert_eq!(output, "no such thing\nlook again"),
        ToolOutcome::Success { .. } => panic!("{failed:?}"),
    }
}

#[tokio::test]
async fn mcp_5_a_call_ends_at_its_timeout_and_the_service_continues() {
    let config = ServiceConfig {
        call_timeout: Duration::from_millis(300),
        ..service("test", &[])
    };
    let services = services(vec![config]).await;
    services.start("test").await.unwrap();
    let pid = shown(&call(&services, "pid", json!({})).await);
    // The answer of the call arrives after the timeout, and is ignored.
    assert_eq!(
        shown(&call(&services, "wait", json!({"seconds": 0.5})).await),
        "timed_out: the call was ended because it took more than 0.3 s; it may have taken effect. The service test is still running: ask \
         for less at once, or continue without it"
    );
    until_cancelled(&services).await;
    assert_eq!(shown(&call(&services, "echo", json!({"text": "on"})).await), "on");
    assert_eq!(shown(&call(&services, "pid", json!({})).await), pid);
}

/// Waits until the service has received the notification that a call was cancelled.
async fn until_cancelled(services: &dirigent_mcp::McpServices) {
    until("the service is told", async || {
        let received = call_json(services, "received", json!({})).await;
        received["cancelled"].as_array().unwrap().len() == 1
    })
    .await;
}

#[tokio::test]
async fn mcp_5_a_cancelled_call_is_cancelled_at_the_service() {
    let services = running(&[]).await;
    let cancelled = context(Path::new("/tmp"));
    let cancel = cancelled.cancel.clone();
    let (result, ()) = tokio::join!(
        call_in(&services, cancelled, "wait", json!({"seconds": 1000})),
        async {
            until_waiting(&services).await;
            cancel.cancel();
        }
    );
    assert_eq!(shown(&result), "cancelled: the call was cancelled");
    until_cancelled(&services).await;
}

#[tokio::test]
async fn mcp_5_a_dropped_call_is_cancelled_at_the_service() {
    let services = running(&[]).await;
    tokio::select! {
        _ = call(&services, "wait", json!({"seconds": 1000})) => panic!("it ended"),
        () = until_waiting(&services) => {}
    }
    until_cancelled(&services).await;
}

#[tokio::test]
async fn mcp_5_a_call_ends_before_its_agents_deadline() {
    let services = running(&[]).await;
    let mut context = context(Path::new("/tmp"));
    context.deadline = Some(Instant::now() + Duration::from_millis(400));
    let result = shown(&call_in(&services, context, "wait", json!({"seconds": 1000})).await);
    assert!(
        result.starts_with("timed_out: the call was ended because the agent's time is over"),
        "{result}"
    );
}

#[tokio::test]
async fn mcp_6_progress_reaches_watchers() {
    let services = running(&[]).await;
    let mut events = services.watch();
    assert_eq!(shown(&call(&services, "progress", json!({})).await), "done");
    let mut steps = Vec::new();
    while let Ok(event) = events.try_recv() {
        if let ServiceEvent::Progress {
            tool,
            progress,
            total,
            message,
            ..
        } = event
        {
            steps.push((tool, progress, total, message.unwrap()));
        }
    }
    let tool = || "mcp__test__progress".to_owned();
    steps.sort_by(|one, other| one.1.total_cmp(&other.1));
    assert_eq!(
        steps,
        [
            (tool(), 1.0, Some(2.0), "step 1".to_owned()),
            (tool(), 2.0, Some(2.0), "step 2".to_owned())
        ]
    );
}

#[tokio::test]
async fn mcp_6_roots_are_the_workspaces_and_sampling_is_refused() {
    let services = running(&[]).await;
    let folder = tempfile::tempdir().unwrap();
    let ask = |method: &str| json!({"text": method, "params": "{}"});
    let roots = call_in(&services, context(folder.path()), "ask", ask("roots/list")).await;
    let roots: Value = serde_json::from_str(&shown(&roots)).unwrap();
    assert_eq!(roots["roots"].as_array().unwrap().len(), 1);
    assert_eq!(
        roots["roots"][0]["uri"],
        format!("file://{}", folder.path().display())
    );

    let message = json!({"role": "user", "content": {"type": "text", "text": "Who are you?"}});
    let sampling = json!({"messages": [message], "maxTokens": 10}).to_string();
    let refused = call_json(
        &services,
        "ask",
        json!({"text": "sampling/createMessage", "params": sampling}),
    )
    .await;
    assert_eq!(refused["code"], -32601);
}

#[tokio::test]
async fn mcp_6_changed_tools_are_listed_again_and_reported() {
    let services = running(&["changing"]).await;
    let mut events = services.watch();
    call(&services, "echo", json!({"text": "x"})).await;
    let (added, removed, changed) = loop {
        if let ServiceEvent::ToolsChanged {
            added,
            removed,
            changed,
            ..
        } = events.recv().await.unwrap()
        {
            break (added, removed, changed);
        }
    };
    assert_eq!(added, ["mcp__test__only_1"]);
    assert_eq!(removed, ["mcp__test__only_0"]);
    assert_eq!(changed, ["mcp__test__same"]);
    until("the new list is known", async || {
        services.get("mcp__test__only_1").is_some()
    })
    .await;
    assert!(services.get("mcp__test__only_0").is_none());
    let spec = services.get("mcp__test__same").unwrap().spec;
    assert_eq!(spec.description, "[MCP service test] Version 1.");
}

#[tokio::test]
async fn mcp_2_a_tool_with_a_bad_schema_is_left_out_with_a_warning() {
    let services = running(&["bad-schema"]).await;
    let info = services.service("test").unwrap();
    let unavailable: Vec<&str> = info.unavailable.iter().map(|tool| tool.tool.as_str()).collect();
    assert_eq!(unavailable, ["bad", "worse"]);
    assert!(services.get("mcp__test__bad").is_none());
    assert_eq!(
        shown(&call(&services, "echo", json!({"text": "fine"})).await),
        "fine"
    );
}
