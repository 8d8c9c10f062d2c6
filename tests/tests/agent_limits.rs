//! LOOP-2, LOOP-5 and LOOP-10: the limits of each agent, wherever they are set, and what is left of an agent that reached one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use dirigent::config::Sources;
use dirigent::core::message::Message;
use dirigent::{AgentLimitSettings, AgentLimits, Config, Dirigent, DirigentError, EndReason, Millis};
use dirigent_model_server::{Gate, Request, Script, Turn};
use dirigent_tests::cli::root;
use dirigent_tests::probes::{Notes, note};
use dirigent_tests::scripted::{Scripted, achieved, call, delegate, go_on, native, plan, says};
use dirigent_tests::served::{self, Served, is_planner, is_reflector, mentions};
use dirigent_tests::stage::{Stage, achieved_report, agent, findings};
use serde_json::json;

const LAST_TURN: &str = "This is your last turn: ";

/// A planner and an `explore` that search until they are told that their last turn has come.
fn searching() -> Script {
    Script::from_fn(|request| {
        if is_reflector(request) {
            return served::achieved(request, "Explored.");
        }
        if !mentions(request, LAST_TURN) {
            let pattern = format!("turn {}", request.messages().len());
            return served::call("search", &json!({ "pattern": pattern }));
        }
        match is_planner(request) {
            true => served::plan(
                "Explore.",
                [json!({"id": "look", "title": "Look", "agent": "explore", "task": "Look."})],
            ),
            false => Turn::text("Found nothing."),
        }
    })
}

/// The turns that the planner and `explore` took.
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
        count(&is_planner),
        count(&|request| !is_planner(request) && !is_reflector(request)),
    ]
}

#[test]
fn loop_2_the_planner_and_the_agents_that_ship_have_sixty_turns() {
    assert_eq!(turns("", "", &[]), [60, 60]);
}

#[test]
fn loop_2_turns_are_set_in_the_configuration_for_each_agent_and_for_all_sub_agents() {
    let planner = "[limits.planner]\nmax_turns = 3\n";
    assert_eq!(
        turns(&format!("{planner}[limits.agents]\nmax_turns = 4\n"), "", &[]),
        [3, 4]
    );
    let explore = format!("{planner}[limits.agents]\nmax_turns = 4\n[limits.explore]\nmax_turns = 2\n");
    assert_eq!(turns(&explore, "", &[]), [3, 2]);
}

#[test]
fn loop_2_turns_are_set_on_the_command_line_for_all_agents_and_for_one() {
    let configured = "[limits.planner]\nmax_turns = 9\n[limits.explore]\nmax_turns = 9\n";
    assert_eq!(turns(configured, "", &["--max-turns", "5"]), [5, 5]);
    assert_eq!(
        turns(configured, "", &["--max-turns", "planner=2", "--max-turns", "5"]),
        [2, 5]
    );
    assert_eq!(turns(configured, "", &["--max-turns", "explore=3"]), [9, 3]);
}

#[test]
fn loop_2_turns_are_set_in_an_agents_file_which_goes_before_what_all_sub_agents_have() {
    let planner = "[limits.planner]\nmax_turns = 2\n";
    let all = format!("{planner}[limits.agents]\nmax_turns = 4\n");
    assert_eq!(turns(planner, "max_turns: 3", &[]), [2, 3]);
    assert_eq!(turns(&all, "max_turns: 3", &[]), [2, 3]);
    assert_eq!(turns(&all, "", &["--max-turns", "planner=1"]), [1, 4]);
    // A file that says nothing has ten turns.
    assert_eq!(turns(planner, "timeout: 10m", &[]), [2, 10]);
    let own = format!("{planner}[limits.explore]\nmax_turns = 5\n");
    assert_eq!(turns(&own, "max_turns: 3", &[]), [2, 5]);
}

#[test]
fn loop_2_each_agent_is_told_its_limits() {
    let settings = "[limits.planner]\nmax_turns = 2\ntimeout = \"90m\"\n[limits.reflector]\nmax_turns = 1\n";
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
            // The first request of each.
            (request.messages().len() == 2).then_some(line)
        })
        .collect();
    let line = |limits: &str| {
        format!("- You have {limits} of working time; you are told when your last turn comes.")
    };
    assert_eq!(
        told,
        [
            line("2 turns, each of them one reply of yours, and 1 h 30 min"),
            line("60 turns, each of them one reply of yours, and 10 min"),
            line("1 turn, each of them one reply of yours, and 30 min"),
        ]
    );
}

