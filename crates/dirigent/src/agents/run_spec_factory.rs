//! Builds the specs of runs: the lead, the reflector and the sub-agents with their models and prompts, the tools, the limits and the policy.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use dirigent_core::agent_spec::{AgentSpec, BasePrompt, DELEGATE};
use dirigent_core::call::CallForm;
use dirigent_core::limits::RunLimits;
use dirigent_core::loop_tools::CALL_TOOL;
use dirigent_core::mode::Mode;
use dirigent_core::policy::{Policy, Rule};
use dirigent_core::project::{Environment, Instructions, Project};
use dirigent_core::prompt::READ_OUTPUT;
use dirigent_core::setup::{RunSetup, SharedSetup};
use dirigent_core::spec::{RunSpec, UsedWorkflow};
use dirigent_core::tool::ToolSpec;
use dirigent_mcp::{ServiceName, service_of};
use dirigent_tools::ToolSource as _;

use super::definition::{AgentDefinition, AgentModel, AgentSettings, lead, reflector};
use super::limits::GoalAgentLimits;
use super::model_resolver::ModelResolver;
use super::registry::{AgentRegistry, Agents, RegisteredAgent, check_program_agents};
use crate::DirigentError;
use crate::call_forms::CallForms;
use crate::config::{Config, ModelSettings};
use crate::goal::{Goal, OwnParts, ProjectInstructions};
use crate::known_tools::{check_tool_names, known_tools};
use crate::project::{EnvironmentFacts, read_instructions};
use crate::services::ServiceAccess;
use crate::stored_settings::StoredSettings;
use crate::workflows::{KnownNames, Workflows};

/// The options with which [`crate::Builder::prompts`] renders the prompts of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PromptOptions {
    /// The mode of the run.
    pub mode: Mode,
    /// The form in which all models call tools; `None` for the form of each agent's model.
    pub calls: Option<CallForm>,
    /// The base system prompts of agents, by the agents' names, with `agents` for all sub-agents; a lead without an entry gets the
    /// default prompt that ships with Dirigent.
    pub base_prompts: BTreeMap<String, BasePrompt>,
}

/// Maximum number of setups in the cache.
const MAX_CACHED_SETUPS: usize = 16;

/// Builds the specs of runs. Runs whose agents and agent limits are the same share one setup, so that its prompts are rendered only once.
pub(crate) struct RunSpecFactory {
    models: ModelResolver,
    /// The sub-agents of every run, without a project's agents.
    registry: AgentRegistry,
    tools: Vec<ToolSpec>,
    /// The services of every run.
    services: ServiceAccess,
    /// The only tools that agents may have; `None` for no restriction.
    only_tools: Option<Vec<String>>,
    /// The only sub-agent of runs, which does all the work; `None` for no restriction.
    only_agent: Option<String>,
    pub(crate) limits: RunLimits,
    policy: Policy,
    environment: EnvironmentFacts,
    /// Cache of the most recently used setups, the latest last.
    setups: Mutex<Vec<(SetupKey, SharedSetup)>>,
}

/// Key of a setup in the cache.
#[derive(PartialEq)]
struct SetupKey {
    agents: Vec<Arc<RegisteredAgent>>,
    limits: GoalAgentLimits,
    /// False if the run allows no delegation (PAOR-5).
    delegation: bool,
    mode: Mode,
    stored: StoredSettings,
    /// The number of known call forms, on which the prompts depend.
    known_forms: usize,
}

impl RunSpecFactory {
    /// Creates a factory for the agents of `registry`, each with a prompt that suits its model.
    pub(crate) fn new(
        models: ModelResolver,
        registry: AgentRegistry,
        tools: Vec<ToolSpec>,
        services: ServiceAccess,
        policy: Policy,
        environment: EnvironmentFacts,
    ) -> Self {
        let limits = models.config.as_ref().map(Config::limits).unwrap_or_default();
        RunSpecFactory {
            models,
            registry,
            tools,
            services,
            only_tools: None,
            only_agent: None,
            limits,
            policy,
            environment,
            setups: Mutex::default(),
        }
    }

