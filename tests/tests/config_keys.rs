//! HOST-3: an API key reaches only the server that it is for, and is never shown.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::process::Command;

use dirigent_model_server::{Fault, Matcher, Rule, Script, Turn};
use dirigent_tests::cli::ended;
use serde_json::Value;

use crate::config::{CANARY, GOAL, check, model, own_file, place, pursue, script, serve, serve_any};

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
