//! Workflows as JSON, the same in every interface.

use dirigent_core::mode::Mode;
use dirigent_core::policy::{Rule, Ruling};
use serde_json::{Value, json};

use crate::workflows::{Parameter, ParameterKind, Workflow, WorkflowSource, Workflows};

/// The workflows of a category, or all, and the files that define none.
pub fn workflows(workflows: &Workflows, category: Option<&str>) -> Value {
    let listed = workflows.in_category(category).map(workflow);
    let refused = workflows.refused.iter().map(|refused| {
        json!({"name": refused.name, "file": refused.path, "line": refused.line, "reason": refused.reason})
    });
    let untrusted = workflows
        .untrusted
        .iter()
        .map(|file| json!({"name": file.name, "file": file.path, "digest": file.digest}));
    json!({
        "workflows": listed.collect::<Vec<_>>(),
        "untrusted": untrusted.collect::<Vec<_>>(),
        "refused": refused.collect::<Vec<_>>(),
    })
}

/// A workflow with its parameters, its restrictions and its template.
pub fn workflow(workflow: &Workflow) -> Value {
    let rules = workflow
        .rules
        .iter()
        .map(|rule| json!({"ruling": ruling(rule), "calls": rule.calls.to_string()}));
    json!({
        "name": workflow.name,
        "usage": workflow.usage(),
        "description": workflow.description,
        "category": workflow.category,
        "parameters": workflow.parameters.iter().map(workflow_parameter).collect::<Vec<_>>(),
        "agent": workflow.agent,
        "mode": workflow_mode(workflow.mode),
        "tools": workflow.tools,
        "approval": rules.collect::<Vec<_>>(),
        "source": source_name(&workflow.source),
        "file": workflow.source.file(),
        "notes": workflow.notes,
        "template": workflow.template,
    })
}

/// A parameter with the values that it can have.
pub fn workflow_parameter(parameter: &Parameter) -> Value {
    let choices = match &parameter.kind {
        ParameterKind::Choice(choices) => Some(choices),
        ParameterKind::String
        | ParameterKind::Integer
        | ParameterKind::Number
        | ParameterKind::Boolean
        | ParameterKind::Path => None,
    };
    json!({
        "name": parameter.name,
        "type": parameter.kind.name(),
        "required": parameter.needs_value(),
        "default": parameter.default,
        "pattern": parameter.pattern,
        "choices": choices,
        "description": parameter.description,
    })
}

fn source_name(source: &WorkflowSource) -> &'static str {
    match source {
        WorkflowSource::Shipped => "shipped",
        WorkflowSource::User(_) => "user",
        WorkflowSource::Project(_) => "project",
    }
}

/// The mode of a workflow as its file has it.
pub fn workflow_mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Auto => "auto",
        Mode::Plan | Mode::ApprovedPlan => "plan",
    }
}

/// What a rule rules, as workflow files have it.
pub fn ruling(rule: &Rule) -> &'static str {
    match rule.ruling {
        Ruling::Allow => "allow",
        Ruling::Ask => "ask",
        Ruling::Deny => "deny",
    }
}