    /// Returns a factory that adds the goal's own model, tools and sub-agents to those of all runs, and applies its workflow's
    /// restrictions. `None` if the goal has none of these.
    ///
    /// # Errors
    /// A sub-agent of the goal that is invalid.
    pub(crate) fn for_goal(&self, goal: &Goal) -> Result<Option<Self>, DirigentError> {
        let with_own = self.with_own_parts(&goal.own)?;
        let factory = with_own.as_ref().unwrap_or(self);
        let restricted = goal
            .workflow
            .as_ref()
            .and_then(|workflow| factory.restricted(workflow));
        Ok(restricted.or(with_own))
    }

    /// Returns a factory for runs that may also use these services. `None` if every run may use them anyway.
    ///
    /// # Errors
    /// A model that is not configured.
    pub(crate) fn for_services(&self, services: ServiceAccess) -> Result<Option<Self>, DirigentError> {
        self.with_own_parts(&OwnParts {
            service_access: services,
            ..OwnParts::default()
        })
    }

    /// Returns a factory for the models that a goal with these parts asks; `None` if they are those of all runs.
    ///
    /// # Errors
    /// A model that is not configured.
    pub(crate) fn for_models_of(&self, own: &OwnParts) -> Result<Option<Self>, DirigentError> {
        self.with_own_parts(&OwnParts {
            service_access: own.service_access.clone(),
            default_model: own.default_model.clone(),
            ..OwnParts::default()
        })
    }

    /// Returns a factory without the tools and agents that a workflow leaves out, and with its rules; `None` if it restricts nothing.
    fn restricted(&self, workflow: &UsedWorkflow) -> Option<Self> {
        if workflow.tools.is_none() && workflow.rules.is_empty() && workflow.agent.is_none() {
            return None;
        }
        let policy = with_rules(&self.policy, &workflow.rules);
        let (models, registry) = (self.models.clone(), self.registry.clone());
        let (tools, services) = (self.tools.clone(), self.services.clone());
        let environment = self.environment.clone();
        Some(RunSpecFactory {
            only_tools: workflow.tools.clone(),
            only_agent: workflow.agent.clone(),
            ..RunSpecFactory::new(models, registry, tools, services, policy, environment)
        })
    }

    /// Returns true if agents may have the tool.
    fn is_allowed(&self, tool: &str) -> bool {
        let only = self.only_tools.as_ref();
        only.is_none_or(|tools| tools.iter().any(|allowed| allowed == tool))
            || [READ_OUTPUT, DELEGATE].contains(&tool)
    }

    fn with_own_parts(&self, own: &OwnParts) -> Result<Option<Self>, DirigentError> {
        let mut own_tools = own.services.tools.specs();
        own_tools.extend(own.service_tools.iter().cloned());
        let has_model = own.services.model.is_some();
        let default_model = own
            .default_model
            .clone()
            .filter(|model| self.models.default_model() != Some(model));
        let mut services = self.services.clone();
        let is_new = |(name, _): &&(ServiceName, _)| self.services.iter().all(|(known, _)| known != name);
        services.extend(own.service_access.iter().filter(is_new).cloned());
        let has_services = services.len() > self.services.len();
        if !has_model
            && default_model.is_none()
            && !has_services
            && own_tools.is_empty()
            && own.agents.is_empty()
            && own.policy.is_empty()
        {
            return Ok(None);
        }
        let own_tools = own_tools.into_iter().filter(|tool| tool.name != READ_OUTPUT);
        let all_tools = self.tools.iter().cloned().chain(own_tools);
        let by_name: BTreeMap<String, ToolSpec> = all_tools.map(|tool| (tool.name.clone(), tool)).collect();
        let tools: Vec<ToolSpec> = by_name.into_values().collect();
        check_tool_names(&tools)?;
        let known = known_tools(&tools, &services);
        check_program_agents(&own.agents, &known)?;
        let models = ModelResolver {
            own: has_model.then_some(own.profile),
            default: default_model.or(self.models.default.clone()),
            ..self.models.clone()
        };
        let registry = self.registry.clone().with_goal_agents(&own.agents, &known);
        models.check(&registry)?;
        let policy = with_rules(&self.policy, &own.policy.rules);
        let environment = self.environment.clone();
        Ok(Some(RunSpecFactory::new(
            models,
            registry,
            tools,
            services,
            policy,
            environment,
        )))
    }

