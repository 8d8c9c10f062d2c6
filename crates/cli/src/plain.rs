//! A run as lines of text: for files, pipes and terminals that can't redraw.

use console::style;
use dirigent::core::observation::{Finding, Observation};
use dirigent::core::plan::{Plan, Work};
use dirigent::{Event, EventKind};

use crate::output::inert;

/// What an event says in a line or a few; none for what would only be noise.
pub(crate) fn lines(event: &Event) -> Option<String> {
    let text = match &event.kind {
        EventKind::RunStarted { goal, workspace } => {
            format!(
                "{} {goal}\nrun {}  in {workspace}",
                style("goal:").bold(),
                event.run.short()
            )
        }
        EventKind::PhaseChanged { transition } => {
            let round = if transition.iteration > 1 {
                format!(" (round {})", transition.iteration)
            } else {
                String::new()
            };
            format!("{}{round}", style(transition.to.to_string()).bold())
        }
        EventKind::PlanMade { plan } => plan_lines(plan),
        EventKind::SubTaskStarted { subtask, title, .. } => {
            format!("  {} {subtask}: {title}", style("▶").cyan())
        }
        EventKind::SubTaskFinished { observation } => {
            format!(
                "  {}",
                ended(
                    observation,
                    &format!("{}: {}", observation.subtask, observation.title)
                )
            )
        }
        EventKind::ModelFailed { error } => {
            format!("  {} the model did not answer: {error}", style("✗").red())
        }
        EventKind::ToolFinished {
            tool,
            success,
            error,
            duration,
            changes,
            ..
        } => {
            let sign = if *success {
                style("·").dim()
            } else {
                style("✗").red()
            };
            let mut text = format!("    {sign} {}: {tool} ({duration})", event.scope);
            for change in changes {
                text.push_str(&format!("\n        {change}"));
            }
            if let Some(error) = error {
                text.push_str(&format!("\n        {}", first_line(error)));
            }
            text
        }
        EventKind::Guided { guidance } => format!("  guidance: {guidance}"),
        EventKind::QuestionAsked { question, .. } => {
            let choices: String = question
                .choices
                .iter()
                .map(|choice| format!("\n    - {choice}"))
                .collect();
            format!("  {} {}{choices}", style("?").yellow().bold(), question.question)
        }
        EventKind::QuestionAnswered { answer } => format!("  answer: {answer}"),
        EventKind::Resumed => format!("  {} resumed", event.scope),
        EventKind::AgentFinished {
            failure: Some(failure),
            ..
        } => {
            format!("  {} {} ended: {failure}", style("✗").red(), event.scope)
        }
        EventKind::AgentStarted { .. }
        | EventKind::ModelReplied { .. }
        | EventKind::ToolStarted { .. }
        | EventKind::AgentFinished { failure: None, .. }
        | EventKind::RunFinished { .. } => return None,
    };
    Some(inert_keeping_style(&text))
}

fn plan_lines(plan: &Plan) -> String {
    let mut text = format!("  {} {}", style("plan:").bold(), plan.summary);
    for subtask in plan.subtasks.iter().take(50) {
        let who = match &subtask.work {
            Work::Agent { agent, .. } => agent.clone(),
            Work::Calls { calls } => calls
                .iter()
                .map(|call| call.tool.as_str())
                .collect::<Vec<_>>()
                .join(", "),
        };
        let after: Vec<&str> = subtask.depends_on.iter().map(|id| id.0.as_str()).collect();
        let after = if after.is_empty() {
            String::new()
        } else {
            format!(", after {}", after.join(", "))
        };
        text.push_str(&format!(
            "\n    {} — {} ({who}{after})",
            subtask.id, subtask.title
        ));
    }
    if plan.subtasks.len() > 50 {
        text.push_str(&format!("\n    … and {} more", plan.subtasks.len() - 50));
    }
    text
}

/// A sub-task's end in a line.
pub(crate) fn ended(observation: &Observation, label: &str) -> String {
    match &observation.finding {
        Finding::Skipped { because } => {
            format!(
                "{} {label} (skipped: {because} did not succeed)",
                style("-").yellow()
            )
        }
        Finding::Calls { .. } | Finding::Agent { .. } if observation.succeeded() => {
            format!("{} {label} ({})", style("✓").green(), observation.duration)
        }
        Finding::Calls { .. } | Finding::Agent { .. } => {
            format!("{} {label} failed ({})", style("✗").red(), observation.duration)
        }
    }
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

/// [`inert`], with the colours that were put in here left alone.
fn inert_keeping_style(text: &str) -> String {
    if console::colors_enabled() {
        let parts = console::AnsiCodeIterator::new(text);
        parts
            .map(|(part, is_code)| {
                if is_code && part.ends_with('m') {
                    part.to_owned()
                } else {
                    inert(part)
                }
            })
            .collect()
    } else {
        inert(text)
    }
}
