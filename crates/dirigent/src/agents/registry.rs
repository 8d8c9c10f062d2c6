//! Who can be given sub-tasks, source by source, and which files are refused.
//!
//! What a project's files define can't widen what the user allows: no name that there is, no tool, access or limit beyond those that
//! the shipped, the program's and the user's agents have together, no model but one that the configuration names.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

use dirigent_core::limits::AgentLimits;
use dirigent_core::spec::DELEGATE;
use dirigent_core::tool::Access;

use super::bounds::{self, ProjectAgentBounds};
use super::file::{self, Dialect, ParsedAgentFile};
use super::folder;
use super::tool_selection::ToolSelection;
use super::{AgentDefinition, KnownTools};
use crate::config::{Config, ProjectAgents};

/// Agents of one project.
const MAX_PROJECT: usize = 50;
/// Bytes of all its agents' files.
const MAX_PROJECT_BYTES: usize = 1024 * 1024;

/// Where an agent's definition comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentSource {
    /// It ships with Dirigent.
    Shipped,
    /// The program that embeds Dirigent defines it.
    Program,
    /// A file of the user's configuration folder.
    User(PathBuf),
    /// A file of the project.
    Project(PathBuf),
}

impl AgentSource {
    /// The file, where it is one of the user's or the project's.
    pub fn file(&self) -> Option<&Path> {
        match self {
            AgentSource::Shipped | AgentSource::Program => None,
            AgentSource::User(path) | AgentSource::Project(path) => Some(path),
        }
    }
}

/// For people: `shipped`, `program`, `yours, path/of/it.md`, `project, path/of/it.md`.
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

/// The sub-agents of a run, and the files that define none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Agents {
    /// The limits of the planner.
    pub planner: AgentLimits,
    /// The limits of the reflector.
    pub reflector: AgentLimits,
    /// Who can be given sub-tasks.
    pub agents: Vec<ListedAgent>,
    /// Which files are refused.
    pub refused: Vec<RefusedAgent>,
}

/// A sub-agent, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedAgent {
    /// Its name in plans.
    pub name: String,
    /// Where its definition comes from.
    pub source: AgentSource,
    /// What it is good for, for the planner.
    pub description: String,
    /// The tools it may call.
    pub tools: Vec<String>,
    /// What those tools may do.
    pub access: Access,
    /// The model it asks, by its name in the configuration; `None` for the only one that there is.
    pub model: Option<String>,
    /// Its limits, where a goal sets no others.
    pub limits: AgentLimits,
    /// What its file says that means something else here, or that it can't have.
    pub notes: Vec<String>,
}

/// A file that defines no agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedAgent {
    /// Which file.
    pub source: AgentSource,
    /// Where in it, from 1, if the fault has a place.
    pub line: Option<usize>,
    /// Why, and what to do.
    pub reason: String,
}

/// For people: `the agent path/of/it.md:3 is refused: …`.
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

/// An agent with where it comes from.
#[derive(Clone, Debug)]
pub(crate) struct RegisteredAgent {
    pub(crate) definition: AgentDefinition,
    pub(crate) source: AgentSource,
    pub(crate) notes: Vec<String>,
}

/// All sub-agents, and the files that are refused.
#[derive(Clone, Debug)]
pub(crate) struct AgentRegistry {
    pub(crate) entries: Vec<RegisteredAgent>,
    pub(crate) refused: Vec<RefusedAgent>,
    /// Names that only a refused file of the user's has: what it was to replace is not what the user wants, so nobody has them.
    reserved_names: BTreeSet<String>,
}

