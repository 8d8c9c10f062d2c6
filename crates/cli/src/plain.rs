//! Events as lines of text, for files, pipes and terminals that cannot redraw.

use console::style;
use dirigent::events::{Observation, Plan, RunId, SUBMIT_PLAN, Scope, SubTaskResult, Work, Worktree};
use dirigent::{Event, EventKind};

use crate::output::sanitize;
use crate::request_text::{allowed_text, decision_text, one_line, question_lines};

/// An event as one or more lines; `None` for events that are not shown.
pub(crate) fn lines(event: &Event) -> Option<String> {
    let text = match &event.kind {
        EventKind::RunStarted {
            goal,
            workspace,
            worktree,
            instructions,
            instruction_notes,
        } => {
            let mut text = format!(
                "{} {}\nrun {}  in {}{}",
                style("goal:").bold(),
                sanitize(goal),
                event.run.short(),
                sanitize(workspace),
                worktree.as_deref().map(worktree_text).unwrap_or_default()
            );
            if !instructions.is_empty() {
                let line = format!("instructions: {}", sanitize(&instructions.join(", ")));
                text.push_str(&format!("\n{}", style(line).dim()));
            }
            for note in instruction_notes {
                let line = format!("instructions: {}", sanitize(note));
                text.push_str(&format!("\n{}", style(line).yellow()));
            }
            text
        }
        EventKind::CallsAllowed { calls } => format!("  {}", allowed_text(calls)),
        EventKind::ToolsChanged {
            service,
            added,
            removed,
            changed,
        } => {
            let text = tools_changed_text(service, added, removed, changed);
            format!("  {} {text}", style("!").yellow().bold())
        }
        EventKind::WorkspaceShared { runs } => {
            format!("  {} {}", style("!").yellow().bold(), sharing_text(runs))
        }
        // The summary shows how the run ended.
        EventKind::PhaseChanged { transition } if transition.to.is_terminal() => return None,
        EventKind::PhaseChanged { transition } => {
            let iteration = if transition.iteration > 1 {
                format!(" (iteration {})", transition.iteration)
            } else {
                String::new()
            };
            format!("{}{iteration}", style(transition.to.to_string()).bold())
        }
        EventKind::PlanMade { plan } => plan_lines(plan),
        EventKind::SubTaskStarted { subtask, title, .. } => {
            let label = sanitize(&format!("{subtask}: {title}"));
            format!("  {} {label}", style("▶").cyan())
        }
        EventKind::SubTaskFinished { observation } => {
            let label = sanitize(&format!("{}: {}", observation.subtask, observation.title));
            format!("  {}", subtask_result(observation, &label))
        }
        EventKind::ModelFailed { error } => {
            let error = sanitize(error);
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
            let mut text = format!("    {sign} {}: {} ({duration})", event.scope, sanitize(tool));
            for change in changes {
                text.push_str(&format!("\n        {}", sanitize(&change.to_string())));
            }
            if let Some(error) = error {
                text.push_str(&format!("\n        {}", sanitize(first_line(error))));
            }
            text
        }
        EventKind::Guided {
            guidance,
            immediate: false,
        } => format!("  guidance: {}", sanitize(guidance)),
        EventKind::Guided {
            guidance,
            immediate: true,
        } => format!("  immediate guidance: {}", sanitize(guidance)),
        EventKind::ApprovalAsked { approval } => {
            let plan = (approval.tool == SUBMIT_PLAN)
                .then(|| approval.parameters.get("summary")?.as_str())
                .flatten();
            let call = match plan {
                Some(summary) => format!("a plan: {summary}"),
                None => format!("{} {}", approval.tool, approval.parameters),
            };
            let call = sanitize(&call).replace('\n', " ");
            format!(
                "  {} {} waits for approval: {}\n    in full: dirigent approve {}",
                style("!").yellow().bold(),
                approval.effect,
                console::truncate_str(&call, 100, "…"),
                event.run.short()
            )
        }
        EventKind::ApprovalDecided { effect, decision } => format!("  {effect}: {}", decision_text(decision)),
        EventKind::ApprovalExpired { effect } => {
            format!(
                "  {} {effect}: not approved in time; it did not run",
                style("✗").red()
            )
        }
        EventKind::QuestionAsked {
            effect,
            agent,
            question,
        } => {
            let lines: Vec<String> = question_lines(*effect, agent.as_deref(), question)
                .into_iter()
                .map(|line| format!("  {line}"))
                .collect();
            lines.join("\n")
        }
        EventKind::QuestionAnswered { effect, answer } => match effect.scope {
            Scope::Run => format!("  answer: {}", sanitize(answer)),
            Scope::Agent(_) => format!("  {effect}, answer: {}", sanitize(answer)),
        },
        EventKind::QuestionExpired { effect } => {
            format!("  {} {effect}: not answered in time", style("✗").red())
        }
        EventKind::Resumed => format!("  {} resumed", event.scope),
        EventKind::AgentFinished {
            failure: Some(failure),
            ..
        } => {
            let failure = sanitize(&failure.to_string());
            format!("  {} {} ended: {failure}", style("✗").red(), event.scope)
        }
        _ => return None,
    };
    Some(text)
}

