//! `runs` and `show`: what the journal has.

use std::fmt::Write as _;
use std::path::PathBuf;

use console::style;
use dirigent::core::budget::BudgetKind;
use dirigent::{Detail, Dirigent, DirigentError, EndReason, FailureCause, Kept, RunId, RunRecord, RunView};
use serde_json::{Value, json};

use crate::args::{GraphForm, RunsCommand, ShowCommand};
use crate::exit::Exit;
use crate::kept::{kept_json, kept_line, kept_of};
use crate::output::{Output, inert};
use crate::replay::Record;
use crate::run::open_existing;
use crate::steer::waiting_lines;
use crate::steps::Steps;
use crate::time::local;
use crate::waits::{Waiting, Waits};

pub(crate) async fn runs(
    db: Option<PathBuf>,
    command: &RunsCommand,
    output: &Output,
) -> anyhow::Result<Exit> {
    let dirigent = open_existing(Dirigent::builder(), db).await?;
    let runs = tokio::task::block_in_place(|| dirigent.runs())?;
    let mut text = String::new();
    for record in runs.iter().take(command.limit) {
        let (waits, kept) = tokio::task::block_in_place(|| {
            Ok::<_, DirigentError>((waits_of(&dirigent, record)?, kept_of(&dirigent, record)?))
        })?;
        if command.json {
            let _ = writeln!(text, "{}", as_json(record, &waits, &kept));
        } else {
            let goal: String = inert(&record.goal)
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
            for waiting in waiting_in_short(&waits).into_iter().chain(kept_line(&kept)) {
                let _ = writeln!(text, "          {waiting}");
            }
        }
    }
    match (runs.len(), command.json) {
        (0, false) => output.note("no runs yet; start one with `dirigent run GOAL`, or try `dirigent demo`"),
        (all, false) if all > command.limit => {
            output.say(&text);
            output.note(&format!("{} more; see them with --limit", all - command.limit));
        }
        (0, true) => {}
        (_, _) => output.say(&text),
    }
    Ok(Exit::Success)
}

