//! HOST-3 and HOST-7: models by configuration, as the real command reads it: precedence, which model is asked, messages, and that no key is
//! shown.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::PathBuf;
use std::process::Command;

use dirigent::Millis;
use dirigent::config::{Config, Sources};
use dirigent_model_server::{Fault, Matcher, ModelServer, Rule, Script, Turn};
use dirigent_tests::cli::{Ended, Place, Watched, ended};
use serde_json::{Value, json};

const GOAL: &str = "What do the notes say?";
const CANARY: &str = "sk-canary-0123456789abcdef";

fn call(tool: &str, parameters: Value) -> Turn {
    Turn::text(json!({"tool": tool, "parameters": parameters, "terminate": true}).to_string())
}

/// A lead that delegates to a scout, a scout that answers, and a reflector that is satisfied.
fn script() -> Script {
    Script::rules(rules())
}

fn rules() -> [Rule; 4] {
    let plan = json!({
        "summary": "Look into the notes.",
        "subtasks": [{"id": "look", "title": "Read the notes", "agent": "explore", "task": "Read notes.txt."}]
    });
    let judgement = json!({"verdict": "achieved", "summary": "The notes say milk."});
    [
        Rule::always(Matcher::system("## submit_plan"), call("submit_plan", plan)),
        Rule::always(
            Matcher::system("You explore a workspace"),
            Turn::text("remember the milk"),
        ),
        Rule::always(
            Matcher::system("## submit_reflection"),
            call("submit_reflection", judgement),
        ),
        Rule::always(Matcher::user("Say OK."), Turn::text("OK")),
    ]
}

async fn serve(script: Script) -> ModelServer {
    ModelServer::start(script.with_models(["small", "large"]))
        .await
        .unwrap()
}

/// A server that accepts any model name.
async fn serve_any(script: Script) -> ModelServer {
    ModelServer::start(script).await.unwrap()
}

/// A home with this text as the user's configuration.
fn place(own: &str) -> Place {
    let place = Place::new();
    let file = own_file(&place);
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file, own).unwrap();
    place.write("notes.txt", "remember the milk\n");
    place
}

fn own_file(place: &Place) -> PathBuf {
    place.folder().join("home/.config/dirigent/dirigent.toml")
}

/// A configuration table of a model at this server.
fn model(table: &str, server: &ModelServer, name: &str) -> String {
    let url = server.url();
    format!(
        "[{table}]\nprovider = \"openai\"\nname = \"{name}\"\nbase_url = \"{url}\"\ncalls = \"json\"\nattempts = 1\n"
    )
}

fn pursue(place: &Place, more: &[&str], variables: &[(&str, &str)]) -> Ended {
    let mut command = place.command(["run", GOAL, "--workspace", "work"].iter().chain(more));
    ended(command.envs(variables.iter().copied()))
}

fn check(place: &Place, more: &[&str], variables: &[(&str, &str)]) -> Ended {
    let mut command = place.command(["config", "check"].iter().chain(more));
    ended(command.envs(variables.iter().copied()))
}

/// The output, without the parts that differ between places.
#[track_caller]
fn shown(place: &Place, ended: &Ended) -> String {
    let folder = place.folder().canonicalize().unwrap();
    let text = format!("{}{}", ended.stdout, ended.stderr).replace(folder.to_str().unwrap(), "PLACE");
    let port = |text: &str| -> String {
        let mut parts = text.split("127.0.0.1:");
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |text, part| {
            let rest = part.trim_start_matches(|c: char| c.is_ascii_digit());
            format!("{text}127.0.0.1:PORT{rest}")
        })
    };
    port(&text)
}

#[track_caller]
fn config_error(own: &str) -> String {
    let place = place(own);
    let ended = check(&place, &["--offline"], &[]).with_code(7);
    shown(&place, &ended)
}

