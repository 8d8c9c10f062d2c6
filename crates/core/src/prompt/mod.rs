//! Every text that goes to a model, rendered here from the templates in `config/prompts` and nowhere else.
//!
//! A system prompt depends on the agent's spec alone and is journaled with the run, so that all requests of an agent
//! share their beginning and a replayed run is prompted as it was.

mod shorten;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use minijinja::value::Serde;
use minijinja::{Environment, ErrorKind, UndefinedBehavior};
use serde::Serialize;
use serde_json::{Value, json};

pub use shorten::{shorten, shorten_value};

use crate::observation::{Finding, Observation, ObservationStatus};
use crate::plan::{Plan, SUBMIT_PLAN, plan_schema};
use crate::reflection::{Reflection, SUBMIT_REFLECTION, reflection_schema};
use crate::spec::{AgentSpec, AnswerForm};
use crate::tool::{Repeat, ToolSpec};

/// Characters that one string of an observation may have in a prompt.
const MAX_STRING: usize = 3_000;
/// The same where there is little room left.
const MIN_STRING: usize = 200;
/// Bytes that all observations together may have in a prompt; what is beyond is counted, and failures come first.
const MAX_OBSERVATIONS: usize = 120_000;

static TEMPLATES: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.add_filter("tojson", json_text);
    for (name, source) in [
        ("system", include_str!("../../../../config/prompts/system.md")),
        (
            "plan_request",
            include_str!("../../../../config/prompts/plan_request.md"),
        ),
        (
            "reflect_request",
            include_str!("../../../../config/prompts/reflect_request.md"),
        ),
        (
            "task_request",
            include_str!("../../../../config/prompts/task_request.md"),
        ),
        (
            "malformed",
            include_str!("../../../../config/prompts/malformed.md"),
        ),
    ] {
        // The templates are compiled in, and each is rendered by a test.
        #[expect(clippy::expect_used, reason = "a constant template, rendered by a test")]
        environment
            .add_template(name, source)
            .expect("a template that parses");
    }
    environment
});

/// The role text of the planner, the reflector and the agents that ship with Dirigent.
pub mod roles {
    /// Makes plans.
    pub const PLANNER: &str = include_str!("../../../../config/prompts/planner.md");
    /// Judges rounds.
    pub const REFLECTOR: &str = include_str!("../../../../config/prompts/reflector.md");
    /// Looks and reports.
    pub const EXPLORE: &str = include_str!("../../../../config/prompts/explore.md");
    /// Changes files.
    pub const IMPLEMENT: &str = include_str!("../../../../config/prompts/implement.md");
    /// Looks for what would show a claim wrong.
    pub const VERIFY: &str = include_str!("../../../../config/prompts/verify.md");
}

/// A value as JSON on one line. Code stays readable, unlike in JSON for HTML pages, yet nothing in a string closes a tag.
fn json_text(value: minijinja::Value) -> Result<String, minijinja::Error> {
    serde_json::to_string(&value)
        .map(|text| text.replace("</", "<\\/"))
        .map_err(|error| {
            minijinja::Error::new(ErrorKind::BadSerialization, "a value that is not JSON").with_source(error)
        })
}

fn render(template: &str, values: impl Serialize) -> String {
    // Names are typed by the callers below, and each template is rendered by a test.
    #[expect(
        clippy::expect_used,
        reason = "a constant template and a constant set of names"
    )]
    TEMPLATES
        .get_template(template)
        .and_then(|it| it.render(Serde(values)))
        .expect("a template that renders")
}

/// The description of an agent's terminating tool, where its answer needs one.
pub fn submission(answer: AnswerForm) -> Option<ToolSpec> {
    let (name, description, parameters) = match answer {
        AnswerForm::Text => return None,
        AnswerForm::Plan => (SUBMIT_PLAN, "Submits the plan and ends your work.", plan_schema()),
        AnswerForm::Reflection => (
            SUBMIT_REFLECTION,
            "Submits your judgement and ends your work.",
            reflection_schema(),
        ),
    };
    let example = match answer {
        AnswerForm::Text => Value::Null,
        AnswerForm::Plan => json!({
            "summary": "Look for the callers, then change them and check.",
            "subtasks": [
                {"id": "look", "title": "Find the callers", "agent": "explore", "task": "Find every caller of `load` in src/, with file and line."},
                {"id": "test", "title": "Run the tests", "depends_on": ["look"],
                 "calls": [{"tool": "execute_command", "parameters": {"command": ["cargo", "test"]}}]}
            ]
        }),
        AnswerForm::Reflection => {
            json!({"verdict": "achieved", "summary": "Renamed `a` to `b` in src/lib.rs; `cargo test` passes."})
        }
    };
    Some(ToolSpec {
        name: name.to_owned(),
        description: description.to_owned(),
        parameters,
        repeat: Repeat::Safe,
        example,
    })
}

