//! A tool's parameters as a list that models read well, at about half the length of their JSON Schema
//! (PROMPT-2):
//!
//! ```text
//! - path (string, required): The file.
//! - depth (integer, 1 or more, default 2): How far to look.
//! - edits (array of object, required): In this order.
//!   - old (string, required)
//! - run (array of string | string, required): One of several forms, those below it that have more to say.
//!   - array of string, 1 or more elements: A program and its arguments.
//! ```
//!
//! A parameter whose schema says more than the list can is written as JSON Schema, and so are all of them
//! where it is the whole schema that says more. Left out is what changes no call: that an optional parameter
//! may be `null` instead of missing, that no others are allowed, titles, the description, examples and
//! default of the whole, and the default of an array's elements.

use serde_json::{Map, Value};

use crate::text::one_line;

/// What a list can say of a parameter, and `title`, `$schema` and `additionalProperties`, of which it says
/// nothing.
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

/// What may stand beside several forms of a value.
const BESIDE_FORMS: [&str; 5] = ["anyOf", "default", "description", "examples", "title"];

/// The parameters below a heading.
pub(super) fn listed(schema: &Value) -> String {
    text(schema, 0)
}

/// The parameters as part of another list.
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

/// The type of a value in words, and the lines for what it holds.
struct TypeDescription {
    words: Vec<String>,
    below: Vec<String>,
}

/// The properties of an object, a line each; none where the list can't say what its schema says.
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

/// A value of one of several forms: the type of each, and a line for each of which there is more to say.
fn one_of(
    forms: &Value,
    schema: &Map<String, Value>,
    presence: Presence,
    depth: usize,
) -> Option<TypeDescription> {
    // What is asked beside the forms is asked of each, which a list can't say.
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

/// What is asked of a value beyond its type.
fn bounds(schema: &Map<String, Value>) -> Vec<String> {
    let said = |key: &str, words: &str| Some(words.replace("{}", &schema.get(key)?.to_string()));
    let range = |least: &str, most: &str, unit: &str| match (schema.get(least), schema.get(most)) {
        (Some(least), Some(most)) => Some(format!("{least} to {most}{unit}")),
        (Some(least), None) => Some(format!("{least} or more{unit}")),
        (None, Some(most)) => Some(format!("at most {most}{unit}")),
        (None, None) => None,
    };
    let unique = schema.get("uniqueItems") == Some(&Value::Bool(true));
    [
        range("minimum", "maximum", ""),
        said("exclusiveMinimum", "more than {}"),
        said("exclusiveMaximum", "less than {}"),
        said("multipleOf", "a multiple of {}"),
        range("minLength", "maxLength", " characters"),
        said("pattern", "matching {}"),
        said("format", "format {}"),
        range("minItems", "maxItems", " elements"),
        unique.then(|| "no element twice".to_owned()),
        said("examples", "such as {}"),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Whether the list can say all that the schema says, but for the schemas in it.
fn is_known(schema: &Map<String, Value>) -> bool {
    // Properties of any name and one kind can't be listed.
    let others = schema.get("additionalProperties");
    others.is_none_or(Value::is_boolean) && schema.keys().all(|key| KNOWN.contains(&key.as_str()))
}
