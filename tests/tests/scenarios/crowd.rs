//! A hundred agents three deep under one budget, some of which misbehave: each is a result for its caller, and the rest goes on (PAOR-5,
//! PAOR-7).

use dirigent::core::brief::AgentRole;
use dirigent::core::budget::BudgetKind;
use dirigent::{AgentLimits, EndReason, EventKind, Millis, Report, RunHandle, RunLimits};
use dirigent_tests::scripted::{Asked, Reply, Scripted, achieved, call, delegate, plan, says};
use dirigent_tests::stage::{Stage, agent, all_events, findings};
use serde_json::{Value, json};

/// Those that a chief has, and those that a lead has: one of each kind.
const LEADS: usize = 4;
const KINDS: [&str; 5] = ["calm", "calm", "looping", "panicking", "hanging"];

fn results(asked: &Asked) -> Vec<Value> {
    let results = asked.messages.iter().zip(asked.roles());
    results
        .filter(|(_, role)| *role == "tool")
        .map(|(message, _)| serde_json::from_str(message.content()).unwrap())
        .collect()
}

fn have(agent: &str, number: usize) -> Reply {
    call(
        "delegate",
        json!({"agent": agent, "task": format!("Do part {number}.")}),
    )
}

/// Has its parts done one by one, and says how many came to something.
fn caller(asked: &Asked, parts: usize, agent: impl Fn(usize) -> &'static str) -> Reply {
    let results = results(asked);
    if results.len() < parts {
        return have(agent(results.len()), results.len());
    }
    let done = results.iter().filter(|result| result["success"] == true).count();
    says(format!("{done} of {parts}"))
}

fn model() -> Scripted {
    let chiefs = ["a", "b", "c", "d"].map(|id| delegate(id, "chief", "Have it done."));
    Scripted::new()
        .planner([plan("Four chiefs.", chiefs)])
        .agents("chief", |asked| caller(asked, LEADS, |_| "lead"))
        .agents("lead", |asked| caller(asked, KINDS.len(), |part| KINDS[part]))
        .agents("calm", |_| says("Done."))
        .agents("looping", |_| call("search", json!({"pattern": "x"})))
        .agents("panicking", |_| Reply::Panics("broken on purpose"))
        .agents("hanging", |_| Reply::Never)
        .reflector([achieved("What could be done is done.")])
}

async fn crowd(limits: RunLimits) -> (Stage, RunHandle, Report) {
    let stage = Stage::new();
    let small = AgentLimits {
        max_turns: 3,
        timeout: Millis(50),
        ..AgentLimits::default()
    };
    let mut builder = stage.builder(model());
    for name in ["chief", "lead"] {
        builder = builder.agent(agent(name, &["delegate"]));
    }
    for name in ["calm", "panicking"] {
        builder = builder.agent(agent(name, &[]));
    }
    let turns = AgentLimits {
        max_turns: 3,
        ..AgentLimits::default()
    };
    builder = builder
        .agent(agent("looping", &["search"]).limits(turns))
        .agent(agent("hanging", &[]).limits(small));
    let dirigent = builder.build().await.unwrap();
    let run = dirigent
        .start(stage.goal("Do it all").limits(limits))
        .await
        .unwrap();
    let report = run.outcome().await.unwrap();
    (stage, run, Report::clone(&report))
}

#[tokio::test(flavor = "multi_thread")]
async fn paor_7_of_a_hundred_agents_those_that_misbehave_are_results_and_the_rest_goes_on() {
    let (_stage, run, report) = crowd(RunLimits::default()).await;

    assert_eq!(report.end, Some(EndReason::GoalAchieved), "{}", report.summary);
    for chief in ["a", "b", "c", "d"] {
        assert_eq!(findings(&report, 0, chief).unwrap(), "4 of 4");
    }
    let events = all_events(&run).await;
    let started = events.iter().filter(|event| {
        matches!(
            &event.kind,
            EventKind::AgentStarted {
                role: AgentRole::Sub(_),
                ..
            }
        )
    });
    assert_eq!(started.count(), 100);
    let failed = events
        .iter()
        .filter(|event| matches!(&event.kind, EventKind::AgentFinished { failure: Some(_), .. }));
    assert_eq!(failed.count(), 3 * 16);
    // Each lead had two that came to something, and said so to its chief.
    let said = events.iter().filter(
        |event| matches!(&event.kind, EventKind::ModelReplied { content, .. } if content == "2 of 5"),
    );
    assert_eq!(said.count(), 16);
}

#[tokio::test(flavor = "multi_thread")]
async fn host_6_a_hundred_agents_three_deep_share_one_budget() {
    let limits = RunLimits {
        max_model_calls: Some(100),
        ..RunLimits::default()
    };
    let (_stage, run, report) = crowd(limits).await;

    assert_eq!(
        report.end,
        Some(EndReason::BudgetExhausted {
            budget: BudgetKind::ModelCalls,
            used: 100,
            limit: 100,
        })
    );
    // A request that was cut off took its place in the budget, and used nothing that anybody counted.
    let events = all_events(&run).await;
    let replies = events
        .iter()
        .filter(|event| matches!(event.kind, EventKind::ModelReplied { .. }));
    assert_eq!(replies.count(), report.usage.model_calls as usize);
    assert!(report.usage.model_calls <= 100, "{:?}", report.usage);
}
