//! A tool of a service, as agents call it (MCP-5).

use std::sync::Arc;
use std::time::Duration;

use dirigent_core::tool::{Access, Repeat, ToolCategory, ToolResult, ToolSpec, code};
use dirigent_tools::{Tool, ToolContext};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use rmcp::model::{CallToolRequest, CallToolRequestParams, ClientRequest, ServerResult};
use rmcp::service::{PeerRequestOptions, RequestHandle};
use rmcp::{RoleClient, ServiceError};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use crate::client::{ActiveCall, Calls};
use crate::connection::Connection;
use crate::error::McpError;
use crate::result::{protocol_error, tool_result, unknown_result};
use crate::service::{Service, StartedBy};
use crate::status::{ServiceState, WhyStopped};
use crate::tool_list::ServiceTool;
use crate::user_waits::UserWaits;

/// The code of a failure because the service is not running.
pub const SERVICE_UNAVAILABLE: &str = "service_unavailable";

/// The time before the run's deadline at which a call ends, so that the call can still return its own result.
const MARGIN: Duration = Duration::from_millis(200);
/// Maximum time to notify a service that a call was cancelled.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum time to wait for the reason why a connection was lost.
const REASON_TIMEOUT: Duration = Duration::from_secs(1);

/// A tool of a service. Its spec is looked up for each call, because the service may have changed the tool.
pub(crate) struct McpTool {
    service: Arc<Service>,
    spec: Arc<ToolSpec>,
}

impl McpTool {
    /// Returns the tool that agents call by this name. `None` if the service has listed its tools and this tool is not among them.
    pub(crate) fn find(service: &Arc<Service>, name: &str) -> Option<Self> {
        let listed = service
            .status()
            .tools
            .tools
            .get(name)
            .map(|tool| tool.spec.clone());
        let spec = match listed {
            Some(spec) => spec,
            None if service.knows_tools() => return None,
            None => Arc::new(unlisted_spec(service, name)),
        };
        Some(McpTool {
            service: service.clone(),
            spec,
        })
    }
}

/// Returns a spec for a tool that the service has not listed yet, for example when a run is resumed in a new process. This spec grants
/// nothing; the run has the recorded one.
fn unlisted_spec(service: &Service, name: &str) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        description: format!("A tool of the MCP service {}.", service.config.name),
        category: ToolCategory::Service,
        parameters: json!({"type": "object"}),
        repeat: Repeat::Unsafe,
        access: Access::ReadWrite,
        changes_where: None,
        read_only: None,
        requires_approval: true,
        approval_where: None,
        rules: Vec::new(),
        example: Value::Null,
    }
}

impl Tool for McpTool {
    fn spec(&self) -> ToolSpec {
        ToolSpec::clone(&self.spec)
    }

    fn call(&self, context: ToolContext, parameters: Value) -> BoxFuture<'static, ToolResult> {
        let (service, name) = (self.service.clone(), self.spec.name.clone());
        let expected = context.service_endpoints.get(service.config.name.as_str());
        if expected.is_some_and(|expected| *expected != service.config.endpoint_digest()) {
            let result = unavailable(&McpError::Replaced {
                name: service.config.name.clone(),
            });
            return std::future::ready(result).boxed();
        }
        async move {
            let waits = Arc::new(UserWaits::default());
            tokio::select! {
                biased;
                () = context.cancel.cancelled() => ToolResult::failure("the call was cancelled").with_code(code::CANCELLED),
                result = call(&service, &name, &context, &waits, parameters) => result,
                () = at_deadline(&waits, context.deadline) => timed_out(&service, "the agent's time is over"),
            }
        }
        .boxed()
    }
}

/// Waits until shortly before the run's deadline for the call; forever if there is no deadline.
async fn at_deadline(waits: &UserWaits, deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => {
            waits
                .sleep_until(deadline.checked_sub(MARGIN).unwrap_or(deadline))
                .await
        }
        None => std::future::pending().await,
    }
}