/// Describes a worktree: the folder and the commit that it was created from, and the number of uncommitted changes that it does not
/// contain.
fn worktree_text(worktree: &Worktree) -> String {
    let Worktree {
        origin,
        commit,
        uncommitted,
        ..
    } = worktree;
    let commit: String = commit.chars().take(8).collect();
    let missing = match uncommitted {
        0 => String::new(),
        1 => "\n1 uncommitted change of that folder is not in the worktree".to_owned(),
        files => format!("\n{files} uncommitted changes of that folder are not in the worktree"),
    };
    sanitize(&format!("\na worktree of {origin} at {commit}{missing}"))
}

/// Returns the note that other runs work in the same folder.
pub(crate) fn sharing_text(runs: &[RunId]) -> String {
    let ids: Vec<String> = runs.iter().map(|run| run.short()).collect();
    match runs.len() {
        1 => format!("run {} works in this folder, too", ids[0]),
        _ => format!("runs {} work in this folder, too", ids.join(", ")),
    }
}

/// How the tools of a service have changed, on one line.
pub(crate) fn tools_changed_text(
    service: &str,
    added: &[String],
    removed: &[String],
    changed: &[String],
) -> String {
    let names = |names: &[String]| one_line(&names.join(", "));
    let mut parts = Vec::new();
    if !added.is_empty() {
        parts.push(format!("new: {}", names(added)));
    }
    if !removed.is_empty() {
        parts.push(format!("gone: {}", names(removed)));
    }
    if !changed.is_empty() {
        let changed = names(changed);
        parts.push(format!(
            "other descriptions or parameters than before, so check what they do now: {changed}"
        ));
    }
    format!(
        "the tools of the service {} changed; {}",
        one_line(service),
        parts.join("; ")
    )
}

/// Returns true if the event confirms an input of the user. Such an event is shown at once, even while a dialog is open.
pub(crate) fn is_user_action(event: &Event) -> bool {
    matches!(
        event.kind,
        EventKind::Guided { .. } | EventKind::ApprovalDecided { .. } | EventKind::QuestionAnswered { .. }
    )
}

fn plan_lines(plan: &Plan) -> String {
    let mut text = format!("  {} {}", style("plan:").bold(), sanitize(&plan.summary));
    for subtask in plan.subtasks.iter().take(50) {
        let worker = match &subtask.work {
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
        let may_fail = if subtask.may_fail { ", may fail" } else { "" };
        let line = format!("{} — {} ({worker}{after}{may_fail})", subtask.id, subtask.title);
        text.push_str(&format!("\n    {}", sanitize(&line)));
    }
    if plan.subtasks.len() > 50 {
        text.push_str(&format!("\n    … and {} more", plan.subtasks.len() - 50));
    }
    text
}

/// A finished sub-task as one line. The label must be sanitized.
pub(crate) fn subtask_result(observation: &Observation, label: &str) -> String {
    match &observation.finding {
        SubTaskResult::Skipped { because } => {
            let because = because.as_ref().map_or_else(
                || "your guidance changed the plan".to_owned(),
                |because| format!("{} did not succeed", sanitize(&because.0)),
            );
            format!("{} {label} (skipped: {because})", style("-").yellow())
        }
        SubTaskResult::Calls { .. } | SubTaskResult::Agent { .. } if observation.succeeded() => {
            format!("{} {label} ({})", style("✓").green(), observation.duration)
        }
        SubTaskResult::Calls { .. } | SubTaskResult::Agent { .. } if observation.failed_as_allowed() => {
            format!(
                "{} {label} failed, which the plan allows ({})",
                style("✗").yellow(),
                observation.duration
            )
        }
        SubTaskResult::Calls { .. } | SubTaskResult::Agent { .. } => {
            format!("{} {label} failed ({})", style("✗").red(), observation.duration)
        }
    }
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use dirigent::events::SubTaskId;

    use super::*;

    #[test]
    fn host_3_the_reason_for_a_skip_is_sanitized() {
        let observation = Observation {
            subtask: SubTaskId("b".to_owned()),
            title: "Then".to_owned(),
            duration: dirigent::Millis(0),
            may_fail: false,
            finding: SubTaskResult::Skipped {
                because: Some(SubTaskId("a\u{1b}[31m".to_owned())),
            },
        };
        let line = subtask_result(&observation, "b: Then");
        assert!(
            line.ends_with(" b: Then (skipped: a\u{fffd}[31m did not succeed)"),
            "{line:?}"
        );
    }
}
