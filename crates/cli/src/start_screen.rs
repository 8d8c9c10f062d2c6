//! `dirigent` alone: what to do next. Without a terminal, that is the help.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::CommandFactory as _;
use console::style;
use dirigent::{Config, RunFilter, RunState};

use crate::args::Arguments;
use crate::config;
use crate::exit::Exit;
use crate::open::open_if_exists;
use crate::output::{Output, sanitize};
use crate::show::run_line;

/// The number of runs that are shown.
const RUNS: usize = 5;

pub(crate) async fn show(
    db: Option<PathBuf>,
    file: Option<PathBuf>,
    output: &Output,
) -> anyhow::Result<Exit> {
    if !output.is_interactive() {
        output.note(&Arguments::command().render_help().to_string());
        return Ok(Exit::Usage);
    }
    let config = config::load(file, None)?;
    let mut text = format!("{}\n", model(&config));
    if let Some(dirigent) = open_if_exists(db).await? {
        let here = Path::new(".").canonicalize()?;
        let filter = RunFilter::new().workspace(here.to_string_lossy()).limit(RUNS);
        let page = dirigent.runs(filter).await?;
        if !page.runs.is_empty() {
            let _ = writeln!(text, "\n{}", style("Last runs in this folder").bold());
        }
        for record in &page.runs {
            let _ = writeln!(text, "  {}", run_line(record));
        }
        let waits = |state| {
            page.runs
                .iter()
                .find(|record| RunState::from_record(record) == state)
        };
        if let Some(record) = waits(RunState::UserRequired).or(waits(RunState::Interrupted)) {
            let _ = writeln!(text, "  continue with: dirigent resume {}", record.run.short());
        }
    }
    text.push_str(&next_steps(&config));
    output.print(&text);
    Ok(Exit::Success)
}

/// Which model runs would use.
fn model(config: &Config) -> String {
    match config.model(config.default_model()) {
        Ok(model) if model.provider.is_some() => {
            format!("Dirigent asks {} ({}).", sanitize(&model.name), sanitize(model.display_url()))
        }
        _ => "Dirigent uses its offline model, which understands a small set of goals.\nChoose another: dirigent init".to_owned(),
    }
}

fn next_steps(config: &Config) -> String {
    let is_offline = config
        .model(config.default_model())
        .is_ok_and(|model| model.provider.is_none());
    let (goal, about) = match is_offline {
        true => (
            "rename parse_amount to parse_money",
            "rename a symbol, checked by the project's tests",
        ),
        false => ("add a test for the parser", "pursue a goal in this folder"),
    };
    let examples = [
        (format!("dirigent run \"{goal}\""), about),
        (
            "dirigent chat".to_owned(),
            "talk with the lead agent in this folder",
        ),
        ("dirigent demo".to_owned(), "see it work on a sample project"),
        ("dirigent doctor".to_owned(), "look for what could be wrong"),
        ("dirigent --help".to_owned(), "all commands"),
    ];
    let width = examples
        .iter()
        .map(|(command, _)| command.len())
        .max()
        .unwrap_or(0);
    let mut text = format!("\n{}\n", style("Try").bold());
    for (command, about) in examples {
        let _ = writeln!(text, "  {command:<width$}  {about}");
    }
    text
}
