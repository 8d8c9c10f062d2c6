//! The `tracing` spans of a run: the run, its iterations, its agents, and their model requests and tool
//! calls, each nested in the span before it.
//!
//! Names and attributes follow OpenTelemetry's semantic conventions for generative AI. Names that the
//! conventions do not define begin with `dirigent.` (`docs/tracing.md`). No span contains text from the user,
//! a model or a tool.

use dirigent_core::agent_report::AgentReport;
use dirigent_core::brief::AgentBrief;
use dirigent_core::end_reason::EndReason;
use dirigent_core::id::{EffectId, RunId};
use dirigent_core::message::{ModelFailure, ModelReply, Usage};
use dirigent_core::tool::{ToolOutcome, ToolResult};
use serde::Serialize;
use serde_json::Value;
use tracing::field::{Empty, display};
use tracing::{Span, info_span};

/// Creates the span of a run, for the time while this process owns the run. Its parent is the caller's
/// current span.
pub(crate) fn run(run: RunId) -> Span {
    info_span!(
        "invoke_workflow",
        gen_ai.operation.name = "invoke_workflow",
        gen_ai.workflow.name = "dirigent",
        gen_ai.conversation.id = %run,
        gen_ai.usage.input_tokens = Empty,
        gen_ai.usage.output_tokens = Empty,
        dirigent.cost = Empty,
        dirigent.outcome = Empty,
        "error.type" = Empty,
    )
}

/// Records the end of a run and what it has used.
pub(crate) fn record_end(span: &Span, end: &EndReason, usage: &Usage) {
    if span.is_disabled() {
        return;
    }
    if let EndReason::Failed { .. } = end {
        span.record("error.type", "failed");
    }
    span.record("dirigent.outcome", name_in_json(end, "reason"));
    record_usage(span, usage);
}

/// Creates the span of a planning iteration.
pub(crate) fn iteration(run: &Span, number: u32) -> Span {
    info_span!(parent: run, "iteration", dirigent.iteration = number)
}

/// Creates the span of an agent.
pub(crate) fn agent(parent: &Span, run: RunId, brief: &AgentBrief) -> Span {
    let name = brief.role.name();
    info_span!(
        parent: parent,
        "invoke_agent",
        otel.name = format_args!("invoke_agent {name}"),
        gen_ai.operation.name = "invoke_agent",
        gen_ai.agent.name = name,
        gen_ai.agent.id = %brief.agent,
        gen_ai.conversation.id = %run,
        gen_ai.usage.input_tokens = Empty,
        gen_ai.usage.output_tokens = Empty,
        dirigent.cost = Empty,
        "error.type" = Empty,
    )
}

/// Records the report of an agent.
pub(crate) fn record_report(span: &Span, report: &AgentReport) {
    if span.is_disabled() {
        return;
    }
    if let Err(failure) = &report.result {
        span.record("error.type", name_in_json(failure, "kind"));
    }
    record_usage(span, &report.work.usage);
}

/// Creates the span of a model request, including its retries.
pub(crate) fn chat(agent: &Span, effect: EffectId, model: Option<&str>) -> Span {
    let model = model.unwrap_or("default");
    info_span!(
        parent: agent,
        "chat",
        otel.name = format_args!("chat {model}"),
        otel.kind = "client",
        gen_ai.operation.name = "chat",
        gen_ai.request.model = model,
        gen_ai.response.model = Empty,
        gen_ai.response.finish_reasons = Empty,
        gen_ai.usage.input_tokens = Empty,
        gen_ai.usage.output_tokens = Empty,
        dirigent.effect = %effect,
        dirigent.cost = Empty,
        "error.type" = Empty,
    )
}

/// Records the reply of a model.
pub(crate) fn record_reply(span: &Span, reply: &Result<ModelReply, ModelFailure>) {
    if span.is_disabled() {
        return;
    }
    match reply {
        Ok(reply) => {
            if let Some(model) = &reply.model {
                span.record("gen_ai.response.model", model.as_str());
            }
            span.record("gen_ai.response.finish_reasons", name_in_json(&reply.finish, ""));
            record_usage(span, &reply.usage);
        }
        Err(failure) => {
            span.record("error.type", name_in_json(&failure.kind, "kind"));
        }
    }
}

/// Creates the span of a tool call.
pub(crate) fn tool(parent: &Span, effect: EffectId, tool: &str) -> Span {
    info_span!(
        parent: parent,
        "execute_tool",
        otel.name = format_args!("execute_tool {tool}"),
        gen_ai.operation.name = "execute_tool",
        gen_ai.tool.name = tool,
        gen_ai.tool.r#type = "function",
        gen_ai.tool.call.id = %effect,
        "error.type" = Empty,
    )
}

/// Records the failure code of a tool call that failed.
pub(crate) fn record_result(span: &Span, result: &ToolResult) {
    if let ToolOutcome::Failure { code, .. } = &result.outcome {
        span.record("error.type", if code.is_empty() { "failed" } else { code });
    }
}

fn record_usage(span: &Span, usage: &Usage) {
    span.record("gen_ai.usage.input_tokens", usage.input_tokens);
    span.record("gen_ai.usage.output_tokens", usage.output_tokens);
    span.record("dirigent.cost", display(usage.cost));
}

/// Returns the name of a variant from its JSON: the JSON itself if it is a string, otherwise the value of
/// `key` or, without `key`, the only key.
fn name_in_json(variant: &impl Serialize, key: &str) -> String {
    match serde_json::to_value(variant) {
        Ok(Value::String(name)) => name,
        Ok(Value::Object(fields)) => match fields.get(key) {
            Some(Value::String(name)) => name.clone(),
            _ => fields.keys().next().cloned().unwrap_or_default(),
        },
        _ => String::new(),
    }
}
