//! Configuration: the models, which agent asks which model, the limits of runs, and what tools may access. It is read in layers, and each
//! setting keeps its origin.
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
//! This module never reads a file unless it is in the user's configuration folder or the user names it, and never shows a key.

mod error;
mod key;
mod layer;
mod model;
mod models;
mod notes;
mod probe;
mod read_error;
mod remote_model;
mod rules;
mod services;
mod settings;
mod sources;
mod tools;
mod value;
mod webhooks;

use std::collections::BTreeSet;
use std::num::{NonZeroU32, NonZeroU64};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dirigent_core::agent_spec::ModelProfile;
use dirigent_core::limits::{AgentLimitSettings, RunLimits};
use dirigent_core::price::Price;
use dirigent_model::ModelLimits;

pub use dirigent_model::Provider;
pub use dirigent_model::provider::PROVIDERS;
pub use error::{ConfigError, Origin};
use layer::{Layer, Origins, SettingOrigin, read_file};
pub use model::{ApiKey, ModelSettings};
pub use models::ConfiguredModels;
pub(crate) use models::unknown_model;
pub use probe::{ProbeError, ProbeOutcome};
use settings::Settings;
pub use sources::Sources;
pub use tools::ConnectionSettings;
pub use webhooks::{WebhookConfig, WebhookEvent};

use crate::suggest;

/// The name for all sub-agents in `[roles]` and `[limits.NAME]`.
pub(crate) const ALL_AGENTS: &str = "agents";

/// The shipped defaults, which users can copy.
const DEFAULTS: &str = include_str!("../../../../config/dirigent.toml");
const PRICES: &str = include_str!("../../../../config/prices.toml");

/// A configuration that has been read and checked. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Config {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    settings: Settings,
    origins: Origins,
    sources: Sources,
    /// The reference and the origin of the default model.
    default_model: (String, Origin),
    files: Vec<PathBuf>,
}

/// A setting that differs from the shipped defaults, for display.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The key: `model.name`.
    pub key: String,
    /// The value as text; a secret is not shown.
    pub value: String,
    /// The file and line.
    pub origin: Origin,
}

/// The access of agents that a project's files define. Such agents are only as trustworthy as the project's author.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProjectAgents {
    /// The project's agent files are not read.
    Off,
    /// Project agents have read access only.
    ReadOnly,
    /// Project agents have the access that their files request, up to the access of the other agents.
    ReadWrite,
}

/// The limits of the HTTP service that a configuration sets; `None` for the service's own default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServiceLimits {
    /// The maximum length of a request's body, in bytes.
    pub max_body: Option<u64>,
    /// The maximum number of requests under way, event streams included.
    pub max_requests: Option<u32>,
    /// The maximum number of active runs of the service.
    pub max_runs: Option<u32>,
    /// The maximum number of connections.
    pub max_connections: Option<u32>,
    /// The maximum number of sessions of MCP clients.
    pub max_mcp_sessions: Option<u32>,
    /// The time without requests after which the session of an MCP client ends.
    pub mcp_idle_time: Option<std::time::Duration>,
}