#[test]
fn loop_5_a_planner_past_its_configured_time_ends_the_run() {
    let gate = Gate::new();
    let script = Script::from_fn(move |_| Turn::text("never").wait_before_headers(&gate));
    let served = Served::new("[limits.planner]\ntimeout = \"1s\"\n", script);
    let ended = served.place.run("Look").with_code(1);
    assert!(
        ended
            .stdout
            .contains("the planner ended without a plan: the agent reached its time limit of 1.0 s"),
        "{ended}"
    );
}

#[test]
fn loop_2_config_check_and_agents_show_the_limits_of_each() {
    let served = Served::new(
        "[limits.planner]\nmax_turns = 80\n[limits.agents]\ntimeout = \"1h\"\n",
        Script::turns([]),
    );
    let place = &served.place;
    let check = place
        .dirigent(["config", "check", "--offline", "--json"])
        .with_code(0);
    let limits = check.json_lines()[0]["agent_limits"].clone();
    assert_eq!(limits["planner"]["max_turns"], 80);
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
        "\n  planner     80 turns, 30 min\n",
        "\n  explore     60 turns, 1 h\n",
    ] {
        assert!(check.stdout.contains(line), "{check}");
    }
}

#[test]
fn loop_2_the_limits_that_the_shipped_configuration_shows_are_the_ones_that_hold() {
    let shipped = std::fs::read_to_string(root().join("config/dirigent.toml")).unwrap();
    let (_, block) = shipped.split_once("\n# [limits.planner]\n").unwrap();
    let (block, _) = block.split_once("\n\n").unwrap();
    let is_setting = |line: &&str| line.contains(" = ");
    let settings: Vec<&str> = block
        .lines()
        .filter_map(|line| line.strip_prefix("# "))
        .filter(is_setting)
        .collect();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("dirigent.toml");
    std::fs::write(&file, format!("[limits.planner]\n{}\n", settings.join("\n"))).unwrap();

    let config = Config::load(&Sources::none().file(file)).unwrap();
    let agents = Dirigent::builder().agents(None).unwrap();
    assert_eq!(
        AgentLimitSettings::from(agents.planner),
        config.agent_limits("planner")
    );
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
        .planner(
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
        .agent_limits("planner", turns_of(3))
        .all_agent_limits(turns_of(2));

    let run = dirigent.start(goal).await.unwrap();
    let report = achieved_report(&run).await;

    assert_eq!(model.planner_asked().len(), 3);
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
        "agent `scut`: its limits are set, but there is no such agent; did you mean `scout`?"
    );
}

#[tokio::test]
async fn loop_2_a_planner_of_one_turn_is_told_at_once_and_one_that_uses_it_up_ends_the_run() {
    let stage = Stage::new();
    let model = Scripted::new()
        .planner([says("Forty-two."), call("search", json!({"pattern": "x"}))])
        .reflector([achieved("Answered.")]);
    let dirigent = stage.builder(model.clone()).build().await.unwrap();
    let goal = || stage.goal("What is it?").agent_limits("planner", turns_of(1));

    achieved_report(&dirigent.start(goal()).await.unwrap()).await;
    let asked = &model.planner_asked()[0];
    assert_eq!(asked.roles(), ["system", "user", "user"]);
    assert!(asked.last().starts_with(LAST_TURN), "{}", asked.last());

    let report = dirigent.start(goal()).await.unwrap().outcome().await.unwrap();
    let Some(EndReason::Failed { error, .. }) = &report.end else {
        panic!("{:?}", report.end);
    };
    assert_eq!(
        error,
        "the planner ended without a plan: the agent reached its limit of 1 model turns before it finished; allow more with `max_turns`"
    );
}

