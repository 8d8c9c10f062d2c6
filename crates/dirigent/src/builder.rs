//! The builder of a [`Dirigent`].

use std::path::{Path, PathBuf};
use std::sync::Arc;

use dirigent_core::agent_spec::ModelProfile;
use dirigent_core::policy::Policy;
use dirigent_core::setup::SharedSetup;
use dirigent_core::tool::ToolSpec;
use dirigent_mcp::{McpServices, Supervision};
use dirigent_model::ChatModel;
use dirigent_offline::OfflineModel;
use dirigent_runtime::{Orchestrator, Services, with_read_output};
use dirigent_store::{Journal, JournalOptions, StoreError, TrustedFile};
use dirigent_tools::{Confinement, Tool, ToolRegistry, ToolSettings, ToolSource as _};

use crate::agents::{
    AgentDefinition, AgentRegistry, Agents, ModelResolver, PromptOptions, RunSpecFactory,
    check_program_agents, shipped_agents,
};
use crate::blocking::blocking;
use crate::call_forms::CallForms;
use crate::completions::CompletionSource;
use crate::config::{Config, ConfiguredModels};
use crate::dirigent::{Dirigent, prepare_models};
use crate::known_tools::{check_tool_names, known_tools};
use crate::project::EnvironmentFacts;
use crate::service_tools::AllTools;
use crate::services::{ServiceAccess, ServiceRegistry, listed_tools, stored_access};
use crate::start_queue::StartQueue;
use crate::stored_settings::StoredSettings;
use crate::system_prompts::BasePrompts;
use crate::workflows::{Workflows, is_trusted};
use crate::{DirigentError, default_journal};

/// The parts of an orchestrator that a builder prepares.
type Prepared = (
    Option<ConfiguredModels>,
    CompletionSource,
    RunSpecFactory,
    Services,
    Journal,
    Confinement,
);

/// Builds a [`Dirigent`].
#[derive(Clone)]
pub struct Builder {
    journal: Option<PathBuf>,
    journal_options: JournalOptions,
    config: Option<Config>,
    model: Option<Arc<dyn ChatModel>>,
    profile: ModelProfile,
    /// The tools that the program adds.
    tools: ToolRegistry,
    tool_settings: Option<ToolSettings>,
    /// The sub-agents that the program adds.
    agents: Vec<AgentDefinition>,
    policy: Policy,
}

impl Builder {
    pub(crate) fn new() -> Self {
        Builder {
            journal: None,
            journal_options: JournalOptions::default(),
            config: None,
            model: None,
            profile: ModelProfile::default(),
            tools: ToolRegistry::new(),
            tool_settings: None,
            agents: Vec::new(),
            policy: Policy::default(),
        }
    }

    /// Sets the journal's file, which is created if it does not exist. The default is [`default_journal`].
    pub fn journal(mut self, path: impl Into<PathBuf>) -> Self {
        self.journal = Some(path.into());
        self
    }

    /// Requires the journal to exist, so that a mistyped path is an error instead of an empty journal.
    pub fn existing_journal(mut self) -> Self {
        self.journal_options = self.journal_options.existing();
        self
    }

    /// Opens the journal for reading only: nothing is written, and no run can be started, resumed or steered. A missing journal is an error.
    pub fn read_only_journal(mut self) -> Self {
        self.journal_options = self.journal_options.read_only();
        self
    }

    /// Sets the configuration: models, limits, rules and what the built-in tools may access.
    pub fn config(mut self, config: &Config) -> Self {
        self.config = Some(config.clone());
        self
    }

    /// Sets one model for all agents. The default is the models of the configuration or, without a configuration, the [`OfflineModel`].
    /// If a configuration is also set, its models determine the prompts, and each request names one of its models by reference. A model
    /// for this case is typically a wrapper of [`Config::models`].
    pub fn model(mut self, model: impl ChatModel) -> Self {
        self.model = Some(Arc::new(model));
        self
    }