impl Config {
    /// Reads the sources, which take precedence over the built-in defaults, and checks that all references to models are valid. A missing
    /// API key becomes an error only when its model is used. Reads the disk.
    ///
    /// # Errors
    /// The first error found.
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
        let default_model = sources
            .named_model()
            .unwrap_or_else(|| ("default".to_owned(), origins.table(&["model"]).origin("provider")));
        let config = Config {
            shared: Arc::new(Shared {
                settings,
                origins,
                sources: sources.clone(),
                default_model,
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
                let problem = "is a reserved name or has a slash in it: give the model another name";
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
        let _ = self.services()?;
        let (default_model, origin) = &self.shared.default_model;
        let roles = self.configured_roles().map(|(_, model, origin)| (model, origin));
        for (reference, origin) in [(default_model.as_str(), origin.clone())]
            .into_iter()
            .chain(roles)
        {
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
                return Err(table.invalid("fallback", "names the model itself: remove it"));
            }
            if self.find(next, &origin)?.provider.is_none() {
                return Err(table.invalid(
                    "fallback",
                    "names the offline model, which supports only a few kinds of goal and can't replace another model: remove it",
                ));
            }
        }
        Ok(())
    }

    /// Returns the reference of the default model: `default`, a name of `[models.NAME]`, `offline`, or `provider/name`.
    pub fn default_model(&self) -> &str {
        &self.shared.default_model.0
    }

    /// Returns the origin of the choice of the default model.
    pub fn default_model_origin(&self) -> &Origin {
        &self.shared.default_model.1
    }

    /// Returns the model that `[roles]` sets for the lead (`lead`), the reflector (`reflector`), all sub-agents (`agents`) or one
    /// sub-agent. `None` if `[roles]` sets no model for `name`, or does not apply because `--model` or `DIRIGENT_MODEL` chose the model: see
    /// [`Config::roles`].
    pub fn role(&self, name: &str) -> Option<&str> {
        self.roles()
            .find_map(|(role, model, _)| (role == name).then_some(model))
    }

    /// Returns the entries of `[base_prompts]`: for agents, the names of their base system prompts (PROMPT-1).
    pub fn base_prompts(&self) -> impl Iterator<Item = (&str, &str)> {
        let prompts = self.shared.settings.base_prompts.iter();
        prompts.map(|(agent, prompt)| (agent.as_str(), prompt.0.as_str()))
    }

    /// Checks that all names of `[roles]`, `[base_prompts]` and `[limits.NAME]` are names of agents.
    pub(crate) fn check_agents<'a>(&self, agents: impl Iterator<Item = &'a str>) -> Result<(), ConfigError> {
        let known: Vec<&str> = ["lead", "reflector", ALL_AGENTS]
            .into_iter()
            .chain(agents)
            .collect();
        let settings = &self.shared.settings;
        let roles = settings.roles.keys().map(|name| ("roles", name));
        let limits = settings.limits.agents.keys().map(|name| ("limits", name));
        let prompts = settings.base_prompts.keys().map(|name| ("base_prompts", name));
        let mut names = roles.chain(prompts).chain(limits);
        match names.find(|(_, name)| !known.contains(&name.as_str())) {
            None => Ok(()),
            Some((table, name)) => Err(ConfigError::UnknownKey {
                origin: self.shared.origins.table(&[table]).origin(name),
                key: format!("{table}.{name}"),
                hint: match suggest::nearest(name, known.iter().copied()) {
                    Some(near) => format!("did you mean `{table}.{near}`?"),
                    None => format!("available: {}", known.join(", ")),
                },
            }),
        }
    }

    /// Returns the entries of `[roles]`, each with its model and its origin. Empty if the model was chosen by `--model` or
    /// `DIRIGENT_MODEL`: in this case, all agents ask this model, so choosing `offline` guarantees that nothing is sent to a server.
    pub fn roles(&self) -> impl Iterator<Item = (&str, &str, Origin)> {
        let count = if self.uses_file_models() { usize::MAX } else { 0 };
        self.configured_roles().take(count)
    }

    /// Returns the entries of `[roles]`, whether they apply or not.
    fn configured_roles(&self) -> impl Iterator<Item = (&str, &str, Origin)> {
        let table = self.shared.origins.table(&["roles"]);
        let roles = self.shared.settings.roles.iter();
        roles.map(move |(name, model)| (name.as_str(), model.0.as_str(), table.origin(name)))
    }

    /// Returns the names of all `[models.NAME]`.
    pub fn names(&self) -> BTreeSet<&str> {
        self.shared.settings.models.keys().map(String::as_str).collect()
    }

