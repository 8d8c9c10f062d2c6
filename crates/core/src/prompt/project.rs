//! The beginning of an agent's first message: information about the project and the run (LEAD-4).

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
