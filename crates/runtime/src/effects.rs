//! Executes model requests and tool calls. Failures, including panics, are returned as values.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use dirigent_core::call::CallError;
use dirigent_core::message::{ModelFailure, ModelFailureKind, ModelReply, ToolCall};
use dirigent_core::text::shorten;
use dirigent_core::time::Millis;
use dirigent_core::tool::{ToolOutcome, ToolResult, ToolSpec, code};
use dirigent_model::{ChatModel, ChatRequest};
use dirigent_tools::{ToolContext, ToolEntry};
use futures::FutureExt;
use serde_json::Value;
use tokio::time::Instant;
use tracing::{Instrument as _, Span};

use crate::spans;

/// The time within which a cancelled call can end by itself before its future is dropped. Less than a second,
/// because a cancelled run must end within a second (HOST-8).
const GRACE: Duration = Duration::from_millis(800);

/// The maximum size of a tool's output or error, in bytes. Longer texts are truncated, because they would fill the journal and every
/// model request.
const MAX_RESULT_BYTES: usize = 1024 * 1024;

/// Runs a tool call in its span.
pub(crate) async fn run_tool(
    tool: Option<ToolEntry>,
    context: ToolContext,
    call: ToolCall,
    span: Span,
) -> ToolResult {
    let result = run(tool, context, call).instrument(span.clone()).await;
    spans::record_result(&span, &result);
    result
}

async fn run(tool: Option<ToolEntry>, context: ToolContext, call: ToolCall) -> ToolResult {
    let started = Instant::now();
    let cancel = context.cancel.clone();
    let name = call.tool.clone();
    let work = AssertUnwindSafe(async move {
        match tool {
            Some(ToolEntry { spec, tool }) => match access_error(&context, &spec) {
                Some(error) => ToolResult::failure(error.to_string()).with_code(error.code()),
                None => tool.call(context, call.parameters).await,
            },
            None => ToolResult::failure(format!("there is no tool `{}` in this process", call.tool))
                .with_code(code::UNKNOWN_TOOL),
        }
    })
    .catch_unwind();
    let overdue = async {
        cancel.cancelled().await;
        tokio::time::sleep(GRACE).await;
    };
    let result = tokio::select! {
        biased;
        ended = work => ended.unwrap_or_else(|panic| {
            ToolResult::failure(format!("the tool `{name}` panicked: {}", panic_message(panic.as_ref())))
                .with_code(code::BROKE_DOWN)
        }),
        () = overdue => ToolResult::failure("cancelled").with_code(code::CANCELLED),
    };
    ToolResult {
        duration: Millis::from(started.elapsed()),
        outcome: truncated(result.outcome),
        ..result
    }
}

/// Returns an error if the tool needs more access than the agent has. The agent's machine checks this too, but against the tool spec in the
/// run's journal. The tool in this process may be a newer version that needs more access.
fn access_error(context: &ToolContext, tool: &ToolSpec) -> Option<CallError> {
    (context.access < tool.access).then_some(CallError::AccessDenied {
        tool: tool.name.clone(),
        needs: tool.access,
        has: context.access,
    })
}

/// Truncates oversized output and marks the truncation.
fn truncated(outcome: ToolOutcome) -> ToolOutcome {
    let cut = |text: &str| shorten(text, MAX_RESULT_BYTES, None).into_owned();
    let cut_output = |output: Value| match output {
        Value::String(text) if text.len() > MAX_RESULT_BYTES => Value::String(cut(&text)),
        Value::Array(_) | Value::Object(_) => {
            let text = output.to_string();
            if text.len() > MAX_RESULT_BYTES {
                Value::String(cut(&text))
            } else {
                output
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => output,
    };
    match outcome {
        ToolOutcome::Success { output } => ToolOutcome::Success {
            output: cut_output(output),
        },
        ToolOutcome::Failure { code, error, output } => ToolOutcome::Failure {
            code,
            error: if error.len() > MAX_RESULT_BYTES {
                cut(&error)
            } else {
                error
            },
            output: cut_output(output),
        },
    }
}

/// Sends a request to a model, in its span. Dropping the future cancels the request.
pub(crate) async fn ask_model(
    model: std::sync::Arc<dyn ChatModel>,
    request: ChatRequest,
    span: Span,
) -> Result<ModelReply, ModelFailure> {
    let reply = AssertUnwindSafe(async move { model.chat(request).await })
        .catch_unwind()
        .instrument(span.clone())
        .await
        .unwrap_or_else(|panic| {
            Err(ModelFailure {
                kind: ModelFailureKind::Panicked,
                message: format!("the model client panicked: {}", panic_message(panic.as_ref())),
            })
        });
    spans::record_reply(&span, &reply);
    reply
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    panic
        .downcast_ref::<String>()
        .cloned()
        .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
        .unwrap_or_else(|| "no message".to_owned())
}
