//! Requests to agents: the first user message for leads, reflectors and sub-agents, the message that continues a lead, and the request to
//! summarise a long conversation (LOOP-11).

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::handle::OutputHandle;
use super::observations::{FileEdits, MAX_STRING, brief_parameters, judged_lines, observation_lines};
use super::{parameters, render};
use crate::agent_spec::AgentSpec;
use crate::goal::{AskedService, GoalFile};
use crate::limits::RunLimits;
use crate::observation::{Observation, SubTaskResult};
use crate::plan::{Plan, SubTask};
use crate::reflection::{Reflection, ReflectionVerdict};
use crate::run_diff::{DiffedFile, NumberedCommands, ReflectorDiff};
use crate::setup::RunSetup;
use crate::text::{first_sentence, one_line, shorten, shorten_value};
use crate::tool::ToolSpec;
use crate::tools_change::ToolsChange;

/// Maximum number of characters of the sentence that describes a service's tool.
const MAX_SUMMARY: usize = 200;
/// Maximum number of tools of each kind in a message about changed tools.
const MAX_CHANGES: usize = 50;
/// Maximum length of the task in a request for a summary, in characters. The conversation contains the complete task.
const MAX_TASK: usize = 1_000;

/// The state of the run, for the request to a lead or reflector.
#[derive(Clone, Debug, Serialize)]
pub struct IterationContext<'a> {
    /// The goal as the user wrote it.
    pub goal: &'a str,
    /// The files that the goal includes. Only the lead reads them.
    pub files: &'a [GoalFile],
    /// The number of the iteration, counted from 1.
    pub iteration: u32,
    /// The number of the iteration in handles, counted over the run's conversation.
    #[serde(skip)]
    pub iteration_in_conversation: u32,
    /// Maximum number of iterations.
    pub max_iterations: u32,
    /// The user's guidance so far. Plans refer to its entries by number, counted from 1.
    pub guidance: &'a [String],
    /// Questions with the user's answers.
    pub answers: &'a [AnsweredQuestion],
    /// Summaries of the earlier iterations, in order.
    pub iterations: Vec<PastIteration<'a>>,
    /// The remembered facts for the lead, as rendered by [`user_notes`](super::user_notes); `None` if there are none.
    pub notes: Option<String>,
    /// The conversation before the run; `None` without earlier turns.
    pub earlier_turns: Option<TurnContext<'a>>,
}

/// The state of a conversation, for the request to the lead of a later turn.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct TurnContext<'a> {
    /// Why the last turn ended without an answer; `None` if it had one.
    pub unanswered: Option<&'a str>,
    /// Whether the conversation has not had a lead yet, so that this request must contain everything that a lead needs
    /// to know.
    pub is_first_request: bool,
}

/// A question that the user has answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnsweredQuestion {
    /// The question's text.
    pub question: String,
    /// The user's answer.
    pub answer: String,
}

/// A summary of an earlier iteration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PastIteration<'a> {
    /// The number of the iteration, counted from 1.
    pub iteration: u32,
    /// The plan's summary.
    pub plan: Cow<'a, str>,
    /// The reflection's verdict and summary.
    #[serde(flatten)]
    pub reflection: Option<PastReflection<'a>>,
    /// The reason why the run ended before the plan was complete, if the user resumed the run later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interrupted: Option<Cow<'a, str>>,
    /// Short observations with handles; empty if the request contains the full observations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub observations: Vec<Value>,
}

/// A summary of an earlier reflection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PastReflection<'a> {
    /// The reflection's verdict.
    pub verdict: ReflectionVerdict,
    /// The reflection's summary.
    #[serde(rename = "reflection")]
    pub summary: Cow<'a, str>,
}

impl<'a> From<&'a Reflection> for PastReflection<'a> {
    fn from(reflection: &'a Reflection) -> Self {
        PastReflection {
            verdict: reflection.verdict,
            summary: Cow::Borrowed(&reflection.summary),
        }
    }
}

/// The information for a lead that continues: what has happened since its last request.
#[derive(Clone, Debug)]
pub struct ContinueContext<'a> {
    /// The number of the iteration that begins, counted from 1.
    pub iteration: u32,
    /// Maximum number of iterations.
    pub max_iterations: u32,
    /// The user's new guidance entries, each with its number.
    pub guidance: Vec<(u32, &'a str)>,
    /// The user's new answers.
    pub answers: &'a [AnsweredQuestion],
    /// The iterations that have ended since the lead's last request.
    pub ended: Vec<EndedIteration<'a>>,
}

