//! Reads the net diff of a run for its reflector (PAOR-6). All functions block on disk IO.

use std::path::Path;

use dirigent_core::id::RunId;
use dirigent_core::journal::{Entry, Input};
use dirigent_core::run::RunInput;
use dirigent_core::run_diff::{DiffedFile, NumberedCommands, ReflectorDiff};
use dirigent_core::undo::UndoPlan;
use dirigent_core::view::RunView;

use crate::change_diffs::{FileDiff, NetDiff, net_diffs};
use crate::error::RuntimeError;
use crate::journal_reader::read_entries;
use crate::run_log::RunLog;

/// Reads the net change of a run so far, for its reflector. A failure is reported in the result.
pub(crate) fn read_diff(journal: &dyn RunLog, run: RunId) -> ReflectorDiff {
    let read = read_entries(journal, run).map_err(RuntimeError::from);
    match read.and_then(|entries| diffs_of_entries(journal, run, &entries)) {
        Ok(diffs) => ReflectorDiff::bounded(diffs.into_iter().map(diffed_file).collect()),
        Err(error) => ReflectorDiff::unreadable(error.to_string()),
    }
}

fn diffed_file(net: NetDiff) -> DiffedFile {
    let FileDiff { path, kind, diff, .. } = net.file;
    DiffedFile::new(path, kind, String::from_utf8_lossy(&diff).into_owned())
        .during(net.during, net.by_file_tools)
}

/// Joins the diffs into one text. It begins with the commands that ran while files changed, if there are any.
fn whole(diffs: Vec<NetDiff>) -> String {
    let files: Vec<DiffedFile> = diffs.into_iter().map(diffed_file).collect();
    let commands = NumberedCommands::new(&files);
    let mut text = String::new();
    for (index, line) in commands.lines().iter().enumerate() {
        if index == 0 {
            text.push_str("# Commands, during which they or something else changed files:\n");
        }
        text.push_str(&format!("# {line}\n"));
    }
    for file in &files {
        if let Some(title) = commands.title(file) {
            text.push_str(&format!("{title}\n"));
        }
        text.push_str(file.diff.as_deref().unwrap_or_default());
    }
    text
}

/// Reads the complete diff that the reflector of an iteration received in shortened form; `None` if the
/// reflector received no diff. If the workspace no longer has the content of a file, the file's individual
/// changes are returned instead of its net diff.
pub(crate) fn diff_of_iteration(
    journal: &dyn RunLog,
    run: RunId,
    iteration: u32,
) -> Result<Option<String>, RuntimeError> {
    let mut entries = read_entries(journal, run)?;
    let Some(last) = last_diff_of(run, iteration, &entries)? else {
        return Ok(None);
    };
    entries.retain(|entry| entry.seq <= last);
    Ok(Some(whole(diffs_of_entries(journal, run, &entries)?)))
}

/// Reads the whole net diff of a run until now; if there is none, returns a text that says so.
pub(crate) fn diff_until_now(journal: &dyn RunLog, run: RunId) -> Result<String, RuntimeError> {
    let diffs = diffs_of_entries(journal, run, &read_entries(journal, run)?)?;
    Ok(match diffs.is_empty() {
        true => "The run has changed no files so far.".to_owned(),
        false => whole(diffs),
    })
}

/// Returns the number of the last entry with a diff for the reflector of this iteration.
fn last_diff_of(run: RunId, iteration: u32, entries: &[Entry]) -> Result<Option<u64>, RuntimeError> {
    let (mut view, mut last): (Option<RunView>, _) = (None, None);
    for entry in entries {
        let seq = entry.seq;
        let refused = |refusal| RuntimeError::Replay { run, seq, refusal };
        match &mut view {
            None => view = Some(RunView::start(entry.clone()).map_err(refused)?.0),
            Some(view) => {
                view.apply(entry.clone()).map_err(refused)?;
                if matches!(entry.input, Input::Run(RunInput::DiffRead { .. }))
                    && view.run().iteration_in_conversation(view.run().iteration()) == iteration
                {
                    last = Some(seq);
                }
            }
        }
    }
    Ok(last)
}

fn diffs_of_entries(
    journal: &dyn RunLog,
    run: RunId,
    entries: &[Entry],
) -> Result<Vec<NetDiff>, RuntimeError> {
    let plan = UndoPlan::from_entries(entries, 0);
    let mut unreported = journal.originals(run)?;
    unreported.retain(|original| plan.is_unreported(original.effect, &original.path, &original.version));
    let workspace = journal.run(run)?.workspace;
    net_diffs(journal, Path::new(&workspace), entries, &unreported)
}