    /// Sets the profile of the model set with [`Builder::model`]: how it calls tools, its context window and its price. The models of a configuration
    /// have their own profiles.
    pub fn profile(mut self, profile: ModelProfile) -> Self {
        self.profile = profile;
        self
    }

    /// Adds a tool, which replaces a built-in tool of the same name. Plans may call it, and so may agents that list it and have the access that it
    /// needs.
    pub fn tool(mut self, tool: impl Tool) -> Self {
        self.tools.insert(tool);
        self
    }

    /// Sets what the built-in tools may access: the sandbox of commands, the databases, and the hosts outside the public network. The
    /// default is the settings of the configuration or, without a configuration, [`ToolSettings::default`]. [`Builder::policy`] sets which
    /// calls need approval.
    pub fn tool_settings(mut self, settings: ToolSettings) -> Self {
        self.tool_settings = Some(settings);
        self
    }

    /// Adds a sub-agent, which replaces a sub-agent of the same name.
    pub fn agent(mut self, agent: AgentDefinition) -> Self {
        self.agents.retain(|other| other.name() != agent.name());
        self.agents.push(agent);
        self
    }

    /// Adds rules to the configuration's rules: which calls run without approval, which need approval, and which are refused (APPROVE-1).
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Checks that the agents, the rules and the models of the configuration are consistent, without opening the journal.
    ///
    /// # Errors
    /// A role of an unknown agent, a rule about an unknown tool, or a model that is not configured. A missing API key is reported only by
    /// [`Builder::build`].
    pub async fn check(&self) -> Result<(), DirigentError> {
        let builder = self.clone();
        blocking(move || {
            let specs = builder.tools_without_connections().specs();
            builder
                .checked_registry(&specs, &builder.known_services())
                .map(drop)
        })
        .await
    }

    /// Opens the journal and starts the orchestrator in the current tokio runtime.
    ///
    /// # Errors
    /// An error in the journal, an agent's definition or the configuration.
    pub async fn build(self) -> Result<Dirigent, DirigentError> {
        let configs = self.config.as_ref().map(Config::services).transpose()?;
        let mcp = McpServices::start_up(Vec::new(), Supervision::default()).await?;
        let with_mcp = mcp.clone();
        let (configured, completions, run_spec_factory, services, journal, confinement) =
            blocking(move || self.prepare(with_mcp)).await?;
        let orchestrator = Orchestrator::start_up(services).await?;
        let dirigent = Dirigent {
            orchestrator,
            starts: StartQueue::new(journal.clone()),
            journal,
            run_spec_factory: Arc::new(run_spec_factory),
            configured,
            completions,
            confinement,
            mcp,
            services: Arc::new(ServiceRegistry::new(configs.unwrap_or_default())),
        };
        dirigent.load_services(None).await?;
        Ok(dirigent)
    }

    /// Opens the journal and reads the agents from the disk.
    fn prepare(self, mcp: McpServices) -> Result<Prepared, DirigentError> {
        let settings = self.settings()?;
        let tools = self.all_tools(&settings);
        let known_services = self.known_services();
        let registry = self.checked_registry(&tools.specs(), &known_services)?;
        let configured = match (&self.config, &self.model) {
            (Some(config), None) => Some(config.models()?),
            (Some(_) | None, _) => None,
        };
        let path = self.journal.clone().map_or_else(default_journal, Ok)?;
        let journal = self.journal_options.open(&path)?;
        let model = match (&configured, &self.model) {
            (_, Some(model)) => model.clone(),
            (Some(configured), None) => Arc::new(configured.clone()),
            (None, None) => Arc::new(OfflineModel),
        };
        let completions = match &configured {
            Some(configured) => CompletionSource::Configured(configured.clone()),
            None => CompletionSource::Own {
                model: model.clone(),
                config: self.config.clone(),
            },
        };
        let services = Services::new(journal.clone(), model, AllTools { own: tools, mcp });
        let run_spec_factory = RunSpecFactory::new(
            self.models(),
            registry,
            services.tool_specs(),
            known_services,
            self.all_rules(),
            EnvironmentFacts::new(&settings),
        );
        prepare_models(
            configured.as_ref(),
            run_spec_factory.default_setup()?.all_agents(),
        )?;
        let confinement = settings.sandbox.confinement;
        Ok((
            configured,
            completions,
            run_spec_factory,
            services,
            journal,
            confinement,
        ))
    }

