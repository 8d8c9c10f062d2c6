//! Patterns that the user may choose from to allow a call, and calls like it from now on.

use std::collections::BTreeMap;

use serde_json::Value;

use super::CallPattern;
use super::matching::text_of;

/// Maximum length of a parameter's text in a pattern, in bytes. A longer one is no pattern that a user reads before allowing it.
const MAX_TEXT: usize = 200;

/// The parameters by which users tell calls of a tool apart; other tools have all their short texts.
const TELLING: [(&str, &[&str]); 3] = [
    ("execute_command", &["command"]),
    ("execute_sql", &["connection", "sql"]),
    ("http_request", &["method", "url"]),
];

impl CallPattern {
    /// Returns patterns that match a call, the narrowest first: the call itself, calls that begin alike (the same program with its first word,
    /// the same web server), and all calls of the tool. A pattern that would be long, or whose text contains `*`, is left out.
    pub fn suggestions(tool: &str, parameters: &Value) -> Vec<CallPattern> {
        let pattern = |parameters: BTreeMap<String, String>| CallPattern {
            tool: tool.to_owned(),
            parameters,
        };
        let mut suggestions = Vec::new();
        if let Some(texts) = telling_texts(tool, parameters) {
            let wider = widened(tool, &texts);
            suggestions.push(pattern(texts));
            suggestions.extend(wider.map(pattern));
        }
        suggestions.push(pattern(BTreeMap::new()));
        suggestions
    }
}

/// The texts of the parameters that tell a call from others of its tool; `None` if they cannot be a pattern.
fn telling_texts(tool: &str, parameters: &Value) -> Option<BTreeMap<String, String>> {
    let names = TELLING
        .iter()
        .find_map(|(name, telling)| (*name == tool).then_some(*telling));
    let is_telling = |name: &str, value: &Value| match names {
        Some(names) => names.contains(&name),
        None => value.as_str().is_some_and(|text| text.len() <= MAX_TEXT),
    };
    let texts: BTreeMap<String, String> = parameters
        .as_object()?
        .iter()
        .filter(|(name, value)| is_telling(name, value))
        .map(|(name, value)| (name.clone(), text_of(value).into_owned()))
        .collect();
    let is_readable = |text: &String| text.len() <= MAX_TEXT && !text.contains('*') && !text.contains('\n');
    (!texts.is_empty() && texts.values().all(is_readable)).then_some(texts)
}

/// The texts of calls that begin alike: a command's program and first word, or a URL's server.
fn widened(tool: &str, texts: &BTreeMap<String, String>) -> Option<BTreeMap<String, String>> {
    let (name, beginning) = match tool {
        "execute_command" => {
            let words: Vec<&str> = texts.get("command")?.split(' ').collect();
            let [program, first, _, ..] = words[..] else {
                return None;
            };
            ("command", format!("{program} {first} *"))
        }
        "http_request" => {
            let url = texts.get("url")?;
            let host = url.split_once("://")?.1.split(['/', '?', '#']).next()?;
            let server = &url[..url.len() - url.split_once("://")?.1.len() + host.len()];
            ("url", format!("{server}/*"))
        }
        _ => return None,
    };
    let mut texts = texts.clone();
    texts.insert(name.to_owned(), beginning);
    Some(texts)
}
