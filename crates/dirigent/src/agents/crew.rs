//! What every run is started with: the planner, the reflector, the sub-agents with their models and prompts, the tools, the limits and
//! the policy.

use std::path::Path;

use dirigent_core::delegate::DELEGATE;
use dirigent_core::limits::{AgentLimits, RunLimits};
use dirigent_core::policy::Policy;
use dirigent_core::spec::{AgentSpec, AnswerForm, ModelProfile, RunSpec};
use dirigent_core::tool::ToolSpec;

use super::limits::{GoalAgentLimits, limits_of};
use super::roster::Member;
use super::{AgentDefinition, Agents, ListedAgent, Roster, known_tools, planner, reflector};
use crate::DirigentError;
use crate::config::Config;

/// Which model each agent asks.
#[derive(Clone)]
pub(crate) struct Models {
    pub(crate) config: Option<Config>,
    /// What is known of the only model, where there is no configuration.
    pub(crate) profile: ModelProfile,
}

/// The model that an agent asks.
#[derive(Default)]
struct AgentModel {
    name: Option<String>,
    /// What the name stands for.
    asks: Option<String>,
    profile: ModelProfile,
}

/// What decides about an agent beside its definition.
type AgentSettings = (AgentModel, AgentLimits);

impl Models {
    /// The name of the model that an agent asks.
    pub(crate) fn name_of(&self, agent: &AgentDefinition) -> Option<String> {
        let Some(config) = &self.config else {
            return agent.own_model().map(str::to_owned);
        };
        let of_all = match agent.answer() {
            AnswerForm::Text => config.role("agents"),
            AnswerForm::Plan | AnswerForm::Reflection => None,
        };
        let model = config
            .role(agent.name())
            .or(agent.own_model())
            .or(of_all)
            .unwrap_or(config.default_model());
        Some(model.to_owned())
    }

    /// The model that an agent asks, and what is known of it.
    fn of(&self, agent: &AgentDefinition) -> Result<AgentModel, DirigentError> {
        let name = self.name_of(agent);
        let (Some(config), Some(model)) = (&self.config, &name) else {
            return Ok(AgentModel {
                name,
                profile: self.profile,
                ..AgentModel::default()
            });
        };
        Ok(AgentModel {
            asks: Some(config.model(model)?.to_string()),
            profile: config.profile(model)?,
            name,
        })
    }

    fn limits_of(&self, agent: &AgentDefinition, goal: &GoalAgentLimits) -> AgentLimits {
        limits_of(agent, self.config.as_ref(), goal)
    }

    /// Looks whether there are the models that the agents ask.
    pub(crate) fn check(&self, roster: &Roster) -> Result<(), DirigentError> {
        roster
            .members
            .iter()
            .try_for_each(|member| self.of(&member.definition).map(drop))
    }

    /// The sub-agents, for people.
    pub(crate) fn listed(&self, roster: Roster) -> Agents {
        let limits_of = |agent: &AgentDefinition| self.limits_of(agent, &GoalAgentLimits::default());
        let agents = roster.members.into_iter().map(|member| ListedAgent {
            model: self.name_of(&member.definition),
            limits: limits_of(&member.definition),
            name: member.definition.name,
            source: member.source,
            description: member.definition.description,
            tools: member.definition.tools,
            access: member.definition.access,
            notes: member.notes,
        });
        Agents {
            planner: limits_of(&planner()),
            reflector: limits_of(&reflector()),
            agents: agents.collect(),
            refused: roster.refused,
        }
    }
}

/// What every run is started with.
pub(crate) struct Crew {
    models: Models,
    /// Those of every run; a project may add its own.
    roster: Roster,
    tools: Vec<ToolSpec>,
    limits: RunLimits,
    policy: Policy,
    /// The planner, the reflector and the sub-agents of a run whose goal and project add nothing.
    agents: Vec<AgentSpec>,
}

impl Crew {
    /// Those sub-agents, the planner and the reflector, each prompted as suits its model.
    pub(crate) fn new(
        models: Models,
        roster: Roster,
        tools: Vec<ToolSpec>,
        policy: Policy,
    ) -> Result<Self, DirigentError> {
        let limits = models.config.as_ref().map(Config::limits).unwrap_or_default();
        let goal = GoalAgentLimits::default();
        let settings_of = |agent: &AgentDefinition| Ok((models.of(agent)?, models.limits_of(agent, &goal)));
        let maker = Maker::new(&tools, &roster, &settings_of);
        let (planner, reflector) = maker.those_of_every_run()?;
        let agents = [planner, reflector].into_iter().chain(maker.all()?).collect();
        Ok(Crew {
            agents,
            models,
            roster,
            tools,
            limits,
            policy,
        })
    }

    /// The planner, the reflector and the sub-agents.
    pub(crate) fn all(&self) -> impl Iterator<Item = &AgentSpec> {
        self.agents.iter()
    }

    /// Those of a run in that folder. Reads the disk.
    fn roster_in(&self, workspace: &Path) -> Roster {
        let roster = self.roster.clone();
        match &self.models.config {
            Some(config) => roster.with_project(workspace, config, &known_tools(&self.tools)),
            None => roster,
        }
    }

