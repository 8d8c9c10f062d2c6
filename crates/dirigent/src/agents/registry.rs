//! The sub-agents from all sources, and the refused agent files.
//!
//! A project's files cannot widen what the user allows. They cannot replace an agent. Their agents' tools, access and limits cannot
//! exceed those of the shipped agents, the program's agents and the user's agents. They can choose only models that the configuration
//! names.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dirigent_core::agent_spec::DELEGATE;
use dirigent_core::limits::AgentLimits;
use dirigent_core::tool::Access;
use dirigent_mcp::service_of;

use super::bounds::{self, ProjectAgentBounds};
use super::definition::AgentDefinition;
use super::file::{self, Dialect, ParsedAgentFile};
use super::tool_selection::ToolSelection;
use crate::DirigentError;
use crate::config::{Config, ProjectAgents};
use crate::known_tools::KnownTools;
use crate::markdown;

/// Maximum number of agents that a project may define.
const MAX_PROJECT: usize = 50;
/// Maximum total size of a project's agent files, in bytes.
const MAX_PROJECT_BYTES: usize = 1024 * 1024;

/// The source of an agent's definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentSource {
    /// The definition ships with Dirigent.
    Shipped,
    /// The program that embeds Dirigent.
    Program,
    /// A file in the user's configuration folder.
    User(PathBuf),
    /// A file in the project.
    Project(PathBuf),
}

impl AgentSource {
    /// Returns the path of the user's or the project's file; `None` for other sources.
    pub fn file(&self) -> Option<&Path> {
        match self {
            AgentSource::Shipped | AgentSource::Program => None,
            AgentSource::User(path) | AgentSource::Project(path) => Some(path),
        }
    }
}

/// Display format: `shipped`, `program`, `yours, path/of/it.md`, `project, path/of/it.md`.
impl fmt::Display for AgentSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AgentSource::Shipped => f.write_str("shipped"),
            AgentSource::Program => f.write_str("program"),
            AgentSource::User(path) => write!(f, "yours, {}", path.display()),
            AgentSource::Project(path) => write!(f, "project, {}", path.display()),
        }
    }
}

/// The agents of a run, and the agent files that are refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Agents {
    /// The limits of the lead.
    pub lead: AgentLimits,
    /// The limits of the reflector.
    pub reflector: AgentLimits,
    /// The sub-agents that plans can use.
    pub agents: Vec<ListedAgent>,
    /// The agent files that were refused, with the reasons.
    pub refused: Vec<RefusedAgent>,
}

/// A sub-agent, for display.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedAgent {
    /// The name by which plans choose the agent.
    pub name: String,
    /// The source of its definition.
    pub source: AgentSource,
    /// The description for the lead: what the agent is good for.
    pub description: String,
    /// The tools that the agent may call.
    pub tools: Vec<String>,
    /// The access of the agent.
    pub access: Access,
    /// The reference of its model in the configuration; `None` without a configuration.
    pub model: Option<String>,
    /// The limits, unless a goal sets others.
    pub limits: AgentLimits,
    /// Notes about settings in the agent's file that Dirigent does not apply as written, and permissions that it does not grant.
    pub notes: Vec<String>,
}

/// An agent file that is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedAgent {
    /// The user's or the project's file.
    pub source: AgentSource,
    /// The line of the error, from 1; `None` if the error concerns the whole file.
    pub line: Option<usize>,
    /// The reason, and what to do.
    pub reason: String,
}

/// Display format: `the agent path/of/it.md:3 is refused: …`.
impl fmt::Display for RefusedAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the agent")?;
        if let Some(path) = self.source.file() {
            write!(f, " {}", path.display())?;
        }
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, " is refused: {}", self.reason)
    }
}

/// An agent's definition with its source.
#[derive(Debug, PartialEq)]
pub(crate) struct RegisteredAgent {
    pub(crate) definition: AgentDefinition,
    pub(crate) source: AgentSource,
    pub(crate) notes: Vec<String>,
}

/// All sub-agents, and the refused agent files.
#[derive(Clone, Debug)]
pub(crate) struct AgentRegistry {
    pub(crate) entries: Vec<Arc<RegisteredAgent>>,
    pub(crate) refused: Vec<RefusedAgent>,
    /// Names of shipped agents that the user tried to replace with a file that was refused. No agent may use these names.
    reserved_names: BTreeSet<String>,
}

