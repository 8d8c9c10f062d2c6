//! `mcp serve`: Dirigent as a server of the Model Context Protocol, for the program that has started this command.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use dirigent_server::{Decider, McpServer};
use tokio::io::{AsyncRead, duplex};
use tokio_util::io::SyncIoBridge;

use crate::args::ServeMcpCommand;
use crate::config;
use crate::exit::Exit;
use crate::open::open_configured;
use crate::output::Output;
use crate::signals::ShutdownSignals;

/// The number of bytes of input that are read ahead.
const READ_AHEAD: usize = 64 * 1024;

pub(crate) async fn serve(
    db: Option<PathBuf>,
    file: Option<PathBuf>,
    command: ServeMcpCommand,
    output: &Output,
) -> anyhow::Result<Exit> {
    let mut signals = ShutdownSignals::listen()?;
    if std::io::stdin().is_terminal() {
        output.note(
            "this command is for another program, which speaks the Model Context Protocol with it: see `dirigent mcp serve --help`",
        );
    }
    let config = config::load(file, command.model.model.clone())?;
    // Standard output belongs to the protocol. Notes go to standard error.
    config::warn_unread_config(&config, &[Path::new("."), &command.workspace], output);
    config::warn_unconfined(&config, output);
    let dirigent = open_configured(db, &config).await?;
    let decider = match command.allow_decide {
        true => Decider::Model,
        false => Decider::Person,
    };
    let server = McpServer::new(dirigent, &command.workspace, decider)?;
    let shutdown = async {
        signals.next().await;
    };
    server.serve(input(), tokio::io::stdout(), shutdown).await?;
    Ok(Exit::Success)
}

/// Standard input, read by a thread that does not keep the process from ending.
fn input() -> impl AsyncRead + Send + Unpin + 'static {
    let (reader, writer) = duplex(READ_AHEAD);
    let mut bridge = SyncIoBridge::new(writer);
    std::thread::spawn(move || {
        // Ends with the input, or when nobody reads any more.
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut bridge);
    });
    reader
}
