//! A run's report as text: the concise summary (PAOR-10), or with every step and observation (PAOR-11).

use std::fmt::Write as _;

use dirigent_core::approval::Approval;
use dirigent_core::budget::BudgetKind;
use dirigent_core::confirmation::Confirmation;
use dirigent_core::end_reason::{EndReason, FailureCause};
use dirigent_core::observation::{ObservedCall, SubTaskResult};
use dirigent_core::question::Question;
use dirigent_core::run::{ChangedFile, GuidanceStatus, IterationReport, Report, WaitingCall};
use dirigent_core::text::{shorten, single_line};
use dirigent_core::tool::ToolOutcome;
use serde_json::Value;

use super::Detail;

/// Maximum number of changed files in a concise report.
const MAX_FILES: usize = 20;
/// Maximum length of the parameters of a call that is waiting for approval, in characters.
const MAX_PARAMETERS: usize = 200;
/// Maximum length of a call that confirmed the result, and of its line, in characters.
const MAX_COMMAND: usize = 120;
/// Maximum length of a call's output, in characters.
const MAX_OUTPUT: usize = 2_000;

/// Renders the report of a run.
pub fn report(report: &Report, detail: Detail) -> String {
    let mut text = headline(report);
    if let Some(EndReason::Failed { error, .. }) = &report.end
        && *error != report.summary
    {
        let _ = writeln!(text, "\n{}", error.trim());
    }
    // A question often begins with the reflector's summary.
    let repeated = report
        .question
        .as_ref()
        .is_some_and(|question| question.question.starts_with(&report.summary));
    if let Some(answer) = &report.answer {
        let _ = writeln!(text, "\n{}", answer.trim());
    }
    if !report.summary.is_empty() && !repeated {
        let judge = match report.answer {
            Some(_) => "Reflector (achieved): ",
            None => "",
        };
        let _ = writeln!(text, "\n{judge}{}", report.summary.trim());
    }
    match report.questions.as_slice() {
        [] | [_] => {
            if let Some(asked) = &report.question {
                question(&mut text, "\nQuestion", asked);
            }
        }
        several => {
            let _ = writeln!(text, "\nQuestions:");
            for asked in several {
                let who = asked.agent.as_deref().unwrap_or("the run");
                question(&mut text, &format!("{}, {who}", asked.effect), &asked.question);
            }
        }
    }
    if !report.waiting.is_empty() {
        let _ = writeln!(text, "\nWaiting for your approval:");
        report
            .waiting
            .iter()
            .for_each(|call| waiting_call(&mut text, call));
    }
    changed_files(&mut text, report, detail);
    if report.is_achieved() {
        let confirmed_by: Vec<String> = report.confirmed_by.iter().map(confirmation).collect();
        section(&mut text, "Confirmed by:", &confirmed_by);
    }
    section(&mut text, "Rejected by you:", &report.rejected);
    section(&mut text, "Replaced by your guidance:", &report.guided);
    let guidance: Vec<String> = report.guidance.iter().map(guidance_line).collect();
    section(&mut text, "Your guidance:", &guidance);
    if !matches!(report.end, Some(EndReason::GoalAchieved) | None) {
        section(&mut text, "Remaining:", &report.remaining);
    }
    if let Some(next) = next_step(report) {
        let _ = writeln!(text, "\n{next}");
    }
    match detail {
        Detail::Concise => {}
        Detail::Verbose => report
            .iterations
            .iter()
            .for_each(|one| iteration(&mut text, one, &ShownAbove(report))),
    }
    text
}

/// The answer and the summary that the report begins with, which a verbose report does not repeat.
struct ShownAbove<'a>(&'a Report);

impl ShownAbove<'_> {
    /// Returns the text, or a reference to it if the report begins with it.
    fn or_reference<'t>(&self, text: &'t str) -> &'t str {
        let is = |shown: &str| !shown.is_empty() && shown.trim() == text.trim();
        if self.0.answer.as_deref().is_some_and(is) {
            "(the answer above)"
        } else if is(&self.0.summary) {
            "(the summary above)"
        } else {
            text
        }
    }
}

fn question(text: &mut String, label: &str, asked: &Question) {
    let _ = writeln!(text, "{label}: {}", asked.question);
    for (number, choice) in (1..).zip(&asked.choices) {
        let _ = writeln!(text, "  {number}  {choice}");
    }
}

/// Returns the call and its exit code, and below them the relevant line of its output.
fn confirmation(confirmation: &Confirmation) -> String {
    let mut text = single_line(&confirmation.command, MAX_COMMAND);
    let code = confirmation.exit_code.map(|code| format!("exit code {code}"));
    let before = confirmation
        .failed_before
        .map(|_| "failed before the changes too".to_owned());
    let notes: Vec<String> = code.into_iter().chain(before).collect();
    if !notes.is_empty() {
        let _ = write!(text, " ({})", notes.join(", "));
    }
    if let Some(line) = &confirmation.line {
        let _ = write!(text, "\n    {}", single_line(line, MAX_COMMAND));
    }
    text
}