#[tokio::test]
async fn loop_2_what_an_agent_found_until_its_limit_reaches_the_reflector_and_the_next_plan() {
    // given an agent that talks as it goes, and uses up its turns
    let stage = Stage::new().file("a.rs", "fn load() {}\n");
    let talks = |text: &str, pattern: &str| {
        let call = json!({"tool": "search", "parameters": {"pattern": pattern}, "terminate": false});
        says(format!("{text}\n{call}"))
    };
    let model = Scripted::new()
        .planner([
            plan("Ask.", [delegate("ask", "scout", "Find `load`.")]),
            plan("Nothing more.", []),
        ])
        .agent(
            "scout",
            [
                talks("I look for `load`.", "load"),
                talks("`load` is defined in a.rs:1.", "load\\("),
                talks("No caller so far.", "load"),
            ],
        )
        .reflector([go_on("Not all is known."), achieved("Known.")]);
    let dirigent = stage
        .builder(model.clone())
        .agent(agent("scout", &["search"]).limits(turns_of(3)))
        .build()
        .await
        .unwrap();

    let run = dirigent.start(stage.goal("Find it")).await.unwrap();
    achieved_report(&run).await;

    // then each request began with the one before it, and the last one had the notice
    let asked = model.agent_asked("scout");
    for (before, after) in asked.iter().zip(&asked[1..]) {
        assert_eq!(after.messages[..before.messages.len()], before.messages[..]);
    }
    let notices = |messages: &[Message]| {
        messages
            .iter()
            .filter(|it| it.content().starts_with(LAST_TURN))
            .count()
    };
    assert_eq!(
        asked
            .iter()
            .map(|asked| notices(&asked.messages))
            .collect::<Vec<_>>(),
        [0, 0, 1]
    );
    assert!(asked[2].last().starts_with(LAST_TURN));
    // and what it said and called is in front of those who go on
    for seen in [&model.reflector_asked()[0], &model.planner_asked()[1]] {
        let observed = &seen.json_lines("OBSERVATIONS")[0];
        assert_eq!(observed["status"], "failed");
        let findings = observed["findings_so_far"].as_str().unwrap();
        for said in [
            "I look for `load`.",
            "`load` is defined in a.rs:1.",
            "No caller so far.",
        ] {
            assert!(findings.contains(said), "{findings}");
        }
        assert_eq!(observed["calls"].as_array().unwrap().len(), 3);
    }
}

#[tokio::test]
async fn loop_10_one_reply_runs_sixty_four_calls_and_answers_the_others() {
    // given a reply with seventy calls
    let (stage, notes) = (Stage::new(), Notes::default());
    let mut number = 0;
    let calls = [(); 70].map(|()| {
        number += 1;
        ("note", json!({"text": number.to_string()}))
    });
    let model = Scripted::new()
        .planner([plan("Ask.", [delegate("ask", "scout", "Do it.")])])
        .agent("scout", [native(calls), says("Done.")])
        .reflector([achieved("Judged.")]);
    let builder = stage
        .builder(model.clone())
        .agent(agent("scout", &["note"]))
        .tool(note(&notes));
    let dirigent = builder.build().await.unwrap();

    achieved_report(&dirigent.start(stage.goal("Do it")).await.unwrap()).await;

    assert_eq!(notes.all().len(), 64);
    let asked = &model.agent_asked("scout")[1];
    let results: Vec<&str> = asked.messages[3..].iter().map(Message::content).collect();
    assert_eq!(results.len(), 70);
    let refused = results
        .iter()
        .filter(|result| result.contains("only the first 64 calls of a reply are executed"));
    assert_eq!(refused.count(), 6);
}

#[tokio::test]
async fn loop_10_a_reply_that_repeats_one_call_ends_as_stuck_and_runs_no_more_of_it() {
    let (stage, notes) = (Stage::new(), Notes::default());
    let again = || ("note", json!({"text": "again"}));
    let model = Scripted::new()
        .planner([plan("Ask.", [delegate("ask", "scout", "Do it.")])])
        .agent("scout", [native([(); 20].map(|()| again())), says("never asked")])
        .reflector([achieved("Judged.")]);
    let builder = stage
        .builder(model.clone())
        .agent(agent("scout", &["note"]))
        .tool(note(&notes));
    let dirigent = builder.build().await.unwrap();

    let report = achieved_report(&dirigent.start(stage.goal("Do it")).await.unwrap()).await;

    assert_eq!(notes.all().len(), 6);
    assert_eq!(model.agent_asked("scout").len(), 1);
    assert_eq!(
        findings(&report, 0, "ask").unwrap_err(),
        "the agent is stuck: it called `note` 6 times with the same parameters and got the same result"
    );
}
