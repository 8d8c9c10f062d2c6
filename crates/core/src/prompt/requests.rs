//! Requests to agents: the first user message for leads, reflectors and sub-agents, the message that continues a lead, and the request to
//! summarise a long conversation (LOOP-11).

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::observations::{MAX_STRING, observation_lines};
use super::{parameters, render};
use crate::observation::Observation;
use crate::plan::Plan;
use crate::reflection::{Reflection, ReflectionVerdict};
use crate::setup::RunSetup;
use crate::text::{one_line, shorten, shorten_value};

/// Maximum length of the task in a request for a summary, in characters. The conversation contains the complete task.
const MAX_TASK: usize = 1_000;

/// The state of the run, for the request to a lead or reflector.
#[derive(Clone, Debug, Serialize)]
pub struct IterationContext<'a> {
    /// The goal as the user wrote it.
    pub goal: &'a str,
    /// The number of the iteration, counted from 1.
    pub iteration: u32,
    /// Maximum number of iterations.
    pub max_iterations: u32,
    /// The user's guidance so far. Plans refer to its entries by number, counted from 1.
    pub guidance: &'a [String],
    /// Questions with the user's answers.
    pub answers: &'a [AnsweredQuestion],
    /// Summaries of the earlier iterations, in order.
    pub iterations: Vec<PastIteration<'a>>,
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

/// What a lead that goes on does not know yet.
#[derive(Clone, Debug)]
pub struct ContinueContext<'a> {
    /// The number of the iteration that begins, counted from 1.
    pub iteration: u32,
    /// Maximum number of iterations.
    pub max_iterations: u32,
    /// New guidance of the user, each with its number.
    pub guidance: Vec<(u32, &'a str)>,
    /// New answers of the user.
    pub answers: &'a [AnsweredQuestion],
    /// The iterations that have ended since the lead's last request.
    pub ended: Vec<EndedIteration<'a>>,
}

/// An iteration that has ended since the lead's last request.
#[derive(Clone, Debug)]
pub struct EndedIteration<'a> {
    /// The number of the iteration, counted from 1.
    pub iteration: u32,
    /// The reflector's judgement; `None` if there is none.
    pub reflection: Option<&'a Reflection>,
    /// Why the run ended before the plan was complete, if the user resumed the run later.
    pub interrupted: Option<&'a str>,
    /// What was observed, without the lead's own work.
    pub observations: Vec<&'a Observation>,
}

/// Renders the message that continues a lead: what was observed and judged, and what the user has added. The lead knows its own work.
pub fn continue_request(context: &ContinueContext<'_>) -> String {
    let ended = context.ended.iter().map(|ended| {
        let judgement =
            |reflection: &Reflection| json!({"verdict": reflection.verdict, "summary": reflection.summary});
        json!({
            "judgement": ended.reflection.map(judgement),
            "interrupted": ended.interrupted,
            "observations": observation_lines(ended.observations.iter().copied(), Some(ended.iteration)),
        })
    });
    let guidance = context.guidance.iter();
    render(
        "continue_request",
        json!({
            "iteration": context.iteration,
            "max_iterations": context.max_iterations,
            "guidance": guidance.map(|(number, text)| json!({"number": number, "text": text})).collect::<Vec<_>>(),
            "answers": context.answers,
            "ended": ended.collect::<Vec<_>>(),
        }),
    )
}

/// Renders what follows the result of a plan that the user changed before approving it (LEAD-2). `plan` is the plan that was carried out.
pub fn edited_plan(plan: &Value) -> String {
    render("edited_plan", json!({"plan": plan}))
}

/// Renders guidance that the user gave while the lead works.
pub fn guidance(number: u32, text: &str) -> String {
    render("guidance", json!({"number": number, "text": text}))
}

/// Renders the first request to a lead. It lists the agents and tools of the run that the lead does not know from its own tools.
pub fn plan_request(iteration: &IterationContext<'_>, setup: &RunSetup) -> String {
    let lead = &setup.lead;
    let agents: Vec<Value> = setup
        .agents
        .iter()
        .filter(|_| !lead.may_delegate())
        .map(|agent| {
            let description = one_line(&agent.description);
            json!({"name": agent.name, "description": description, "capabilities": agent.capabilities()})
        })
        .collect();
    let tools: Vec<Value> = setup
        .tools
        .iter()
        .filter(|tool| !lead.tools.contains(&tool.name))
        .map(|tool| {
            let summary = one_line(first_sentence(&tool.description));
            json!({"name": tool.name, "summary": format!("{summary}."), "parameters": parameters::nested(&tool.parameters)})
        })
        .collect();
    #[derive(Serialize)]
    struct Values<'a> {
        #[serde(flatten)]
        iteration: &'a IterationContext<'a>,
        agents: Vec<Value>,
        tools: Vec<Value>,
    }
    render(
        "plan_request",
        Values {
            iteration,
            agents,
            tools,
        },
    )
}

/// Renders the request to a reflector. `plan` is `None` if the lead did the work without one. `changed` lists all files that the run has changed so far.
pub fn reflect_request(
    iteration: &IterationContext<'_>,
    plan: Option<&Plan>,
    observed: &[Observation],
    changed: &[&str],
) -> String {
    let plan = plan.map(|plan| {
        let plan = json!({
            "summary": plan.summary,
            "answers_guidance": plan.answers_guidance,
            "subtasks": if plan.subtasks.len() <= 200 { json!(plan.subtasks) } else { json!(format!("{} sub-tasks", plan.subtasks.len())) },
        });
        shorten_value(&plan, MAX_STRING, None)
    });
    #[derive(Serialize)]
    struct Values<'a> {
        #[serde(flatten)]
        iteration: &'a IterationContext<'a>,
        plan: Option<Value>,
        observations: Vec<Value>,
        changed: Vec<String>,
    }
    render(
        "reflect_request",
        Values {
            iteration,
            plan,
            observations: observation_lines(observed, Some(iteration.iteration)),
            changed: changed.iter().map(|path| one_line(path)).collect(),
        },
    )
}

/// Renders the request to a sub-agent: its task, and the observations of its dependencies in this iteration (PAOR-5).
pub fn task_request(task: &str, iteration: u32, findings: &[&Observation]) -> String {
    let findings = observation_lines(findings.iter().copied(), Some(iteration));
    render("task_request", json!({"task": task, "findings": findings}))
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

fn first_sentence(text: &str) -> &str {
    text.split_once(". ")
        .map_or(text, |(first, _)| first)
        .trim_end_matches('.')
}
