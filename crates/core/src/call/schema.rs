//! JSON Schemas of replies, for servers that enforce them.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::tool::ToolSpec;

/// The JSON Schema of a reply in [`super::CallForm::JsonSchema`].
///
/// The schema's alternatives are one object per tool, `{"tool", "parameters", "terminate"}` with the tool's name and the schema of its
/// parameters, and `{"answer": string}` if the agent may end with text or has no tools. Several alternatives are combined by `anyOf`.
///
/// Servers turn a schema into a grammar, support different keywords, and may reject unknown ones. Therefore a tool's schema is reduced to
/// the common keywords: `type`, `properties`, `required`, `additionalProperties`, `items`, `enum`, `const`, `anyOf` (also for `oneOf`) and
/// `$ref` to the tool's own definitions, which move to the top-level `$defs`. Other constraints are omitted, so that the reduced schema
/// allows everything that the tool's schema allows. Calls are validated against the tool's schema as usual (CALL-6).
pub fn reply_schema(tools: &[ToolSpec], text_allowed: bool) -> Value {
    let is_single = tools.len() + usize::from(text_allowed) == 1;
    let mut defs = Map::new();
    let mut forms: Vec<Value> = Vec::new();
    for (index, tool) in tools.iter().enumerate() {
        let location = if is_single {
            "#/properties/parameters".to_owned()
        } else {
            format!("#/anyOf/{index}/properties/parameters")
        };
        let names = SchemaRefs::new(tool, location, &defs);
        for (name, schema) in definitions(&tool.parameters) {
            if let Some(new) = names.defs.get(name) {
                defs.insert(new.clone(), names.plain(schema));
            }
        }
        forms.push(object(json!({
            "tool": {"type": "string", "const": tool.name},
            "parameters": names.parameters(&tool.parameters),
            "terminate": {"type": "boolean"},
        })));
    }
    if text_allowed || tools.is_empty() {
        forms.push(object(json!({"answer": {"type": "string"}})));
    }
    let mut schema = match (forms.pop(), forms.is_empty()) {
        (Some(only), true) => only,
        (last, _) => {
            forms.extend(last);
            json!({"anyOf": forms})
        }
    };
    if !defs.is_empty() {
        schema["$defs"] = Value::Object(defs);
    }
    schema
}

/// An object with exactly these properties.
fn object(properties: Value) -> Value {
    let required: Vec<&String> = properties.as_object().into_iter().flat_map(Map::keys).collect();
    json!({"type": "object", "required": required, "properties": properties, "additionalProperties": false})
}

fn definitions(schema: &Value) -> impl Iterator<Item = (&str, &Value)> {
    ["$defs", "definitions"]
        .into_iter()
        .filter_map(|key| schema.get(key)?.as_object())
        .flatten()
        .map(|(name, definition)| (name.as_str(), definition))
}

/// Locations of one tool's schema and definitions within the whole schema.
struct SchemaRefs<'t> {
    /// JSON pointer of the tool's schema.
    location: String,
    /// New names of the tool's definitions, by their original names.
    defs: BTreeMap<&'t str, String>,
}

impl<'t> SchemaRefs<'t> {
    /// Chooses new names for the tool's definitions. The new names do not occur in `taken`.
    fn new(tool: &'t ToolSpec, location: String, taken: &Map<String, Value>) -> Self {
        let mut defs: BTreeMap<&str, String> = BTreeMap::new();
        for (name, _) in definitions(&tool.parameters) {
            // Some servers do not support escapes in JSON pointers.
            let mut new: String = format!("{}_{name}", tool.name)
                .chars()
                .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
                .collect();
            while taken.contains_key(&new) || defs.values().any(|other| *other == new) {
                new.push('_');
            }
            defs.insert(name, new);
        }
        SchemaRefs { location, defs }
    }

    /// Reduces the schema of parameters, which must be an object.
    fn parameters(&self, schema: &Value) -> Value {
        let plain = self.plain(schema);
        let may_be_object = match plain.get("type") {
            Some(of) => of == "object",
            None => true,
        };
        if may_be_object {
            plain
        } else {
            json!({"type": "object"})
        }
    }