    /// Returns the setup of a run without a project's agents and without agent limits of its goal.
    pub(crate) fn default_setup(&self) -> Result<SharedSetup, DirigentError> {
        let agent_limits = GoalAgentLimits::default();
        let stored = StoredSettings::default();
        self.setup(&self.registry, &agent_limits, &self.limits, Mode::Auto, &stored)
    }

    /// Returns the setup of a run. Includes the agents of the project in `workspace`, if one is given. Reads the disk.
    pub(crate) fn setup_for(
        &self,
        workspace: Option<&Path>,
        mode: Mode,
        stored: &StoredSettings,
    ) -> Result<SharedSetup, DirigentError> {
        let registry = workspace.map_or_else(|| self.registry.clone(), |folder| self.registry_for(folder));
        let agent_limits = GoalAgentLimits::default();
        self.setup(&registry, &agent_limits, &self.limits, mode, stored)
    }

    /// Like [`Self::setup_for`], with the tools of services that the agents name, as far as they are among `tools`.
    pub(crate) fn setup_with_services(
        &self,
        workspace: Option<&Path>,
        mode: Mode,
        stored: &StoredSettings,
        (access, tools): (ServiceAccess, Vec<ToolSpec>),
    ) -> Result<SharedSetup, DirigentError> {
        let mut goal = Goal::new("");
        goal.own.service_access = access;
        if let Some(workspace) = workspace {
            let with_access = self.for_goal(&goal)?;
            let named = with_access.as_ref().unwrap_or(self).services_of(&goal, workspace);
            let is_named =
                |tool: &ToolSpec| service_of(&tool.name).is_some_and(|service| named.contains(&service));
            goal.own.service_tools = tools.into_iter().filter(is_named).collect();
        }
        let with_services = self.for_goal(&goal)?;
        with_services
            .as_ref()
            .unwrap_or(self)
            .setup_for(workspace, mode, stored)
    }

    /// Returns the sub-agents of a run in a workspace, including its project's agents. Reads the disk.
    fn registry_for(&self, workspace: &Path) -> AgentRegistry {
        let registry = self.registry.clone();
        let registry = match &self.models.config {
            Some(config) => {
                registry.with_project_agents(workspace, config, &known_tools(&self.tools, &self.services))
            }
            None => registry,
        };
        let registry = registry.with_tools_only(&|tool| self.is_allowed(tool));
        match &self.only_agent {
            Some(agent) => registry.with_agent_only(agent),
            None => registry,
        }
    }

    /// Returns the services whose tools the agents of a goal may have. Reads the disk.
    pub(crate) fn services_of(&self, goal: &Goal, workspace: &Path) -> BTreeSet<ServiceName> {
        let registry = self.registry_for(workspace);
        let agents = registry.entries.iter().map(|entry| &entry.definition);
        let tools = agents.chain(&goal.own.agents).flat_map(|agent| &agent.tools);
        tools.filter_map(|tool| service_of(tool)).collect()
    }

    /// Reads from disk the workflows that users can invoke in a workspace.
    pub(crate) fn workflows(
        &self,
        workspace: Option<&Path>,
        is_trusted: &dyn Fn(&Path, &str) -> bool,
    ) -> Workflows {
        let registry = workspace.map_or_else(|| self.registry.clone(), |folder| self.registry_for(folder));
        let tools = known_tools(&self.tools, &self.services);
        let agents: Vec<String> = registry
            .entries
            .iter()
            .map(|entry| entry.definition.name.clone())
            .collect();
        let known = KnownNames {
            tools: &tools,
            agents: &agents,
        };
        let folder = self.models.config.as_ref().and_then(Config::workflows_folder);
        Workflows::read(folder.as_deref(), workspace, known, is_trusted)
    }

    /// The names of the tools of every run.
    pub(crate) fn tool_names(&self) -> Vec<String> {
        self.tools.iter().map(|tool| tool.name.clone()).collect()
    }

    /// Lists the agents of a run for display, including the agents of the project in `workspace`. Reads the disk.
    pub(crate) fn list_agents(&self, workspace: Option<&Path>) -> Agents {
        let registry = workspace.map_or_else(|| self.registry.clone(), |folder| self.registry_for(folder));
        self.models.list_agents(registry)
    }

