//! The reference of the API, as a page and as Markdown. Both are made from the OpenAPI description.

use std::fmt::Write as _;

use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::{IntoResponse as _, Response};
use serde_json::Value;

use crate::openapi::openapi;

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color-scheme:light dark}\
code{font-family:ui-monospace,monospace}table{border-collapse:collapse;width:100%}td,th{text-align:left;vertical-align:top;\
padding:.25rem .75rem .25rem 0;border-bottom:1px solid #8884}h3{margin-top:2rem}";

/// The header that any answer to a request with an `Idempotency-Key` may have.
const REPLAYED: &str = "Idempotency-Replayed";

/// A request that clients can make.
struct Operation<'a> {
    method: String,
    path: &'a str,
    summary: String,
    /// Parameters of the address and the query, and fields of the body.
    inputs: Vec<Input<'a>>,
    /// The status and the description of each response, with the names of its headers.
    responses: Vec<(&'a str, String)>,
}

struct Input<'a> {
    name: &'a str,
    /// `path`, `query`, `header` or `body`.
    place: &'a str,
    kind: String,
    is_required: bool,
    description: String,
}

/// `GET /reference`: the reference as a page without scripts.
pub(crate) async fn page() -> Response {
    let headers = [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        (
            CONTENT_SECURITY_POLICY,
            "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
        ),
    ];
    (headers, html()).into_response()
}

/// The reference as Markdown.
pub fn reference_markdown() -> String {
    let mut text = String::new();
    for (tag, description) in tags() {
        let _ = writeln!(text, "## {tag}\n{description}\n");
        for operation in operations(tag) {
            let _ = writeln!(
                text,
                "### `{} {}`\n{}\n",
                operation.method, operation.path, operation.summary
            );
            if !operation.inputs.is_empty() {
                let _ = writeln!(text, "| input | in | type | meaning |\n| --- | --- | --- | --- |");
            }
            for input in &operation.inputs {
                let (kind, description) = (
                    input.kind.replace('|', "\\|"),
                    input.description.replace('|', "\\|"),
                );
                let required = if input.is_required { "**" } else { "" };
                let _ = writeln!(
                    text,
                    "| {required}`{}`{required} | {} | {kind} | {description} |",
                    input.name, input.place
                );
            }
            let responses = operation.responses.iter();
            let responses: Vec<String> = responses
                .map(|(status, description)| format!("`{status}` {description}"))
                .collect();
            let gap = if operation.inputs.is_empty() { "" } else { "\n" };
            let _ = writeln!(text, "{gap}Answers: {}.\n", responses.join("; "));
        }
    }
    text
}

fn html() -> String {
    let mut text = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Dirigent: HTTP API</title><style>{STYLE}</style>\
         <h1>HTTP API</h1><p>The same as OpenAPI 3.1: <a href=\"/openapi.json\">/openapi.json</a>. Required inputs are bold.</p>"
    );
    for (tag, description) in tags() {
        let _ = write!(text, "<h2>{}</h2><p>{}</p>", escaped(tag), formatted(description));
        for operation in operations(tag) {
            let _ = write!(
                text,
                "<h3><code>{} {}</code></h3><p>{}</p>",
                operation.method,
                escaped(operation.path),
                formatted(&operation.summary)
            );
            write_inputs(&mut text, &operation.inputs);
            for (status, description) in &operation.responses {
                let _ = write!(text, "<p><code>{status}</code> {}</p>", formatted(description));
            }
        }
    }
    text
}

