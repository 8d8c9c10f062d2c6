//! MCP-1, MCP-3: services that the user adds, the tools that are kept of them, and those of a project's `.mcp.json`, through the library.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use dirigent::config::{Config, Sources};
use dirigent::mcp::{ServiceName, ServiceState, ToolList, WhyStopped};
use dirigent::memory::Secret;
use dirigent::services::{RegisteredService, ServiceError, ServiceOrigin, ServiceSettings};
use dirigent::{Dirigent, DirigentError, UserPresence};
use dirigent_tests::cli::root;
use dirigent_tests::scripted::{Scripted, call, says};
use dirigent_tests::stage::Stage;
use serde_json::json;

/// The settings of the test program with these faults.
pub(crate) fn server(faults: &[&str]) -> ServiceSettings {
    let script = root().join("crates/mcp/tests/server.py");
    let faults = faults.iter().map(|fault| (*fault).to_owned());
    ServiceSettings {
        command: Some("/usr/bin/python3".to_owned()),
        args: [script.display().to_string()].into_iter().chain(faults).collect(),
        ..ServiceSettings::default()
    }
}

/// The settings of the test program, which notes each of its starts in a file.
pub(crate) fn counted(file: &Path) -> ServiceSettings {
    server(&[&format!("pids={}", file.display())])
}

/// How often a counted program was started: it writes three lines each time.
pub(crate) fn starts(file: &Path) -> usize {
    fs::read_to_string(file).unwrap_or_default().lines().count() / 3
}

/// Opens the journal as a new process would.
async fn opened(stage: &Stage) -> Dirigent {
    with_model(stage, Scripted::new()).await
}

pub(crate) async fn with_model(stage: &Stage, model: Scripted) -> Dirigent {
    stage.builder(model).build().await.unwrap()
}

/// With the configuration in a folder.
async fn configured(stage: &Stage, folder: &Path, model: Scripted) -> Dirigent {
    let config = Config::load(&Sources::none().folder(folder)).unwrap();
    stage.builder(model).config(&config).build().await.unwrap()
}

fn refused<T: std::fmt::Debug>(result: Result<T, DirigentError>) -> ServiceError {
    match result.unwrap_err() {
        DirigentError::Service(error) => error,
        other => panic!("{other}"),
    }
}

fn tools(service: &RegisteredService) -> Vec<&str> {
    service.tools.specs().map(|tool| tool.name.as_str()).collect()
}

fn names(services: &[RegisteredService]) -> Vec<&str> {
    services.iter().map(|service| service.name.as_str()).collect()
}

#[tokio::test]
async fn mcp_1_an_added_service_is_started_once_and_its_tools_are_known_to_later_processes() {
    let stage = Stage::new();
    let file = stage.workspace().join("pids");
    let dirigent = opened(&stage).await;
    let added = dirigent.add_service("echo", counted(&file)).await.unwrap();
    assert_eq!(added.state, ServiceState::Running);
    assert!(matches!(added.origin, ServiceOrigin::Store { version: 1, .. }));
    assert!(tools(&added).contains(&"mcp__echo__echo"), "{:?}", tools(&added));
    dirigent.shutdown().await.unwrap();

    let dirigent = opened(&stage).await;
    let listed = dirigent.services(None).await.unwrap();
    let service = listed.find("echo").unwrap();
    assert_eq!(service.state, ServiceState::Stopped(WhyStopped::NotNeeded));
    assert_eq!(tools(service), tools(&added));
    assert_eq!(service.settings, counted(&file));
    assert_eq!(service.last_start.as_ref().unwrap().error, None);
    assert_eq!(starts(&file), 1);
    dirigent.shutdown().await.unwrap();
}

