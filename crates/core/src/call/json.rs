//! Strict parsing of JSON that a model wrote.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::candidate::CallCandidate;
use super::json_scanner::{Dialect, JsonEnd, scan_json};
use crate::name::{json_type, quoted};

/// Maximum nesting depth of a call's JSON.
const MAX_DEPTH: usize = 64;

/// Parses the arguments of a native call: an object, or the empty object if the text is empty. Uses the same strict JSON as calls in text
/// ([`super::parse`]), without repairs.
///
/// # Errors
/// Returns an error message for the model.
pub fn read_arguments(text: &str) -> Result<Value, String> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(Value::Object(Map::new()));
    }
    if !text.starts_with('{') {
        return Err(match serde_json::from_str::<Value>(text) {
            Ok(other) => format!("its arguments must be an object, but are {}", json_type(&other)),
            Err(_) => "its arguments are not a JSON object".to_owned(),
        });
    }
    let candidate = scan_json(text, 0, Dialect::Strict);
    let rest = &text[candidate.end_offset..];
    let arguments = read_json(&CallCandidate::new(text, 0, &candidate))
        .map_err(|problem| format!("its arguments are not valid JSON: {problem}"))?;
    match rest {
        "" => Ok(arguments),
        rest => Err(format!("there is text after its arguments: {}", head(rest))),
    }
}

/// Parses the candidate's JSON.
///
/// # Errors
/// Returns an error message for the model.
pub(super) fn read_json(candidate: &CallCandidate<'_>) -> Result<Value, String> {
    match candidate.end {
        JsonEnd::Closed => {}
        JsonEnd::Invalid(rest) => {
            return Err(format!(
                "it is invalid after {}, at {}",
                tail(candidate.text),
                head(rest)
            ));
        }
        JsonEnd::ControlCharacter => {
            return Err(format!(
                "a string contains a line break or another control character, after {}: write `\\n` for a line break",
                tail(candidate.text)
            ));
        }
        JsonEnd::Unfinished => {
            return Err("it is not closed: a quote, bracket or brace is missing at its end".to_owned());
        }
    }
    if candidate.depth > MAX_DEPTH {
        return Err(format!("it is nested deeper than {MAX_DEPTH} levels"));
    }
    if let Some(number) = candidate.huge_integer {
        return Err(format!(
            "the number {} is too large to represent exactly: write it as a string",
            quoted(number)
        ));
    }
    match serde_json::from_str(candidate.repaired.as_deref().unwrap_or(candidate.text)) {
        Ok(Strict(value)) => Ok(value),
        Err(error) => Err(error.to_string()),
    }
}

const EXCERPT: usize = 30;

fn tail(text: &str) -> String {
    let start = text
        .char_indices()
        .rev()
        .nth(EXCERPT - 1)
        .map_or(0, |(position, _)| position);
    quoted(&text[start..])
}

pub(super) fn head(text: &str) -> String {
    quoted(&text.chars().take(EXCERPT).collect::<String>())
}

/// A JSON value without duplicate keys. Duplicates are refused because parsers disagree on which one counts.
struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrictVisitor).map(Strict)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(Strict(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            if object.contains_key(&key) {
                return Err(A::Error::custom(format_args!(
                    "the key {} occurs twice",
                    quoted(&key)
                )));
            }
            let Strict(value) = entries.next_value()?;
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }
}
