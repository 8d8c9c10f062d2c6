//! Workflows as text.

use std::fmt::Write as _;

use console::style;
use dirigent::workflows::{Parameter, UnderstoodSentence, WorkflowSource};
use dirigent::{Workflow, Workflows, render};

use crate::output::sanitize;

/// The workflows by category, and the files that do not define a workflow.
pub(crate) fn list(workflows: &Workflows, category: Option<&str>) -> String {
    let mut text = String::new();
    for group in workflows.categories() {
        if category.is_some_and(|category| category != group) {
            continue;
        }
        let _ = writeln!(text, "{}", style(group).bold());
        for workflow in workflows.in_category(Some(group)) {
            let _ = writeln!(text, "  {}", line(&workflow.usage()));
            let first = workflow.description.lines().next().unwrap_or_default();
            let _ = writeln!(text, "      {}{}", line(first), origin(&workflow.source));
        }
    }
    if category.is_some() {
        return text;
    }
    if !workflows.untrusted.is_empty() {
        let _ = writeln!(text, "{}", style("not trusted yet").yellow().bold());
        for file in &workflows.untrusted {
            let _ = writeln!(
                text,
                "  {}",
                line(&format!("/{}  {}", file.name, file.path.display()))
            );
        }
    }
    if !workflows.refused.is_empty() {
        let _ = writeln!(text, "{}", style("refused").red().bold());
        for refused in &workflows.refused {
            let _ = writeln!(text, "  {}", line(&refused.to_string()));
        }
    }
    text
}

fn origin(source: &WorkflowSource) -> String {
    match source {
        WorkflowSource::Shipped => String::new(),
        WorkflowSource::User(_) => "  (yours)".to_owned(),
        WorkflowSource::Project(_) => "  (project)".to_owned(),
    }
}

/// A workflow with its parameters, its restrictions and its template.
pub(crate) fn workflow(workflow: &Workflow) -> String {
    let mut text = format!("{}\n", style(line(&workflow.usage())).bold());
    let _ = writeln!(text, "{}", sanitize(&workflow.description));
    for parameter in &workflow.parameters {
        let _ = writeln!(text, "  {}", line(&parameter_text(parameter)));
    }
    let _ = writeln!(text, "category: {}", workflow.category);
    let _ = writeln!(text, "source: {}", line(&workflow.source.to_string()));
    if let Some(agent) = &workflow.agent {
        let _ = writeln!(text, "agent: {}", line(agent));
    }
    if !workflow.mode.is_auto() {
        let _ = writeln!(text, "mode: {}", render::workflow_mode(workflow.mode));
    }
    if let Some(tools) = &workflow.tools {
        let _ = writeln!(text, "tools: {}", line(&tools.join(", ")));
    }
    for rule in &workflow.rules {
        let _ = writeln!(
            text,
            "{}: {}",
            render::ruling(rule),
            line(&rule.calls.to_string())
        );
    }
    for note in &workflow.notes {
        let _ = writeln!(text, "{} {}", style("note:").yellow(), line(note));
    }
    let _ = write!(text, "\n{}", sanitize(&workflow.template));
    text
}

fn parameter_text(parameter: &Parameter) -> String {
    let mut text = format!("{}: {}", parameter.name, parameter.kind);
    match (&parameter.default, parameter.required) {
        (Some(default), _) => text.push_str(&format!(", default {default}")),
        (None, true) => {}
        (None, false) => text.push_str(", optional"),
    }
    if let Some(pattern) = &parameter.pattern {
        text.push_str(&format!(", {pattern}"));
    }
    if !parameter.description.is_empty() {
        text.push_str(&format!(" ({})", parameter.description));
    }
    text
}

/// The lines that tell what was understood of a sentence: the values, with the defaults that apply, and the values that were not used.
pub(crate) fn understood(workflow: &Workflow, sentence: &UnderstoodSentence) -> Vec<String> {
    let value = |parameter: &Parameter| {
        let found = sentence.values.get(&parameter.name);
        match (found, &parameter.default) {
            (Some(value), _) => Some(format!("{} = {value}", parameter.name)),
            (None, Some(default)) => Some(format!("{} = {default} (the default)", parameter.name)),
            (None, None) => None,
        }
    };
    let values: Vec<String> = workflow.parameters.iter().filter_map(value).collect();
    let mut lines = vec![format!("understood: {}", values.join(", "))];
    if !sentence.invented.is_empty() {
        lines.push(format!(
            "not used, because the value is not in your words: {}",
            sentence.invented.join(", ")
        ));
    }
    lines.iter().map(|text| line(text)).collect()
}

/// Untrusted text, sanitized and on one line.
fn line(text: &str) -> String {
    sanitize(&text.replace(char::is_control, " "))
}