#[tokio::test]
async fn mcp_3_a_goal_that_names_a_tool_of_an_added_service_starts_it_and_other_goals_do_not() {
    let stage = Stage::new();
    let file = stage.workspace().join("pids");
    let dirigent = opened(&stage).await;
    let settings = ServiceSettings {
        trust: true,
        ..counted(&file)
    };
    dirigent.add_service("parrot", settings).await.unwrap();
    dirigent.shutdown().await.unwrap();

    let model = Scripted::new().lead([
        says("Four."),
        call(
            "call_tool",
            json!({"name": "mcp__parrot__echo", "arguments": {"text": "heard"}}),
        ),
        says("It said: heard."),
    ]);
    let dirigent = with_model(&stage, model.clone()).await;
    let goal = stage.goal("What is two and two?");
    dirigent.start(goal).await.unwrap().outcome().await.unwrap();
    assert_eq!(starts(&file), 1);
    // Nothing but the kept list says that `echo` is a tool of the service.
    let run = dirigent
        .start(stage.goal("call echo to repeat a word"))
        .await
        .unwrap();
    assert_eq!(starts(&file), 2);
    let report = run.outcome().await.unwrap();
    assert_eq!(report.summary, "It said: heard.");
    let told = model.lead_asked()[1].last().to_owned();
    assert!(
        told.contains("- mcp__parrot__echo: ") && !told.contains("mcp__parrot__wait"),
        "{told}"
    );
    dirigent.shutdown().await.unwrap();
}

#[tokio::test]
async fn mcp_1_a_service_that_cannot_start_is_added_with_its_error_and_its_last_messages() {
    let stage = Stage::new();
    let dirigent = opened(&stage).await;
    let added = dirigent.add_service("broken", server(&["fails"])).await.unwrap();
    assert!(
        matches!(added.state, ServiceState::Error { .. }),
        "{:?}",
        added.state
    );
    dirigent.shutdown().await.unwrap();

    let listed = opened(&stage).await.services(None).await.unwrap();
    let start = listed.find("broken").unwrap().last_start.clone().unwrap();
    assert!(start.error.is_some());
    assert_eq!(start.stderr, ["cannot find the token"]);
}

#[tokio::test]
async fn mcp_1_an_update_makes_a_new_version_and_a_removed_service_is_gone() {
    let stage = Stage::new();
    let dirigent = opened(&stage).await;
    dirigent.add_service("a", server(&[])).await.unwrap();
    let again = refused(dirigent.add_service("a", server(&[])).await);
    assert!(matches!(again, ServiceError::Exists { .. }), "{again}");
    let settings = ServiceSettings {
        description: Some("Repeats words.".to_owned()),
        ..server(&["greets"])
    };
    let updated = dirigent.update_service("a", settings.clone()).await.unwrap();
    assert!(matches!(updated.origin, ServiceOrigin::Store { version: 2, .. }));
    assert_eq!(updated.settings, settings);
    assert_eq!(dirigent.mcp().service("a").unwrap().description, "Repeats words.");

    dirigent.remove_service("a").await.unwrap();
    assert!(dirigent.services(None).await.unwrap().services.is_empty());
    assert!(dirigent.mcp().is_empty());
    for error in [
        refused(dirigent.remove_service("a").await),
        refused(dirigent.update_service("a", settings).await),
        refused(dirigent.start_service("a", None).await),
        refused(dirigent.stop_service("a", None).await),
    ] {
        assert_eq!(error.to_string(), "there is no service a: there are none yet");
    }
    dirigent.shutdown().await.unwrap();
}

