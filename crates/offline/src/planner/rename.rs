//! Planning a rename (PAOR-2): look, then edit files in parallel, check, and verify that no usage is left.

use dirigent_core::id::SubTaskId;

use super::{
    Draft, DraftOrCall, NO_CHECKS, PlanningContext, agent_subtask, baseline, calls_subtask, checks_note,
    confirmation_plan, confirmation_subtasks, has_begun, ids, repair, split_evenly,
};
use crate::conversation::Call;
use crate::empty_plan::EmptyPlan;
use crate::goal::{Rename, is_identifier};
use crate::location::{enumerated, pluralize, shortened};
use crate::prompt_sections::{Status, find_observation};
use crate::requirements::UserDecision;
use crate::scope::Scope;
use crate::sub_agent_task::SubAgentTask;
use crate::tools::{self, ClashPolicy, MatchedLine, RenameOutput, read_output};

/// Groups of files that are edited in parallel.
const GROUPS: usize = 4;

/// Plans the rename, or says why there is nothing to plan.
pub(crate) fn plan(context: &PlanningContext<'_>, goal: &Rename) -> DraftOrCall {
    let Rename { from, to, .. } = goal;
    match context.requirements.decision {
        UserDecision::Continue => {}
        UserDecision::Stop => {
            return Ok(EmptyPlan::Impossible(format!(
                "you decided not to rename `{from}`. Nothing was changed."
            ))
            .into());
        }
        UserDecision::NameNeeded => {
            return Ok(EmptyPlan::NeedsUser(format!("which name `{from}` is to get.")).into());
        }
    }
    if !is_identifier(to) {
        let why = format!(
            "`{to}` can't be the name of something in a program: a name has letters, digits and `_`, and no digit first."
        );
        return Ok(EmptyPlan::Impossible(why).into());
    }
    if from == to {
        return Ok(EmptyPlan::NothingToDo(format!("`{from}` has that name already.")).into());
    }
    let observations = context.sections.observations();
    match find_observation(&observations, "check") {
        Some(check) if check.status == Status::Failed && check.interrupted_call().is_none() => {
            repair::plan(context, goal, check)
        }
        Some(_) | None => rename(context, goal),
    }
}

