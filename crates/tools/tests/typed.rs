//! Tools made from a function and the type of its parameters.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::folder::{Folder, error, output};
use dirigent_core::tool::{Access, Repeat, ToolOutcome, ToolResult};
use dirigent_tools::{
    IntoToolResult, Tool, ToolContext, ToolSettings, ToolSource as _, TypedTool, built_in, typed,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// A doc comment that the tool's own description replaces.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Greeting {
    /// Who is greeted.
    name: String,
    /// How often.
    times: Option<u8>,
    style: Option<Style>,
}

#[derive(Deserialize, JsonSchema)]
struct Style {
    title: String,
}

fn greet() -> TypedTool {
    typed("greet", "Greets. Politely.", async |_, greeting: Greeting| {
        let title = greeting.style.map(|style| style.title + " ").unwrap_or_default();
        let one = format!("hello {title}{}", greeting.name);
        ToolResult::success(json!(vec![one; usize::from(greeting.times.unwrap_or(1))]))
    })
    .repeat(Repeat::Safe)
    .access(Access::ReadOnly)
    .example(json!({"name": "Ada"}))
}

#[test]
fn the_schema_of_a_typed_tool_has_only_useful_keywords() {
    let spec = greet().spec();
    assert_eq!(
        (spec.name.as_str(), spec.example),
        ("greet", json!({"name": "Ada"}))
    );
    assert_eq!(
        spec.parameters,
        json!({
            "type": "object",
            "properties": {
                "name": {"description": "Who is greeted.", "type": "string"},
                "times": {"description": "How often.", "type": "integer", "minimum": 0, "maximum": 255},
                "style": {
                    "type": "object",
                    "properties": {"title": {"type": "string"}},
                    "required": ["title"],
                },
            },
            "additionalProperties": false,
            "required": ["name"],
        })
    );
}

#[tokio::test]
async fn a_typed_tool_runs_with_its_parameters() {
    let folder = Folder::with(&[]);
    let result = folder
        .call(
            greet(),
            json!({"name": "Ada", "times": 2, "style": {"title": "Lady"}}),
        )
        .await;
    assert_eq!(output(result), json!(["hello Lady Ada", "hello Lady Ada"]));
}

#[tokio::test]
async fn call_6_parameters_that_do_not_match_the_schema_are_named() {
    let folder = Folder::with(&[]);
    let cases = [
        (json!({"name": "Ada", "times": "two"}), "`times`"),
        (json!({"name": "Ada", "style": {"title": 3}}), "`style.title`"),
        (json!({"name": "Ada", "tines": 2}), "`tines`"),
        (json!({"times": 2}), "missing field `name`"),
        (json!("Ada"), "bad parameters"),
    ];
    for (parameters, named) in cases {
        let result = folder.call(greet(), parameters.clone()).await;
        assert_eq!(code(&result), "bad_parameters");
        let error = error(result);
        assert!(error.contains(named), "{parameters}: {error}");
    }
}

fn code(result: &ToolResult) -> &str {
    match &result.outcome {
        ToolOutcome::Failure { code, .. } => code,
        ToolOutcome::Success { output } => panic!("the call succeeded: {output}"),
    }
}

#[derive(Serialize)]
struct Status {
    delivered: bool,
}

async fn status(_: ToolContext, greeting: Greeting) -> Result<Status, std::num::ParseIntError> {
    let number: u32 = greeting.name.parse()?;
    Ok(Status {
        delivered: number == 17,
    })
}

#[tokio::test]
async fn a_function_can_return_a_result_of_any_value_and_any_error() {
    let folder = Folder::with(&[]);
    let tool = typed("status", "Says whether it was delivered.", status);
    let result = folder.call(tool.clone(), json!({"name": "17"})).await;
    assert_eq!(output(result), json!({"delivered": true}));
    let result = folder.call(tool, json!({"name": "Ada"})).await;
    assert_eq!(code(&result), "");
    assert_eq!(error(result), "invalid digit found in string");
}

#[test]
fn a_tool_result_inside_ok_is_returned_unchanged() {
    let inner = ToolResult::failure("no such order")
        .with_code("not_found")
        .with_metadata("desk", 3);
    assert_eq!(Ok::<_, String>(inner.clone()).into_tool_result(), inner);
    assert_eq!(inner.clone().into_tool_result(), inner);
}

#[test]
fn a_value_that_cannot_be_serialized_as_json_is_a_failure() {
    let value = std::collections::BTreeMap::from([(vec![1], 2)]);
    let result = Ok::<_, String>(value).into_tool_result();
    assert_eq!(code(&result), "broke_down");
    insta::assert_snapshot!(error(result), @"the tool ran, but its result cannot be serialized to JSON: key must be a string");
}

#[test]
fn a_tool_needs_read_write_access_by_default() {
    let spec = typed("status", "Says whether it was delivered.", status).spec();
    assert_eq!((spec.access, spec.repeat), (Access::ReadWrite, Repeat::Unsafe));
    assert_eq!(
        (greet().spec().access, greet().spec().repeat),
        (Access::ReadOnly, Repeat::Safe)
    );
}

#[test]
fn approve_1_a_tool_can_say_that_its_calls_must_be_approved() {
    assert!(!greet().spec().requires_approval);
    assert!(greet().requires_approval().spec().requires_approval);
}

#[test]
fn the_built_in_tools_are_in_the_registry() {
    let names: Vec<String> = built_in(&ToolSettings::default())
        .specs()
        .into_iter()
        .map(|spec| spec.name)
        .collect();
    for name in ["file_operations", "search"] {
        assert!(names.contains(&name.to_owned()), "{names:?}");
    }
}

#[test]
fn the_descriptions_of_the_file_tools() {
    let specs: Vec<_> = ["file_operations", "search"]
        .map(|name| built_in(&ToolSettings::default()).get(name).unwrap().spec)
        .into();
    insta::assert_snapshot!(serde_json::to_string_pretty(&specs).unwrap());
}