#[tokio::test]
async fn mcp_1_a_service_that_the_user_stopped_stays_stopped_until_the_user_starts_it() {
    let stage = Stage::new();
    let file = stage.workspace().join("pids");
    let dirigent = opened(&stage).await;
    dirigent.add_service("echo", counted(&file)).await.unwrap();
    let stopped = dirigent.stop_service("echo", None).await.unwrap();
    assert_eq!(stopped.state, ServiceState::Stopped(WhyStopped::ByUser));
    dirigent.shutdown().await.unwrap();

    let model = Scripted::new().lead([says("It is stopped.")]);
    let dirigent = with_model(&stage, model.clone()).await;
    let run = dirigent.start(stage.goal("Use the echo tool")).await.unwrap();
    run.outcome().await.unwrap();
    let told = model.lead_asked()[0].last().to_owned();
    assert!(told.contains("the service echo is stopped"), "{told}");
    assert_eq!(starts(&file), 1);

    let started = dirigent.start_service("echo", None).await.unwrap();
    assert_eq!(started.state, ServiceState::Running);
    dirigent.shutdown().await.unwrap();
    let listed = opened(&stage).await.services(None).await.unwrap();
    let state = &listed.find("echo").unwrap().state;
    assert_eq!(*state, ServiceState::Stopped(WhyStopped::NotNeeded));
}

#[tokio::test]
async fn mcp_1_the_configuration_comes_before_added_services_and_is_not_changed() {
    let stage = Stage::new();
    let dirigent = opened(&stage).await;
    dirigent.add_service("echo", server(&[])).await.unwrap();
    dirigent.shutdown().await.unwrap();

    let text =
        "[mcp.echo]\ncommand = \"/no/such/program\"\nenv = { API_TOKEN = \"canary\", PATH = \"${PATH}\" }\n";
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("dirigent.toml"), text).unwrap();
    let dirigent = configured(&stage, folder.path(), Scripted::new()).await;
    let listed = dirigent.services(None).await.unwrap();
    let service = listed.find("echo").unwrap();
    assert_eq!(service.origin, ServiceOrigin::Configuration);
    assert!(matches!(
        service.hides[..],
        [ServiceOrigin::Store { version: 1, .. }]
    ));
    let shown = BTreeMap::from([
        ("API_TOKEN".to_owned(), "(hidden)".to_owned()),
        ("PATH".to_owned(), "${PATH}".to_owned()),
    ]);
    assert_eq!(service.settings.env, shown);
    let error = refused(dirigent.update_service("echo", server(&[])).await);
    assert_eq!(
        error.to_string(),
        "the service echo comes from the configuration, so it can only be changed there"
    );
    let failed = dirigent
        .start_service("echo", None)
        .await
        .unwrap_err()
        .to_string();
    assert!(
        failed.contains("there is no program `/no/such/program`"),
        "{failed}"
    );
    // The hidden one can be removed.
    dirigent.remove_service("echo").await.unwrap();
    assert!(
        dirigent.services(None).await.unwrap().services[0]
            .hides
            .is_empty()
    );
}

#[tokio::test]
async fn mcp_1_settings_that_cannot_be_used_are_refused_and_secrets_are_not_stored() {
    let stage = Stage::new();
    let dirigent = opened(&stage).await;
    let bad_name = refused(dirigent.add_service("a__b", server(&[])).await).to_string();
    assert!(
        bad_name.starts_with("the service a__b was not saved: name: `a__b` is not a service name"),
        "{bad_name}"
    );
    let nothing = refused(dirigent.add_service("a", ServiceSettings::default()).await).to_string();
    assert!(nothing.contains("command: is not set"), "{nothing}");
    let relative = ServiceSettings {
        cwd: Some("here".into()),
        ..server(&[])
    };
    let relative = refused(dirigent.add_service("a", relative).await).to_string();
    assert!(
        relative.contains("cwd: here is not an absolute path"),
        "{relative}"
    );
    let secret = ServiceSettings {
        env: BTreeMap::from([("GITHUB_TOKEN".to_owned(), "canary".to_owned())]),
        ..server(&[])
    };
    let error = refused(dirigent.add_service("a", secret).await);
    assert_eq!(
        error,
        ServiceError::Secret {
            name: dirigent::mcp::ServiceName::new("a").unwrap(),
            setting: "env.GITHUB_TOKEN".to_owned(),
            secret: Secret::Password,
        }
    );
    assert!(!error.to_string().contains("canary"), "{error}");
    assert!(dirigent.services(None).await.unwrap().services.is_empty());
}

