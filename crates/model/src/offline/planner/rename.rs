//! Planning a rename (PAOR-2): look, then edit files side by side, check, and verify that no usage is left.

use dirigent_core::id::SubTaskId;

use super::{
    Draft, NO_CHECKS, Planned, Planning, baseline, checked_by, confirmation, confirming, dealt, for_agent,
    has_begun, ids, of_calls, repair,
};
use crate::offline::brief::Brief;
use crate::offline::conversation::Call;
use crate::offline::goal::{Rename, is_identifier};
use crate::offline::no_work::NoWork;
use crate::offline::place::{counted, enumerated, shortened};
use crate::offline::reading::{Status, observed};
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
    match observed(&observations, "check") {
        Some(check) if check.status == Status::Failed && check.interrupted_call().is_none() => {
            repair::plan(planning, wanted, check)
        }
        Some(_) | None => rename(planning, wanted),
    }
}

fn rename(planning: &Planning<'_>, wanted: &Rename) -> Planned {
    let Rename { from, to, scope } = wanted;
    let found = match look(planning, wanted)? {
        Found::Usages(found) => found,
        Found::Renamed(there) if has_begun(planning) => {
            let done = format!("`{from}` is renamed to `{to}`{scope}");
            let brief = verification(wanted);
            return confirmation(
                planning,
                &done,
                &there.usages.paths(),
                verify_title(wanted),
                &brief,
            );
        }
        Found::Renamed(there) => return Ok(renamed_already(planning, wanted, &there).into()),
        Found::Nothing(why) => return Ok(why.into()),
    };
    let paths = found.paths();
    let checks = planning.checks(&paths)?;
    if checks.is_empty()
        && !may_clash(planning)
        && let Some(why) = untested_member(&found, from)
    {
        return Ok(NoWork::Undecided(why).into());
    }

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
    if let Some(baseline) = baseline(planning, &checks) {
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
    subtasks.extend(confirming(
        edits,
        &checks,
        verify_title(wanted),
        &verification(wanted),
    ));
    let usages = counted(found.occurrences, "usage", "usages");
    let files = counted(found.file_count(), "file", "files");
    let by_name = if is_ambiguous(&found) {
        format!(" {BY_NAME}")
    } else {
        String::new()
    };
    let summary = format!(
        "Rename `{from}` to `{to}`{scope}: {usages} in {files}. {}{by_name}",
        checked_by(&checks)
    );
    debug_assert!(!checks.is_empty() || summary.contains(NO_CHECKS));
    Ok(Draft { summary, subtasks })
}

/// What a plan says of a name that several things may have, and its reflection again.
pub(in crate::offline) const BY_NAME: &str =
    "It is matched by name: all that has this name is renamed, whatever it belongs to.";

/// Whether several things may have the name: it is defined more than once, or it is something's member.
fn is_ambiguous(found: &Renamed) -> bool {
    let usages = found.files.iter().flat_map(|file| &file.occurrences);
    usages.filter(|usage| usage.definition).count() > 1 || !found.members.is_empty()
}

/// Why nobody can tell whether all usages are of one thing: a member may be that of something else, in a language without a compiler to tell.
fn untested_member(found: &Renamed, from: &str) -> Option<String> {
    let has_compiler = |path: &str| path.ends_with(".rs") || path.ends_with(".go");
    let member = found.members.iter().find(|member| !has_compiler(&member.path))?;
    Some(format!(
        "`{from}` is used as a property, a keyword or a key, first at {} (`{}`), where it may be something else's, and nothing here can test \
         the result.",
        member.place(),
        shortened(member.text.trim(), 120)
    ))
}

pub(super) fn verify_title(wanted: &Rename) -> String {
    format!("Verify that no usage of {} is left", wanted.from)
}

pub(super) fn verification(wanted: &Rename) -> Brief {
    let Rename { from, to, scope } = wanted.clone();
    Brief::VerifyRenamed { from, to, scope }
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

/// What there is to rename.
enum Found {
    /// These.
    Usages(Renamed),
    /// No usage of the old name, and some of the new one.
    Renamed(There),
    /// Nothing, or nothing that can be renamed.
    Nothing(NoWork),
}

/// The new name where the old one is not.
struct There {
    usages: Renamed,
    /// Names like the old one.
    similar: Vec<String>,
}

/// Finds the usages, or why there is nothing to rename. The error is the next call to make.
fn look(planning: &Planning<'_>, wanted: &Rename) -> Result<Found, Call> {
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
        return Ok(Found::Nothing(NoWork::Impossible(format!(
            "{what}: {error}.{}",
            unchanged(planning)
        ))));
    }
    if let Some(first) = found.foreign.first() {
        let why = format!(
            "`{from}` seems to be the name of something outside of this workspace, first at {} (`{}`), which a rename here would break.{}",
            first.place(),
            first.text.trim(),
            unchanged(planning)
        );
        return Ok(Found::Nothing(NoWork::Impossible(why)));
    }
    if let Some(first) = found.modules.first() {
        let why = format!(
            "`{from}` is also the name of a module, imported at {} (`{}`): a rename goes by the name alone, which can't tell the two \
             apart, and renames no files.{}",
            first.place(),
            first.text.trim(),
            unchanged(planning)
        );
        return Ok(Found::Nothing(NoWork::Impossible(why)));
    }
    if found.occurrences > 0 && (found.clashes.is_empty() || may_clash(planning)) {
        return Ok(Found::Usages(found));
    }
    if found.occurrences > 0 {
        let clash = |line: &Line| format!("{} (`{}`)", line.place(), line.text.trim());
        let places: Vec<String> = found.clashes.iter().map(clash).collect();
        return Ok(Found::Nothing(NoWork::Undecided(format!(
            "`{to}` is in use already, at {}, so after renaming `{from}` the two could not be told apart.",
            enumerated(&places, 3)
        ))));
    }
    let answer_to = conversation.look(tools::preview(to, None, scope))?;
    let there = read_output::<Renamed>(&answer_to.output).within(scope);
    Ok(if there.occurrences > 0 {
        Found::Renamed(There {
            usages: there,
            similar: found.similar,
        })
    } else {
        Found::Nothing(not_found(planning, wanted, &found, answer.error.as_deref()))
    })
}

/// What is true of the files before the first round has worked on them.
fn unchanged(planning: &Planning<'_>) -> &'static str {
    if has_begun(planning) {
        ""
    } else {
        " Nothing was changed."
    }
}

/// The old name is nowhere, the new one is. That may be the same rename once more, or the wrong name: nobody has looked before.
fn renamed_already(planning: &Planning<'_>, wanted: &Rename, there: &There) -> NoWork {
    let Rename { from, to, scope } = wanted;
    NoWork::Impossible(format!(
        "there is no function or other symbol `{from}`{scope}.{} `{to}` is there, {} in {}: if `{from}` was renamed before, nothing is left \
         to do.{}",
        did_you_mean(&there.similar, to),
        counted(there.usages.occurrences, "time", "times"),
        enumerated(&there.usages.paths(), 5),
        unchanged(planning)
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

fn not_found(planning: &Planning<'_>, wanted: &Rename, found: &Renamed, error: Option<&str>) -> NoWork {
    let Rename { from, to, scope } = wanted;
    let hint = did_you_mean(&found.similar, to);
    let mentions = match found.mentions.first() {
        Some(first) => format!(" It is mentioned in text only, first at {}.", first.line.place()),
        None => String::new(),
    };
    let error = error
        .filter(|_| found.similar.is_empty())
        .map(|error| format!(" (`rename_symbol`: {error})"))
        .unwrap_or_default();
    NoWork::Impossible(format!(
        "there is no function or other symbol `{from}`{scope}.{hint}{mentions}{error}{}",
        unchanged(planning)
    ))
}
