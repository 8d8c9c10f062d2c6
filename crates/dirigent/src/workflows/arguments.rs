//! Assigns the words after a workflow's name to its parameters (FLOW-2).

use std::collections::BTreeMap;
use std::fmt;

use dirigent_core::spec::UnderstoodSentence;

use super::argument_words::{self, ArgumentWord, OpenQuote};
use super::parameter::{Parameter, ParameterKind};
use crate::markdown::truncated;
use crate::suggest;

/// Valid values for parameters of a workflow, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arguments {
    values: BTreeMap<String, String>,
    sentence: Option<Box<UnderstoodSentence>>,
}

/// A problem with the words after a workflow's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArgumentProblem {
    /// A value that is not valid for its parameter.
    Invalid {
        /// The parameter's name.
        parameter: String,
        /// The value, perhaps shortened.
        value: String,
        /// The reason.
        reason: String,
    },
    /// A parameter that the workflow does not have.
    Unknown {
        /// The name that was given.
        name: String,
        /// The most similar name, or all names.
        hint: String,
    },
    /// A parameter that is given twice.
    Twice {
        /// The parameter's name.
        parameter: String,
    },
    /// There are more words than parameters.
    TooMany {
        /// The words for which there is no parameter.
        words: Vec<String>,
    },
    /// A quote that is never closed.
    OpenQuote {
        /// The quote.
        quote: char,
    },
}

impl fmt::Display for ArgumentProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ArgumentProblem::Invalid {
                parameter,
                value,
                reason,
            } => write!(f, "`{parameter}` cannot be `{value}`: {reason}"),
            ArgumentProblem::Unknown { name, hint } => {
                write!(f, "there is no parameter `{name}`; {hint}")
            }
            ArgumentProblem::Twice { parameter } => write!(f, "`{parameter}` is given twice"),
            ArgumentProblem::TooMany { words } => {
                let words: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
                write!(
                    f,
                    "too many arguments: there is no parameter for {} (quote a value that has spaces)",
                    words.join(", ")
                )
            }
            ArgumentProblem::OpenQuote { quote } => write!(f, "the quote {quote} is never closed"),
        }
    }
}

impl Arguments {
    /// Returns the value of a parameter, if it has one.
    pub fn get(&self, parameter: &str) -> Option<&str> {
        self.values.get(parameter).map(String::as_str)
    }

    /// Returns the parameters with their values, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.values
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Returns the sentence in which a model found values, and these values; `None` if the user gave all values by position or name.
    pub fn sentence(&self) -> Option<&UnderstoodSentence> {
        self.sentence.as_deref()
    }

    pub(super) fn with_sentence(self, sentence: UnderstoodSentence) -> Self {
        Arguments {
            sentence: Some(Box::new(sentence)),
            ..self
        }
    }

    /// Sets the value of a parameter if it is valid.
    pub(super) fn set(&mut self, parameter: &Parameter, value: &str) -> Result<(), ArgumentProblem> {
        match parameter.check(value) {
            Ok(value) => {
                self.values.insert(parameter.name.clone(), value);
                Ok(())
            }
            Err(reason) => Err(ArgumentProblem::Invalid {
                parameter: parameter.name.clone(),
                value: truncated(&value.replace(char::is_control, " ")),
                reason,
            }),
        }
    }

    /// Parses the text after a workflow's name. If the workflow's only parameter is a string without a pattern, the parameter takes the
    /// whole text.
    pub(super) fn parse(parameters: &[Parameter], text: &str) -> Result<Arguments, Vec<ArgumentProblem>> {
        let words = argument_words::split(text);
        match (parameters, words) {
            ([only], words) if takes_all(only) && !is_assigned(only, words.as_deref()) => {
                let text = text.trim();
                let mut arguments = Arguments::default();
                if !text.is_empty() {
                    arguments.set(only, text).map_err(|problem| vec![problem])?;
                }
                Ok(arguments)
            }
            (_, Ok(words)) => Arguments::assign(parameters, words),
            (_, Err(OpenQuote(quote))) => Err(vec![ArgumentProblem::OpenQuote { quote }]),
        }
    }

    /// Creates the arguments from words that a shell has already split. A workflow's only parameter takes all words as in
    /// [`Arguments::parse`].
    pub(super) fn from_shell_words(
        parameters: &[Parameter],
        words: &[String],
    ) -> Result<Arguments, Vec<ArgumentProblem>> {
        let split: Vec<ArgumentWord> = words
            .iter()
            .map(|word| argument_words::from_shell(word))
            .collect();
        let is_named = |only: &Parameter| {
            split
                .iter()
                .any(|word| word.key.as_deref() == Some(only.name.as_str()))
        };
        match parameters {
            [only] if takes_all(only) && words.len() > 1 && !is_named(only) => {
                let mut arguments = Arguments::default();
                arguments
                    .set(only, &words.join(" "))
                    .map_err(|problem| vec![problem])?;
                Ok(arguments)
            }
            _ => Arguments::assign(parameters, split),
        }
    }