#[tokio::test]
async fn mcp_1_a_file_of_another_client_is_imported_without_its_secrets() {
    let stage = Stage::new();
    let dirigent = opened(&stage).await;
    dirigent.add_service("taken", server(&[])).await.unwrap();
    let script = root().join("crates/mcp/tests/server.py");
    let server =
        |env: serde_json::Value| json!({"command": "/usr/bin/python3", "args": [script], "env": env});
    let text = json!({"mcpServers": {
        "good": server(json!({"GITHUB_TOKEN": "${GITHUB_TOKEN:-}"})),
        "secret": server(json!({"GITHUB_TOKEN": "canary"})),
        "taken": server(json!({})),
        "off": {"command": "/no/such/program", "disabled": true},
        "odd": {},
    }});
    let imported = dirigent
        .import_services(&text.to_string(), &stage.workspace())
        .await
        .unwrap();
    assert_eq!(names(&imported.added), ["good", "off"]);
    assert_eq!(imported.added[0].state, ServiceState::Running);
    assert!(!imported.added[1].settings.enabled && imported.added[1].last_start.is_none());
    let skipped: Vec<&str> = imported
        .skipped
        .iter()
        .map(|skipped| skipped.name.as_str())
        .collect();
    assert_eq!(skipped, ["odd", "secret", "taken"]);
    assert!(imported.skipped[1].reason.contains("env.GITHUB_TOKEN"));

    let error = refused(dirigent.import_services("{", &stage.workspace()).await).to_string();
    assert!(
        error.starts_with("the services cannot be read: line 1, column 1 is not valid JSON"),
        "{error}"
    );
    dirigent.shutdown().await.unwrap();
}

#[tokio::test]
async fn mcp_1_a_service_that_another_process_adds_is_known_to_the_next_run() {
    let stage = Stage::new();
    let model = Scripted::new().lead([says("It is there.")]);
    let dirigent = with_model(&stage, model.clone()).await;
    let other = opened(&stage).await;
    other.add_service("echo", server(&[])).await.unwrap();
    other.shutdown().await.unwrap();
    let run = dirigent.start(stage.goal("Use the echo tool")).await.unwrap();
    run.outcome().await.unwrap();
    let told = model.lead_asked()[0].last().to_owned();
    assert!(told.contains("mcp__echo__echo"), "{told}");

    let other = opened(&stage).await;
    other.remove_service("echo").await.unwrap();
    assert!(dirigent.services(None).await.unwrap().services.is_empty());
    dirigent.shutdown().await.unwrap();
}

/// The `.mcp.json` of a project with the counted program as the service `parrot`.
fn project_file(file: &Path) -> String {
    let settings = counted(file);
    json!({"mcpServers": {"parrot": {"command": settings.command, "args": settings.args}}}).to_string()
}

