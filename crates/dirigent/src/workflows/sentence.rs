//! Decides whether the words after a workflow's name are arguments or a sentence that contains them (FLOW-2).
//!
//! Words that fit the parameters by position or by name are arguments, and no model is asked. Words that do not fit are a sentence, unless
//! they use the syntax of arguments: `name=value`, nothing but quotes, or a quote that is never closed.

use dirigent_core::text::is_han;

use super::argument_words::{self, ArgumentWord};
use super::arguments::{ArgumentProblem, Arguments};
use super::parameter::Parameter;

/// Maximum length of a sentence, in bytes.
const MAX_SENTENCE: usize = 2 * 1024;

/// The words after a workflow's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvocationWords<'a> {
    /// The text of a message after `/name`, in which quotes keep words together.
    Text(&'a str),
    /// Words that a shell has split and whose quotes it has removed.
    Shell(&'a [String]),
}

impl<'a> From<&'a str> for InvocationWords<'a> {
    fn from(text: &'a str) -> Self {
        InvocationWords::Text(text)
    }
}

impl<'a> From<&'a [String]> for InvocationWords<'a> {
    fn from(words: &'a [String]) -> Self {
        InvocationWords::Shell(words)
    }
}

/// Words that connect values in a sentence.
const CONNECTIVES: [&str; 16] = [
    "to", "into", "with", "as", "called", "named", "by", "from", "in", "of", "for", "→", "->", "改成",
    "改为", "换成",
];

/// What the words after a workflow's name are.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// Words that fit the parameters.
    Arguments(Arguments),
    /// Words that do not fit, and may be a sentence.
    Sentence(Sentence),
    /// Words in the syntax of arguments that do not fit.
    Invalid(Vec<ArgumentProblem>),
}

/// Words that may be a sentence with the values of parameters.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Sentence {
    /// The user's words.
    pub(super) text: String,
    /// The reasons why the words do not fit as arguments.
    pub(super) problems: Vec<ArgumentProblem>,
    /// The words that must be part of a value: those that are invalid in their places, if there are not more words than parameters. Then each
    /// word was probably meant as a value, and none may be ignored.
    pub(super) meant: Vec<String>,
}

impl Reading {
    /// Reads the words after a workflow's name.
    pub(super) fn new(parameters: &[Parameter], words: InvocationWords<'_>) -> Reading {
        let (arguments, split) = match words {
            InvocationWords::Text(text) => (
                Arguments::parse(parameters, text),
                argument_words::split(text).unwrap_or_default(),
            ),
            InvocationWords::Shell(words) => (
                Arguments::from_shell_words(parameters, words),
                words
                    .iter()
                    .map(|word| argument_words::from_shell(word))
                    .collect(),
            ),
        };
        let problems = match (arguments, connective(parameters, &split)) {
            (Ok(arguments), None) => return Reading::Arguments(arguments),
            (Ok(_), Some(word)) => vec![ArgumentProblem::TooMany {
                words: vec![word.text.clone()],
            }],
            (Err(problems), _) => problems,
        };
        let text = match words {
            InvocationWords::Text(text) => text.trim().to_owned(),
            InvocationWords::Shell(words) => joined(words),
        };
        if parameters.is_empty() || !is_sentence(&text, &split) {
            return Reading::Invalid(problems);
        }
        Reading::Sentence(Sentence {
            meant: meant_words(&problems, &split, parameters),
            text,
            problems,
        })
    }
}

/// Returns a word between others that connects values in a sentence, as in `rename_symbol old to new`: then the words are no values by
/// position, even if they are as many.
fn connective<'a>(parameters: &[Parameter], words: &'a [ArgumentWord]) -> Option<&'a ArgumentWord> {
    if parameters.len() < 2 || words.iter().any(|word| word.key.is_some()) {
        return None;
    }
    let [_, between @ .., _] = words else { return None };
    between
        .iter()
        .find(|word| !word.quoted && CONNECTIVES.contains(&word.text.to_lowercase().as_str()))
}

