//! Live previews of model replies are broadcast to listeners and never journaled.

use dirigent_runtime::UserPresence;
use dirigent_tools::ToolRegistry;
use serde_json::json;

use crate::script::{Asked, Gate, Scripted, achieved, plan_work, say};
use crate::world::{World, ended, within};

#[tokio::test]
async fn call_2_the_reply_is_streamed_and_only_the_whole_reply_is_journaled() {
    let gate = Gate::shut();
    let model = Scripted::gated(&gate, move |asked: Asked, gate| async move {
        match asked.who() {
            "lead" => {
                gate.pass().await;
                plan_work()
            }
            "worker" => {
                asked.send("wor");
                asked.send("ked");
                say("worked")
            }
            _ => achieved(),
        }
    });
    let world = World::new(model, ToolRegistry::new()).await;
    let run = world.start(UserPresence::Absent).await;
    within(gate.entered()).await;
    let mut deltas = run.deltas();
    gate.open();
    let told = [
        within(deltas.recv()).await.unwrap(),
        within(deltas.recv()).await.unwrap(),
    ];
    assert_eq!(
        serde_json::to_value(told).unwrap(),
        json!([
            {"agent": 2, "turn": 1, "start": 0, "text": "wor"},
            {"agent": 2, "turn": 1, "start": 3, "text": "ked"},
        ])
    );
    ended(&run).await.unwrap();
    let journal = serde_json::to_string(&world.entries(run.id())).unwrap();
    assert!(journal.contains("worked") && !journal.contains("\"wor\""));
}

#[tokio::test]
async fn call_2_without_listeners_no_stream_is_requested() {
    let model = Scripted::new(|asked: Asked| async move {
        assert!(!asked.has_listeners(), "a provider need not stream for nobody");
        match asked.who() {
            "lead" => plan_work(),
            "worker" => say("worked"),
            _ => achieved(),
        }
    });
    assert!(
        World::new(model, ToolRegistry::new())
            .await
            .run()
            .await
            .is_achieved()
    );
}
