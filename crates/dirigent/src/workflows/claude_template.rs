//! Templates in Claude Code's command files: `$ARGUMENTS` stands for all arguments, `$1` for the first.

use super::argument_words;
use super::template::MAX_RENDERED;

/// A note that is added to a template with commands that Claude Code would run before the model reads the template.
const NOT_RUN: &str = "\n\nThe commands written as !`…` above were not run: run those whose output you need.";

/// The text of a Claude Code command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ClaudeTemplate(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Arguments,
    /// An argument by its number, from 1.
    Position(usize),
}

impl ClaudeTemplate {
    /// Parses a template. Every text is valid.
    pub(super) fn parse(text: &str) -> ClaudeTemplate {
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('$') {
            literal.push_str(before);
            let digits = after.len() - after.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            let number = after[..digits].parse().ok().filter(|number| *number > 0);
            let part = match (after.strip_prefix("ARGUMENTS"), number) {
                (Some(after), _) => Some((Part::Arguments, after)),
                (None, Some(number)) => Some((Part::Position(number), &after[digits..])),
                (None, None) => None,
            };
            match part {
                Some((part, after)) => {
                    parts.push(Part::Text(std::mem::take(&mut literal)));
                    parts.push(part);
                    rest = after;
                }
                None => {
                    literal.push('$');
                    rest = after;
                }
            }
        }
        literal.push_str(rest);
        parts.push(Part::Text(literal));
        ClaudeTemplate(parts)
    }

    /// Returns true if the template contains a command that Claude Code would run before the model reads the template.
    pub(super) fn has_commands(&self) -> bool {
        self.0.iter().any(|part| match part {
            Part::Text(text) => text.contains("!`"),
            Part::Arguments | Part::Position(_) => false,
        })
    }

    /// Renders the template with these arguments. `None` if the text would be longer than [`MAX_RENDERED`]. A missing argument is empty.
    /// Arguments without a placeholder are appended, as in Claude Code.
    pub(super) fn render(&self, arguments: &str) -> Option<String> {
        let words = argument_words::split(arguments);
        let words: Vec<String> = match words {
            Ok(words) => words.into_iter().map(as_written).collect(),
            Err(_) => arguments.split_whitespace().map(str::to_owned).collect(),
        };
        let mut text = String::new();
        let mut is_used = false;
        for part in &self.0 {
            match part {
                Part::Text(literal) => text.push_str(literal),
                Part::Arguments => {
                    is_used = true;
                    text.push_str(arguments);
                }
                Part::Position(number) => {
                    is_used = true;
                    text.push_str(words.get(number - 1).map_or("", String::as_str));
                }
            }
            if text.len() > MAX_RENDERED {
                return None;
            }
        }
        if !is_used && !arguments.is_empty() {
            text.push_str("\n\nARGUMENTS: ");
            text.push_str(arguments);
        }
        if self.has_commands() {
            text.push_str(NOT_RUN);
        }
        Some(text)
    }
}

/// Joins a word with its key again, because keys have no special meaning in these files.
fn as_written(word: argument_words::ArgumentWord) -> String {
    match word.key {
        Some(key) => format!("{key}={}", word.text),
        None => word.text,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn flow_2_arguments_replace_their_placeholders_and_stay_data() {
        let cases = [
            (
                "Fix issue $1: $ARGUMENTS.",
                "12 \"a b\"",
                "Fix issue 12: 12 \"a b\".",
            ),
            ("$2 before $1, $3", "a b", "b before a, "),
            ("$1 costs $0 or $x$", "$ARGUMENTS", "$ARGUMENTS costs $0 or $x$"),
            ("$1", "$1{{x}}", "$1{{x}}"),
            ("$1", "key=v", "key=v"),
            ("Explain.", "the parser", "Explain.\n\nARGUMENTS: the parser"),
            ("Explain.", "", "Explain."),
            ("$1", "it's 'open", "it's"),
        ];
        for (text, arguments, expected) in cases {
            assert_eq!(ClaudeTemplate::parse(text).render(arguments).unwrap(), expected);
        }
        let command = ClaudeTemplate::parse("State: !`git status`");
        assert!(command.has_commands());
        assert_eq!(
            command.render("").unwrap(),
            format!("State: !`git status`{NOT_RUN}")
        );
    }

    proptest! {
        #[test]
        fn any_text_is_a_template_that_can_be_rendered(text in any::<String>(), arguments in any::<String>()) {
            let rendered = ClaudeTemplate::parse(&text).render(&arguments);
            prop_assert!(rendered.is_some());
        }
    }
}