#[tokio::test]
async fn mcp_1_a_projects_file_starts_nothing_before_its_content_is_trusted_and_after_a_change() {
    let stage = Stage::new();
    let (pids, file) = (
        stage.workspace().join("pids"),
        stage.workspace().join(".mcp.json"),
    );
    fs::write(&file, project_file(&pids)).unwrap();
    let model = Scripted::new().lead([says("No."), says("Yes."), says("No.")]);
    let dirigent = with_model(&stage, model.clone()).await;
    let workspace = stage.workspace();
    let ask = async || {
        let run = dirigent.start(stage.goal("Use the parrot tool")).await.unwrap();
        run.outcome().await.unwrap();
        model.lead_asked().last().unwrap().last().to_owned()
    };

    let listed = dirigent.services(Some(&workspace)).await.unwrap();
    let untrusted = listed.untrusted.unwrap();
    assert!(listed.services.is_empty());
    assert_eq!(untrusted.services, ["parrot"]);
    assert!(!untrusted.changed);
    assert!(!ask().await.contains("mcp__parrot"));
    assert_eq!(starts(&pids), 0);

    let trusted = dirigent.trust_services(&untrusted).await.unwrap();
    let parrot = trusted.find("parrot").unwrap();
    assert_eq!(
        parrot.origin,
        ServiceOrigin::Project(file.canonicalize().unwrap())
    );
    assert_eq!(parrot.settings.cwd, Some(workspace.canonicalize().unwrap()));
    assert!(ask().await.contains("mcp__parrot__echo"));
    assert_eq!(starts(&pids), 1);
    // It is a service of this project only.
    assert!(dirigent.services(None).await.unwrap().services.is_empty());

    fs::write(&file, project_file(&pids) + "\n").unwrap();
    let listed = dirigent.services(Some(&workspace)).await.unwrap();
    assert!(listed.services.is_empty() && listed.untrusted.unwrap().changed);
    assert!(!ask().await.contains("mcp__parrot"));
    dirigent.shutdown().await.unwrap();
}

#[tokio::test]
async fn mcp_1_a_run_does_not_continue_with_the_service_of_another_project_that_has_its_name() {
    let (one, other) = (Stage::new(), tempfile::tempdir().unwrap());
    let pids = one.workspace().join("pids");
    for folder in [one.workspace(), other.path().to_owned()] {
        fs::write(folder.join(".mcp.json"), project_file(&pids)).unwrap();
    }
    let dirigent = with_model(&one, Scripted::new().lead([says("Hello.")])).await;
    let run = dirigent.start(one.goal("Say hello")).await.unwrap();
    run.outcome().await.unwrap();
    for folder in [one.workspace(), other.path().to_owned()] {
        let listed = dirigent.services(Some(&folder)).await.unwrap();
        dirigent.trust_services(&listed.untrusted.unwrap()).await.unwrap();
    }
    dirigent.shutdown().await.unwrap();

    let dirigent = opened(&one).await;
    let listed = dirigent.services(Some(other.path())).await.unwrap();
    assert_eq!(names(&listed.services), ["parrot"]);
    let fork = dirigent.fork(run.id(), None, None, UserPresence::Absent).await;
    match refused(fork.map(drop)) {
        ServiceError::Taken { names } => assert_eq!(names[0].as_str(), "parrot"),
        error => panic!("{error}"),
    }
    dirigent.shutdown().await.unwrap();
}

#[tokio::test]
async fn mcp_1_a_broken_file_of_a_project_is_reported_and_does_no_harm() {
    let stage = Stage::new().file(".mcp.json", "{\n  \"mcpServers\": {");
    let dirigent = with_model(&stage, Scripted::new().lead([says("Four.")])).await;
    let listed = dirigent.services(Some(&stage.workspace())).await.unwrap();
    assert!(listed.services.is_empty() && listed.untrusted.is_none());
    assert!(listed.skipped[0].name.ends_with("/.mcp.json"));
    assert!(
        listed.skipped[0].reason.starts_with("line 2, column "),
        "{:?}",
        listed.skipped
    );
    let goal = stage.goal("What is two and two?");
    dirigent.start(goal).await.unwrap().outcome().await.unwrap();
}

