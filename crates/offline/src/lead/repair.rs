//! Plans after a failed check of a rename: they rename the old name at the locations in the check's output, and nowhere else.
//!
//! A rename does not change strings, comments and files without a grammar. But code also occurs in some comments, such as documentation
//! tests, and in some files without a grammar; the check's output shows where. Strings are never changed, because they may mean something
//! else.

use std::collections::BTreeMap;

use dirigent_core::plan::SubTask;
use dirigent_core::prompt::ObservationLine;

use super::subtasks::{
    Draft, DraftOrCall, PlanningContext, agent_subtask, calls_subtask, confirmation_subtasks,
};
use super::undo;
use crate::code::{Code, is_in_string, words_outside_quotes};
use crate::conversation::Call;
use crate::file_kinds::FileKind;
use crate::goal::Rename;
use crate::location::{SourceLocation, failed_doc_tests, parse_locations};
use crate::outputs::{CommandOutput, MentionKind, ReadOutput, RenameOutput, SearchOutput};
use crate::prompt_sections::{PastSummaries, failed_call};
use crate::report::command_line;
use crate::sub_agent_task::SubAgentTask;
use crate::text::{enumerated, unique_block};
use crate::tools::{self, Pattern, planned_call};

/// Maximum number of files that one iteration repairs. The lead makes one call to read each file.
const FILES: usize = 5;

/// Occurrences of the old name to rename in a file: columns (in characters, from 1) by line.
type Targets = BTreeMap<u64, Vec<usize>>;

/// Plans edits of the lines in the failed check's output. If none of them can be edited, plans an undo.
pub(super) fn plan(context: &PlanningContext<'_>, goal: &Rename, check: &ObservationLine) -> DraftOrCall {
    let Rename { from, scope, .. } = goal;
    let Some((call, result)) = failed_call(check) else {
        return Ok(give_up(context, "the check failed without a result"));
    };
    let output = CommandOutput::from(&result).text;
    let mut subtasks = Vec::new();
    let mut locations = Vec::new();
    let mut paths = Vec::new();
    for file in files_to_repair(context, goal, &output)? {
        let result = context.conversation.result_of(tools::read(&file.path, None))?;
        let text = ReadOutput::from(&result).content;
        let targets = targets(&file, &text, &output, from);
        let edits = edits(&file.path, &text, &targets, goal);
        if !edits.is_empty() {
            let id = format!("repair-{}", subtasks.len() + 1);
            let title = format!("Rename {from} in comments or text of {}", file.path);
            let calls = edits.into_iter().map(planned_call).collect();
            subtasks.push(calls_subtask(&id, title, Vec::new(), calls));
            let lines = targets.keys();
            locations.extend(lines.map(|line| SourceLocation::new(&file.path, *line).to_string()));
            paths.push(file.path);
        }
    }
    if subtasks.is_empty() {
        let why =
            format!("the check's output does not point to any comment or text file with `{from}`{scope}");
        return Ok(give_up(context, &why));
    }
    let summary = format!(
        "`{}` fails after the rename, at lines that name `{from}` in text: {}. Rename it there too, and check again.",
        command_line(call),
        enumerated(&locations, 5),
    );
    let ids: Vec<_> = subtasks.iter().map(|subtask| subtask.id.clone()).collect();
    let checks = context.checks(&paths)?;
    subtasks.extend(confirmation_subtasks(ids, &checks, verify_subtask(goal)));
    Ok(Draft { summary, subtasks })
}

/// Returns the sub-task that verifies a rename.
pub(super) fn verify_subtask(goal: &Rename) -> SubTask {
    let title = format!("Verify that no usage of {} is left", goal.from);
    let Rename { from, to, scope } = goal.clone();
    let task = SubAgentTask::VerifyRenamed { from, to, scope };
    agent_subtask("verify", title, Vec::new(), "verify", &task)
}

/// A file that contains the old name.
struct RepairFile {
    path: String,
    /// Lines and columns of the name in comments; `None` for a file without a grammar.
    comments: Option<Vec<(u64, usize)>>,
}

/// Returns the files that contain the old name and that the output refers to.
fn files_to_repair(
    context: &PlanningContext<'_>,
    goal: &Rename,
    output: &str,
) -> Result<Vec<RepairFile>, Call> {
    let Rename { from, scope, .. } = goal;
    let mut named = parse_locations(output);
    named.extend(failed_doc_tests(output));
    let is_named = |path: &str| {
        named
            .iter()
            .any(|location| SourceLocation::new(path, location.line).is_same_line_as(location))
    };
    let found = context
        .conversation
        .result_of(tools::search(Pattern::Word(from), scope))?;
    let mut paths = SearchOutput::from(&found).within(scope).paths();
    paths.retain(|path| is_named(path));
    paths.truncate(FILES);
    if paths.is_empty() {
        return Ok(Vec::new());
    }
    let preview = context
        .conversation
        .result_of(tools::preview(from, None, scope))?;
    let mentions = RenameOutput::from(&preview).within(scope).mentions;
    let file = |path: String| {
        let in_comments = mentions
            .iter()
            .filter(|mention| mention.line.path == path && mention.kind == MentionKind::Comment)
            .map(|mention| (mention.line.line, mention.column));
        let has_grammar = FileKind::from_path(&path).is_some_and(FileKind::has_grammar);
        RepairFile {
            comments: has_grammar.then(|| in_comments.collect()),
            path,
        }
    };
    Ok(paths.into_iter().map(file).collect())
}

/// Returns the occurrences of the old name to rename in a file: on lines that the check's output names, or in the code of failed
/// documentation tests.
fn targets(file: &RepairFile, text: &str, output: &str, from: &str) -> Targets {
    let tests = doc_tests(file, text, output);
    let shown = parse_locations(output);
    let is_shown = |line: u64| {
        shown
            .iter()
            .any(|location| SourceLocation::new(&file.path, line).is_same_line_as(location))
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

/// Returns the code of the failed documentation tests in a file.
fn doc_tests<'a>(file: &RepairFile, text: &'a str, output: &str) -> Vec<Code<'a>> {
    failed_doc_tests(output)
        .into_iter()
        .filter(|start| SourceLocation::new(&file.path, start.line).is_same_line_as(start))
        .filter_map(|start| {
            let lines = || (1..).zip(text.lines()).filter(|(number, _)| *number > start.line);
            let (end, _) = lines().find(|(_, line)| line.contains("```"))?;
            Some(Code::new(lines().take_while(|(number, _)| *number < end)))
        })
        .collect()
}

/// Returns the edits that rename the identifier at the `targets` in a file. Each edit replaces a block that occurs only once in it.
fn edits(path: &str, text: &str, targets: &Targets, goal: &Rename) -> Vec<Call> {
    let mut text = text.to_owned();
    let mut edits = Vec::new();
    for (&line, columns) in targets {
        let edit = unique_block(&text, line, line).and_then(|old| {
            let before = text[..text.find(&old)?].matches('\n').count();
            // The edit changes only this line of the block.
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

/// Returns a line with the new name at these columns; `None` if the old name is not at one of them.
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

/// Plans an undo of the change. The reason ends with the last reflection, which describes the failure.
fn give_up(context: &PlanningContext<'_>, why: &str) -> Draft {
    let iterations = context.sections.iterations();
    let before = iterations.last().map_or("", PastSummaries::reflected);
    undo::plan(
        context,
        &format!("The change broke the project, and {why}, so no repair is possible.\n{before}"),
    )
}
