//! MCP-1, MCP-2, MCP-5: services of the Model Context Protocol in runs: `[mcp.NAME]`, and agents whose files name their tools.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::path::Path;

use dirigent::config::{Config, Sources};
use dirigent::mcp::{Endpoint, ServiceState};
use dirigent::{ApprovalAnswer, Dirigent, EventKind, Goal, UserPresence};
use dirigent_tests::cli::root;
use dirigent_tests::scripted::{Gate, Scripted, achieved, call, delegate, plan, says};
use dirigent_tests::stage::{Stage, achieved_report, decide, findings, next_approval, until};
use serde_json::json;
use tempfile::TempDir;

/// A user's configuration folder with the service `test`, and an agent `helper` that has its tools.
fn user(settings: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let server = root().join("crates/mcp/tests/server.py");
    let config = format!("[mcp.test]\ncommand = \"/usr/bin/python3\"\nargs = [{server:?}]\n{settings}");
    fs::write(folder.path().join("dirigent.toml"), config).unwrap();
    fs::create_dir(folder.path().join("agents")).unwrap();
    let helper =
        "---\nname: helper\ndescription: Helps.\ntools: [mcp__test__*, search]\n---\nYou are helper.\n";
    fs::write(folder.path().join("agents/helper.md"), helper).unwrap();
    folder
}

fn load(folder: &Path) -> Config {
    Config::load(&Sources::none().folder(folder)).unwrap()
}

/// A lead that has `helper` do one thing: call the tool `echo`.
fn model() -> Scripted {
    Scripted::new()
        .lead([plan(
            "Ask the service.",
            [delegate("one", "helper", "Echo a word.")],
        )])
        .agent(
            "helper",
            [
                call("mcp__test__echo", json!({"text": "heard"})),
                says("It said: heard."),
            ],
        )
        .reflector([achieved("Done.")])
}

async fn dirigent(stage: &Stage, model: &Scripted, folder: &Path) -> Dirigent {
    let builder = stage.builder(model.clone()).config(&load(folder));
    builder.build().await.unwrap()
}

#[tokio::test]
async fn mcp_2_an_agent_has_the_tools_of_a_service_that_its_file_names_and_no_other_agent_has_them() {
    let (stage, model) = (Stage::new(), model());
    let folder = user("[approvals]\nallow = [\"mcp__test__*\"]\n");
    let dirigent = dirigent(&stage, &model, folder.path()).await;
    let run = dirigent.start(stage.goal("Ask the service")).await.unwrap();
    let report = achieved_report(&run).await;
    assert_eq!(findings(&report, 0, "one").unwrap(), "It said: heard.");

    let asked = model.agent_asked("helper");
    assert!(asked[0].system().contains("[MCP service test] Does echo."));
    assert_eq!(asked[1].result()["output"], "heard");
    for asked in model.lead_asked().iter().chain(&model.reflector_asked()) {
        assert!(!asked.system().contains("mcp__test__echo"), "{}", asked.system());
    }
    assert_eq!(
        dirigent.mcp().service("test").unwrap().state,
        ServiceState::Running
    );
    dirigent.shutdown().await.unwrap();
    assert_ne!(
        dirigent.mcp().service("test").unwrap().state,
        ServiceState::Running
    );
}

#[tokio::test]
async fn mcp_2_without_trust_and_without_a_rule_each_call_asks() {
    let (stage, model) = (Stage::new(), model());
    let folder = user("");
    let dirigent = dirigent(&stage, &model, folder.path()).await;
    let goal = stage.goal("Ask the service").user(UserPresence::Present);
    let run = dirigent.start(goal).await.unwrap();
    let approval = next_approval(&mut run.events(0)).await;
    assert_eq!(approval.tool, "mcp__test__echo");
    decide(&run, &approval, ApprovalAnswer::Approve).await.unwrap();
    achieved_report(&run).await;
}

