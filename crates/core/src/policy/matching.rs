//! Matching of parameters. A parameter may have several interpretations, such as a path or a shell command line. The pattern of an `allow`
//! rule must match the narrowest interpretation. The pattern of an `ask` or `deny` rule needs to match only one of them, so that a doubtful
//! call does not run unnoticed.

use std::borrow::Cow;

use serde_json::Value;

use super::pattern::{matches, parent_components};
use super::web;
use crate::digest::canonical;

/// One interpretation of a parameter: the whole value or one simple command.
struct Interpretation {
    text: String,
    /// Byte offsets in `text` at which the name of a program may begin.
    starts: Vec<usize>,
}

/// Words that may precede the name of a program in a command.
pub(super) const COMMAND_PREFIXES: [&str; 19] = [
    "then", "do", "else", "elif", "if", "while", "until", "!", "{", "time", "exec", "eval", "builtin",
    "command", "env", "nohup", "nice", "xargs", "sudo",
];

/// Returns true if the pattern of an `allow` rule matches the parameter. `*` does not match `..`. In text for a shell, `*` also does not
/// match a redirection or the start of another command. A pattern that consists only of `*` matches everything.
pub(super) fn allow_rule_matches(pattern: &str, value: &Value) -> bool {
    if let Value::String(text) = value
        && web::is_pattern(pattern)
    {
        return web::allow_rule_matches(pattern, text);
    }
    let text = text_of(value);
    let matches_all = pattern.bytes().all(|byte| byte == b'*') && !pattern.is_empty();
    // The text contains all literal parts of the pattern, so any additional `..` or operator was matched by a `*`.
    let is_narrow = || {
        parent_components(&text) == parent_components(pattern)
            && (!is_for_a_shell(value) || operators(&text) == operators(pattern))
    };
    matches(pattern, &text) && (matches_all || is_narrow())
}

/// Returns true if the pattern of an `ask` or `deny` rule matches at least one interpretation of the parameter. A string parameter named
/// `command` runs in a shell, so the patterns `sh *` and `bash *` match it as well.
pub(super) fn restrict_rule_matches(pattern: &str, name: &str, value: &Value, workspace: &str) -> bool {
    let given_to_a_shell = || {
        let line = value.as_str().filter(|_| name == "command");
        line.is_some_and(|line| {
            let runs_as = |shell: &str| matches(pattern, &format!("{shell} -c {}", quoted(line)));
            runs_as("sh") || runs_as("bash")
        })
    };
    matches(pattern, &text_of(value))
        || value
            .as_str()
            .is_some_and(|text| web::restrict_rule_matches(pattern, text))
        || given_to_a_shell()
        || interpretations(value, workspace)
            .iter()
            .any(|interpretation| interpretation.matches(pattern))
}

impl Interpretation {
    fn whole(text: String) -> Self {
        let starts = vec![0];
        Interpretation { text, starts }
    }

