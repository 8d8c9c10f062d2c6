//! LOOP-2 and LOOP-5: the limits of each agent, wherever they are set.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use dirigent::config::Sources;
use dirigent::{AgentLimitSettings, AgentLimits, Config, Dirigent, DirigentError, Millis};
use dirigent_model_server::{Gate, Request, Script, Turn};
use dirigent_tests::cli::root;
use dirigent_tests::scripted::{Scripted, achieved, call, delegate, plan};
use dirigent_tests::served::{self, Served, is_lead, is_reflector, mentions};
use dirigent_tests::stage::{Stage, achieved_report, agent, block_on, findings};
use serde_json::json;

const LAST_TURN: &str = "This is your last turn: ";

/// A lead and an `explore` agent that search until they are told that this is their last turn.
fn searching() -> Script {
    Script::from_fn(|request| {
        if is_reflector(request) {
            return served::achieved("Explored.");
        }
        if !mentions(request, LAST_TURN) {
            let pattern = format!("turn {}", request.messages().len());
            return served::call("search", &json!({ "pattern": pattern }));
        }
        match is_lead(request) {
            true => served::plan(
                "Explore.",
                [json!({"id": "look", "title": "Look", "agent": "explore", "task": "Look."})],
            ),
            false => Turn::text("Found nothing."),
        }
    })
}

/// The number of turns of the lead and of `explore`.
fn turns(settings: &str, file: &str, arguments: &[&str]) -> [usize; 2] {
    let served = Served::new(settings, searching());
    if !file.is_empty() {
        let folder = served.place.folder().join("home/.config/dirigent/agents");
        std::fs::create_dir_all(&folder).unwrap();
        let agent =
            format!("---\nname: explore\ndescription: Looks.\ntools: [search]\n{file}\n---\nYou look.\n");
        std::fs::write(folder.join("explore.md"), agent).unwrap();
    }
    let run = ["run", "Look", "--workspace", "work"];
    let _ = served.place.dirigent(run.iter().chain(arguments)).with_code(0);
    let requests = served.requests();
    let count = |fits: &dyn Fn(&Request) -> bool| requests.iter().filter(|request| fits(request)).count();
    [
        count(&is_lead),
        count(&|request| !is_lead(request) && !is_reflector(request)),
    ]
}

#[test]
fn loop_2_the_lead_and_the_agents_that_ship_have_sixty_turns() {
    assert_eq!(turns("", "", &[]), [60, 60]);
}

#[test]
fn loop_2_turns_are_set_in_the_configuration_for_each_agent_and_for_all_sub_agents() {
    let lead = "[limits.lead]\nmax_turns = 3\n";
    assert_eq!(
        turns(&format!("{lead}[limits.agents]\nmax_turns = 4\n"), "", &[]),
        [3, 4]
    );
    let explore = format!("{lead}[limits.agents]\nmax_turns = 4\n[limits.explore]\nmax_turns = 2\n");
    assert_eq!(turns(&explore, "", &[]), [3, 2]);
}

#[test]
fn loop_2_turns_are_set_on_the_command_line_for_all_agents_and_for_one() {
    let configured = "[limits.lead]\nmax_turns = 9\n[limits.explore]\nmax_turns = 9\n";
    assert_eq!(turns(configured, "", &["--max-turns", "5"]), [5, 5]);
    assert_eq!(
        turns(configured, "", &["--max-turns", "lead=2", "--max-turns", "5"]),
        [2, 5]
    );
    assert_eq!(turns(configured, "", &["--max-turns", "explore=3"]), [9, 3]);
}

#[test]
fn loop_2_turns_in_an_agents_file_take_precedence_over_those_of_all_sub_agents() {
    let lead = "[limits.lead]\nmax_turns = 2\n";
    let all = format!("{lead}[limits.agents]\nmax_turns = 4\n");
    assert_eq!(turns(lead, "max_turns: 3", &[]), [2, 3]);
    assert_eq!(turns(&all, "max_turns: 3", &[]), [2, 3]);
    assert_eq!(turns(&all, "", &["--max-turns", "lead=1"]), [1, 4]);
    // An agent file without `max_turns` has ten turns.
    assert_eq!(turns(lead, "timeout: 10m", &[]), [2, 10]);
    let own = format!("{lead}[limits.explore]\nmax_turns = 5\n");
    assert_eq!(turns(&own, "max_turns: 3", &[]), [2, 5]);
}

#[test]
fn loop_2_each_agent_is_told_its_limits() {
    let settings = "[limits.lead]\nmax_turns = 2\ntimeout = \"90m\"\n[limits.reflector]\nmax_turns = 1\n";
    let served = Served::new(settings, searching());
    let run = [
        "run",
        "Look",
        "--workspace",
        "work",
        "--agent-timeout",
        "explore=10m",
    ];
    let _ = served.place.dirigent(run).with_code(0);
    let told: Vec<String> = served
        .requests()
        .iter()
        .filter_map(|request| {
            let system = request.system_prompt();
            let line = system
                .lines()
                .find(|line| line.starts_with("- You have "))?
                .to_owned();
            // Only the first request of each agent.
            (request.messages().len() == 2).then_some(line)
        })
        .collect();
    let line =
        |limits: &str| format!("- You have {limits} of working time, and are told before your last turn.");
    assert_eq!(
        told,
        [
            line("2 turns (one reply each) and 1 h 30 min"),
            line("60 turns (one reply each) and 10 min"),
            line("1 turn (one reply each) and 30 min"),
        ]
    );
}

