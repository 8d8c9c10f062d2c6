//! Every text that goes to a model, rendered here from the templates in `config/prompts` and nowhere else.
//!
//! A system prompt depends on the agent's spec alone and is journaled with the run, so that all requests of
//! an agent share their beginning and a replayed run is prompted as it was.
//!
//! What a template fills in is said by users, tools, models and files. None of it can open or close a section
//! ([`crate::tags`]), and none of it that stands below a heading can make another.

mod handle;
mod observations;
mod parameters;
mod requests;
mod shorten;
mod system;

use std::sync::LazyLock;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, ErrorKind, Output, State, UndefinedBehavior, Value};
use serde::Serialize;

use crate::tags::escape_tags;

pub use handle::{OutputHandle, ParseHandleError};
pub(crate) use observations::earlier_observations;
pub use observations::{observation_line, whole_observations, whole_report};
pub use requests::{
    AnsweredQuestion, IterationContext, PastIteration, PastReflection, plan_request, reflect_request,
    summarise_request, summary, task_request,
};
pub use shorten::READ_OUTPUT;
pub(crate) use shorten::shorten_result;
pub(crate) use system::last_turn;
pub use system::{call_in_prose, malformed, system_prompt};

/// The role text of the planner and the reflector, which every run has.
pub mod roles {
    /// Makes plans.
    pub const PLANNER: &str = include_str!("../../../../config/prompts/planner.md");
    /// Judges iterations.
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

// The delimiters are the usual ones; the templates are compiled in, and each is rendered by a test.
#[expect(clippy::expect_used, reason = "constants, used by every test of a prompt")]
fn templates() -> Environment<'static> {
    let syntax = SyntaxConfig::builder().trim_blocks(true).build();
    let mut environment = Environment::new();
    environment.set_syntax(syntax.expect("delimiters that differ"));
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_formatter(write_escaped);
    environment.add_filter("tojson", json_text);
    for (name, source) in [
        template!("call_in_prose"),
        template!("calls"),
        template!("last_turn"),
        template!("malformed"),
        template!("plan_request"),
        template!("reflect_request"),
        template!("iterations"),
        template!("summarise"),
        template!("summary"),
        template!("system"),
        template!("task_request"),
    ] {
        environment
            .add_template(name, source)
            .expect("a template that parses");
    }
    environment
}

fn render(template: &str, values: impl Serialize) -> String {
    // Names are typed by the callers, and each template is rendered by a test.
    #[expect(
        clippy::expect_used,
        reason = "a constant template and a constant set of names"
    )]
    let text = TEMPLATES
        .get_template(template)
        .and_then(|it| it.render(Serde(values)))
        .expect("a template that renders");
    text.trim_end().to_owned()
}

/// A value as JSON on one line. Code stays readable, unlike in JSON for HTML pages.
fn json_text(value: Value) -> Result<String, minijinja::Error> {
    serde_json::to_string(&value).map_err(|error| {
        minijinja::Error::new(ErrorKind::BadSerialization, "a value that is not JSON").with_source(error)
    })
}

/// Writes what a template fills in.
fn write_escaped(out: &mut Output<'_>, _: &mut State<'_, '_>, value: &Value) -> Result<(), minijinja::Error> {
    match value.as_str() {
        Some(text) if !value.is_safe() => out.write_str(&escape_tags(text))?,
        Some(text) => out.write_str(text)?,
        None => out.write_str(&escape_tags(&value.to_string()))?,
    }
    Ok(())
}
