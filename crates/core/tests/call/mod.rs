//! How a reply's calls are parsed in each form (CALL-1 to CALL-5, CALL-7), and the reply schema that a server is asked to enforce.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod auto;
mod faults;
mod forms;
mod honest;
mod json;
mod properties;
mod quoted;
mod samples;
mod schema;

use dirigent_core::agent_spec::AnswerForm;
use dirigent_core::call::{CallForm, ContextCalls, MalformedReply, ReplyContent, ReplyParser, parse};
use dirigent_core::message::{FinishReason, ModelReply, ToolCall, Usage};
use dirigent_core::submission::submission_tool;
use dirigent_core::tool::{Access, Repeat, ToolCategory, ToolSpec};
use serde_json::{Value, json};

const FORMS: [CallForm; 5] = [
    CallForm::Json,
    CallForm::JsonSchema,
    CallForm::Native,
    CallForm::ToolCall,
    CallForm::Auto,
];

fn reply(content: &str, finish: FinishReason) -> ModelReply {
    ModelReply {
        content: content.to_owned(),
        calls: Vec::new(),
        malformed_calls: Vec::new(),
        finish,
        usage: Usage::default(),
        model: None,
    }
}

fn said_in(form: CallForm, content: &str) -> Result<ReplyContent, MalformedReply> {
    parse(&reply(content, FinishReason::Stop), form)
}

/// Parses a reply after these messages, by a model that has these tools.
fn said_after(
    form: CallForm,
    given: &[&str],
    tools: &[ToolSpec],
    content: &str,
) -> Result<ReplyContent, MalformedReply> {
    let mut calls = ContextCalls::new(tools);
    for text in given {
        calls.add(text);
    }
    let parser = ReplyParser {
        form,
        tools,
        context: &calls,
    };
    parser.parse(&reply(content, FinishReason::Stop))
}

/// The tools of a lead.
fn leads_tools() -> Vec<ToolSpec> {
    let tool = |name: &str| ToolSpec {
        category: ToolCategory::Other,
        changes_where: None,
        read_only: None,
        name: name.to_owned(),
        description: "A tool.".to_owned(),
        parameters: json!({"type": "object"}),
        repeat: Repeat::Safe,
        access: Access::ReadOnly,
        requires_approval: false,
        approval_where: None,
        rules: Vec::new(),
        example: Value::Null,
    };
    let mut tools = vec![tool("list_files"), tool("search")];
    tools.extend(submission_tool(AnswerForm::Plan));
    tools
}

/// The error of a malformed reply.
fn fault_in(form: CallForm, content: &str) -> String {
    said_in(form, content).expect_err(content).to_string()
}

fn call(tool: &str, parameters: Value, terminate: bool) -> ToolCall {
    ToolCall {
        id: String::new(),
        tool: tool.to_owned(),
        parameters,
        terminate,
    }
}

fn one_call(tool: &str, parameters: Value, terminate: bool) -> Result<ReplyContent, MalformedReply> {
    Ok(ReplyContent::Calls(vec![call(tool, parameters, terminate)]))
}

fn in_prose(text: &str) -> Result<ReplyContent, MalformedReply> {
    Ok(ReplyContent::CallInProse(text.to_owned()))
}

fn text(text: &str) -> Result<ReplyContent, MalformedReply> {
    Ok(ReplyContent::Text(text.to_owned()))
}
