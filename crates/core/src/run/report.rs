//! What a user reads of a run: the concise summary (PAOR-10), and with every step on request (PAOR-11). Computed from
//! the run's state, so from its journal, and nothing else.

use std::collections::BTreeSet;
use std::fmt::{self, Write as _};
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use super::changes::{ChangedFile, FileChangeKind, changed_files, changes, confirmations, diff};
use super::rejections::{guided, rejections};
use super::{Iteration, Run};
use crate::agent_report::AgentWork;
use crate::approval::Approval;
use crate::budget::BudgetKind;
use crate::end_reason::{EndReason, FailureCause};
use crate::id::SubTaskId;
use crate::message::Usage;
use crate::observation::{Observation, SubTaskResult};
use crate::phase::Phase;
use crate::plan::{Plan, PlanGraph, SubTaskState};
use crate::question::Question;
use crate::reflection::Reflection;
use crate::text::shorten;
use crate::time::Millis;
use crate::tool::ToolOutcome;
use crate::usage::UsageReport;

/// How many of the changed files a concise report names.
const SHOWN_FILES: usize = 20;
/// Characters of the parameters of a call that waits.
const SHOWN_PARAMETERS: usize = 200;
/// Characters of a command that confirmed the changes.
const SHOWN_COMMAND: usize = 120;

/// A run as far as it is.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The user's goal.
    pub goal: String,
    /// The phase it is in.
    pub phase: Phase,
    /// Why it ended or stands still; none while it goes on.
    #[serde(flatten)]
    pub end: Option<EndReason>,
    /// What came of it, in the reflector's or the planner's words.
    pub summary: String,
    /// The question that waits for the user, or that a limit left no iteration to ask for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub question: Option<Question>,
    /// The calls that wait for a person, what has waited longest first. Of agents' calls only
    /// [`RunView::report`](crate::view::RunView::report) knows.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<WaitingCall>,
    /// The files that are not what they were.
    pub changed: Vec<ChangedFile>,
    /// Commands that succeeded after the last change of a file.
    pub confirmed_by: Vec<String>,
    /// The calls that the user rejected and that ended a sub-task by it, each with its sub-task and the reason (APPROVE-2).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rejected: Vec<String>,
    /// The calls of plans and agents that did not run, as the user had other words, each with its sub-task and those words (APPROVE-2).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub guided: Vec<String>,
    /// The user's guidance, each with the iteration whose plan answers it (PAOR-8).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub guidance: Vec<GuidanceStatus>,
    /// What was planned in the last iteration and not done, each with why.
    pub remaining: Vec<String>,
    /// Planning iterations.
    pub iteration_count: u32,
    /// What was used.
    pub usage: Usage,
    /// The same for each agent and each model, with the times. [`RunView::report`](crate::view::RunView::report) has it; the
    /// run alone does not know it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account: Option<UsageReport>,
    /// From its start to its last input.
    pub duration: Millis,
    /// Every iteration with its plan and observations.
    pub iterations: Vec<IterationReport>,
}

/// What the user had to say. JSON: `{"guidance": "…", "iteration": 2}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GuidanceStatus {
    /// The user's words.
    pub guidance: String,
    /// The iteration whose plan answers it; none while no planner was given it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iteration: Option<u32>,
}

impl fmt::Display for GuidanceStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.iteration {
            Some(iteration) => write!(f, "{} (for the plan of iteration {iteration})", self.guidance),
            None => write!(f, "{} (no plan has answered it)", self.guidance),
        }
    }
}

/// A call that waits for a person, and what waits with it. JSON: an [`Approval`]'s fields, `"subtask"` and `"dependents"`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WaitingCall {
    /// What is to be decided about.
    #[serde(flatten)]
    pub approval: Arc<Approval>,
    /// The sub-task that waits; none for a planner's or a reflector's call, where the whole run does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subtask: Option<SubTaskId>,
    /// How many sub-tasks can't start before that one has succeeded.
    pub dependents: usize,
}

/// An iteration with all that was observed.
#[derive(Clone, Debug, Serialize)]
pub struct IterationReport {
    /// Its number, from 1.
    pub iteration: u32,
    /// The plan.
    pub plan: Plan,
    /// The states of the plan's sub-tasks, in its order.
    pub states: Vec<SubTaskState>,
    /// How they ended, in that order.
    pub observations: Vec<Observation>,
    /// The judgement, once there is one.
    pub reflection: Option<Reflection>,
}

/// How much to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// The summary, what changed, how it was confirmed.
    Concise,
    /// Every step and observation as well.
    Verbose,
}

