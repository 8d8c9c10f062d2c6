//! Converts serde's errors about a configuration file to errors for users, each with its origin and a suggestion.

use dirigent_core::limits::{AgentLimitSettings, RunLimitSettings};
use figment::error::{Actual, Kind};

use super::error::{ConfigError, Origin};
use super::key::{Key, Places};
use super::settings::{AGENT_TABLE, is_model_setting, limit_names};
use crate::suggest;

/// Converts an error, adding its origin and a suggestion.
pub(super) fn config_error(error: figment::Error, places: &Places) -> ConfigError {
    let mut path = error.path;
    let problem = match error.kind {
        Kind::UnknownField(name, known) => {
            if path.last() != Some(&name) {
                path.push(name);
            }
            return unknown_key(Key(path), known, places);
        }
        Kind::InvalidType(_, expected) if expected == AGENT_TABLE => {
            return unknown_key(Key(path), &[], places);
        }
        Kind::Message(problem) => problem,
        Kind::InvalidType(actual, expected) => {
            format!(
                "must be {}, but is {}",
                expected_value(&expected),
                actual_value(&actual)
            )
        }
        Kind::InvalidValue(_, expected) if expected.ends_with("u32") => {
            format!("must be a whole number from 1 to {}", u32::MAX)
        }
        Kind::InvalidValue(..) => format!("must be a whole number from 1 to {}", i64::MAX),
        Kind::MissingField(name) => format!("has no `{name}`: add it"),
        // The types of the settings have no other kinds of error.
        _ => "can't be read".to_owned(),
    };
    let (origin, key) = locate(Key(path), places);
    ConfigError::Value { origin, key, problem }
}

/// Returns the origin of a key or list entry, and its display format: `sandbox.read[1]`.
fn locate(mut key: Key, places: &Places) -> (Origin, String) {
    if let Some(own) = places.get(&key).and_then(|own| own.first()) {
        return (own.clone(), key.to_string());
    }
    let index = key.0.pop().and_then(|index| index.parse::<usize>().ok());
    match (places.get(&key), index) {
        (Some(own), Some(index)) if index + 1 < own.len() => {
            (own[index + 1].clone(), format!("{key}[{index}]"))
        }
        (Some(_), _) | (None, _) if key.0.is_empty() => (Origin::BuiltIn, String::new()),
        (Some(_), _) | (None, _) => locate(key, places),
    }
}

/// Translates serde's name of an expected type for users.
fn expected_value(expected: &str) -> &str {
    match expected {
        "a string" => "a string in quotes",
        "a boolean" => "true or false, without quotes",
        "a nonzero u32" | "a nonzero u64" => "a whole number without quotes",
        "f64" => "a number without quotes",
        "a sequence" => "a list",
        "a map" => "a table",
        other => other,
    }
}

/// Describes the type of a value. The value itself is not shown, as it may be a secret.
fn actual_value(actual: &Actual) -> &'static str {
    match actual {
        Actual::Bool(_) => "true or false",
        Actual::Unsigned(_) | Actual::Signed(_) => "a whole number",
        Actual::Float(_) => "a number",
        Actual::Char(_) | Actual::Str(_) => "a string",
        Actual::Seq => "a list",
        Actual::Map => "a table",
        _ => "something else",
    }
}

fn unknown_key(key: Key, known: &[&'static str], places: &Places) -> ConfigError {
    ConfigError::UnknownKey {
        key: key.to_string(),
        hint: hint(&key.0, known),
        origin: locate(key, places).0,
    }
}

/// Returns a hint about the unknown last part of a path: the most similar key, or all keys of its table.
fn hint(path: &[String], known: &[&'static str]) -> String {
    let Some((wrong, above)) = path.split_last() else {
        return String::new();
    };
    let above: Vec<&str> = above.iter().map(String::as_str).collect();
    let known: Vec<String> = match above[..] {
        ["limits"] if limit_names::<AgentLimitSettings>().any(|name| name == wrong) => {
            return format!(
                "`{wrong}` is a limit of each agent: write it in [limits.lead], [limits.reflector], [limits.agents] or [limits.NAME]"
            );
        }
        ["limits"] => limit_names::<RunLimitSettings>()
            .map(str::to_owned)
            .chain(limit_names::<AgentLimitSettings>().map(|name| format!("agents.{name}")))
            .collect(),
        ["limits", _] => limit_names::<AgentLimitSettings>().map(str::to_owned).collect(),
        _ => known.iter().map(|name| (*name).to_owned()).collect(),
    };
    let above: String = above.iter().map(|part| format!("{part}.")).collect();
    if let Some(name) = suggest::nearest(wrong, known.iter().map(String::as_str)) {
        return format!("did you mean `{above}{name}`?");
    }
    if is_model_setting(wrong) {
        return format!("did you mean `{wrong}` in [model]?");
    }
    if limit_names::<RunLimitSettings>().any(|name| name == wrong) {
        return format!("did you mean `{wrong}` in [limits]?");
    }
    format!("available: {}", known.join(", "))
}
