//! The schema of a tool's parameters as shown to models.

use serde_json::{Map, Value};

/// Keywords whose values are not schemas.
const DATA: [&str; 5] = ["const", "default", "enum", "examples", "required"];

/// Keywords whose values are objects with a schema for each name.
const NAMED: [&str; 5] = [
    "$defs",
    "definitions",
    "dependentSchemas",
    "patternProperties",
    "properties",
];

/// Returns the schema without keywords that are useless to a model but would cost tokens in each request: `additionalProperties: false`
/// next to `properties`, and minimums of 0 and 1. Calls are checked against the whole schema (CALL-6).
pub(super) fn for_model(schema: &Value) -> Value {
    match schema {
        Value::Object(keywords) => {
            let needed = keywords.iter().filter(|(key, value)| needs(keywords, key, value));
            needed
                .map(|(key, value)| (key.clone(), keyword(key, value)))
                .collect()
        }
        Value::Array(schemas) => schemas.iter().map(for_model).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => schema.clone(),
    }
}

fn keyword(key: &str, value: &Value) -> Value {
    match value {
        _ if DATA.contains(&key) => value.clone(),
        Value::Object(schemas) if NAMED.contains(&key) => schemas
            .iter()
            .map(|(name, schema)| (name.clone(), for_model(schema)))
            .collect(),
        value => for_model(value),
    }
}

fn needs(keywords: &Map<String, Value>, key: &str, value: &Value) -> bool {
    match key {
        "additionalProperties" => *value != Value::Bool(false) || !keywords.contains_key("properties"),
        "minimum" | "minLength" | "minItems" => !matches!(value.as_u64(), Some(0 | 1)),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn prompt_2_schemas_for_models_have_no_useless_keywords() {
        let schema = json!({
            "type": "object",
            "properties": {
                "minimum": {"type": "integer", "minimum": 1, "maximum": 9},
                "least": {"type": "integer", "minimum": 5, "default": {"minimum": 1}},
                "any": {"anyOf": [{"type": "string", "minLength": 1}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]},
                "none": {"type": "object", "additionalProperties": false},
                "by_name": {"type": "object", "additionalProperties": {"type": "string", "minLength": 1}},
            },
            "required": ["minimum"],
            "additionalProperties": false,
        });
        assert_eq!(
            for_model(&schema),
            json!({
                "type": "object",
                "properties": {
                    "minimum": {"type": "integer", "maximum": 9},
                    "least": {"type": "integer", "minimum": 5, "default": {"minimum": 1}},
                    "any": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
                    "none": {"type": "object", "additionalProperties": false},
                    "by_name": {"type": "object", "additionalProperties": {"type": "string"}},
                },
                "required": ["minimum"],
            })
        );
    }
}
