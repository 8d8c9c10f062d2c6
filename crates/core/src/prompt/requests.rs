//! Requests to agents: the first user message for planners, reflectors and sub-agents, and the request to summarise a long conversation
//! (LOOP-11).

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::observations::{MAX_STRING, observation_lines};
use super::{parameters, render};
use crate::observation::Observation;
use crate::plan::Plan;
use crate::reflection::{Reflection, ReflectionVerdict};
use crate::spec::AgentSpec;
use crate::text::{one_line, shorten, shorten_value};
use crate::tool::ToolSpec;

/// Maximum length of the task in a request for a summary, in characters. The conversation contains the complete task.
const MAX_TASK: usize = 1_000;

/// The state of the run, for the request to a planner or reflector.
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

/// Renders the request to a planner. `observed` contains the observations of the last iteration.
pub fn plan_request(
    iteration: &IterationContext<'_>,
    agents: &[AgentSpec],
    tools: &[ToolSpec],
    observed: &[Observation],
) -> String {
    let agents: Vec<Value> = agents
        .iter()
        .map(|agent| {
            let description = one_line(&agent.description);
            json!({"name": agent.name, "description": description, "capabilities": agent.capabilities()})
        })
        .collect();
    let tools: Vec<Value> = tools
        .iter()
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
        observations: Vec<Value>,
    }
    render(
        "plan_request",
        Values {
            iteration,
            agents,
            tools,
            observations: observation_lines(observed, iteration.iterations.last().map(|last| last.iteration)),
        },
    )
}

/// Renders the request to a reflector. `changed` lists all files that the run has changed so far.
pub fn reflect_request(
    iteration: &IterationContext<'_>,
    plan: &Plan,
    observed: &[Observation],
    changed: &[&str],
) -> String {
    let plan = json!({
        "summary": plan.summary,
        "answers_guidance": plan.answers_guidance,
        "subtasks": if plan.subtasks.len() <= 200 { json!(plan.subtasks) } else { json!(format!("{} sub-tasks", plan.subtasks.len())) },
    });
    #[derive(Serialize)]
    struct Values<'a> {
        #[serde(flatten)]
        iteration: &'a IterationContext<'a>,
        plan: Value,
        observations: Vec<Value>,
        changed: Vec<String>,
    }
    let plan = shorten_value(&plan, MAX_STRING, None);
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
