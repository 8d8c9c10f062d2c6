//! Planning after a failed check: the old name where the compiler or the tests point at it, and nothing else.
//!
//! A rename leaves strings and comments alone. Some comments are code all the same, as documentation tests are, and so are some files
//! without a grammar; the failing output says which. What is in a string is never changed: nobody knows what else it is for.

use std::collections::BTreeMap;

use super::rename::{verification, verify_title};
use super::{Draft, Planned, Planning, confirming, of_calls, put_back};
use crate::offline::code::{Code, is_in_string, words_outside_quotes};
use crate::offline::conversation::Call;
use crate::offline::goal::Rename;
use crate::offline::place::{Place, enumerated, failed_doc_tests, places_in};
use crate::offline::reading::Observation;
use crate::offline::report::command_line;
use crate::offline::text::unique_block;
use crate::offline::tools::{
    self, Executed, Pattern, Prose, Renamed, Search, file_text, in_plan, read_output,
};

/// Files that one round repairs: each is a look of the planner's.
const FILES: usize = 5;

/// Where the old name is to be replaced in a file: columns, in characters from 1, by lines.
type Targets = BTreeMap<u64, Vec<usize>>;

/// Plans edits of the lines that the failed check names, or gives the change up where it names none.
pub(super) fn plan(planning: &Planning<'_>, wanted: &Rename, check: &Observation) -> Planned {
    let Rename { from, scope, .. } = wanted;
    let Some((call, result)) = check.failed_call() else {
        return Ok(stuck(planning, "the check failed without saying why"));
    };
    let output = read_output::<Executed>(&result.output).text();
    let mut repairs = Vec::new();
    let mut places = Vec::new();
    let mut paths = Vec::new();
    for path in files_to_repair(planning, wanted, &output)? {
        let answer = planning.conversation.look(tools::read(&path.name, None))?;
        let text = file_text(&answer.output).unwrap_or_default();
        let targets = targets(&path, text, &output, from);
        let edits = edits(&path.name, text, &targets, wanted);
        if !edits.is_empty() {
            let title = format!("Rename {from} in the text that {} needs", path.name);
            let calls = edits.into_iter().map(in_plan).collect();
            repairs.push(of_calls(
                &format!("repair-{}", repairs.len() + 1),
                title,
                Vec::new(),
                calls,
            ));
            places.extend(targets.keys().map(|line| at(&path.name, *line).to_string()));
            paths.push(path.name);
        }
    }
    if repairs.is_empty() {
        return Ok(stuck(
            planning,
            &format!("nothing in the output points at code in a comment that still names `{from}`{scope}"),
        ));
    }
    let summary = format!(
        "`{}` fails after the rename, at lines that name `{from}` in text: {}. Rename it there too, and check again.",
        command_line(call),
        enumerated(&places, 5),
    );
    let ids: Vec<_> = repairs.iter().map(|subtask| subtask.id.clone()).collect();
    let checks = planning.checks(&paths)?;
    repairs.extend(confirming(
        ids,
        &checks,
        verify_title(wanted),
        &verification(wanted),
    ));
    let subtasks = repairs;
    Ok(Draft { summary, subtasks })
}

/// A file with the old name.
struct File {
    name: String,
    /// Where a program has it in comments; none for a file without a grammar.
    comments: Option<Vec<(u64, usize)>>,
}

/// The files with the old name that the output names.
fn files_to_repair(planning: &Planning<'_>, wanted: &Rename, output: &str) -> Result<Vec<File>, Call> {
    let Rename { from, scope, .. } = wanted;
    let named: Vec<Place> = places_in(output)
        .into_iter()
        .chain(failed_doc_tests(output))
        .collect();
    let is_named = |name: &str| named.iter().any(|place| at(name, place.line).is_shown_by(place));
    let answer = planning
        .conversation
        .look(tools::search(Pattern::Word(from), scope))?;
    let mut names = read_output::<Search>(&answer.output).within(scope).paths();
    names.retain(|name| is_named(name));
    names.truncate(FILES);
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let answer = planning.conversation.look(tools::preview(from, None, scope))?;
    let mentions = read_output::<Renamed>(&answer.output).within(scope).mentions;
    let file = |name: String| {
        let of_file = mentions.iter().filter(|mention| mention.line.path == name);
        let in_comments = of_file
            .filter(|mention| match mention.prose {
                Prose::Comment => true,
                Prose::String => false,
            })
            .map(|mention| (mention.line.line, mention.column));
        File {
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

fn at(path: &str, line: u64) -> Place {
    Place {
        path: path.to_owned(),
        line,
    }
}

/// Where the output points at the old name in a file: at its line, or at a documentation test that failed.
fn targets(file: &File, text: &str, output: &str, from: &str) -> Targets {
    let tests = doc_tests(file, text, output);
    let shown = places_in(output);
    let is_shown = |line: u64| shown.iter().any(|place| at(&file.name, line).is_shown_by(place));
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
        let test = tests.iter().find(|test| test.holds(line));
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
fn doc_tests<'a>(file: &File, text: &'a str, output: &str) -> Vec<Code<'a>> {
    let starts = failed_doc_tests(output).into_iter();
    let of_file = starts.filter(|start| at(&file.name, start.line).is_shown_by(start));
    of_file
        .filter_map(|start| {
            let lines = || (1..).zip(text.lines()).filter(|(number, _)| *number > start.line);
            let (end, _) = lines().find(|(_, line)| line.contains("```"))?;
            Some(Code::new(lines().take_while(|(number, _)| *number < end)))
        })
        .collect()
}

/// The edits of a file, each of a block that occurs once in it.
fn edits(path: &str, text: &str, targets: &Targets, wanted: &Rename) -> Vec<Call> {
    let mut text = text.to_owned();
    let mut edits = Vec::new();
    for (&line, columns) in targets {
        let edit = unique_block(&text, line, line).and_then(|old| {
            let before = text[..text.find(&old)?].matches('\n').count();
            // The block's other lines stay as they are.
            let mut lines: Vec<&str> = old.split('\n').collect();
            let line = lines.get_mut(usize::try_from(line).ok()?.checked_sub(before + 1)?)?;
            let renamed = renamed(line, columns, wanted)?;
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
fn renamed(line: &str, columns: &[usize], wanted: &Rename) -> Option<String> {
    let mut renamed = line.to_owned();
    let mut columns = columns.to_vec();
    columns.sort_unstable();
    for column in columns.into_iter().rev() {
        let (start, _) = renamed.char_indices().nth(column.checked_sub(1)?)?;
        let end = start + wanted.from.len();
        if renamed.get(start..end)? != wanted.from {
            return None;
        }
        renamed.replace_range(start..end, &wanted.to);
    }
    Some(renamed)
}

/// The end of the matter, with what is broken as the last round's judgement has it.
fn stuck(planning: &Planning<'_>, why: &str) -> Draft {
    let before = planning
        .sections
        .rounds()
        .last()
        .map(|round| round.reflection.clone())
        .unwrap_or_default();
    put_back::plan(
        planning,
        &format!("The change broke the project, and {why}, so there is nothing to repair it by.\n{before}"),
    )
}
