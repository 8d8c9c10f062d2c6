//! Planning the replacement of a text: files in groups, each edited by an agent, side by side.

use dirigent_core::id::SubTaskId;

use super::{Draft, Planned, Planning, baseline, checked_by, confirmation, confirming, for_agent, has_begun};
use crate::offline::brief::Brief;
use crate::offline::no_work::NoWork;
use crate::offline::place::{counted, enumerated};
use crate::offline::scope::Scope;
use crate::offline::sub_agent::MATCHED_ANYWHERE;
use crate::offline::text::replace_outside;
use crate::offline::tools::{self, Pattern, Search, read_output};

/// Files for one agent: each is two of its turns.
const FILES_EACH: usize = 4;
/// Agents in one round; what is left is for the next.
const AGENTS: usize = 20;

/// Plans the replacement, or says why there is nothing to replace.
pub(super) fn plan(planning: &Planning<'_>, old: &str, new: &str, scope: &Scope) -> Planned {
    if old.is_empty() || old == new {
        return Ok(NoWork::NothingToDo("the text and its replacement are the same.".to_owned()).into());
    }
    let answer = planning
        .conversation
        .look(tools::search(Pattern::Text(old), scope))?;
    if !answer.success {
        let error = answer.error.unwrap_or_default();
        return Ok(NoWork::Impossible(format!("the files could not be searched: {error}")).into());
    }
    let mut found = read_output::<Search>(&answer.output).within(scope);
    found
        .matches
        .retain(|line| replace_outside(&line.text, old, new) != line.text);
    let verify = verification(old, new, scope);
    if found.matches.is_empty() && has_begun(planning) {
        let done = format!("\"{old}\" is replaced with \"{new}\"{scope}");
        return confirmation(planning, &done, &[], VERIFY.to_owned(), &verify);
    }
    if found.matches.is_empty() {
        return nothing_found(planning, old, new, scope);
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
        planning.checks(&sources)?
    };

    let mut subtasks: Vec<_> = baseline(planning, &checks).into_iter().collect();
    let before: Vec<SubTaskId> = subtasks.iter().map(|baseline| baseline.id.clone()).collect();
    let mut edits: Vec<SubTaskId> = Vec::new();
    for (number, group) in files.chunks(FILES_EACH).enumerate() {
        let id = format!("edit-{}", number + 1);
        let brief = Brief::ReplaceText {
            old: old.to_owned(),
            new: new.to_owned(),
            files: group.to_vec(),
        };
        let title = format!("Replace the text in {}", enumerated(group, 2));
        subtasks.push(for_agent(&id, title, before.clone(), "implement", &brief));
        edits.push(SubTaskId(id));
    }
    subtasks.extend(confirming(edits, &checks, VERIFY.to_owned(), &verify));

    let lines = counted(found.matches.len() as u64, "line", "lines");
    let at_least = if found.truncated { "at least " } else { "" };
    let this_round = if all_files > files.len() {
        format!(", the first {} of them in this round", files.len())
    } else {
        String::new()
    };
    let mut summary = format!(
        "Replace \"{old}\" with \"{new}\"{scope}: {at_least}{lines} in {at_least}{}{this_round}. {MATCHED_ANYWHERE}",
        counted(all_files as u64, "file", "files")
    );
    if !sources.is_empty() {
        summary.push(' ');
        summary.push_str(&checked_by(&checks));
    }
    Ok(Draft { summary, subtasks })
}

const VERIFY: &str = "Verify that the old text is gone";

fn verification(old: &str, new: &str, scope: &Scope) -> Brief {
    Brief::VerifyReplaced {
        old: old.to_owned(),
        new: new.to_owned(),
        scope: scope.clone(),
    }
}

fn nothing_found(planning: &Planning<'_>, old: &str, new: &str, scope: &Scope) -> Planned {
    let answer = planning
        .conversation
        .look(tools::search(Pattern::Text(new), scope))?;
    let there = read_output::<Search>(&answer.output).within(scope);
    Ok(match there.matches.first() {
        Some(first) if !new.is_empty() => {
            let why = format!(
                "\"{old}\" is nowhere left{scope}, and \"{new}\" is there already, first at {}.",
                first.place()
            );
            NoWork::NothingToDo(why).into()
        }
        Some(_) | None => {
            NoWork::Impossible(format!("\"{old}\" was not found{scope}. Nothing was changed.")).into()
        }
    })
}