#[test]
fn loop_5_a_lead_that_reaches_its_configured_time_limit_ends_the_run() {
    let gate = Gate::new();
    let script = Script::from_fn(move |_| Turn::text("never").wait_before_headers(&gate));
    let served = Served::new("[limits.lead]\ntimeout = \"1s\"\n", script);
    let ended = served.place.run("Look").with_code(3);
    assert!(
        ended
            .stdout
            .contains("the lead ended without an answer: the agent reached its time limit of 1.0 s"),
        "{ended}"
    );
    let hint = "(its agents get their turns and time anew; higher limits need a new run: --max-turns N or --agent-timeout TIME)";
    assert!(ended.stdout.contains(hint), "{ended}");
}

#[test]
fn loop_2_config_check_and_agents_show_the_limits_of_each() {
    let served = Served::new(
        "[limits.lead]\nmax_turns = 80\n[limits.agents]\ntimeout = \"1h\"\n",
        Script::turns([]),
    );
    let place = &served.place;
    let check = place
        .dirigent(["config", "check", "--offline", "--json"])
        .with_code(0);
    let limits = check.json_lines()[0]["agent_limits"].clone();
    assert_eq!(limits["lead"]["max_turns"], 80);
    assert_eq!(
        limits["reflector"],
        json!(AgentLimits {
            max_turns: 60,
            timeout: Millis::from_secs(1_800),
            ..AgentLimits::default()
        })
    );
    assert_eq!(
        limits["implement"],
        json!(AgentLimits {
            max_turns: 60,
            timeout: Millis::from_secs(3_600),
            ..AgentLimits::default()
        })
    );
    let check = place.dirigent(["config", "check", "--offline"]).with_code(0);
    for line in [
        "\nLimits of its agents\n",
        "\n  lead        80 turns, 30 min\n",
        "\n  explore     60 turns, 1 h\n",
    ] {
        assert!(check.stdout.contains(line), "{check}");
    }
}

#[test]
fn loop_2_the_limits_in_the_shipped_configuration_are_the_defaults() {
    let shipped = std::fs::read_to_string(root().join("config/dirigent.toml")).unwrap();
    let (_, block) = shipped.split_once("\n# [limits.lead]\n").unwrap();
    let (block, _) = block.split_once("\n\n").unwrap();
    let is_setting = |line: &&str| line.contains(" = ");
    let settings: Vec<&str> = block
        .lines()
        .filter_map(|line| line.strip_prefix("# "))
        .filter(is_setting)
        .collect();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("dirigent.toml");
    std::fs::write(&file, format!("[limits.lead]\n{}\n", settings.join("\n"))).unwrap();

    let config = Config::load(&Sources::none().file(file)).unwrap();
    let agents = block_on(Dirigent::builder().agents(None)).unwrap();
    assert_eq!(AgentLimitSettings::from(agents.lead), config.agent_limits("lead"));
}

fn turns_of(max_turns: u32) -> AgentLimitSettings {
    AgentLimitSettings {
        max_turns: Some(max_turns),
        ..AgentLimitSettings::default()
    }
}

#[tokio::test]
async fn loop_2_a_goal_sets_limits_of_one_agent_and_of_all() {
    let stage = Stage::new();
    let search = |n: u32| call("search", json!({"pattern": n.to_string()}));
    let model = Scripted::new()
        .lead(
            (0..2)
                .map(search)
                .chain([plan("Ask.", [delegate("ask", "scout", "Do it.")])]),
        )
        .agent("scout", (0..9).map(search))
        .reflector([achieved("Judged.")]);
    let builder = stage.builder(model.clone());
    let dirigent = builder.agent(agent("scout", &["search"])).build().await.unwrap();
    let goal = stage
        .goal("Do it")
        .agent_limits("lead", turns_of(3))
        .all_agent_limits(turns_of(2));

    let run = dirigent.start(goal).await.unwrap();
    let report = achieved_report(&run).await;

    assert_eq!(model.lead_asked().len(), 3);
    assert_eq!(model.agent_asked("scout").len(), 2);
    assert!(
        findings(&report, 0, "ask")
            .unwrap_err()
            .contains("limit of 2 model turns")
    );

    let unknown = stage.goal("Do it").agent_limits("scut", turns_of(3));
    let refused = dirigent.start(unknown).await.err().unwrap();
    assert!(matches!(refused, DirigentError::Agent { .. }));
    assert_eq!(
        refused.to_string(),
        "agent `scut`: limits are configured for it, but no such agent exists; did you mean `scout`?"
    );
}