fn headline(report: &Report) -> String {
    let outcome = match &report.end {
        Some(EndReason::GoalAchieved) => "Goal achieved".to_owned(),
        Some(EndReason::Failed { .. }) => "Failed".to_owned(),
        Some(EndReason::Cancelled) => "Cancelled".to_owned(),
        Some(EndReason::UserRequired) => "Waiting for you".to_owned(),
        Some(
            reason @ (EndReason::IterationLimit { .. }
            | EndReason::TimeLimit
            | EndReason::BudgetExhausted { .. }),
        ) => {
            format!("Stopped at a limit ({reason})")
        }
        None => format!("Not finished: {}", report.phase),
    };
    // A cost of zero means that no price is known.
    let cost = if report.usage.cost.is_zero() {
        String::new()
    } else {
        format!(", {}", report.usage.cost)
    };
    let refused = match report.refused_calls {
        0 => String::new(),
        refused => format!(" ({refused} refused)"),
    };
    let tool_calls = report.usage.tool_calls.saturating_add(report.refused_calls);
    format!(
        "{outcome} after {}, {}: {}, {}{refused}, {} tokens{cost}.\n",
        count(report.iteration_count as usize, "iteration"),
        report.duration,
        count(report.usage.model_calls as usize, "model call"),
        count(tool_calls as usize, "tool call"),
        report.usage.tokens(),
    )
}

/// Lists the changes by file tools and, separately, the changes made while commands were running, and the changes of databases (PAOR-10).
fn changed_files(text: &mut String, report: &Report, detail: Detail) {
    let files = count(report.changed.len(), "file");
    file_list(text, &format!("Changed {files}"), &report.changed, detail);
    for command in &report.changed_during_commands {
        let files = count(command.files.len(), "file");
        let title = format!("{files} {}", command.title());
        file_list(text, &title, &command.files, detail);
    }
    if !report.changed_databases.is_empty() {
        text.push_str("\nIn databases:\n");
    }
    for change in &report.changed_databases {
        let _ = writeln!(text, "  {change}");
    }
}

fn file_list(text: &mut String, title: &str, files: &[ChangedFile], detail: Detail) {
    if files.is_empty() {
        return;
    }
    let _ = writeln!(text, "\n{title}:");
    let shown = match detail {
        Detail::Concise => MAX_FILES,
        Detail::Verbose => usize::MAX,
    };
    for ChangedFile { path, kind } in files.iter().take(shown) {
        let _ = writeln!(text, "  {kind:<7}  {path}");
    }
    if files.len() > shown {
        let _ = writeln!(text, "  and {} more", files.len() - shown);
    }
}

/// Returns how to continue the run (PAOR-3); `None` if it has not ended, achieved its goal, or failed and cannot be resumed.
fn next_step(report: &Report) -> Option<String> {
    let more = match report.end.as_ref()? {
        EndReason::GoalAchieved => return None,
        EndReason::Failed { cause, .. } => {
            return match cause {
                FailureCause::Unrecoverable => None,
                FailureCause::ModelUnavailable => {
                    Some("To continue, resume the run once its model can be reached.".to_owned())
                }
                FailureCause::AgentLimit => Some("To continue, resume the run.".to_owned()),
            };
        }
        EndReason::UserRequired if !report.waiting.is_empty() => {
            return Some(
                "To continue, decide about the calls that are waiting for your approval, then resume the run."
                    .to_owned(),
            );
        }
        EndReason::UserRequired if report.questions.len() > 1 => {
            return Some("To continue, answer the questions, then resume the run.".to_owned());
        }
        EndReason::UserRequired => {
            return Some("To continue, answer the question by resuming the run.".to_owned());
        }
        EndReason::IterationLimit { .. } => " with more iterations allowed",
        EndReason::TimeLimit => " with more time allowed",
        EndReason::BudgetExhausted { budget, .. } => match budget {
            BudgetKind::Tokens => " with more tokens allowed",
            BudgetKind::Cost => " with more money allowed",
            BudgetKind::ModelCalls => " with more model calls allowed",
        },
        EndReason::Cancelled => {
            return Some(
                "All changes so far stay in the workspace. To continue, start the same goal again."
                    .to_owned(),
            );
        }
    };
    Some(format!("To continue, resume the run{more}."))
}

fn guidance_line(status: &GuidanceStatus) -> String {
    match status.iteration {
        Some(iteration) => format!("{} (for the plan of iteration {iteration})", status.guidance),
        None => format!("{} (not yet in a plan)", status.guidance),
    }
}

