//! What an agent is asked: a planner, a reflector and a sub-agent at their start, and any of them when its conversation gets too
//! long (LOOP-11).

use serde::Serialize;
use serde_json::{Value, json};

use super::observations::{MAX_STRING, observation_lines};
use super::{parameters, render};
use crate::observation::Observation;
use crate::plan::Plan;
use crate::reflection::{Reflection, ReflectionVerdict};
use crate::spec::AgentSpec;
use crate::text::{one_line, shorten, shorten_value};
use crate::tool::ToolSpec;

/// Characters of an agent's task that stand in the request for a summary: the task itself is in the conversation.
const MAX_TASK: usize = 1_000;

/// What is known of the run when an iteration is planned or judged.
#[derive(Clone, Debug, Serialize)]
pub struct IterationContext<'a> {
    /// The goal in the user's words.
    pub goal: &'a str,
    /// The iteration, from 1.
    pub iteration: u32,
    /// How many there may be.
    pub max_iterations: u32,
    /// The user's guidance so far, in order; a plan names it by its number from 1.
    pub guidance: &'a [String],
    /// Questions that were asked and the user's answers.
    pub answers: &'a [AnsweredQuestion],
    /// The iterations before this one.
    pub iterations: Vec<PastIteration<'a>>,
}

/// A question that the user has answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AnsweredQuestion {
    /// What was asked.
    pub question: String,
    /// The user's words.
    pub answer: String,
}

/// An earlier iteration in short.
#[derive(Clone, Debug, Serialize)]
pub struct PastIteration<'a> {
    /// The iteration, from 1.
    pub iteration: u32,
    /// The plan's summary.
    pub plan: &'a str,
    /// The reflection's verdict and summary.
    #[serde(flatten)]
    pub reflection: Option<PastReflection<'a>>,
    /// Why the run ended before the plan was carried out; the user has resumed the run since.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cut_off: Option<&'a str>,
    /// What was observed, in short and with handles; empty where the request has it at length.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub observations: Vec<Value>,
}

/// An earlier judgement in short.
#[derive(Clone, Debug, Serialize)]
pub struct PastReflection<'a> {
    /// What followed.
    pub verdict: ReflectionVerdict,
    /// What was said.
    #[serde(rename = "reflection")]
    pub summary: &'a str,
}

impl<'a> From<&'a Reflection> for PastReflection<'a> {
    fn from(reflection: &'a Reflection) -> Self {
        PastReflection {
            verdict: reflection.verdict,
            summary: &reflection.summary,
        }
    }
}

/// The planner's brief. `observed` are the observations of the last iteration.
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

/// The reflector's brief. `changed` are the files changed by the whole run so far.
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

/// A sub-agent's brief: its task and the observations of what it depends on in that iteration, nothing else (PAOR-5).
pub fn task_request(task: &str, iteration: u32, findings: &[&Observation]) -> String {
    let findings = observation_lines(findings.iter().copied(), Some(iteration));
    render("task_request", json!({"task": task, "findings": findings}))
}

/// Asks a model to sum up its conversation, which comes before it as it is, so that the summary can stand for its older part
/// (LOOP-11). `task` is what the agent was asked to do; a long one is shortened. The reply is text without a call in every form of calls,
/// also where replies are held to a JSON Schema otherwise.
pub fn summarise_request(task: &str) -> String {
    render("summarise", json!({"task": shorten(task, MAX_TASK, None)}))
}

/// The message that stands for the older part of a conversation: the model's own summary of it.
pub fn summary(text: &str) -> String {
    render("summary", json!({"text": text.trim()}))
}

fn first_sentence(text: &str) -> &str {
    text.split_once(". ")
        .map_or(text, |(first, _)| first)
        .trim_end_matches('.')
}
