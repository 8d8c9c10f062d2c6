//! Configuration: which models there are, who asks which, what bounds runs, and what tools may reach; read in layers, each setting
//! with where it comes from.
//!
//! ```
//! use dirigent::config::{Config, Sources};
//!
//! let config = Config::load(&Sources::none().model("anthropic/claude-sonnet-4-5"))?;
//! let model = config.model(config.default_model())?;
//! assert_eq!(model.name, "claude-sonnet-4-5");
//! # Ok::<(), dirigent::config::ConfigError>(())
//! ```
//!
//! It never reads a file that the user has not put into the configuration folder or named, and never shows a key.

mod error;
mod layer;
mod model;
mod models;
mod notes;
mod probe;
mod read_error;
mod remote_model;
mod rules;
mod settings;
mod sources;
mod tools;
mod value;

use std::collections::BTreeSet;
use std::num::{NonZeroU32, NonZeroU64};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dirigent_core::limits::{AgentLimitSettings, RunLimits};
use dirigent_core::price::Price;
use dirigent_core::spec::ModelProfile;
use dirigent_model::ModelLimits;

pub use dirigent_model::Provider;
pub use error::{ConfigError, Origin};
use layer::{Layer, Origins, SettingOrigin, read_file};
pub use model::{ApiKey, ModelSettings};
pub use models::ConfiguredModels;
pub use probe::{ProbeError, ProbeOutcome};
use settings::Settings;
pub use sources::Sources;
pub use tools::ConnectionSettings;

use crate::suggest;

/// The name that stands for all sub-agents in `[roles]` and `[limits.NAME]`.
pub(crate) const ALL_AGENTS: &str = "agents";

/// What ships: the defaults that users copy.
const DEFAULTS: &str = include_str!("../../../../config/dirigent.toml");
const PRICES: &str = include_str!("../../../../config/prices.toml");

/// A configuration that has been read. Clones share it.
#[derive(Clone, Debug)]
pub struct Config {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    settings: Settings,
    origins: Origins,
    sources: Sources,
    /// The reference of the model that agents ask where nothing else is said, and who chose it.
    chosen: (String, Origin),
    files: Vec<PathBuf>,
}

/// A setting that somebody made, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Its key: `model.name`.
    pub key: String,
    /// Its value; a key to a provider is not shown.
    pub value: String,
    /// Where it comes from.
    pub origin: Origin,
}

/// What agents that a project's files define may do. Where a project comes from somebody else, so do they.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProjectAgents {
    /// There are none: the files are not read.
    Off,
    /// They look and change nothing.
    ReadOnly,
    /// They have what their files ask for, as far as another agent has it.
    ReadWrite,
}

