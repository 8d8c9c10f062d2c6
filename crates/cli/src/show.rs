//! `runs` and `show`: the runs of the journal.

use std::fmt::Write as _;
use std::path::PathBuf;

use console::style;
use dirigent::{Dirigent, DirigentError, EndReason, PendingMessage, RunRecord, StoreError, render};
use serde_json::{Value, json};

use crate::args::{GraphForm, RunsCommand, ShowCommand};
use crate::exit::Exit;
use crate::open::open_reading;
use crate::output::{Output, sanitize};
use crate::pending_messages::{load_pending_messages, pending_messages_json, pending_messages_line};
use crate::pending_requests::PendingRequests;
use crate::replay::RecordingFile;
use crate::request_text::request_summaries;
use crate::steps::Steps;
use crate::summary::{detail, summary};
use crate::time::local;

pub(crate) async fn runs(
    db: Option<PathBuf>,
    command: &RunsCommand,
    output: &Output,
) -> anyhow::Result<Exit> {
    let is_default = db.is_none();
    let dirigent = match open_reading(db).await {
        Ok(dirigent) => dirigent,
        // The first run creates the default journal.
        Err(error) if is_default && matches!(error.store_error(), Some(StoreError::Missing { .. })) => {
            note_no_runs(command, output);
            return Ok(Exit::Success);
        }
        Err(error) => return Err(error.into()),
    };
    let runs = tokio::task::block_in_place(|| dirigent.runs())?;
    let mut text = String::new();
    for record in runs.iter().take(command.limit) {
        let read = tokio::task::block_in_place(|| {
            Ok::<_, DirigentError>((
                pending_requests(&dirigent, record)?,
                load_pending_messages(&dirigent, record)?,
            ))
        });
        // A run that cannot be read does not hide the others.
        let unreadable = read
            .as_ref()
            .err()
            .map(|error| format!("it cannot be read: {error}"));
        let problem = record.problem.clone().or(unreadable);
        let (requests, messages) = read.unwrap_or_default();
        if command.json {
            let _ = writeln!(
                text,
                "{}",
                as_json(record, &requests, &messages, problem.as_deref())
            );
        } else {
            let goal: String = sanitize(&record.goal)
                .lines()
                .next()
                .unwrap_or_default()
                .chars()
                .take(80)
                .collect();
            let state = style(format!("{:<12}", state(record).1)).bold();
            let _ = writeln!(
                text,
                "{}  {}  {state}  {goal}",
                record.run.short(),
                local(record.created_at)
            );
            let damage = problem.map(|problem| format!("problem: {problem}"));
            for line in damage
                .into_iter()
                .chain(request_summaries(&requests))
                .chain(pending_messages_line(&messages))
            {
                let _ = writeln!(text, "          {line}");
            }
        }
    }
    match (runs.len(), command.json) {
        (0, _) => note_no_runs(command, output),
        (all, false) if all > command.limit => {
            output.print(&text);
            output.note(&format!("{} more; see them with --limit", all - command.limit));
        }
        (_, _) => output.print(&text),
    }
    Ok(Exit::Success)
}

fn note_no_runs(command: &RunsCommand, output: &Output) {
    if !command.json {
        output.note("no runs yet; start one with `dirigent run GOAL`, or try `dirigent demo`");
    }
}

/// The run's state: the name in JSON, and the text for the user.
fn state(record: &RunRecord) -> (&'static str, &'static str) {
    let reason = record
        .status
        .as_deref()
        .and_then(|status| serde_json::from_str(status).ok());
    match (record.owner_pid, reason) {
        (Some(_), _) => ("running", "running"),
        (None, None) if record.entries == 0 => ("never_began", "never began"),
        (None, None) => ("interrupted", "interrupted"),
        (None, Some(EndReason::GoalAchieved)) => ("goal_achieved", "achieved"),
        (None, Some(EndReason::IterationLimit { .. })) => ("iteration_limit", "limit"),
        (None, Some(EndReason::TimeLimit)) => ("time_limit", "limit"),
        (None, Some(EndReason::BudgetExhausted { .. })) => ("budget_exhausted", "limit"),
        (None, Some(EndReason::UserRequired)) => ("user_required", "needs you"),
        (None, Some(EndReason::Cancelled)) => ("cancelled", "cancelled"),
        (None, Some(EndReason::Failed { .. })) => ("failed", "failed"),
    }
}

