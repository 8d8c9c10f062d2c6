//! Requests begin with the same bytes as earlier requests, so that providers' caches apply: over an agent's turns, over iterations, and
//! over runs in a workspace.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use dirigent::config::Sources;
use dirigent::{Config, Dirigent, Goal, Mode};
use dirigent_model_server::{ModelServer, Request, Script, ToolCall, Turn};
use serde_json::{Value, json};

/// A workspace with a repository, and the settings for runs on a scripted server.
struct Fixture {
    folder: tempfile::TempDir,
    server: ModelServer,
}

impl Fixture {
    async fn new(script: Script) -> Fixture {
        let folder = tempfile::tempdir().unwrap();
        let workspace = folder.path().join("workspace");
        std::fs::create_dir_all(workspace.join("src")).unwrap();
        std::fs::write(workspace.join("AGENTS.md"), "Write short lines.\n").unwrap();
        std::fs::write(workspace.join("src/port.rs"), "pub const PORT: u16 = 8080;\n").unwrap();
        git(&workspace, &["init", "-q", "-b", "main"]);
        git(&workspace, &["add", "."]);
        git(&workspace, &["commit", "-q", "-m", "first"]);
        let server = ModelServer::start(script).await.unwrap();
        let url = server.url();
        let settings = format!(
            "[model]\nprovider = \"openai\"\nname = \"scripted\"\nbase_url = \"{url}\"\ncalls = \"native\"\nattempts = 1\n"
        );
        std::fs::write(folder.path().join("dirigent.toml"), settings).unwrap();
        Fixture { folder, server }
    }

    /// Runs a goal to its end, and returns its requests.
    async fn run(&self, goal: &str, mode: Mode) -> Vec<Arc<Request>> {
        let before = self.server.requests().len();
        let settings = Sources::none().file(self.folder.path().join("dirigent.toml"));
        let config = Config::load(&settings).unwrap();
        let journal = self.folder.path().join("journal.db");
        let builder = Dirigent::builder().config(&config);
        let dirigent = builder.journal(journal).build().await.unwrap();
        let goal = Goal::new(goal)
            .workspace(self.folder.path().join("workspace"))
            .mode(mode);
        let report = dirigent.start(goal).await.unwrap().outcome().await.unwrap();
        assert!(report.is_achieved(), "{report:?}");
        dirigent.shutdown().await.unwrap();
        self.server.requests().split_off(before)
    }
}

fn git(folder: &Path, arguments: &[&str]) {
    let status = Command::new("git")
        .args(["-c", "user.name=a", "-c", "user.email=a@b"])
        .args(arguments)
        .current_dir(folder)
        .status();
    assert!(status.unwrap().success());
}

fn call(tool: &str, parameters: &Value) -> Turn {
    Turn::calls([ToolCall::new(tool, parameters)])
}

fn plan(id: &str) -> Turn {
    let subtask =
        json!({"id": id, "title": "Look", "agent": "explore", "task": format!("Find the port: {id}.")});
    call("submit_plan", &json!({"summary": "Look.", "subtasks": [subtask]}))
}

/// A lead that reads a file and plans twice, with explorers that search, and a reflector that first wants more.
fn two_iterations(request: &Request) -> Turn {
    let tools = request.tool_names();
    let results = request.tool_results().len();
    if tools.contains(&"submit_plan") {
        match results {
            0 => call(
                "file_operations",
                &json!({"operation": "read", "path": "src/port.rs"}),
            ),
            1 => plan("first"),
            2 => plan("second"),
            _ => panic!("the lead was asked once more"),
        }
    } else if tools.contains(&"submit_reflection") {
        let verdict = match request.last_user_message().contains("1 of 15") {
            true => "continue",
            false => "achieved",
        };
        call(
            "submit_reflection",
            &json!({"verdict": verdict, "summary": "Port 8080."}),
        )
    } else {
        match results {
            0 => call("search", &json!({"pattern": "PORT"})),
            1 => call("list_symbols", &json!({"path": "src/port.rs"})),
            _ => Turn::text("src/port.rs:1 sets port 8080."),
        }
    }
}

