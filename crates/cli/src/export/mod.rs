//! `export`: a run as one document, to keep or to send to somebody who has no journal. Its texts come from models, tools and files, so each
//! form escapes them.

mod html;
mod markdown;

use std::path::PathBuf;

use dirigent::{Detail, Report, RunDiff, RunRecord, RunState, RunView, render};

use crate::args::{ExportForm, ExportRunCommand};
use crate::exit::Exit;
use crate::open::open_reading;
use crate::output::{Output, sanitize};
use crate::show::report_json;
use crate::time::local;

pub(crate) async fn export(
    db: Option<PathBuf>,
    command: &ExportRunCommand,
    output: &Output,
) -> anyhow::Result<Exit> {
    let dirigent = open_reading(db).await?;
    let run = dirigent.find(&command.run).await?;
    let record = dirigent.record(run).await?;
    let (view, _) = dirigent.read(run).await?;
    let diff = dirigent.diff(run, None).await?;
    let document = || Document::new(&view, &record, &diff);
    output.print(&match command.format {
        ExportForm::Md => markdown::write(&document()),
        ExportForm::Html => html::write(&document()),
        ExportForm::Json => {
            let mut report = report_json(&dirigent, &record, &view).await?;
            report["graphs"] = view
                .run()
                .iterations()
                .iter()
                .map(|one| render::mermaid(&one.graph))
                .collect();
            report["diff"] = String::from_utf8_lossy(&diff.bytes()).into();
            report.to_string()
        }
    });
    Ok(Exit::Success)
}

/// A run as a document. The texts contain no control characters.
struct Document {
    goal: String,
    facts: Vec<(&'static str, String)>,
    blocks: Vec<Block>,
}

enum Block {
    Heading(&'static str),
    /// Markdown that a model wrote for the user.
    Written(String),
    /// A plan as a graph, in the forms of Mermaid and of plain text.
    Graph {
        mermaid: String,
        tree: String,
    },
    Diff(String),
    /// Text with line breaks and columns.
    Plain(String),
}

impl Document {
    fn new(view: &RunView, record: &RunRecord, diff: &RunDiff) -> Self {
        let report = view.report();
        let mut blocks = vec![Block::Heading("Outcome")];
        blocks.extend(answer(&report).map(Block::Written));
        let iterations = view.run().iterations();
        if !iterations.is_empty() {
            blocks.push(Block::Heading("Plan"));
        }
        blocks.extend(iterations.iter().map(|one| Block::Graph {
            mermaid: sanitize(&render::mermaid(&one.graph)),
            tree: sanitize(&render::tree(&one.graph)),
        }));
        let steps = render::report(&report, Detail::Verbose);
        blocks.extend([Block::Heading("Steps"), Block::Plain(sanitize(&steps))]);
        let bytes = diff.bytes();
        if !bytes.is_empty() {
            let diff = sanitize(&String::from_utf8_lossy(&bytes));
            blocks.extend([Block::Heading("Changes"), Block::Diff(diff)]);
        }
        let used = render::usage(&view.usage_report(), Detail::Verbose);
        if !used.is_empty() {
            blocks.extend([Block::Heading("Usage and costs"), Block::Plain(sanitize(&used))]);
        }
        Document {
            goal: sanitize(&report.goal),
            facts: facts(record, &report),
            blocks,
        }
    }
}

/// The lead's answer, or the summary of what was done; `None` if the run has neither.
fn answer(report: &Report) -> Option<String> {
    let text = report.answer.as_ref().unwrap_or(&report.summary);
    (!text.trim().is_empty()).then(|| sanitize(text.trim()))
}

fn facts(record: &RunRecord, report: &Report) -> Vec<(&'static str, String)> {
    let mut facts = vec![
        ("run", record.run.to_string()),
        ("state", RunState::from_record(record).name().replace('_', " ")),
        ("folder", sanitize(&record.workspace)),
        ("began", local(record.created_at)),
    ];
    facts.extend(record.ended_at.map(|at| ("ended", local(at))));
    facts.extend([
        ("iterations", report.iteration_count.to_string()),
        ("model calls", report.usage.model_calls.to_string()),
        ("tool calls", report.usage.tool_calls.to_string()),
        ("tokens", report.usage.tokens().to_string()),
    ]);
    // A cost of zero means that no price is known.
    if !report.usage.cost.is_zero() {
        facts.push(("cost", report.usage.cost.to_string()));
    }
    facts
}
