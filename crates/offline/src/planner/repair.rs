//! Planning after a failed check: the old name where the compiler or the tests point at it, and nothing else.
//!
//! A rename leaves strings and comments alone. Some comments are code all the same, as documentation tests are, and so are some files
//! without a grammar; the failing output says which. What is in a string is never changed: nobody knows what else it is for.

use std::collections::BTreeMap;

use super::rename::{verification, verify_title};
use super::{Draft, DraftOrCall, PlanningContext, calls_subtask, confirmation_subtasks, undo};
use crate::code::{Code, is_in_string, words_outside_quotes};
use crate::conversation::Call;
use crate::goal::Rename;
use crate::location::{SourceLocation, enumerated, failed_doc_tests, parse_locations};
use crate::prompt_sections::Observation;
use crate::report::command_line;
use crate::text::unique_block;
use crate::tools::{
    self, CommandOutput, MentionKind, Pattern, RenameOutput, SearchOutput, file_text, planned_call,
    read_output,
};

/// Files that one iteration repairs: each is a look of the planner's.
const FILES: usize = 5;

/// Where the old name is to be replaced in a file: columns, in characters from 1, by lines.
type Targets = BTreeMap<u64, Vec<usize>>;

/// Plans edits of the lines that the failed check names, or gives the change up where it names none.
pub(crate) fn plan(context: &PlanningContext<'_>, goal: &Rename, check: &Observation) -> DraftOrCall {
    let Rename { from, scope, .. } = goal;
    let Some((call, result)) = check.failed_call() else {
        return Ok(give_up(context, "the check failed without saying why"));
    };
    let output = read_output::<CommandOutput>(&result.output).text();
    let mut repairs = Vec::new();
    let mut locations = Vec::new();
    let mut paths = Vec::new();
    for path in files_to_repair(context, goal, &output)? {
        let answer = context.conversation.result_of(tools::read(&path.name, None))?;
        let text = file_text(&answer.output).unwrap_or_default();
        let targets = targets(&path, text, &output, from);
        let edits = edits(&path.name, text, &targets, goal);
        if !edits.is_empty() {
            let title = format!("Rename {from} in the text that {} needs", path.name);
            let calls = edits.into_iter().map(planned_call).collect();
            repairs.push(calls_subtask(
                &format!("repair-{}", repairs.len() + 1),
                title,
                Vec::new(),
                calls,
            ));
            locations.extend(
                targets
                    .keys()
                    .map(|line| location_at(&path.name, *line).to_string()),
            );
            paths.push(path.name);
        }
    }
    if repairs.is_empty() {
        return Ok(give_up(
            context,
            &format!("nothing in the output points at code in a comment that still names `{from}`{scope}"),
        ));
    }
    let summary = format!(
        "`{}` fails after the rename, at lines that name `{from}` in text: {}. Rename it there too, and check again.",
        command_line(call),
        enumerated(&locations, 5),
    );
    let ids: Vec<_> = repairs.iter().map(|subtask| subtask.id.clone()).collect();
    let checks = context.checks(&paths)?;
    repairs.extend(confirmation_subtasks(
        ids,
        &checks,
        verify_title(goal),
        &verification(goal),
    ));
    let subtasks = repairs;
    Ok(Draft { summary, subtasks })
}

/// A file with the old name.
struct RepairFile {
    name: String,
    /// Where a program has it in comments; none for a file without a grammar.
    comments: Option<Vec<(u64, usize)>>,
}

/// The files with the old name that the output names.
fn files_to_repair(
    context: &PlanningContext<'_>,
    goal: &Rename,
    output: &str,
) -> Result<Vec<RepairFile>, Call> {
    let Rename { from, scope, .. } = goal;
    let named: Vec<SourceLocation> = parse_locations(output)
        .into_iter()
        .chain(failed_doc_tests(output))
        .collect();
    let is_named = |name: &str| {
        named
            .iter()
            .any(|location| location_at(name, location.line).is_same_line_as(location))
    };
    let answer = context
        .conversation
        .result_of(tools::search(Pattern::Word(from), scope))?;
    let mut names = read_output::<SearchOutput>(&answer.output).within(scope).paths();
    names.retain(|name| is_named(name));
    names.truncate(FILES);
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let answer = context
        .conversation
        .result_of(tools::preview(from, None, scope))?;
    let mentions = read_output::<RenameOutput>(&answer.output).within(scope).mentions;
    let file = |name: String| {
        let of_file = mentions.iter().filter(|mention| mention.line.path == name);
        let in_comments = of_file
            .filter(|mention| match mention.kind {
                MentionKind::Comment => true,
                MentionKind::String => false,
            })
            .map(|mention| (mention.line.line, mention.column));
        RepairFile {
            comments: is_source(&name).then(|| in_comments.collect()),
            name,
        }
    };
    Ok(names.into_iter().map(file).collect())
}

