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
mod model;
mod models;
mod notes;
mod probe;
mod remote_model;
mod rules;
mod schema;
mod settings;
mod sources;
mod tools;
mod value;

use std::collections::BTreeSet;
use std::num::{NonZeroU32, NonZeroU64};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dirigent_core::limits::{AgentLimit, AgentLimitSetting, AgentLimitSettings, RunLimits};
use dirigent_core::price::Price;
use dirigent_core::spec::ModelProfile;
use dirigent_model::ModelLimits;

pub use dirigent_model::Provider;
pub use error::{ConfigError, Origin};
pub use model::{ApiKey, ModelSettings};
pub use models::ConfiguredModels;
pub use probe::{ProbeError, ProbeOutcome};
use settings::{Key, Settings, read_file, read_file_if_exists};
pub use sources::Sources;
pub use tools::ConnectionSettings;
use value::Value;
pub(crate) use value::parse_duration;

use crate::agents::nearest;

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
        let mut settings = built_in()?;
        let mut files = Vec::new();
        if let Some(folder) = &sources.folder {
            for (name, under) in [("prices.toml", &["prices"][..]), ("dirigent.toml", &[])] {
                let path = folder.join(name);
                if let Some(found) = read_file_if_exists(&path, under)? {
                    settings.merge(found);
                    files.push(path);
                }
            }
        }
        if let Some((path, _)) = sources.named_file() {
            settings.merge(read_file(&path, &[])?);
            files.push(path);
        }
        let chosen = sources.named_model().unwrap_or_else(|| {
            let origin = settings
                .get(&["model", "provider"])
                .map(|found| found.origin.clone());
            ("default".to_owned(), origin.unwrap_or(Origin::BuiltIn))
        });
        let config = Config {
            shared: Arc::new(Shared {
                settings,
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
                let table = self.shared.settings.table(&["models", name]);
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
        for (reference, origin) in [(chosen.as_str(), origin)].into_iter().chain(roles) {
            let _ = self.find(reference, origin)?;
        }
        Ok(())
    }

    fn check_model(&self, name: &str, table: &[&str]) -> Result<(), ConfigError> {
        let table = self.shared.settings.table(table);
        let model = self.find(name, &table.table_origin())?;
        let origin = table.origin("fallback").unwrap_or(&Origin::BuiltIn);
        for next in &model.fallback {
            if next == name {
                return Err(table.invalid("fallback", "names the model itself: leave it out"));
            }
            if self.find(next, origin)?.provider.is_none() {
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
        let roles = self
            .configured_roles()
            .map(|(name, _, origin)| ("roles", name, origin));
        let limits = self
            .shared
            .settings
            .iter()
            .filter_map(|(key, found)| match key.parts()[..] {
                ["limits", name, _] => Some(("limits", name, &found.origin)),
                _ => None,
            });
        match roles.chain(limits).find(|(_, name, _)| !known.contains(name)) {
            None => Ok(()),
            Some((table, name, origin)) => Err(ConfigError::UnknownKey {
                origin: origin.clone(),
                key: format!("{table}.{name}"),
                hint: match nearest(name, known.iter().copied()) {
                    Some(near) => format!("did you mean `{table}.{near}`?"),
                    None => format!("there are {}", known.join(", ")),
                },
            }),
        }
    }

    /// The names of `[roles]`, each with its model and where that was said; none where the model was chosen by `--model` or
    /// `DIRIGENT_MODEL`, as all agents ask that one then: whoever chooses `offline` wants nothing sent elsewhere.
    pub fn roles(&self) -> impl Iterator<Item = (&str, &str, &Origin)> {
        let count = if self.uses_file_models() { usize::MAX } else { 0 };
        self.configured_roles().take(count)
    }

    /// All that `[roles]` says, whether it counts or not.
    fn configured_roles(&self) -> impl Iterator<Item = (&str, &str, &Origin)> {
        self.shared.settings.iter().filter_map(|(key, found)| {
            let parts = key.parts();
            let (&["roles", name], Value::Text(model)) = (&parts[..], &found.value) else {
                return None;
            };
            Some((name, model.as_str(), &found.origin))
        })
    }

    /// The names of `[models.NAME]`.
    pub fn names(&self) -> BTreeSet<&str> {
        self.shared
            .settings
            .iter()
            .filter_map(|(key, _)| match key.parts()[..] {
                ["models", name, _] => Some(name),
                _ => None,
            })
            .collect()
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
        references.extend(
            self.roles()
                .map(|(_, model, origin)| (model.to_owned(), origin.clone())),
        );
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
        let found = model::find(reference, &self.shared.settings, &self.shared.sources)?;
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

    /// What bounds a run where nothing else is said.
    pub fn limits(&self) -> RunLimits {
        let table = self.shared.settings.table(&["limits"]);
        let default = RunLimits::default();
        RunLimits {
            max_iterations: table
                .count_u32("max_iterations")
                .unwrap_or(default.max_iterations),
            max_parallel: table.count_u32("max_parallel").unwrap_or(default.max_parallel),
            max_subtasks: table.count_u32("max_subtasks").unwrap_or(default.max_subtasks),
            max_agents: table.count_u32("max_agents").unwrap_or(default.max_agents),
            max_depth: table.count_u32("max_depth").unwrap_or(default.max_depth),
            approval_timeout: table.duration("approval_timeout").or(default.approval_timeout),
            call_timeout: table.duration("call_timeout").unwrap_or(default.call_timeout),
            timeout: table.duration("timeout"),
            max_tokens: table.count("max_tokens"),
            max_cost: match table.value("max_cost") {
                Some(Value::Dollars(cost)) => Some(*cost),
                Some(_) | None => None,
            },
            max_model_calls: table.count_u32("max_model_calls"),
        }
    }

    /// The limits that `[limits.AGENT]` sets: for the planner (`planner`), the reflector (`reflector`), all sub-agents (`agents`), or one by its
    /// name. The last goes before what an agent's own definition says, `agents` comes after it.
    pub fn agent_limits(&self, agent: &str) -> AgentLimitSettings {
        let table = self.shared.settings.table(&["limits", agent]);
        let mut limits = AgentLimitSettings::default();
        for limit in AgentLimit::ALL {
            match limit.setting {
                AgentLimitSetting::Count(setting) => *setting(&mut limits) = table.count_u32(limit.name),
                AgentLimitSetting::Time(setting) => *setting(&mut limits) = table.duration(limit.name),
            }
        }
        limits
    }

    /// Where the user's own agents are defined, a Markdown file each: `agents` in the user's configuration folder.
    pub fn agents_folder(&self) -> Option<PathBuf> {
        Some(self.shared.sources.folder.as_ref()?.join("agents"))
    }

    /// Whether runs have the agents that their project's files define, and what these may do.
    pub fn project_agents(&self) -> ProjectAgents {
        match self.shared.settings.table(&["agents"]).text("project") {
            Some("off") => ProjectAgents::Off,
            Some("read-write") => ProjectAgents::ReadWrite,
            // `read-only`, as the schema allows no other word.
            Some(_) | None => ProjectAgents::ReadOnly,
        }
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
        let setting = |key: &Key, value: String, origin: &Origin| Setting {
            key: key.to_string(),
            value,
            origin: origin.clone(),
        };
        let set = self
            .shared
            .settings
            .iter()
            .flat_map(|(key, found)| match &found.value {
                Value::Rules(rules) => rules
                    .iter()
                    .map(|(rule, origin)| setting(key, rule.to_string(), origin))
                    .collect(),
                value => vec![setting(key, value.to_string(), &found.origin)],
            });
        set.filter(|setting| setting.origin != Origin::BuiltIn).collect()
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

fn built_in() -> Result<Settings, ConfigError> {
    let mut settings = Settings::read(PRICES, &["prices"], |_| Origin::BuiltIn)?;
    settings.merge(Settings::read(DEFAULTS, &[], |_| Origin::BuiltIn)?);
    Ok(settings)
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
