//! HOST-2, HOST-3, HOST-7: which configured model is asked, by which agent, at first and when a run is resumed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use dirigent_model_server::{Fault, Matcher, Rule, Script, Turn};
use dirigent_tests::cli::{Watched, ended};
use serde_json::{Value, json};

use crate::config::{
    CANARY, GOAL, call, check, model, own_file, place, pursue, rules, script, serve, serve_any, shown,
};

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