#[tokio::test]
async fn mcp_5_a_stopped_service_is_an_error_for_the_model_and_the_run_goes_on() {
    let (stage, model) = (Stage::new(), model());
    let folder = user("[approvals]\nallow = [\"mcp__*\"]\n");
    let dirigent = dirigent(&stage, &model, folder.path()).await;
    dirigent.mcp().start("test").await.unwrap();
    let run = dirigent.start(stage.goal("Ask the service")).await.unwrap();
    dirigent.mcp().stop("test").await.unwrap();
    let report = achieved_report(&run).await;
    assert_eq!(findings(&report, 0, "one").unwrap(), "It said: heard.");
    let result = model.agent_asked("helper")[1].result();
    // The service may have answered just before it was stopped.
    let said = result["output"]
        .as_str()
        .or(result["error"].as_str())
        .unwrap_or_default();
    assert!(said == "heard" || said.contains("service test"), "{result}");
}

#[tokio::test]
async fn mcp_6_a_service_that_cannot_start_leaves_its_agents_without_its_tools() {
    let stage = Stage::new();
    let folder = user("");
    let config = fs::read_to_string(folder.path().join("dirigent.toml")).unwrap();
    let broken = config.replace("/usr/bin/python3", "/no/such/program");
    fs::write(folder.path().join("dirigent.toml"), broken).unwrap();
    let model = Scripted::new()
        .lead([plan(
            "Ask the service.",
            [delegate("one", "helper", "Echo a word.")],
        )])
        .agent("helper", [says("I have no such tool.")])
        .reflector([achieved("Done.")]);
    let dirigent = dirigent(&stage, &model, folder.path()).await;
    let run = dirigent.start(stage.goal("Ask the service")).await.unwrap();
    achieved_report(&run).await;
    assert!(!model.agent_asked("helper")[0].system().contains("mcp__test__"));
}

#[tokio::test]
async fn mcp_1_no_service_starts_for_a_run_that_needs_none() {
    let stage = Stage::new();
    let folder = user("");
    fs::remove_file(folder.path().join("agents/helper.md")).unwrap();
    let model = Scripted::new().lead([says("It is done.")]);
    let dirigent = dirigent(&stage, &model, folder.path()).await;
    let run = dirigent.start(stage.goal("Say that it is done")).await.unwrap();
    achieved_report(&run).await;
    let state = dirigent.mcp().service("test").unwrap().state;
    assert!(matches!(state, ServiceState::Stopped(_)), "{state:?}");
}

/// The error of a configuration, without the path of the file's folder.
fn wrong(text: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("dirigent.toml"), text).unwrap();
    let error = Config::load(&Sources::none().folder(folder.path()))
        .expect_err(text)
        .to_string();
    error.split_once("dirigent.toml:").unwrap().1.to_owned()
}

#[test]
fn mcp_1_the_settings_of_services_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let text = "[mcp.files]\ncommand = \"npx\"\nargs = [\"-y\", \"\"]\nenv = { TOKEN = \"canary\" }\ntimeout = \"5s\"\ntrust = true\n\
                [mcp.web]\nurl = \"https://example.com/mcp\"\nbearer_token_env = \"WEB_TOKEN\"\nenabled = false\ntrigger_keywords = [\"weather\"]\n";
    fs::write(folder.path().join("dirigent.toml"), text).unwrap();
    let config = load(folder.path());
    let services = config.services().unwrap();
    let names: Vec<&str> = services.iter().map(|service| service.name.as_str()).collect();
    assert_eq!(names, ["files", "web"]);
    let [files, web] = &services[..] else { panic!() };
    assert!(files.trust && files.enabled && !web.enabled);
    assert_eq!(files.call_timeout.as_secs(), 5);
    assert_eq!(files.description(), "files");
    assert_eq!(web.trigger_keywords, ["weather"]);
    match (&files.endpoint, &web.endpoint) {
        (Endpoint::Command(command), Endpoint::Url(url)) => {
            assert_eq!(
                (command.command.as_str(), &command.args[..]),
                ("npx", &["-y".to_owned(), String::new()][..])
            );
            assert_eq!(url.url.as_str(), "https://example.com/mcp");
        }
        other => panic!("{other:?}"),
    }
    let shown: Vec<String> = config
        .settings()
        .iter()
        .map(|setting| format!("{} {}", setting.key, setting.value))
        .collect();
    assert!(!shown.concat().contains("canary"), "{shown:?}");
}