    /// Lists the agents of runs with their sources, and the refused agent files. If `workspace` is given, its project's agent files are
    /// included.
    ///
    /// # Errors
    /// The errors of [`Builder::check`].
    pub async fn agents(&self, workspace: Option<&Path>) -> Result<Agents, DirigentError> {
        let (builder, workspace) = (self.clone(), workspace.map(Path::to_owned));
        blocking(move || builder.list_agents(workspace.as_deref())).await
    }

    fn list_agents(&self, workspace: Option<&Path>) -> Result<Agents, DirigentError> {
        let (specs, services) = (self.tools_without_connections().specs(), self.known_services());
        let registry = self.checked_registry(&specs, &services)?;
        let registry = match (workspace, &self.config) {
            (Some(workspace), Some(config)) => {
                registry.with_project_agents(workspace, config, &known_tools(&specs, &services))
            }
            (Some(_) | None, _) => registry,
        };
        Ok(self.models().list_agents(registry))
    }

    /// Reads the workflows that users can invoke, as [`Dirigent::workflows`] does, without creating the journal or writing to it. The
    /// journal is read only if the project has workflow files; if it cannot be read, none of these files is trusted, and
    /// [`Workflows::notes`] contains a note.
    ///
    /// # Errors
    /// The errors of [`Builder::check`].
    pub async fn workflows(&self, workspace: Option<&Path>) -> Result<Workflows, DirigentError> {
        let (builder, workspace) = (self.clone(), workspace.map(Path::to_owned));
        blocking(move || builder.read_workflows(workspace.as_deref())).await
    }

    fn read_workflows(&self, workspace: Option<&Path>) -> Result<Workflows, DirigentError> {
        let factory = self.factory_without_connections(self.models())?;
        let workflows = factory.workflows(workspace, &|_, _| false);
        if workflows.untrusted.is_empty() {
            return Ok(workflows);
        }
        match self.read_trusted_files() {
            Ok(trusted) => {
                Ok(factory.workflows(workspace, &|path, digest| is_trusted(&trusted, path, digest)))
            }
            Err(problem) => Ok(Workflows {
                notes: vec![format!(
                    "the journal cannot be read, so no file of the project counts as trusted: {problem}"
                )],
                ..workflows
            }),
        }
    }

