//! The tasks of sub-agents. The offline lead writes them as text for any model; the offline sub-agent parses the text.

use std::fmt;

use super::goal::{self, Goal, whole_scope};
use super::scope::Scope;
use super::words::words;

/// A sub-agent's task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SubAgentTask {
    /// Find the usages and mentions of a name.
    FindUsages { symbol: String, scope: Scope },
    /// Find remaining usages after a rename.
    VerifyRenamed { from: String, to: String, scope: Scope },
    /// Replace a string in some files.
    ReplaceText {
        old: String,
        new: String,
        files: Vec<String>,
    },
    /// Find remaining occurrences after a replacement.
    VerifyReplaced { old: String, new: String, scope: Scope },
}

impl fmt::Display for SubAgentTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SubAgentTask::FindUsages { symbol, scope } => write!(
                f,
                "Find all usages of `{symbol}`{scope}.\n\nReport each with its file and line. List separately every mention of the name in \
                 strings, comments and files that are not source code. Change nothing.",
            ),
            SubAgentTask::VerifyRenamed { from, to, scope } => write!(
                f,
                "Verify that `{from}` was renamed to `{to}`{scope}.\n\nLook for every remaining usage of `{from}`, and for mentions of it in \
                 strings, comments and files that are not source code, which were left alone on purpose. Begin with \"Confirmed:\" \
                 if no usage is left and with \"Not confirmed:\" otherwise, and list what you found with file and line.",
            ),
            SubAgentTask::ReplaceText { old, new, files } => {
                let files: Vec<_> = files.iter().map(|file| json_string(file)).collect();
                write!(
                    f,
                    "Replace every text {} with {} in these files: {}\n\nReplace it exactly, also inside longer words, and change nothing else.",
                    json_string(old),
                    json_string(new),
                    files.join(", "),
                )
            }
            SubAgentTask::VerifyReplaced { old, new, scope } => write!(
                f,
                "Verify that every text {} was replaced with {}{scope}.\n\nBegin with \"Confirmed:\" if the old text is gone or remains only \
                 as part of the new text, and with \"Not confirmed:\" otherwise. List each remaining occurrence with file and line.",
                json_string(old),
                json_string(new),
            ),
        }
    }
}

impl SubAgentTask {
    /// Parses the first line of a task; `None` for a task that the offline lead did not write.
    pub fn parse(task: &str) -> Option<SubAgentTask> {
        let sentence = task.lines().next().unwrap_or_default().trim();
        if let Some(rest) = sentence.strip_prefix("Replace every text ") {
            let (old, new, rest) = two_strings(rest, " with ")?;
            let files = rest.strip_prefix(" in these files: ")?;
            return Some(SubAgentTask::ReplaceText {
                old,
                new,
                files: strings(files),
            });
        }
        if let Some(rest) = sentence.strip_prefix("Verify that every text ") {
            let (old, new, rest) = two_strings(rest, " was replaced with ")?;
            let scope = whole_scope(&words(rest.trim_end_matches('.')))?;
            return Some(SubAgentTask::VerifyReplaced { old, new, scope });
        }
        if let Some(rest) = sentence.strip_prefix("Verify that `") {
            let (from, rest) = rest.split_once("` was renamed to `")?;
            let (to, rest) = rest.split_once('`')?;
            return Some(SubAgentTask::VerifyRenamed {
                from: from.to_owned(),
                to: to.to_owned(),
                scope: whole_scope(&words(rest.trim_end_matches('.')))?,
            });
        }
        match goal::parse(sentence) {
            Goal::FindUsages { symbol, scope } => Some(SubAgentTask::FindUsages { symbol, scope }),
            Goal::Rename(_)
            | Goal::Replace { .. }
            | Goal::CreateProject(_)
            | Goal::Check { .. }
            | Goal::Count { .. }
            | Goal::Unsupported => None,
        }
    }
}

fn json_string(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Returns the JSON string at the start of the text, and the rest.
fn leading_string(text: &str) -> Option<(String, &str)> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<String>();
    let value = values.next()?.ok()?;
    let end = values.byte_offset();
    Some((value, text.get(end..)?))
}

fn two_strings<'a>(text: &'a str, between: &str) -> Option<(String, String, &'a str)> {
    let (first, rest) = leading_string(text)?;
    let (second, rest) = leading_string(rest.strip_prefix(between)?)?;
    Some((first, second, rest))
}

fn strings(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((string, after)) = leading_string(rest) {
        found.push(string);
        rest = after.trim_start_matches([',', ' ']);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_task_is_parsed_to_the_same_task() {
        let scopes = [
            Scope::default(),
            Scope {
                only: vec!["src".to_owned()],
                except: vec!["src/old".to_owned()],
                ..Scope::default()
            },
        ];
        for scope in scopes {
            for task in [
                SubAgentTask::FindUsages {
                    symbol: "a".to_owned(),
                    scope: scope.clone(),
                },
                SubAgentTask::VerifyRenamed {
                    from: "a".to_owned(),
                    to: "b".to_owned(),
                    scope: scope.clone(),
                },
                SubAgentTask::ReplaceText {
                    old: "a.".to_owned(),
                    new: "\"b\"".to_owned(),
                    files: vec!["x, y.md".to_owned(), "z.md".to_owned()],
                },
                SubAgentTask::VerifyReplaced {
                    old: "a.".to_owned(),
                    new: "b".to_owned(),
                    scope: scope.clone(),
                },
            ] {
                assert_eq!(SubAgentTask::parse(&task.to_string()), Some(task));
            }
        }
    }
}