impl Config {
    /// Reads the sources, lays them over the built-in defaults, and checks that all that is named is there. Keys may be missing
    /// until their model is asked. Reads the disk.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn load(sources: &Sources) -> Result<Config, ConfigError> {
        let mut layers = Layer::read(PRICES, Some("prices"), |_| Origin::BuiltIn)?;
        layers.merge(Layer::read(DEFAULTS, None, |_| Origin::BuiltIn)?);
        let mut files = Vec::new();
        if let Some(folder) = &sources.folder {
            for (name, under) in [("prices.toml", Some("prices")), ("dirigent.toml", None)] {
                let path = folder.join(name);
                if let Some(layer) = read_file(&path, under)? {
                    layers.merge(layer);
                    files.push(path);
                }
            }
        }
        if let Some((path, _)) = sources.named_file() {
            let layer = read_file(&path, None)?.ok_or_else(|| ConfigError::Unreadable {
                path: path.as_path().into(),
                problem: "there is no such file".to_owned(),
            })?;
            layers.merge(layer);
            files.push(path);
        }
        let (settings, origins) = layers.finish()?;
        let chosen = sources
            .named_model()
            .unwrap_or_else(|| ("default".to_owned(), origins.table(&["model"]).origin("provider")));
        let config = Config {
            shared: Arc::new(Shared {
                settings,
                origins,
                sources: sources.clone(),
                chosen,
                files,
            }),
        };
        config.check()?;
        Ok(config)
    }

    fn check(&self) -> Result<(), ConfigError> {
        for name in self.names() {
            let is_taken = ["default", "offline"].contains(&name);
            if is_taken || name.contains('/') {
                let table = self.shared.origins.table(&["models", name]);
                let problem =
                    "stands for something else already, or has a slash in it: give the model another name";
                return Err(ConfigError::Value {
                    origin: table.table_origin(),
                    key: format!("models.{name}"),
                    problem: problem.to_owned(),
                });
            }
            self.check_model(name, &["models", name])?;
        }
        self.check_model("default", &["model"])?;
        let _ = self.connections()?;
        let (chosen, origin) = &self.shared.chosen;
        let roles = self.configured_roles().map(|(_, model, origin)| (model, origin));
        for (reference, origin) in [(chosen.as_str(), origin.clone())].into_iter().chain(roles) {
            let _ = self.find(reference, &origin)?;
        }
        Ok(())
    }

    fn check_model(&self, name: &str, table: &[&str]) -> Result<(), ConfigError> {
        let table = self.shared.origins.table(table);
        let model = self.find(name, &table.table_origin())?;
        let origin = table.origin("fallback");
        for next in &model.fallback {
            if next == name {
                return Err(table.invalid("fallback", "names the model itself: leave it out"));
            }
            if self.find(next, &origin)?.provider.is_none() {
                return Err(table.invalid(
                    "fallback",
                    "names the offline model, which understands only its own goals and can't stand in for another: leave it out",
                ));
            }
        }
        Ok(())
    }

    /// The model that agents ask where nothing else is said: `default`, a name of `[models.NAME]`, `offline`, or `provider/name`.
    pub fn default_model(&self) -> &str {
        &self.shared.chosen.0
    }

    /// Who chose the default model.
    pub fn default_model_origin(&self) -> &Origin {
        &self.shared.chosen.1
    }

    /// The model that a planner, a reflector or an agent of that name asks, if the configuration says so for it alone; none where the
    /// model was chosen outside of files, as [`Config::roles`] tells.
    pub fn role(&self, name: &str) -> Option<&str> {
        self.roles()
            .find_map(|(role, model, _)| (role == name).then_some(model))
    }

    /// Looks whether all names of `[roles]` and `[limits.NAME]` are of agents that there are.
    pub(crate) fn check_agents<'a>(&self, agents: impl Iterator<Item = &'a str>) -> Result<(), ConfigError> {
        let known: Vec<&str> = ["planner", "reflector", ALL_AGENTS]
            .into_iter()
            .chain(agents)
            .collect();
        let settings = &self.shared.settings;
        let roles = settings.roles.keys().map(|name| ("roles", name));
        let limits = settings.limits.agents.keys().map(|name| ("limits", name));
        let mut names = roles.chain(limits);
        match names.find(|(_, name)| !known.contains(&name.as_str())) {
            None => Ok(()),
            Some((table, name)) => Err(ConfigError::UnknownKey {
                origin: self.shared.origins.table(&[table]).origin(name),
                key: format!("{table}.{name}"),
                hint: match suggest::nearest(name, known.iter().copied()) {
                    Some(near) => format!("did you mean `{table}.{near}`?"),
                    None => format!("there are {}", known.join(", ")),
                },
            }),
        }
    }

    /// The entries of `[roles]`, each with its model and its origin. Empty if the model was chosen by `--model` or `DIRIGENT_MODEL`: then all
    /// agents ask that model, as whoever chooses `offline` wants nothing sent elsewhere.
    pub fn roles(&self) -> impl Iterator<Item = (&str, &str, Origin)> {
        let count = if self.uses_file_models() { usize::MAX } else { 0 };
        self.configured_roles().take(count)
    }

    /// The entries of `[roles]`, whether they apply or not.
    fn configured_roles(&self) -> impl Iterator<Item = (&str, &str, Origin)> {
        let table = self.shared.origins.table(&["roles"]);
        let roles = self.shared.settings.roles.iter();
        roles.map(move |(name, model)| (name.as_str(), model.0.as_str(), table.origin(name)))
    }

    /// The names of `[models.NAME]`.
    pub fn names(&self) -> BTreeSet<&str> {
        self.shared.settings.models.keys().map(String::as_str).collect()
    }

    /// The models that runs may ask: the default and those of roles, each followed by those that stand in for it. Others are asked
    /// only by name.
    pub fn used_models(&self) -> Vec<String> {
        let mut used: Vec<String> = Vec::new();
        for (reference, _) in self.references() {
            let fallback = self.model(&reference).map(|model| model.fallback);
            for reference in [reference].into_iter().chain(fallback.unwrap_or_default()) {
                if !used.contains(&reference) {
                    used.push(reference);
                }
            }
        }
        used
    }

    fn references(&self) -> Vec<(String, Origin)> {
        let mut references = vec![self.shared.chosen.clone()];
        references.extend(self.roles().map(|(_, model, origin)| (model.to_owned(), origin)));
        references
    }

    /// A model.
    ///
    /// # Errors
    /// [`ConfigError::UnknownModel`], or what is wrong with its settings. A key that is not set is no error here.
    pub fn model(&self, reference: &str) -> Result<ModelSettings, ConfigError> {
        self.find(reference, &self.shared.chosen.1)
    }

    fn find(&self, reference: &str, asked_by: &Origin) -> Result<ModelSettings, ConfigError> {
        let shared = &self.shared;
        let found = model::find(reference, &shared.settings, &shared.origins, &shared.sources)?;
        found.ok_or_else(|| {
            let known: Vec<&str> = ["default", "offline"].into_iter().chain(self.names()).collect();
            ConfigError::UnknownModel {
                origin: asked_by.clone(),
                name: reference.to_owned(),
                known: known.join(", "),
            }
        })
    }

    /// What a run knows of a model: of one with others that stand in for it, the smallest context window, the least that replies may have,
    /// and the dearest price.
    ///
    /// # Errors
    /// As [`Config::model`].
    pub fn profile(&self, reference: &str) -> Result<ModelProfile, ConfigError> {
        let model = self.model(reference)?;
        let mut profile = ModelProfile {
            calls: model.calls,
            context_window: model.context_window,
            max_output_tokens: model.max_output_tokens,
            price: model.price,
            max_result: match model.provider {
                // It reads JSON, not what is left of it.
                None => None,
                Some(_) => ModelProfile::default().max_result,
            },
        };
        for next in &model.fallback {
            let next = self.model(next)?;
            profile.context_window = least(profile.context_window, next.context_window);
            profile.max_output_tokens = least(profile.max_output_tokens, next.max_output_tokens);
            profile.price = dearest(profile.price, next.price);
        }
        Ok(profile)
    }

    /// The limits of a run whose goal sets none.
    pub fn limits(&self) -> RunLimits {
        let limits = self.shared.settings.limits.run.clone();
        limits.unwrap_or(RunLimits::default())
    }

    /// The limits that `[limits.AGENT]` sets: for the planner (`planner`), the reflector (`reflector`), all sub-agents (`agents`), or one
    /// sub-agent by its name. A named table takes precedence over the agent's own definition, `agents` does not.
    pub fn agent_limits(&self, agent: &str) -> AgentLimitSettings {
        let agents = &self.shared.settings.limits.agents;
        agents.get(agent).cloned().unwrap_or_default()
    }

    /// Where the user's own agents are defined, a Markdown file each: `agents` in the user's configuration folder.
    pub fn agents_folder(&self) -> Option<PathBuf> {
        Some(self.shared.sources.folder.as_ref()?.join("agents"))
    }

    /// Whether runs have the agents that their project's files define, and what these may do.
    pub fn project_agents(&self) -> ProjectAgents {
        let mode = self.shared.settings.agents.project.as_ref();
        mode.map_or(ProjectAgents::ReadOnly, |mode| mode.0)
    }

    /// Whether agents ask the models that files give them: not where a model was chosen outside of files, as all agents ask that one then.
    pub(crate) fn uses_file_models(&self) -> bool {
        match self.default_model_origin() {
            Origin::BuiltIn | Origin::File { .. } => true,
            Origin::Variable(_) | Origin::Flag(_) => false,
        }
    }

    /// Whether nothing of the configuration is in the way of asking a model, or what is.
    pub(crate) fn can_ask(&self, reference: &str) -> Result<(), String> {
        let model = self.model(reference).map_err(|error| match error {
            ConfigError::UnknownModel { known, .. } => {
                format!("there is no model `{reference}`; there are {known}")
            }
            error => error.to_string(),
        })?;
        let others = model.fallback.iter().map(|next| self.model(next));
        for model in [Ok(model.clone())].into_iter().chain(others) {
            let model = model.map_err(|error| error.to_string())?;
            if let ApiKey::NotSet { how } = &model.api_key {
                return Err(format!("the model `{}` needs an API key: {how}", model.reference));
            }
        }
        Ok(())
    }

    /// What all who ask a model are kept to (HOST-7): where several tables have the same one at the same address, the tightest of
    /// theirs.
    pub fn model_limits(&self, model: &ModelSettings) -> ModelLimits {
        let all = ["default"].into_iter().chain(self.names());
        let same = all
            .filter_map(|reference| self.model(reference).ok())
            .filter(|other| other.base_url == model.base_url && other.name == model.name);
        let (mut concurrent, mut tokens) = (model.concurrent, model.tokens_per_minute);
        for other in same {
            concurrent = concurrent.into_iter().chain(other.concurrent).min();
            tokens = tokens.into_iter().chain(other.tokens_per_minute).min();
        }
        let default = ModelLimits::default();
        ModelLimits {
            concurrent: concurrent.and_then(NonZeroU32::new).or(default.concurrent),
            tokens_per_minute: tokens.and_then(NonZeroU64::new),
            ..default
        }
    }

    /// The models, ready to be asked by their references (HOST-7): those of roles and the default at once, others when they are
    /// asked for.
    ///
    /// # Errors
    /// A key that is not set, or another reason why one of them can't be set up.
    pub fn models(&self) -> Result<ConfiguredModels, ConfigError> {
        let models = ConfiguredModels::new(self.clone());
        for (reference, _) in self.references() {
            models.prepare(&reference)?;
        }
        Ok(models)
    }

    /// What somebody has set, in the order of keys; each rule of `[approvals]` by itself.
    pub fn settings(&self) -> Vec<Setting> {
        let set = self.shared.origins.iter();
        set.filter(|setting| setting.origin != Origin::BuiltIn)
            .map(|SettingOrigin { key, text, origin }| Setting {
                key: key.to_string(),
                value: text.clone(),
                origin: origin.clone(),
            })
            .collect()
    }

    /// The files that were read, each laid over those before.
    pub fn files(&self) -> &[PathBuf] {
        &self.shared.files
    }

    /// Where the user's own file is or would be.
    pub fn user_file(&self) -> Option<PathBuf> {
        let folder = self.shared.sources.folder.as_ref()?;
        Some(folder.join("dirigent.toml"))
    }

    /// A `dirigent.toml` in that folder, which was not read, as it may be somebody else's.
    pub fn unread_file(&self, folder: &Path) -> Option<PathBuf> {
        let path = folder.join("dirigent.toml");
        let found = path.canonicalize().ok()?;
        let was_read = |file: &PathBuf| file.canonicalize().is_ok_and(|file| file == found);
        (!self.shared.files.iter().any(was_read)).then_some(path)
    }
}

fn least(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

fn dearest(one: Option<Price>, other: Option<Price>) -> Option<Price> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.highest(other)),
        (one, other) => one.or(other),
    }
}
