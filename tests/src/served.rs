//! The real command with a scripted model server to ask: what its lead, its agents and its reflector say is written down by the test.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use dirigent_model_server::{ModelServer, Request, Script, Turn};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::cli::Place;

/// A place whose runs ask a scripted model server.
pub struct Served {
    runtime: Runtime,
    server: ModelServer,
    /// The home, the project and the journal.
    pub place: Place,
}

impl Served {
    /// A place whose configuration names the server, and has these lines, too.
    pub fn new(settings: &str, script: Script) -> Served {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let server = runtime.block_on(ModelServer::start(script)).unwrap();
        let place = Place::new();
        let folder = place.folder().join("home/.config/dirigent");
        std::fs::create_dir_all(&folder).unwrap();
        let url = server.url();
        let model = format!(
            "[model]\nprovider = \"openai\"\nname = \"scripted\"\nbase_url = \"{url}\"\ncalls = \"json\"\nattempts = 1\n"
        );
        std::fs::write(folder.join("dirigent.toml"), format!("{model}\n{settings}")).unwrap();
        Served {
            runtime,
            server,
            place,
        }
    }

    /// Waits until the server has got that many requests.
    pub fn wait_for_requests(&self, count: usize) -> Vec<Arc<Request>> {
        self.runtime.block_on(self.server.wait_for_requests(count))
    }

    /// Every request so far.
    pub fn requests(&self) -> Vec<Arc<Request>> {
        self.server.requests()
    }
}

/// Whether any message of a request has that in it.
pub fn mentions(request: &Request, part: &str) -> bool {
    let content = |message: &Value| {
        message["content"]
            .as_str()
            .is_some_and(|text| text.contains(part))
    };
    request.messages().iter().any(content)
}

/// Whether a lead asks.
pub fn is_lead(request: &Request) -> bool {
    request.system_prompt().contains("## submit_plan")
}

/// Whether a reflector asks.
pub fn is_reflector(request: &Request) -> bool {
    request.system_prompt().contains("## submit_reflection")
}

/// A call, after which the model is asked again.
pub fn call(tool: &str, parameters: &Value) -> Turn {
    Turn::text(json!({"tool": tool, "parameters": parameters, "terminate": false}).to_string())
}

/// A call of a command.
pub fn command(words: &[&str]) -> Turn {
    call("execute_command", &json!({"command": words}))
}

/// A plan.
pub fn plan<const N: usize>(summary: &str, subtasks: [Value; N]) -> Turn {
    submit(
        "submit_plan",
        json!({"summary": summary, "subtasks": subtasks.to_vec()}),
    )
}

/// A plan that answers the first guidance.
pub fn plan_for_guidance<const N: usize>(summary: &str, subtasks: [Value; N]) -> Turn {
    let plan = json!({"summary": summary, "answers_guidance": [1], "subtasks": subtasks.to_vec()});
    submit("submit_plan", plan)
}

/// The judgement that the goal is reached. It names the files that its request does, as it must (PAOR-10).
pub fn achieved(request: &Request, summary: &str) -> Turn {
    let section = request.messages().iter().find_map(|message| {
        let (_, after) = message["content"].as_str()?.split_once("<CHANGED_FILES>")?;
        Some(after.split_once("</CHANGED_FILES>")?.0)
    });
    let lines = section.unwrap_or_default().lines();
    let changed: Vec<&str> = lines.filter_map(|line| line.strip_prefix("- ")).collect();
    submit(
        "submit_reflection",
        json!({"verdict": "achieved", "summary": summary, "changed_files": changed}),
    )
}

/// The judgement that more is to be done.
pub fn go_on(summary: &str) -> Turn {
    submit(
        "submit_reflection",
        json!({"verdict": "continue", "summary": summary}),
    )
}

/// The judgement that only the user can decide.
pub fn ask_user(question: &str, choices: &[&str]) -> Turn {
    let judgement = json!({"verdict": "ask_user", "summary": "It is not clear.", "question": question, "choices": choices});
    submit("submit_reflection", judgement)
}

fn submit(tool: &str, parameters: Value) -> Turn {
    Turn::text(json!({"tool": tool, "parameters": parameters, "terminate": true}).to_string())
}