impl AgentRegistry {
    /// Creates a registry of the shipped and the program's agents. An agent of the program replaces a shipped agent of the same name.
    /// Shipped agents lose tools that need more access than they have, which happens if the program replaced a built-in tool. All agents
    /// lose optional tools that do not exist.
    pub(crate) fn new(
        shipped: Vec<AgentDefinition>,
        program: &[AgentDefinition],
        known: &KnownTools,
    ) -> Self {
        let entry = |definition, source| RegisteredAgent {
            definition,
            source,
            notes: Vec::new(),
        };
        let without_inaccessible_tools = |agent: AgentDefinition| {
            let (definition, notes) = agent
                .without_missing_tools(known)
                .without_inaccessible_tools(known);
            RegisteredAgent {
                notes,
                ..entry(definition, AgentSource::Shipped)
            }
        };
        let replaced = |agent: &AgentDefinition| program.iter().any(|other| other.name() == agent.name());
        let shipped = shipped.into_iter().filter(|agent| !replaced(agent));
        let program = program.iter().cloned();
        let program = program.map(|agent| agent.without_missing_tools(known));
        AgentRegistry {
            entries: shipped
                .map(without_inaccessible_tools)
                .chain(program.map(|agent| entry(agent, AgentSource::Program)))
                .map(Arc::new)
                .collect(),
            refused: Vec::new(),
            reserved_names: BTreeSet::new(),
        }
    }

    /// Adds the agents of a goal, each of which replaces an agent of the same name. The other agents lose tools that need more access than they
    /// have, which happens if the goal replaces a tool.
    pub(crate) fn with_goal_agents(mut self, agents: &[AgentDefinition], known: &KnownTools) -> Self {
        self.entries
            .retain(|entry| agents.iter().all(|agent| agent.name() != entry.definition.name()));
        for entry in &mut self.entries {
            if entry.definition.first_tool_beyond_access(known).is_some() {
                let (definition, notes) = entry.definition.clone().without_inaccessible_tools(known);
                *entry = Arc::new(RegisteredAgent {
                    definition,
                    source: entry.source.clone(),
                    notes: [entry.notes.clone(), notes].concat(),
                });
            }
        }
        self.entries.extend(agents.iter().cloned().map(|definition| {
            Arc::new(RegisteredAgent {
                definition: definition.without_missing_tools(known),
                source: AgentSource::Program,
                notes: Vec::new(),
            })
        }));
        self
    }

    /// Removes all agents except the one with this name.
    pub(crate) fn with_agent_only(mut self, name: &str) -> Self {
        self.entries.retain(|entry| entry.definition.name() == name);
        self
    }

    /// Removes the tools that are not allowed from all agents.
    pub(crate) fn with_tools_only(mut self, is_allowed: &dyn Fn(&str) -> bool) -> Self {
        for entry in &mut self.entries {
            if entry.definition.tools.iter().all(|tool| is_allowed(tool)) {
                continue;
            }
            let mut definition = entry.definition.clone();
            definition.tools.retain(|tool| is_allowed(tool));
            *entry = Arc::new(RegisteredAgent {
                definition,
                source: entry.source.clone(),
                notes: entry.notes.clone(),
            });
        }
        self
    }

