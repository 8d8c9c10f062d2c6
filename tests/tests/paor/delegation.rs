//! PAOR-5: delegation.

use dirigent::{AgentLimits, RunLimits};
use dirigent_tests::scripted::{Scripted, achieved, call, delegate, last_call, plan, says};
use dirigent_tests::stage::{Stage, achieved_report, agent, findings};
use serde_json::json;

#[tokio::test]
async fn paor_5_the_main_agent_gets_a_subagents_findings_and_not_its_transcript() {
    // given a scout that reads a file and sums it up
    let stage = Stage::new().file("diary.txt", "the hedgehog crossed the road\n");
    let model = Scripted::new()
        .planner([plan(
            "Ask the scout.",
            [delegate("look", "scout", "Read diary.txt.")],
        )])
        .agent(
            "scout",
            [
                call(
                    "file_operations",
                    json!({"operation": "read", "path": "diary.txt"}),
                ),
                says("An animal changed sides."),
            ],
        )
        .reflector([achieved("Read.")]);
    let dirigent = stage
        .builder(model.clone())
        .agent(agent("scout", &["file_operations"]))
        .build()
        .await
        .unwrap();

    let run = dirigent.start(stage.goal("What happened?")).await.unwrap();
    let report = achieved_report(&run).await;

    // then the scout saw the file, and reflection only the summary
    assert!(model.agent_asked("scout")[1].last().contains("hedgehog"));
    let seen = model.reflector_asked()[0].task().to_owned();
    assert!(seen.contains("An animal changed sides."));
    assert!(!seen.contains("hedgehog"));
    assert_eq!(findings(&report, 0, "look").unwrap(), "An animal changed sides.");
}

#[tokio::test]
async fn paor_5_a_subagent_has_its_own_context_tools_model_and_limits() {
    // given two sub-agents, one of them with a small model and two turns
    let stage = Stage::new().file("a.txt", "a\n");
    let look = || call("search", json!({"pattern": "a"}));
    let model = Scripted::new()
        .planner([plan(
            "Both look.",
            [
                delegate("brief", "hasty", "Look twice."),
                delegate("long", "patient", "Look three times."),
            ],
        )])
        .agent("hasty", [look(), look(), says("never said")])
        .agent(
            "patient",
            [
                look(),
                look(),
                call("file_operations", json!({"operation": "list"})),
                says("I looked."),
            ],
        )
        .reflector([achieved("Looked.")]);
    let hasty = agent("hasty", &["search"]).model("small").limits(AgentLimits {
        max_turns: 2,
        ..AgentLimits::default()
    });
    let dirigent = stage
        .builder(model.clone())
        .agent(hasty)
        .agent(agent("patient", &["search"]))
        .build()
        .await
        .unwrap();

    let run = dirigent.start(stage.goal("The secret goal")).await.unwrap();
    let report = achieved_report(&run).await;

    // then each has its own context
    let (hasty, patient) = (model.agent_asked("hasty"), model.agent_asked("patient"));
    assert_eq!(hasty[0].roles(), ["system", "user"]);
    insta::assert_snapshot!(hasty[0].task(), @r#"
    <TASK>
    Look twice.
    </TASK>
    "#);
    assert!(!patient[0].task().contains("Look twice."));
    // its own model
    assert_eq!(hasty[0].model.as_deref(), Some("small"));
    assert_eq!(patient[0].model, None);
    // its own limits
    assert_eq!(
        findings(&report, 0, "brief").unwrap_err(),
        "the agent reached its limit of 2 model turns before it finished; allow more with `max_turns`"
    );
    assert_eq!(findings(&report, 0, "long").unwrap(), "I looked.");
    // and its own tools
    assert!(patient[0].system().contains("## search"));
    assert!(!patient[0].system().contains("## file_operations"));
    assert_eq!(
        patient[3].result(),
        json!({
            "success": false,
            "code": "access_denied",
            "error": "the tool `file_operations` exists, but you may not call it: your tools are `search`",
            "so_far": {"calls": 3, "failed": 1}
        })
    );
}

#[tokio::test]
async fn paor_5_an_agent_that_may_only_look_cannot_write() {
    let stage = Stage::new();
    let model = Scripted::new()
        .planner([plan("Write.", [delegate("write", "scout", "Write a.txt.")])])
        .agent(
            "scout",
            [
                call(
                    "file_operations",
                    json!({"operation": "write", "path": "a.txt", "content": "a"}),
                ),
                says("I may not."),
            ],
        )
        .reflector([achieved("Tried.")]);
    let dirigent = stage
        .builder(model.clone())
        .agent(agent("scout", &["file_operations"]))
        .build()
        .await
        .unwrap();

    let run = dirigent.start(stage.goal("Write")).await.unwrap();
    achieved_report(&run).await;

    assert_eq!(
        model.agent_asked("scout")[1].result(),
        json!({
            "success": false,
            "code": "access_denied",
            "error": "`write` is refused, as this agent may not change files: report what should be changed instead"
        })
    );
    assert!(!stage.workspace().join("a.txt").exists());
}

#[tokio::test]
async fn paor_5_the_number_of_subagents_is_bounded_over_the_whole_run() {
    // given a run that may start two
    let stage = Stage::new();
    let scout = |id: &str| delegate(id, "scout", "Look.");
    let model = Scripted::new()
        .planner([
            plan("One.", [scout("a")]),
            plan("Two more.", [scout("b"), scout("c")]),
            plan("One more.", [scout("b")]),
        ])
        .agent("scout", [says("First."), says("Second.")])
        .reflector([dirigent_tests::scripted::go_on("More."), achieved("Enough.")]);
    let dirigent = stage
        .builder(model.clone())
        .agent(agent("scout", &[]))
        .build()
        .await
        .unwrap();
    let limits = RunLimits {
        max_agents: 2,
        ..RunLimits::default()
    };

    let run = dirigent
        .start(stage.goal("Look around").limits(limits))
        .await
        .unwrap();
    achieved_report(&run).await;

    // then a plan with a third goes back
    insta::assert_snapshot!(model.planner_asked()[2].result()["error"].as_str().unwrap(), @r#"
    the plan was refused; correct these errors and submit it again:
    - the plan starts 2 sub-agents, but the run may start only 1 more: merge sub-tasks, or use `calls` where tools suffice
    "#);
    assert_eq!(model.agent_asked("scout").len(), 2);
}

#[tokio::test]
async fn paor_5_a_subagent_cannot_start_agents_of_its_own() {
    // given a sub-agent that submits a plan
    let stage = Stage::new();
    let model = Scripted::new()
        .planner([plan("Ask.", [delegate("ask", "scout", "Look.")])])
        .agent(
            "scout",
            [
                last_call(
                    "submit_plan",
                    json!({"summary": "Let others do it.", "subtasks": [delegate("deep", "scout", "Look.")]}),
                ),
                says("Done alone."),
            ],
        )
        .reflector([achieved("Looked.")]);
    let dirigent = stage
        .builder(model.clone())
        .agent(agent("scout", &[]))
        .build()
        .await
        .unwrap();

    let run = dirigent.start(stage.goal("Look")).await.unwrap();
    let report = achieved_report(&run).await;

    // then it is told that it has no such tool, and nothing is started
    let result = model.agent_asked("scout")[1].result();
    assert_eq!(result["success"], false);
    assert!(
        result["error"]
            .as_str()
            .unwrap()
            .starts_with("there is no tool `submit_plan`")
    );
    assert_eq!(findings(&report, 0, "ask").unwrap(), "Done alone.");
    assert_eq!(report.iterations.len(), 1);
}