    /// Assigns words with a key to the parameter of that name, and the other words, in order, to the remaining parameters. The error
    /// contains all problems.
    fn assign(parameters: &[Parameter], words: Vec<ArgumentWord>) -> Result<Arguments, Vec<ArgumentProblem>> {
        let mut arguments = Arguments::default();
        let mut problems = Vec::new();
        let (named, positions): (Vec<_>, Vec<_>) = words.into_iter().partition(|word| word.key.is_some());
        let mut given: Vec<&str> = Vec::new();
        for word in &named {
            let key = word.key.as_deref().unwrap_or_default();
            let Some(parameter) = parameters.iter().find(|parameter| parameter.name == key) else {
                problems.push(unknown(key, parameters));
                continue;
            };
            if given.contains(&key) {
                let parameter = key.to_owned();
                problems.push(ArgumentProblem::Twice { parameter });
                continue;
            }
            given.push(key);
            problems.extend(arguments.set(parameter, &word.text).err());
        }
        let mut positions = positions.iter();
        let open = parameters
            .iter()
            .filter(|parameter| !given.contains(&parameter.name.as_str()));
        for (parameter, word) in open.zip(positions.by_ref()) {
            problems.extend(arguments.set(parameter, &word.text).err());
        }
        let words: Vec<String> = positions.map(|word| truncated(&word.text)).collect();
        if !words.is_empty() {
            problems.push(ArgumentProblem::TooMany { words });
        }
        if problems.is_empty() {
            Ok(arguments)
        } else {
            Err(problems)
        }
    }
}

/// Returns true if the only parameter of a workflow takes the whole text.
fn takes_all(parameter: &Parameter) -> bool {
    parameter.kind == ParameterKind::String && parameter.pattern.is_none()
}

/// Returns true if the words are `name=value` for the only parameter, or a single word, quoted or not.
fn is_assigned(only: &Parameter, words: Result<&[ArgumentWord], &OpenQuote>) -> bool {
    match words {
        Ok([word]) if word.key.is_none() => true,
        Ok(words) => words
            .iter()
            .any(|word| word.key.as_deref() == Some(only.name.as_str())),
        Err(OpenQuote(_)) => false,
    }
}

fn unknown(name: &str, parameters: &[Parameter]) -> ArgumentProblem {
    let names = || parameters.iter().map(|parameter| parameter.name.as_str());
    let hint = match parameters {
        [] => "the workflow has no parameters".to_owned(),
        _ => suggest::hint(name, names().collect::<Vec<_>>()),
    };
    ArgumentProblem::Unknown {
        name: truncated(name),
        hint,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parameter(name: &str, kind: ParameterKind) -> Parameter {
        Parameter {
            name: name.to_owned(),
            kind,
            required: true,
            default: None,
            pattern: None,
            description: String::new(),
        }
    }

    fn project() -> [Parameter; 3] {
        let choices = ["rust", "python"].map(str::to_owned).into();
        [
            parameter("name", ParameterKind::String),
            parameter("kind", ParameterKind::Choice(choices)),
            parameter("count", ParameterKind::Integer),
        ]
    }

    fn assigned(text: &str) -> Result<Vec<(String, String)>, Vec<String>> {
        let arguments = Arguments::parse(&project(), text)
            .map_err(|problems| problems.iter().map(ToString::to_string).collect::<Vec<_>>())?;
        let pairs = arguments.iter();
        Ok(pairs
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect())
    }

    #[test]
    fn flow_2_arguments_are_assigned_to_parameters_by_name_and_position() {
        let cases: [(&str, &[(&str, &str)]); 5] = [
            ("", &[]),
            ("my-app", &[("name", "my-app")]),
            (
                "'my app' Rust 3",
                &[("count", "3"), ("kind", "rust"), ("name", "my app")],
            ),
            (
                "kind=python my-app 3",
                &[("count", "3"), ("kind", "python"), ("name", "my-app")],
            ),
            ("count=3 \"kind=rust\"", &[("count", "3"), ("name", "kind=rust")]),
        ];
        for (text, expected) in cases {
            let expected: Vec<_> = expected
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect();
            assert_eq!(assigned(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn flow_2_all_problems_are_named() {
        let cases: [(&str, &[&str]); 4] = [
            (
                "a rust 3 b c",
                &["too many arguments: there is no parameter for `b`, `c` (quote a value that has spaces)"],
            ),
            (
                "a cobol three",
                &[
                    "`kind` cannot be `cobol`: it must be one of rust, python",
                    "`count` cannot be `three`: it must be a whole number, such as 3",
                ],
            ),
            (
                "nmae=x name=a name=b",
                &[
                    "there is no parameter `nmae`; did you mean `name`?",
                    "`name` is given twice",
                ],
            ),
            ("'a rust", &["the quote ' is never closed"]),
        ];
        for (text, problems) in cases {
            let problems = problems.iter().map(|problem| (*problem).to_owned()).collect();
            assert_eq!(assigned(text), Err(problems), "{text}");
        }
    }

    #[test]
    fn flow_2_a_single_string_parameter_takes_the_whole_text() {
        let only = [parameter("what", ParameterKind::String)];
        for (text, value) in [
            ("how don't it's a=b 'open", "how don't it's a=b 'open"),
            ("\"quoted text\"", "quoted text"),
            ("what='x y'", "x y"),
        ] {
            let arguments = Arguments::parse(&only, text).unwrap();
            assert_eq!(arguments.get("what"), Some(value), "{text}");
        }
        assert_eq!(Arguments::parse(&only, " "), Ok(Arguments::default()));
        let shell = ["what=a=b".to_owned()];
        let arguments = Arguments::from_shell_words(&only, &shell).unwrap();
        assert_eq!(arguments.get("what"), Some("a=b"));
    }

    proptest! {
        #[test]
        fn any_arguments_are_assigned_or_refused(text in any::<String>(), count in 0..4_usize) {
            if let Ok(arguments) = Arguments::parse(&project()[..count.min(3)], &text) {
                for (name, value) in arguments.iter() {
                    let parameters = project();
                    let parameter = parameters.iter().find(|it| it.name == name).unwrap();
                    let checked = parameter.check(value);
                    prop_assert_eq!(checked.as_deref(), Ok(value));
                }
            }
        }
    }
}
