//! "Search only in src/utils": the user sees a run look in the wrong places, and says so (PAOR-8).

use dirigent::core::brief::AgentRole;
use dirigent::core::tool::Repeat;
use dirigent::{EventKind, Report};
use dirigent_tests::probes::{Notes, wait};
use dirigent_tests::scripted::{
    Gate, Scripted, achieved, call, calls, delegate, go_on, plan, plan_for_guidance, says,
};
use dirigent_tests::stage::{Stage, achieved_report, agent, all_events, observed_calls, until};
use serde_json::{Value, json};

const GUIDANCE: &str = "Search only in src/utils";

fn project() -> Stage {
    Stage::new()
        .file("src/utils/parse.rs", "pub fn parse_amount() {}\n")
        .file("vendor/old/parse.rs", "pub fn parse_amount() {}\n")
}

fn search(parameters: Value) -> Value {
    calls("find", [("search", parameters)])
}

fn in_utils() -> Value {
    search(json!({"pattern": "parse_amount", "paths": ["src/utils"]}))
}

fn found(report: &Report, iteration: usize) -> Vec<String> {
    let calls = observed_calls(report, iteration, "find");
    let result = calls[0].result.for_model();
    let matches = result["output"]["matches"].as_array().unwrap().iter();
    matches
        .map(|found| found["path"].as_str().unwrap().to_owned())
        .collect()
}

/// Which guidance each plan says that it answers.
async fn answers(run: &dirigent::RunHandle) -> Vec<Vec<u32>> {
    let events = all_events(run).await.into_iter();
    events
        .filter_map(|event| match event.kind {
            EventKind::PlanMade { plan } => Some(plan.answers_guidance),
            _ => None,
        })
        .collect()
}

#[tokio::test]
async fn paor_8_the_next_plan_has_the_users_correction_and_names_it() {
    // given a first iteration that finds the function in other people's code as well
    let (stage, gate) = (project(), Gate::shut());
    let everywhere = search(json!({"pattern": "parse_amount"}));
    let model = Scripted::new()
        .planner([
            plan("Search everywhere.", [everywhere]),
            plan_for_guidance("Search src/utils alone.", &[1], [in_utils()]),
        ])
        .reflector([
            go_on("Two functions have that name.").behind(&gate),
            achieved("parse_amount is in src/utils/parse.rs."),
        ]);
    let dirigent = stage.builder(model.clone()).build().await.unwrap();
    let run = dirigent.start(stage.goal("Find parse_amount")).await.unwrap();

    // when the user sees that
    until(&mut run.events(), |kind| {
        matches!(kind, EventKind::SubTaskFinished { .. })
    })
    .await;
    run.guide(GUIDANCE).unwrap();
    gate.open();
    let report = achieved_report(&run).await;

    // then the next plan was asked for with it, and names it
    let asked = model.planner_asked();
    assert_eq!(asked.len(), 2);
    assert_eq!(asked[1].section("GUIDANCE"), Some("1. Search only in src/utils"));
    assert_eq!(answers(&run).await, [vec![], vec![1]]);
    assert_eq!(report.iterations[1].plan.answers_guidance, [1]);
    // and it was kept to
    assert_eq!(found(&report, 0), ["src/utils/parse.rs", "vendor/old/parse.rs"]);
    assert_eq!(found(&report, 1), ["src/utils/parse.rs"]);
}

#[tokio::test]
async fn paor_8_what_cannot_wait_stops_what_is_under_way_and_plans_now() {
    // given a sub-agent that digs where nobody comes out again, and what would come after it
    let (stage, notes) = (project(), Notes::default());
    let model = Scripted::new()
        .planner([
            plan(
                "Dig.",
                [
                    delegate("dig", "digger", "Dig through vendor."),
                    dirigent_tests::scripted::after(
                        delegate("more", "digger", "Dig through the rest."),
                        ["dig"],
                    ),
                ],
            ),
            plan_for_guidance("Search src/utils alone.", &[1], [in_utils()]),
        ])
        .agent("digger", [call("dig", json!({})), says("never said")])
        .reflector([achieved("parse_amount is in src/utils/parse.rs.")]);
    let dirigent = stage
        .builder(model.clone())
        .tool(wait("dig", Repeat::Safe, &notes, &Gate::shut()))
        .agent(agent("digger", &["dig"]))
        .build()
        .await
        .unwrap();
    let run = dirigent.start(stage.goal("Find parse_amount")).await.unwrap();

    // when
    let is_digging = |kind: &EventKind| matches!(kind, EventKind::ToolStarted { .. });
    until(&mut run.events(), is_digging).await;
    run.guide_now(GUIDANCE).unwrap();
    let report = achieved_report(&run).await;

    // then the digging was stopped, nothing of the old plan began any more, and nobody judged it
    assert_eq!(notes.all().last().map(String::as_str), Some("cancelled"));
    assert_eq!(model.agent_asked("digger").len(), 1);
    let events = all_events(&run).await;
    let reflectors = events.iter().filter(|event| {
        matches!(
            &event.kind,
            EventKind::AgentStarted {
                role: AgentRole::Reflector,
                ..
            }
        )
    });
    assert_eq!(reflectors.count(), 1);
    assert_eq!(
        model.planner_asked()[1].section("GUIDANCE"),
        Some("1. Search only in src/utils")
    );
    assert_eq!(answers(&run).await, [vec![], vec![1]]);
    assert_eq!(found(&report, 1), ["src/utils/parse.rs"]);
}