impl Run {
    /// The run as far as it is; of agents, what they have reported.
    pub fn report(&self) -> Report {
        self.report_with(&[])
    }

    /// As [`Run::report`], with the work of agents whose reports have not come.
    pub(crate) fn report_with(&self, unreported: &[&AgentWork]) -> Report {
        Report {
            goal: self.spec().map_or_else(String::new, |spec| spec.goal.clone()),
            phase: self.phase(),
            end: self.end().cloned(),
            summary: self.summary(),
            question: self
                .question()
                .map(|(_, question)| question)
                .or(self.unasked_question())
                .cloned(),
            waiting: self.waiting_calls(&self.approvals().cloned().collect::<Vec<_>>()),
            changed: changed_files(changes(self.iterations(), unreported)),
            confirmed_by: confirmations(changes(self.iterations(), unreported)),
            rejected: rejections(self.iterations()),
            guided: guided(self.iterations()),
            guidance: self.guidance_status(),
            remaining: remaining(self.iterations()),
            iteration_count: self.iteration(),
            usage: self.usage_with(unreported),
            account: None,
            duration: self.last_at() - self.started_at(),
            iterations: self
                .iterations()
                .iter()
                .map(|iteration| IterationReport {
                    iteration: iteration.number,
                    plan: Plan::clone(iteration.graph.plan()),
                    states: (0..iteration.graph.plan().subtasks.len())
                        .map(|index| iteration.graph.state(index))
                        .collect(),
                    observations: iteration.observations.clone(),
                    reflection: iteration.reflection.clone(),
                })
                .collect(),
        }
    }

    fn guidance_status(&self) -> Vec<GuidanceStatus> {
        let iterations = self.guidance_iterations();
        let given = self.guidance().iter().enumerate();
        given
            .map(|(place, guidance)| GuidanceStatus {
                guidance: guidance.clone(),
                iteration: iterations.get(place).copied(),
            })
            .collect()
    }

    /// What waits with calls of the run and its agents.
    pub(crate) fn waiting_calls(&self, approvals: &[Arc<Approval>]) -> Vec<WaitingCall> {
        let waiting = |approval: &Arc<Approval>| {
            let blocked = self.blocked_subtask(approval.effect);
            let blocked = blocked.and_then(|index| Some((&self.iterations().last()?.graph, index)));
            WaitingCall {
                approval: approval.clone(),
                subtask: blocked.map(|(graph, index)| graph.plan().subtasks[index].id.clone()),
                dependents: blocked.map_or(0, |(graph, index)| all_dependents(graph, index)),
            }
        };
        approvals.iter().map(waiting).collect()
    }

    /// As [`Run::usage`], with that of agents whose reports have not come.
    pub(crate) fn usage_with(&self, unreported: &[&AgentWork]) -> Usage {
        let mut usage = self.usage();
        unreported.iter().for_each(|work| usage += work.usage);
        usage
    }

    /// What came of it, in the reflector's or the planner's words; empty while there is nothing to say.
    pub fn summary(&self) -> String {
        let reflected = self
            .iterations()
            .iter()
            .rev()
            .find_map(|iteration| iteration.reflection.as_ref());
        match (self.answer(), self.end(), reflected) {
            (Some(answer), _, _) => answer.to_owned(),
            (None, _, Some(reflection)) => reflection.summary.clone(),
            (None, Some(EndReason::Failed { error, .. }), None) => error.clone(),
            (None, _, None) => String::new(),
        }
    }

    /// The changes of the whole run as one text of unified diffs, in the order in which they were made.
    pub fn diff(&self) -> String {
        self.diff_with(&[])
    }

    /// As [`Run::diff`], with those of agents whose reports have not come.
    pub(crate) fn diff_with(&self, unreported: &[&AgentWork]) -> String {
        diff(changes(self.iterations(), unreported))
    }
}

/// How many sub-tasks depend on that one, directly or by others.
fn all_dependents(graph: &PlanGraph, index: usize) -> usize {
    let (mut found, mut next) = (BTreeSet::new(), vec![index]);
    while let Some(index) = next.pop() {
        next.extend(
            graph
                .dependents(index)
                .filter(|dependent| found.insert(*dependent)),
        );
    }
    found.len()
}