fn write_inputs(text: &mut String, inputs: &[Input<'_>]) {
    if inputs.is_empty() {
        return;
    }
    text.push_str("<table><tr><th>input<th>in<th>type<th>meaning");
    for input in inputs {
        let weight = if input.is_required { "b" } else { "span" };
        let _ = write!(
            text,
            "<tr><td><{weight}><code>{}</code></{weight}><td>{}<td>{}<td>{}",
            escaped(input.name),
            input.place,
            formatted(&input.kind),
            formatted(&input.description)
        );
    }
    text.push_str("</table>");
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// The text with what is between backticks as code.
fn formatted(text: &str) -> String {
    let parts = escaped(text);
    let parts = parts.split('`').enumerate().map(|(index, part)| match index % 2 {
        0 => part.to_owned(),
        _ => format!("<code>{part}</code>"),
    });
    parts.collect()
}

/// The tags with their descriptions, in the order of the reference.
fn tags() -> impl Iterator<Item = (&'static str, &'static str)> {
    let tags = openapi()["tags"].as_array().into_iter().flatten();
    tags.map(|tag| (text(&tag["name"]), text(&tag["description"])))
}

fn operations(tag: &str) -> Vec<Operation<'static>> {
    let paths = openapi()["paths"].as_object().into_iter().flatten();
    paths
        .flat_map(|(path, item)| {
            let methods = item.as_object().into_iter().flatten();
            methods.map(move |(method, described)| (path.as_str(), method, described))
        })
        .filter(|(_, _, described)| described["tags"][0] == tag)
        .map(|(path, method, described)| operation(path, method, described))
        .collect()
}

fn operation(path: &'static str, method: &str, described: &'static Value) -> Operation<'static> {
    let parameters = described["parameters"].as_array().into_iter().flatten();
    let mut inputs: Vec<Input<'_>> = parameters
        .map(|parameter| Input {
            name: text(&parameter["name"]),
            place: text(&parameter["in"]),
            kind: kind(&parameter["schema"]),
            is_required: parameter["required"] == true,
            description: text(&parameter["description"]).replace('\n', " "),
        })
        .collect();
    let body = &described["requestBody"]["content"]["application/json"]["schema"];
    inputs.extend(fields(resolved(body)));
    let responses = described["responses"].as_object().into_iter().flatten();
    Operation {
        method: method.to_uppercase(),
        path,
        summary: text(&described["summary"]).to_owned(),
        inputs,
        responses: responses
            .filter(|(status, _)| *status != "default")
            .map(|(status, response)| (status.as_str(), described_response(response)))
            .collect(),
    }
}

/// The description of a response, with the names of its own headers.
fn described_response(response: &Value) -> String {
    let headers = response["headers"].as_object().into_iter().flatten();
    let names: Vec<String> = headers
        .filter(|(name, _)| *name != REPLAYED)
        .map(|(name, _)| format!("`{name}`"))
        .collect();
    let description = text(&response["description"]);
    match names.is_empty() {
        true => description.to_owned(),
        false => format!("{description} (with {})", names.join(", ")),
    }
}

/// The fields of a body.
fn fields(schema: &'static Value) -> impl Iterator<Item = Input<'static>> {
    let fields = schema["properties"].as_object().into_iter().flatten();
    fields.map(|(name, field)| Input {
        name,
        place: "body",
        kind: kind(field),
        is_required: schema["required"]
            .as_array()
            .is_some_and(|required| required.iter().any(|other| other == name)),
        description: text(&field["description"]).replace('\n', " "),
    })
}

/// The schema itself, if it is a reference to one.
fn resolved(schema: &'static Value) -> &'static Value {
    match schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
        Some(name) => &openapi()["components"]["schemas"][name],
        None => schema,
    }
}

/// The type of a value in words, such as `string` or `auto | plan`.
fn kind(schema: &'static Value) -> String {
    let schema = resolved(schema);
    let several = schema["oneOf"].as_array().or(schema["anyOf"].as_array());
    if let Some(several) = several {
        let kinds = several.iter().map(kind).filter(|kind| kind != "null");
        return kinds.collect::<Vec<_>>().join(" | ");
    }
    if let Some(values) = schema["enum"].as_array() {
        let values = values.iter().map(|value| format!("`{}`", text(value)));
        return values.collect::<Vec<_>>().join(" | ");
    }
    match &schema["type"] {
        Value::String(kind) => kind.clone(),
        Value::Array(kinds) => {
            let kinds = kinds.iter().map(text).filter(|kind| *kind != "null");
            kinds.collect::<Vec<_>>().join(" | ")
        }
        _ => "any".to_owned(),
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
