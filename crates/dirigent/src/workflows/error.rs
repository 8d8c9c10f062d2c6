//! The errors of finding, invoking and writing workflows.

use std::path::PathBuf;

use super::arguments::ArgumentProblem;

/// The reason why the words after a workflow's name could not be understood as a sentence (FLOW-2).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotUnderstood {
    /// The model gave no answer.
    #[error("the model did not answer ({0})")]
    NoAnswer(String),
    /// The model's answers could not be used.
    #[error("the model's answer could not be used ({0})")]
    Unusable(String),
    /// The model found no value, or the values that it found leave out a word that the user wrote in the place of a value.
    #[error("it is unclear which words are values")]
    Unclear,
}

fn no_sentence(reason: &NotUnderstood) -> String {
    format!(". They were not understood as a sentence either: {reason}. Write each value as name=value")
}

/// The reason why a workflow cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WorkflowError {
    /// There is no workflow with this name.
    #[error("there is no workflow `/{name}`; {hint}")]
    Unknown {
        /// The name.
        name: String,
        /// The most similar name, or all names.
        hint: String,
    },
    /// The workflow's file is refused.
    #[error("the workflow `/{name}` cannot be used: {refused}")]
    Refused {
        /// The name.
        name: String,
        /// The file, the line and the reason.
        refused: String,
    },
    /// The workflow is in a file of the project whose current content the user has not trusted.
    #[error(
        "the workflow `/{name}` comes from the project's file {}, whose current content is not trusted: read the file, then trust it",
        path.display()
    )]
    Untrusted {
        /// The name.
        name: String,
        /// The file.
        path: PathBuf,
    },
    /// The arguments do not fit the parameters.
    #[error(
        "the arguments of `/{workflow}` are invalid: {}; write {usage}{}",
        problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
        not_understood.as_ref().map(no_sentence).unwrap_or_default()
    )]
    Arguments {
        /// The workflow's name.
        workflow: String,
        /// All problems.
        problems: Vec<ArgumentProblem>,
        /// The form of an invocation.
        usage: String,
        /// Why the words could not be understood as a sentence; `None` if they are not a sentence.
        not_understood: Option<NotUnderstood>,
    },
    /// Parameters that the workflow needs have no value.
    #[error(
        "`/{workflow}` needs {}: write {usage}",
        parameters.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
    )]
    Missing {
        /// The workflow's name.
        workflow: String,
        /// The names of the parameters.
        parameters: Vec<String>,
        /// The form of an invocation.
        usage: String,
    },
    /// The text of the goal would be too long.
    #[error("the goal of `/{workflow}` would be longer than {} KiB: shorten the values", super::template::MAX_RENDERED / 1024)]
    TooLong {
        /// The workflow's name.
        workflow: String,
    },
    /// A new workflow file cannot be written.
    #[error("the workflow file {} cannot be written: {reason}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
}