pub(super) fn remaining(iterations: &[Iteration]) -> Vec<String> {
    let Some(iteration) = iterations.last() else {
        return Vec::new();
    };
    let subtasks = &iteration.graph.plan().subtasks;
    subtasks
        .iter()
        .enumerate()
        .filter_map(|(index, subtask)| {
            let why = match iteration.graph.state(index) {
                SubTaskState::Succeeded => return None,
                SubTaskState::Failed => "failed".to_owned(),
                SubTaskState::Skipped => match iteration.observation(index).map(|seen| &seen.finding) {
                    Some(SubTaskResult::Skipped {
                        because: Some(because),
                    }) => {
                        format!("skipped, as `{because}` failed")
                    }
                    Some(SubTaskResult::Skipped { because: None }) => "skipped for your guidance".to_owned(),
                    Some(SubTaskResult::Calls { .. } | SubTaskResult::Agent { .. }) | None => {
                        "skipped".to_owned()
                    }
                },
                SubTaskState::Waiting | SubTaskState::Ready => "not started".to_owned(),
                SubTaskState::Running => "not finished".to_owned(),
            };
            Some(format!("{} ({why})", subtask.title))
        })
        .collect()
}

impl Report {
    /// The same without the account, which only readers of the journal have.
    pub fn without_account(self) -> Self {
        Report {
            account: None,
            ..self
        }
    }

    /// Whether the goal was reached.
    pub fn is_achieved(&self) -> bool {
        self.end == Some(EndReason::GoalAchieved)
    }

    /// The report as text for people.
    pub fn render(&self, detail: Detail) -> String {
        let mut text = String::new();
        self.headline(&mut text);
        if let Some(EndReason::Failed { error, .. }) = &self.end
            && *error != self.summary
        {
            let _ = writeln!(text, "\n{}", error.trim());
        }
        // A question often begins with what the reflector has to say.
        let asked = self
            .question
            .as_ref()
            .is_some_and(|question| question.question.starts_with(&self.summary));
        if !self.summary.is_empty() && !asked {
            let _ = writeln!(text, "\n{}", self.summary.trim());
        }
        if let Some(question) = &self.question {
            let _ = writeln!(text, "\nQuestion: {}", question.question);
            for choice in &question.choices {
                let _ = writeln!(text, "  - {choice}");
            }
        }
        if !self.waiting.is_empty() {
            let _ = writeln!(text, "\nWaiting for your approval:");
            self.waiting.iter().for_each(|call| call.render(&mut text));
        }
        if !self.changed.is_empty() {
            let _ = writeln!(text, "\nChanged {}:", count(self.changed.len(), "file"));
            let shown = match detail {
                Detail::Concise => SHOWN_FILES,
                Detail::Verbose => usize::MAX,
            };
            for file in self.changed.iter().take(shown) {
                let kind = match file.kind {
                    FileChangeKind::Created => "created",
                    FileChangeKind::Edited => "edited",
                    FileChangeKind::Deleted => "deleted",
                };
                let _ = writeln!(text, "  {kind:<7}  {}", file.path);
            }
            if self.changed.len() > shown {
                let _ = writeln!(text, "  and {} more", self.changed.len() - shown);
            }
        }
        if self.is_achieved() {
            let commands = self.confirmed_by.iter();
            let commands: Vec<String> = commands
                .map(|command| single_line(command, SHOWN_COMMAND))
                .collect();
            section(&mut text, "Confirmed by:", &commands);
        }
        section(&mut text, "Rejected by you:", &self.rejected);
        section(&mut text, "Guided by you instead of run:", &self.guided);
        let guidance: Vec<String> = self.guidance.iter().map(ToString::to_string).collect();
        section(&mut text, "Your guidance:", &guidance);
        if !matches!(self.end, Some(EndReason::GoalAchieved) | None) {
            section(&mut text, "Remaining:", &self.remaining);
        }
        if let Some(next) = self.next_step() {
            let _ = writeln!(text, "\n{next}");
        }
        match detail {
            Detail::Concise => {}
            Detail::Verbose => self
                .iterations
                .iter()
                .for_each(|iteration| iteration.render(&mut text)),
        }
        text
    }

    fn headline(&self, text: &mut String) {
        let what = match &self.end {
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
            None => format!("Not finished: {}", self.phase),
        };
        // Nothing is said of money where no price is known.
        let cost = if self.usage.cost.is_zero() {
            String::new()
        } else {
            format!(", {}", self.usage.cost)
        };
        let _ = writeln!(
            text,
            "{what} after {}, {}: {}, {}, {} tokens{cost}.",
            count(self.iteration_count as usize, "iteration"),
            self.duration,
            count(self.usage.model_calls as usize, "model call"),
            count(self.usage.tool_calls as usize, "tool call"),
            self.usage.tokens(),
        );
    }

