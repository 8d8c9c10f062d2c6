//! Events as lines of text, for files, pipes and terminals that cannot redraw.

use std::collections::BTreeMap;

use console::style;
use dirigent::events::{
    EffectId, Observation, Plan, RunId, SUBMIT_PLAN, Scope, StateChange, SubTaskResult, Work, Worktree,
};
use dirigent::report::ReflectionVerdict;
use dirigent::{Event, EventKind};

use crate::call_name::call_name;
use crate::output::sanitize;
use crate::request_text::{allowed_text, decision_text, one_line, question_lines};

/// Turns the events of a run into lines, in order.
#[derive(Default)]
pub(crate) struct EventLines {
    /// The names of the running calls.
    calls: BTreeMap<EffectId, String>,
    /// The heading of the current phase, until something happens in the phase.
    heading: Option<String>,
}

impl EventLines {
    /// Returns an event as one or more lines, below the heading of its phase if they are the first of the phase; `None` for events that are
    /// not shown.
    pub(crate) fn lines(&mut self, event: &Event) -> Option<String> {
        match &event.kind {
            EventKind::PhaseChanged { transition } => {
                // The summary tells how the run ended.
                let is_shown = !transition.to.is_terminal();
                self.heading = is_shown.then(|| {
                    let iteration = if transition.iteration > 1 {
                        format!(" (iteration {})", transition.iteration)
                    } else {
                        String::new()
                    };
                    format!("{}{iteration}", style(transition.to.to_string()).bold())
                });
                return None;
            }
            EventKind::ToolStarted {
                effect,
                tool,
                parameters,
                ..
            } => {
                self.calls.insert(*effect, call_name(tool, parameters));
            }
            _ => {}
        }
        let call = match &event.kind {
            EventKind::ToolFinished { effect, tool, .. } => {
                let name = self.calls.remove(effect);
                name.unwrap_or_else(|| sanitize(tool))
            }
            _ => String::new(),
        };
        let text = lines(event, &call)?;
        Some(match self.heading.take() {
            Some(heading) => format!("{heading}\n{text}"),
            None => text,
        })
    }
}