/// An agent's system prompt (PROMPT-2): its role, its tools, how to call them and when to finish. `tools` are those that it may call;
/// its terminating tool is added.
pub fn system_prompt(role: &str, tools: &[&ToolSpec], answer: AnswerForm) -> String {
    let terminating = submission(answer);
    let tools: Vec<Value> = tools
        .iter()
        .map(|tool| (*tool, false))
        .chain(terminating.iter().map(|tool| (tool, true)))
        .map(|(tool, terminates)| {
            json!({"name": tool.name, "description": tool.description, "parameters": tool.parameters, "example": tool.example, "terminates": terminates})
        })
        .collect();
    render(
        "system",
        json!({
            "role": role.trim_end(),
            "tools": tools,
            "terminating": terminating.map(|tool| tool.name),
            "text_allowed": text_allowed(answer),
        }),
    )
}

/// What is known of the run when a round is planned or judged.
#[derive(Clone, Debug, Serialize)]
pub struct RoundContext<'a> {
    /// The goal in the user's words.
    pub goal: &'a str,
    /// The round, from 1.
    pub round: u32,
    /// How many there may be.
    pub max_rounds: u32,
    /// The user's guidance so far, in order; a plan names it by its number from 1.
    pub guidance: &'a [String],
    /// Questions that were asked and the user's answers.
    pub answers: &'a [Answer],
    /// The rounds before this one.
    pub rounds: Vec<PastRound<'a>>,
}

/// A question that the user has answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Answer {
    /// What was asked.
    pub question: String,
    /// The user's words.
    pub answer: String,
}

/// An earlier round in short.
#[derive(Clone, Debug, Serialize)]
pub struct PastRound<'a> {
    /// The round, from 1.
    pub round: u32,
    /// The plan's summary.
    pub plan: &'a str,
    /// The reflection's verdict and summary.
    #[serde(flatten)]
    pub reflection: Option<PastReflection<'a>>,
}

/// An earlier judgement in short.
#[derive(Clone, Debug, Serialize)]
pub struct PastReflection<'a> {
    /// What followed.
    pub verdict: crate::reflection::Verdict,
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

/// The planner's brief. `observed` are the observations of the last round.
pub fn plan_request(
    round: &RoundContext<'_>,
    agents: &[AgentSpec],
    tools: &[ToolSpec],
    observed: &[Observation],
) -> String {
    let agents: Vec<Value> = agents
        .iter()
        .map(|agent| json!({"name": agent.name, "description": agent.description}))
        .collect();
    let tools: Vec<Value> = tools
        .iter()
        .map(|tool| json!({"name": tool.name, "summary": format!("{}.", first_sentence(&tool.description)), "parameters": tool.parameters}))
        .collect();
    #[derive(Serialize)]
    struct Values<'a> {
        #[serde(flatten)]
        round: &'a RoundContext<'a>,
        agents: Vec<Value>,
        tools: Vec<Value>,
        observations: Vec<Value>,
    }
    render(
        "plan_request",
        Values {
            round,
            agents,
            tools,
            observations: observation_lines(observed),
        },
    )
}

/// The reflector's brief. `changed` are the files changed by the whole run so far.
pub fn reflect_request(
    round: &RoundContext<'_>,
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
        round: &'a RoundContext<'a>,
        plan: String,
        observations: Vec<Value>,
        changed: &'a [&'a str],
    }
    let plan = shorten_value(&plan, MAX_STRING, None).to_string();
    render(
        "reflect_request",
        Values {
            round,
            plan,
            observations: observation_lines(observed),
            changed,
        },
    )
}

/// A sub-agent's brief: its task and the observations of what it depends on, nothing else (PAOR-5).
pub fn task_request(task: &str, findings: &[&Observation]) -> String {
    let findings = observation_lines(findings.iter().copied());
    render("task_request", json!({"task": task, "findings": findings}))
}

/// What asks a model to summarise the conversation before it (LOOP-11).
pub fn summarise_request(task: &str) -> String {
    format!("Summarise what was done for the task: {task}")
}

/// A summary as it stands in the place of what it summarises.
pub fn summary(text: &str) -> String {
    format!("<SUMMARY>\n{text}\n</SUMMARY>")
}

