//! `runs` and `show`: the runs of the journal.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use console::style;
use dirigent::{
    Dirigent, DirigentError, PendingMessage, RunFilter, RunPage, RunRecord, RunState, RunView, render,
};
use serde_json::{Value, json};

use crate::args::{GraphForm, RunsCommand, ShowCommand, Since};
use crate::exit::Exit;
use crate::open::{open_if_created, open_reading};
use crate::output::{Output, sanitize};
use crate::pending_messages::{load_pending_messages, pending_messages_json, pending_messages_line};
use crate::pending_requests::PendingRequests;
use crate::replay::RecordingFile;
use crate::request_text::request_summaries;
use crate::steps::Steps;
use crate::summary::{detail, summary};
use crate::time::local;
use crate::worktree;

pub(crate) async fn runs(
    db: Option<PathBuf>,
    command: &RunsCommand,
    output: &Output,
) -> anyhow::Result<Exit> {
    let Some(dirigent) = open_if_created(db).await? else {
        note_no_runs(command, output);
        return Ok(Exit::Success);
    };
    let RunPage { runs, total, next } = dirigent.runs(filter(command, &dirigent).await?).await?;
    let mut text = String::new();
    for record in &runs {
        let read = pending_work(&dirigent, record).await;
        // A run that cannot be read must not hide the others.
        let unreadable = read
            .as_ref()
            .err()
            .map(|error| format!("it cannot be read: {error}"));
        let problem = record.problem.clone().or(unreadable);
        let (requests, messages) = read.unwrap_or_default();
        let worktree = dirigent.worktree_folder(record);
        if command.json {
            let object = as_json(
                record,
                &requests,
                &messages,
                problem.as_deref(),
                worktree.as_deref(),
            );
            let _ = writeln!(text, "{object}");
        } else {
            let _ = writeln!(text, "{}", run_line(record));
            let damage = problem.map(|problem| format!("problem: {problem}"));
            let worktree = worktree.map(|folder| sanitize(&format!("worktree: {}", folder.display())));
            for line in damage
                .into_iter()
                .chain(worktree)
                .chain(request_summaries(&requests))
                .chain(pending_messages_line(&messages))
            {
                let _ = writeln!(text, "          {line}");
            }
        }
    }
    if runs.is_empty() {
        note_no_runs(command, output);
        return Ok(Exit::Success);
    }
    output.print(&text);
    if let Some(next) = next.filter(|_| !command.json) {
        output.note(&format!(
            "{} of {total} runs; add --after {} for the next ones, or raise --limit",
            runs.len(),
            next.short()
        ));
    }
    Ok(Exit::Success)
}

/// A run with its id, time, state and goal, in one line.
pub(crate) fn run_line(record: &RunRecord) -> String {
    let goal = sanitize(&record.goal);
    let goal: String = goal.lines().next().unwrap_or_default().chars().take(80).collect();
    let state = style(format!("{:<12}", state_text(record))).bold();
    format!(
        "{}  {}  {state}  {goal}",
        record.run.short(),
        local(record.created_at)
    )
}

/// The runs that the options select.
async fn filter(command: &RunsCommand, dirigent: &Dirigent) -> Result<RunFilter, DirigentError> {
    let mut filter = RunFilter::new().limit(command.limit);
    for state in &command.state {
        filter = filter.state(*state);
    }
    if let Some(folder) = &command.workspace {
        // A folder that no longer exists may still have runs.
        let folder = folder.canonicalize().unwrap_or_else(|_| folder.clone());
        filter = filter.workspace(folder.to_string_lossy());
    }
    if let Some(text) = &command.search {
        filter = filter.text(text);
    }
    if let Some(at) = command.since.and_then(Since::moment) {
        filter = filter.created_after(at);
    }
    match &command.after {
        Some(run) => Ok(filter.after(dirigent.find(run).await?)),
        None => Ok(filter),
    }
}

fn note_no_runs(command: &RunsCommand, output: &Output) {
    if command.json {
        return;
    }
    if command.is_filtered() {
        output.note("no such runs; see all with `dirigent runs`");
    } else {
        output.note("no runs yet; start one with `dirigent run GOAL`, or try `dirigent demo`");
    }
}

/// The run's state as text for the user.
fn state_text(record: &RunRecord) -> &'static str {
    match RunState::from_record(record) {
        RunState::NeverBegan => "never began",
        RunState::GoalAchieved => "achieved",
        RunState::IterationLimit | RunState::TimeLimit | RunState::BudgetExhausted => "limit",
        RunState::UserRequired => "needs you",
        other => other.name(),
    }
}

fn as_json(
    record: &RunRecord,
    requests: &PendingRequests,
    messages: &[PendingMessage],
    problem: Option<&str>,
    worktree: Option<&Path>,
) -> Value {
    let mut object = render::run_record(record);
    object["worktree"] = json!(worktree);
    object["pending_messages"] = pending_messages_json(messages);
    object["problem"] = json!(problem);
    requests.add_to_json(&mut object);
    object
}

/// The run's pending requests and messages.
async fn pending_work(
    dirigent: &Dirigent,
    record: &RunRecord,
) -> Result<(PendingRequests, Vec<PendingMessage>), DirigentError> {
    Ok((
        pending_requests(dirigent, record).await?,
        load_pending_messages(dirigent, record).await?,
    ))
}