#[test]
fn mcp_1_a_wrong_setting_of_a_service_names_its_line() {
    let check = |text: &str, expected: &str| assert_eq!(wrong(text), expected);
    check(
        "[mcp.a]\ntrust = true\n",
        "2: `mcp.a.command` is not set: set it to the program of the service, or set `url` to its address",
    );
    check(
        "[mcp.a]\ncommand = \"x\"\nurl = \"https://example.com\"\n",
        "3: `mcp.a.url` and `command` can't both be set: remove one",
    );
    check(
        "[mcp.a]\nurl = \"https://example.com\"\nargs = [\"x\"]\n",
        "3: `mcp.a.args` applies only to a service with `command`, and this one has `url`: remove it",
    );
    check(
        "[mcp.a]\nurl = \"ftp://example.com\"\n",
        "2: `mcp.a.url` ftp://example.com/ is not an address of a server: use http:// or https://",
    );
    check(
        "[mcp.a__b]\ncommand = \"x\"\n",
        "2: `mcp.\"a__b\"` `a__b` is not a service name: use 1 to 32 letters, digits, `-` and single `_`, with no `_` at the ends",
    );
}

#[test]
fn mcp_2_rules_and_agent_files_may_name_only_services_that_exist() {
    let folder = user("[approvals]\nask = [\"mcp__test__echo\", \"mcp__test__*\"]\n");
    let agents = folder.path().join("agents");
    fs::write(
        agents.join("lost.md"),
        "---\ndescription: Lost.\ntools: [mcp__other__*]\n---\nYou are lost.\n",
    )
    .unwrap();
    let listed =
        dirigent_tests::stage::block_on(Dirigent::builder().config(&load(folder.path())).agents(None))
            .unwrap();
    let refused: Vec<&str> = listed.refused.iter().map(|agent| agent.reason.as_str()).collect();
    assert_eq!(refused.len(), 1);
    assert!(refused[0].contains("mcp__other__*"), "{refused:?}");
    let helper = listed.agents.iter().find(|agent| agent.name == "helper").unwrap();
    assert!(helper.tools.contains(&"mcp__test__*".to_owned()));
}

#[tokio::test]
async fn mcp_4_the_lead_is_told_only_the_tool_names_of_a_service_that_the_goal_asks_for() {
    let stage = Stage::new();
    let folder = user("trust = true\n");
    let model = Scripted::new().lead([
        call("describe_tool", json!({"name": "mcp__test__echo"})),
        call(
            "call_tool",
            json!({"name": "mcp__test__echo", "arguments": {"text": "heard"}}),
        ),
        says("It said: heard."),
    ]);
    let dirigent = dirigent(&stage, &model, folder.path()).await;
    // The service's tools are not known before it has run once.
    let goal = stage.goal("Use the test tool to echo a word");
    let run = dirigent.start(goal.user(UserPresence::Present)).await.unwrap();
    let report = run.outcome().await.unwrap();
    assert_eq!(report.summary, "It said: heard.");

    let asked = model.lead_asked();
    let request = asked[0].messages.last().unwrap().content().to_owned();
    assert!(
        request.contains("<SERVICES>\ntest\n- ") && request.contains("\n- mcp__test__echo: "),
        "{request}"
    );
    assert!(!request.contains("\"text\""), "no schema: {request}");
    assert!(asked[1].last().contains("\"seconds\""), "{}", asked[1].last());
    assert_eq!(asked[2].result()["output"], "heard");
    dirigent.shutdown().await.unwrap();
}

