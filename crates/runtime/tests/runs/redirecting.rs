//! PAOR-8: urgent guidance stops the current work, and the next plan is made at once.

use dirigent_core::end_reason::EndReason;
use dirigent_core::tool::Repeat;
use dirigent_runtime::UserPresence;
use serde_json::json;

use crate::script::{Gate, Scripted, Scriptool, achieved, call, plan, say, tools, work};
use crate::world::{World, ended, within};

const GUIDANCE: &str = "Search only in /src/utils.";

#[tokio::test]
async fn paor_8_redirecting_stops_agents_and_calls_and_requests_another_plan() {
    let gate = Gate::shut();
    let model = Scripted::gated(&gate, move |asked, gate| async move {
        match asked.who() {
            "lead" if asked.task().contains(GUIDANCE) => say("As you said."),
            "lead" => plan(
                "all sorts",
                json!([
                    work("thinks", &[]),
                    work("calls", &[]),
                    {"id": "hangs", "title": "hangs", "calls": [
                        {"tool": "hang", "parameters": {}},
                        {"tool": "hang", "parameters": {}}
                    ]},
                    work("later", &["thinks"]),
                ]),
            ),
            "worker" if asked.task().contains("thinks") => {
                gate.pass().await;
                say("thought")
            }
            "worker" => call("hang", json!({})),
            _ => achieved(),
        }
    });
    let world = World::new(model, tools([Scriptool::waiting("hang", Repeat::Safe, &gate)])).await;

    let handle = world.start(UserPresence::Present).await;
    for _ in 0..3 {
        within(gate.entered()).await;
    }
    handle.guide_now(GUIDANCE).unwrap();
    let report = ended(&handle).await.unwrap();

    assert_eq!(report.end, Some(EndReason::GoalAchieved));
    assert_eq!(
        report.summary, "It is done.",
        "what the agents did before is judged"
    );
    let mut seen: Vec<_> = report.iterations[0]
        .observations
        .iter()
        .map(|seen| (seen.title.as_str(), seen.succeeded()))
        .collect();
    seen.sort_unstable();
    assert_eq!(
        seen,
        [
            ("calls", false),
            ("hangs", false),
            ("later", false),
            ("thinks", false)
        ]
    );
    // Two requests of the lead, two of workers, and one of the reflector after the lead's answer.
    assert_eq!(world.model.asked(), 5);
    world.all_tasks_end().await;
    assert_eq!(gate.inside(), 0);
}

#[tokio::test]
async fn paor_8_redirecting_while_planning_requests_the_plan_again() {
    let gate = Gate::shut();
    let model = Scripted::gated(&gate, move |asked, gate| async move {
        if asked.task().contains(GUIDANCE) {
            return say("As you said.");
        }
        gate.pass().await;
        say("Something else.")
    });
    let world = World::new(model, tools([])).await;

    let handle = world.start(UserPresence::Present).await;
    within(gate.entered()).await;
    handle.guide_now(GUIDANCE).unwrap();
    let report = ended(&handle).await.unwrap();

    assert_eq!(report.summary, "As you said.");
    world.all_tasks_end().await;
    assert_eq!(gate.inside(), 0);
}