    /// Returns the settings of the models that a run in this workspace asks. Reads the disk.
    pub(crate) fn models_in(&self, workspace: &Path) -> Result<Vec<ModelSettings>, DirigentError> {
        self.models.settings(&self.registry_for(workspace))
    }

    /// For agents, the names of the base system prompts that the configuration sets.
    pub(crate) fn base_prompt_names(&self) -> BTreeMap<String, String> {
        let prompts = self.models.config.iter().flat_map(Config::base_prompts);
        prompts
            .map(|(agent, prompt)| (agent.to_owned(), prompt.to_owned()))
            .collect()
    }

    /// How models call tools if their configuration does not specify it.
    pub(crate) fn call_forms(&self) -> &CallForms {
        &self.models.forms
    }

    /// Builds the spec of a run in a workspace, including its project's agents. Reads the disk.
    pub(crate) fn spec(
        &self,
        goal: &Goal,
        text: String,
        workspace: String,
        stored: &StoredSettings,
    ) -> Result<RunSpec, DirigentError> {
        let registry = self.registry_for(Path::new(&workspace));
        if let Some(name) = &self.only_agent
            && registry.entries.is_empty()
        {
            return Err(DirigentError::Agent {
                name: name.clone(),
                reason: "the workflow gives its goal to this agent, which does not exist in this workspace"
                    .to_owned(),
            });
        }
        let (agent_limits, mode) = (&goal.agent_limits, goal.mode);
        agent_limits.check(["lead", "reflector"].into_iter().chain(registry.names()))?;
        let limits = goal.limits.clone().unwrap_or_else(|| self.limits.clone());
        let setup = self.setup(&registry, agent_limits, &limits, mode, stored)?;
        Ok(RunSpec {
            goal: text,
            workspace,
            limits,
            mode,
            worktree: None,
            project: None,
            probes: Vec::new(),
            files: goal.files.clone(),
            reads_diff: true,
            workflow: goal.workflow.clone().map(Box::new),
            turn: goal.turn.clone().map(Box::new),
            services: goal.services.clone(),
            service_endpoints: endpoints_of(&setup.tools, &goal.own.service_endpoints).into(),
            setup,
        })
    }

    /// Reads the information about the project for the agents of a run with these tools (LEAD-4). `git` is the state of its repository, if
    /// it has one. Reads the disk.
    pub(crate) fn project(
        &self,
        instructions: ProjectInstructions,
        workspace: &str,
        tools: &[ToolSpec],
        git: Option<String>,
    ) -> Project {
        let is_configured = self.models.config.as_ref().is_none_or(Config::reads_instructions);
        let instructions = match instructions {
            ProjectInstructions::Configured if is_configured => read_instructions(Path::new(workspace)),
            ProjectInstructions::Configured | ProjectInstructions::NotRead => Instructions::default(),
        };
        Project {
            instructions,
            environment: Environment {
                git,
                ..self.environment.environment(workspace, tools)
            },
        }
    }

    /// Finds the setup of a run, or builds it.
    fn setup(
        &self,
        registry: &AgentRegistry,
        agent_limits: &GoalAgentLimits,
        limits: &RunLimits,
        mode: Mode,
        stored: &StoredSettings,
    ) -> Result<SharedSetup, DirigentError> {
        let key = SetupKey {
            mode,
            stored: stored.clone(),
            agents: registry.entries.clone(),
            limits: agent_limits.clone(),
            delegation: allows_delegation(limits),
            known_forms: self.models.forms.count(),
        };
        let mut setups = self.setups.lock().unwrap_or_else(PoisonError::into_inner);
        let (key, setup) = match setups.iter().position(|(known, _)| *known == key) {
            Some(index) => setups.remove(index),
            None => {
                let setup = self.build_setup(registry, agent_limits, limits, mode, stored)?;
                (key, setup.into())
            }
        };
        if setups.len() == MAX_CACHED_SETUPS {
            setups.remove(0);
        }
        setups.push((key, setup.clone()));
        Ok(setup)
    }