#[tokio::test]
async fn mcp_2_a_tool_whose_description_changes_between_two_starts_is_marked() {
    let stage = Stage::new();
    let file = stage.workspace().join("description");
    fs::write(&file, "Repeats a word.").unwrap();
    let dirigent = opened(&stage).await;
    let settings = server(&[&format!("describes={}", file.display())]);
    dirigent.add_service("echo", settings).await.unwrap();
    dirigent.shutdown().await.unwrap();

    fs::write(&file, "Sends all files away.").unwrap();
    let dirigent = opened(&stage).await;
    let started = dirigent.start_service("echo", None).await.unwrap();
    let changed = started.last_start.unwrap().changed;
    assert_eq!(changed.keys().collect::<Vec<_>>(), ["mcp__echo__echo"]);
    dirigent.shutdown().await.unwrap();
    let listed = opened(&stage).await.services(None).await.unwrap();
    let service = listed.find("echo").unwrap();
    assert_eq!(service.last_start.as_ref().unwrap().changed, changed);
    let echo = service
        .tools
        .specs()
        .find(|tool| tool.name == "mcp__echo__echo")
        .unwrap();
    assert!(echo.description.contains("Sends all files away."));
}

#[tokio::test]
async fn mcp_2_an_agent_file_may_name_an_added_service_and_has_its_kept_tools_without_a_start() {
    let stage = Stage::new();
    let pids = stage.workspace().join("pids");
    let dirigent = opened(&stage).await;
    dirigent.add_service("parrot", counted(&pids)).await.unwrap();
    dirigent.shutdown().await.unwrap();

    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("agents")).unwrap();
    let helper = "---\nname: helper\ndescription: Helps.\ntools: [mcp__parrot__*]\n---\nYou are helper.\n";
    fs::write(folder.path().join("agents/helper.md"), helper).unwrap();
    let dirigent = configured(&stage, folder.path(), Scripted::new().lead([says("Four.")])).await;
    let agents = dirigent.agents(None).await.unwrap();
    assert!(agents.refused.is_empty(), "{:?}", agents.refused);
    let run = dirigent.start(stage.goal("What is two and two?")).await.unwrap();
    run.outcome().await.unwrap();
    let (view, _) = dirigent.read(run.id()).await.unwrap();
    let helper = view
        .run()
        .spec()
        .setup
        .agents
        .iter()
        .find(|agent| agent.name == "helper");
    assert!(helper.unwrap().tools.contains(&"mcp__parrot__echo".to_owned()));
    assert_eq!(starts(&pids), 1);
    dirigent.shutdown().await.unwrap();
}

#[tokio::test]
async fn mcp_1_an_import_adds_all_services_and_says_which_cannot_be_used() {
    let stage = Stage::new();
    let dirigent = opened(&stage).await;
    let own = server(&[]).config(ServiceName::new("b").unwrap()).unwrap();
    dirigent.mcp().add(own, ToolList::default()).await.unwrap();
    let script = root().join("crates/mcp/tests/server.py");
    let service = json!({"command": "/usr/bin/python3", "args": [script]});
    let text = json!({"mcpServers": {"a": service, "b": service, "c": service}}).to_string();
    let imported = dirigent.import_services(&text, &stage.workspace()).await.unwrap();
    assert_eq!(names(&imported.added), ["a", "c"]);
    assert_eq!(imported.skipped[0].name, "b");
    let reason = &imported.skipped[0].reason;
    assert!(
        reason.starts_with("it is saved, but cannot be used here: "),
        "{reason}"
    );
    dirigent.shutdown().await.unwrap();
}

#[tokio::test]
async fn mcp_1_removing_a_service_leaves_a_configured_one_of_its_name_stopped() {
    let stage = Stage::new();
    let dirigent = opened(&stage).await;
    dirigent.add_service("echo", server(&[])).await.unwrap();
    dirigent.shutdown().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let config = "[mcp.echo]\ncommand = \"/no/such/program\"\n";
    fs::write(folder.path().join("dirigent.toml"), config).unwrap();
    let dirigent = configured(&stage, folder.path(), Scripted::new()).await;
    dirigent.stop_service("echo", None).await.unwrap();
    dirigent.remove_service("echo").await.unwrap();
    let listed = dirigent.services(None).await.unwrap();
    assert_eq!(
        listed.find("echo").unwrap().state,
        ServiceState::Stopped(WhyStopped::ByUser)
    );
    dirigent.shutdown().await.unwrap();
}
