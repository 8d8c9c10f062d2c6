//! Runs the real command with a scripted model server, which gives the replies of the lead, the sub-agents and the reflector.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use dirigent_model_server::{ModelServer, Request, Script, Turn};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::cli::Place;

/// A [`Place`] whose runs use a scripted model server.
pub struct Served {
    runtime: Runtime,
    server: ModelServer,
    /// The home, the project and the journal.
    pub place: Place,
}

impl Served {
    /// Creates a place whose configuration names the server and contains the lines of `settings`.
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

    /// Waits until the server has received this many requests.
    pub fn wait_for_requests(&self, count: usize) -> Vec<Arc<Request>> {
        self.runtime.block_on(self.server.wait_for_requests(count))
    }

    /// Every request so far.
    pub fn requests(&self) -> Vec<Arc<Request>> {
        self.server.requests()
    }
}

/// Returns true if any message of the request contains `part`.
pub fn mentions(request: &Request, part: &str) -> bool {
    let content = |message: &Value| {
        message["content"]
            .as_str()
            .is_some_and(|text| text.contains(part))
    };
    request.messages().iter().any(content)
}

/// Returns true for a request of a lead.
pub fn is_lead(request: &Request) -> bool {
    request.system_prompt().contains("## submit_plan")
}

/// Returns true for a request of a reflector.
pub fn is_reflector(request: &Request) -> bool {
    request.system_prompt().contains("## submit_reflection")
}

/// A turn that makes one call, after which the model is asked again.
pub fn call(tool: &str, parameters: &Value) -> Turn {
    Turn::text(json!({"tool": tool, "parameters": parameters, "terminate": false}).to_string())
}

/// A turn that calls `execute_command`.
pub fn command(words: &[&str]) -> Turn {
    call("execute_command", &json!({"command": words}))
}

/// A turn that submits a plan.
pub fn plan<const N: usize>(summary: &str, subtasks: [Value; N]) -> Turn {
    submit(
        "submit_plan",
        json!({"summary": summary, "subtasks": subtasks.to_vec()}),
    )
}

/// A turn that submits a plan that answers the first guidance.
pub fn plan_for_guidance<const N: usize>(summary: &str, subtasks: [Value; N]) -> Turn {
    let plan = json!({"summary": summary, "answers_guidance": [1], "subtasks": subtasks.to_vec()});
    submit("submit_plan", plan)
}

/// Submits the reflection that the goal is reached.
pub fn achieved(summary: &str) -> Turn {
    submit(
        "submit_reflection",
        json!({"verdict": "achieved", "summary": summary}),
    )
}

/// Submits the reflection that work remains.
pub fn go_on(summary: &str) -> Turn {
    submit(
        "submit_reflection",
        json!({"verdict": "continue", "summary": summary}),
    )
}

/// Submits the reflection that only the user can decide.
pub fn ask_user(question: &str, choices: &[&str]) -> Turn {
    let judgement = json!({"verdict": "ask_user", "summary": "It is not clear.", "question": question, "choices": choices});
    submit("submit_reflection", judgement)
}

fn submit(tool: &str, parameters: Value) -> Turn {
    Turn::text(json!({"tool": tool, "parameters": parameters, "terminate": true}).to_string())
}