/// An iteration that has ended since the lead's last request.
#[derive(Clone, Debug)]
pub struct EndedIteration<'a> {
    /// The number of the iteration in handles.
    pub iteration: u32,
    /// The reflector's judgement; `None` if there is none.
    pub reflection: Option<&'a Reflection>,
    /// Why the run ended before the plan was complete, if the user resumed the run later.
    pub interrupted: Option<&'a str>,
    /// The observations of the iteration, without the lead's own work.
    pub observations: Vec<&'a Observation>,
}

/// Renders the message that continues a lead: the observations, the judgement, and the user's guidance and answers. The lead's own work is
/// left out, because the lead knows it.
pub fn continue_request(context: &ContinueContext<'_>) -> String {
    let guidance = context.guidance.iter();
    render(
        "continue_request",
        json!({
            "iteration": context.iteration,
            "max_iterations": context.max_iterations,
            "guidance": guidance.map(|(number, text)| json!({"number": number, "text": text})).collect::<Vec<_>>(),
            "answers": context.answers,
            "ended": ended_iterations(&context.ended),
        }),
    )
}

/// Renders the result of a plan with which a turn of a conversation ended.
pub fn closing_message(ended: &[EndedIteration<'_>]) -> String {
    render("closing_message", json!({"ended": ended_iterations(ended)}))
}

fn ended_iterations(ended: &[EndedIteration<'_>]) -> Vec<Value> {
    let lines = ended.iter().map(|ended| {
        let judgement =
            |reflection: &Reflection| json!({"verdict": reflection.verdict, "summary": reflection.summary});
        json!({
            "judgement": ended.reflection.map(judgement),
            "interrupted": ended.interrupted,
            "observations": observation_lines(ended.observations.iter().copied(), Some(ended.iteration)),
        })
    });
    lines.collect()
}

/// Renders the note that follows the result of a plan that the user changed before approving it (LEAD-2). `plan` is the plan that was
/// executed.
pub fn edited_plan(plan: &Value) -> String {
    render("edited_plan", json!({"plan": plan}))
}

/// Renders guidance that the user gave while the lead was working.
pub fn guidance(number: u32, text: &str) -> String {
    render("guidance", json!({"number": number, "text": text}))
}

/// Renders the first request to a lead. It lists the agents and tools of the run that the lead does not know from its own tools. If the
/// run's workflow gives all work to `only_agent`, the request says so, and lists no tools for the calls of a plan.
pub fn plan_request(
    iteration: &IterationContext<'_>,
    setup: &RunSetup,
    limits: &RunLimits,
    services: &[AskedService],
    only_agent: Option<&str>,
) -> String {
    let lead = &setup.lead;
    // The `delegate` tool lists the agents to which the lead may delegate. In plan mode, a plan may use others as well.
    let is_listed = |agent: &&AgentSpec| lead.may_delegate() && agent.access <= lead.access;
    let agents: Vec<Value> = setup
        .agents
        .iter()
        .filter(|agent| !is_listed(agent))
        .map(|agent| {
            let description = one_line(&agent.description);
            json!({"name": agent.name, "description": description, "capabilities": agent.capabilities(&lead.tools)})
        })
        .collect();
    let tools: Vec<Value> = setup
        .tools
        .iter()
        .filter(|tool| only_agent.is_none() && !lead.tools.contains(&tool.name))
        .filter(|tool| !tool.category.is_called_by_name())
        .map(|tool| {
            let summary = one_line(first_sentence(&tool.description));
            json!({"name": tool.name, "summary": format!("{summary}."), "parameters": parameters::nested(&tool.parameters_for_model())})
        })
        .collect();
    #[derive(Serialize)]
    struct Values<'a> {
        #[serde(flatten)]
        iteration: &'a IterationContext<'a>,
        limits: Vec<String>,
        some_listed: bool,
        agents: Vec<Value>,
        tools: Vec<Value>,
        services: Vec<Value>,
        only_agent: Option<&'a str>,
    }
    render(
        "plan_request",
        Values {
            iteration,
            limits: limits_set(limits),
            some_listed: setup.agents.iter().any(|agent| is_listed(&agent)),
            agents,
            tools,
            services: services
                .iter()
                .filter(|service| !service.is_from_earlier_turn)
                .map(|service| asked_service(service, &setup.tools))
                .collect(),
            only_agent,
        },
    )
}

/// The tools of a service that an agent knows.
#[derive(Clone, Copy, Debug)]
pub struct KnownTools<'a> {
    /// The names of the tools that are declared to the agent.
    pub declared: &'a [String],
    /// Whether the agent was told of the service's other tools, which it calls by their names.
    pub by_name: bool,
}

