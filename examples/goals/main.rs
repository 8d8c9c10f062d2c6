//! Eight goals with scripted replies: the cost of each, compared with one plain conversation with the same calls and results.
//!
//! `cargo run --example goals -- [--record FOLDER] [--update] [GOAL…]`. The README in this folder describes the goals and how they are
//! counted.

mod goal;
mod plain;
mod play;
mod recorded;
mod replies;
mod table;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use goal::Goal;
use recorded::RecordedFigures;
use table::Row;

/// An error of any kind, for the person who runs the goals.
type AnyError = Box<dyn Error + Send + Sync>;

/// The command line arguments.
#[derive(Default)]
struct Arguments {
    /// The folder for the recordings; `None` for a temporary one.
    record: Option<PathBuf>,
    /// Whether to update the recorded figures.
    update: bool,
    /// The names of the goals to play; empty for all.
    names: Vec<String>,
}

impl Arguments {
    fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, AnyError> {
        let mut arguments = Arguments::default();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--record" => {
                    let folder = words.next().ok_or("--record needs the name of a folder")?;
                    arguments.record = Some(folder.into());
                }
                "--update" => arguments.update = true,
                option if option.starts_with('-') => {
                    return Err(format!("unknown option {option}: use --record FOLDER or --update").into());
                }
                _ => arguments.names.push(word),
            }
        }
        Ok(arguments)
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    match measure().await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Plays the goals and prints the table. Returns true if all were played as their scripts say, and all bounds hold.
async fn measure() -> Result<bool, AnyError> {
    let arguments = Arguments::parse(std::env::args().skip(1))?;
    let folder = tempfile::Builder::new().prefix("dirigent-goals-").tempdir()?;
    let recordings = arguments
        .record
        .unwrap_or_else(|| folder.path().join("recordings"));
    std::fs::create_dir_all(&recordings)?;
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("goals");
    let mut recorded = RecordedFigures::read(&all.join("figures.json"))?;
    let (mut rows, mut failed) = (Vec::new(), false);
    for goal in Goal::read_all(&all, &arguments.names)? {
        let home = folder.path().join(&goal.name);
        let recording = recordings.join(format!("{}.jsonl", goal.name));
        match play::play(&goal, &home, &recording).await {
            Ok(played) => {
                let mut row = Row::new(&goal, &played);
                if arguments.update {
                    recorded.set(&goal.name, row.figures());
                }
                row.compare(recorded.get(&goal.name));
                rows.push(row);
            }
            Err(error) => {
                failed = true;
                eprintln!("{}: {error}\n", goal.name);
            }
        }
    }
    print!("{}", table::table(&rows));
    if arguments.update {
        recorded.write()?;
    }
    Ok(!failed && rows.iter().all(Row::holds))
}
