//! How a reply's calls are understood, form by form (CALL-1 to CALL-5, CALL-7), and what a server is asked to hold a model to.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod auto;
mod forms;
mod json;
mod properties;
mod samples;
mod schema;

use dirigent_core::call::{CallForm, Malformed, Said, ToolCall, parse};
use dirigent_core::message::{FinishReason, ModelReply, Usage};
use serde_json::Value;

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

fn said_in(form: CallForm, content: &str) -> Result<Said, Malformed> {
    parse(&reply(content, FinishReason::Stop), form)
}

/// What was wrong.
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

fn one_call(tool: &str, parameters: Value, terminate: bool) -> Result<Said, Malformed> {
    Ok(Said::Calls(vec![call(tool, parameters, terminate)]))
}

fn text(text: &str) -> Result<Said, Malformed> {
    Ok(Said::Text(text.to_owned()))
}
