//! Prompts. This module renders all texts for models, from the templates in `config/prompts`.
//!
//! A system prompt depends only on the agent's spec and is journaled with the run. So all requests of an agent share their prefix, and a
//! replay uses the same prompts.
//!
//! The values in templates come from users, tools, models and files. They cannot open or close a section (`crate::tags`), and a value below
//! a heading cannot start another heading.

mod extraction;
mod handle;
mod observation_text;
mod observations;
mod parameters;
mod project;
mod requests;
mod sections;
mod shorten;
mod system;
mod user_notes;
mod work_order;

use std::sync::LazyLock;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, ErrorKind, Output, State, UndefinedBehavior, Value};
use serde::Serialize;

use crate::tags::escape_tags;

pub use extraction::{
    ExtractionRequest, ParameterLine, ParameterType, SET_PARAMETERS, extraction_prompt, extraction_request,
    extraction_tool,
};
pub use handle::{OutputHandle, ParseHandleError};
pub use observation_text::parse_observations;
pub(crate) use observations::earlier_observations;
pub use observations::{observation_line, whole_observations, whole_report};
pub use project::{SharedProject, project, run_goal};
pub(crate) use project::{UsableEnvironment, split_environment};
pub use requests::{
    AnsweredQuestion, ContinueContext, EndedIteration, IterationContext, KnownTools, PastIteration,
    PastReflection, TurnContext, closing_message, continue_request, edited_plan, guidance, plan_request,
    reflect_request, summarise_request, summary, task_request, tools_changed,
};
pub use sections::{CallLine, ObservationLine};
pub use shorten::READ_OUTPUT;
pub(crate) use shorten::{shorten_output, shorten_result};
pub(crate) use system::last_turn;
pub use system::{call_in_prose, malformed, system_prompt};
pub use user_notes::user_notes;

/// The role texts of the lead and the reflector, which are the same in every run.
pub mod roles {
    use serde_json::json;

    use super::render;
    use crate::mode::Mode;

    /// Renders the role text of the lead for this mode (LEAD-2).
    pub fn lead(mode: Mode) -> String {
        render("lead", json!({"plan_mode": !mode.is_auto()}))
    }

    /// Role text of the reflector.
    pub const REFLECTOR: &str = include_str!("../../../../config/prompts/reflector.md");
}

macro_rules! template {
    ($name:literal) => {
        (
            $name,
            include_str!(concat!("../../../../config/prompts/", $name, ".md")),
        )
    };
}

static TEMPLATES: LazyLock<Environment<'static>> = LazyLock::new(templates);

// Cannot panic: the delimiters are the defaults, the templates are compiled in, and a test renders each of them.
#[expect(
    clippy::expect_used,
    reason = "all inputs are constants, and a test renders each template"
)]
fn templates() -> Environment<'static> {
    let syntax = SyntaxConfig::builder().trim_blocks(true).build();
    let mut environment = Environment::new();
    environment.set_syntax(syntax.expect("the default delimiters are valid"));
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_formatter(write_escaped);
    environment.add_filter("tojson", json_text);
    environment.add_filter("observation", observation_filter);
    environment.add_filter("plan", plan_filter);
    for (name, source) in [
        template!("call_in_prose"),
        template!("calls"),
        template!("closing_message"),
        template!("continue_request"),
        template!("edited_plan"),
        template!("extract_parameters"),
        template!("extract_parameters_request"),
        template!("guidance"),
        template!("last_turn"),
        template!("lead"),
        template!("malformed"),
        template!("plan_request"),
        template!("project"),
        template!("reflect_request"),
        template!("iterations"),
        template!("run_goal"),
        template!("summarise"),
        template!("summary"),
        template!("system"),
        template!("task_request"),
        template!("tools_changed"),
        template!("user_notes"),
    ] {
        environment
            .add_template(name, source)
            .expect("a built-in template parses");
    }
    environment
}

fn render(template: &str, values: impl Serialize) -> String {
    // Cannot panic: callers pass constant template names, and a test renders each template.
    #[expect(
        clippy::expect_used,
        reason = "the template and the names of its values are constants"
    )]
    let text = TEMPLATES
        .get_template(template)
        .and_then(|it| it.render(Serde(values)))
        .expect("a built-in template renders");
    text.trim_end().to_owned()
}

/// Formats a value as JSON on one line, without HTML escaping, so that code stays readable.
fn json_text(value: Value) -> Result<String, minijinja::Error> {
    serde_json::to_string(&value).map_err(not_json)
}

fn to_json(value: &Value) -> Result<serde_json::Value, minijinja::Error> {
    serde_json::to_value(value).map_err(not_json)
}

fn not_json(error: serde_json::Error) -> minijinja::Error {
    minijinja::Error::new(
        ErrorKind::BadSerialization,
        "the value cannot be converted to JSON",
    )
    .with_source(error)
}

/// Formats a plan as JSON with each sub-task and each call on a line of its own.
fn plan_filter(value: Value) -> Result<String, minijinja::Error> {
    Ok(observation_text::json_lines(&to_json(&value)?))
}

/// Formats an observation as [`parse_observations`] reads it.
fn observation_filter(value: Value) -> Result<String, minijinja::Error> {
    Ok(observation_text::observation_text(to_json(&value)?))
}

/// Writes a template value with all section tags escaped.
fn write_escaped(out: &mut Output<'_>, _: &mut State<'_, '_>, value: &Value) -> Result<(), minijinja::Error> {
    match value.as_str() {
        Some(text) if !value.is_safe() => out.write_str(&escape_tags(text))?,
        Some(text) => out.write_str(text)?,
        None => out.write_str(&escape_tags(&value.to_string()))?,
    }
    Ok(())
}