/// Renders what has changed in the tools of a service, for an agent that knows some of them. `None` if the change is none of its concern.
pub fn tools_changed(change: &ToolsChange, known: KnownTools<'_>) -> Option<String> {
    let is_declared = |name: &String| known.declared.contains(name);
    let mut omitted = 0;
    let mut bounded = |mut lines: Vec<Value>| {
        omitted += lines.len().saturating_sub(MAX_CHANGES);
        lines.truncate(MAX_CHANGES);
        lines
    };
    let by_name = |tools: &[ToolSpec]| {
        let told = tools
            .iter()
            .filter(|tool| known.by_name && !is_declared(&tool.name));
        told.map(|tool| tool_line(&change.service, tool))
            .collect::<Vec<_>>()
    };
    let added = bounded(by_name(&change.added));
    let changed = bounded(by_name(&change.changed));
    let declared = change
        .changed
        .iter()
        .chain(&change.added)
        .filter(|tool| is_declared(&tool.name));
    let declared = declared.map(|tool| {
        json!({
            "name": tool.name,
            "description": one_line(&tool.description),
            "parameters": parameters::nested(&tool.parameters_for_model()),
        })
    });
    let declared = bounded(declared.collect());
    let removed = change
        .removed
        .iter()
        .filter(|name| known.by_name || is_declared(name));
    let removed = bounded(removed.map(|name| json!(name)).collect());
    if [&added, &changed, &declared, &removed]
        .iter()
        .all(|lines| lines.is_empty())
    {
        return None;
    }
    let values = json!({
        "service": one_line(&change.service),
        "added": added,
        "changed": changed,
        "declared": declared,
        "removed": removed,
        "omitted": omitted,
    });
    Some(render("tools_changed", values))
}

/// A tool of a service as the lead reads it: its name and one sentence (MCP-4).
fn tool_line(service: &str, tool: &ToolSpec) -> Value {
    // A service writes what it likes, also texts of many lines.
    let line = tool.description.split(['\n', '。']).next().unwrap_or_default();
    // The line stands below the service's name.
    let line = line
        .strip_prefix(&format!("[MCP service {service}] "))
        .unwrap_or(line);
    let summary = shorten(first_sentence(line), MAX_SUMMARY, None);
    json!({"name": tool.name, "summary": format!("{}.", one_line(&summary))})
}

/// A service with its tools as the lead reads them (MCP-4).
fn asked_service(service: &AskedService, tools: &[ToolSpec]) -> Value {
    let named = |name: &String| {
        let tool = tools.iter().find(|tool| tool.name == *name)?;
        Some(tool_line(&service.name, tool))
    };
    let tools: Vec<Value> = service.tools.iter().filter_map(named).collect();
    json!({
        "name": one_line(&service.name),
        "description": one_line(&service.description),
        "problem": service.problem.as_deref().map(one_line),
        "tools": tools,
    })
}

/// The limits of the whole run that have no default and that the user has set, formatted like `50000 tokens`.
fn limits_set(limits: &RunLimits) -> Vec<String> {
    let tokens = limits.max_tokens.map(|tokens| format!("{tokens} tokens"));
    let cost = limits.max_cost.map(|cost| cost.to_string());
    let calls = limits
        .max_model_calls
        .map(|calls| format!("{calls} model requests"));
    let time = limits.timeout.map(|time| time.to_string());
    [tokens, cost, calls, time].into_iter().flatten().collect()
}

/// Renders the request to a reflector. `plan` is `None` if the lead did the work without one. `changed` lists all files that the run has
/// changed so far, and `other_changes` its other changes; `diff` is its net diff, if it was read.
pub fn reflect_request(
    iteration: &IterationContext<'_>,
    plan: Option<&Plan>,
    observed: &[Observation],
    changed: &[&str],
    other_changes: &[String],
    diff: Option<&ReflectorDiff>,
) -> String {
    let commands = NumberedCommands::new(diff.into_iter().flat_map(|diff| &diff.files));
    let observations = judged_lines(
        observed,
        plan,
        iteration.iteration_in_conversation,
        edits_shown(diff),
    );
    let plan = plan.map(|plan| {
        let subtasks = match plan.subtasks.len() {
            0..=200 => {
                let subtasks = plan.subtasks.iter();
                json!(
                    subtasks
                        .map(|subtask| without_observed(subtask, observed))
                        .collect::<Vec<_>>()
                )
            }
            count => json!(format!("{count} sub-tasks")),
        };
        let mut shown = json!({"summary": plan.summary, "subtasks": subtasks});
        if !plan.answers_guidance.is_empty() {
            shown["answers_guidance"] = json!(plan.answers_guidance);
        }
        shorten_value(&shown, MAX_STRING, None)
    });
    #[derive(Serialize)]
    struct Values<'a> {
        #[serde(flatten)]
        iteration: &'a IterationContext<'a>,
        plan: Option<Value>,
        observations: Vec<Value>,
        changed: Vec<String>,
        other_changes: Vec<String>,
        /// The commands that ran while files changed, which other lines refer to by their numbers.
        commands: Vec<String>,
        diff: Option<&'a ReflectorDiff>,
        diffs: Vec<String>,
        diff_handle: Option<String>,
    }
    render(
        "reflect_request",
        Values {
            iteration,
            plan,
            observations,
            changed: changed_lines(changed, diff, &commands),
            commands: commands.lines(),
            other_changes: other_changes.iter().map(|change| one_line(change)).collect(),
            diff,
            diffs: diff.map(|diff| diff_texts(diff, &commands)).unwrap_or_default(),
            diff_handle: diff
                .filter(|diff| !diff.is_whole())
                .map(|_| OutputHandle::Diff(iteration.iteration_in_conversation).to_string()),
        },
    )
}

