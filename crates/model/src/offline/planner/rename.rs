//! Planning a rename (PAOR-2): look, then edit files side by side, check, and verify that no usage is left.

use dirigent_core::id::SubTaskId;

use super::{
    Draft, NO_CHECKS, Planned, Planning, checked_by, confirmation, dealt, for_agent, has_begun, ids,
    of_calls, of_checks, repair,
};
use crate::offline::brief::Brief;
use crate::offline::checks;
use crate::offline::conversation::Call;
use crate::offline::goal::{Rename, is_identifier};
use crate::offline::no_work::NoWork;
use crate::offline::place::{counted, enumerated};
use crate::offline::reading::{Status, all_observed, observed};
use crate::offline::scope::Scope;
use crate::offline::tools::{self, Clash, Line, Renamed, read_output};
use crate::offline::wishes::Decision;

/// Groups of files that are edited side by side.
const GROUPS: usize = 4;

/// Plans the rename, or says why there is nothing to plan.
pub(super) fn plan(planning: &Planning<'_>, wanted: &Rename) -> Planned {
    let Rename { from, to, .. } = wanted;
    match planning.wishes.decision {
        Decision::GoOn => {}
        Decision::Stop => {
            return Ok(NoWork::Impossible(format!(
                "you decided not to rename `{from}`. Nothing was changed."
            ))
            .into());
        }
        Decision::NameNeeded => {
            return Ok(NoWork::Undecided(format!("which name `{from}` is to get.")).into());
        }
    }
    if !is_identifier(to) {
        let why = format!(
            "`{to}` can't be the name of something in a program: a name has letters, digits and `_`, and no digit first."
        );
        return Ok(NoWork::Impossible(why).into());
    }
    if from == to {
        return Ok(NoWork::NothingToDo(format!("`{from}` has that name already.")).into());
    }
    let observations = planning.sections.observations();
    let edited = all_observed(&observations, "edit-").chain(all_observed(&observations, "repair-"));
    let was_edited = edited.into_iter().any(|edit| edit.status == Status::Succeeded);
    match observed(&observations, "check") {
        Some(check) if was_edited && check.status == Status::Failed => repair::plan(planning, wanted, check),
        Some(_) | None => rename(planning, wanted),
    }
}

fn rename(planning: &Planning<'_>, wanted: &Rename) -> Planned {
    let Rename { from, to, scope } = wanted;
    let verify = Brief::VerifyRenamed {
        from: from.clone(),
        to: to.clone(),
        scope: scope.clone(),
    };
    let found = match look(planning, wanted)? {
        Ok(found) => found,
        Err(NoWork::NothingToDo(_)) if has_begun(planning) => return confirmation(planning, &verify),
        Err(why) => return Ok(why.into()),
    };
    let paths = found.paths();
    let checks = checks::of_project(planning.conversation, &paths)?;

    let mut subtasks = vec![for_agent(
        "explore",
        format!("Find every usage of {from}"),
        Vec::new(),
        "explore",
        &Brief::FindUsages {
            symbol: from.clone(),
            scope: scope.clone(),
        },
    )];
    let mut before = ids(&["explore"]);
    if let Some(baseline) = of_checks(
        "baseline",
        "Check the project before any change",
        Vec::new(),
        &checks,
    ) {
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
        subtasks.push(of_calls(
            &id,
            title,
            before.clone(),
            vec![tools::rename(from, to, files)],
        ));
        edits.push(SubTaskId(id));
    }
    let check = of_checks("check", "Build and test the project", edits.clone(), &checks);
    let confirmed = check.as_ref().map_or(edits, |check| vec![check.id.clone()]);
    subtasks.extend(check);
    subtasks.push(for_agent(
        "verify",
        format!("Verify that no usage of {from} is left"),
        confirmed,
        "verify",
        &verify,
    ));
    let usages = counted(found.occurrences, "usage", "usages");
    let files = counted(found.totals.files.max(paths.len() as u64), "file", "files");
    let summary = format!(
        "Rename `{from}` to `{to}`{scope}: {usages} in {files}. {}",
        checked_by(&checks)
    );
    debug_assert!(!checks.is_empty() || summary.contains(NO_CHECKS));
    Ok(Draft { summary, subtasks })
}

