//! Plans of renames (PAOR-2): find usages, edit files in parallel, check the project, and verify that no usage is left.

use dirigent_core::id::SubTaskId;
use dirigent_core::observation::ObservationStatus;

use super::repair::{self, verify_subtask};
use super::subtasks::{
    Draft, DraftOrCall, PlanningContext, agent_subtask, calls_subtask, checks_note, confirmation_subtasks,
    split_evenly,
};
use crate::conversation::Call;
use crate::empty_plan::EmptyPlan;
use crate::file_kinds::FileKind;
use crate::goal::{Rename, is_identifier};
use crate::outputs::{MatchedLine, RenameOutput};
use crate::prompt_sections::{find_ended, interrupted_call};
use crate::requirements::{ClashPolicy, UserDecision};
use crate::role_texts::BY_NAME;
use crate::scope::Scope;
use crate::sub_agent_task::SubAgentTask;
use crate::text::{counted, enumerated, shortened};
use crate::tools;

/// Maximum number of groups of files, which are edited in parallel.
const GROUPS: usize = 4;

/// Plans the rename, or returns an empty plan with the reason why there is nothing to do.
pub(super) fn plan(context: &PlanningContext<'_>, goal: &Rename) -> DraftOrCall {
    let Rename { from, to, .. } = goal;
    let empty = match context.requirements.decision {
        UserDecision::Stop => Some(EmptyPlan::Impossible(format!(
            "you decided not to rename `{from}`. Nothing was changed."
        ))),
        UserDecision::NameNeeded => Some(EmptyPlan::NeedsUser(format!("the new name of `{from}`."))),
        UserDecision::Continue if !is_identifier(to) => Some(EmptyPlan::Impossible(format!(
            "`{to}` is not a valid name: a name consists of letters, digits and `_`, and does not begin with a digit."
        ))),
        UserDecision::Continue if from == to => {
            Some(EmptyPlan::NothingToDo(format!("`{from}` has that name already.")))
        }
        UserDecision::Continue => None,
    };
    if let Some(empty) = empty {
        return Ok(empty.into());
    }
    let observations = context.sections.observations();
    match find_ended(&observations, "check", ObservationStatus::Failed) {
        Some(check) if interrupted_call(check).is_none() => repair::plan(context, goal, check),
        Some(_) | None => plan_edits(context, goal),
    }
}

fn plan_edits(context: &PlanningContext<'_>, goal: &Rename) -> DraftOrCall {
    let Rename { from, to, scope } = goal;
    let found = match find_rename_target(context, goal)? {
        RenameTarget::Usages(found) => found,
        RenameTarget::AlreadyRenamed { usages, .. } if context.has_begun() => {
            let done = format!("`{from}` is renamed to `{to}`{scope}");
            return context.confirmation_plan(&done, &usages.paths(), verify_subtask(goal));
        }
        RenameTarget::AlreadyRenamed { usages, similar } => {
            return Ok(old_name_missing(goal, &usages, &similar).into());
        }
        RenameTarget::NotRenamable(why) => return Ok(why.into()),
    };
    let paths = found.paths();
    let checks = context.checks(&paths)?;
    if checks.is_empty()
        && !may_clash(context)
        && let Some(why) = untested_member(&found, from)
    {
        return Ok(EmptyPlan::NeedsUser(why).into());
    }

    let task = SubAgentTask::FindUsages {
        symbol: from.clone(),
        scope: scope.clone(),
    };
    let title = format!("Find every usage of {from}");
    let mut subtasks = vec![agent_subtask("explore", title, Vec::new(), "explore", &task)];
    subtasks.extend(context.baseline(&checks));
    let before: Vec<SubTaskId> = subtasks.iter().map(|subtask| subtask.id.clone()).collect();
    let mut edits: Vec<SubTaskId> = Vec::new();
    for (number, files) in groups(&found, &paths, scope).iter().enumerate() {
        let id = format!("edit-{}", number + 1);
        let title = match files.len() {
            0 => format!("Rename {from} to {to}"),
            _ => format!("Rename {from} to {to} in {}", enumerated(files, 2)),
        };
        let calls = vec![tools::rename(from, to, files)];
        subtasks.push(calls_subtask(&id, title, before.clone(), calls));
        edits.push(SubTaskId(id));
    }
    subtasks.extend(confirmation_subtasks(edits, &checks, verify_subtask(goal)));
    let mut summary = format!(
        "Rename `{from}` to `{to}`{scope}: {} in {}. {}",
        counted(found.occurrences, "usages"),
        counted(found.file_count, "files"),
        checks_note(&checks)
    );
    if is_ambiguous(&found) {
        summary.push_str(&format!(" {BY_NAME}"));
    }
    Ok(Draft { summary, subtasks })
}

/// Returns true if several symbols may have the name: it has several definitions, or is used as a member.
fn is_ambiguous(found: &RenameOutput) -> bool {
    found.usages().filter(|(_, usage)| usage.definition).count() > 1 || !found.members.is_empty()
}

/// Returns the reason for asking the user, if the name is used as a property, a keyword argument or an object key in a language without a
/// compiler: the usage may belong to another symbol, and nothing would detect a wrong rename.
fn untested_member(found: &RenameOutput, from: &str) -> Option<String> {
    let is_compiled = |path: &str| FileKind::from_path(path).is_some_and(FileKind::is_compiled);
    let member = found.members.iter().find(|member| !is_compiled(&member.path))?;
    Some(format!(
        "`{from}` is used as a property, a keyword or a key, first at {}, where it may belong to something else, and nothing here can \
         test the result.",
        quoted(member)
    ))
}

