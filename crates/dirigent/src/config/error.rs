//! Errors in a configuration. Every message names the file or variable, the key, the problem and what to do. No message shows an API key.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// The origin of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The shipped defaults.
    BuiltIn,
    /// A configuration file.
    File {
        /// The file's path.
        path: Arc<Path>,
        /// The line, from 1.
        line: usize,
    },
    /// The name of an environment variable.
    Variable(String),
    /// A command line option, such as `--model`.
    Flag(&'static str),
}

/// Display format: `dirigent.toml:12`, `OPENAI_API_KEY`, `--model`, `built in`.
impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::BuiltIn => f.write_str("built in"),
            Origin::File { path, line } => write!(f, "{}:{line}", path.display()),
            Origin::Variable(name) => f.write_str(name),
            Origin::Flag(flag) => f.write_str(flag),
        }
    }
}

/// Why a configuration can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A file does not exist or can't be read.
    #[error("{}: the configuration can't be read: {problem}", path.display())]
    Unreadable {
        /// The file's path.
        path: Arc<Path>,
        /// Why the file cannot be read.
        problem: String,
    },
    /// A file is not TOML.
    #[error("{origin}: {problem}")]
    Syntax {
        /// The location of the error.
        origin: Origin,
        /// The parser's message.
        problem: String,
    },
    /// A setting does not exist.
    #[error("{origin}: there is no setting `{key}`; {hint}")]
    UnknownKey {
        /// The location of the key.
        origin: Origin,
        /// The full key, such as `model.name`.
        key: String,
        /// The most similar key, or all keys.
        hint: String,
    },
    /// A setting has an invalid value.
    #[error("{origin}: `{key}` {problem}")]
    Value {
        /// The location of the key.
        origin: Origin,
        /// The full key, such as `model.name`.
        key: String,
        /// The problem with the value, and the possible values.
        problem: String,
    },
    /// A required key or variable is not set.
    #[error("{problem}")]
    Missing {
        /// The missing part, and how to set it.
        problem: String,
    },
    /// A reference to a model that is not configured.
    #[error(
        "{origin}: there is no model `{name}`; available: {known}. Add a [models.NAME], or write provider/name, such as openai/gpt-4.1-mini"
    )]
    UnknownModel {
        /// The location of the reference.
        origin: Origin,
        /// The reference that names no model.
        name: String,
        /// The configured models, separated by commas.
        known: String,
    },
    /// A run would resume with a different model than it was started with.
    #[error(
        "the model `{model}` has changed: the run was started with {recorded}, but the name now stands for {current}: restore the configuration that the \
         run was started with (--config, DIRIGENT_MODEL, OPENAI_BASE_URL)"
    )]
    ModelChanged {
        /// The model's reference in the configuration.
        model: String,
        /// The provider, name and address of the model when the run was started.
        recorded: String,
        /// The provider, name and address of the model now.
        current: String,
    },
    /// A model can't be set up.
    #[error("the model `{model}` can't be set up: {problem}")]
    Setup {
        /// The model's reference in the configuration.
        model: String,
        /// Why the model cannot be set up.
        problem: String,
    },
}