    fn build_setup(
        &self,
        registry: &AgentRegistry,
        agent_limits: &GoalAgentLimits,
        limits: &RunLimits,
        mode: Mode,
        stored: &StoredSettings,
    ) -> Result<RunSetup, DirigentError> {
        let settings_for = |agent: &AgentDefinition| {
            Ok(AgentSettings {
                model: self.models.resolve(agent)?,
                limits: self.models.resolve_limits(agent, agent_limits),
                base_prompt: stored.base_prompts.of(agent.name()),
            })
        };
        let tools = self.described_tools();
        let builder = SpecBuilder::new(&tools, registry, limits, &settings_for);
        let (lead, reflector) = builder.lead_and_reflector(self.lead(&tools, mode, self.calls_services()))?;
        let agents = apply_max_depth(builder.sub_agents()?, limits);
        Ok(RunSetup {
            lead,
            reflector,
            agents,
            tools,
            policy: with_rules(&self.policy, &stored.rules),
            approval_rules: stored.rules.len(),
        })
    }

    /// Returns the lead of a run with these tools. If one sub-agent does all the work, a lead that may act gets no tools except
    /// delegation.
    fn lead(&self, tools: &[ToolSpec], mode: Mode, calls_services: bool) -> AgentDefinition {
        let lead = lead(tools, mode);
        match (&self.only_agent, mode) {
            (None, _) => lead.with_service_calls(calls_services),
            (Some(_), Mode::Auto) => lead.with_delegation_only(),
            (Some(_), Mode::Plan | Mode::ApprovedPlan) => lead,
        }
    }

    /// Returns true if leads can call the tools of services by name (MCP-4).
    fn calls_services(&self) -> bool {
        !self.services.is_empty()
    }

    /// Returns the tools with the user's rules in their descriptions.
    fn described_tools(&self) -> Vec<ToolSpec> {
        let tools = self.tools.iter();
        let allowed = tools.filter(|tool| self.is_allowed(&tool.name));
        allowed.map(|tool| described(tool, &self.policy)).collect()
    }

    /// Builds the spec for replaying a recorded run. The models, the agents' limits, their call forms and base prompts, and the rules by
    /// which the user always allowed calls come from the recording. If the project's folder no longer exists, the project's agents come
    /// from the recording, too.
    pub(crate) fn spec_for_replay(
        &self,
        recorded: &RunSetup,
        goal: &Goal,
        text: String,
        workspace: String,
    ) -> Result<RunSpec, DirigentError> {
        let settings_for = |agent: &AgentDefinition| {
            let same_name = recorded.all_agents().find(|other| other.name == agent.name());
            Ok(match same_name {
                Some(other) => {
                    let model = AgentModel {
                        name: other.model.clone(),
                        asks: other.asks.clone(),
                        profile: other.profile,
                    };
                    AgentSettings {
                        model,
                        limits: other.limits.clone(),
                        base_prompt: other.base_prompt.clone(),
                    }
                }
                None => AgentSettings {
                    model: AgentModel::default(),
                    limits: self.models.resolve_limits(agent, &GoalAgentLimits::default()),
                    base_prompt: None,
                },
            })
        };
        let folder = Path::new(&workspace);
        let registry = self.registry_for(folder);
        let (limits, mode) = (
            goal.limits.clone().unwrap_or_else(|| self.limits.clone()),
            goal.mode,
        );
        let calls_services = recorded.lead.tools.iter().any(|tool| tool == CALL_TOOL);
        let tools = self.described_tools();
        let mut builder = SpecBuilder::new(&tools, &registry, &limits, &settings_for);
        let is_known = |name: &str| {
            registry
                .entries
                .iter()
                .any(|entry| entry.definition.name() == name)
        };
        let is_gone = |agent: &&AgentSpec| !is_known(&agent.name);
        let gone = recorded.agents.iter().filter(is_gone);
        let gone: Vec<AgentSpec> = gone.filter(|_| !folder.is_dir()).cloned().collect();
        builder.agent_stubs.extend(gone.iter().cloned());
        let mut agents = builder.sub_agents()?;
        agents.extend(gone);
        let (lead, reflector) = builder.lead_and_reflector(self.lead(&tools, mode, calls_services))?;
        let first = recorded
            .policy
            .rules
            .len()
            .saturating_sub(recorded.approval_rules);
        let allowed = &recorded.policy.rules[first..];
        let setup = RunSetup {
            lead,
            reflector,
            agents: apply_max_depth(agents, &limits),
            tools,
            policy: with_rules(&self.policy, allowed),
            approval_rules: allowed.len(),
        };
        Ok(RunSpec {
            setup: setup.into(),
            limits,
            goal: text,
            workspace,
            mode,
            worktree: None,
            // A replay takes this information from the recording.
            project: None,
            probes: Vec::new(),
            files: goal.files.clone(),
            reads_diff: true,
            workflow: goal.workflow.clone().map(Box::new),
            turn: goal.turn.clone().map(Box::new),
            services: goal.services.clone(),
            service_endpoints: goal.own.service_endpoints.clone(),
        })
    }
}

