//! Plans that create a project: its files, and then its test.

use super::subtasks::{Draft, DraftOrCall, PlanningContext, calls_subtask};
use crate::empty_plan::EmptyPlan;
use crate::goal::NewProject;
use crate::new_project;
use crate::outputs::ListOutput;
use crate::text::enumerated;
use crate::tools::{self, planned_call};

/// Number of folder levels of a project.
const DEPTH: u32 = 3;

/// Plans the creation of the files that the folder does not have yet, and the project's test. Plans nothing if the folder existed before
/// the run.
pub(super) fn plan(context: &PlanningContext<'_>, project: &NewProject) -> DraftOrCall {
    let listed = context
        .conversation
        .result_of(tools::list(&project.name, DEPTH))?;
    if listed.success && !context.has_begun() {
        let why = format!(
            "the folder `{}` exists already. Nothing was changed: choose another name.",
            project.name
        );
        return Ok(EmptyPlan::Impossible(why).into());
    }
    let existing = match listed.success {
        true => ListOutput::from(&listed).into_files(),
        false => Vec::new(),
    };
    let mut files = new_project::files(project);
    // The `list` tool omits hidden files.
    files.retain(|(path, _)| match path.contains("/.") {
        true => existing.is_empty(),
        false => !existing.contains(path),
    });
    let paths: Vec<String> = files.iter().map(|(path, _)| path.clone()).collect();
    let writes = files
        .iter()
        .map(|(path, content)| planned_call(tools::write(path, content)));
    let mut subtasks = Vec::new();
    if !paths.is_empty() {
        let title = format!("Write {}", enumerated(&paths, 4));
        subtasks.push(calls_subtask("edit-1", title, Vec::new(), writes.collect()));
    }
    let command = new_project::test_command(project);
    let title = format!("Run {} in {}", command.join(" "), project.name);
    let created = subtasks.iter().map(|edit| edit.id.clone()).collect();
    let check = tools::command_in(&project.name, &command);
    subtasks.push(calls_subtask("check", title, created, vec![check]));
    Ok(Draft {
        summary: format!(
            "Create a minimal {} project with a test in the new folder `{}`, and run the test by `{}`.",
            new_project::language_name(project),
            project.name,
            command.join(" ")
        ),
        subtasks,
    })
}