/// Makes the call. Dropping the future cancels the call at the service.
async fn call(
    service: &Service,
    tool: &str,
    context: &ToolContext,
    waits: &Arc<UserWaits>,
    parameters: Value,
) -> ToolResult {
    let connection = match service.running(StartedBy::Need, Some(&context.workspace)).await {
        Ok(connection) => connection,
        Err(error) => return unavailable(&error),
    };
    let name = &service.config.name;
    let Some(tool) = service.status().tools.tools.get(tool).cloned() else {
        return ToolResult::failure(format!(
            "service {name} has no tool `{tool}` any more: use another one"
        ))
        .with_code(code::UNKNOWN_TOOL);
    };
    let limit = service.config.call_timeout;
    let end = Instant::now() + limit;
    let response = tokio::select! {
        biased;
        response = ask(&connection, &tool, context, waits, parameters) => response,
        () = waits.sleep_until(end) => {
            let reason = format!("it took more than {} s", limit.as_secs_f32());
            return timed_out(service, &reason);
        }
    };
    match response {
        Ok(ServerResult::CallToolResult(result)) => tool_result(name, result),
        Ok(ServerResult::CustomResult(result)) => unknown_result(name, &result.0),
        Ok(_) => unknown_result(name, &Value::Null),
        Err(ServiceError::McpError(error)) => protocol_error(name, &error),
        Err(_) => {
            let reason = timeout(REASON_TIMEOUT, connection.lost()).await;
            let reason = reason.unwrap_or_else(|_| "the connection failed".to_owned());
            interrupted(service, &reason)
        }
    }
}

/// Sends the request and waits for its response.
async fn ask(
    connection: &Connection,
    tool: &ServiceTool,
    context: &ToolContext,
    waits: &Arc<UserWaits>,
    parameters: Value,
) -> Result<ServerResult, ServiceError> {
    let mut params = CallToolRequestParams::new(tool.original.clone());
    if let Value::Object(arguments) = parameters {
        params = params.with_arguments(arguments);
    }
    let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
    let sent = connection
        .peer
        .send_cancellable_request(request, PeerRequestOptions::no_options());
    let mut call = RunningCall {
        handle: Some(sent.await?),
        calls: connection.calls.clone(),
    };
    call.response(ActiveCall {
        tool: tool.spec.name.clone(),
        run: context.run,
        effect: context.effect,
        user: context.user.clone(),
        waits: waits.clone(),
    })
    .await
}

/// An active call. If it is dropped before its response arrives, the service is notified that the call was cancelled.
struct RunningCall {
    /// The request; `None` after its response has arrived.
    handle: Option<RequestHandle<RoleClient>>,
    calls: Arc<Calls>,
}

impl RunningCall {
    async fn response(&mut self, call: ActiveCall) -> Result<ServerResult, ServiceError> {
        let Some(handle) = &mut self.handle else {
            return Err(ServiceError::UnexpectedResponse);
        };
        self.calls.insert(handle.progress_token.clone(), call);
        let response = (&mut handle.rx).await;
        self.calls.remove(&handle.progress_token);
        self.handle = None;
        response.unwrap_or(Err(ServiceError::TransportClosed))
    }
}

impl Drop for RunningCall {
    fn drop(&mut self) {
        let Some(handle) = self.handle.take() else { return };
        self.calls.remove(&handle.progress_token);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let cancelled = handle.cancel(Some("nobody waits for the result any more".to_owned()));
            // Does not wait for a service that accepts no messages.
            runtime.spawn(timeout(CANCEL_TIMEOUT, cancelled));
        }
    }
}

fn unavailable(error: &McpError) -> ToolResult {
    ToolResult::failure(error.to_string()).with_code(SERVICE_UNAVAILABLE)
}

fn timed_out(service: &Service, reason: &str) -> ToolResult {
    let name = &service.config.name;
    let error = format!(
        "the call was ended because {reason}; it may have taken effect. The service {name} is still running: ask for less at once, or continue without it"
    );
    ToolResult::failure(error).with_code(code::TIMED_OUT)
}

fn interrupted(service: &Service, reason: &str) -> ToolResult {
    let name = &service.config.name;
    let error = match service.status().state {
        ServiceState::Stopped(WhyStopped::Removed) => format!(
            "service {name} was removed or got other settings during the call, which may or may not have taken effect: check what was done \
             before you call a tool of that name again"
        ),
        ServiceState::Stopped(WhyStopped::ByUser) => format!(
            "service {name} was stopped during the call, which may or may not have taken effect: check what was done, and continue without \
             the service"
        ),
        ServiceState::Error { .. } => format!(
            "service {name} ended during the call ({reason}), which may or may not have taken effect. It has failed too often to be restarted: \
             check what was done, and continue without the service"
        ),
        ServiceState::Stopped(WhyStopped::NotNeeded) | ServiceState::Starting | ServiceState::Running => {
            format!(
                "service {name} ended during the call ({reason}), which may or may not have taken effect. It is being restarted: check what was done \
             before you call it again"
            )
        }
    };
    ToolResult::failure(error).with_code(code::INTERRUPTED)
}