    /// Returns the names of all agents, and the reserved names.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        let entries = self.entries.iter().map(|entry| entry.definition.name());
        entries.chain(self.reserved_names.iter().map(String::as_str))
    }

    fn definitions(&self) -> impl Iterator<Item = &AgentDefinition> + Clone {
        self.entries.iter().map(|entry| &entry.definition)
    }

    /// Adds the agents of the user's files. Each replaces a shipped agent of the same name. Reads the disk.
    pub(crate) fn with_user_agents(mut self, config: &Config, known: &KnownTools) -> Self {
        let Some(folder) = config.agents_folder() else {
            return self;
        };
        for found in markdown::files(&folder, None) {
            let path = &found.path;
            let mut names = vec![file::default_name(path)];
            let source = AgentSource::User(path.clone());
            let read = found
                .read(None)
                .map_err(|problem| (None, problem))
                .and_then(|text| {
                    names.extend(file::claimed_names(&text));
                    let parsed = file::read(&text, path, Dialect::Dirigent, known)
                        .map_err(|error| (error.line, error.problem))?;
                    self.user_agent(parsed, config)
                });
            match read {
                Ok((definition, notes)) => {
                    self.entries
                        .retain(|entry| entry.definition.name() != definition.name());
                    self.entries.push(Arc::new(RegisteredAgent {
                        definition,
                        source,
                        notes,
                    }));
                }
                Err((line, reason)) => {
                    self.refuse(source, line, reason);
                    for name in names {
                        self.reserve_name(name);
                    }
                }
            }
        }
        self
    }

    /// Removes the shipped agent with this name, if there is one, and reserves the name.
    fn reserve_name(&mut self, name: String) {
        let is_shipped = |entry: &Arc<RegisteredAgent>| {
            entry.source == AgentSource::Shipped && entry.definition.name() == name
        };
        let before = self.entries.len();
        self.entries.retain(|entry| !is_shipped(entry));
        if self.entries.len() < before {
            self.reserved_names.insert(name);
        }
    }

    fn user_agent(
        &self,
        parsed: ParsedAgentFile,
        config: &Config,
    ) -> Result<(AgentDefinition, Vec<String>), (Option<usize>, String)> {
        if let Some(source) = self.source_if_not_shipped(&parsed.name) {
            let reason = format!(
                "an agent named `{}` already exists ({source}): rename the agent in this file",
                parsed.name
            );
            return Err((None, reason));
        }
        let model = match parsed.model {
            Some((model, line)) if config.uses_file_models() => {
                let usable = config.can_ask(&model);
                usable.map_err(|problem| (Some(line), format!("`model`: {problem}")))?;
                Some(model)
            }
            Some(_) | None => None,
        };
        let tools = match parsed.tools {
            ToolSelection::All => bounds::tools_within_access(self.definitions(), parsed.access)
                .into_iter()
                .filter(|tool| tool != DELEGATE && service_of(tool).is_none())
                .collect(),
            ToolSelection::Named(tools) => tools,
        };
        let definition = AgentDefinition::new(parsed.name, parsed.description, parsed.role)
            .tools(tools)
            .access(parsed.access)
            .limits(parsed.limits)
            .default_limits(parsed.default_limits);
        Ok((definition.with_model(model), parsed.notes))
    }

    fn source_if_not_shipped(&self, name: &str) -> Option<&AgentSource> {
        let entry = self
            .entries
            .iter()
            .find(|entry| entry.definition.name() == name)?;
        (entry.source != AgentSource::Shipped).then_some(&entry.source)
    }

    /// Adds the agents of the files of the project in `workspace`, within the user's bounds. Reads the disk.
    pub(crate) fn with_project_agents(
        mut self,
        workspace: &Path,
        config: &Config,
        known: &KnownTools,
    ) -> Self {
        let most = match config.project_agents() {
            ProjectAgents::Off => return self,
            ProjectAgents::ReadOnly => Access::ReadOnly,
            ProjectAgents::ReadWrite => Access::ReadWrite,
        };
        let bounds = ProjectAgentBounds::new(self.definitions(), most, config);
        let real = workspace.canonicalize().unwrap_or_else(|_| workspace.to_owned());
        let (mut admitted, mut bytes) = (0, 0);
        for (folder, dialect) in [(".dirigent", Dialect::Dirigent), (".claude", Dialect::ClaudeCode)] {
            for found in markdown::files(&workspace.join(folder).join("agents"), Some(&real)) {
                let source = AgentSource::Project(found.path.clone());
                if admitted == MAX_PROJECT {
                    self.refuse(
                        source,
                        None,
                        format!("a project is limited to {MAX_PROJECT} agents"),
                    );
                    continue;
                }
                if bytes > MAX_PROJECT_BYTES {
                    let most = MAX_PROJECT_BYTES / 1024;
                    self.refuse(
                        source,
                        None,
                        format!("a project's agent files are limited to {most} KiB in total"),
                    );
                    continue;
                }
                let read = found.read(Some(&real));
                bytes += read.as_ref().map_or(0, String::len);
                let read = read.map_err(|problem| (None, problem)).and_then(|text| {
                    file::read(&text, &found.path, dialect, known)
                        .map_err(|error| (error.line, error.problem))
                });
                let taken = |name: &str| self.names().any(|other| other == name);
                match read {
                    Ok(parsed) if taken(&parsed.name) => {
                        let of = self
                            .entries
                            .iter()
                            .find(|entry| entry.definition.name() == parsed.name);
                        let of = of.map_or("your agent file, which was refused".to_owned(), |entry| {
                            entry.source.to_string()
                        });
                        let reason = format!(
                            "the name `{}` is taken ({of}), and a project's file can't replace another agent: rename the agent in this file",
                            parsed.name
                        );
                        self.refuse(source, None, reason);
                    }
                    Ok(parsed) => {
                        admitted += 1;
                        let (definition, notes) = bounds.apply(parsed, config);
                        self.entries.push(Arc::new(RegisteredAgent {
                            definition,
                            source,
                            notes,
                        }));
                    }
                    Err((line, reason)) => self.refuse(source, line, reason),
                }
            }
        }
        self
    }

    fn refuse(&mut self, source: AgentSource, line: Option<usize>, reason: String) {
        self.refused.push(RefusedAgent { source, line, reason });
    }
}

/// Checks that no sub-agent of the program has a reserved name, and that each has the access that its tools need.
///
/// # Errors
/// [`DirigentError::Agent`].
pub(crate) fn check_program_agents(
    agents: &[AgentDefinition],
    known: &KnownTools,
) -> Result<(), DirigentError> {
    for agent in agents {
        if ["lead", "reflector"].contains(&agent.name()) {
            return Err(DirigentError::Agent {
                name: agent.name().to_owned(),
                reason: "this is the name of a built-in agent: give the sub-agent another name".to_owned(),
            });
        }
        if let Some((tool, needs)) = agent.first_tool_beyond_access(known) {
            return Err(DirigentError::Agent {
                name: agent.name().to_owned(),
                reason: format!(
                    "its tool `{tool}` needs {needs} access, but the agent does not have it: give the agent this access, or declare the \
                     tool with `.access(Access::ReadOnly)` if it changes nothing"
                ),
            });
        }
    }
    Ok(())
}