    /// Joins words with spaces, after formatting each with `spelled`.
    fn from_words(words: &[Cow<'_, str>], spelled: impl Fn(&str) -> String) -> Self {
        let (mut text, mut starts) = (String::new(), Vec::new());
        // True if the name of a program may begin at this word, because only prefix words precede it.
        let mut leads = true;
        let mut after_option = false;
        for (index, word) in words.iter().enumerate() {
            if index > 0 {
                text.push(' ');
            }
            if leads {
                starts.push(text.len());
            }
            text.push_str(&spelled(word));
            let option = word.starts_with('-');
            // The first word after an option may be the option's value, so the second word may be the program.
            leads = is_command_flag(word)
                || leads && (option || COMMAND_PREFIXES.contains(&&**word) || is_assignment(word))
                || after_option && !option;
            after_option = option && leads;
        }
        Interpretation { text, starts }
    }

    fn matches(&self, pattern: &str) -> bool {
        self.starts
            .iter()
            .any(|start| matches(pattern, &self.text[*start..]))
    }
}

fn interpretations(value: &Value, workspace: &str) -> Vec<Interpretation> {
    let mut interpretations = Vec::new();
    match (value, words(value)) {
        (Value::String(text), _) => {
            interpretations.push(Interpretation::whole(normalized_path(text)));
            interpretations.push(Interpretation::whole(relative_to_workspace(text, workspace)));
            read_shell(text, workspace, &mut interpretations);
        }
        (_, Some(words)) => {
            read_words(
                &words,
                |word| quoted(word).into_owned(),
                workspace,
                &mut interpretations,
            );
            // Any word after `-c` may be the command line, depending on the other options, so all words after `-c` are read.
            let after_flag = words.iter().skip_while(|word| !is_command_flag(word)).skip(1);
            for line in after_flag.filter(|word| !word.starts_with('-')) {
                read_shell(line, workspace, &mut interpretations);
            }
        }
        (_, None) => {}
    }
    interpretations
}

/// Adds an interpretation for each simple command of a shell command line. Ignores quoting, so it may find more commands than the shell
/// runs.
fn read_shell(line: &str, workspace: &str, interpretations: &mut Vec<Interpretation>) {
    for command in line.split([';', '&', '|', '\n', '(', ')', '`']) {
        let words: Vec<Cow<'_, str>> = command.split_whitespace().map(Cow::Borrowed).collect();
        if words.is_empty() {
            continue;
        }
        read_words(&words, str::to_owned, workspace, interpretations);
        if command.contains(['\'', '"', '\\']) {
            let bare = command.replace(['\'', '"', '\\'], "");
            let words: Vec<_> = bare.split_whitespace().map(Cow::Borrowed).collect();
            read_words(&words, str::to_owned, workspace, interpretations);
        }
    }
}

fn read_words(
    words: &[Cow<'_, str>],
    spelled: impl Fn(&str) -> String,
    workspace: &str,
    interpretations: &mut Vec<Interpretation>,
) {
    interpretations.push(Interpretation::from_words(words, &spelled));
    if words.iter().any(|word| word == "xargs") {
        // xargs appends words from its input, so match the command with an additional word, too.
        let more = [words, &[Cow::Borrowed("")]].concat();
        interpretations.push(Interpretation::from_words(&more, &spelled));
    }
    if words.iter().any(|word| word.contains(['/', '.'])) {
        interpretations.push(Interpretation::from_words(words, |word| {
            spelled(&normalized_path(word))
        }));
        interpretations.push(Interpretation::from_words(words, |word| {
            spelled(&relative_to_workspace(word, workspace))
        }));
    }
}

/// Converts a parameter to its text form, which [`CallPattern`](super::CallPattern) describes.
pub(super) fn text_of(value: &Value) -> Cow<'_, str> {
    if let Value::String(text) = value {
        return Cow::Borrowed(text);
    }
    match words(value) {
        Some(words) => {
            let words: Vec<_> = words.iter().map(|word| quoted(word)).collect();
            Cow::Owned(words.join(" "))
        }
        None => Cow::Owned(canonical(value).to_string()),
    }
}

/// Returns the elements of a list of scalars as words; `None` for any other value.
fn words(value: &Value) -> Option<Vec<Cow<'_, str>>> {
    let elements = value.as_array()?.iter();
    elements
        .map(|element| match element {
            Value::String(text) => Some(Cow::Borrowed(text.as_str())),
            Value::Null | Value::Bool(_) | Value::Number(_) => Some(Cow::Owned(element.to_string())),
            Value::Array(_) | Value::Object(_) => None,
        })
        .collect()
}

fn quoted(word: &str) -> Cow<'_, str> {
    let needs_quotes = |c: char| c.is_whitespace() || c == '\'' || c == '"';
    if word.is_empty() || word.contains(needs_quotes) {
        Cow::Owned(format!("'{}'", word.replace('\'', r"'\''")))
    } else {
        Cow::Borrowed(word)
    }
}

/// Returns true for an option that precedes a command line: `-c`, possibly combined with other letters (`-lc`).
fn is_command_flag(word: &str) -> bool {
    word.strip_prefix('-')
        .is_some_and(|letters| letters.contains('c') && letters.chars().all(|c| c.is_ascii_alphabetic()))
}

/// Returns true for a variable assignment before a command: `NAME=value`.
fn is_assignment(word: &str) -> bool {
    let is_name = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    word.split_once('=')
        .is_some_and(|(name, _)| is_name(name.strip_suffix('+').unwrap_or(name)))
}

/// Returns true if a shell may interpret the value: any string, or a list that contains `-c`.
fn is_for_a_shell(value: &Value) -> bool {
    value.is_string() || words(value).is_some_and(|words| words.iter().any(|word| is_command_flag(word)))
}

/// Counts the shell operators that begin another command or a redirection.
pub(super) fn operators(text: &str) -> usize {
    let single = text.matches([';', '&', '|', '\n', '`', '>']).count();
    single + text.matches("$(").count() + text.matches("<(").count()
}

/// Normalises a path: removes `.`, `//` and `a/..`, without following symbolic links.
fn normalized_path(path: &str) -> String {
    let is_absolute = path.starts_with('/');
    let mut components = Vec::new();
    for component in path.split('/') {
        match component {
            "" | "." => {}
            ".." if components.last().is_some_and(|last| *last != "..") => {
                components.pop();
            }
            ".." if is_absolute => {}
            _ => components.push(component),
        }
    }
    let components = components.join("/");
    match (is_absolute, components.is_empty()) {
        (true, _) => format!("/{components}"),
        (false, true) if !path.is_empty() => ".".to_owned(),
        (false, _) => components,
    }
}

/// Normalises a path. Returns it relative to the workspace if it is inside, and absolute otherwise.
fn relative_to_workspace(path: &str, workspace: &str) -> String {
    let path = if path.starts_with('/') {
        normalized_path(path)
    } else {
        normalized_path(&format!("{workspace}/{path}"))
    };
    match path.strip_prefix(normalized_path(workspace).trim_end_matches('/')) {
        Some("" | "/") => ".".to_owned(),
        Some(below) => below.strip_prefix('/').map(str::to_owned).unwrap_or(path),
        None => path,
    }
}
