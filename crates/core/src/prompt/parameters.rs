//! Formats a tool's parameters as a list that models read well, at about half the length of the JSON Schema (PROMPT-2):
//!
//! ```text
//! - path (string, required): The file.
//! - depth (integer, 1 or more, default 2): How far to look.
//! - edits (array of object, required): In this order.
//!   - old (string, required)
//! - run (array of string | string, required): One of several forms. Forms with details are listed below.
//!   - array of string, 1 or more elements: A program and its arguments.
//! ```
//!
//! A parameter is written as JSON Schema if the list cannot express its schema. All parameters are written as JSON Schema if the list
//! cannot express the outer schema. The list omits everything that does not affect calls: `null` for optional parameters,
//! `additionalProperties: false`, titles, the default of array elements, and the description, examples and default of the outer schema.

use serde_json::{Map, Value};

use crate::text::one_line;

/// Keywords that the list can express, plus `title`, `$schema` and `additionalProperties`, which the list omits.
const KNOWN: [&str; 24] = [
    "$schema",
    "additionalProperties",
    "const",
    "default",
    "description",
    "enum",
    "examples",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "items",
    "maximum",
    "maxItems",
    "maxLength",
    "minimum",
    "minItems",
    "minLength",
    "multipleOf",
    "pattern",
    "properties",
    "required",
    "title",
    "type",
    "uniqueItems",
];

/// Keywords that may appear next to `anyOf`.
const BESIDE_FORMS: [&str; 5] = ["anyOf", "default", "description", "examples", "title"];

/// Lists the parameters, for use below a heading.
pub(super) fn listed(schema: &Value) -> String {
    text(schema, 0)
}

/// Lists the parameters, indented for use within another list.
pub(super) fn nested(schema: &Value) -> String {
    text(schema, 1)
}

fn text(schema: &Value, depth: usize) -> String {
    match schema.as_object().and_then(|object| fields(object, depth)) {
        Some(lines) if lines.is_empty() => "It has no parameters.".to_owned(),
        Some(lines) => format!("Parameters:\n{}", lines.join("\n")),
        None => format!("Parameters, as JSON Schema: {schema}"),
    }
}

/// The description of a value's type, and the lines for nested values.
struct TypeDescription {
    words: Vec<String>,
    below: Vec<String>,
}

/// Lists the properties of an object, one per line; `None` if the list cannot express the schema.
fn fields(schema: &Map<String, Value>, depth: usize) -> Option<Vec<String>> {
    if !is_known(schema) {
        return None;
    }
    let empty = Map::new();
    let properties = match schema.get("properties") {
        Some(properties) => properties.as_object()?,
        None => &empty,
    };
    let required: Vec<&str> = match schema.get("required") {
        Some(names) => names
            .as_array()?
            .iter()
            .map(Value::as_str)
            .collect::<Option<_>>()?,
        None => Vec::new(),
    };
    if required.iter().any(|name| !properties.contains_key(*name)) {
        return None;
    }
    let lines = properties.iter().flat_map(|(name, schema)| {
        let presence = if required.contains(&name.as_str()) {
            Presence::Required
        } else {
            Presence::Optional
        };
        field(name, schema, presence, depth)
    });
    Some(lines.collect())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Presence {
    Required,
    Optional,
}

fn field(name: &str, schema: &Value, presence: Presence, depth: usize) -> Vec<String> {
    let indent = "  ".repeat(depth);
    let name = one_line(name);
    let Some((kind, schema)) = schema
        .as_object()
        .and_then(|schema| Some((kind(schema, presence, depth + 1)?, schema)))
    else {
        let required = match presence {
            Presence::Required => "required, ",
            Presence::Optional => "",
        };
        return vec![format!("{indent}- {name} ({required}as JSON Schema): {schema}")];
    };
    let mut words = kind.words;
    if presence == Presence::Required {
        words.push("required".to_owned());
    }
    if let Some(default) = schema.get("default").filter(|default| !default.is_null()) {
        words.push(format!("default {default}"));
    }
    let described = match schema.get("description").and_then(Value::as_str) {
        Some(description) => format!(": {}", one_line(description)),
        None => String::new(),
    };
    let line = format!("{indent}- {name} ({}){described}", words.join(", "));
    std::iter::once(line).chain(kind.below).collect()
}

fn kind(schema: &Map<String, Value>, presence: Presence, depth: usize) -> Option<TypeDescription> {
    if let Some(forms) = schema.get("anyOf") {
        return one_of(forms, schema, presence, depth);
    }
    if !is_known(schema) {
        return None;
    }
    let types: Vec<&str> = match schema.get("type") {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(several)) => several.iter().map(Value::as_str).collect::<Option<_>>()?,
        Some(_) => return None,
        None => Vec::new(),
    };
    let may_be_null = types.contains(&"null");
    let mut below = Vec::new();
    let mut choices: Vec<String> = Vec::new();
    for name in types.into_iter().filter(|name| *name != "null") {
        choices.push(match name {
            "array" => {
                let (words, lines) = array(schema.get("items"), depth)?;
                below.extend(lines);
                words
            }
            "object" => {
                let lines = fields(schema, depth)?;
                let closed = schema.get("additionalProperties") == Some(&Value::Bool(false));
                let words = if closed && lines.is_empty() {
                    "empty object"
                } else {
                    "object"
                };
                below.extend(lines);
                words.to_owned()
            }
            name => one_line(name),
        });
    }
    if let Some(value) = schema.get("const") {
        choices = vec![value.to_string()];
    } else if let Some(values) = schema.get("enum") {
        let values = values.as_array()?.iter().filter(|value| !value.is_null());
        choices = values.map(Value::to_string).collect();
    }
    if choices.is_empty() {
        choices.push("any JSON".to_owned());
    }
    if may_be_null && presence == Presence::Required {
        choices.push("null".to_owned());
    }
    let words = std::iter::once(choices.join(" | ")).chain(bounds(schema));
    Some(TypeDescription {
        words: words.collect(),
        below,
    })
}

