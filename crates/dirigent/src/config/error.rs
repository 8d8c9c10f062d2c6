//! What is wrong with a configuration. Every message names the file or variable, the key, what is wrong and what to do; none
//! shows a key to a provider.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// Where a setting comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Dirigent's own defaults.
    BuiltIn,
    /// A file.
    File {
        /// Its path.
        path: Arc<Path>,
        /// The line, from 1.
        line: usize,
    },
    /// An environment variable, by its name.
    Variable(String),
    /// What the program was started with, such as `--model`.
    Flag(&'static str),
}

/// For people: `dirigent.toml:12`, `OPENAI_API_KEY`, `--model`, `built in`.
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
pub enum ConfigError {
    /// A file is not there or can't be read.
    #[error("{}: the configuration can't be read: {problem}", path.display())]
    Unreadable {
        /// Which file.
        path: Arc<Path>,
        /// Why.
        problem: String,
    },
    /// A file is not TOML.
    #[error("{origin}: {problem}")]
    Syntax {
        /// Where in the file.
        origin: Origin,
        /// What is wrong there.
        problem: String,
    },
    /// There is no such setting.
    #[error("{origin}: there is no setting `{key}`; {hint}")]
    UnknownKey {
        /// Where it stands.
        origin: Origin,
        /// Its whole key.
        key: String,
        /// The nearest key that there is, or all.
        hint: String,
    },
    /// A setting has a value that it can't have.
    #[error("{origin}: `{key}` {problem}")]
    Value {
        /// Where it stands.
        origin: Origin,
        /// Its whole key.
        key: String,
        /// What is wrong with the value, and which it could have.
        problem: String,
    },
    /// Something that is needed is not set.
    #[error("{problem}")]
    Missing {
        /// What, where and how to set it.
        problem: String,
    },
    /// A model that is asked for is not configured.
    #[error(
        "{origin}: there is no model `{name}`; there are {known}. Add a [models.NAME], or write provider/name, such as openai/gpt-4.1-mini"
    )]
    UnknownModel {
        /// Who asks for it.
        origin: Origin,
        /// Its name.
        name: String,
        /// The models that there are.
        known: String,
    },
    /// A run would go on with another model than it was started with.
    #[error(
        "the run was started with {recorded} as the model `{model}`, which is {current} now: go on with the configuration of then \
         (--config FILE, DIRIGENT_MODEL, OPENAI_BASE_URL)"
    )]
    ModelChanged {
        /// Its name in the configuration.
        model: String,
        /// What it stood for.
        recorded: String,
        /// What it stands for.
        current: String,
    },
    /// A model can't be set up.
    #[error("the model `{model}`: {problem}")]
    Setup {
        /// Its name in the configuration.
        model: String,
        /// Why.
        problem: String,
    },
}