fn rename(context: &PlanningContext<'_>, goal: &Rename) -> DraftOrCall {
    let Rename { from, to, scope } = goal;
    let found = match find_rename_target(context, goal)? {
        RenameTarget::Usages(found) => found,
        RenameTarget::AlreadyRenamed(new_name) if has_begun(context) => {
            let done = format!("`{from}` is renamed to `{to}`{scope}");
            let task = verification(goal);
            return confirmation_plan(
                context,
                &done,
                &new_name.usages.paths(),
                verify_title(goal),
                &task,
            );
        }
        RenameTarget::AlreadyRenamed(new_name) => return Ok(renamed_already(context, goal, &new_name).into()),
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

    let mut subtasks = vec![agent_subtask(
        "explore",
        format!("Find every usage of {from}"),
        Vec::new(),
        "explore",
        &SubAgentTask::FindUsages {
            symbol: from.clone(),
            scope: scope.clone(),
        },
    )];
    let mut before = ids(&["explore"]);
    if let Some(baseline) = baseline(context, &checks) {
        before.push(baseline.id.clone());
        subtasks.push(baseline);
    }
    let mut edits: Vec<SubTaskId> = Vec::new();
    for (number, files) in groups(&found, &paths, scope).iter().enumerate() {
        let id = format!("edit-{}", number + 1);
        let title = match files.len() {
            0 => format!("Rename {from} to {to}"),
            _ => format!("Rename {from} to {to} in {}", enumerated(files, 2)),
        };
        subtasks.push(calls_subtask(
            &id,
            title,
            before.clone(),
            vec![tools::rename(from, to, files)],
        ));
        edits.push(SubTaskId(id));
    }
    subtasks.extend(confirmation_subtasks(
        edits,
        &checks,
        verify_title(goal),
        &verification(goal),
    ));
    let usages = pluralize(found.occurrences, "usage", "usages");
    let files = pluralize(found.file_count(), "file", "files");
    let by_name = if is_ambiguous(&found) {
        format!(" {BY_NAME}")
    } else {
        String::new()
    };
    let summary = format!(
        "Rename `{from}` to `{to}`{scope}: {usages} in {files}. {}{by_name}",
        checks_note(&checks)
    );
    debug_assert!(!checks.is_empty() || summary.contains(NO_CHECKS));
    Ok(Draft { summary, subtasks })
}

/// What a plan says of a name that several things may have, and its reflection again.
pub(crate) const BY_NAME: &str =
    "It is matched by name: all that has this name is renamed, whatever it belongs to.";

/// Whether several things may have the name: it is defined more than once, or it is something's member.
fn is_ambiguous(found: &RenameOutput) -> bool {
    let usages = found.files.iter().flat_map(|file| &file.occurrences);
    usages.filter(|usage| usage.definition).count() > 1 || !found.members.is_empty()
}

/// Why nobody can tell whether all usages are of one thing: a member may be that of something else, in a language without a compiler to tell.
fn untested_member(found: &RenameOutput, from: &str) -> Option<String> {
    let has_compiler = |path: &str| path.ends_with(".rs") || path.ends_with(".go");
    let member = found.members.iter().find(|member| !has_compiler(&member.path))?;
    Some(format!(
        "`{from}` is used as a property, a keyword or a key, first at {} (`{}`), where it may be something else's, and nothing here can test \
         the result.",
        member.location(),
        shortened(member.text.trim(), 120)
    ))
}

pub(crate) fn verify_title(goal: &Rename) -> String {
    format!("Verify that no usage of {} is left", goal.from)
}

pub(crate) fn verification(goal: &Rename) -> SubAgentTask {
    let Rename { from, to, scope } = goal.clone();
    SubAgentTask::VerifyRenamed { from, to, scope }
}

/// The files of each edit. Where the list of files was cut, one edit takes all of them, listed or not.
fn groups(found: &RenameOutput, paths: &[String], scope: &Scope) -> Vec<Vec<String>> {
    if found.totals.files > paths.len() as u64 {
        return vec![scope.only.clone()];
    }
    split_evenly(paths, GROUPS)
}

/// Whether the new name may be in use: the user wants it, or an earlier iteration has renamed a part.
fn may_clash(context: &PlanningContext<'_>) -> bool {
    match context.requirements.clash {
        ClashPolicy::Allow => true,
        ClashPolicy::Refuse => has_begun(context),
    }
}

/// What there is to rename.
enum RenameTarget {
    /// These.
    Usages(RenameOutput),
    /// No usage of the old name, and some of the new one.
    AlreadyRenamed(NewNameUsages),
    /// Nothing, or nothing that can be renamed.
    NotRenamable(EmptyPlan),
}

/// The new name where the old one is not.
struct NewNameUsages {
    usages: RenameOutput,
    /// Names like the old one.
    similar: Vec<String>,
}

/// Finds the usages, or why there is nothing to rename. The error is the next call to make.
fn find_rename_target(context: &PlanningContext<'_>, goal: &Rename) -> Result<RenameTarget, Call> {
    let Rename { from, to, scope } = goal;
    let conversation = context.conversation;
    let answer = conversation.result_of(tools::preview(from, Some(to), scope))?;
    let found = read_output::<RenameOutput>(&answer.output).within(scope);
    if !answer.success {
        let error = answer
            .error
            .unwrap_or_else(|| "`rename_symbol` gives no reason".to_owned());
        let what = if found.occurrences > 0 {
            format!("`{from}` can't be renamed to `{to}`")
        } else {
            format!("`{from}` could not be looked for{scope}")
        };
        return Ok(RenameTarget::NotRenamable(EmptyPlan::Impossible(format!(
            "{what}: {error}.{}",
            unchanged(context)
        ))));
    }
    if let Some(first) = found.foreign.first() {
        let why = format!(
            "`{from}` seems to be the name of something outside of this workspace, first at {} (`{}`), which a rename here would break.{}",
            first.location(),
            first.text.trim(),
            unchanged(context)
        );
        return Ok(RenameTarget::NotRenamable(EmptyPlan::Impossible(why)));
    }
    if let Some(first) = found.modules.first() {
        let why = format!(
            "`{from}` is also the name of a module, imported at {} (`{}`): a rename goes by the name alone, which can't tell the two \
             apart, and renames no files.{}",
            first.location(),
            first.text.trim(),
            unchanged(context)
        );
        return Ok(RenameTarget::NotRenamable(EmptyPlan::Impossible(why)));
    }
    if found.occurrences > 0 && (found.clashes.is_empty() || may_clash(context)) {
        return Ok(RenameTarget::Usages(found));
    }
    if found.occurrences > 0 {
        let clash = |line: &MatchedLine| format!("{} (`{}`)", line.location(), line.text.trim());
        let locations: Vec<String> = found.clashes.iter().map(clash).collect();
        return Ok(RenameTarget::NotRenamable(EmptyPlan::NeedsUser(format!(
            "`{to}` is in use already, at {}, so after renaming `{from}` the two could not be told apart.",
            enumerated(&locations, 3)
        ))));
    }
    let answer_to = conversation.result_of(tools::preview(to, None, scope))?;
    let new_name = read_output::<RenameOutput>(&answer_to.output).within(scope);
    Ok(if new_name.occurrences > 0 {
        RenameTarget::AlreadyRenamed(NewNameUsages {
            usages: new_name,
            similar: found.similar,
        })
    } else {
        RenameTarget::NotRenamable(not_found(context, goal, &found, answer.error.as_deref()))
    })
}

/// What is true of the files before the first iteration has worked on them.
fn unchanged(context: &PlanningContext<'_>) -> &'static str {
    if has_begun(context) {
        ""
    } else {
        " Nothing was changed."
    }
}

/// The old name is nowhere, the new one is. That may be the same rename once more, or the wrong name: nobody has looked before.
fn renamed_already(context: &PlanningContext<'_>, goal: &Rename, new_name: &NewNameUsages) -> EmptyPlan {
    let Rename { from, to, scope } = goal;
    EmptyPlan::Impossible(format!(
        "there is no function or other symbol `{from}`{scope}.{} `{to}` is there, {} in {}: if `{from}` was renamed before, nothing is left \
         to do.{}",
        did_you_mean(&new_name.similar, to),
        pluralize(new_name.usages.occurrences, "time", "times"),
        enumerated(&new_name.usages.paths(), 5),
        unchanged(context)
    ))
}

/// The names nearest to one that is not there.
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

fn not_found(
    context: &PlanningContext<'_>,
    goal: &Rename,
    found: &RenameOutput,
    error: Option<&str>,
) -> EmptyPlan {
    let Rename { from, to, scope } = goal;
    let hint = did_you_mean(&found.similar, to);
    let mentions = match found.mentions.first() {
        Some(first) => format!(
            " It is mentioned in text only, first at {}.",
            first.line.location()
        ),
        None => String::new(),
    };
    let error = error
        .filter(|_| found.similar.is_empty())
        .map(|error| format!(" (`rename_symbol`: {error})"))
        .unwrap_or_default();
    EmptyPlan::Impossible(format!(
        "there is no function or other symbol `{from}`{scope}.{hint}{mentions}{error}{}",
        unchanged(context)
    ))
}
