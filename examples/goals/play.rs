//! Plays a goal: a run on the scripted server with the real prompts, tools and journal, and the replay of its recording.

use std::fs;
use std::path::Path;
use std::sync::{Arc, PoisonError};

use dirigent::config::Sources;
use dirigent::journal::Recording;
use dirigent::{Builder, Config, Dirigent, Report, read_recording, write_recording};
use dirigent_model_server::{ModelServer, Request};

use crate::AnyError;
use crate::goal::Goal;
use crate::plain::PlainConversation;
use crate::replies::{Problems, Role};

/// The measured cost of a goal.
pub struct Played {
    /// The requests of the run.
    pub run: Vec<(Role, Size)>,
    /// The requests of the plain conversation.
    pub plain: Vec<Size>,
}

/// The size of a request in tokens: a quarter of the bytes of its messages and tools.
#[derive(Clone, Copy, Default)]
pub struct Size(pub usize);

impl Size {
    /// Returns the size of a request's body.
    pub fn from_body(body: &serde_json::Value) -> Size {
        Size((body["messages"].to_string().len() + body["tools"].to_string().len()) / 4)
    }
}

/// Plays a goal in a folder, writes its recording, and replays it.
pub async fn play(goal: &Goal, home: &Path, file: &Path) -> Result<Played, AnyError> {
    let workspace = goal.workspace(home.join("workspace"))?;
    let problems = Problems::default();
    let server = ModelServer::start(goal.replies.script(&problems)).await?;
    let settings = home.join("dirigent.toml");
    fs::write(&settings, settings_text(&server.url(), &goal.file.settings))?;
    let builder = Dirigent::builder().config(&Config::load(&Sources::none().file(settings))?);

    let dirigent = builder.clone().journal(home.join("journal.db")).build().await?;
    let run = dirigent
        .start(dirigent::Goal::new(&goal.file.goal).workspace(workspace.folder()))
        .await?;
    let report = run.outcome().await?;
    let recording = dirigent.recording(run.id()).await?;
    write_recording(file, recording.clone()).await?;
    let problems = problems.lock().unwrap_or_else(PoisonError::into_inner).join("\n");
    if !problems.is_empty() {
        return Err(problems.into());
    }
    if let Some(violation) = server.violations().first() {
        return Err(format!("a request was invalid: {violation}").into());
    }
    if !report.is_achieved() {
        return Err(format!("the goal was not reached: {:?}, {}", report.end, report.summary).into());
    }
    goal.check(&report.summary, &workspace)?;

    let requests = server.requests();
    if requests.len() != goal.replies.count() {
        let (asked, count) = (requests.len(), goal.replies.count());
        return Err(format!("the run sent {asked} requests, but the script has {count} replies").into());
    }
    let plain = PlainConversation::new(&goal.file.goal, &recording, &requests)?.requests;
    dirigent.shutdown().await?;
    // A replay needs neither the model nor the workspace.
    drop(server);
    fs::remove_dir_all(workspace.folder())?;
    replay(
        builder,
        &home.join("replay.db"),
        &report,
        read_recording(file).await?,
    )
    .await?;
    let size = |request: &Arc<Request>| (Role::from_request(request), Size::from_body(&request.body));
    Ok(Played {
        run: requests.iter().map(size).collect(),
        plain,
    })
}

/// Replays a recording, and checks that nothing differs.
async fn replay(
    builder: Builder,
    journal: &Path,
    report: &Report,
    recording: Recording,
) -> Result<(), AnyError> {
    let dirigent = builder.journal(journal).build().await?;
    let goal = dirigent::Goal::from_recording(&recording);
    let again = dirigent.replay(&recording, goal).await?;
    let same_report = serde_json::to_value(&*again.outcome().await?)? == serde_json::to_value(report)?;
    if !same_report || dirigent.recording(again.id()).await? != recording {
        return Err("the replay differs from the run".into());
    }
    Ok(dirigent.shutdown().await?)
}

fn settings_text(url: &str, more: &str) -> String {
    format!(
        "[model]\nprovider = \"openai\"\nname = \"scripted\"\nbase_url = \"{url}\"\ncalls = \"native\"\nattempts = 1\n\n{more}"
    )
}
