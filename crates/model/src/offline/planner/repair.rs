//! Planning after a failed check: the old name where the compiler or the tests point at it, and nothing else.
//!
//! A rename leaves strings and comments alone. Some of them are code all the same: documentation tests, names looked up
//! at run time, text that a macro expands. The failing output says which.

use super::{Draft, Planned, Planning, for_agent, of_calls, of_checks};
use crate::offline::brief::Brief;
use crate::offline::checks;
use crate::offline::conversation::Call;
use crate::offline::goal::Rename;
use crate::offline::no_work::NoWork;
use crate::offline::place::{enumerated, places_in};
use crate::offline::reading::Observation;
use crate::offline::report::{command_line, telling_lines};
use crate::offline::text::{replace_word, unique_block};
use crate::offline::tools::{self, Executed, Line, Pattern, Search, file_text, in_plan, read_output};

/// Files that one round repairs: each is a look of the planner's.
const FILES: usize = 5;

/// Plans edits of the lines that the failed check names, or says that it names none.
pub(super) fn plan(planning: &Planning<'_>, wanted: &Rename, check: &Observation) -> Planned {
    let Rename { from, to, scope } = wanted;
    let Some((call, result)) = check.failed_call() else {
        return Ok(stuck(planning, check, "the check failed without saying why"));
    };
    let shown = places_in(&read_output::<Executed>(&result.output).text());
    let answer = planning
        .conversation
        .look(tools::search(Pattern::Word(from), scope))?;
    let left = read_output::<Search>(&answer.output).within(scope);
    let mut targets: Vec<&Line> = left
        .matches
        .iter()
        .filter(|line| shown.iter().any(|place| line.place().is_shown_by(place)))
        .collect();
    targets.dedup_by_key(|line| line.place());
    let mut paths: Vec<String> = targets.iter().map(|line| line.path.clone()).collect();
    paths.dedup();
    paths.truncate(FILES);
    let mut subtasks = Vec::new();
    for path in &paths {
        let lines: Vec<u64> = targets
            .iter()
            .filter(|line| line.path == *path)
            .map(|line| line.line)
            .collect();
        let edits = edits(planning, path, &lines, wanted)?;
        if !edits.is_empty() {
            let id = format!("repair-{}", subtasks.len() + 1);
            let title = format!("Rename {from} in the text that {path} needs");
            subtasks.push(of_calls(
                &id,
                title,
                Vec::new(),
                edits.into_iter().map(in_plan).collect(),
            ));
        }
    }
    if subtasks.is_empty() {
        return Ok(stuck(
            planning,
            check,
            &format!("nothing in it points at a line that still names `{from}`"),
        ));
    }
    let places: Vec<String> = targets.iter().map(|line| line.place().to_string()).collect();
    let summary = format!(
        "`{}` fails after the rename, at lines that name `{from}` in text: {}. Rename it there too, and check again.",
        command_line(call),
        enumerated(&places, 5),
    );
    let repairs: Vec<_> = subtasks.iter().map(|subtask| subtask.id.clone()).collect();
    let checks = checks::of_project(planning.conversation, &paths)?;
    let check = of_checks("check", "Build and test the project", repairs.clone(), &checks);
    let confirmed = check.as_ref().map_or(repairs, |check| vec![check.id.clone()]);
    subtasks.extend(check);
    subtasks.push(for_agent(
        "verify",
        format!("Verify that no usage of {from} is left"),
        confirmed,
        "verify",
        &Brief::VerifyRenamed {
            from: from.clone(),
            to: to.clone(),
            scope: scope.clone(),
        },
    ));
    Ok(Draft { summary, subtasks })
}

/// The edits of these lines of a file, each of a block that occurs once in it.
fn edits(planning: &Planning<'_>, path: &str, lines: &[u64], wanted: &Rename) -> Result<Vec<Call>, Call> {
    let answer = planning.conversation.look(tools::read(path, None))?;
    let Some(mut text) = file_text(&answer.output).map(str::to_owned) else {
        return Ok(Vec::new());
    };
    let mut edits = Vec::new();
    for &line in lines {
        let Some(old) = unique_block(&text, line, line) else {
            continue;
        };
        let new = replace_word(&old, &wanted.from, &wanted.to);
        if new != old {
            edits.push(tools::edit(path, &old, &new));
            text = text.replacen(&old, &new, 1);
        }
    }
    Ok(edits)
}

/// The end of the matter: what is changed, and what is broken.
fn stuck(planning: &Planning<'_>, check: &Observation, why: &str) -> Draft {
    let lines = check
        .failed_call()
        .map(|(_, result)| telling_lines(result, 6))
        .unwrap_or_default();
    let command = check
        .failed_call()
        .map(|(call, _)| command_line(call))
        .unwrap_or_default();
    let before = planning
        .sections
        .rounds()
        .last()
        .map(|round| round.reflection.clone())
        .unwrap_or_default();
    NoWork::Impossible(format!(
        "`{command}` fails after the change, and {why}: {}\n{before}",
        lines.join("; ")
    ))
    .into()
}
