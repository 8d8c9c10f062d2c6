//! The `dirigent-model-server` command: it serves a script file until it is interrupted.
//!
//! It prints its address on standard output, and the requests on standard error.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use dirigent_model_server::{ModelServer, Request, Script};

/// Format of a script, with the names of all faults and flaws.
const SCRIPT_HELP: &str = r#"A script is a JSON file. Each request is answered by the first matching rule that has a turn left:

  {"rules": [
    {"when": {"system_contains": "planner", "attempt": 1},
     "turns": [{"fault": {"rate_limited": {"retry_after": {"seconds": 1}}}}]},
    {"when": {"last_contains": "weather"},
     "turns": [{"reply": {"tool_calls": [{"name": "look", "arguments": {"at": "sky"}}], "flaws": ["split_arguments"]}}]},
    {"turns": [{"reply": {"text": "Done."}, "in_body_ms": 20}], "after_last": "repeat"}
  ]}

when:    system_contains, user_contains, last_contains, model, offers_tool, turn, attempt; all given conditions must hold
turns:   a reply (text, tool_calls, finish_reason, usage, flaws) or a fault; before_headers_ms and in_body_ms delay it
faults:  context_length_exceeded, invalid_api_key, forbidden, model_not_found, request_timeout, conflict, payload_too_large,
         unprocessable, rate_limited, quota_exceeded, server_error, bad_gateway, unavailable, overloaded, status, html_page,
         redirect, closed_before_headers, garbage, empty_body, endless_keep_alive
flaws:   cut_mid_event, cut_mid_character, cut_between_events, ends_early, small_frames, missing_done, error_object,
         garbage_event, keep_alive_comments, duplicated_events, crlf_lines, multi_line_data, no_space_after_colon,
         wrong_content_type, interleaved_calls, reversed_calls, split_arguments, call_ids_missing, call_ids_reused,
         call_index_missing, empty_choices, null_content, finish_reason_missing, padded

A request that breaks the API's rules (a call without its result, a result without its call, roles out of order, …) is answered
with 400 and reported on standard error. Unknown names are refused when the script is read."#;

/// Serves scripted model replies over the OpenAI API, on 127.0.0.1 only.
#[derive(Parser)]
#[command(version, after_long_help = SCRIPT_HELP)]
struct Arguments {
    /// Script, a JSON file.
    #[arg(long, value_name = "FILE")]
    script: PathBuf,
    /// Port to listen on; 0 for any free port.
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
        eprintln!("{}", log_line(&requests[count - 1]));
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

fn log_line(request: &Request) -> String {
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
