//! Planning the replacement of a text: files in groups, each edited by an agent, in parallel.

use dirigent_core::id::SubTaskId;

use super::{
    Draft, DraftOrCall, PlanningContext, agent_subtask, baseline, checks_note, confirmation_plan,
    confirmation_subtasks, has_begun,
};
use crate::empty_plan::EmptyPlan;
use crate::location::{enumerated, pluralize};
use crate::scope::Scope;
use crate::sub_agent::MATCHED_ANYWHERE;
use crate::sub_agent_task::SubAgentTask;
use crate::text::replace_outside;
use crate::tools::{self, Pattern, SearchOutput, read_output};

/// Files for one agent: each is two of its turns.
const FILES_EACH: usize = 4;
/// Agents in one iteration; what is left is for the next.
const AGENTS: usize = 20;

/// Plans the replacement, or says why there is nothing to replace.
pub(crate) fn plan(context: &PlanningContext<'_>, old: &str, new: &str, scope: &Scope) -> DraftOrCall {
    if old.is_empty() || old == new {
        return Ok(EmptyPlan::NothingToDo("the text and its replacement are the same.".to_owned()).into());
    }
    let answer = context
        .conversation
        .result_of(tools::search(Pattern::Text(old), scope))?;
    if !answer.success {
        let error = answer.error.unwrap_or_default();
        return Ok(EmptyPlan::Impossible(format!("the files could not be searched: {error}")).into());
    }
    let mut found = read_output::<SearchOutput>(&answer.output).within(scope);
    found
        .matches
        .retain(|line| replace_outside(&line.text, old, new) != line.text);
    let verify = verification(old, new, scope);
    if found.matches.is_empty() && has_begun(context) {
        let done = format!("\"{old}\" is replaced with \"{new}\"{scope}");
        return confirmation_plan(context, &done, &[], VERIFY.to_owned(), &verify);
    }
    if found.matches.is_empty() {
        return nothing_found(context, old, new, scope);
    }
    let mut files = found.paths();
    let all_files = files.len();
    files.truncate(FILES_EACH * AGENTS);
    // A document can't break a build.
    let is_prose = |path: &String| {
        [".md", ".txt", ".rst", ".adoc"]
            .iter()
            .any(|ending| path.ends_with(ending))
    };
    let sources: Vec<String> = files.iter().filter(|path| !is_prose(path)).cloned().collect();
    let checks = if sources.is_empty() {
        Vec::new()
    } else {
        context.checks(&sources)?
    };

    let mut subtasks: Vec<_> = baseline(context, &checks).into_iter().collect();
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
    subtasks.extend(confirmation_subtasks(edits, &checks, VERIFY.to_owned(), &verify));

    let lines = pluralize(found.matches.len() as u64, "line", "lines");
    let at_least = if found.truncated { "at least " } else { "" };
    let this_iteration = if all_files > files.len() {
        format!(", the first {} of them in this iteration", files.len())
    } else {
        String::new()
    };
    let mut summary = format!(
        "Replace \"{old}\" with \"{new}\"{scope}: {at_least}{lines} in {at_least}{}{this_iteration}. {MATCHED_ANYWHERE}",
        pluralize(all_files as u64, "file", "files")
    );
    if !sources.is_empty() {
        summary.push(' ');
        summary.push_str(&checks_note(&checks));
    }
    Ok(Draft { summary, subtasks })
}

const VERIFY: &str = "Verify that the old text is gone";

fn verification(old: &str, new: &str, scope: &Scope) -> SubAgentTask {
    SubAgentTask::VerifyReplaced {
        old: old.to_owned(),
        new: new.to_owned(),
        scope: scope.clone(),
    }
}

fn nothing_found(context: &PlanningContext<'_>, old: &str, new: &str, scope: &Scope) -> DraftOrCall {
    let answer = context
        .conversation
        .result_of(tools::search(Pattern::Text(new), scope))?;
    let existing = read_output::<SearchOutput>(&answer.output).within(scope);
    Ok(match existing.matches.first() {
        Some(first) if !new.is_empty() => {
            let why = format!(
                "\"{old}\" is nowhere left{scope}, and \"{new}\" is there already, first at {}.",
                first.location()
            );
            EmptyPlan::NothingToDo(why).into()
        }
        Some(_) | None => {
            EmptyPlan::Impossible(format!("\"{old}\" was not found{scope}. Nothing was changed.")).into()
        }
    })
}