/// The bytes of a request that a provider can cache: its tools, and its messages without the end of the list.
fn prefix(request: &Request) -> (String, String) {
    let messages = request.body["messages"].to_string();
    let messages = messages.strip_suffix(']').unwrap().to_owned();
    (request.body["tools"].to_string(), messages)
}

/// The requests of each conversation, in order.
fn conversations(requests: &[Arc<Request>]) -> Vec<Vec<&Request>> {
    let mut conversations: Vec<Vec<&Request>> = Vec::new();
    for request in requests {
        let same = |begun: &&mut Vec<&Request>| begun[0].conversation == request.conversation;
        match conversations.iter_mut().find(same) {
            Some(begun) => begun.push(request),
            None => conversations.push(vec![request]),
        }
    }
    conversations
}

#[tokio::test]
async fn loop_11_each_request_begins_with_the_previous_one_across_iterations() {
    let fixture = Fixture::new(Script::from_fn(two_iterations)).await;

    let requests = fixture.run("Which port?", Mode::Auto).await;

    let conversations = conversations(&requests);
    let turns: Vec<usize> = conversations.iter().map(Vec::len).collect();
    // The turns of the lead, and of each iteration's explorer and reflector.
    assert_eq!(turns, [3, 3, 1, 3, 1]);
    for turns in &conversations {
        for pair in turns.windows(2) {
            let ((tools, earlier), (later_tools, later)) = (prefix(pair[0]), prefix(pair[1]));
            assert_eq!(tools, later_tools);
            assert!(later.starts_with(&earlier), "{earlier}\n\n{later}");
        }
    }
    // Agents with the same role share their tools and system prompt.
    for (first, second) in [(1, 3), (2, 4)] {
        let (first, second) = (conversations[first][0], conversations[second][0]);
        assert_eq!(first.body["tools"].to_string(), second.body["tools"].to_string());
        assert_eq!(first.system_prompt(), second.system_prompt());
    }
}

/// Returns the longest common prefix of two requests.
fn common(first: &Request, second: &Request) -> String {
    let (first, second) = (prefix(first).1, prefix(second).1);
    let pairs = first.chars().zip(second.chars());
    pairs.take_while(|(a, b)| a == b).map(|(same, _)| same).collect()
}

#[tokio::test]
async fn prompt_2_requests_of_runs_in_a_workspace_share_their_longest_possible_prefix() {
    for mode in [Mode::Auto, Mode::Plan] {
        let fixture = Fixture::new(Script::from_fn(|_| Turn::text("Port 8080."))).await;
        let first = fixture.run("Which port does it use?", mode).await;
        let second = fixture.run("Is there a port at all?", mode).await;
        let ([first], [second]) = (&first[..], &second[..]) else {
            panic!("the lead was asked more than once");
        };
        assert_eq!(first.body["tools"].to_string(), second.body["tools"].to_string());
        assert_eq!(first.system_prompt(), second.system_prompt());
        // The goal is the first difference.
        let same = common(first, second);
        assert!(same.ends_with(r"<GOAL>\n"), "{mode:?}: {same}");
        let rest = &prefix(second).1[same.len()..];
        for shared in [
            "PROJECT_INSTRUCTIONS",
            "ENVIRONMENT",
            "AGENTS>",
            "TOOLS_FOR_CALLS",
            "LIMITS",
        ] {
            assert!(!rest.contains(shared), "{mode:?}: {shared} in {rest}");
        }
        assert!(rest.contains("<ITERATION>"), "{rest}");

        // The date and the repository's state come last in the environment.
        std::fs::write(fixture.folder.path().join("workspace/src/port.rs"), "changed\n").unwrap();
        let changed = fixture.run("Is there a port at all?", mode).await;
        let same = common(second, &changed[0]);
        let (_, environment) = same.rsplit_once("<ENVIRONMENT>").expect("an environment");
        let (_, last) = environment.rsplit_once(r"\ndate: ").expect("a date");
        assert!(last.contains(r"\ngit at the run's start: "), "{last}");
        assert!(!last.contains("</ENVIRONMENT>"), "{last}");
    }
}
