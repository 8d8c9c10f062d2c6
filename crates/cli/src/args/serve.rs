//! Arguments of `serve`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use dirigent_server::DEFAULT_ADDRESS;

use super::ModelChoice;

pub(crate) const SERVE_HELP: &str = "\
Clients need a token. It is made at the first start, in a file that only you can read, next to the journal. At a terminal, the first start
also shows it once, in a link for a browser. Ctrl-C or SIGTERM stops the server: its runs stop at their last journal entry, and go on at the next start.

Examples:
  dirigent serve
  curl -H \"Authorization: Bearer $(cat TOKEN_FILE)\" http://127.0.0.1:7341/v1/runs
  dirigent serve --listen 0.0.0.0:7341 --token-file /run/secrets/dirigent --host dirigent.example";

#[derive(Args)]
pub(crate) struct ServeCommand {
    /// The address to listen on; port 0 chooses a free port. An address that other computers reach needs --token-file
    #[arg(long, value_name = "ADDRESS", default_value_t = DEFAULT_ADDRESS)]
    pub(crate) listen: SocketAddr,
    /// The file with the token, which is created if it does not exist [default: the journal's path with `-token`]
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// A name under which clients reach the server, as behind a proxy; may be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) host: Vec<String>,
    /// The folder for runs and conversations whose requests name none
    #[arg(long, short, value_name = "DIR", default_value = ".")]
    pub(crate) workspace: PathBuf,
    #[command(flatten)]
    pub(crate) model: ModelChoice,
    /// The maximum length of a request's body, in bytes [default: 1048576]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_body: Option<u32>,
    /// The maximum number of requests and event streams under way [default: 256]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_requests: Option<u32>,
    /// The maximum number of active runs of the service [default: 64]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_runs: Option<u32>,
    /// The maximum number of connections [default: 1024]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_connections: Option<u32>,
    /// Leave interrupted runs as they are, instead of resuming them
    #[arg(long)]
    pub(crate) no_resume: bool,
    /// Print one JSON object per line
    #[arg(long)]
    pub(crate) json: bool,
}
