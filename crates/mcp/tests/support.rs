//! Services for tests, and ways to call them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use dirigent_core::id::{EffectId, RunId};
use dirigent_core::tool::{Access, ToolOutcome, ToolResult};
use dirigent_mcp::{
    CommandEndpoint, Endpoint, McpServices, ServiceConfig, ServiceName, ServiceState, Supervision,
};
use dirigent_tools::{ToolContext, ToolSource as _};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// A timeout that is longer than any step of a test. A test fails when it expires.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The configuration of the test program as a service with these faults.
pub fn service(name: &str, faults: &[&str]) -> ServiceConfig {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/server.py");
    let endpoint = CommandEndpoint {
        command: "/usr/bin/python3".to_owned(),
        args: [script]
            .iter()
            .chain(faults)
            .map(|part| (*part).to_owned())
            .collect(),
        ..CommandEndpoint::default()
    };
    ServiceConfig::new(ServiceName::new(name).unwrap(), Endpoint::Command(endpoint))
}

/// Rules with short delays and timeouts.
pub fn quick() -> Supervision {
    Supervision {
        first_delay: Duration::from_millis(10),
        max_delay: Duration::from_millis(50),
        stop_grace: Duration::from_millis(300),
        ..Supervision::default()
    }
}

/// Starts the actors of these services, but not the services.
pub async fn services(configs: Vec<ServiceConfig>) -> McpServices {
    McpServices::start_up(configs, quick()).await.unwrap()
}

/// A running service with these faults, named `test`.
pub async fn running(faults: &[&str]) -> McpServices {
    let services = services(vec![service("test", faults)]).await;
    services.start("test").await.unwrap();
    services
}

/// The context of a call in a folder.
pub fn context(workspace: &Path) -> ToolContext {
    ToolContext {
        workspace: workspace.to_owned(),
        access: Access::ReadWrite,
        run: "01890000-0000-7000-8000-000000000001".parse::<RunId>().unwrap(),
        effect: "run.1".parse::<EffectId>().unwrap(),
        seen: None,
        content_store: None,
        deadline: None,
        user: None,
        service_endpoints: Default::default(),
        cancel: CancellationToken::new(),
    }
}

/// Calls a tool of the service `test` in a folder.
pub async fn call_in(
    services: &McpServices,
    context: ToolContext,
    tool: &str,
    parameters: Value,
) -> ToolResult {
    let entry = services.get(&format!("mcp__test__{tool}")).unwrap();
    let call = entry.tool.call(context, parameters);
    tokio::time::timeout(PATIENCE, call)
        .await
        .expect("the call does not end")
}

/// Calls a tool of the service `test`.
pub async fn call(services: &McpServices, tool: &str, parameters: Value) -> ToolResult {
    call_in(services, context(Path::new("/tmp")), tool, parameters).await
}

/// Returns the result as text: the output, or the code and the error.
pub fn shown(result: &ToolResult) -> String {
    match &result.outcome {
        ToolOutcome::Success { output } => output.as_str().unwrap().to_owned(),
        ToolOutcome::Failure { code, error, .. } => format!("{code}: {error}"),
    }
}

/// Calls a tool of the service `test`, and reads its output as JSON.
pub async fn call_json(services: &McpServices, tool: &str, parameters: Value) -> Value {
    serde_json::from_str(&shown(&call(services, tool, parameters).await)).unwrap()
}

/// Waits until a condition is true.
pub async fn until<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    let waiting = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let waited = tokio::time::timeout(PATIENCE, waiting).await;
    waited.unwrap_or_else(|_| panic!("never: {what}"));
}

/// Waits until a call of `wait` has reached the service `test`.
pub async fn until_waiting(services: &McpServices) {
    until("the call is under way", async || {
        let received = call_json(services, "received", serde_json::json!({})).await;
        received["called"].as_array().unwrap().contains(&"wait".into())
    })
    .await;
}

/// Waits until a service is in a state.
pub async fn until_state(
    services: &McpServices,
    service: &str,
    is_it: impl Fn(&ServiceState) -> bool,
) -> ServiceState {
    until("the state", async || {
        is_it(&services.service(service).unwrap().state)
    })
    .await;
    services.service(service).unwrap().state
}

/// Reads the numbers of the processes that a service has written into a file.
pub fn pids(file: &Path) -> Vec<u32> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.lines().map(|line| line.parse().unwrap()).collect()
}

/// Returns true if a process can still run its program: it is neither a zombie nor exiting (`PF_EXITING` of the kernel's `sched.h`; such a
/// process has closed its files, but is not a zombie yet).
pub fn is_alive(pid: u32) -> bool {
    const PF_EXITING: u64 = 0x4;
    let status = std::fs::read_to_string(PathBuf::from(format!("/proc/{pid}/stat"))).unwrap_or_default();
    let Some((_, fields)) = status.rsplit_once(") ") else {
        return false;
    };
    let fields: Vec<&str> = fields.split(' ').collect();
    let flags: u64 = fields[6].parse().unwrap();
    fields[0] != "Z" && flags & PF_EXITING == 0
}
