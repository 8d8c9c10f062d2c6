//! Tools made from a function and the type of its parameters.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod folder;

use dirigent_core::tool::{Access, Repeat, ToolResult};
use dirigent_tools::{Tool, ToolSettings, TypedTool, built_in, typed};
use folder::{Folder, error, output};
use schemars::JsonSchema;
use serde::Deserialize;
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
fn a_typed_tool_describes_its_parameters_without_noise() {
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
                "times": {"description": "How often.", "type": ["integer", "null"], "minimum": 0, "maximum": 255},
                "style": {
                    "type": ["object", "null"],
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
async fn call_6_parameters_that_do_not_fit_are_named() {
    let folder = Folder::with(&[]);
    let cases = [
        (json!({"name": "Ada", "times": "two"}), "`times`"),
        (json!({"name": "Ada", "style": {"title": 3}}), "`style.title`"),
        (json!({"name": "Ada", "tines": 2}), "`tines`"),
        (json!({"times": 2}), "missing field `name`"),
        (json!("Ada"), "bad parameters"),
    ];
    for (parameters, named) in cases {
        let error = error(folder.call(greet(), parameters.clone()).await);
        assert!(error.contains(named), "{parameters}: {error}");
    }
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
fn what_models_read_of_the_file_tools() {
    let specs: Vec<_> = ["file_operations", "search"]
        .map(|name| built_in(&ToolSettings::default()).get(name).unwrap().spec())
        .into();
    insta::assert_snapshot!(serde_json::to_string_pretty(&specs).unwrap());
}
