//! `demo`: a rename in a sample project, without any setup.

use std::path::{Path, PathBuf};

use anyhow::Context;
use dirigent::Goal;
use rust_embed::RustEmbed;

use crate::args::{DemoCommand, WatchOptions};
use crate::config;
use crate::exit::Exit;
use crate::interactive::HistoryCursor;
use crate::open::{open, open_configured};
use crate::output::Output;
use crate::sharing::WaitNotice;
use crate::signals::ShutdownSignals;
use crate::watch::{user_presence, watch};

const GOAL: &str = "Find all usages of function parse_amount and rename it to parse_money";

#[derive(RustEmbed)]
#[folder = "../../config/samples/ledger"]
#[exclude = "target/*"]
struct Sample;

pub(crate) async fn demo(
    db: Option<PathBuf>,
    file: Option<PathBuf>,
    command: DemoCommand,
    output: &Output,
) -> anyhow::Result<Exit> {
    // The journal is opened before the folder is created, so that an unusable journal leaves no folder behind.
    let dirigent = match command.model {
        Some(model) => open_configured(db, &config::load(file, Some(model))?).await?,
        None => open(db).await?,
    };
    let folder = tempfile::Builder::new()
        .prefix("dirigent-demo-")
        .tempdir()
        .context("cannot create a temporary folder")?
        .keep();
    copy_sample(&folder)
        .with_context(|| format!("cannot copy the sample project to {}", folder.display()))?;
    let goal = Goal::new(GOAL)
        .workspace(&folder)
        .user(user_presence(&command.watching, output));
    let mut signals = ShutdownSignals::listen()?;
    let starting = dirigent.start(goal);
    let started = WaitNotice::No.start(&dirigent, starting, &mut signals, output);
    let run = match started.await? {
        Ok(run) => run,
        Err(exit) => return Ok(exit),
    };
    let watching = WatchOptions {
        diff: !command.watching.json,
        ..command.watching
    };
    let exit = watch(
        &dirigent,
        &run,
        &mut signals,
        HistoryCursor::default(),
        &watching,
        output,
    )
    .await?;
    if !watching.json {
        let id = run.id().short();
        output.print(&format!(
            "\nThe project is in {}.\nLook at the run: dirigent show {id} --verbose, or --graph tree\nTry your own goal: dirigent run \
             \"count the usages of parse_money\" --workspace {}",
            folder.display(),
            folder.display()
        ));
    }
    Ok(exit)
}

fn copy_sample(folder: &Path) -> std::io::Result<()> {
    for name in Sample::iter() {
        let path = folder.join(name.as_ref());
        if let (Some(parent), Some(file)) = (path.parent(), Sample::get(&name)) {
            std::fs::create_dir_all(parent)?;
            std::fs::write(&path, file.data)?;
        }
    }
    Ok(())
}
