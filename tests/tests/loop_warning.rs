//! LOOP-2: the warning that is logged when an agent's loop is ended. The test runs in its own process: `tracing` caches for all threads
//! of a process whether anybody listened when a warning first occurred, so no other test may trigger it first.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::Write;
use std::sync::{Arc, Mutex};

use dirigent_tests::probes::{Notes, note};
use dirigent_tests::scripted::{Reply, Scripted, achieved, call, delegate, plan};
use dirigent_tests::stage::{Stage, achieved_report, agent, findings};
use serde_json::json;

/// A buffer that receives the log.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(line)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn loop_2_at_max_turns_the_loop_ends_with_a_message_and_a_logged_warning() {
    // given a log, and a model that never finishes and never repeats itself
    let (stage, notes, log) = (Stage::new(), Notes::default(), Log::default());
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::WARN)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    tracing::subscriber::set_global_default(subscriber).unwrap();
    let replies: Vec<Reply> = (0..20)
        .map(|turn| call("note", json!({"text": format!("again {turn}")})))
        .collect();
    let model = Scripted::new()
        .lead([plan("Ask the scout.", [delegate("ask", "scout", "Do it.")])])
        .agent("scout", replies)
        .reflector([achieved("Judged.")]);
    let dirigent = stage
        .builder(model.clone())
        .agent(agent("scout", &["note"]))
        .tool(note(&notes))
        .build()
        .await
        .unwrap();

    // when the agent is limited to ten turns, the default
    let run = dirigent.start(stage.goal("Do it")).await.unwrap();
    let report = achieved_report(&run).await;

    // then
    assert_eq!(model.agent_asked("scout").len(), 10);
    let error = "the agent reached its limit of 10 model turns before it finished: raise `max_turns` in this agent's limits";
    assert_eq!(findings(&report, 0, "ask").unwrap_err(), error);
    assert!(dirigent::render::report(&report, dirigent::Detail::Verbose).contains(error));
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(
        log.lines()
            .any(|line| line.contains("WARN") && line.contains(error)),
        "{log}"
    );
}
