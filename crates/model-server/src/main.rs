//! The `dirigent-model-server` command: serves a script file until it is interrupted.
//!
//! Says on standard output where it listens, and on standard error what was asked.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use dirigent_model_server::{ModelServer, Request, Script};

/// Serves canned model replies over the OpenAI API, on 127.0.0.1 only.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// The script, a JSON file.
    #[arg(long, value_name = "FILE")]
    script: PathBuf,
    /// The port; 0 is any free one.
    #[arg(long, default_value_t = 0)]
    port: u16,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let server = match start(&arguments).await {
        Ok(server) => server,
        Err(reason) => {
            eprintln!("error: {reason}");
            return ExitCode::from(2);
        }
    };
    println!("listening on {}", server.url());
    for count in 1.. {
        let requests = server.wait_for_requests(count).await;
        eprintln!("{}", line(&requests[count - 1]));
    }
    ExitCode::SUCCESS
}

async fn start(arguments: &Arguments) -> Result<ModelServer, String> {
    let file = arguments.script.display();
    let text = std::fs::read_to_string(&arguments.script).map_err(|error| format!("{file}: {error}"))?;
    let script = Script::from_json(&text).map_err(|error| format!("{file}: {error}"))?;
    ModelServer::start_on(arguments.port, script)
        .await
        .map_err(|error| error.to_string())
}

fn line(request: &Request) -> String {
    let mut line = format!(
        "request {}: conversation {}, turn {}, attempt {}, model {}, {} messages",
        request.number,
        request.conversation,
        request.turn,
        request.attempt,
        request.model(),
        request.messages().len()
    );
    for violation in &request.violations {
        line.push_str(&format!("\n  {violation}"));
    }
    line
}
