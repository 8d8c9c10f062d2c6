//! HOST-3, HOST-6: the configuration as the real command reads it: what `config check` and `models` show, its limits and prices, and errors
//! with their place.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::PathBuf;

use dirigent::Millis;
use dirigent::config::{Config, Sources};
use dirigent_model_server::{Fault, Matcher, ModelServer, Rule, Script, Turn};
use dirigent_tests::cli::{Ended, Place, ended};
use serde_json::{Value, json};

pub(crate) const GOAL: &str = "What do the notes say?";
pub(crate) const CANARY: &str = "sk-canary-0123456789abcdef";

pub(crate) fn call(tool: &str, parameters: Value) -> Turn {
    Turn::text(json!({"tool": tool, "parameters": parameters, "terminate": true}).to_string())
}

/// A lead that delegates to a scout, a scout that answers, and a reflector that is satisfied.
pub(crate) fn script() -> Script {
    Script::rules(rules())
}

pub(crate) fn rules() -> [Rule; 4] {
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

pub(crate) async fn serve(script: Script) -> ModelServer {
    ModelServer::start(script.with_models(["small", "large"]))
        .await
        .unwrap()
}

/// A server that accepts any model name.
pub(crate) async fn serve_any(script: Script) -> ModelServer {
    ModelServer::start(script).await.unwrap()
}

/// A home with this text as the user's configuration.
pub(crate) fn place(own: &str) -> Place {
    let place = Place::new();
    let file = own_file(&place);
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file, own).unwrap();
    place.write("notes.txt", "remember the milk\n");
    place
}

pub(crate) fn own_file(place: &Place) -> PathBuf {
    place.folder().join("home/.config/dirigent/dirigent.toml")
}

/// A configuration table of a model at this server.
pub(crate) fn model(table: &str, server: &ModelServer, name: &str) -> String {
    let url = server.url();
    format!(
        "[{table}]\nprovider = \"openai\"\nname = \"{name}\"\nbase_url = \"{url}\"\ncalls = \"json\"\nattempts = 1\n"
    )
}

pub(crate) fn pursue(place: &Place, more: &[&str], variables: &[(&str, &str)]) -> Ended {
    let mut command = place.command(["run", GOAL, "--workspace", "work"].iter().chain(more));
    ended(command.envs(variables.iter().copied()))
}

pub(crate) fn check(place: &Place, more: &[&str], variables: &[(&str, &str)]) -> Ended {
    let mut command = place.command(["config", "check"].iter().chain(more));
    ended(command.envs(variables.iter().copied()))
}

/// The output, without the parts that differ between places.
#[track_caller]
pub(crate) fn shown(place: &Place, ended: &Ended) -> String {
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

#[test]
fn host_3_config_check_reports_webhooks_in_the_words_with_which_serve_refuses_to_start() {
    for (webhook, expected) in [
        (
            "url = \"https://example.com/hook\"\n",
            "`webhooks.chat.secret` is not set: set it",
        ),
        (
            "url = \"https://example.com/hook\"\nsecret = \"${HOOK_SECRET}\"\n",
            "the webhook `chat` has no secret: set the variable HOOK_SECRET to at least 16 characters",
        ),
    ] {
        let place = place(&format!("[webhooks.chat]\n{webhook}"));
        let refused = ended(&mut place.command(["serve", "--listen", "127.0.0.1:0"]));
        assert_ne!(refused.status.code(), Some(0), "{refused}");
        let said = refused.stderr.trim().trim_start_matches("error: ");
        let said = said.split(['\n']).next().unwrap().to_owned();
        assert!(said.contains(expected), "{refused}");
        let checked = check(&place, &["--offline"], &[]).with_code(7);
        assert!(checked.stdout.contains(&said), "{checked}\n{said}");
        let json = check(&place, &["--offline", "--json"], &[]).with_code(7);
        let json: Value = serde_json::from_str(&json.stdout).unwrap();
        assert!(json["problems"][0].as_str().unwrap().contains(expected), "{json}");
    }
    let secret = [("HOOK_SECRET", "0123456789abcdef")];
    let place = place("[webhooks.chat]\nurl = \"https://example.com/hook\"\nsecret = \"${HOOK_SECRET}\"\n");
    let fine = check(&place, &["--offline"], &secret).with_code(0);
    assert!(!fine.stdout.contains("0123456789abcdef"), "{fine}");
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
