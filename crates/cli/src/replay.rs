//! `--record` and `--replay`: recordings of runs (HOST-9).

use std::path::{Path, PathBuf};

use dirigent::{Dirigent, DirigentError, Goal, OfflineModel, RunId};

use crate::args::{RunCommand, WatchOptions};
use crate::config;
use crate::exit::Exit;
use crate::interactive::HistoryCursor;
use crate::open::build;
use crate::output::Output;
use crate::signals::ShutdownSignals;
use crate::watch::watch;

/// The file of `--record`, if given. It is checked before the run starts, to fail early if it cannot be written.
pub(crate) struct RecordingFile<'a>(Option<&'a Path>);

impl<'a> RecordingFile<'a> {
    pub(crate) async fn create(file: Option<&'a PathBuf>) -> Result<Self, DirigentError> {
        let file = file.map(PathBuf::as_path);
        if let Some(file) = file {
            dirigent::check_recording_file(file).await?;
        }
        Ok(RecordingFile(file))
    }

    /// Writes the run's journal as a recording.
    pub(crate) async fn write(self, dirigent: &Dirigent, run: RunId, output: &Output) -> anyhow::Result<()> {
        let Some(file) = self.0 else { return Ok(()) };
        let written = match dirigent.recording(run).await {
            Ok(recording) => dirigent::write_recording(file, recording).await,
            Err(error) => Err(error),
        };
        written.map_err(|error| {
            // Converted to text, so that the exit code is 1 and not the code for bad usage: the file was writable when the run started.
            anyhow::anyhow!(
                "cannot write the recording: {error}; the run itself is in the journal: write its recording with \
                 `dirigent show {} --record FILE`",
                run.short()
            )
        })?;
        output.note(&format!(
            "Recorded in {file}; replay it with `dirigent run --replay {file}`.",
            file = file.display()
        ));
        Ok(())
    }
}

/// Replays a recorded run without any model or tools.
pub(crate) async fn replay(
    db: Option<PathBuf>,
    file: Option<PathBuf>,
    recording: &Path,
    command: &RunCommand,
    output: &Output,
) -> anyhow::Result<Exit> {
    let recording = dirigent::read_recording(recording).await?;
    let goal = match &command.goal {
        Some(text) => Goal::from_recording(&recording).text(text),
        None => Goal::from_recording(&recording),
    };
    let config = config::load(file, None)?;
    // Agents and approvals come from the configuration; no model is asked.
    let builder = Dirigent::builder().config(&config).model(OfflineModel);
    let dirigent = build(builder, db).await?;
    let run = dirigent.replay(&recording, goal).await?;
    // The recording contains all the user's answers.
    let watching = WatchOptions {
        non_interactive: true,
        replayed: true,
        ..command.options.watching.clone()
    };
    // Signals need no listener before this point, because the run is complete and nothing can be left half done.
    watch(
        &dirigent,
        &run,
        &mut ShutdownSignals::listen()?,
        HistoryCursor::default(),
        &watching,
        output,
    )
    .await
}