/// Describes an `anyOf` schema: the type of each alternative, and a line for each alternative with further details.
fn one_of(
    forms: &Value,
    schema: &Map<String, Value>,
    presence: Presence,
    depth: usize,
) -> Option<TypeDescription> {
    // The list cannot express keywords that apply to all alternatives.
    if !schema.keys().all(|key| BESIDE_FORMS.contains(&key.as_str())) {
        return None;
    }
    let indent = "  ".repeat(depth);
    let (mut choices, mut below) = (Vec::new(), Vec::new());
    let mut may_be_null = false;
    for form in forms.as_array()? {
        let form = form.as_object()?;
        if form.get("type").and_then(Value::as_str) == Some("null") {
            may_be_null = true;
            continue;
        }
        let kind = kind(form, Presence::Required, depth + 1)?;
        let description = form.get("description").and_then(Value::as_str);
        if kind.words.len() > 1 || description.is_some() || !kind.below.is_empty() {
            let described = description.map_or(String::new(), |text| format!(": {}", one_line(text)));
            below.push(format!("{indent}- {}{described}", kind.words.join(", ")));
        }
        choices.extend(kind.words.into_iter().next());
        below.extend(kind.below);
    }
    if choices.is_empty() {
        return None;
    }
    if may_be_null && presence == Presence::Required {
        choices.push("null".to_owned());
    }
    let words = std::iter::once(choices.join(" | ")).chain(bounds(schema));
    Some(TypeDescription {
        words: words.collect(),
        below,
    })
}

fn array(items: Option<&Value>, depth: usize) -> Option<(String, Vec<String>)> {
    let Some(items) = items else {
        return Some(("array".to_owned(), Vec::new()));
    };
    let items = items.as_object()?;
    let kind = kind(items, Presence::Required, depth)?;
    let mut words = kind.words.join(", ");
    if let Some(description) = items.get("description").and_then(Value::as_str) {
        words = format!("{words}: {}", one_line(description));
    }
    let is_plain = words.chars().all(char::is_alphanumeric);
    let words = if is_plain { words } else { format!("({words})") };
    Some((format!("array of {words}"), kind.below))
}

/// Describes the constraints on a value besides its type.
fn bounds(schema: &Map<String, Value>) -> Vec<String> {
    let described = |key: &str, words: &str| Some(words.replace("{}", &schema.get(key)?.to_string()));
    let range = |least: &str, most: &str, unit: &str| match (schema.get(least), schema.get(most)) {
        (Some(least), Some(most)) => Some(format!("{least} to {most}{unit}")),
        (Some(least), None) => Some(format!("{least} or more{unit}")),
        (None, Some(most)) => Some(format!("at most {most}{unit}")),
        (None, None) => None,
    };
    let unique = schema.get("uniqueItems") == Some(&Value::Bool(true));
    [
        range("minimum", "maximum", ""),
        described("exclusiveMinimum", "more than {}"),
        described("exclusiveMaximum", "less than {}"),
        described("multipleOf", "a multiple of {}"),
        range("minLength", "maxLength", " characters"),
        described("pattern", "matching {}"),
        described("format", "format {}"),
        range("minItems", "maxItems", " elements"),
        unique.then(|| "no element twice".to_owned()),
        described("examples", "such as {}"),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Returns true if the list of parameters can express the schema. Does not check the schemas nested in it.
fn is_known(schema: &Map<String, Value>) -> bool {
    // The list cannot express a schema for arbitrary property names.
    let others = schema.get("additionalProperties");
    others.is_none_or(Value::is_boolean) && schema.keys().all(|key| KNOWN.contains(&key.as_str()))
}