/// An event as one or more lines; `None` for events that are not shown, and for changes of the phase. `call` is the name of a finished call.
fn lines(event: &Event, call: &str) -> Option<String> {
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
        EventKind::PlanMade { plan } => plan_lines(plan),
        EventKind::SubTaskStarted {
            subtask,
            title,
            agent,
        } => {
            let label = sanitize(&format!("{subtask}: {title}"));
            let agent = agent.map_or_else(String::new, |agent| format!(" ({agent})"));
            format!("  {} {label}{agent}", style("▶").cyan())
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
            let mut text = format!("    {sign} {}: {call} ({duration})", event.scope);
            // The error of a command says how it exited.
            let is_shown = |change: &&StateChange| {
                error.is_none() || !matches!(change, StateChange::ProcessExited { .. })
            };
            for change in changes.iter().filter(is_shown) {
                text.push_str(&format!("\n        {}", sanitize(&change.to_string())));
            }
            if let Some(error) = error {
                text.push_str(&format!("\n        {}", sanitize(first_line(error))));
            }
            text
        }
        EventKind::ToolRefused {
            tool,
            parameters,
            error,
        } => format!(
            "    {} {}: {} (refused: {})",
            style("✗").red(),
            event.scope,
            call_name(tool, parameters),
            sanitize(&short_error(error))
        ),
        // The summary of the run has the reflector's summary, unless the run continues.
        EventKind::Reflected { reflection } => match reflection.verdict {
            ReflectionVerdict::Continue => {
                format!("  reflector: continue: {}", sanitize(&reflection.summary))
            }
            ReflectionVerdict::Achieved | ReflectionVerdict::AskUser | ReflectionVerdict::Failed => {
                return None;
            }
        },
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

/// Returns the first line of an error, with the second one if the first announces it.
fn short_error(error: &str) -> String {
    let mut lines = error.lines();
    let first = lines.next().unwrap_or_default();
    match lines.next() {
        Some(second) if first.ends_with(':') => format!("{first} {}", second.trim_start_matches("- ")),
        Some(_) | None => first.to_owned(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use dirigent::events::{Phase, SubTaskId, Timestamp, Transition};
    use serde_json::json;

    use super::*;

    /// The lines of these events, without colours.
    fn shown(events: impl IntoIterator<Item = EventKind>) -> String {
        let run = "0190a1b2-c3d4-7e5f-8a6b-0123456789ab".parse::<RunId>().unwrap();
        let mut lines = EventLines::default();
        let texts = events.into_iter().filter_map(|kind| {
            let scope = Scope::Agent(dirigent::AgentId(1));
            lines.lines(&Event::new(run, 1, Timestamp(1), scope, kind))
        });
        let text = texts.collect::<Vec<_>>().join("\n");
        console::strip_ansi_codes(&text).into_owned()
    }

    fn entered(to: Phase, iteration: u32) -> EventKind {
        EventKind::PhaseChanged {
            transition: Transition {
                from: Phase::Idle,
                to,
                iteration,
            },
        }
    }

    #[test]
    fn host_3_calls_are_named_and_the_exit_of_a_command_is_shown_once() {
        let effect = |text: &str| text.parse::<EffectId>().unwrap();
        let started = |id: &str, tool: &str, parameters| EventKind::ToolStarted {
            effect: effect(id),
            tool: tool.to_owned(),
            parameters,
            subtask: None,
        };
        let finished = |id: &str, tool: &str, error: Option<&str>, changes| EventKind::ToolFinished {
            effect: effect(id),
            tool: tool.to_owned(),
            success: error.is_none(),
            code: None,
            error: error.map(str::to_owned),
            duration: dirigent::Millis(7),
            changes,
            metadata: serde_json::Map::new(),
        };
        let exited = |code| StateChange::ProcessExited {
            command: "cargo test".to_owned(),
            code: Some(code),
            files: Vec::new(),
        };
        let read = json!({"operation": "read", "path": "src/a.rs"});
        let command = json!({"command": ["cargo", "test"]});
        insta::assert_snapshot!(shown([
            started("a1.2", "file_operations", read),
            started("a1.3", "execute_command", command.clone()),
            finished("a1.3", "execute_command", Some("`cargo test` exited with 1\nand more"), vec![exited(1)]),
            finished("a1.2", "file_operations", None, Vec::new()),
            started("a1.4", "execute_command", command),
            finished("a1.4", "execute_command", None, vec![exited(0)]),
            finished("a1.5", "search", None, Vec::new()),
        ]), @r"
        ✗ a1: execute_command cargo test (7 ms)
            `cargo test` exited with 1
        · a1: file_operations read src/a.rs (7 ms)
        · a1: execute_command cargo test (7 ms)
            `cargo test` exited with 0
        · a1: search (7 ms)
        ");
    }

    #[test]
    fn host_3_refused_calls_and_the_reason_to_continue_are_shown() {
        let judged = |verdict, summary: &str| EventKind::Reflected {
            reflection: serde_json::from_value(json!({"verdict": verdict, "summary": summary})).unwrap(),
        };
        let refused = |tool: &str, parameters, error: &str| EventKind::ToolRefused {
            tool: tool.to_owned(),
            parameters,
            error: error.to_owned(),
        };
        insta::assert_snapshot!(shown([
            refused("execute_sql", json!({"sql": "DELETE FROM orders"}), "the agent has read-only access\nmore"),
            refused("submit_plan", json!({}), "the plan was refused; correct these errors and submit it again:\n- `a` is no agent"),
            judged("continue", "The test is missing."),
            judged("achieved", "Done."),
        ]), @r"
          ✗ a1: execute_sql DELETE FROM orders (refused: the agent has read-only access)
          ✗ a1: submit_plan (refused: the plan was refused; correct these errors and submit it again: `a` is no agent)
        reflector: continue: The test is missing.
        ");
    }

    #[test]
    fn host_3_only_phases_with_activity_have_a_heading() {
        let resumed = || EventKind::Resumed;
        insta::assert_snapshot!(shown([
            entered(Phase::Planning, 1),
            resumed(),
            entered(Phase::Acting, 1),
            entered(Phase::Observing, 1),
            entered(Phase::Reflecting, 1),
            entered(Phase::Planning, 2),
            resumed(),
            resumed(),
            entered(Phase::Complete, 2),
        ]), @r"
        Planning
          a1 resumed
        Planning (iteration 2)
          a1 resumed
          a1 resumed
        ");
    }

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
