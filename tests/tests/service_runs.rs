//! MCP-4 to MCP-6: runs and conversations that call the tools of services: in every form of calls, with a question to the user, and after a
//! `kill -9`. The ignored tests use services that nobody here wrote, from npm: `tests/mcp/run` installs them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::PathBuf;

use dirigent::config::{Config, Sources};
use dirigent::mcp::McpServices;
use dirigent::model::CallForm;
use dirigent::{ConversationSettings, Dirigent, EventKind, Goal, Sent, UserPresence};
use dirigent_model_server::{Script, Turn};
use dirigent_tests::cli::{Watched, root};
use dirigent_tests::scripted::{Reply, Scripted, call, native, says};
use dirigent_tests::served::{self, Served, is_lead};
use dirigent_tests::stage::{Stage, until};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A user's configuration with the service `test`.
fn user() -> TempDir {
    let server = root().join("crates/mcp/tests/server.py");
    configured(&format!(
        "[mcp.test]\ncommand = \"/usr/bin/python3\"\nargs = [{server:?}]\ntrust = true\n[approvals]\nallow = [\"mcp__*\"]\n"
    ))
}

fn configured(settings: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("dirigent.toml"), settings).unwrap();
    folder
}

async fn dirigent(stage: &Stage, model: &Scripted, config: &TempDir) -> Dirigent {
    let config = Config::load(&Sources::none().folder(config.path())).unwrap();
    let builder = stage.builder(model.clone()).config(&config);
    builder.build().await.unwrap()
}

#[tokio::test]
async fn mcp_6_a_question_of_a_service_is_answered_by_the_user_during_the_call() {
    let stage = Stage::new();
    let form = json!({"message": "Which town?", "requestedSchema": {
        "type": "object", "properties": {"town": {"type": "string", "enum": ["Ulm", "Bonn"]}}, "required": ["town"]
    }});
    let asks = json!({"text": "elicitation/create", "params": form.to_string()});
    let model = Scripted::new().lead([
        call("call_tool", json!({"name": "mcp__test__ask", "arguments": asks})),
        says("Bonn it is."),
    ]);
    let folder = user();
    let dirigent = dirigent(&stage, &model, &folder).await;
    let goal = stage.goal("Use the test tool to ask me for a town");
    let run = dirigent.start(goal.user(UserPresence::Present)).await.unwrap();
    let asked = until(&mut run.events(0), |kind| {
        matches!(kind, EventKind::QuestionAsked { .. })
    })
    .await;
    let EventKind::QuestionAsked { question, effect, .. } = &asked.kind else {
        panic!("{asked:?}");
    };
    assert_eq!(
        question.question,
        "The service test asks: Which town?\ntown (one of the choices)"
    );
    assert_eq!(question.choices, ["Ulm", "Bonn", "decline"]);
    run.answer_question(*effect, "2").await.unwrap();
    run.outcome().await.unwrap();
    let output = model.lead_asked()[1].result()["output"]
        .as_str()
        .unwrap()
        .to_owned();
    let answer: Value = serde_json::from_str(&output).unwrap();
    assert_eq!(answer, json!({"action": "accept", "content": {"town": "Bonn"}}));
    dirigent.shutdown().await.unwrap();
}

