//! Planning after a failed check: the old name where the compiler or the tests point at it, and nothing else.
//!
//! A rename leaves strings and comments alone. Some of them are code all the same: documentation tests, names looked up
//! at run time, text that a macro expands. The failing output says which.

use super::rename::{verification, verify_title};
use super::{Draft, Planned, Planning, confirming, of_calls};
use crate::offline::conversation::Call;
use crate::offline::goal::Rename;
use crate::offline::no_work::NoWork;
use crate::offline::place::{Place, enumerated, failed_doc_tests, places_in};
use crate::offline::reading::Observation;
use crate::offline::report::command_line;
use crate::offline::text::{replace_word, unique_block};
use crate::offline::tools::{self, Executed, Line, Pattern, Search, file_text, in_plan, read_output};

/// Files that one round repairs: each is a look of the planner's.
const FILES: usize = 5;

/// Plans edits of the lines that the failed check names, or says that it names none.
pub(super) fn plan(planning: &Planning<'_>, wanted: &Rename, check: &Observation) -> Planned {
    let Rename { from, scope, .. } = wanted;
    let Some((call, result)) = check.failed_call() else {
        return Ok(stuck(planning, "the check failed without saying why"));
    };
    let output = read_output::<Executed>(&result.output).text();
    let answer = planning
        .conversation
        .look(tools::search(Pattern::Word(from), scope))?;
    let left = read_output::<Search>(&answer.output).within(scope);
    let mut targets = pointed_at(planning, &output, &left)?;
    let mut paths: Vec<String> = targets.iter().map(|line| line.path.clone()).collect();
    paths.dedup();
    paths.truncate(FILES);
    targets.retain(|line| paths.contains(&line.path));
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
            &format!("nothing in the output points at a line that still names `{from}`{scope}"),
        ));
    }
    let places: Vec<String> = targets.iter().map(|line| line.place().to_string()).collect();
    let summary = format!(
        "`{}` fails after the rename, at lines that name `{from}` in text: {}. Rename it there too, and check again.",
        command_line(call),
        enumerated(&places, 5),
    );
    let repairs: Vec<_> = subtasks.iter().map(|subtask| subtask.id.clone()).collect();
    let checks = planning.checks(&paths)?;
    subtasks.extend(confirming(
        repairs,
        &checks,
        verify_title(wanted),
        &verification(wanted),
    ));
    Ok(Draft { summary, subtasks })
}

/// The lines with the old name that the output points at: exactly, or as part of a documentation test that failed.
fn pointed_at<'a>(planning: &Planning<'_>, output: &str, left: &'a Search) -> Result<Vec<&'a Line>, Call> {
    let shown = places_in(output);
    let mut blocks = Vec::new();
    for start in failed_doc_tests(output) {
        if !left.matches.iter().any(|line| line.path == start.path) {
            continue;
        }
        let answer = planning.conversation.look(tools::read(&start.path, None))?;
        let text = file_text(&answer.output).unwrap_or_default();
        let fence = |(_, line): &(u64, &str)| line.contains("```");
        let end = (1..)
            .zip(text.lines())
            .filter(|(number, _)| *number > start.line)
            .find(fence);
        blocks.extend(end.map(|(end, _)| (start, end)));
    }
    let in_block = |line: &Line| {
        let inside =
            |(start, end): &(Place, u64)| start.path == line.path && (start.line..*end).contains(&line.line);
        blocks.iter().any(inside)
    };
    let is_shown = |line: &Line| shown.iter().any(|place| line.place().is_shown_by(place));
    Ok(left
        .matches
        .iter()
        .filter(|line| is_shown(line) || in_block(line))
        .collect())
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

/// The end of the matter: what is changed and what is broken, as the last round's judgement has it.
fn stuck(planning: &Planning<'_>, why: &str) -> Draft {
    let before = planning
        .sections
        .rounds()
        .last()
        .map(|round| round.reflection.clone())
        .unwrap_or_default();
    NoWork::Impossible(format!(
        "the change broke the project, and {why}, so there is nothing to repair it by.\n{before}"
    ))
    .into()
}
