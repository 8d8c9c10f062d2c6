//! Where a configuration is read from.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use etcetera::BaseStrategy;

use super::error::Origin;

/// Where a configuration is read from. A file in the folder that is worked in is never among it unless it is named: whoever
/// wrote it could have keys sent elsewhere.
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
    Given(BTreeMap<String, String>),
}

impl Sources {
    /// Nothing but the built-in defaults.
    pub fn none() -> Self {
        Sources::default()
    }

    /// What a command of the user's reads: `dirigent/dirigent.toml` and `dirigent/prices.toml` in the user's configuration folder
    /// (`XDG_CONFIG_HOME`, or `~/.config`), and this process's environment.
    pub fn from_environment() -> Self {
        let folder = etcetera::choose_base_strategy().ok();
        Sources {
            folder: folder.map(|strategy| strategy.config_dir().join("dirigent")),
            variables: Variables::Process,
            ..Sources::default()
        }
    }

    /// With this folder's `dirigent.toml` and `prices.toml`, where they are there.
    pub fn folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = Some(folder.into());
        self
    }

    /// With this file, which must be there, laid over the folder's. It counts as said by `--config`.
    pub fn file(mut self, path: impl Into<PathBuf>) -> Self {
        self.file = Some(path.into());
        self
    }

    /// With this as the default model. It counts as said by `--model`.
    pub fn model(mut self, model: impl Into<String>) -> Self {
        self.model = Some(model.into());
        self
    }

    /// With the values of these environment variables, and no others: `DIRIGENT_CONFIG`, `DIRIGENT_MODEL`, and those of providers.
    pub fn variables(mut self, variables: impl IntoIterator<Item = (String, String)>) -> Self {
        self.variables = Variables::Given(variables.into_iter().collect());
        self
    }

    /// The file to be laid over the folder's, with who named it.
    pub(super) fn named_file(&self) -> Option<(PathBuf, Origin)> {
        let said = |path: &PathBuf| (path.clone(), Origin::Flag("--config"));
        let set = || self.variable_with_origin("DIRIGENT_CONFIG");
        self.file
            .as_ref()
            .map(said)
            .or_else(|| set().map(|(path, origin)| (path.into(), origin)))
    }

    /// The model that is asked for outside of files, with who asks for it.
    pub(super) fn named_model(&self) -> Option<(String, Origin)> {
        let said = |model: &String| (model.trim().to_owned(), Origin::Flag("--model"));
        self.model
            .as_ref()
            .map(said)
            .or_else(|| self.variable_with_origin("DIRIGENT_MODEL"))
    }

    /// A variable's value, trimmed; an empty one counts as not set.
    pub(super) fn variable(&self, name: &str) -> Option<String> {
        let value = match &self.variables {
            Variables::None => None,
            Variables::Process => std::env::var_os(name).map(|value| value.to_string_lossy().into_owned()),
            Variables::Given(variables) => variables.get(name).cloned(),
        };
        let value = value?.trim().to_owned();
        (!value.is_empty()).then_some(value)
    }

    /// The same, with where it comes from.
    fn variable_with_origin(&self, name: &str) -> Option<(String, Origin)> {
        Some((self.variable(name)?, Origin::Variable(name.to_owned())))
    }
}

/// Values of variables may be keys, so they are not shown.
impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sources")
            .field("folder", &self.folder)
            .field("file", &self.file)
            .field("model", &self.model)
            .finish_non_exhaustive()
    }
}