/// Whether `rename_symbol` knows the file's language.
fn is_source(name: &str) -> bool {
    const ENDINGS: &[&str] = &[
        "rs", "py", "pyi", "pyw", "js", "jsx", "mjs", "cjs", "ts", "mts", "cts", "tsx", "go",
    ];
    name.rsplit_once('.')
        .is_some_and(|(_, ending)| ENDINGS.contains(&ending))
}

fn location_at(path: &str, line: u64) -> SourceLocation {
    SourceLocation {
        path: path.to_owned(),
        line,
    }
}

/// Where the output points at the old name in a file: at its line, or at a documentation test that failed.
fn targets(file: &RepairFile, text: &str, output: &str, from: &str) -> Targets {
    let tests = doc_tests(file, text, output);
    let shown = parse_locations(output);
    let is_shown = |line: u64| {
        shown
            .iter()
            .any(|location| location_at(&file.name, line).is_same_line_as(location))
    };
    let named: Vec<(u64, usize)> = match &file.comments {
        Some(comments) => comments.clone(),
        None => (1..)
            .zip(text.lines())
            .flat_map(|(number, line)| {
                let columns = words_outside_quotes(line, from);
                columns.into_iter().map(move |column| (number, column))
            })
            .collect(),
    };
    let mut targets = Targets::new();
    for (line, column) in named {
        let test = tests.iter().find(|test| test.contains_line(line));
        let is_target = match test {
            Some(test) => !is_in_string(test, line, column),
            None => is_shown(line),
        };
        if is_target {
            targets.entry(line).or_default().push(column);
        }
    }
    targets
}

/// The code of the documentation tests of a file that failed.
fn doc_tests<'a>(file: &RepairFile, text: &'a str, output: &str) -> Vec<Code<'a>> {
    let starts = failed_doc_tests(output).into_iter();
    let of_file = starts.filter(|start| location_at(&file.name, start.line).is_same_line_as(start));
    of_file
        .filter_map(|start| {
            let lines = || (1..).zip(text.lines()).filter(|(number, _)| *number > start.line);
            let (end, _) = lines().find(|(_, line)| line.contains("```"))?;
            Some(Code::new(lines().take_while(|(number, _)| *number < end)))
        })
        .collect()
}

/// The edits of a file, each of a block that occurs once in it.
fn edits(path: &str, text: &str, targets: &Targets, goal: &Rename) -> Vec<Call> {
    let mut text = text.to_owned();
    let mut edits = Vec::new();
    for (&line, columns) in targets {
        let edit = unique_block(&text, line, line).and_then(|old| {
            let before = text[..text.find(&old)?].matches('\n').count();
            // The block's other lines stay as they are.
            let mut lines: Vec<&str> = old.split('\n').collect();
            let line = lines.get_mut(usize::try_from(line).ok()?.checked_sub(before + 1)?)?;
            let renamed = renamed(line, columns, goal)?;
            *line = &renamed;
            let new = lines.join("\n");
            Some((old, new))
        });
        if let Some((old, new)) = edit {
            text = text.replacen(&old, &new, 1);
            edits.push(tools::edit(path, &old, &new));
        }
    }
    edits
}

/// A line with the new name in place of the old one at these columns; none where it is not there.
fn renamed(line: &str, columns: &[usize], goal: &Rename) -> Option<String> {
    let mut renamed = line.to_owned();
    let mut columns = columns.to_vec();
    columns.sort_unstable();
    for column in columns.into_iter().rev() {
        let (start, _) = renamed.char_indices().nth(column.checked_sub(1)?)?;
        let end = start + goal.from.len();
        if renamed.get(start..end)? != goal.from {
            return None;
        }
        renamed.replace_range(start..end, &goal.to);
    }
    Some(renamed)
}

/// The end of the matter, with what is broken as the last iteration's judgement has it.
fn give_up(context: &PlanningContext<'_>, why: &str) -> Draft {
    let before = context
        .sections
        .iterations()
        .last()
        .map(|iteration| iteration.reflection.clone())
        .unwrap_or_default();
    undo::plan(
        context,
        &format!("The change broke the project, and {why}, so there is nothing to repair it by.\n{before}"),
    )
}
