//! Plans that replace text. Agents edit groups of files in parallel.

use dirigent_core::id::SubTaskId;
use dirigent_core::plan::SubTask;

use super::subtasks::{
    Draft, DraftOrCall, PlanningContext, agent_subtask, checks_note, confirmation_subtasks,
};
use crate::empty_plan::EmptyPlan;
use crate::file_kinds::FileKind;
use crate::outputs::SearchOutput;
use crate::role_texts::MATCHED_ANYWHERE;
use crate::scope::Scope;
use crate::sub_agent_task::SubAgentTask;
use crate::text::{counted, enumerated, replace_outside};
use crate::tools::{self, Pattern};

/// Maximum number of files per agent. The agent needs two turns for each file.
const FILES_EACH: usize = 4;
/// Maximum number of agents per iteration. The next iteration edits the remaining files.
const AGENTS: usize = 20;

/// Plans the replacement, or returns an empty plan with the reason why there is nothing to replace.
pub(super) fn plan(context: &PlanningContext<'_>, old: &str, new: &str, scope: &Scope) -> DraftOrCall {
    if old.is_empty() || old == new {
        return Ok(EmptyPlan::NothingToDo("the text and its replacement are the same.".to_owned()).into());
    }
    let result = context
        .conversation
        .result_of(tools::search(Pattern::Text(old), scope))?;
    if !result.success {
        let error = result.error.unwrap_or_default();
        return Ok(EmptyPlan::Impossible(format!("the files could not be searched: {error}")).into());
    }
    let mut found = SearchOutput::from(&result).within(scope);
    found
        .matches
        .retain(|line| replace_outside(&line.text, old, new) != line.text);
    if found.matches.is_empty() && context.has_begun() {
        let done = format!("\"{old}\" is replaced with \"{new}\"{scope}");
        return context.confirmation_plan(&done, &[], verify_subtask(old, new, scope));
    }
    if found.matches.is_empty() {
        return nothing_found(context, old, new, scope);
    }
    let mut files = found.paths();
    let all_files = files.len();
    files.truncate(FILES_EACH * AGENTS);
    // Prose cannot break a build.
    let is_prose = |path: &String| FileKind::from_path(path) == Some(FileKind::Prose);
    let sources: Vec<String> = files.iter().filter(|path| !is_prose(path)).cloned().collect();
    let checks = if sources.is_empty() {
        Vec::new()
    } else {
        context.checks(&sources)?
    };

    let mut subtasks: Vec<_> = context.baseline(&checks).into_iter().collect();
    let before: Vec<SubTaskId> = subtasks.iter().map(|baseline| baseline.id.clone()).collect();
    let mut edits: Vec<SubTaskId> = Vec::new();
    for (number, group) in files.chunks(FILES_EACH).enumerate() {
        let id = format!("edit-{}", number + 1);
        let task = SubAgentTask::ReplaceText {
            old: old.to_owned(),
            new: new.to_owned(),
            files: group.to_vec(),
        };
        let title = format!("Replace the text in {}", enumerated(group, 2));
        subtasks.push(agent_subtask(&id, title, before.clone(), "implement", &task));
        edits.push(SubTaskId(id));
    }
    subtasks.extend(confirmation_subtasks(
        edits,
        &checks,
        verify_subtask(old, new, scope),
    ));

    let lines = counted(found.matches.len() as u64, "lines");
    let at_least = if found.truncated { "at least " } else { "" };
    let this_iteration = if all_files > files.len() {
        format!(", the first {} of them in this iteration", files.len())
    } else {
        String::new()
    };
    let mut summary = format!(
        "Replace \"{old}\" with \"{new}\"{scope}: {at_least}{lines} in {at_least}{}{this_iteration}. {MATCHED_ANYWHERE}",
        counted(all_files as u64, "files")
    );
    if !sources.is_empty() {
        summary.push(' ');
        summary.push_str(&checks_note(&checks));
    }
    Ok(Draft { summary, subtasks })
}

fn verify_subtask(old: &str, new: &str, scope: &Scope) -> SubTask {
    let task = SubAgentTask::VerifyReplaced {
        old: old.to_owned(),
        new: new.to_owned(),
        scope: scope.clone(),
    };
    let title = "Verify that the old text is gone".to_owned();
    agent_subtask("verify", title, Vec::new(), "verify", &task)
}

fn nothing_found(context: &PlanningContext<'_>, old: &str, new: &str, scope: &Scope) -> DraftOrCall {
    let result = context
        .conversation
        .result_of(tools::search(Pattern::Text(new), scope))?;
    let existing = SearchOutput::from(&result).within(scope);
    Ok(match existing.matches.first() {
        Some(first) if !new.is_empty() => EmptyPlan::NothingToDo(format!(
            "\"{old}\" does not occur{scope}, but \"{new}\" does, first at {}.",
            first.location()
        )),
        Some(_) | None => {
            EmptyPlan::Impossible(format!("\"{old}\" was not found{scope}. Nothing was changed."))
        }
    }
    .into())
}