#[tokio::test]
async fn mcp_2_a_run_is_told_how_the_tools_of_its_service_change_between_calls() {
    let stage = Stage::new();
    let folder = tempfile::tempdir().unwrap();
    let server = root().join("crates/mcp/tests/server.py");
    let config = format!(
        "[mcp.test]\ncommand = \"/usr/bin/python3\"\nargs = [{server:?}, \"changing\"]\ntrust = true\n"
    );
    fs::write(folder.path().join("dirigent.toml"), config).unwrap();
    let by_name = |name: &str| {
        call(
            "call_tool",
            json!({"name": format!("mcp__test__{name}"), "arguments": {}}),
        )
    };
    let gate = Gate::shut();
    // The service changes its tools after the first call.
    let model = Scripted::new().lead([
        by_name("echo"),
        by_name("only_0").behind(&gate),
        by_name("only_1"),
        says("It changed."),
    ]);
    let dirigent = dirigent(&stage, &model, folder.path()).await;
    let goal = stage.goal("Use the test tool to echo a word");
    let run = dirigent.start(goal.user(UserPresence::Present)).await.unwrap();
    let changed = until(&mut run.events(0), |kind| {
        matches!(kind, EventKind::ToolsChanged { .. })
    })
    .await;
    gate.open();
    assert_eq!(run.outcome().await.unwrap().summary, "It changed.");

    let tools = |name: &str| vec![format!("mcp__test__{name}")];
    assert_eq!(
        changed.kind,
        EventKind::ToolsChanged {
            service: "test".to_owned(),
            added: tools("only_1"),
            removed: tools("only_0"),
            changed: tools("same"),
        }
    );
    let asked = model.lead_asked();
    let request = &asked[2].messages;
    let [.., result, notice] = &request[..] else {
        panic!("{request:?}");
    };
    assert!(
        result.content().contains("no longer has the tool"),
        "{}",
        result.content()
    );
    let notice = notice.content();
    for line in [
        "- mcp__test__only_1: ",
        "- mcp__test__same: Version 1.",
        "- mcp__test__only_0",
    ] {
        assert!(notice.contains(line), "{notice}");
    }
    // The service itself does not know the tool; the call reached it.
    assert!(
        asked[3].last().contains("Unknown tool: only_1"),
        "{}",
        asked[3].last()
    );
    assert_eq!(asked[0].system(), asked[3].system());

    let recording = dirigent.recording(run.id()).await.unwrap();
    let again = dirigent
        .replay(&recording, Goal::from_recording(&recording))
        .await;
    assert_eq!(again.unwrap().outcome().await.unwrap().summary, "It changed.");
    dirigent.shutdown().await.unwrap();
}

#[tokio::test]
async fn mcp_4_a_goal_that_asks_for_no_service_starts_none_and_names_no_tool_of_one() {
    let stage = Stage::new();
    let folder = user("trigger_keywords = [\"parrot\"]\n");
    fs::remove_file(folder.path().join("agents/helper.md")).unwrap();
    let model = Scripted::new().lead([says("Four."), says("No parrot.")]);
    let dirigent = dirigent(&stage, &model, folder.path()).await;
    let run = dirigent.start(stage.goal("What is two and two?")).await.unwrap();
    run.outcome().await.unwrap();
    let first = &model.lead_asked()[0];
    assert!(first.system().contains("call_tool"), "{}", first.system());
    let all: String = first.messages.iter().map(|message| message.content()).collect();
    assert!(!all.contains("SERVICES>") && !all.contains("mcp__test"), "{all}");
    let state = |dirigent: &Dirigent| dirigent.mcp().service("test").unwrap().state;
    assert!(
        matches!(state(&dirigent), ServiceState::Stopped(_)),
        "{:?}",
        state(&dirigent)
    );

    // Only the part of the request that follows the shared beginning differs.
    let run = dirigent
        .start(stage.goal("What does the parrot say?"))
        .await
        .unwrap();
    run.outcome().await.unwrap();
    let second = &model.lead_asked()[1];
    assert_eq!(first.system(), second.system());
    assert!(second.last().contains("- mcp__test__echo: "), "{}", second.last());
    dirigent.shutdown().await.unwrap();
}

#[tokio::test]
async fn mcp_5_a_goal_that_asks_for_a_stopped_or_unknown_service_is_told_why_it_cannot_be_used() {
    let stage = Stage::new();
    let folder = user("");
    let model = Scripted::new().lead([says("It is stopped."), says("There is none.")]);
    let dirigent = dirigent(&stage, &model, folder.path()).await;
    dirigent.mcp().stop("test").await.unwrap();
    for goal in ["Use the test tool", "Use the weather tool"] {
        let run = dirigent.start(stage.goal(goal)).await.unwrap();
        assert!(run.outcome().await.unwrap().is_achieved());
    }
    let asked = model.lead_asked();
    assert!(
        asked[0].last().contains("test (cannot be used now: "),
        "{}",
        asked[0].last()
    );
    assert!(
        asked[1]
            .last()
            .contains("weather (cannot be used now: there is no such tool or service)"),
        "{}",
        asked[1].last()
    );
    dirigent.shutdown().await.unwrap();
}