    /// How to go on, where that is not plain (PAOR-3).
    fn next_step(&self) -> Option<String> {
        let more = match self.end.as_ref()? {
            EndReason::GoalAchieved => return None,
            EndReason::Failed { cause, .. } => {
                return match cause {
                    FailureCause::Unrecoverable => None,
                    FailureCause::ModelUnavailable => {
                        Some("To go on, resume the run once its model can be reached.".to_owned())
                    }
                    FailureCause::AgentLimit => Some("To go on, resume the run.".to_owned()),
                };
            }
            EndReason::UserRequired if !self.waiting.is_empty() => {
                return Some(
                    "To go on, decide about what waits for your approval, and resume the run.".to_owned(),
                );
            }
            EndReason::UserRequired => {
                return Some("To go on, answer the question by resuming the run.".to_owned());
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
                    "What was done so far is kept in the workspace. To go on, start the same goal again."
                        .to_owned(),
                );
            }
        };
        Some(format!("To go on where it stopped, resume the run{more}."))
    }
}

impl WaitingCall {
    fn render(&self, text: &mut String) {
        let Approval {
            effect,
            agent,
            tool,
            parameters,
            ..
        } = &*self.approval;
        // All of it is shown where it is decided about.
        let parameters = single_line(&parameters.to_string(), SHOWN_PARAMETERS);
        let _ = writeln!(text, "  {effect}  {tool} {parameters}");
        let mut blocks = Vec::new();
        blocks.extend(agent.as_ref().map(|agent| format!("agent `{agent}`")));
        blocks.extend(
            self.subtask
                .as_ref()
                .map(|subtask| format!("sub-task `{subtask}`")),
        );
        match self.dependents {
            0 => {}
            1 => blocks.push("1 sub-task that depends on it".to_owned()),
            more => blocks.push(format!("{more} sub-tasks that depend on it")),
        }
        if !blocks.is_empty() {
            let _ = writeln!(text, "    holds up {}", blocks.join(", "));
        }
    }
}

impl IterationReport {
    fn render(&self, text: &mut String) {
        let _ = writeln!(text, "\nIteration {}: {}", self.iteration, self.plan.summary);
        for observation in &self.observations {
            let _ = writeln!(
                text,
                "\n  {} [{}] {} ({})",
                observation.subtask,
                observation.title,
                observation.status(),
                observation.duration
            );
            render_finding(&observation.finding, text);
        }
        if let Some(reflection) = &self.reflection {
            let verdict = serde_json::to_value(reflection.verdict).unwrap_or_default();
            let _ = writeln!(
                text,
                "\n  Reflection ({}): {}",
                verdict.as_str().unwrap_or_default(),
                reflection.summary
            );
        }
    }
}

fn render_finding(finding: &SubTaskResult, text: &mut String) {
    match finding {
        SubTaskResult::Skipped {
            because: Some(because),
        } => {
            let _ = writeln!(text, "    `{because}` did not succeed");
        }
        SubTaskResult::Skipped { because: None } => {
            let _ = writeln!(text, "    your guidance changed the plan");
        }
        SubTaskResult::Calls { calls } => {
            for observed in calls {
                let _ = writeln!(
                    text,
                    "    {} {} {} ({})",
                    observed.effect, observed.call.tool, observed.call.parameters, observed.result.duration
                );
                let output = match &observed.result.outcome {
                    ToolOutcome::Success { output } => output.to_string(),
                    ToolOutcome::Failure { error, output, .. } if output.is_null() => error.clone(),
                    ToolOutcome::Failure { error, output, .. } => format!("{error}: {output}"),
                };
                let _ = writeln!(
                    text,
                    "      → {}",
                    shorten(&output, 2_000, Some(&observed.effect.to_string()))
                );
                if !observed.result.metadata.is_empty() {
                    let metadata = Value::Object(observed.result.metadata.clone());
                    let _ = writeln!(text, "      metadata {metadata}");
                }
            }
        }
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
                    let _ = writeln!(text, "    {name} ({agent}) found: {findings}");
                }
                Err(failure) => {
                    let _ = writeln!(text, "    {name} ({agent}) ended without findings: {failure}");
                    if !work.findings_so_far.is_empty() {
                        let _ = writeln!(text, "      until then it said: {}", work.findings_so_far);
                    }
                }
            }
        }
    }
}

/// A text on one line, with an ellipsis where it has more than so many characters.
fn single_line(text: &str, max: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= max {
        return line;
    }
    let shown: String = line.chars().take(max.saturating_sub(1)).collect();
    format!("{shown}…")
}

fn section(text: &mut String, title: &str, lines: &[String]) {
    if lines.is_empty() {
        return;
    }
    let _ = writeln!(text, "\n{title}");
    for line in lines {
        let _ = writeln!(text, "  {line}");
    }
}

fn count(number: usize, what: &str) -> String {
    if number == 1 {
        format!("1 {what}")
    } else {
        format!("{number} {what}s")
    }
}