    /// Reduces a schema to the common keywords. The result allows everything that the schema allows.
    fn plain(&self, schema: &Value) -> Value {
        let Some(schema) = schema.as_object() else {
            return anything();
        };
        if let Some(to) = schema.get("$ref") {
            return self.reference(to.as_str().unwrap_or_default());
        }
        let alternatives = schema.get("anyOf").or_else(|| schema.get("oneOf"));
        match (alternatives, schema.get("properties")) {
            (Some(Value::Array(alternatives)), None) => {
                let plain: Vec<Value> = alternatives.iter().map(|one| self.plain(one)).collect();
                // An alternative without common keywords, such as `{"required": …}`, allows everything.
                if plain.is_empty() || plain.contains(&anything()) {
                    return self.with_type(schema, AdditionalProperties::Allowed);
                }
                return json!({"anyOf": plain});
            }
            // The common keywords cannot express alternatives next to properties.
            (Some(_), _) => return self.with_type(schema, AdditionalProperties::Allowed),
            (None, _) => {}
        }
        match schema.get("allOf").and_then(Value::as_array).map(Vec::as_slice) {
            Some([only]) if !schema.contains_key("properties") => self.plain(only),
            Some(_) => self.with_type(schema, AdditionalProperties::Allowed),
            None => self.with_type(schema, AdditionalProperties::AsDeclared),
        }
    }

    fn with_type(&self, schema: &Map<String, Value>, others: AdditionalProperties) -> Value {
        let mut plain = Map::new();
        let mut copy = |key: &str| {
            if let Some(value) = schema.get(key) {
                plain.insert(key.to_owned(), value.clone());
            }
        };
        copy("type");
        copy("enum");
        copy("const");
        if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
            copy("required");
            let properties: Map<String, Value> = properties
                .iter()
                .map(|(name, property)| (name.clone(), self.plain(property)))
                .collect();
            plain.insert("properties".to_owned(), Value::Object(properties));
            plain.entry("type").or_insert(json!("object"));
        }
        // Patterns allow properties that cannot be listed by name.
        let others = if schema.contains_key("patternProperties") {
            AdditionalProperties::Allowed
        } else {
            others
        };
        match (others, schema.get("additionalProperties")) {
            (AdditionalProperties::Allowed, _) if plain.contains_key("properties") => {
                plain.insert("additionalProperties".to_owned(), json!(true));
            }
            (AdditionalProperties::AsDeclared, Some(Value::Bool(allowed))) => {
                plain.insert("additionalProperties".to_owned(), json!(allowed));
            }
            (AdditionalProperties::AsDeclared, Some(others)) => {
                plain.insert("additionalProperties".to_owned(), self.plain(others));
            }
            (AdditionalProperties::Allowed | AdditionalProperties::AsDeclared, _) => {}
        }
        if let (Some(items @ Value::Object(_)), None) = (schema.get("items"), schema.get("prefixItems")) {
            plain.insert("items".to_owned(), self.plain(items));
            plain.entry("type").or_insert(json!("array"));
        }
        let is_constrained = ["type", "enum", "const"]
            .iter()
            .any(|key| plain.contains_key(*key));
        if is_constrained {
            Value::Object(plain)
        } else {
            anything()
        }
    }

    fn reference(&self, to: &str) -> Value {
        if to == "#" {
            return json!({"$ref": self.location});
        }
        let name = ["#/$defs/", "#/definitions/"]
            .iter()
            .find_map(|start| to.strip_prefix(start))
            .and_then(|name| self.defs.get(unescaped(name).as_str()));
        match name {
            Some(name) => json!({"$ref": format!("#/$defs/{name}")}),
            None => anything(),
        }
    }
}

/// Whether an object may have additional properties.
#[derive(Clone, Copy)]
enum AdditionalProperties {
    AsDeclared,
    Allowed,
}

/// A schema that allows every value. Some servers read an empty schema as an object, others reject it.
fn anything() -> Value {
    json!({"type": ["object", "array", "string", "number", "boolean", "null"]})
}

/// Decodes one segment of a JSON pointer in a URL fragment.
fn unescaped(step: &str) -> String {
    let mut bytes = Vec::with_capacity(step.len());
    let mut rest = step.as_bytes();
    while let [first, others @ ..] = rest {
        let code = match rest {
            [b'%', high, low, ..] => std::str::from_utf8(&[*high, *low])
                .ok()
                .and_then(|code| u8::from_str_radix(code, 16).ok()),
            _ => None,
        };
        match code {
            Some(byte) => {
                bytes.push(byte);
                rest = &rest[3..];
            }
            None => {
                bytes.push(*first);
                rest = others;
            }
        }
    }
    String::from_utf8_lossy(&bytes)
        .replace("~1", "/")
        .replace("~0", "~")
}
