//! PAOR-4 to PAOR-6: parallel sub-tasks, sub-agents of different kinds, metadata for operators only, and long outputs.

use dirigent::{AgentLimits, Detail, EventKind, RunLimits, render};
use dirigent_tests::probes::{Crowd, meet, read_meter};
use dirigent_tests::scripted::{Scripted, achieved, after, call, calls, delegate, plan, says};
use dirigent_tests::stage::{Stage, achieved_report, agent, all_events, findings};
use serde_json::json;

#[tokio::test]
async fn paor_4_independent_subtasks_run_at_the_same_time_up_to_max_parallel() {
    // given six sub-tasks, each of which ends only if another one runs at the same time
    let (stage, crowd) = (Stage::new(), Crowd::default());
    let meeting = |id: &str| calls(id, [("meet", json!({}))]);
    let model = Scripted::new()
        .lead([plan("Meet.", ["a", "b", "c", "d", "e", "f"].map(meeting))])
        .reflector([achieved("Met.")]);
    let dirigent = stage.builder(model).tool(meet(2, &crowd)).build().await.unwrap();

    // when two may run at once
    let limits = RunLimits {
        max_parallel: 2,
        ..RunLimits::default()
    };
    let run = dirigent.start(stage.goal("Meet").limits(limits)).await.unwrap();
    let report = achieved_report(&run).await;

    // then every sub-task met another, and never more than two ran at once
    assert_eq!(report.iterations[0].observations.len(), 6);
    assert_eq!(crowd.most(), 2);
}

#[tokio::test]
async fn paor_4_a_failed_baseline_does_not_stop_its_dependents() {
    let stage = Stage::new().file("a.txt", "a\n");
    let mut baseline = calls(
        "baseline",
        [(
            "file_operations",
            json!({"operation": "read", "path": "none.txt"}),
        )],
    );
    baseline["may_fail"] = json!(true);
    let edit = after(delegate("edit", "editor", "Change a.txt."), ["baseline"]);
    let model = Scripted::new()
        .lead([plan("Check, then change.", [baseline, edit])])
        .agent("editor", [says("Changed, though the baseline failed.")])
        .reflector([achieved("Changed.")]);
    let dirigent = stage
        .builder(model.clone())
        .agent(agent("editor", &["file_operations"]))
        .build()
        .await
        .unwrap();

    let run = dirigent.start(stage.goal("Change a.txt")).await.unwrap();
    let report = achieved_report(&run).await;

    let findings = &model.agent_asked("editor")[0].observations("FINDINGS")[0];
    assert_eq!(
        (&findings["status"], &findings["may_fail"]),
        (&json!("failed"), &json!(true))
    );
    assert_eq!(report.remaining, Vec::<String>::new());
    let judged = &model.reflector_asked()[0].observations("OBSERVATIONS")[0];
    assert_eq!(
        (&judged["status"], &judged["may_fail"]),
        (&json!("failed"), &json!(true))
    );
}

#[tokio::test]
async fn paor_5_a_subagent_has_its_own_context_tools_model_and_limits() {
    // given two sub-agents, one of them with a small model and two turns
    let stage = Stage::new().file("a.txt", "a\n");
    let look = || call("search", json!({"pattern": "a"}));
    let model = Scripted::new()
        .lead([plan(
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
        "the agent reached its limit of 2 model turns before it finished: raise `max_turns` in this agent's limits"
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
            "error": "the tool `file_operations` exists, but you may not call it: your tools are `search`, `ask_user` and `give_up`",
            "so_far": "3 calls, 1 failed"
        })
    );
}

#[tokio::test]
async fn paor_6_metadata_for_operators_reaches_them_and_no_model() {
    let stage = Stage::new();
    let model = Scripted::new()
        .lead([plan(
            "Read twice.",
            [
                calls("plain", [("read_meter", json!({}))]),
                delegate("asked", "reader", "Read the meter."),
            ],
        )])
        .agent("reader", [call("read_meter", json!({})), says("It says 42.")])
        .reflector([achieved("Read.")]);
    let dirigent = stage
        .builder(model.clone())
        .tool(read_meter())
        .agent(agent("reader", &["read_meter"]))
        .build()
        .await
        .unwrap();

    let run = dirigent.start(stage.goal("Read the meter")).await.unwrap();
    let report = achieved_report(&run).await;

    let events = all_events(&run).await.into_iter();
    let told = events.filter_map(|event| match &event.kind {
        EventKind::ToolFinished { metadata, .. } => Some(json!(metadata)),
        _ => None,
    });
    let north = json!({"station": "north"});
    assert_eq!(told.collect::<Vec<_>>(), [north.clone(), north]);
    let verbose = render::report(&report, Detail::Verbose);
    assert!(verbose.contains("metadata {\"station\":\"north\"}"), "{verbose}");
    for asked in model.asked() {
        let request = json!(asked.messages).to_string();
        assert!(!request.contains("north"), "{request}");
    }
    assert_eq!(model.asked().len(), 4);
}

#[tokio::test]
async fn paor_6_reflection_reads_the_rest_of_a_long_output_by_its_handle() {
    // given a file with its secret in the middle of many lines
    let filler = "all is quiet\n".repeat(1_000);
    let stage = Stage::new().file("log.txt", &format!("{filler}the bell rang\n{filler}"));
    let read = ("file_operations", json!({"operation": "read", "path": "log.txt"}));
    let rest = json!({"handle": "run.2", "start_line": 1_001, "end_line": 1_001});
    let model = Scripted::new()
        .lead([plan("Read it.", [calls("read", [read])])])
        .reflector([call("read_output", rest), achieved("The bell rang.")]);
    let dirigent = stage.builder(model.clone()).build().await.unwrap();

    let run = dirigent.start(stage.goal("What happened?")).await.unwrap();
    achieved_report(&run).await;

    let asked = model.reflector_asked();
    assert!(!asked[0].task().contains("the bell rang"));
    let rest = asked[1].result();
    assert_eq!(rest["output"], "Lines 1001-1001 of 2001\n\n1001\tthe bell rang\n");
}
