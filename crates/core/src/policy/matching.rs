//! What a pattern is compared with. A rule that allows reads a parameter as narrowly as it can be meant, one that asks or denies
//! reads it in every way that it may turn out to mean: where in doubt, a person is asked.

use std::borrow::Cow;

use serde_json::Value;

use super::pattern::{matches, parent_components};
use super::web;
use crate::digest::canonical;

/// A simple command or a whole value.
struct Interpretation {
    text: String,
    /// Where in the text a program's name may stand, in bytes.
    starts: Vec<usize>,
}

/// Words after which another command follows.
const COMMAND_PREFIXES: [&str; 19] = [
    "then", "do", "else", "elif", "if", "while", "until", "!", "{", "time", "exec", "eval", "builtin",
    "command", "env", "nohup", "nice", "xargs", "sudo",
];

/// Whether a rule that allows fits. What `*` stands for is never a step up (`..`), nor, where a shell may read it, what begins
/// another command or a redirection. A pattern of nothing but `*` is meant for everything.
pub(super) fn allow_rule_matches(pattern: &str, value: &Value) -> bool {
    if let Value::String(text) = value
        && web::is_pattern(pattern)
    {
        return web::allow_rule_matches(pattern, text);
    }
    let text = text_of(value);
    let anything = pattern.bytes().all(|byte| byte == b'*') && !pattern.is_empty();
    // All that the pattern says word for word is in the text, so more of them there are from a `*`.
    let held = || {
        parent_components(&text) == parent_components(pattern)
            && (!is_for_a_shell(value) || operators(&text) == operators(pattern))
    };
    matches(pattern, &text) && (anything || held())
}

/// Whether a rule that asks or denies fits, in any interpretation. A string for a parameter called `command` is what a shell is given to run:
/// whoever holds back `sh *` means that, too.
pub(super) fn restrict_rule_matches(pattern: &str, name: &str, value: &Value, workspace: &str) -> bool {
    let given_to_a_shell = || {
        let line = value.as_str().filter(|_| name == "command");
        line.is_some_and(|line| matches(pattern, &format!("sh -c {}", quoted(line))))
    };
    matches(pattern, &text_of(value))
        || value
            .as_str()
            .is_some_and(|text| web::restrict_rule_matches(pattern, text))
        || given_to_a_shell()
        || interpretations(value, workspace)
            .iter()
            .any(|interpretation| interpretation.fits(pattern))
}

impl Interpretation {
    fn whole(text: String) -> Self {
        let starts = vec![0];
        Interpretation { text, starts }
    }

    /// Of these words, each written as `spelled` says.
    fn from_words(words: &[Cow<'_, str>], spelled: impl Fn(&str) -> String) -> Self {
        let (mut text, mut starts) = (String::new(), Vec::new());
        // Whether a program's name may stand here: before it are only words that lead to it.
        let mut leads = true;
        let mut after_option = false;
        for (place, word) in words.iter().enumerate() {
            if place > 0 {
                text.push(' ');
            }
            if leads {
                starts.push(text.len());
            }
            text.push_str(&spelled(word));
            let option = word.starts_with('-');
            // The word after an option may be its value, and the one after that the program.
            leads = is_command_flag(word)
                || leads && (option || COMMAND_PREFIXES.contains(&&**word) || is_assignment(word))
                || after_option && !option;
            after_option = option && leads;
        }
        Interpretation { text, starts }
    }

    fn fits(&self, pattern: &str) -> bool {
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
            // Which of them the shell reads depends on its other options.
            let after_flag = words.iter().skip_while(|word| !is_command_flag(word)).skip(1);
            for line in after_flag.filter(|word| !word.starts_with('-')) {
                read_shell(line, workspace, &mut interpretations);
            }
        }
        (_, None) => {}
    }
    interpretations
}

/// The simple commands of a shell's command line. Quotes are not understood, so it may find more than there are.
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
        // What it reads becomes further words.
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

/// What a parameter is compared as.
fn text_of(value: &Value) -> Cow<'_, str> {
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

/// The elements of a list that has neither lists nor objects in it.
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

/// Whether a command line follows: `-c`, alone or among other letters (`-lc`).
fn is_command_flag(word: &str) -> bool {
    word.strip_prefix('-')
        .is_some_and(|letters| letters.contains('c') && letters.chars().all(|c| c.is_ascii_alphabetic()))
}

/// Whether it sets a variable for the command that follows: `NAME=value`.
fn is_assignment(word: &str) -> bool {
    let is_name = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    word.split_once('=')
        .is_some_and(|(name, _)| is_name(name.strip_suffix('+').unwrap_or(name)))
}

/// Whether a shell may read it: any text may be a command line, a list has one after its `-c`.
fn is_for_a_shell(value: &Value) -> bool {
    value.is_string() || words(value).is_some_and(|words| words.iter().any(|word| is_command_flag(word)))
}

/// How often it says to a shell that another command or a redirection begins.
fn operators(text: &str) -> usize {
    let single = text.matches([';', '&', '|', '\n', '`', '>']).count();
    single + text.matches("$(").count() + text.matches("<(").count()
}

/// The path without `.`, `//` and `a/..`, as its text alone tells: links are not looked at.
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

/// The resolved path relative to the workspace where it is in it, else absolute.
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