fn as_json(
    record: &RunRecord,
    requests: &PendingRequests,
    messages: &[PendingMessage],
    problem: Option<&str>,
) -> Value {
    let mut object = json!({
        "run": record.run,
        "state": state(record).0,
        "goal": record.goal,
        "workspace": record.workspace,
        "created_at": record.created_at,
        "ended_at": record.ended_at,
        "owner_pid": record.owner_pid,
        "entries": record.entries,
        "forked_from": forked_from(record),
        "pending_messages": pending_messages_json(messages),
        "problem": problem,
    });
    requests.add_to_json(&mut object);
    object
}

/// The JSON object `{"run", "at"}`; `null` if the run is not a fork.
fn forked_from(record: &RunRecord) -> Value {
    record
        .forked_from
        .map_or(Value::Null, |point| json!({"run": point.run, "at": point.seq}))
}

/// The run's pending requests. A run that has ended and does not wait for the user has none, so its journal is not read.
fn pending_requests(dirigent: &Dirigent, record: &RunRecord) -> Result<PendingRequests, DirigentError> {
    match state(record).0 {
        "running" | "interrupted" | "user_required" => {
            Ok(PendingRequests::from_view(&dirigent.read(record.run)?.0))
        }
        _ => Ok(PendingRequests::default()),
    }
}

pub(crate) async fn show(
    db: Option<PathBuf>,
    command: &ShowCommand,
    output: &Output,
) -> anyhow::Result<Exit> {
    let file = RecordingFile::create(command.record.as_ref())?;
    let dirigent = open_reading(db).await?;
    if command.steps {
        return steps(&dirigent, command, output);
    }
    if command.record.is_some() {
        let run = tokio::task::block_in_place(|| dirigent.find(&command.run))?;
        file.write(&dirigent, run, output)?;
        return Ok(Exit::Success);
    }
    let (record, (view, _), messages) = tokio::task::block_in_place(|| {
        let run = dirigent.find(&command.run)?;
        let record = dirigent.record(run)?;
        let messages = load_pending_messages(&dirigent, &record)?;
        Ok::<_, DirigentError>((record, dirigent.read(run)?, messages))
    })?;
    let run = record.run;
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
        (None, true) => {
            let mut report = serde_json::to_value(view.report())?;
            report["run"] = json!(run);
            report["forked_from"] = forked_from(&record);
            report["pending_messages"] = pending_messages_json(&messages);
            output.print(&report.to_string());
        }
        (None, false) => {
            let goal = sanitize(&machine.spec().goal);
            let origin = record.forked_from.map_or_else(String::new, |point| {
                format!("forked from {} at entry {}\n", point.run.short(), point.seq)
            });
            output.print(&format!(
                "run {run}\n{origin}goal: {goal}\n{}",
                summary(&view, run, detail(command.verbose))
            ));
            if machine.end().is_none() {
                output.print(&unfinished(&record));
            }
            if let Some(line) = pending_messages_line(&messages) {
                output.print(&line);
            }
            let used = render::usage(&view.usage_report(), detail(command.verbose));
            if !used.is_empty() {
                output.print(&format!("\n{}", sanitize(&used)));
            }
        }
    }
    Ok(Exit::Success)
}

fn steps(dirigent: &Dirigent, command: &ShowCommand, output: &Output) -> anyhow::Result<Exit> {
    let (recording, events) = tokio::task::block_in_place(|| {
        let run = dirigent.find(&command.run)?;
        let (_, events) = dirigent.read(run)?;
        Ok::<_, DirigentError>((dirigent.recording(run)?, events))
    })?;
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

/// Returns a line that says whether a run without an end is active or was interrupted.
fn unfinished(record: &RunRecord) -> String {
    match record.owner_pid {
        Some(pid) => format!("It is running in process {pid}."),
        None => format!(
            "It was interrupted; continue it with `dirigent resume {}`.",
            record.run.short()
        ),
    }
}