    /// Returns the models that runs ask by default: the default model and the models of roles, each followed by its fallbacks. Other models
    /// are asked only if an agent's definition names them.
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
        let mut references = vec![self.shared.default_model.clone()];
        references.extend(self.roles().map(|(_, model, origin)| (model.to_owned(), origin)));
        references
    }

    /// Returns the settings of a model.
    ///
    /// # Errors
    /// [`ConfigError::UnknownModel`], or an error in its settings. A missing API key is not an error of this function.
    pub fn model(&self, reference: &str) -> Result<ModelSettings, ConfigError> {
        self.find(reference, &self.shared.default_model.1)
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

    /// Returns the profile of a model and its fallbacks: the smallest context window, the shortest reply limit and the highest prices of
    /// all of them.
    ///
    /// # Errors
    /// The errors of [`Config::model`], for the model or one of its fallbacks.
    pub fn profile(&self, reference: &str) -> Result<ModelProfile, ConfigError> {
        let model = self.model(reference)?;
        let mut profile = ModelProfile {
            calls: model.calls,
            context_window: model.context_window,
            max_output_tokens: model.max_output_tokens,
            price: model.price,
            max_result: match model.provider {
                // The offline model parses results, so they must not be truncated.
                None => None,
                Some(_) => ModelProfile::default().max_result,
            },
        };
        for next in &model.fallback {
            let next = self.model(next)?;
            profile.context_window = lowest(profile.context_window, next.context_window);
            profile.max_output_tokens = lowest(profile.max_output_tokens, next.max_output_tokens);
            profile.price = highest_price(profile.price, next.price);
        }
        Ok(profile)
    }

    /// Returns the limits of the HTTP service that `[serve]` sets.
    pub fn service_limits(&self) -> ServiceLimits {
        let table = &self.shared.settings.serve;
        let count = |limit: Option<NonZeroU32>| limit.map(NonZeroU32::get);
        ServiceLimits {
            max_body: table.max_body.as_ref().map(|bytes| bytes.0),
            max_requests: count(table.max_requests),
            max_runs: count(table.max_runs),
            max_connections: count(table.max_connections),
            max_mcp_sessions: count(table.max_mcp_sessions),
            mcp_idle_time: table
                .mcp_idle_time
                .as_ref()
                .map(|time| std::time::Duration::from_millis(time.0.0)),
        }
    }

    /// Returns the limits of a run whose goal does not set limits.
    pub fn limits(&self) -> RunLimits {
        let limits = self.shared.settings.limits.run.clone();
        limits.unwrap_or(RunLimits::default())
    }

    /// Returns the limits that `[limits.AGENT]` sets: for the lead (`lead`), the reflector (`reflector`), all sub-agents (`agents`),
    /// or one sub-agent by its name. The table of a named agent takes precedence over the agent's own definition; `agents` does not.
    pub fn agent_limits(&self, agent: &str) -> AgentLimitSettings {
        let agents = &self.shared.settings.limits.agents;
        agents.get(agent).cloned().unwrap_or_default()
    }

    /// Returns the folder of the user's agent files: `agents` in the user's configuration folder.
    pub fn agents_folder(&self) -> Option<PathBuf> {
        Some(self.shared.sources.folder.as_ref()?.join("agents"))
    }

    /// Returns the folder of the user's workflow files: `workflows` in the user's configuration folder.
    pub fn workflows_folder(&self) -> Option<PathBuf> {
        Some(self.shared.sources.folder.as_ref()?.join("workflows"))
    }

    /// Returns whether runs use the agents that their project's files define, and the access of these agents.
    pub fn project_agents(&self) -> ProjectAgents {
        let mode = self.shared.settings.agents.project.as_ref();
        mode.map_or(ProjectAgents::ReadOnly, |mode| mode.0)
    }

    /// Returns true if agents receive the project's instructions (LEAD-4).
    pub fn reads_instructions(&self) -> bool {
        let mode = self.shared.settings.agents.instructions.as_ref();
        mode.is_none_or(|mode| mode.0)
    }

    /// Returns true if agents use the models that configuration files and agent files choose for them. If `--model` or `DIRIGENT_MODEL`
    /// chose the default model, all agents use the default model instead.
    pub(crate) fn uses_file_models(&self) -> bool {
        match self.default_model_origin() {
            Origin::BuiltIn | Origin::File { .. } => true,
            Origin::Variable(_) | Origin::Flag(_) => false,
        }
    }

    /// Checks that a model and its fallbacks are configured and have their API keys.
    pub(crate) fn can_ask(&self, reference: &str) -> Result<(), String> {
        let model = self.model(reference).map_err(|error| match error {
            ConfigError::UnknownModel { known, .. } => {
                format!("there is no model `{reference}`; available: {known}")
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

    /// Returns the limits that all requests to a model share (HOST-7): the lowest limits of all tables with the same model at the same
    /// address.
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

    /// Sets up the models (HOST-7): the default model and the models of roles immediately, any other model at its first request.
    ///
    /// # Errors
    /// A missing API key, or another reason why a model can't be set up.
    pub fn models(&self) -> Result<ConfiguredModels, ConfigError> {
        let models = ConfiguredModels::new(self.clone());
        for (reference, _) in self.references() {
            models.prepare(&reference)?;
        }
        Ok(models)
    }

    /// Returns the settings that differ from the shipped defaults, sorted by key. Each rule of `[approvals]` is a separate setting.
    pub fn settings(&self) -> Vec<Setting> {
        let set = self.shared.origins.iter();
        set.filter(|setting| setting.origin != Origin::BuiltIn)
            .map(|SettingOrigin { key, text, origin }| Setting {
                key: key.to_string(),
                value: text.clone().unwrap_or_else(|| "set (not shown)".to_owned()),
                origin: origin.clone(),
            })
            .collect()
    }

    /// Returns the files that were read; a later file takes precedence.
    pub fn files(&self) -> &[PathBuf] {
        &self.shared.files
    }

    /// Returns the path of the user's own file, whether it exists or not.
    pub fn user_file(&self) -> Option<PathBuf> {
        let folder = self.shared.sources.folder.as_ref()?;
        Some(folder.join("dirigent.toml"))
    }

    /// Returns the path of a `dirigent.toml` in `folder` that exists but was not read, because someone else may have written it.
    pub fn unread_file(&self, folder: &Path) -> Option<PathBuf> {
        let path = folder.join("dirigent.toml");
        let found = path.canonicalize().ok()?;
        let was_read = |file: &PathBuf| file.canonicalize().is_ok_and(|file| file == found);
        (!self.shared.files.iter().any(was_read)).then_some(path)
    }
}

fn lowest(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

fn highest_price(one: Option<Price>, other: Option<Price>) -> Option<Price> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.highest(other)),
        (one, other) => one.or(other),
    }
}
