//! The tasks that the offline planner gives to sub-agents: written for any model, and read back by this one.

use std::fmt;

use super::goal::Goal;
use super::scope::Scope;
use super::words::{Word, words};

/// A sub-agent's task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SubAgentTask {
    /// Find where a name is used and mentioned.
    FindUsages {
        /// The name.
        symbol: String,
        /// Where.
        scope: Scope,
    },
    /// Look for what a rename left behind.
    VerifyRenamed {
        /// The old name.
        from: String,
        /// The new one.
        to: String,
        /// Where.
        scope: Scope,
    },
    /// Replace a text in some files.
    ReplaceText {
        /// What is there.
        old: String,
        /// What is wanted.
        new: String,
        /// The files.
        files: Vec<String>,
    },
    /// Look for what a replacement left behind.
    VerifyReplaced {
        /// What was there.
        old: String,
        /// What is there now.
        new: String,
        /// Where.
        scope: Scope,
    },
}

impl fmt::Display for SubAgentTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SubAgentTask::FindUsages { symbol, scope } => write!(
                f,
                "Find all usages of `{symbol}`{scope}.\n\nReport each with its file and line, and apart from them every mention of the name in \
                 strings, comments and files that are no source code. Change nothing.",
            ),
            SubAgentTask::VerifyRenamed { from, to, scope } => write!(
                f,
                "Verify that `{from}` was renamed to `{to}`{scope}.\n\nLook for every usage of `{from}` that is left, and for mentions of it in \
                 strings, comments and files that are no source code, which were left alone on purpose. Begin with \"Confirmed:\" \
                 if no usage is left and with \"Not confirmed:\" otherwise, and list what you found with file and line.",
            ),
            SubAgentTask::ReplaceText { old, new, files } => {
                let files: Vec<_> = files.iter().map(|file| json_string(file)).collect();
                write!(
                    f,
                    "Replace every text {} with {} in these files: {}\n\nReplace it exactly, inside of longer words too, and change nothing else.",
                    json_string(old),
                    json_string(new),
                    files.join(", "),
                )
            }
            SubAgentTask::VerifyReplaced { old, new, scope } => write!(
                f,
                "Verify that every text {} was replaced with {}{scope}.\n\nBegin with \"Confirmed:\" if the old text is nowhere left (as part of \
                 the new one it may be) and with \"Not confirmed:\" otherwise, and list what is left with file and line.",
                json_string(old),
                json_string(new),
            ),
        }
    }
}

impl SubAgentTask {
    /// Reads a task of this planner's, or one in words of its own that asks for usages.
    pub fn parse(task: &str) -> Option<SubAgentTask> {
        let sentence = task.lines().next().unwrap_or_default().trim();
        if let Some(rest) = sentence.strip_prefix("Replace every text ") {
            let (old, new, rest) = two_texts(rest, " with ")?;
            let files = rest.strip_prefix(" in these files: ")?;
            return Some(SubAgentTask::ReplaceText {
                old,
                new,
                files: strings(files),
            });
        }
        if let Some(rest) = sentence.strip_prefix("Verify that every text ") {
            let (old, new, rest) = two_texts(rest, " was replaced with ")?;
            return Some(SubAgentTask::VerifyReplaced {
                old,
                new,
                scope: Scope::parse(&words(rest)),
            });
        }
        let words = words(sentence);
        if sentence.starts_with("Verify that ") {
            let names: Vec<&Word> = words.iter().filter(|word| !word.is_plain()).collect();
            let after = words.iter().position(|word| word.is_any(&["to"]))?;
            let [from, to, ..] = names.as_slice() else {
                return None;
            };
            let scope = Scope::parse(words.get(after + 2..).unwrap_or_default());
            return Some(SubAgentTask::VerifyRenamed {
                from: from.text.clone(),
                to: to.text.clone(),
                scope,
            });
        }
        match Goal::parse(sentence) {
            Goal::FindUsages { symbol, scope } => Some(SubAgentTask::FindUsages { symbol, scope }),
            Goal::Rename(_)
            | Goal::Replace { .. }
            | Goal::Check { .. }
            | Goal::Count { .. }
            | Goal::Unsupported => None,
        }
    }
}

fn json_string(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// The JSON string at the start of a text, and what follows it.
fn leading_string(text: &str) -> Option<(String, &str)> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<String>();
    let value = values.next()?.ok()?;
    let end = values.byte_offset();
    Some((value, text.get(end..)?))
}

fn two_texts<'a>(text: &'a str, between: &str) -> Option<(String, String, &'a str)> {
    let (first, rest) = leading_string(text)?;
    let (second, rest) = leading_string(rest.strip_prefix(between)?)?;
    Some((first, second, rest))
}

fn strings(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((one, after)) = leading_string(rest) {
        found.push(one);
        rest = after.trim_start_matches([',', ' ']);
    }
    found
}
