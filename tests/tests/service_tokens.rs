//! MCP-4: what 50 tools of real services cost in tokens, with all schemas in each request, and layered: names and sentences of what the goal
//! asks for, and two descriptions.
//!
//! `tests/mcp/record-tools` records the lists of tools. `cargo test -p dirigent-tests --test suites service_tokens -- --nocapture` prints the
//! figures.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::fs;

use dirigent::Dirigent;
use dirigent::config::{Config, Sources};
use dirigent_core::loop_tools::service_tools;
use dirigent_core::token_ratio::estimated_tokens;
use dirigent_core::tool::ToolSpec;
use dirigent_tests::cli::root;
use dirigent_tests::scripted::{Asked, Scripted, call, says};
use dirigent_tests::stage::Stage;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The number of tools.
const TOOLS: usize = 50;

/// The services, and the files with their tools.
const SERVICES: [(&str, &str); 4] = [
    ("everything", "modelcontextprotocol-server-everything.json"),
    ("filesystem", "modelcontextprotocol-server-filesystem.json"),
    ("memory", "modelcontextprotocol-server-memory.json"),
    ("playwright", "playwright-mcp.json"),
];

/// The estimated tokens.
#[derive(Debug, Deserialize, PartialEq, Serialize)]
struct Figures {
    /// All schemas in each request.
    all_schemas: u64,
    /// A goal that asks for one service, and reads two of its tools.
    one_service: u64,
    /// A goal that asks for all services, and reads two of their tools.
    all_services: u64,
    /// `describe_tool` and `call_tool` alone, which a goal that asks for no service has.
    no_service: u64,
}

impl Figures {
    /// The part of the tokens of all schemas, in thousandths.
    fn ratio(&self, tokens: u64) -> u64 {
        tokens * 1000 / self.all_schemas
    }
}

/// A configuration of the services, which list 50 tools together.
fn user(stage: &Stage) -> Config {
    let folder = stage.workspace();
    let server = root().join("crates/mcp/tests/server.py");
    let (mut config, mut left) = (String::new(), TOOLS);
    for (name, file) in SERVICES {
        let recorded = fs::read_to_string(root().join("tests/mcp/tools").join(file)).unwrap();
        let mut recorded: Value = serde_json::from_str(&recorded).unwrap();
        let tools = recorded["tools"].as_array_mut().unwrap();
        tools.truncate(left);
        left -= tools.len();
        let list = folder.join(file);
        fs::write(&list, json!(tools).to_string()).unwrap();
        let lists = format!("lists={}", list.display());
        config.push_str(&format!(
            "[mcp.{name}]\ncommand = \"/usr/bin/python3\"\nargs = [{server:?}, {lists:?}]\n"
        ));
    }
    assert_eq!(left, 0, "the recorded services have fewer tools");
    fs::write(folder.join("dirigent.toml"), config).unwrap();
    Config::load(&Sources::none().folder(folder)).unwrap()
}

/// The tokens of what a goal needs of the services: the tools that each request declares, the names and sentences, and two descriptions.
async fn layered(dirigent: &Dirigent, model: &Scripted, goal: &str, stage: &Stage) -> u64 {
    let before = model.lead_asked().len();
    let run = dirigent.start(stage.goal(goal)).await.unwrap();
    run.outcome().await.unwrap();
    let asked: Vec<Asked> = model.lead_asked().split_off(before);
    let first = asked[0].messages.last().unwrap().content();
    let (_, names) = first.split_once("<SERVICES>").unwrap();
    let (names, _) = names.split_once("<ITERATION>").unwrap();
    let descriptions = asked[1..].iter().map(|asked| {
        let result = asked.last();
        assert!(result.contains("parameters"), "{result}");
        estimated_tokens(result)
    });
    declared() + estimated_tokens(names) + descriptions.sum::<u64>()
}

fn declared() -> u64 {
    service_tools().iter().map(ToolSpec::estimated_tokens).sum()
}

async fn figures() -> Figures {
    let describe = |tool: &str| call("describe_tool", json!({ "name": tool }));
    let once = || {
        [
            describe("mcp__filesystem__edit_file"),
            describe("mcp__filesystem__search_files"),
            says("Read."),
        ]
    };
    let (stage, model) = (
        Stage::new(),
        Scripted::new().lead(once().into_iter().chain(once())),
    );
    let config = user(&stage);
    let builder = stage.builder(model.clone()).config(&config);
    let dirigent = builder.build().await.unwrap();
    let one = "Use the filesystem tool to find my notes";
    let one_service = layered(&dirigent, &model, one, &stage).await;
    let all =
        "Use the everything tool, use the filesystem tool, use the memory tool and use the playwright tool";
    let all_services = layered(&dirigent, &model, all, &stage).await;
    let lists = SERVICES.map(|(name, _)| dirigent.mcp().tools(name).unwrap());
    let tools: Vec<&ToolSpec> = lists.iter().flat_map(|list| list.specs()).collect();
    assert_eq!(tools.len(), TOOLS);
    let all_schemas = tools.iter().map(|tool| tool.estimated_tokens()).sum();
    dirigent.shutdown().await.unwrap();
    Figures {
        all_schemas,
        one_service,
        all_services,
        no_service: declared(),
    }
}

/// `service-tokens.json` has the figures that were last accepted. `DIRIGENT_UPDATE_TOKENS=1` updates the file.
#[tokio::test]
async fn mcp_4_the_tools_of_services_cost_no_tenth_more_than_before() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/service-tokens.json");
    let now = figures().await;
    if std::env::var_os("DIRIGENT_UPDATE_TOKENS").is_some() {
        fs::write(file, format!("{:#}\n", json!(now))).unwrap();
    }
    let before: Figures = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    let rows = |figures: &Figures| {
        BTreeMap::from([
            ("a goal that asks for no service", figures.no_service),
            ("one service, two descriptions", figures.one_service),
            ("all services, two descriptions", figures.all_services),
        ])
    };
    println!("{:<36} {:>7} {:>7}", "50 tools of 4 services", "tokens", "of all");
    println!("{:<36} {:>7} {:>6}%", "all schemas", now.all_schemas, 100);
    let before_rows = rows(&before);
    for (row, tokens) in rows(&now) {
        let ratio = now.ratio(tokens);
        println!("{row:<36} {tokens:>7} {:>4}.{}%", ratio / 10, ratio % 10);
        let limit = before.ratio(before_rows[row]) * 11 / 10;
        assert!(
            ratio <= limit,
            "{row}: {ratio} thousandths of all schemas, more than {limit}"
        );
    }
}
