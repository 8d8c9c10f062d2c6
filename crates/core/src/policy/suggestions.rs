//! Patterns with which the user may always allow a call, and calls like it.
//!
//! The call comes from a model, which must not be able to choose parameters for which a pattern allows more than the user expects.
//! Therefore patterns are offered only for calls with plain parameters, and a pattern is left out if it cannot express its calls exactly.

use std::collections::BTreeMap;

use serde_json::Value;

use super::CallPattern;
use super::matching::{COMMAND_PREFIXES, operators, text_of};

/// Maximum length of a pattern's text, in bytes. Users do not read longer patterns before allowing them.
const MAX_TEXT: usize = 200;

/// Programs that run code or commands given in their arguments. Their commands are never widened.
const INTERPRETERS: [&str; 22] = [
    "ash",
    "awk",
    "bash",
    "bun",
    "cmd",
    "dash",
    "deno",
    "docker",
    "find",
    "fish",
    "ksh",
    "lua",
    "node",
    "npx",
    "perl",
    "php",
    "powershell",
    "pwsh",
    "ruby",
    "sh",
    "ssh",
    "zsh",
];

impl CallPattern {
    /// Returns patterns that match a call, the narrowest first: the call with all its parameters, calls with the same beginning (program
    /// and first word, or method and web server), and all calls of the tool. The first two kinds are left out if they could match calls
    /// that the user does not expect.
    pub fn suggestions(tool: &str, parameters: &Value) -> Vec<CallPattern> {
        let exact = exact_texts(tool, parameters);
        let wider = exact.as_ref().and_then(|texts| widened(tool, texts));
        [exact, wider, Some(BTreeMap::new())]
            .into_iter()
            .flatten()
            .map(|parameters| CallPattern {
                tool: tool.to_owned(),
                parameters,
            })
            .filter(CallPattern::is_readable)
            .collect()
    }

    /// Returns true if the text form of the pattern is short, has no control characters, and is parsed as the same pattern again.
    pub fn is_readable(&self) -> bool {
        let text = self.to_string();
        text.len() <= MAX_TEXT
            && !text.contains(char::is_control)
            && text.parse().is_ok_and(|parsed: CallPattern| parsed == *self)
    }
}

/// The texts of all parameters of a call; `None` if they are not plain, because then no pattern matches exactly this call.
fn exact_texts(tool: &str, parameters: &Value) -> Option<BTreeMap<String, String>> {
    let parameters = parameters.as_object()?;
    // Without `sql`, the call only reads the schema, and its pattern would allow every statement.
    if parameters.is_empty() || tool == "execute_sql" && !parameters.contains_key("sql") {
        return None;
    }
    let texts: Option<BTreeMap<String, String>> = parameters
        .iter()
        .map(|(name, value)| is_plain(value).then(|| (name.clone(), text_of(value).into_owned())))
        .collect();
    texts.filter(|texts| texts.values().all(|text| !text.contains('*')))
}

/// Returns true for values with only one meaning. A pattern cannot tell a list of words from a string with the same
/// text, which a shell would interpret. So words are plain only if a shell does not change them.
fn is_plain(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
        Value::Array(words) => words.iter().all(|word| word.as_str().is_some_and(is_shell_safe)),
        Value::Object(_) => false,
    }
}

/// Returns true for a word that means the same to a shell and without one.
fn is_shell_safe(word: &str) -> bool {
    !word.is_empty()
        && word
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_./:,@+".contains(c))
}

/// The texts of a pattern for calls with the same beginning: a command's program and first word, or a URL's method and server.
fn widened(tool: &str, texts: &BTreeMap<String, String>) -> Option<BTreeMap<String, String>> {
    let mut texts = texts.clone();
    match tool {
        "execute_command" => {
            let command = texts.get_mut("command")?;
            *command = widened_command(command)?;
        }
        "http_request" => {
            let url = texts.get("url")?;
            let url = widened_url(url)?;
            texts.retain(|name, _| name == "method");
            texts.insert("url".to_owned(), url);
        }
        _ => return None,
    }
    Some(texts)
}

/// Widens a command such as `cargo test --quiet` to `cargo test *`; `None` if the first two words do not say what the program does.
fn widened_command(command: &str) -> Option<String> {
    let words: Vec<&str> = command.split(' ').collect();
    let [program, first, _, ..] = words[..] else {
        return None;
    };
    let name = program.rsplit('/').next().unwrap_or(program);
    let is_interpreter = INTERPRETERS.contains(&name) || name.starts_with("python");
    let says_little = is_interpreter || COMMAND_PREFIXES.contains(&name) || first.starts_with('-');
    let is_plain =
        operators(command) == 0 && is_shell_safe(program) && is_shell_safe(first) && !program.contains('=');
    (is_plain && !says_little).then(|| format!("{program} {first} *"))
}

/// Widens a URL such as `https://docs.rs/rig` to `https://docs.rs/*`; `None` for a URL with anything but a plain host name before its path.
fn widened_url(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let host = rest.split('/').next()?;
    let is_plain = ["http", "https"].contains(&scheme)
        && !host.is_empty()
        && host
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.');
    is_plain.then(|| format!("{scheme}://{host}/*"))
}