/// Returns the run's pending requests. A run that has ended and is not waiting for the user has none, so its journal is not read.
async fn pending_requests(dirigent: &Dirigent, record: &RunRecord) -> Result<PendingRequests, DirigentError> {
    match RunState::from_record(record) {
        RunState::Running | RunState::Interrupted | RunState::UserRequired => {
            Ok(PendingRequests::from_view(&dirigent.read(record.run).await?.0))
        }
        _ => Ok(PendingRequests::default()),
    }
}

pub(crate) async fn show(
    db: Option<PathBuf>,
    command: &ShowCommand,
    output: &Output,
) -> anyhow::Result<Exit> {
    let file = RecordingFile::create(command.record.as_ref()).await?;
    let dirigent = open_reading(db).await?;
    if command.steps {
        return steps(&dirigent, command, output).await;
    }
    if command.record.is_some() {
        let run = dirigent.find(&command.run).await?;
        file.write(&dirigent, run, output).await?;
        return Ok(Exit::Success);
    }
    let run = dirigent.find(&command.run).await?;
    let record = dirigent.record(run).await?;
    let messages = load_pending_messages(&dirigent, &record).await?;
    let (view, _) = dirigent.read(run).await?;
    let machine = view.run();
    let graphs = |form: GraphForm| {
        machine.iterations().iter().map(move |iteration| match form {
            GraphForm::Mermaid => render::mermaid(&iteration.graph),
            GraphForm::Dot => render::dot(&iteration.graph),
            GraphForm::Tree => render::tree(&iteration.graph),
        })
    };
    match (command.graph, command.json) {
        (Some(form), true) => output.print(&json!(graphs(form).collect::<Vec<_>>()).to_string()),
        (Some(form), false) => {
            let graphs: Vec<String> = graphs(form).collect();
            if graphs.is_empty() {
                output.note("this run has no plan");
            }
            output.print(&sanitize(&graphs.join("\n")));
        }
        (None, true) => output.print(&report_json(&dirigent, &record, &view).await?.to_string()),
        (None, false) => {
            let goal = sanitize(&machine.spec().goal);
            let origin = record.forked_from.map_or_else(String::new, |point| {
                format!("forked from {} at entry {}\n", point.run.short(), point.seq)
            });
            let started_with = match command.verbose {
                true => format!("{}{}", intent(&view), instructions(&view)),
                false => String::new(),
            };
            output.print(&format!(
                "run {run}\n{origin}goal: {goal}\n{started_with}{}",
                summary(&view, run, detail(command.verbose))
            ));
            if machine.end().is_none() {
                output.print(&unfinished(&record));
            }
            if let Some(line) = pending_messages_line(&messages) {
                output.print(&line);
            }
            if let Some(folder) = dirigent.worktree_folder(&record) {
                output.print(&worktree::kept_text(&folder, run));
            }
            let used = render::usage(&view.usage_report(), detail(command.verbose));
            if !used.is_empty() {
                output.print(&format!("\n{}", sanitize(&used)));
            }
        }
    }
    Ok(Exit::Success)
}

/// The JSON form of a run's report.
pub(crate) async fn report_json(
    dirigent: &Dirigent,
    record: &RunRecord,
    view: &RunView,
) -> anyhow::Result<Value> {
    let messages = load_pending_messages(dirigent, record).await?;
    let mut report = serde_json::to_value(view.report())?;
    report["run"] = json!(record.run);
    report["forked_from"] = render::fork_point(record);
    report["worktree"] = json!(dirigent.worktree_folder(record));
    report["pending_messages"] = pending_messages_json(&messages);
    Ok(report)
}

/// Returns a line with the classification of the turn's message and the reason for it; empty if the message was not
/// classified.
fn intent(view: &RunView) -> String {
    let turn = view.run().spec().turn.as_ref();
    match turn.and_then(|turn| turn.intent.as_ref()) {
        Some(intent) => format!("intent: {}\n", sanitize(&intent.to_string())),
        None => String::new(),
    }
}

/// Returns a line with the files of the project's instructions that the agents were given; empty if there were none.
fn instructions(view: &RunView) -> String {
    let project = view.run().spec().project.as_ref();
    let files = project.map_or(&[][..], |project| &project.instructions.files);
    let files: Vec<String> = files
        .iter()
        .map(|file| format!("{} ({} bytes)", sanitize(&file.path), file.text.len()))
        .collect();
    match files.as_slice() {
        [] => String::new(),
        files => format!("instructions: {}\n", files.join(", ")),
    }
}

async fn steps(dirigent: &Dirigent, command: &ShowCommand, output: &Output) -> anyhow::Result<Exit> {
    let run = dirigent.find(&command.run).await?;
    let (_, events) = dirigent.read(run).await?;
    let recording = dirigent.recording(run).await?;
    let steps = Steps::new(recording.entries(), &events);
    if command.json {
        for step in steps.as_json() {
            output.print(&step.to_string());
        }
    } else {
        output.print(&steps.text());
    }
    Ok(Exit::Success)
}

/// Returns a line that says whether a run that has not ended is active or was interrupted.
fn unfinished(record: &RunRecord) -> String {
    match record.owner_pid {
        Some(pid) => format!("It is running in process {pid}."),
        None => format!(
            "It was interrupted; continue it with `dirigent resume {}`.",
            record.run.short()
        ),
    }
}