fn edits_shown(diff: Option<&ReflectorDiff>) -> FileEdits {
    match diff {
        Some(ReflectorDiff { error: None, .. }) => FileEdits::InDiff,
        Some(ReflectorDiff { error: Some(_), .. }) | None => FileEdits::Shown,
    }
}

/// The changed files: first the files changed by file tools, then the files that changed only while commands were running. All files that
/// changed while commands were running are marked as such.
fn changed_lines(
    changed: &[&str],
    diff: Option<&ReflectorDiff>,
    commands: &NumberedCommands<'_>,
) -> Vec<String> {
    let files = || diff.into_iter().flat_map(|diff| &diff.files);
    let marked = |file: &DiffedFile, how: &str| {
        let during = commands.while_running(file)?;
        Some(one_line(&format!(
            "{} ({}; {how} {during})",
            file.path,
            file.net_kind()
        )))
    };
    let own = changed.iter().filter_map(|path| {
        let file = files().find(|file| file.path == *path && !file.during.is_empty());
        match file {
            Some(file) if file.by_file_tools => marked(file, "also changed"),
            Some(_) => None,
            None => Some(one_line(path)),
        }
    });
    let others = files().filter(|file| !changed.contains(&file.path.as_str()));
    own.chain(others.filter_map(|file| marked(file, "changed")))
        .collect()
}

/// Returns the diffs of the files that have one, each with the line that says when the file changed.
fn diff_texts(diff: &ReflectorDiff, commands: &NumberedCommands<'_>) -> Vec<String> {
    let text = |file: &DiffedFile| {
        let diff = file.diff.as_deref()?.trim();
        Some(match commands.title(file) {
            Some(title) if diff.is_empty() => title,
            Some(title) => format!("{title}\n{diff}"),
            None => diff.to_owned(),
        })
    };
    diff.files.iter().filter_map(text).collect()
}

/// Formats a sub-task of the plan. The calls that were observed have only the beginning of each parameter, because the observations
/// contain the whole parameters.
fn without_observed(subtask: &SubTask, observed: &[Observation]) -> Value {
    let made = observed
        .iter()
        .find(|observation| observation.subtask == subtask.id)
        .map_or(0, |observation| match &observation.finding {
            SubTaskResult::Calls { calls } => calls.len(),
            SubTaskResult::Agent { .. } | SubTaskResult::Skipped { .. } => 0,
        });
    let mut shown = json!(subtask);
    if let Some(calls) = shown.get_mut("calls").and_then(Value::as_array_mut) {
        for call in calls.iter_mut().take(made) {
            if let Some(parameters) = call.get_mut("parameters") {
                *parameters = brief_parameters(parameters);
            }
        }
    }
    shown
}

/// Renders the request to a sub-agent: the user's guidance so far (LEAD-4), its task, and the observations of its dependencies in this
/// iteration (PAOR-5). `iteration` is the number of this iteration in handles.
pub fn task_request(task: &str, guidance: &[String], iteration: u32, findings: &[&Observation]) -> String {
    let findings = observation_lines(findings.iter().copied(), Some(iteration));
    render(
        "task_request",
        json!({"task": task, "guidance": guidance, "findings": findings}),
    )
}

/// Renders the request to summarise the preceding conversation. The summary replaces the older part of the conversation (LOOP-11). `task`
/// is the agent's task, which is shortened. The reply must be text without a call, regardless of the call form, even if a JSON Schema
/// is otherwise enforced.
pub fn summarise_request(task: &str) -> String {
    render("summarise", json!({"task": shorten(task, MAX_TASK, None)}))
}

/// Renders the message that replaces the older part of a conversation with the model's summary.
pub fn summary(text: &str) -> String {
    render("summary", json!({"text": text.trim()}))
}
