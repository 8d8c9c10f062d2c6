//! PAOR-6, PAOR-7: what is observed, and that nothing which fails takes a run down.

use dirigent::core::observation::SubTaskResult;
use dirigent::core::tool::{Repeat, ToolOutcome};
use dirigent::{AgentLimits, Detail, EventKind, Millis, RunLimits, render};
use dirigent_tests::probes::{Notes, break_down, fail, read_meter, wait};
use dirigent_tests::scripted::{Gate, Reply, Scripted, achieved, call, calls, delegate, plan, says};
use dirigent_tests::stage::{
    Stage, achieved_report, agent, all_events, error_of, finding, findings, observed_calls,
};
use serde_json::json;

#[tokio::test]
async fn paor_6_every_tool_execution_and_subagent_completion_is_recorded_and_reflection_sees_them() {
    let stage = Stage::new().file("a.txt", "a\n");
    let model = Scripted::new()
        .planner([plan(
            "Read and look.",
            [
                calls("read", [("read_meter", json!({})), ("fail", json!({}))]),
                delegate("look", "scout", "Look."),
            ],
        )])
        .agent("scout", [call("search", json!({"pattern": "a"})), says("One a.")])
        .reflector([achieved("Read.")]);
    let dirigent = stage
        .builder(model.clone())
        .tool(read_meter())
        .tool(fail())
        .agent(agent("scout", &["search"]))
        .build()
        .await
        .unwrap();

    let run = dirigent.start(stage.goal("Read the meter")).await.unwrap();
    let report = achieved_report(&run).await;

    // then a call is recorded with name, input, output, success, metadata
    let [meter, failed] = observed_calls(&report, 0, "read") else {
        panic!("two calls were made");
    };
    assert_eq!(meter.call.tool, "read_meter");
    assert_eq!(meter.call.parameters, json!({}));
    assert_eq!(
        meter.result.outcome,
        ToolOutcome::Success {
            output: json!({"meter": 42})
        }
    );
    assert!(meter.result.succeeded());
    assert_eq!(json!(meter.result.metadata), json!({"station": "north"}));
    assert!(!failed.result.succeeded());
    assert_eq!(error_of(failed), "the valve is shut; open it first");
    // the end of the sub-agent likewise
    let SubTaskResult::Agent {
        name, result, work, ..
    } = finding(&report, 0, "look")
    else {
        panic!("the scout looked");
    };
    assert_eq!((name.as_str(), result.as_deref()), ("scout", Ok("One a.")));
    assert_eq!(work.calls.len(), 1);
    assert_eq!(
        (
            work.calls[0].tool.as_str(),
            work.calls[0].success,
            &work.calls[0].parameters
        ),
        ("search", true, &json!({"pattern": "a"}))
    );
    // and reflection reads all of it, each with its duration
    let mut seen = model.reflector_asked()[0].json_lines("OBSERVATIONS");
    seen.sort_by_key(|line| line["subtask"].to_string());
    for line in &mut seen {
        assert!(line["duration_ms"].take().is_u64());
        for call in line["calls"].as_array_mut().unwrap() {
            assert!(call["handle"].take().is_string());
            if let Some(duration) = call.get_mut("duration_ms") {
                assert!(duration.take().is_u64());
            }
        }
    }
    assert_eq!(
        json!(seen),
        json!([
            {
                "subtask": "look", "title": "Title of look", "status": "succeeded", "duration_ms": null,
                "agent": "scout", "findings": "One a.",
                "calls": [{"tool": "search", "parameters": {"pattern": "a"}, "success": true, "handle": null}],
                "changes": []
            },
            {
                "subtask": "read", "title": "Title of read", "status": "failed", "duration_ms": null,
                "calls": [
                    {
                        "tool": "read_meter", "parameters": {}, "duration_ms": null, "handle": null,
                        "result": {"success": true, "output": {"meter": 42}}
                    },
                    {
                        "tool": "fail", "parameters": {}, "duration_ms": null, "handle": null,
                        "result": {"success": false, "error": "the valve is shut; open it first"}
                    }
                ]
            }
        ])
    );
    // as does a watcher
    let finished = all_events(&run)
        .await
        .into_iter()
        .filter_map(|event| match event.kind {
            EventKind::ToolFinished { tool, success, .. } => Some((tool, success)),
            _ => None,
        });
    let mut finished: Vec<(String, bool)> = finished.collect();
    finished.sort();
    assert_eq!(
        finished,
        [
            ("fail".to_owned(), false),
            ("read_meter".to_owned(), true),
            ("search".to_owned(), true)
        ]
    );
}