/// What goes back to a model whose reply could not be used (LOOP-3).
pub fn malformed(error: &str, spec: &AgentSpec) -> String {
    let terminating = submission(spec.answer).map(|tool| tool.name);
    let tools: Vec<&str> = spec
        .tools
        .iter()
        .map(String::as_str)
        .chain(terminating.as_deref())
        .collect();
    render(
        "malformed",
        json!({"error": error, "tools": tools, "text_allowed": text_allowed(spec.answer), "terminating": terminating}),
    )
}

/// Whether a reply without a call can be the agent's answer.
pub fn text_allowed(answer: AnswerForm) -> bool {
    match answer {
        AnswerForm::Text | AnswerForm::Plan => true,
        AnswerForm::Reflection => false,
    }
}

fn first_sentence(text: &str) -> &str {
    text.split_once(". ")
        .map_or(text, |(first, _)| first)
        .trim_end_matches('.')
}

/// The observations as JSON, one an element, within the context budget (PAOR-6): long strings shortened with their handle,
/// and when all of them are too much, failures first, each the shorter the less room there is, and the rest counted.
fn observation_lines<'a>(observed: impl IntoIterator<Item = &'a Observation>) -> Vec<Value> {
    let observed: Vec<&Observation> = observed.into_iter().collect();
    let (failed, others): (Vec<usize>, Vec<usize>) =
        (0..observed.len()).partition(|index| observed[*index].status() == ObservationStatus::Failed);
    let (mut lines, mut room) = (BTreeMap::new(), MAX_OBSERVATIONS);
    for index in failed.into_iter().chain(others) {
        let fitting = [MAX_STRING, MIN_STRING]
            .into_iter()
            .filter(|_| room > MIN_STRING)
            .map(|max| line_within(observed[index], max))
            .map(|line| (line.to_string().len(), line))
            .find(|(size, _)| *size <= room);
        if let Some((size, line)) = fitting {
            room -= size;
            lines.insert(index, line);
        }
    }
    let left_out: Vec<&Observation> = (0..observed.len())
        .filter(|index| !lines.contains_key(index))
        .map(|index| observed[index])
        .collect();
    let succeeded = left_out
        .iter()
        .filter(|observation| observation.succeeded())
        .count();
    let counted =
        (!left_out.is_empty()).then(|| json!({"left_out": left_out.len(), "of_these_succeeded": succeeded}));
    lines.into_values().chain(counted).collect()
}

/// A value with its long strings shortened, and as shortened text where it is long for other reasons.
fn short(value: &Value, max: usize, handle: &str) -> Value {
    let value = shorten_value(value, max, Some(handle));
    let text = value.to_string();
    if text.len() <= 4 * max {
        value
    } else {
        Value::String(shorten(&text, 4 * max, Some(handle)).into_owned())
    }
}

/// One observation as a model reads it.
pub fn observation_line(observation: &Observation) -> Value {
    line_within(observation, MAX_STRING)
}

/// As [`observation_line`], with about `max` characters for each string.
fn line_within(observation: &Observation, max: usize) -> Value {
    let mut line =
        json!({"subtask": observation.subtask, "title": observation.title, "status": observation.status()});
    match &observation.finding {
        Finding::Skipped { because } => line["because"] = json!(because),
        Finding::Calls { calls } => {
            line["duration_ms"] = json!(observation.duration);
            line["calls"] = calls
                .iter()
                .map(|observed| {
                    let handle = observed.effect.to_string();
                    json!({
                        "tool": observed.call.tool,
                        "parameters": short(&observed.call.parameters, max, &handle),
                        "result": short(&observed.result.for_model(), max, &handle),
                        "duration_ms": observed.result.duration,
                        "handle": handle,
                    })
                })
                .collect();
        }
        Finding::Agent {
            name, result, work, ..
        } => {
            line["duration_ms"] = json!(observation.duration);
            line["agent"] = json!(name);
            match result {
                Ok(findings) => line["findings"] = json!(shorten(findings, 4 * max, None)),
                Err(failure) => line["error"] = json!(shorten(&failure.to_string(), max, None)),
            }
            line["calls"] = work
                .calls
                .iter()
                .map(|call| {
                    let parameters = short(&call.parameters, max, &call.effect.to_string());
                    let mut digest =
                        json!({"tool": call.tool, "parameters": parameters, "success": call.success});
                    if let Some(error) = &call.error {
                        digest["error"] = json!(error);
                    }
                    digest["handle"] = json!(call.effect);
                    digest
                })
                .collect();
            line["changes"] = work
                .changes
                .iter()
                .map(|change| Value::String(change.to_string()))
                .collect();
        }
    }
    line
}