/// The files of each edit. Where the list of files was cut, one edit takes all of them, listed or not.
fn groups(found: &Renamed, paths: &[String], scope: &Scope) -> Vec<Vec<String>> {
    if found.totals.files > paths.len() as u64 {
        return vec![scope.only.clone()];
    }
    dealt(paths, GROUPS)
}

/// Whether the new name may be in use: the user wants it, or an earlier round has renamed a part.
fn may_clash(planning: &Planning<'_>) -> bool {
    match planning.wishes.clash {
        Clash::Allowed => true,
        Clash::Refused => has_begun(planning),
    }
}

/// Finds the usages, or why there is nothing to rename. The outer error is the next call to make.
fn look(planning: &Planning<'_>, wanted: &Rename) -> Result<Result<Renamed, NoWork>, Call> {
    let Rename { from, to, scope } = wanted;
    let conversation = planning.conversation;
    let answer = conversation.look(tools::preview(from, Some(to), scope))?;
    let found = read_output::<Renamed>(&answer.output).within(scope);
    if !answer.success {
        let error = answer
            .error
            .unwrap_or_else(|| "`rename_symbol` gives no reason".to_owned());
        let what = if found.occurrences > 0 {
            format!("`{from}` can't be renamed to `{to}`")
        } else {
            format!("`{from}` could not be looked for{scope}")
        };
        return Ok(Err(NoWork::Impossible(format!(
            "{what}: {error}.{}",
            unchanged(planning)
        ))));
    }
    if found.occurrences > 0 && (found.clashes.is_empty() || may_clash(planning)) {
        return Ok(Ok(found));
    }
    if found.occurrences > 0 {
        let clash = |line: &Line| format!("{} (`{}`)", line.place(), line.text.trim());
        let places: Vec<String> = found.clashes.iter().map(clash).collect();
        return Ok(Err(NoWork::Undecided(format!(
            "`{to}` is in use already, at {}, so after renaming `{from}` the two could not be told apart.",
            enumerated(&places, 3)
        ))));
    }
    let answer_to = conversation.look(tools::preview(to, None, scope))?;
    let there = read_output::<Renamed>(&answer_to.output).within(scope);
    Ok(Err(not_found(planning, wanted, &found, &there)))
}

/// What is true of the files before the first round has worked on them.
fn unchanged(planning: &Planning<'_>) -> &'static str {
    if has_begun(planning) {
        ""
    } else {
        " Nothing was changed."
    }
}

fn not_found(planning: &Planning<'_>, wanted: &Rename, found: &Renamed, there: &Renamed) -> NoWork {
    let Rename { from, to, scope } = wanted;
    if there.occurrences > 0 {
        let files = there.paths();
        return NoWork::NothingToDo(format!(
            "there is no usage of `{from}`{scope}, and `{to}` is used {} in {}.",
            counted(there.occurrences, "time", "times"),
            enumerated(&files, 5),
        ));
    }
    let similar: Vec<String> = found
        .similar
        .iter()
        .take(3)
        .map(|name| format!("`{name}`"))
        .collect();
    let hint = match similar.as_slice() {
        [] => String::new(),
        names => format!(" Did you mean {}?", names.join(" or ")),
    };
    let mentions = match found.mentions.first() {
        Some(first) => format!(" It is mentioned in text only, first at {}.", first.place()),
        None => String::new(),
    };
    NoWork::Impossible(format!(
        "there is no function or other symbol `{from}`{scope}.{hint}{mentions}{}",
        unchanged(planning)
    ))
}