impl AgentRegistry {
    /// The shipped agents, without the tools that need more than they are allowed, as the program may have replaced a built-in one; and the
    /// program's, of which each replaces a shipped one of its name.
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
            let (definition, notes) = agent.without_inaccessible_tools(known);
            RegisteredAgent {
                notes,
                ..entry(definition, AgentSource::Shipped)
            }
        };
        let replaced = |agent: &AgentDefinition| program.iter().any(|other| other.name() == agent.name());
        let shipped = shipped.into_iter().filter(|agent| !replaced(agent));
        let program = program.iter().cloned();
        AgentRegistry {
            entries: shipped
                .map(without_inaccessible_tools)
                .chain(program.map(|agent| entry(agent, AgentSource::Program)))
                .collect(),
            refused: Vec::new(),
            reserved_names: BTreeSet::new(),
        }
    }

    /// The names that agents have or, but for a fault in a user's file, would have.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        let entries = self.entries.iter().map(|entry| entry.definition.name());
        entries.chain(self.reserved_names.iter().map(String::as_str))
    }

    /// With the user's own files, of which each replaces a shipped agent of its name. Reads the disk.
    pub(crate) fn with_user_agents(mut self, config: &Config, known: &KnownTools) -> Self {
        let Some(folder) = config.agents_folder() else {
            return self;
        };
        for found in folder::files(&folder, None) {
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
                    self.entries.push(RegisteredAgent {
                        definition,
                        source,
                        notes,
                    });
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

    /// A refused file of the user's leaves the name of a shipped agent to nobody.
    fn reserve_name(&mut self, name: String) {
        let is_shipped =
            |entry: &RegisteredAgent| entry.source == AgentSource::Shipped && entry.definition.name() == name;
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
                "there is an agent `{}` already ({source}): give it another name",
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
            ToolSelection::All => bounds::tools_within_access(&self.entries, parsed.access)
                .into_iter()
                .filter(|tool| tool != DELEGATE)
                .collect(),
            ToolSelection::Named(tools) => tools,
        };
        let definition = AgentDefinition::new(parsed.name, parsed.description, parsed.role)
            .tools(tools)
            .access(parsed.access)
            .limits(parsed.limits)
            .default_limits(parsed.default_limits);
        Ok((with_model(definition, model), parsed.notes))
    }

    fn source_if_not_shipped(&self, name: &str) -> Option<&AgentSource> {
        let entry = self
            .entries
            .iter()
            .find(|entry| entry.definition.name() == name)?;
        (entry.source != AgentSource::Shipped).then_some(&entry.source)
    }

    /// With the files of the project in that folder, as far as the user allows them anything. Reads the disk.
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
        let bounds = ProjectAgentBounds::new(&self.entries, most, config);
        let real = workspace.canonicalize().unwrap_or_else(|_| workspace.to_owned());
        let (mut admitted, mut bytes) = (0, 0);
        for (folder, dialect) in [(".dirigent", Dialect::Dirigent), (".claude", Dialect::ClaudeCode)] {
            for found in folder::files(&workspace.join(folder).join("agents"), Some(&real)) {
                let source = AgentSource::Project(found.path.clone());
                if admitted == MAX_PROJECT {
                    self.refuse(source, None, format!("a project can have {MAX_PROJECT} agents"));
                    continue;
                }
                if bytes > MAX_PROJECT_BYTES {
                    let most = MAX_PROJECT_BYTES / 1024;
                    self.refuse(
                        source,
                        None,
                        format!("a project's agents can have {most} KiB together"),
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
                        let of = of.map_or("a refused file of yours".to_owned(), |entry| {
                            entry.source.to_string()
                        });
                        let reason = format!(
                            "the name `{}` is taken ({of}), and a project's file can't replace anybody: give it another",
                            parsed.name
                        );
                        self.refuse(source, None, reason);
                    }
                    Ok(parsed) => {
                        admitted += 1;
                        let (definition, notes) = bounds.apply(parsed, config);
                        self.entries.push(RegisteredAgent {
                            definition,
                            source,
                            notes,
                        });
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

pub(super) fn with_model(definition: AgentDefinition, model: Option<String>) -> AgentDefinition {
    AgentDefinition { model, ..definition }
}
