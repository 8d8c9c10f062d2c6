//! The beginning of an agent's first message: information about the project and the run (LEAD-4).

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::json;

use super::render;
use crate::project::Project;
use crate::text::one_line;

/// The parts of the environment that depend on an agent's tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UsableEnvironment {
    /// Whether the agent needs to know what commands may access.
    pub(crate) commands: bool,
    /// Whether the agent needs to know the databases.
    pub(crate) databases: bool,
}

impl UsableEnvironment {
    /// Everything, as for the lead, which plans the calls and tasks of all agents.
    pub(crate) const ALL: UsableEnvironment = UsableEnvironment {
        commands: true,
        databases: true,
    };
}

/// Renders all information about the project.
pub fn project(project: &Project) -> String {
    project_for(project, UsableEnvironment::ALL)
}

fn project_for(project: &Project, usable: UsableEnvironment) -> String {
    let files = &project.instructions.files;
    let files = files
        .iter()
        .map(|file| json!({"path": one_line(&file.path), "text": file.text.trim_end()}));
    let environment = &project.environment;
    let commands = environment.commands.as_deref().filter(|_| usable.commands);
    let databases = environment.databases.iter().filter(|_| usable.databases);
    let databases = databases.map(|database| {
        let (kind, access) = (&database.kind, database.access);
        one_line(&format!("{} ({kind}, {access})", database.name))
    });
    let entries = environment.entries.iter();
    render(
        "project",
        json!({
            "instructions": files.collect::<Vec<_>>(),
            "environment": {
                "workspace": one_line(&environment.workspace),
                "system": environment.system,
                "date": environment.date,
                "git": environment.git.as_deref().map(one_line),
                "entries": entries.map(|entry| one_line(entry)).collect::<Vec<_>>(),
                "entries_left_out": environment.entries_left_out,
                "commands": commands.map(one_line),
                "databases": databases.collect::<Vec<_>>(),
            },
        }),
    )
}

/// Splits the text rendered by [`project`] into the project's instructions and the environment at its end.
pub(crate) fn split_environment(project: &str) -> (&str, &str) {
    project.split_at(project.rfind("<ENVIRONMENT>").unwrap_or(0))
}

/// Renders the information about the run's goal for a sub-agent.
pub fn run_goal(goal: &str) -> String {
    render("run_goal", json!({"goal": goal}))
}

/// A [`Project`] that all agents of a run share. Clones are cheap, and each of its prompts is rendered once.
#[derive(Clone)]
pub struct SharedProject(Arc<Shared>);

struct Shared {
    project: Project,
    prompts: [OnceLock<Arc<str>>; 4],
}

impl SharedProject {
    /// Returns the text that an agent with this environment receives first. Ends with a line break.
    pub(crate) fn prompt(&self, usable: UsableEnvironment) -> &Arc<str> {
        let UsableEnvironment { commands, databases } = usable;
        let [neither, only_commands, only_databases, both] = &self.0.prompts;
        let prompt = match (commands, databases) {
            (false, false) => neither,
            (true, false) => only_commands,
            (false, true) => only_databases,
            (true, true) => both,
        };
        prompt.get_or_init(|| (project_for(&self.0.project, usable) + "\n").into())
    }
}

impl From<Project> for SharedProject {
    fn from(project: Project) -> Self {
        let prompts = Default::default();
        SharedProject(Arc::new(Shared { project, prompts }))
    }
}

impl Deref for SharedProject {
    type Target = Project;

    fn deref(&self) -> &Project {
        &self.0.project
    }
}

impl PartialEq for SharedProject {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.project == other.0.project
    }
}

impl std::fmt::Debug for SharedProject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.project.fmt(f)
    }
}

impl Serialize for SharedProject {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.project.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for SharedProject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Project::deserialize(deserializer).map(SharedProject::from)
    }
}