#[tokio::test]
async fn mcp_6_without_a_user_a_service_is_not_answered_and_the_run_continues() {
    let stage = Stage::new();
    let form = json!({"message": "Go on?", "requestedSchema": {"type": "object", "properties": {}}});
    let asks = json!({"text": "elicitation/create", "params": form.to_string()});
    let model = Scripted::new().lead([
        call("call_tool", json!({"name": "mcp__test__ask", "arguments": asks})),
        says("Nobody answered."),
    ]);
    let folder = user();
    let dirigent = dirigent(&stage, &model, &folder).await;
    let run = dirigent
        .start(stage.goal("Use the test tool to ask me"))
        .await
        .unwrap();
    assert_eq!(run.outcome().await.unwrap().summary, "Nobody answered.");
    let output = model.lead_asked()[1].result()["output"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(output.contains("cancel"), "{output}");
    dirigent.shutdown().await.unwrap();
}

#[test]
fn mcp_5_a_call_that_kill_9_of_dirigent_interrupted_is_an_error_for_the_model_after_resume() {
    let server = root().join("crates/mcp/tests/server.py");
    let settings = format!(
        "[mcp.test]\ncommand = \"/usr/bin/python3\"\nargs = [{server:?}]\n[approvals]\nallow = [\"mcp__*\"]\n"
    );
    let served = Served::new(
        &settings,
        Script::from_fn(|request| match request.turn {
            1 => served::call(
                "call_tool",
                &json!({"name": "mcp__test__wait", "arguments": {"seconds": 600}}),
            ),
            _ if is_lead(request) => Turn::text("It was interrupted."),
            _ => served::achieved("Judged."),
        }),
    );
    let run = [
        "run",
        "Use the test tool to wait",
        "--workspace",
        "work",
        "--json",
    ];
    let mut run = Watched::start(&mut served.place.command(run));
    run.wait_for(|event| event["event"] == "tool_started" && event["tool"] == "mcp__test__wait");
    run.kill();

    let _ = served.place.dirigent(["resume", "last"]).with_code(0);
    let requests = served.requests();
    let results: Vec<String> = requests
        .iter()
        .flat_map(|request| request.messages().iter())
        .filter(|message| message["role"] == "tool" || message["role"] == "user")
        .map(|message| message["content"].to_string())
        .collect();
    assert!(
        results.iter().any(|text| text.contains("interrupted")),
        "{results:?}"
    );
    let left = served.place.command_lines();
    assert!(
        !left.iter().any(|line| line.contains("server.py")),
        "its standard input was closed: {left:?}"
    );
}

/// A real service, the tool to call, its arguments, and a part of the result.
struct Real {
    service: &'static str,
    program: &'static str,
    tool: &'static str,
    arguments: Value,
    result: &'static str,
    /// Whether its argument is the folder of the files.
    of_folder: bool,
}

fn real_services(folder: &str) -> [Real; 3] {
    [
        Real {
            service: "everything",
            program: "mcp-server-everything",
            tool: "get-sum",
            arguments: json!({"a": 2, "b": 40}),
            result: "42",
            of_folder: false,
        },
        Real {
            service: "files",
            program: "mcp-server-filesystem",
            tool: "read_text_file",
            arguments: json!({"path": format!("{folder}/notes.txt")}),
            result: "the milk",
            of_folder: true,
        },
        Real {
            service: "memory",
            program: "mcp-server-memory",
            tool: "read_graph",
            arguments: json!({}),
            result: "entities",
            of_folder: false,
        },
    ]
}

impl Real {
    /// The configuration with the service, and with a model that makes calls in this form.
    fn config(&self, stage: &Stage, form: &str) -> TempDir {
        let packages = PathBuf::from(std::env::var("DIRIGENT_TEST_MCP").expect("run tests/mcp/run"));
        let program = packages.join("node_modules/.bin").join(self.program);
        let memory = stage.journal().with_file_name("memory.jsonl");
        let args: Vec<PathBuf> = self.of_folder.then(|| stage.workspace()).into_iter().collect();
        configured(&format!(
            "[model]\nprovider = \"openai\"\nname = \"scripted\"\nbase_url = \"http://127.0.0.1:9/v1\"\ncalls = {form:?}\n[mcp.{}]\ncommand = {program:?}\nargs = {args:?}\nenv = {{ MEMORY_FILE_PATH = {memory:?} }}\n[approvals]\nallow = [\"mcp__*\"]\n",
            self.service,
        ))
    }

    /// The call of the service's tool as a model makes it in a form; in the text form `tool_call` by the tool's own name (CALL-3).
    fn call(&self, form: CallForm) -> Reply {
        let name = format!("mcp__{}__{}", self.service, self.tool);
        let parameters = json!({"name": name, "arguments": self.arguments});
        match form {
            CallForm::Native | CallForm::AutoNative => native([("call_tool", parameters)]),
            CallForm::ToolCall => {
                says(json!({"tool_call": {"name": name, "arguments": self.arguments}}).to_string())
            }
            CallForm::Json | CallForm::JsonSchema | CallForm::Auto => call("call_tool", parameters),
        }
    }

    fn assert_answered(&self, model: &Scripted, form: CallForm) {
        let asked = model.lead_asked();
        let result = asked.last().unwrap().result().to_string();
        assert!(
            result.contains(self.result),
            "{} {form:?}: {result}",
            self.service
        );
    }
}

fn answer(form: CallForm) -> Reply {
    match form {
        CallForm::JsonSchema => says(r#"{"answer": "It is done."}"#),
        CallForm::Json | CallForm::Native | CallForm::AutoNative | CallForm::ToolCall | CallForm::Auto => {
            says("It is done.")
        }
    }
}

/// The forms of calls, with their names in a configuration. A model with `auto` is given one of them before its first run.
const FORMS: [(CallForm, &str); 4] = [
    (CallForm::Json, "json"),
    (CallForm::JsonSchema, "json_schema"),
    (CallForm::Native, "native"),
    (CallForm::ToolCall, "tool_call"),
];

#[tokio::test]
#[ignore = "needs packages from npm: tests/mcp/run"]
async fn mcp_4_goals_use_real_services_in_every_form_of_calls() {
    for (form, name) in FORMS {
        let stage = Stage::new().file("notes.txt", "Remember the milk.\n");
        for real in real_services(stage.workspace().to_str().unwrap()) {
            let config = real.config(&stage, name);
            let model = Scripted::new().lead([real.call(form), answer(form)]);
            let dirigent = dirigent(&stage, &model, &config).await;
            let goal = stage.goal(&format!("Use the {} tool", real.service));
            let run = dirigent.start(goal).await.unwrap();
            run.outcome().await.unwrap();
            real.assert_answered(&model, form);
            assert_shows_service(dirigent.mcp(), real.service);
            dirigent.shutdown().await.unwrap();
        }
    }
}

#[tokio::test]
#[ignore = "needs packages from npm: tests/mcp/run"]
async fn mcp_4_conversations_use_real_services_in_every_form_of_calls() {
    for (form, name) in FORMS {
        let stage = Stage::new().file("notes.txt", "Remember the milk.\n");
        for real in real_services(stage.workspace().to_str().unwrap()) {
            let config = real.config(&stage, name);
            let model = Scripted::new().lead([answer(form), real.call(form), answer(form)]);
            let dirigent = dirigent(&stage, &model, &config).await;
            let settings = ConversationSettings::default();
            let conversation = dirigent
                .create_conversation(stage.workspace(), settings)
                .await
                .unwrap();
            for message in ["Hello".to_owned(), format!("Use the {} tool", real.service)] {
                let Sent::Turn(run) = conversation.send(Goal::new(message)).await.unwrap() else {
                    panic!("the message began no turn");
                };
                run.outcome().await.unwrap();
            }
            real.assert_answered(&model, form);
            dirigent.shutdown().await.unwrap();
        }
    }
}

fn assert_shows_service(services: &McpServices, name: &str) {
    assert!(!services.service(name).unwrap().tools.is_empty());
}

#[tokio::test]
async fn mcp_6_a_question_that_its_service_withdraws_is_open_no_longer() {
    let stage = Stage::new();
    let server = root().join("crates/mcp/tests/server.py");
    let file = stage.workspace().join("withdraw");
    let withdraws = format!("withdraws={}", file.display());
    let folder = configured(&format!(
        "[mcp.test]\ncommand = \"/usr/bin/python3\"\nargs = [{server:?}, {withdraws:?}]\ntrust = true\n"
    ));
    let form = json!({"message": "Go on?", "requestedSchema": {"type": "object", "properties": {}}});
    let asks = json!({"text": "elicitation/create", "params": form.to_string()});
    let model = Scripted::new().lead([
        call("call_tool", json!({"name": "mcp__test__ask", "arguments": asks})),
        says("It no longer asks."),
    ]);
    let dirigent = dirigent(&stage, &model, &folder).await;
    let goal = stage.goal("Use the test tool to ask me");
    let run = dirigent.start(goal.user(UserPresence::Present)).await.unwrap();
    let mut events = run.events(0);
    until(&mut events, |kind| {
        matches!(kind, EventKind::QuestionAsked { .. })
    })
    .await;
    std::fs::write(&file, "").unwrap();
    until(&mut events, |kind| {
        matches!(kind, EventKind::QuestionExpired { .. })
    })
    .await;
    assert_eq!(run.outcome().await.unwrap().summary, "It no longer asks.");
    assert!(model.lead_asked()[1].last().contains("withdrawn"));
    dirigent.shutdown().await.unwrap();
}
