//! The sources of a configuration.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use etcetera::BaseStrategy;

use super::error::Origin;

/// The sources of a configuration. A file in the workspace is read only if the user names it, because its author could have keys sent to
/// another server.
#[derive(Clone, Default)]
pub struct Sources {
    pub(super) folder: Option<PathBuf>,
    file: Option<PathBuf>,
    model: Option<String>,
    variables: Variables,
}

#[derive(Clone, Default)]
enum Variables {
    #[default]
    None,
    Process,
    Fixed(BTreeMap<String, String>),
}

impl Sources {
    /// Returns no sources: only the shipped defaults apply.
    pub fn none() -> Self {
        Sources::default()
    }

    /// Returns the user's sources: `dirigent/dirigent.toml` and `dirigent/prices.toml` in the user's configuration folder
    /// (`XDG_CONFIG_HOME`, or `~/.config`), and the environment of this process.
    pub fn from_environment() -> Self {
        let folder = etcetera::choose_base_strategy().ok();
        Sources {
            folder: folder.map(|strategy| strategy.config_dir().join("dirigent")),
            variables: Variables::Process,
            ..Sources::default()
        }
    }

    /// Adds the `dirigent.toml` and the `prices.toml` of a folder, if they exist.
    pub fn folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = Some(folder.into());
        self
    }

    /// Adds a file, which must exist and takes precedence over the files of the configuration folder. Errors name `--config` as the origin of its path.
    pub fn file(mut self, path: impl Into<PathBuf>) -> Self {
        self.file = Some(path.into());
        self
    }

    /// Sets the default model. Errors name `--model` as its origin.
    pub fn model(mut self, model: impl Into<String>) -> Self {
        self.model = Some(model.into());
        self
    }

    /// Sets the environment variables to use instead of the variables of the process, such as `DIRIGENT_CONFIG`, `DIRIGENT_MODEL` and the
    /// variables of providers.
    pub fn variables(mut self, variables: impl IntoIterator<Item = (String, String)>) -> Self {
        self.variables = Variables::Fixed(variables.into_iter().collect());
        self
    }

    /// Returns the file that takes precedence over the folder's files, with the origin of its name.
    pub(super) fn named_file(&self) -> Option<(PathBuf, Origin)> {
        let from_option = |path: &PathBuf| (path.clone(), Origin::Flag("--config"));
        let from_variable = || self.variable_with_origin("DIRIGENT_CONFIG");
        self.file
            .as_ref()
            .map(from_option)
            .or_else(|| from_variable().map(|(path, origin)| (path.into(), origin)))
    }

    /// Returns the default model if `--model` or `DIRIGENT_MODEL` chooses it, with the origin of the choice.
    pub(super) fn named_model(&self) -> Option<(String, Origin)> {
        let from_option = |model: &String| (model.trim().to_owned(), Origin::Flag("--model"));
        self.model
            .as_ref()
            .map(from_option)
            .or_else(|| self.variable_with_origin("DIRIGENT_MODEL"))
    }

    /// Returns a variable's trimmed value; `None` if it is empty or not set.
    pub(super) fn variable(&self, name: &str) -> Option<String> {
        let value = match &self.variables {
            Variables::None => None,
            Variables::Process => std::env::var_os(name).map(|value| value.to_string_lossy().into_owned()),
            Variables::Fixed(variables) => variables.get(name).cloned(),
        };
        let value = value?.trim().to_owned();
        (!value.is_empty()).then_some(value)
    }

    fn variable_with_origin(&self, name: &str) -> Option<(String, Origin)> {
        Some((self.variable(name)?, Origin::Variable(name.to_owned())))
    }
}

/// Omits the variables, because their values may be keys.
impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sources")
            .field("folder", &self.folder)
            .field("file", &self.file)
            .field("model", &self.model)
            .finish_non_exhaustive()
    }
}
