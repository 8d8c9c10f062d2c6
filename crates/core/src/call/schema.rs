//! What a server can hold a model to, so that it says nothing but a call or an answer.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::tool::ToolSpec;

/// The JSON Schema of a reply in [`super::CallForm::JsonSchema`]: one object for each tool, `{"tool", "parameters", "terminate"}` with its
/// name and the schema of its parameters, and `{"answer": string}` where the agent may end with text. Without tools an answer is all
/// there is. Several alternatives stand in an `anyOf`; a single one stands alone.
///
/// Servers turn a schema into a grammar, and each knows other keywords, or refuses a schema for one that it doesn't know. So a tool's
/// schema goes in as what all of them take: `type`, `properties`, `required`, `additionalProperties`, `items`, `enum`, `const`, `anyOf`
/// (`oneOf` becomes it) and `$ref` to the definitions of its own root, which stand in `$defs` at the top. What they can't say is left
/// out, so that whatever a tool's own schema allows can still be said; a call is checked against that schema as always (CALL-6).
pub fn reply_schema(tools: &[ToolSpec], text_allowed: bool) -> Value {
    let alone = tools.len() + usize::from(text_allowed) == 1;
    let mut defs = Map::new();
    let mut forms: Vec<Value> = Vec::new();
    for (index, tool) in tools.iter().enumerate() {
        let place = if alone {
            "#/properties/parameters".to_owned()
        } else {
            format!("#/anyOf/{index}/properties/parameters")
        };
        let names = SchemaRefs::new(tool, place, &defs);
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

/// Where in the whole schema the parts of one tool's schema stand.
struct SchemaRefs<'t> {
    /// The schema itself.
    place: String,
    /// By their names in the tool's schema, its definitions' names in the whole.
    defs: BTreeMap<&'t str, String>,
}

impl<'t> SchemaRefs<'t> {
    /// Names that none of the definitions so far has.
    fn new(tool: &'t ToolSpec, place: String, taken: &Map<String, Value>) -> Self {
        let mut defs: BTreeMap<&str, String> = BTreeMap::new();
        for (name, _) in definitions(&tool.parameters) {
            // Not every server knows the escapes of a JSON pointer.
            let mut new: String = format!("{}_{name}", tool.name)
                .chars()
                .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
                .collect();
            while taken.contains_key(&new) || defs.values().any(|other| *other == new) {
                new.push('_');
            }
            defs.insert(name, new);
        }
        SchemaRefs { place, defs }
    }

    /// A tool's parameters are an object, whatever its schema says.
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

    /// The schema in the keywords that every server takes; it allows what the schema allows, or more.
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
                // One of which nothing can be said, such as `{"required": …}`, leaves nothing to choose; none is no schema at all.
                if plain.is_empty() || plain.contains(&anything()) {
                    return self.with_type(schema, AdditionalProperties::Allowed);
                }
                return json!({"anyOf": plain});
            }
            // What the alternatives add to the properties can't be said.
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
        let mut keep = |key: &str| {
            if let Some(value) = schema.get(key) {
                plain.insert(key.to_owned(), value.clone());
            }
        };
        keep("type");
        keep("enum");
        keep("const");
        if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
            keep("required");
            let properties: Map<String, Value> = properties
                .iter()
                .map(|(name, property)| (name.clone(), self.plain(property)))
                .collect();
            plain.insert("properties".to_owned(), Value::Object(properties));
            plain.entry("type").or_insert(json!("object"));
        }
        // Properties that a pattern allows can't be named.
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
        let says_something = ["type", "enum", "const"]
            .iter()
            .any(|key| plain.contains_key(*key));
        if says_something {
            Value::Object(plain)
        } else {
            anything()
        }
    }

    fn reference(&self, to: &str) -> Value {
        if to == "#" {
            return json!({"$ref": self.place});
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

/// Whether an object may have properties other than its own.
#[derive(Clone, Copy)]
enum AdditionalProperties {
    AsDeclared,
    Allowed,
}

/// An empty schema is taken for an object by some servers, and refused by others.
fn anything() -> Value {
    json!({"type": ["object", "array", "string", "number", "boolean", "null"]})
}

/// What a step of a JSON pointer in an address stands for.
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
