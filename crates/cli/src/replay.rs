//! `--record` and `--replay`: runs in files (HOST-9).

use std::path::{Path, PathBuf};

use dirigent::model::OfflineModel;
use dirigent::{Dirigent, DirigentError, Goal, RunId};

use crate::args::{RunCommand, WatchOptions};
use crate::config;
use crate::exit::Exit;
use crate::interactive::HistoryCursor;
use crate::output::Output;
use crate::run::{ShutdownSignals, build, watch};

/// Where a run is recorded, if it is. Made before the run starts, so that a file that cannot be written is known by then.
pub(crate) struct RecordingFile<'a>(Option<&'a Path>);

impl<'a> RecordingFile<'a> {
    pub(crate) fn create(file: Option<&'a PathBuf>) -> Result<Self, DirigentError> {
        let file = file.map(PathBuf::as_path);
        if let Some(file) = file {
            tokio::task::block_in_place(|| dirigent::check_recording_file(file))?;
        }
        Ok(RecordingFile(file))
    }

    /// Writes what the journal has of the run.
    pub(crate) fn write(self, dirigent: &Dirigent, run: RunId, output: &Output) -> anyhow::Result<()> {
        let Some(file) = self.0 else { return Ok(()) };
        let written = tokio::task::block_in_place(|| {
            dirigent::write_recording(file, &dirigent.recording(run)?)?;
            Ok::<(), DirigentError>(())
        });
        written.map_err(|error| {
            let again = format!("write it with `dirigent show {} --record FILE`", run.short());
            // As a text: it was no bad usage, as the file could be written when the run began.
            anyhow::anyhow!("the run is in the journal, but its recording is not written; {again}: {error}")
        })?;
        output.note(&format!(
            "Recorded in {file}; replay it with `dirigent run --replay {file}`.",
            file = file.display()
        ));
        Ok(())
    }
}

/// `run --replay`: the recorded run once more, with no model and no tools.
pub(crate) async fn replay(
    db: Option<PathBuf>,
    file: Option<PathBuf>,
    recording: &Path,
    command: &RunCommand,
    output: &Output,
) -> anyhow::Result<Exit> {
    let recording =
        tokio::task::block_in_place(|| dirigent::read_recording(recording)).map_err(DirigentError::from)?;
    let goal = match &command.goal {
        Some(text) => Goal::from_recording(&recording).text(text),
        None => Goal::from_recording(&recording),
    };
    let config = config::load(file, None)?;
    // Who there is and what is asked of people is the configuration's; no model of it is needed.
    let builder = Dirigent::builder().config(&config).model(OfflineModel);
    let dirigent = build(builder, db).await?;
    let run = dirigent.replay(&recording, goal).await?;
    // Its questions were answered when it was recorded.
    let watching = WatchOptions {
        non_interactive: true,
        replayed: true,
        ..command.watching.clone()
    };
    // Until here nothing goes on that a signal could leave half-done.
    watch(
        &run,
        ShutdownSignals::listen()?,
        HistoryCursor::default(),
        &watching,
        output,
    )
    .await
}