/// Returns the endpoints of the services that have any of these tools.
fn endpoints_of(tools: &[ToolSpec], endpoints: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let services = tools.iter().filter_map(|tool| service_of(&tool.name));
    services
        .filter_map(|service| {
            let (name, endpoint) = endpoints.get_key_value(service.as_str())?;
            Some((name.clone(), endpoint.clone()))
        })
        .collect()
}

/// Returns the tool with a description that mentions the rules about its calls.
pub(crate) fn described(tool: &ToolSpec, policy: &Policy) -> ToolSpec {
    match policy.restrictions(&tool.name) {
        None => tool.clone(),
        Some(restrictions) => ToolSpec {
            description: format!("{} {restrictions}", tool.description),
            ..tool.clone()
        },
    }
}

/// Returns the policy with these rules at its end.
fn with_rules(policy: &Policy, rules: &[Rule]) -> Policy {
    Policy {
        rules: policy.rules.iter().chain(rules).cloned().collect(),
    }
}

/// Returns true if a run with these limits allows delegation (PAOR-5).
fn allows_delegation(limits: &RunLimits) -> bool {
    limits.max_depth > 1
}

/// Removes `delegate` from the agents if the run does not allow delegation.
fn apply_max_depth(mut agents: Vec<AgentSpec>, limits: &RunLimits) -> Vec<AgentSpec> {
    for agent in &mut agents {
        if !allows_delegation(limits)
            && let Some(prompt) = agent.deepest_prompt.take()
        {
            agent.system_prompt = prompt;
            agent.tools.retain(|tool| tool != DELEGATE);
        }
    }
    agents
}

/// Builds the specs of agents.
struct SpecBuilder<'a> {
    tools: &'a [ToolSpec],
    entries: &'a [Arc<RegisteredAgent>],
    /// The parts of the agents' specs that other agents need in order to delegate to them.
    agent_stubs: Vec<AgentSpec>,
    settings_for: &'a dyn Fn(&AgentDefinition) -> Result<AgentSettings, DirigentError>,
}

impl<'a> SpecBuilder<'a> {
    fn new(
        tools: &'a [ToolSpec],
        registry: &'a AgentRegistry,
        limits: &RunLimits,
        settings_for: &'a dyn Fn(&AgentDefinition) -> Result<AgentSettings, DirigentError>,
    ) -> Self {
        let entries = &registry.entries;
        let mut agent_stubs: Vec<AgentSpec> = entries.iter().map(|entry| entry.definition.stub()).collect();
        if !allows_delegation(limits) {
            for stub in &mut agent_stubs {
                stub.tools.retain(|tool| tool != DELEGATE);
            }
        }
        SpecBuilder {
            tools,
            entries,
            agent_stubs,
            settings_for,
        }
    }

    /// Builds the specs of the sub-agents.
    fn sub_agents(&self) -> Result<Vec<AgentSpec>, DirigentError> {
        self.entries
            .iter()
            .map(|entry| self.build(&entry.definition))
            .collect()
    }

    /// Builds the specs of the lead and the reflector.
    fn lead_and_reflector(&self, lead: AgentDefinition) -> Result<(AgentSpec, AgentSpec), DirigentError> {
        let known = known_tools(self.tools, &[]);
        let one = |agent: AgentDefinition| self.build(&agent.without_inaccessible_tools(&known).0);
        Ok((one(lead)?, one(reflector(self.tools))?))
    }

    fn build(&self, agent: &AgentDefinition) -> Result<AgentSpec, DirigentError> {
        agent.spec(self.tools, &self.agent_stubs, (self.settings_for)(agent)?)
    }
}