/// The word for machines and the one for people.
fn state(record: &RunRecord) -> (&'static str, &'static str) {
    let reason = record
        .status
        .as_deref()
        .and_then(|status| serde_json::from_str(status).ok());
    match (record.held_by, reason) {
        (Some(_), _) => ("running", "running"),
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

fn as_json(record: &RunRecord, waits: &Waits, kept: &[Kept]) -> Value {
    let mut object = json!({
        "run": record.run,
        "state": state(record).0,
        "goal": record.goal,
        "workspace": record.workspace,
        "created_at": record.created_at,
        "ended_at": record.ended_at,
        "held_by": record.held_by,
        "entries": record.entries,
        "forked_from": forked_from(record),
        "kept": kept_json(kept),
    });
    waits.add_to(&mut object);
    object
}

/// `{"run", "at"}`, or `null`.
fn forked_from(record: &RunRecord) -> Value {
    record
        .forked_from
        .map_or(Value::Null, |point| json!({"run": point.run, "at": point.seq}))
}

/// What waits for a run's user. Of a run that is over nothing does, so that it is not read.
fn waits_of(dirigent: &Dirigent, record: &RunRecord) -> Result<Waits, DirigentError> {
    match state(record).0 {
        "running" | "interrupted" | "user_required" => Ok(Waits::of(&dirigent.read(record.run)?.0)),
        _ => Ok(Waits::default()),
    }
}

/// What waits, each in a line.
fn waiting_in_short(waits: &Waits) -> Vec<String> {
    let call = |waiting: &Waiting| {
        let approval = &waiting.call.approval;
        format!("! {} {} {}", approval.effect, approval.tool, approval.parameters)
    };
    let question = waits
        .question
        .iter()
        .map(|(_, question)| format!("? {}", question.question));
    let lines = waits.calls.iter().map(call).chain(question);
    let one_line = |line: String| {
        let line = inert(&line).replace(['\n', '\t'], " ");
        console::truncate_str(&line, 90, "…").into_owned()
    };
    lines.map(one_line).collect()
}

pub(crate) async fn show(
    db: Option<PathBuf>,
    command: &ShowCommand,
    output: &Output,
) -> anyhow::Result<Exit> {
    let file = Record::to(command.record.as_ref())?;
    let dirigent = open_existing(Dirigent::builder(), db).await?;
    if command.steps {
        return steps(&dirigent, command, output);
    }
    if command.record.is_some() {
        let run = tokio::task::block_in_place(|| dirigent.find(&command.run))?;
        file.write(&dirigent, run, output)?;
        return Ok(Exit::Success);
    }
    let (record, (view, _), kept) = tokio::task::block_in_place(|| {
        let run = dirigent.find(&command.run)?;
        let record = dirigent.record(run)?;
        let kept = kept_of(&dirigent, &record)?;
        Ok::<_, DirigentError>((record, dirigent.read(run)?, kept))
    })?;
    let run = record.run;
    let machine = view.run();
    let graphs = |form: GraphForm| {
        machine.rounds().iter().map(move |round| match form {
            GraphForm::Mermaid => round.graph.mermaid(),
            GraphForm::Dot => round.graph.dot(),
            GraphForm::Tree => round.graph.tree(),
        })
    };
    match (command.graph, command.json) {
        (Some(form), true) => output.say(&json!(graphs(form).collect::<Vec<_>>()).to_string()),
        (Some(form), false) => {
            let graphs: Vec<String> = graphs(form).collect();
            if graphs.is_empty() {
                output.note("this run has no plan");
            }
            output.say(&inert(&graphs.join("\n")));
        }
        (None, true) => {
            let mut report = serde_json::to_value(view.report())?;
            report["run"] = json!(run);
            report["forked_from"] = forked_from(&record);
            report["kept"] = kept_json(&kept);
            output.say(&report.to_string());
        }
        (None, false) => {
            let goal = machine.spec().map(|spec| inert(&spec.goal)).unwrap_or_default();
            let origin = record.forked_from.map_or_else(String::new, |point| {
                format!("forked from {} at entry {}\n", point.run.short(), point.seq)
            });
            output.say(&format!(
                "run {run}\n{origin}goal: {goal}\n{}",
                summary(&view, run, detail(command.verbose))
            ));
            if machine.end().is_none() {
                output.say(&unfinished(&record));
            }
            if let Some(line) = kept_line(&kept) {
                output.say(&line);
            }
            let used = view.account().render(detail(command.verbose));
            if !used.is_empty() {
                output.say(&format!("\n{}", inert(&used)));
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
            output.say(&step.to_string());
        }
    } else {
        output.say(&steps.text());
    }
    Ok(Exit::Success)
}

/// What is to be known of a run that has not ended.
fn unfinished(record: &RunRecord) -> String {
    match record.held_by {
        Some(pid) => format!("It is under way in process {pid}."),
        None => format!(
            "It was interrupted. Go on with `dirigent resume {}`.",
            record.run.short()
        ),
    }
}

pub(crate) fn detail(verbose: bool) -> Detail {
    if verbose { Detail::Verbose } else { Detail::Concise }
}

/// What a person reads of a run: the concise summary, or every step with what was said; and the command to go on with.
pub(crate) fn summary(view: &RunView, run: RunId, detail: Detail) -> String {
    let report = view.report();
    let mut text = report.render(detail);
    match detail {
        Detail::Concise => {}
        Detail::Verbose => {
            let _ = write!(text, "\nWhat was said:\n{}", view.transcripts());
        }
    }
    let mut text = inert(&text);
    let mut waits = Waits::of(view);
    let next = report.end.as_ref().and_then(|end| next_command(run, end, &waits));
    if report.end.is_some() {
        // The report has it.
        waits.question = None;
    }
    let mut more = waiting_lines(run, &waits);
    more.extend(next.map(|command| format!("  {command}")));
    if !more.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    for line in more {
        let _ = writeln!(text, "{line}");
    }
    text
}

/// The command with which a run that stopped goes on, or another one does in its place.
fn next_command(run: RunId, end: &EndReason, waits: &Waits) -> Option<String> {
    let resume = |more: &str| format!("dirigent resume {} {more}", run.short());
    match end {
        EndReason::UserRequired if !waits.calls.is_empty() => {
            Some(format!("dirigent resume {}", run.short()))
        }
        EndReason::UserRequired => Some(format!("dirigent resume {} --answer \"…\"", run.short())),
        EndReason::IterationLimit { .. } => Some(resume("--max-iterations N")),
        EndReason::TimeLimit => Some(resume("--timeout TIME")),
        EndReason::BudgetExhausted { budget, .. } => Some(resume(match budget {
            BudgetKind::Tokens => "--max-tokens N",
            BudgetKind::Cost => "--max-cost DOLLARS",
            BudgetKind::ModelCalls => "--max-model-calls N",
        })),
        EndReason::Failed { cause, .. } => match cause {
            FailureCause::ModelUnavailable | FailureCause::AgentLimit => {
                Some(format!("dirigent resume {}", run.short()))
            }
            FailureCause::Unrecoverable => Some(format!("dirigent fork {}", run.short())),
        },
        EndReason::GoalAchieved | EndReason::Cancelled => None,
    }
}
