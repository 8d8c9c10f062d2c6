//! Services that nobody here wrote, from npm. `tests/mcp/run` installs them and runs these tests.

use std::path::{Path, PathBuf};

use dirigent_mcp::{CommandEndpoint, Endpoint, McpServices, ServiceConfig, ServiceEvent, ServiceName};
use dirigent_tools::ToolSource as _;
use serde_json::{Value, json};

use crate::support::{call, call_in, context, services, shown, until};

/// A program of the packages that are installed for the tests, as the service `test`.
fn installed(program: &str, args: &[&str]) -> ServiceConfig {
    let packages = std::env::var("DIRIGENT_TEST_MCP").expect("run tests/mcp/run");
    let command = PathBuf::from(packages).join("node_modules/.bin").join(program);
    let endpoint = CommandEndpoint {
        command: command.to_str().unwrap().to_owned(),
        args: args.iter().map(|part| (*part).to_owned()).collect(),
        ..CommandEndpoint::default()
    };
    ServiceConfig::new(ServiceName::new("test").unwrap(), Endpoint::Command(endpoint))
}

async fn running(config: ServiceConfig) -> McpServices {
    let services = services(vec![config]).await;
    services.start("test").await.unwrap();
    services
}

async fn text(services: &McpServices, tool: &str, parameters: Value) -> String {
    shown(&call(services, tool, parameters).await)
}

#[tokio::test]
#[ignore = "needs packages from npm: tests/mcp/run"]
async fn mcp_5_server_everything_shows_every_kind_of_result() {
    let services = running(installed("mcp-server-everything", &[])).await;
    let mut events = services.watch();
    assert_eq!(
        text(&services, "echo", json!({"message": "hi"})).await,
        "Echo: hi"
    );
    assert!(
        text(&services, "get-sum", json!({"a": 2, "b": 40}))
            .await
            .contains("42")
    );
    let image = text(&services, "get-tiny-image", json!({})).await;
    assert!(image.contains("[image of type image/png, "), "{image}");
    let links = text(&services, "get-resource-links", json!({"count": 2})).await;
    assert_eq!(links.matches("[resource ").count(), 2, "{links}");
    let weather = text(
        &services,
        "get-structured-content",
        json!({"location": "New York"}),
    )
    .await;
    assert_eq!(weather.matches("temperature").count(), 1, "{weather}");
    let unknown = text(&services, "get-sum", json!({"a": "two"})).await;
    assert!(
        unknown.starts_with("tool_failed: ") || unknown.starts_with("bad_parameters: "),
        "{unknown}"
    );

    let done = text(
        &services,
        "trigger-long-running-operation",
        json!({"duration": 1, "steps": 2}),
    )
    .await;
    assert!(done.contains("completed"), "{done}");
    let mut steps = 0;
    while let Ok(event) = events.try_recv() {
        steps += usize::from(matches!(event, ServiceEvent::Progress { .. }));
    }
    assert!(steps > 0);
    let environment = text(&services, "get-env", json!({})).await;
    assert!(!environment.contains("DIRIGENT_TEST_MCP"), "{environment}");
}

/// Returns the processes with the mark of this test in their environment.
fn marked_processes() -> Vec<String> {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let is_marked = |folder: &PathBuf| {
        let environment = std::fs::read(folder.join("environ")).unwrap_or_default();
        environment
            .split(|byte| *byte == 0)
            .any(|variable| variable == b"TO_BE_KILLED=yes")
    };
    let marked = all.map(|entry| entry.path()).filter(is_marked);
    marked
        .map(|folder| folder.file_name().unwrap().to_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
#[ignore = "needs packages from npm: tests/mcp/run"]
async fn mcp_6_server_everything_is_restarted_when_it_was_killed() {
    let mut config = installed("mcp-server-everything", &[]);
    if let Endpoint::Command(command) = &mut config.endpoint {
        command.env.insert("TO_BE_KILLED".to_owned(), "yes".into());
    }
    let services = running(config).await;
    let killing = async {
        let mut events = services.watch();
        while !matches!(events.recv().await.unwrap(), ServiceEvent::Progress { .. }) {}
        let killed = std::process::Command::new("kill")
            .arg("-9")
            .args(marked_processes())
            .status();
        assert!(killed.unwrap().success());
    };
    let long = json!({"duration": 100, "steps": 1000});
    let (result, ()) = tokio::join!(call(&services, "trigger-long-running-operation", long), killing);
    assert!(shown(&result).starts_with("interrupted: "), "{}", shown(&result));
    assert_eq!(
        text(&services, "echo", json!({"message": "back"})).await,
        "Echo: back"
    );
}

#[tokio::test]
#[ignore = "needs packages from npm: tests/mcp/run"]
async fn mcp_6_server_filesystem_works_in_the_workspaces_of_its_callers() {
    let folder = tempfile::tempdir().unwrap();
    let other = tempfile::tempdir().unwrap();
    let file = |folder: &Path| folder.join("note.txt").to_str().unwrap().to_owned();
    let first = folder.path().to_str().unwrap();
    let services = running(installed("mcp-server-filesystem", &[first])).await;
    // The roots take the place of its arguments.
    for folder in [folder.path(), other.path()] {
        let write = json!({"path": file(folder), "content": "remember the milk"});
        // The service takes a moment to look at new folders.
        until("the file is written", async || {
            let call = call_in(&services, context(folder), "write_file", write.clone());
            shown(&call.await).starts_with("Successfully wrote")
        })
        .await;
        let read = json!({"path": file(folder)});
        let read = shown(&call_in(&services, context(folder), "read_text_file", read).await);
        assert_eq!(read, "remember the milk");
    }
    let outside = call_in(
        &services,
        context(folder.path()),
        "read_text_file",
        json!({"path": "/etc/hostname"}),
    )
    .await;
    assert!(
        shown(&outside).starts_with("tool_failed: "),
        "{}",
        shown(&outside)
    );
}

#[tokio::test]
#[ignore = "needs packages from npm: tests/mcp/run"]
async fn mcp_5_server_memory_remembers() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = installed("mcp-server-memory", &[]);
    if let Endpoint::Command(command) = &mut config.endpoint {
        let file = folder.path().join("memory.jsonl").to_str().unwrap().to_owned();
        command.env.insert("MEMORY_FILE_PATH".to_owned(), file.into());
    }
    let services = running(config).await;
    let entities = json!([{"name": "Ada", "entityType": "person", "observations": ["likes engines"]}]);
    text(&services, "create_entities", json!({"entities": entities})).await;
    let found = text(&services, "search_nodes", json!({"query": "engines"})).await;
    assert!(found.contains("Ada"), "{found}");
    assert!(services.specs().iter().all(|spec| spec.requires_approval));
}