#[tokio::test(flavor = "multi_thread")]
async fn host_3_a_run_asks_the_configured_model_with_its_key_and_journals_no_key() {
    let server = serve(script().with_api_key(CANARY)).await;
    let place = place(&format!(
        "{}api_key_env = \"CORP_KEY\"\n",
        model("model", &server, "small")
    ));

    let run = pursue(&place, &[], &[("CORP_KEY", CANARY)]).with_code(0);

    assert!(run.stdout.contains("The notes say milk."), "{run}");
    let models: Vec<_> = server
        .requests()
        .iter()
        .map(|request| request.model().to_owned())
        .collect();
    assert_eq!(models, ["small", "small", "small"]);
    assert!(server.violations().is_empty(), "{:?}", server.violations());
    let journal = std::fs::read(place.db()).unwrap();
    assert!(
        !journal
            .windows(CANARY.len())
            .any(|bytes| bytes == CANARY.as_bytes()),
        "the key is in the journal"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn host_3_precedence_is_flag_environment_named_file_own_file_defaults() {
    let server = serve_any(script()).await;
    let own = ["model", "models.environment", "models.flag"]
        .map(|table| model(table, &server, table))
        .join("\n");
    let place = place(&own);
    let named = place.folder().join("named.toml");
    std::fs::write(&named, model("model", &server, "named")).unwrap();
    let named = named.to_str().unwrap();
    let asked = |more: &[&str], variables: &[(&str, &str)]| {
        let before = server.requests().len();
        let _ = pursue(&place, more, variables).with_code(0);
        server.requests()[before].model().to_owned()
    };

    assert_eq!(asked(&[], &[]), "model");
    assert_eq!(asked(&[], &[("DIRIGENT_CONFIG", named)]), "named");
    assert_eq!(asked(&["--config", named], &[]), "named");
    let environment = ("DIRIGENT_MODEL", "environment");
    assert_eq!(asked(&["--config", named], &[environment]), "models.environment");
    assert_eq!(asked(&["--model", "flag"], &[environment]), "models.flag");
    let address = server.url();
    let ad_hoc = [
        ("DIRIGENT_MODEL", "openai/meta/llama"),
        ("OPENAI_BASE_URL", address.as_str()),
    ];
    // With an ad hoc model the form of the prompt is unspecified, so only the requested model is checked.
    let before = server.requests().len();
    let _ = pursue(&place, &[], &ad_hoc);
    assert_eq!(server.requests()[before].model(), "meta/llama");
}

#[tokio::test(flavor = "multi_thread")]
async fn host_3_lead_and_agents_ask_different_models_of_different_servers() {
    let (hosted, local) = (serve(script()).await, serve(script()).await);
    let place = place(&format!(
        "{}\n{}\n[roles]\nexplore = \"local\"\n",
        model("model", &hosted, "large"),
        model("models.local", &local, "small")
    ));

    let _ = pursue(&place, &[], &[]).with_code(0);

    assert_eq!(hosted.requests().len(), 2);
    assert_eq!(local.requests().len(), 1);
    assert!(
        local.requests()[0]
            .system_prompt()
            .contains("You explore a workspace")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn host_7_the_next_model_is_asked_if_the_first_is_down_or_refuses_the_key() {
    for fault in [Fault::Unavailable { retry_after: None }, Fault::InvalidApiKey] {
        let first = serve(Script::rules([Rule::always(Matcher::any(), Turn::from(fault))])).await;
        let second = serve(script()).await;
        let place = place(&format!(
            "{}fallback = [\"spare\"]\n\n{}",
            model("model", &first, "large"),
            model("models.spare", &second, "small")
        ));

        let run = pursue(&place, &[], &[]).with_code(0);

        assert!(run.stdout.contains("The notes say milk."), "{run}");
        assert_eq!(second.requests().len(), 3);
        assert_eq!(second.requests()[0].model(), "small");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn host_2_a_resumed_run_needs_the_models_that_it_was_started_with() {
    let server = serve(script()).await;
    let hold = dirigent_model_server::Gate::new();
    let held = Rule::new(
        Matcher::system("You explore a workspace").and_attempt(1),
        [Turn::text("remember the milk").wait_before_headers(&hold)],
    );
    let slow = serve(Script::rules([held])).await;
    let place = place(&format!(
        "{}\n{}\n[roles]\nagents = \"local\"\n",
        model("model", &server, "large"),
        model("models.local", &slow, "small")
    ));
    let mut run = place.command(["run", GOAL, "--workspace", "work", "--json"]);
    let run = Watched::start(&mut run);
    slow.wait_for_requests(1).await;
    run.kill();

    std::fs::write(own_file(&place), model("model", &server, "large")).unwrap();
    let refused = place.dirigent(["resume", "last"]).with_code(7);
    assert!(refused.stderr.contains("there is no model `local`"), "{refused}");
    let asked = server.requests().len();

    std::fs::write(
        own_file(&place),
        format!(
            "{}\n{}",
            model("model", &server, "large"),
            model("models.local", &server, "small")
        ),
    )
    .unwrap();
    let resumed = place.dirigent(["resume", "last"]).with_code(0);
    assert!(resumed.stdout.contains("The notes say milk."), "{resumed}");
    assert_eq!(server.requests()[asked].model(), "small");
}

#[tokio::test(flavor = "multi_thread")]
async fn host_9_a_recording_that_becomes_unwritable_does_not_count_as_bad_usage() {
    let (server, hold) = (serve(script()).await, dirigent_model_server::Gate::new());
    let held = Rule::new(
        Matcher::system("You explore a workspace"),
        [Turn::text("remember the milk").wait_before_headers(&hold)],
    );
    let slow = serve(Script::rules([held])).await;
    let place = place(&format!(
        "{}\n{}\n[roles]\nagents = \"local\"\n",
        model("model", &server, "large"),
        model("models.local", &slow, "small")
    ));
    let folder = place.folder().join("recordings");
    std::fs::create_dir(&folder).unwrap();
    let file = folder.join("run.jsonl");
    let arguments = ["run", GOAL, "--workspace", "work", "--json", "--record"];
    let run = Watched::start(place.command(arguments).arg(&file));
    slow.wait_for_requests(1).await;
    std::fs::remove_dir_all(&folder).unwrap();
    hold.open();

    let ended = run.end().with_code(1);
    assert!(ended.stderr.contains("cannot write the recording: "), "{ended}");
}

#[tokio::test(flavor = "multi_thread")]
async fn host_2_a_run_never_continues_with_another_model() {
    let judgement = json!({"verdict": "ask_user", "summary": "Unclear.", "question": "Which notes?"});
    let asks = Rule::always(
        Matcher::system("## submit_reflection"),
        call("submit_reflection", judgement),
    );
    let (first, second) = (
        serve_any(Script::rules([asks].into_iter().chain(rules()))).await,
        serve_any(script()).await,
    );
    let place = place("");
    let (model, key) = (("DIRIGENT_MODEL", "openai/test"), ("OPENAI_API_KEY", CANARY));
    let url = ("OPENAI_BASE_URL", first.url());
    let _ = pursue(&place, &["--non-interactive"], &[model, key, (url.0, &url.1)]).with_code(4);

    let resume = |variables: &[(&str, &str)]| {
        let mut command = place.command(["resume", "last", "--answer", "All"]);
        ended(command.envs(variables.iter().copied()))
    };
    // Either the model's name is missing, or its address differs.
    for variables in [&[key][..], &[model, key, ("OPENAI_BASE_URL", &second.url())]] {
        let refused = resume(variables).with_code(7);
        assert!(
            refused.stderr.contains("the run was started with openai test at"),
            "{refused}"
        );
        assert!(refused.stderr.contains("OPENAI_BASE_URL"), "{refused}");
    }
    assert_eq!(second.requests().len(), 0);
    let asked = first.requests().len();
    let _ = resume(&[model, key, (url.0, &url.1)]).with_code(4);
    assert!(first.requests().len() > asked);
}

#[tokio::test(flavor = "multi_thread")]
async fn host_6_a_cost_limit_without_a_known_price_causes_a_warning() {
    let server = serve(script()).await;
    let price = "price = { input = 1, output = 2 }\n";
    for (price, told) in [("", true), (price, false)] {
        let place = place(&format!("{}{price}", model("model", &server, "small")));
        let ended = pursue(&place, &["--max-cost", "0.50"], &[]).with_code(0);
        assert_eq!(
            ended
                .stderr
                .contains("the cost limit has no effect for `default`"),
            told,
            "{ended}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn host_3_config_check_shows_settings_sources_and_connection_tests() {
    let server = serve(script()).await;
    let place = place(&format!(
        "{}context_window = 128000\nprice = {{ input = 1.5, output = 3 }}\nfallback = [\"other\"]\n\n{}\n[roles]\nreflector = \"other\"\n\n[limits]\nmax_cost = 2.50\n",
        model("model", &server, "small"),
        model("models.other", &server, "large")
    ));

    let well = check(&place, &[], &[("OPENAI_API_KEY", CANARY)]).with_code(0);
    insta::assert_snapshot!("check", shown(&place, &well));

    let json: Value = serde_json::from_str(&check(&place, &["--json"], &[]).with_code(0).stdout).unwrap();
    assert_eq!(json["ok"], true);
    assert_eq!(json["default_model"]["model"], "default");
    assert_eq!(json["models"][0]["connection"], "it responds");
    assert_eq!(
        json["models"][0]["price"],
        json!({"input": 1.5, "cached_input": 1.5, "output": 3.0})
    );
    assert_eq!(json["roles"]["reflector"], "other");
    assert_eq!(json["limits"]["max_cost"], 2_500_000_000_u64);
}

#[tokio::test(flavor = "multi_thread")]
async fn host_3_config_check_says_what_to_do_if_a_model_does_not_answer() {
    let keyed = serve(script().with_api_key("another")).await;
    let down = serve(Script::rules([Rule::always(
        Matcher::any(),
        Turn::from(Fault::ModelNotFound),
    )]))
    .await;
    let place = place(&format!(
        "{}\n{}\n[roles]\nagents = \"gone\"\nlead = \"anthropic/claude-sonnet-4-5\"\n",
        model("model", &keyed, "small"),
        model("models.gone", &down, "smal"),
    ));

    let ended = check(&place, &[], &[]).with_code(7);

    let text = shown(&place, &ended);
    assert!(
        text.contains("401") && text.contains("Check the model's API key"),
        "{text}"
    );
    assert!(
        text.contains("the server does not list the model `smal`; did you mean `small`?"),
        "{text}"
    );
    assert!(
        text.contains("set ANTHROPIC_API_KEY, or set its api_key_env to another variable"),
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn host_3_models_lists_what_the_server_offers_and_marks_the_configured_one() {
    let server = serve(script()).await;
    let place = place(&model("model", &server, "large"));

    let listed = place.dirigent(["models"]).with_code(0);
    assert_eq!(
        shown(&place, &listed),
        "openai at http://127.0.0.1:PORT/v1\n  small\n* large\n"
    );

    let lines = place.dirigent(["models", "--json"]).with_code(0).json_lines();
    let marks: Vec<_> = lines
        .iter()
        .map(|line| (line["model"].as_str(), line["configured"].as_bool()))
        .collect();
    assert_eq!(marks, [(Some("small"), Some(false)), (Some("large"), Some(true))]);

    let offline = place.dirigent(["models", "--model", "offline"]).with_code(0);
    assert!(
        offline.stdout.starts_with("offline: one built-in model"),
        "{offline}"
    );
}

#[test]
fn host_4_a_key_alone_never_switches_away_from_the_offline_model() {
    let place = place("");
    let checked = check(&place, &[], &[("OPENAI_API_KEY", CANARY)]).with_code(0);
    insta::assert_snapshot!("key_alone", shown(&place, &checked));
    place.write("a.txt", "one\ntwo\n");
    let mut run = place.command(["run", "count the lines in a.txt", "--workspace", "work"]);
    let _ = ended(run.env("OPENAI_API_KEY", CANARY)).with_code(0);

    // If the offline model cannot reach the goal, a note says that another model is available.
    let told = "note: OPENAI_API_KEY is set, but no model is chosen, so the offline model is used.";
    for (more, is_told) in [
        (&[][..], true),
        (&["--json"], false),
        (&["--model", "offline"], false),
    ] {
        let declined = pursue(&place, more, &[("OPENAI_API_KEY", CANARY)]).with_code(1);
        let times = declined.stderr.matches(told).count();
        assert_eq!(times, usize::from(is_told), "{declined}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn host_3_a_configuration_in_the_workspace_is_not_read_and_causes_a_warning() {
    let server = serve_any(script()).await;
    let place = place("");
    place.write("dirigent.toml", &model("model", &server, "thief"));
    place.write("a.txt", "one\ntwo\n");

    let mut run = place.command(["run", "count the lines in a.txt", "--workspace", "work"]);
    let run = ended(run.env("OPENAI_API_KEY", CANARY)).with_code(0);
    assert_eq!(
        run.stderr,
        "note: work/dirigent.toml is not read: its author could redirect your API keys to another server. If you trust it, use --config \
         work/dirigent.toml\n"
    );
    let mut checked = place.command(["config", "check"]);
    let checked = ended(checked.current_dir(place.work())).with_code(0);
    assert!(
        checked.stdout.contains("note: ./dirigent.toml is not read"),
        "{checked}"
    );
    assert_eq!(server.requests().len(), 0);

    let used = pursue(&place, &["--config", "work/dirigent.toml"], &[]).with_code(0);
    assert_eq!(used.stderr, "");
    assert_eq!(server.requests()[0].model(), "thief");
}

#[tokio::test(flavor = "multi_thread")]
async fn host_3_an_api_key_is_sent_only_to_its_own_provider() {
    let server = serve(script()).await;
    let place = place(&model("model", &server, "small"));
    let address = server.url();

    let _ = pursue(&place, &[], &[("OPENAI_API_KEY", CANARY)]).with_code(0);
    assert_eq!(server.requests()[0].http.header("authorization"), None);

    let before = server.requests().len();
    let variables = [
        ("DIRIGENT_MODEL", "openai/small"),
        ("OPENAI_BASE_URL", address.as_str()),
        ("OPENAI_API_KEY", CANARY),
    ];
    let _ = pursue(&place, &[], &variables);
    let sent = server.requests()[before]
        .http
        .header("authorization")
        .map(str::to_owned);
    assert_eq!(sent, Some(format!("Bearer {CANARY}")));
}

#[tokio::test(flavor = "multi_thread")]
async fn host_3_an_address_variable_does_not_apply_to_a_model_with_its_own_key() {
    let server = serve(script()).await;
    let address = server.url();
    let own = "[model]\nprovider = \"openai\"\nname = \"small\"\n";
    for key in ["api_key_env = \"CORP_KEY\"", &format!("api_key = \"{CANARY}\"")] {
        let place = place(&format!("{own}{key}\n"));
        let variables = [("OPENAI_BASE_URL", address.as_str()), ("CORP_KEY", CANARY)];
        let checked = check(&place, &["--offline", "--json"], &variables).with_code(0);
        let json: Value = serde_json::from_str(&checked.stdout).unwrap();
        assert_eq!(json["models"][0]["base_url"], "https://api.openai.com/v1");
        assert!(
            checked.stdout.contains("OPENAI_BASE_URL is not used"),
            "{checked}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn host_3_a_file_that_changes_a_models_address_drops_the_key_of_earlier_files() {
    let server = serve(script()).await;
    let key = ["api_key_env = \"CORP_KEY\"", &format!("api_key = \"{CANARY}\"")];
    for key in key {
        let place = place(&format!(
            "[model]\nprovider = \"openai\"\nname = \"small\"\ncalls = \"json\"\n{key}\n"
        ));
        let moved = format!("[model]\nbase_url = \"{}\"\n", server.url());
        std::fs::write(place.folder().join("moved.toml"), moved).unwrap();
        let file = place.folder().join("moved.toml");
        let before = server.requests().len();
        let run = pursue(
            &place,
            &["--config", file.to_str().unwrap()],
            &[("CORP_KEY", CANARY)],
        );
        let _ = run.with_code(0);
        assert_eq!(server.requests()[before].http.header("authorization"), None);
    }
}

#[test]
fn host_3_only_a_host_of_the_provider_receives_its_key() {
    let gets_key = |address: &str| {
        let place = place(&format!(
            "[model]\nprovider = \"openai\"\nname = \"small\"\nbase_url = \"{address}\"\n"
        ));
        let variables = [("OPENAI_API_KEY", CANARY)];
        let checked = check(&place, &["--offline", "--json"], &variables).with_code(0);
        let json: Value = serde_json::from_str(&checked.stdout).unwrap();
        json["models"][0]["api_key"] == "set, from OPENAI_API_KEY"
    };
    for own in ["https://api.openai.com/v1", "https://EU.API.openai.com:443/v1"] {
        assert!(gets_key(own), "{own}");
    }
    for foreign in [
        "https://evil.example?x=.api.openai.com",
        "https://evil.example#.api.openai.com",
        r"https://evil.example\\.api.openai.com/v1",
        "https://evilapi.openai.com",
        "http://api.openai.com/v1",
    ] {
        assert!(!gets_key(foreign), "{foreign}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn host_3_a_model_chosen_outside_of_files_is_asked_by_all_agents() {
    let (hosted, local) = (serve(script()).await, serve(script()).await);
    let place = place(&format!(
        "{}\n{}\n[roles]\nlead = \"hosted\"\nexplore = \"hosted\"\n",
        model("models.hosted", &hosted, "large"),
        model("models.local", &local, "small")
    ));

    let _ = pursue(&place, &["--model", "local"], &[]).with_code(0);
    assert_eq!(local.requests().len(), 3);
    let _ = pursue(&place, &[], &[("DIRIGENT_MODEL", "offline")]).with_code(1);
    assert_eq!(
        hosted.requests().len(),
        0,
        "whoever says offline wants nothing sent elsewhere"
    );

    let checked = check(&place, &["--model", "offline", "--json"], &[]).with_code(0);
    let json: Value = serde_json::from_str(&checked.stdout).unwrap();
    assert_eq!(
        json["roles"],
        json!({"lead": "offline", "reflector": "offline", "agents": "offline"})
    );
    let note = json["notes"][0].as_str().unwrap();
    assert!(
        note.ends_with("has no effect: --model selects `offline` for all agents"),
        "{note}"
    );
}

#[test]
fn host_3_agents_get_the_smallest_limits_of_their_models_and_the_configured_time() {
    let place = place(
        "[model]\nprovider = \"openai\"\nname = \"large\"\ncontext_window = 128000\nfallback = [\"a\", \"b\"]\n\
         [models.a]\nprovider = \"openai\"\nname = \"small\"\ncontext_window = 8192\n\
         [models.b]\nprovider = \"openai\"\nname = \"other\"\n\
         [limits.agents]\ntimeout = \"30m\"\n",
    );
    let load = |sources: Sources| Config::load(&sources).unwrap();
    let config = load(Sources::none().file(own_file(&place)));
    assert_eq!(config.profile("default").unwrap().context_window, Some(8_192));
    assert_eq!(
        config.agent_limits("agents").timeout,
        Some(Millis::from_secs(1_800))
    );
    assert_eq!(load(Sources::none()).agent_limits("agents").timeout, None);
}

#[test]
fn host_3_an_unreadable_configuration_file_is_reported() {
    let place = place("");
    std::fs::remove_file(own_file(&place)).unwrap();
    std::fs::create_dir(own_file(&place)).unwrap();
    let told = check(&place, &["--offline"], &[]).with_code(7);
    assert!(
        told.stderr
            .contains("dirigent.toml: the configuration can't be read: it is a folder"),
        "{told}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn host_3_no_key_is_ever_printed() {
    let server = serve(Script::rules([Rule::always(
        Matcher::any(),
        Turn::from(Fault::InvalidApiKey),
    )]))
    .await;
    let model = model("model", &server, "small");
    let in_file = place(&format!("{model}api_key = \"{CANARY}\"\n"));
    let in_variable = place(&format!("{model}api_key_env = \"CORP_KEY\"\n"));
    let wrong = [
        place(&format!("{model}api_key = {CANARY}\n")),
        place(&format!("{model}api_key = \"{CANARY}\n")),
        place(&format!("{model}api_key = [\"{CANARY}\"]\n")),
        place(&format!("{model}api_key_env = \"{CANARY}\"\n")),
        place(&format!(
            "[model]\nprovider = \"openai\"\nname = \"x\"\nbase_url = \"https://me:{CANARY}@example.com\"\n"
        )),
    ];
    let places = [&in_file, &in_variable].into_iter().chain(&wrong);
    for (number, place) in places.enumerate() {
        for arguments in [
            &["config", "check"][..],
            &["config", "check", "--json"],
            &["config", "check", "--offline"],
            &["models"],
            &["run", GOAL, "--workspace", "work"],
            &["run", GOAL, "--workspace", "work", "--json"],
            &["show", "last", "--verbose"],
        ] {
            let mut command: Command = place.command(arguments);
            let logged = [
                ("CORP_KEY", CANARY),
                ("RUST_LOG", "trace"),
                ("DIRIGENT_LOG", "trace"),
            ];
            let ended = ended(command.envs(logged));
            assert!(
                !format!("{ended}").contains("canary"),
                "place {number}, {arguments:?}: {ended}"
            );
        }
    }
    assert!(!server.requests().is_empty());
}

#[cfg(unix)]
#[test]
fn host_3_a_file_with_a_key_that_other_users_can_read_causes_a_warning() {
    use std::os::unix::fs::PermissionsExt;
    let place = place(&format!(
        "[model]\nprovider = \"openai\"\nname = \"gpt-4.1-mini\"\napi_key = \"{CANARY}\"\n"
    ));
    let note = "holds a key or a password, and other users of this computer can read it: chmod 600";
    for (mode, is_told) in [(0o644, true), (0o600, false)] {
        std::fs::set_permissions(own_file(&place), std::fs::Permissions::from_mode(mode)).unwrap();
        let checked = check(&place, &["--offline"], &[]).with_code(0);
        assert_eq!(checked.stdout.contains(note), is_told, "{checked}");
    }
}

#[test]
fn host_3_errors_in_a_configuration_file_have_their_place_and_say_what_to_do() {
    let told = [
        "[model]\nprovidr = \"openai\"\n",
        "[modle]\n",
        "max_iterations = 3\n",
        "[limits]\nmax_iterations = \"many\"\n",
        "[limits]\nmax_iterations = 0\n",
        "[limits]\ntimeout = \"soon\"\n",
        "[limits]\nmax_turns = 80\n",
        "[limits]\nagent_timeout = \"1h\"\n",
        "[limits.lead]\nmax_turns = 0\n",
        "[limits.lead]\nmax_turn = 80\n",
        "[limits.agents]\ntimeout = \"5 parsecs\"\n",
        "[limits.reflecter]\nmax_turns = 80\n",
        "[limits]\nmax_cost = -1\n",
        "[limits]\nmax_cost = 0\n",
        "[model]\nprovider = \"openia\"\n",
        "[model]\nprovider = \"openai\"\n",
        "[model]\nname = \"gpt-4.1-mini\"\n",
        "[model]\nprovider = \"openai\"\nname = \"x\"\nbase_url = \"localhost:8080\"\n",
        "[model]\nprovider = \"openai\"\nname = \"x\"\nfallback = [\"locl\"]\n[models.local]\nprovider = \"offline\"\n",
        "[model]\nprovider = \"openai\"\nname = \"x\"\nfallback = [\"offline\"]\n",
        "[models.x]\nprovider = \"openai\"\nname = \"x\"\nfallback = [\"none\"]\n[models.none]\nprovider = \"offline\"\n",
        "[roles]\nlead = \"gpt-4\"\n",
        "[roles]\nexplorer = \"offline\"\n",
        "[models.offline]\nprovider = \"openai\"\nname = \"x\"\n",
        "[prices.openai]\nx = { input = 1 }\n",
        "[model\n",
    ]
    .map(config_error);
    insta::assert_snapshot!("wrong_files", told.concat());
}

#[test]
fn host_3_missing_files_and_models_are_reported_before_anything_runs() {
    let place = place("");
    for (arguments, said) in [
        (
            &["--config", "none.toml"][..],
            "none.toml: the configuration can't be read: there is no such file",
        ),
        (
            &["--model", "gpt-4"],
            "--model: there is no model `gpt-4`; available: default, offline",
        ),
        (
            &["--model", "openai/gpt-4.1-mini"],
            "the model `openai/gpt-4.1-mini` (openai gpt-4.1-mini) needs an API key: set OPENAI_API_KEY",
        ),
    ] {
        let ended = pursue(&place, arguments, &[]).with_code(7);
        assert!(ended.stderr.contains(said), "{ended}");
    }
    assert!(!place.db().exists(), "nothing was journaled");
}

#[test]
fn host_6_limits_of_the_configuration_apply_by_default() {
    let place = place("[limits]\nmax_tokens = 50\n");
    place.write("a.txt", "one\ntwo\n");
    let goal = ["run", "count the lines in a.txt", "--workspace", "work"];
    let _ = place.dirigent(goal).with_code(3);
    let _ = place
        .dirigent(goal.iter().chain(&["--max-tokens", "1000000"]))
        .with_code(0);
}

#[test]
fn host_3_the_defaults_that_ship_can_be_copied_and_change_nothing() {
    let root = dirigent_tests::cli::root();
    let place = place(&std::fs::read_to_string(root.join("config/dirigent.toml")).unwrap());
    let prices = std::fs::read_to_string(root.join("config/prices.toml")).unwrap();
    std::fs::write(own_file(&place).with_file_name("prices.toml"), prices).unwrap();
    let json: Value = serde_json::from_str(&check(&place, &["--json"], &[]).with_code(0).stdout).unwrap();
    let limits = serde_json::to_value(dirigent::RunLimits::default()).unwrap();
    assert_eq!(json["limits"], limits);
    assert_eq!(json["models"][0]["provider"], "offline");
}

#[test]
fn host_6_the_longest_matching_name_has_the_price_and_users_prices_take_precedence() {
    let place = place("[prices.openai]\n\"gpt-4.1-mini\" = { input = 9, output = 9 }\n");
    let price = |model: &str| {
        let ended = check(
            &place,
            &["--json", "--offline", "--model", model],
            &[("OPENAI_API_KEY", "x"), ("GEMINI_API_KEY", "x")],
        );
        let json: Value = serde_json::from_str(&ended.with_code(0).stdout).unwrap();
        json["models"][0]["price"]["output"].as_f64()
    };
    assert_eq!(price("openai/gpt-4.1-mini"), Some(9.0));
    assert_eq!(price("openai/gpt-4.1-2025-04-14"), Some(8.0));
    assert_eq!(price("openai/gpt-4.1-nano"), Some(0.4));
    assert_eq!(price("openai/gpt-5-pro"), Some(120.0));
    assert_eq!(price("openai/gpt-4.1-unheard-of"), None);
    assert_eq!(price("gemini/gemini-2.5-flash"), Some(2.5));
}
