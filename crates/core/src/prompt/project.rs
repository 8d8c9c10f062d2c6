//! The beginning of an agent's first message: information about the project and the run (LEAD-4).

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::json;

use super::render;
use crate::project::Project;
use crate::text::one_line;

/// Renders the information about the project for the lead and every sub-agent of a run.
pub fn project(project: &Project) -> String {
    let files = &project.instructions.files;
    let files = files
        .iter()
        .map(|file| json!({"path": one_line(&file.path), "text": file.text.trim_end()}));
    let environment = &project.environment;
    let databases = environment.databases.iter().map(|database| {
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
                "commands": environment.commands.as_deref().map(one_line),
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

/// A [`Project`] that all agents of a run share. Clones are cheap, and its prompt is rendered once.
#[derive(Clone)]
pub struct SharedProject(Arc<Shared>);

struct Shared {
    project: Project,
    prompt: OnceLock<Arc<str>>,
}

impl SharedProject {
    /// Returns the text that the lead and every sub-agent receive first. Ends with a line break.
    pub(crate) fn prompt(&self) -> &Arc<str> {
        let render = || (project(&self.0.project) + "\n").into();
        self.0.prompt.get_or_init(render)
    }
}

impl From<Project> for SharedProject {
    fn from(project: Project) -> Self {
        let prompt = OnceLock::new();
        SharedProject(Arc::new(Shared { project, prompt }))
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