/// Returns the files of each edit. If the list of files is truncated, a single edit covers the whole scope.
fn groups(found: &RenameOutput, paths: &[String], scope: &Scope) -> Vec<Vec<String>> {
    if found.file_count > paths.len() as u64 {
        return vec![scope.only.clone()];
    }
    split_evenly(paths, GROUPS)
}

/// Returns true if the plan may rename although the new name is already in use: the user allows it, or an earlier iteration may have
/// introduced the new name.
fn may_clash(context: &PlanningContext<'_>) -> bool {
    match context.requirements.clash {
        ClashPolicy::Allow => true,
        ClashPolicy::Refuse => context.has_begun(),
    }
}

/// Result of the preview of a rename.
enum RenameTarget {
    Usages(RenameOutput),
    /// There are usages of the new name, but no usages of the old name.
    AlreadyRenamed {
        usages: RenameOutput,
        /// Names similar to the old name.
        similar: Vec<String>,
    },
    NotRenamable(EmptyPlan),
}

/// Previews the rename. `Err` is a call to make first.
fn find_rename_target(context: &PlanningContext<'_>, goal: &Rename) -> Result<RenameTarget, Call> {
    let Rename { from, to, scope } = goal;
    let conversation = context.conversation;
    let unchanged = if context.has_begun() {
        ""
    } else {
        " Nothing was changed."
    };
    let impossible = |why: String| {
        Ok(RenameTarget::NotRenamable(EmptyPlan::Impossible(format!(
            "{why}{unchanged}"
        ))))
    };
    let result = conversation.result_of(tools::preview(from, Some(to), scope))?;
    let found = RenameOutput::from(&result).within(scope);
    if !result.success {
        let error = result
            .error
            .unwrap_or_else(|| "`rename_symbol` gave no reason".to_owned());
        return impossible(if found.occurrences > 0 {
            format!("`{from}` can't be renamed to `{to}`: {error}.")
        } else {
            format!("`{from}` could not be searched for{scope}: {error}.")
        });
    }
    // Check this only before the rename has begun: afterwards the definition may already have the new name, and the remaining usages look
    // like usages of a library.
    if let Some(first) = found.foreign.first().filter(|_| !context.has_begun()) {
        let why = if found.is_undefined {
            format!(", and nothing{scope} defines it")
        } else {
            String::new()
        };
        return impossible(format!(
            "`{from}` seems to belong to something outside of this workspace, first at {}{why}. A rename here would break it.{}",
            quoted(first),
            did_you_mean(&found.similar, to)
        ));
    }
    if let Some(first) = found.modules.first() {
        return impossible(format!(
            "`{from}` is also the name of a module, imported at {}. A rename matches names only: it cannot distinguish \
             the two, and it does not rename files.",
            quoted(first)
        ));
    }
    if found.occurrences > 0 && (found.clashes.is_empty() || may_clash(context)) {
        return Ok(RenameTarget::Usages(found));
    }
    if found.occurrences > 0 {
        let locations: Vec<String> = found.clashes.iter().map(quoted).collect();
        return Ok(RenameTarget::NotRenamable(EmptyPlan::NeedsUser(format!(
            "`{to}` is already in use, at {}, and could not be distinguished from the renamed `{from}`.",
            enumerated(&locations, 3)
        ))));
    }
    let new_name = conversation.result_of(tools::preview(to, None, scope))?;
    let usages = RenameOutput::from(&new_name).within(scope);
    if usages.occurrences > 0 {
        let similar = found.similar;
        return Ok(RenameTarget::AlreadyRenamed { usages, similar });
    }
    let mentions = match found.mentions.first() {
        Some(first) => format!(
            " It is mentioned in text only, first at {}.",
            first.line.location()
        ),
        None => String::new(),
    };
    impossible(format!(
        "there is no function or other symbol `{from}`{scope}.{}{mentions}",
        did_you_mean(&found.similar, to)
    ))
}

/// Formats the location of a line with its text, if known: "src/a.rs:3 (`use b;`)".
fn quoted(line: &MatchedLine) -> String {
    match line.text.trim() {
        "" => line.location().to_string(),
        text => format!("{} (`{}`)", line.location(), shortened(text, 120)),
    }
}

/// Declines a goal whose old name does not exist, although the new name does: either the rename was done before, or the old name is wrong.
fn old_name_missing(goal: &Rename, new_name: &RenameOutput, similar: &[String]) -> EmptyPlan {
    let Rename { from, to, scope } = goal;
    EmptyPlan::Impossible(format!(
        "there is no function or other symbol `{from}`{scope}.{} `{to}` exists, {} in {}: if `{from}` was renamed before, nothing is left \
         to do. Nothing was changed.",
        did_you_mean(similar, to),
        counted(new_name.occurrences, "times"),
        enumerated(&new_name.paths(), 5),
    ))
}

/// Returns " Did you mean …?" with up to three similar names, without the new name `to`; empty if there are none.
fn did_you_mean(similar: &[String], to: &str) -> String {
    let similar: Vec<String> = similar
        .iter()
        .filter(|name| *name != to)
        .take(3)
        .map(|name| format!("`{name}`"))
        .collect();
    match similar.as_slice() {
        [] => String::new(),
        names => format!(" Did you mean {}?", names.join(" or ")),
    }
}