#[tokio::test]
async fn paor_6_what_a_tool_says_to_operators_reaches_them_and_no_model() {
    let stage = Stage::new();
    let model = Scripted::new()
        .planner([plan(
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
    let told = events.filter_map(|event| match event.kind {
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
async fn paor_6_a_long_output_is_shortened_visibly_and_the_rest_read_by_its_handle() {
    // given a file with its secret in the middle of many lines
    let filler = "all is quiet\n".repeat(1_000);
    let stage = Stage::new().file("log.txt", &format!("{filler}the bell rang\n{filler}"));
    let read = ("file_operations", json!({"operation": "read", "path": "log.txt"}));
    let model = Scripted::new()
        .planner([plan("Read it.", [calls("read", [read])])])
        .reflector([
            call(
                "read_output",
                json!({"handle": "run.2", "offset": 12_900, "length": 1_000}),
            ),
            achieved("The bell rang."),
        ]);
    let dirigent = stage.builder(model.clone()).build().await.unwrap();

    let run = dirigent.start(stage.goal("What happened?")).await.unwrap();
    let report = achieved_report(&run).await;

    // then reflection is told what is missing and where it is
    let asked = model.reflector_asked();
    let content = asked[0].json_lines("OBSERVATIONS")[0]["calls"][0]["result"]["output"]["content"].clone();
    let content = content.as_str().unwrap();
    assert!(!content.contains("the bell rang"));
    assert!(
        content.contains("characters left out: read them with read_output, handle run.2"),
        "{content}"
    );
    assert!(content.len() < 4_000);
    // it can read the rest
    assert!(
        asked[1].result()["output"]["text"]
            .as_str()
            .unwrap()
            .contains("the bell rang")
    );
    // and the record has all of it
    let ToolOutcome::Success { output } = &observed_calls(&report, 0, "read")[0].result.outcome else {
        panic!("the file was read");
    };
    assert_eq!(
        output["content"].as_str().unwrap().len(),
        2 * filler.len() + "the bell rang\n".len()
    );
}

#[tokio::test]
async fn paor_7_a_tool_that_errs_hangs_or_panics_is_an_observation_with_the_error_and_its_context() {
    let (stage, notes) = (Stage::new(), Notes::default());
    let model = Scripted::new()
        .planner([
            plan(
                "Try both.",
                [
                    calls("errs", [("fail", json!({}))]),
                    calls("panics", [("break_down", json!({}))]),
                ],
            ),
            plan("Try it.", [calls("hangs", [("hang", json!({}))])]),
        ])
        .reflector([achieved("Both were tried."), achieved("It was tried.")]);
    let dirigent = stage
        .builder(model.clone())
        .tool(fail())
        .tool(break_down())
        .tool(wait("hang", Repeat::Safe, &notes, &Gate::shut()))
        .build()
        .await
        .unwrap();
    // What ends by itself has all the time it needs, whatever else the machine does.
    let brief = RunLimits {
        call_timeout: Millis(50),
        ..RunLimits::default()
    };

    let mut reports = Vec::new();
    for limits in [RunLimits::default(), brief] {
        let run = dirigent.start(stage.goal("Try").limits(limits)).await.unwrap();
        reports.push(achieved_report(&run).await);
    }

    for (run, subtask, error) in [
        (0, "errs", "the valve is shut; open it first"),
        (0, "panics", "the tool `break_down` panicked: the valve came off"),
        (1, "hangs", "the call took longer than 50 ms and was stopped"),
    ] {
        assert_eq!(error_of(&observed_calls(&reports[run], 0, subtask)[0]), error);
        let seen = model.reflector_asked()[run].task().to_owned();
        assert!(seen.contains(error), "reflection does not see: {error}");
    }
}

#[tokio::test]
async fn paor_7_a_subagent_that_errs_hangs_or_panics_is_an_observation_and_other_runs_go_on() {
    // given three sub-agents whose models do not answer, each in its way
    let stage = Stage::new();
    let model = Scripted::new()
        .planner([plan(
            "Ask all.",
            [
                delegate("errs", "erring", "Try."),
                delegate("hangs", "hanging", "Try."),
                delegate("panics", "panicking", "Try."),
            ],
        )])
        .agent("erring", [Reply::Fails("503 from the model's server")])
        .agent("hanging", [Reply::Never])
        .agent("panicking", [Reply::Panics("index out of bounds")])
        .reflector([achieved("All were asked.")])
        // and a run beside it
        .planner([plan("Nothing.", [])])
        .reflector([achieved("Nothing.")]);
    let brief = AgentLimits {
        timeout: Millis(50),
        ..AgentLimits::default()
    };
    let dirigent = stage
        .builder(model.clone())
        .agent(agent("erring", &[]))
        .agent(agent("hanging", &[]).limits(brief))
        .agent(agent("panicking", &[]))
        .build()
        .await
        .unwrap();

    let run = dirigent.start(stage.goal("Ask")).await.unwrap();
    let report = achieved_report(&run).await;
    let other = dirigent.start(stage.goal("Do nothing")).await.unwrap();
    achieved_report(&other).await;

    for (subtask, error) in [
        ("errs", "the model did not answer: 503 from the model's server"),
        (
            "hangs",
            "the agent reached its time limit of 50 ms before it finished; allow more with `timeout`",
        ),
        (
            "panics",
            "the model did not answer: the model client panicked: index out of bounds",
        ),
    ] {
        assert_eq!(findings(&report, 0, subtask).unwrap_err(), error);
        let seen = model.reflector_asked()[0].json_lines("OBSERVATIONS");
        let seen = seen.iter().find(|line| line["subtask"] == subtask).unwrap();
        assert_eq!(seen["error"], error, "what reflection sees");
    }
}
