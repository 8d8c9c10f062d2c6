//! Endless output of a service does not fill the memory (MCP-6).
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

use dirigent_core::tool::{Access, ToolOutcome};
use dirigent_mcp::{CommandEndpoint, Endpoint, McpServices, ServiceConfig, ServiceName, Supervision};
use dirigent_tools::{ToolContext, ToolSource as _};
use serde_json::json;
use tokio_util::sync::CancellationToken;

/// Returns the most memory that this process has ever had, in bytes.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    let kilobytes: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kilobytes * 1024
}

#[tokio::test]
async fn mcp_6_a_line_of_400_megabytes_and_a_flood_of_errors_take_no_memory() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/server.py");
    let endpoint = Endpoint::Command(CommandEndpoint {
        command: "/usr/bin/python3".to_owned(),
        args: [script, "long-line", "flood-stderr"].map(str::to_owned).to_vec(),
        ..CommandEndpoint::default()
    });
    let config = ServiceConfig::new(ServiceName::new("test").unwrap(), endpoint);
    let services = McpServices::start_up(vec![config], Supervision::default())
        .await
        .unwrap();
    services.start("test").await.unwrap();
    let before = peak();
    let context = ToolContext {
        workspace: "/tmp".into(),
        access: Access::ReadWrite,
        run: "01890000-0000-7000-8000-000000000001".parse().unwrap(),
        effect: "run.1".parse().unwrap(),
        seen: None,
        content_store: None,
        deadline: None,
        user: None,
        service_endpoints: Default::default(),
        cancel: CancellationToken::new(),
    };
    let echo = services.get("mcp__test__echo").unwrap().tool;
    match echo.call(context, json!({"text": "at last"})).await.outcome {
        ToolOutcome::Success { output } => assert_eq!(output, "at last"),
        failure @ ToolOutcome::Failure { .. } => assert_eq!(
            failure,
            ToolOutcome::Success {
                output: json!("at last")
            }
        ),
    }
    let grown = peak() - before;
    assert!(grown < 64 * 1024 * 1024, "{grown} bytes");
    services.shutdown().await;
}