/// Joins words that a shell has split. A word with white space gets quotes, unless it is the only one: then it is the sentence.
fn joined(words: &[String]) -> String {
    let quoted = |word: &String| match words.len() > 1 && word.contains(char::is_whitespace) {
        true => format!("\"{word}\""),
        false => word.clone(),
    };
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

fn is_sentence(text: &str, words: &[ArgumentWord]) -> bool {
    let is_plain = |c: char| !c.is_control() || c == '\n' || c == '\t';
    let has_name = words.iter().any(|word| word.key.is_some());
    let all_quoted = words.iter().all(|word| word.quoted);
    let has_several_words = text.contains(char::is_whitespace) || text.contains(is_han);
    text.len() <= MAX_SENTENCE && text.chars().all(is_plain) && has_several_words && !has_name && !all_quoted
}

fn meant_words(
    problems: &[ArgumentProblem],
    words: &[ArgumentWord],
    parameters: &[Parameter],
) -> Vec<String> {
    let is_short = words.len() > 1 && words.len() <= parameters.len();
    let invalid = |word: &ArgumentWord, parameter: &Parameter| {
        problems.iter().any(|problem| match problem {
            ArgumentProblem::Invalid { parameter: name, .. } => *name == parameter.name,
            ArgumentProblem::Unknown { .. }
            | ArgumentProblem::Twice { .. }
            | ArgumentProblem::TooMany { .. }
            | ArgumentProblem::OpenQuote { .. } => false,
        }) && !word.text.contains(is_han)
    };
    words
        .iter()
        .zip(parameters)
        .filter(|(word, parameter)| is_short && invalid(word, parameter))
        .map(|(word, _)| word.text.clone())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workflows::ParameterKind;

    fn parameters() -> [Parameter; 2] {
        let parameter = |name: &str, kind, pattern: Option<&str>| Parameter {
            name: name.to_owned(),
            kind,
            required: true,
            default: None,
            pattern: pattern.map(str::to_owned),
            description: String::new(),
        };
        let choices = ["rust", "python"].map(str::to_owned).into();
        [
            parameter("name", ParameterKind::String, Some("[a-z-]+")),
            parameter("language", ParameterKind::Choice(choices), None),
        ]
    }

    fn kind(reading: Reading) -> (&'static str, Vec<String>) {
        match reading {
            Reading::Arguments(arguments) => {
                let pairs = arguments.iter().map(|(name, value)| format!("{name}={value}"));
                ("arguments", pairs.collect())
            }
            Reading::Sentence(sentence) => ("sentence", sentence.meant),
            Reading::Invalid(_) => ("invalid", Vec::new()),
        }
    }

    #[test]
    fn flow_2_words_that_a_preposition_connects_are_a_sentence_even_if_they_fit() {
        let [name, language] = parameters();
        let path = Parameter {
            name: "path".to_owned(),
            ..name.clone()
        };
        let parameters = [
            name,
            Parameter {
                kind: ParameterKind::String,
                ..language
            },
            path,
        ];
        for (text, expected) in [
            ("foo to bar", "sentence"),
            ("foo with bar", "sentence"),
            ("foo bar src", "arguments"),
            ("to foo src", "arguments"),
            ("foo \"to\" src", "arguments"),
        ] {
            let (read, _) = kind(Reading::new(&parameters, InvocationWords::Text(text)));
            assert_eq!(read, expected, "{text}");
        }
    }

    #[test]
    fn flow_2_words_that_fit_are_arguments_and_others_may_be_a_sentence() {
        let cases: [(&str, &str, &[&str]); 22] = [
            ("", "arguments", &[]),
            ("my-app", "arguments", &["name=my-app"]),
            ("my-app Python", "arguments", &["language=python", "name=my-app"]),
            ("language=rust a", "arguments", &["language=rust", "name=a"]),
            (
                "'my-app' \"rust\"",
                "arguments",
                &["language=rust", "name=my-app"],
            ),
            // More words than parameters.
            ("a python package called my-app please", "sentence", &[]),
            ("my-app rust please", "sentence", &[]),
            ("call it \"my-app\" please", "sentence", &[]),
            // A word that is invalid in its place must be part of a value.
            ("rust my-app", "sentence", &["my-app"]),
            ("my-app cobol", "sentence", &["cobol"]),
            ("My-App go", "sentence", &["My-App", "go"]),
            // Chinese has no spaces between words.
            ("创建一个叫my-app的python项目", "sentence", &[]),
            ("一个 python项目", "sentence", &[]),
            // The syntax of arguments.
            ("My-App", "invalid", &[]),
            ("\"My App\"", "invalid", &[]),
            ("\"My App\" 'rust' 'x'", "invalid", &[]),
            ("name=My-App", "invalid", &[]),
            ("naem=my-app in python please", "invalid", &[]),
            ("my-app rust language=rust please", "invalid", &[]),
            ("a package for 'open quotes", "invalid", &[]),
            ("a\u{1b}[2J package called my-app", "invalid", &[]),
            ("a package\r called my-app", "invalid", &[]),
        ];
        for (text, expected, details) in cases {
            let details = details.iter().map(|detail| (*detail).to_owned()).collect();
            let read = kind(Reading::new(&parameters(), InvocationWords::Text(text)));
            assert_eq!(read, (expected, details), "{text}");
        }
        let long = "a ".repeat(MAX_SENTENCE);
        let read = kind(Reading::new(&parameters(), InvocationWords::Text(&long)));
        assert_eq!(read.0, "invalid");
        let read = kind(Reading::new(&[], InvocationWords::Text("a sentence")));
        assert_eq!(read.0, "invalid");
    }

    #[test]
    fn flow_2_words_from_a_shell_are_joined_to_a_sentence() {
        let cases: [(&[&str], &str); 3] = [
            (
                &["a", "python", "package", "called", "my-app"],
                "a python package called my-app",
            ),
            (
                &["a python package called my-app"],
                "a python package called my-app",
            ),
            (&["call", "it", "my app", "please"], "call it \"my app\" please"),
        ];
        for (words, expected) in cases {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            let reading = Reading::new(&parameters(), InvocationWords::Shell(&words));
            let is_read = matches!(&reading, Reading::Sentence(sentence) if sentence.text == expected);
            assert!(is_read, "{expected}: {reading:?}");
        }
    }
}