fn waiting_call(text: &mut String, call: &WaitingCall) {
    let Approval {
        effect,
        agent,
        tool,
        parameters,
        ..
    } = &*call.approval;
    // The user sees the complete parameters before deciding.
    let parameters = single_line(&parameters.to_string(), MAX_PARAMETERS);
    let _ = writeln!(text, "  {effect}  {tool} {parameters}");
    let mut blocked = Vec::new();
    blocked.extend(agent.as_ref().map(|agent| format!("agent `{agent}`")));
    blocked.extend(
        call.subtask
            .as_ref()
            .map(|subtask| format!("sub-task `{subtask}`")),
    );
    match call.dependents {
        0 => {}
        1 => blocked.push("1 sub-task that depends on it".to_owned()),
        more => blocked.push(format!("{more} sub-tasks that depend on it")),
    }
    if !blocked.is_empty() {
        let _ = writeln!(text, "    blocks {}", blocked.join(", "));
    }
}

fn iteration(text: &mut String, report: &IterationReport, shown: &ShownAbove<'_>) {
    let _ = writeln!(text, "\nIteration {}: {}", report.iteration, report.plan.summary);
    for observation in &report.observations {
        let _ = writeln!(
            text,
            "\n  {} [{}] {} ({})",
            observation.subtask,
            observation.title,
            observation.status(),
            observation.duration
        );
        subtask_result(text, &observation.finding, shown);
    }
    if let Some(reflection) = &report.reflection {
        let _ = writeln!(
            text,
            "\n  Reflection ({}): {}",
            reflection.verdict,
            shown.or_reference(&reflection.summary)
        );
    }
}

fn subtask_result(text: &mut String, result: &SubTaskResult, shown: &ShownAbove<'_>) {
    match result {
        SubTaskResult::Skipped {
            because: Some(because),
        } => {
            let _ = writeln!(text, "    `{because}` did not succeed");
        }
        SubTaskResult::Skipped { because: None } => {
            let _ = writeln!(text, "    your guidance changed the plan");
        }
        SubTaskResult::Calls { calls } => calls.iter().for_each(|call| observed_call(text, call)),
        SubTaskResult::Agent {
            agent,
            name,
            result,
            work,
        } => {
            for call in &work.calls {
                let _ = match call.effect {
                    Some(effect) => writeln!(
                        text,
                        "    {effect} {} {} ({})",
                        call.tool, call.parameters, call.duration
                    ),
                    None => writeln!(text, "    {} {} did not run", call.tool, call.parameters),
                };
                if let Some(started) = call.agent {
                    let _ = writeln!(text, "      → started {started}");
                }
                if let Some(error) = &call.error {
                    let _ = writeln!(text, "      → {error}");
                }
            }
            match result {
                Ok(findings) => {
                    let findings = shown.or_reference(findings);
                    let _ = writeln!(text, "    {name} ({agent}) found: {findings}");
                }
                Err(failure) => {
                    let _ = writeln!(text, "    {name} ({agent}) ended without findings: {failure}");
                    if !work.findings_so_far.is_empty() {
                        let _ = writeln!(text, "      text before it ended: {}", work.findings_so_far);
                    }
                }
            }
        }
    }
}

fn observed_call(text: &mut String, observed: &ObservedCall) {
    let _ = writeln!(
        text,
        "    {} {} {} ({})",
        observed.effect, observed.call.tool, observed.call.parameters, observed.result.duration
    );
    let output = match &observed.result.outcome {
        ToolOutcome::Success { output } => output_text(output),
        ToolOutcome::Failure { error, output, .. } if output.is_null() => error.clone(),
        ToolOutcome::Failure { error, output, .. } => format!("{error}\n{}", output_text(output)),
    };
    let handle = observed.effect.to_string();
    let output = shorten(output.trim_end(), MAX_OUTPUT, Some(&handle)).replace('\n', "\n        ");
    let _ = writeln!(text, "      → {output}");
    if !observed.result.metadata.is_empty() {
        let metadata = Value::Object(observed.result.metadata.clone());
        let _ = writeln!(text, "      metadata {metadata}");
    }
}

fn output_text(output: &Value) -> String {
    output.as_str().map_or_else(|| output.to_string(), str::to_owned)
}

/// Appends a title and the lines below it; nothing if there are no lines.
fn section(text: &mut String, title: &str, lines: &[String]) {
    if lines.is_empty() {
        return;
    }
    let _ = writeln!(text, "\n{title}");
    for line in lines {
        let _ = writeln!(text, "  {line}");
    }
}

fn count(number: usize, noun: &str) -> String {
    if number == 1 {
        format!("1 {noun}")
    } else {
        format!("{number} {noun}s")
    }
}