    /// Returns the files that the user has trusted; none if there is no journal yet.
    fn read_trusted_files(&self) -> Result<Vec<TrustedFile>, DirigentError> {
        let path = self.journal.clone().map_or_else(default_journal, Ok)?;
        match self.journal_options.clone().read_only().open(&path) {
            Ok(journal) => Ok(journal.trusted_files()?),
            Err(StoreError::Missing { .. }) => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns a factory for prompts and workflows, which opens no journal and no database.
    fn factory_without_connections(&self, models: ModelResolver) -> Result<RunSpecFactory, DirigentError> {
        let specs = with_read_output(self.tools_without_connections().specs());
        let services = self.known_services();
        let registry = self.checked_registry(&specs, &services)?;
        let environment = EnvironmentFacts::new(&ToolSettings::default());
        Ok(RunSpecFactory::new(
            models,
            registry,
            specs,
            services,
            self.all_rules(),
            environment,
        ))
    }

    /// Builds the setup of a run without opening the journal.
    pub(crate) fn setup(
        &self,
        workspace: Option<&Path>,
        options: PromptOptions,
    ) -> Result<SharedSetup, DirigentError> {
        let models = self.models();
        let models = ModelResolver {
            own: options.calls.map(|calls| ModelProfile {
                calls,
                ..models.profile
            }),
            ..models
        };
        let stored = StoredSettings {
            base_prompts: BasePrompts::new(options.base_prompts),
            ..StoredSettings::default()
        };
        let factory = self.factory_without_connections(models)?;
        factory.setup_with_services(workspace, options.mode, &stored, self.listed_tools(workspace))
    }

    /// Returns the services for runs in a workspace with their tools, as far as the journal knows them. Reads the disk.
    fn listed_tools(&self, workspace: Option<&Path>) -> (ServiceAccess, Vec<ToolSpec>) {
        let configured = self.config.as_ref().and_then(|config| config.services().ok());
        let listed = self
            .existing_journal_for_reading()
            .and_then(|journal| listed_tools(&journal, configured.unwrap_or_default(), workspace).ok());
        listed.unwrap_or_default()
    }

    /// Opens the journal for reading; `None` if it cannot be read.
    fn existing_journal_for_reading(&self) -> Option<Journal> {
        let path = self.journal.clone().or_else(|| default_journal().ok());
        let path = path.filter(|path| path.is_file())?;
        JournalOptions::default().read_only().open(&path).ok()
    }

    /// Returns the services of every run, from the configuration and the journal, without opening the journal for writing. If the journal
    /// cannot be read, only the configuration's services are returned. Reads the disk.
    fn known_services(&self) -> ServiceAccess {
        let journal = self.existing_journal_for_reading();
        let stored = journal.and_then(|journal| stored_access(&journal).ok());
        let configured = self.config.as_ref().map(Config::service_access);
        let mut services = configured.unwrap_or_default();
        for (name, access) in stored.unwrap_or_default() {
            if services.iter().all(|(known, _)| *known != name) {
                services.push((name, access));
            }
        }
        services
    }

    fn models(&self) -> ModelResolver {
        ModelResolver {
            own: None,
            default: None,
            forms: CallForms::default(),
            config: self.config.clone(),
            profile: match self.model {
                Some(_) => self.profile,
                // The offline model parses results, so they must not be truncated.
                None => ModelProfile {
                    max_result: None,
                    ..self.profile
                },
            },
        }
    }

    fn settings(&self) -> Result<ToolSettings, DirigentError> {
        match (&self.tool_settings, &self.config) {
            (Some(settings), _) => Ok(settings.clone()),
            (None, Some(config)) => Ok(config.tool_settings()?),
            (None, None) => Ok(ToolSettings::default()),
        }
    }

    /// Returns the built-in tools with these settings, and the program's tools.
    fn all_tools(&self, settings: &ToolSettings) -> ToolRegistry {
        let mut tools = dirigent_tools::built_in(settings);
        tools.extend(self.tools.clone());
        tools
    }

    /// Returns all tools, with database connections that have no address, so that the variables with the addresses need not be set. The
    /// tools can be described, but not called.
    fn tools_without_connections(&self) -> ToolRegistry {
        let of_config = self.config.as_ref().map(Config::tool_settings_without_secrets);
        let settings = self.tool_settings.clone().or(of_config);
        self.all_tools(&settings.unwrap_or_default())
    }

    /// Returns the sub-agents of every run, after checking them against the configuration. Reads the disk.
    fn checked_registry(
        &self,
        tools: &[ToolSpec],
        services: &ServiceAccess,
    ) -> Result<AgentRegistry, DirigentError> {
        check_tool_names(tools)?;
        let known = &known_tools(tools, services);
        check_program_agents(&self.agents, known)?;
        let mut registry = AgentRegistry::new(shipped_agents(), &self.agents, known);
        if let Some(config) = &self.config {
            registry = registry.with_user_agents(config, known);
            config.check_agents(registry.names())?;
            config.check_rules(known, tools)?;
        }
        self.models().check(&registry)?;
        Ok(registry)
    }

    /// Returns the rules of the configuration and of the program.
    fn all_rules(&self) -> Policy {
        let configured = self.config.as_ref().map(Config::policy).unwrap_or_default();
        Policy {
            rules: configured
                .rules
                .into_iter()
                .chain(self.policy.rules.clone())
                .collect(),
        }
    }
}
