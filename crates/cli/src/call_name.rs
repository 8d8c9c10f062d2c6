//! Names calls by what they work on: `file_operations read src/a.rs`.

use serde_json::Value;

use crate::output::sanitize;

/// The parameters that say what a call works on, in the order in which they are shown.
const SHOWN: [&str; 13] = [
    "operation",
    "method",
    "agent",
    "command",
    "sql",
    "url",
    "path",
    "from",
    "to",
    "name",
    "tool",
    "handle",
    "question",
];
/// The parameters that are shown in quotes, because they are text to find.
const QUOTED: [&str; 1] = ["pattern"];
/// The maximum width of what follows the tool's name, in columns.
const WIDTH: usize = 80;

/// Returns the tool's name and, where the parameters have them, the operation and the path, pattern or command, as sanitized text in one
/// line.
pub(crate) fn call_name(tool: &str, parameters: &Value) -> String {
    let words = SHOWN
        .iter()
        .filter_map(|name| {
            let text = words(parameters.get(name)?)?;
            Some(match *name {
                "url" => address(&text),
                _ => text,
            })
        })
        .chain(
            QUOTED
                .iter()
                .filter_map(|name| words(parameters.get(name)?).map(|text| format!("\"{text}\""))),
        );
    let words: Vec<String> = words.filter(|words| !words.is_empty()).collect();
    let tool = sanitize(tool);
    if words.is_empty() {
        return tool;
    }
    let words = sanitize(&words.join(" "));
    format!("{tool} {}", console::truncate_str(&words, WIDTH, "…"))
}

/// Returns a text, or the texts of a list, in one line; `None` for other values.
fn words(value: &Value) -> Option<String> {
    let one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    match value {
        Value::String(text) => Some(one_line(text)),
        Value::Array(items) => {
            let items: Option<Vec<&str>> = items.iter().map(Value::as_str).collect();
            Some(one_line(&items?.join(" ")))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => None,
    }
}

/// Removes the user, the password and the query from a URL, because they may be secret.
fn address(url: &str) -> String {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.to_owned();
    };
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = host.rsplit('@').next().unwrap_or_default();
    format!("{scheme}://{host}{path}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn host_3_a_call_is_named_by_what_it_works_on() {
        for (tool, parameters, expected) in [
            (
                "file_operations",
                json!({"operation": "read", "path": "src/a.rs", "start_line": 3}),
                "file_operations read src/a.rs",
            ),
            (
                "search",
                json!({"pattern": "fn \u{1b}old", "paths": ["src"]}),
                "search \"fn \u{fffd}old\"",
            ),
            (
                "execute_command",
                json!({"command": ["cargo", "test"]}),
                "execute_command cargo test",
            ),
            (
                "execute_command",
                json!({"command": "cd a\n  make"}),
                "execute_command cd a make",
            ),
            (
                "http_request",
                json!({"method": "GET", "url": "http://me:pw@a/b@c?key=1", "body": {}}),
                "http_request GET http://a/b@c",
            ),
            ("other", json!({"x": 1, "path": ["a", 2]}), "other"),
            ("other", json!(null), "other"),
        ] {
            assert_eq!(call_name(tool, &parameters), expected);
        }
        let long = call_name("execute_command", &json!({"command": "x".repeat(200)}));
        assert_eq!(long, format!("execute_command {}…", "x".repeat(79)));
    }
}