    /// The sub-agents of a run in that folder, for people. Reads the disk.
    pub(crate) fn listed(&self, workspace: Option<&Path>) -> Agents {
        let roster = workspace.map_or_else(|| self.roster.clone(), |folder| self.roster_in(folder));
        self.models.listed(roster)
    }

    /// What a run in that folder is started with, its project's agents included. Reads the disk.
    pub(crate) fn spec(
        &self,
        goal: String,
        workspace: String,
        limits: Option<RunLimits>,
        agent_limits: &GoalAgentLimits,
    ) -> Result<RunSpec, DirigentError> {
        let roster = self.roster_in(Path::new(&workspace));
        agent_limits.check(["planner", "reflector"].into_iter().chain(roster.names()))?;
        let settings_of = |agent: &AgentDefinition| {
            Ok((self.models.of(agent)?, self.models.limits_of(agent, agent_limits)))
        };
        let maker = Maker::new(&self.tools, &roster, &settings_of);
        let (planner, reflector) = maker.those_of_every_run()?;
        let limits = limits.unwrap_or_else(|| self.limits.clone());
        Ok(RunSpec {
            goal,
            workspace,
            planner,
            reflector,
            agents: within_depth(maker.all()?, &limits),
            tools: self.tools.clone(),
            policy: self.policy.clone(),
            limits,
        })
    }

    /// The same with the models and the agents' limits of a recorded run: what they were is part of the recording, as is how they were prompted to
    /// call tools. So are its project's agents where the project is no longer there.
    pub(crate) fn spec_as_recorded(
        &self,
        recorded: &RunSpec,
        goal: String,
        workspace: String,
        limits: Option<RunLimits>,
    ) -> Result<RunSpec, DirigentError> {
        let of_then: Vec<&AgentSpec> = [&recorded.planner, &recorded.reflector]
            .into_iter()
            .chain(&recorded.agents)
            .collect();
        let settings_of = |agent: &AgentDefinition| {
            let of_that_name = of_then.iter().find(|other| other.name == agent.name());
            Ok(match of_that_name {
                Some(other) => {
                    let model = AgentModel {
                        name: other.model.clone(),
                        asks: other.asks.clone(),
                        profile: other.profile,
                    };
                    (model, other.limits.clone())
                }
                None => {
                    let limits = self.models.limits_of(agent, &GoalAgentLimits::default());
                    (AgentModel::default(), limits)
                }
            })
        };
        let folder = Path::new(&workspace);
        let roster = self.roster_in(folder);
        let maker = Maker::new(&self.tools, &roster, &settings_of);
        let mut agents = maker.all()?;
        if !folder.is_dir() {
            let is_gone = |agent: &&AgentSpec| !agents.iter().any(|other| other.name == agent.name);
            let gone: Vec<AgentSpec> = recorded.agents.iter().filter(is_gone).cloned().collect();
            agents.extend(gone);
        }
        let (planner, reflector) = maker.those_of_every_run()?;
        let limits = limits.unwrap_or_else(|| self.limits.clone());
        Ok(RunSpec {
            planner,
            reflector,
            agents: within_depth(agents, &limits),
            limits,
            tools: self.tools.clone(),
            policy: self.policy.clone(),
            goal,
            workspace,
        })
    }
}

/// The agents without the tool to delegate, where no agent of the run may (PAOR-5).
fn within_depth(mut agents: Vec<AgentSpec>, limits: &RunLimits) -> Vec<AgentSpec> {
    for agent in &mut agents {
        if limits.max_depth <= 1
            && let Some(prompt) = agent.deepest_prompt.take()
        {
            agent.system_prompt = prompt;
            agent.tools.retain(|tool| tool != DELEGATE);
        }
    }
    agents
}

/// Makes what runs have of agents.
struct Maker<'a> {
    tools: &'a [ToolSpec],
    members: &'a [Member],
    /// What agents that may delegate are told of the others.
    outlines: Vec<AgentSpec>,
    settings_of: &'a dyn Fn(&AgentDefinition) -> Result<AgentSettings, DirigentError>,
}

impl<'a> Maker<'a> {
    fn new(
        tools: &'a [ToolSpec],
        roster: &'a Roster,
        settings_of: &'a dyn Fn(&AgentDefinition) -> Result<AgentSettings, DirigentError>,
    ) -> Self {
        let members = &roster.members;
        Maker {
            tools,
            members,
            outlines: members.iter().map(|member| member.definition.outline()).collect(),
            settings_of,
        }
    }

    /// The sub-agents.
    fn all(&self) -> Result<Vec<AgentSpec>, DirigentError> {
        self.members
            .iter()
            .map(|member| self.one(&member.definition))
            .collect()
    }

    /// The planner and the reflector.
    fn those_of_every_run(&self) -> Result<(AgentSpec, AgentSpec), DirigentError> {
        let known = known_tools(self.tools);
        let one = |agent: AgentDefinition| self.one(&agent.fitted(&known).0);
        Ok((one(planner())?, one(reflector())?))
    }

    fn one(&self, agent: &AgentDefinition) -> Result<AgentSpec, DirigentError> {
        let (model, limits) = (self.settings_of)(agent)?;
        let spec = agent.spec(self.tools, &self.outlines, model.name, model.profile, limits)?;
        Ok(AgentSpec {
            asks: model.asks,
            ..spec
        })
    }
}
