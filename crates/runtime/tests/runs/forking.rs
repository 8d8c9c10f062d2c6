//! HOST-9: a new run can be forked from any point of a run, with other guidance.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dirigent_core::agent::AgentInput;
use dirigent_core::approval::{Approval, DecisionError};
use dirigent_core::end_reason::EndReason;
use dirigent_core::id::{RunId, Scope};
use dirigent_core::journal::{Entry, Input, InputRef};
use dirigent_core::message::{ModelFailure, ModelFailureKind};
use dirigent_core::run::RunInput;
use dirigent_core::time::Timestamp;
use dirigent_core::view::EventKind;
use dirigent_runtime::{Resume, RunHandle, RuntimeError, UserPresence};
use dirigent_store::{Durability, ForkPoint, NewEntry};
use serde_json::json;

use crate::approvals::{self, Calls, approve, risk_of};
use crate::script::{Gate, Scripted, achieved, ask_user_until, call, plan_work, say, tools};
use crate::world::{World, ended, within};

/// A model that works on its goal and reports any guidance.
fn usual() -> Arc<Scripted> {
    Scripted::new(|asked| async move {
        match asked.who() {
            "lead" if asked.task().contains("only in src") => say("As you said."),
            "lead" => plan_work(),
            "worker" => say("worked"),
            _ => achieved(),
        }
    })
}

/// The inputs of entries, without their run.
fn inputs(entries: &[Entry]) -> Vec<(u64, Scope, &Input)> {
    let entries = entries.iter();
    entries
        .map(|entry| (entry.seq, entry.scope, &entry.input))
        .collect()
}

fn is_guidance(entry: &Entry) -> bool {
    matches!(entry.input, Input::Run(RunInput::Guided { .. }))
}

#[tokio::test]
async fn host_9_a_fork_of_an_ended_run_continues_with_other_guidance() {
    let world = World::new(usual(), tools([])).await;
    let handle = world.start(UserPresence::Absent).await;
    assert_eq!(ended(&handle).await.unwrap().summary, "It is done.");
    let past = world.entries(handle.id());
    let asked = world.model.asked();

    let guidance = Some("only in src".to_owned());
    let fork = world
        .orchestrator
        .fork(handle.id(), None, guidance, Vec::new(), UserPresence::Absent);
    let forked = fork.await.unwrap();
    let report = ended(&forked).await.unwrap();

    assert_eq!(report.end, Some(EndReason::GoalAchieved));
    assert_eq!(report.summary, "As you said.");
    assert_eq!(report.iteration_count, 2);
    assert_eq!(world.model.asked() - asked, 1, "the second lead's request");
    let shared = past.len() - 1;
    let entries = world.entries(forked.id());
    assert_eq!(inputs(&entries[..shared]), inputs(&past[..shared]));
    assert!(matches!(
        entries[shared].input,
        Input::Run(RunInput::Resumed { .. })
    ));
    assert!(is_guidance(&entries[shared + 1]));
    assert_eq!(world.entries(handle.id()), past, "the run itself stays as it is");
    assert_eq!(
        world.journal.run(forked.id()).unwrap().forked_from,
        Some(ForkPoint {
            run: handle.id(),
            seq: shared as u64
        })
    );
}

#[tokio::test]
async fn host_9_a_run_can_be_forked_at_every_entry_except_its_end() {
    let world = World::new(usual(), tools([])).await;
    let handle = world.start(UserPresence::Absent).await;
    ended(&handle).await.unwrap();
    let run = handle.id();
    let last = world.entries(run).len() as u64;

    for at in 1..last {
        let guidance = Some("only in src".to_owned());
        let fork = world
            .orchestrator
            .fork(run, Some(at), guidance, Vec::new(), UserPresence::Absent);
        let report = ended(&fork.await.unwrap()).await.unwrap();
        assert_eq!(report.summary, "As you said.", "forked at {at}");
    }
    for (at, reason) in [
        (0, "no such entry"),
        (last, "already ended there"),
        (last + 1, "no such entry"),
    ] {
        let fork = world
            .orchestrator
            .fork(run, Some(at), None, Vec::new(), UserPresence::Absent);
        let refused = fork.await.err().unwrap();
        assert!(
            matches!(refused, RuntimeError::CannotFork { at: named, .. } if named == at),
            "{refused}"
        );
        assert!(refused.to_string().contains(reason), "{refused}");
        let points = format!("an entry from 1 to {}", last - 1);
        assert!(refused.to_string().contains(&points), "{refused}");
    }
}

#[tokio::test]
async fn host_9_an_active_run_can_be_forked_and_continues() {
    let gate = Gate::shut();
    let model = Scripted::gated(&gate, move |asked, gate| async move {
        match asked.who() {
            "lead" if asked.task().contains("only in src") => say("As you said."),
            "lead" => plan_work(),
            "worker" => {
                gate.pass().await;
                say("worked")
            }
            _ => achieved(),
        }
    });
    let world = World::new(model, tools([])).await;
    let handle = world.start(UserPresence::Absent).await;
    within(gate.entered()).await;

    let guidance = Some("only in src".to_owned());
    let fork = world
        .orchestrator
        .fork(handle.id(), None, guidance, Vec::new(), UserPresence::Absent);
    let forked = fork.await.unwrap();
    within(gate.entered()).await;
    assert_eq!(gate.inside(), 2);
    gate.open();

    assert_eq!(ended(&forked).await.unwrap().summary, "As you said.");
    assert_eq!(ended(&handle).await.unwrap().summary, "It is done.");
}

/// A world in which the worker calls `risk`, which needs approval.
async fn risky() -> (World, Calls) {
    let (registry, calls) = approvals::risky();
    (World::new(risk_of("worker"), registry).await, calls)
}

/// The last call that needed approval since this entry.
async fn asked_since(handle: &RunHandle, seq: u64) -> Arc<Approval> {
    let mut events = handle.events(0);
    within(async {
        while let Some(event) = events.next().await {
            let event = event.unwrap();
            if let EventKind::ApprovalAsked { approval } = &event.kind
                && event.seq > seq
            {
                return approval.clone();
            }
        }
        panic!("the run ended");
    })
    .await
}

#[tokio::test]
async fn approve_3_a_decision_about_a_call_that_waits_does_not_count_in_a_fork() {
    let (world, calls) = risky().await;
    let handle = world.start(UserPresence::Present).await;
    let asked = asked_since(&handle, 0).await;
    let fork = world
        .orchestrator
        .fork(handle.id(), None, None, Vec::new(), UserPresence::Present);
    let forked = fork.await.unwrap();
    let place = world.journal.run(forked.id()).unwrap().forked_from.unwrap().seq;
    let anew = asked_since(&forked, place).await;

    let refused = forked.decide(asked.effect, approve(&asked)).await.unwrap_err();
    assert!(
        matches!(
            refused,
            RuntimeError::Decision {
                error: DecisionError::DigestMismatch { .. },
                ..
            }
        ),
        "{refused}"
    );
    handle.decide(asked.effect, approve(&asked)).await.unwrap();
    ended(&handle).await.unwrap();
    assert_eq!(calls.lock().unwrap().len(), 1);
    forked.decide(anew.effect, approve(&anew)).await.unwrap();
    assert_eq!(ended(&forked).await.unwrap().end, Some(EndReason::GoalAchieved));
    assert_eq!(calls.lock().unwrap().len(), 2);
}

/// Returns a run that has called `risk`, and the number of the entry after its decision.
async fn decided(world: &World) -> (RunId, u64) {
    let handle = world.start(UserPresence::Present).await;
    let asked = asked_since(&handle, 0).await;
    handle.decide(asked.effect, approve(&asked)).await.unwrap();
    ended(&handle).await.unwrap();
    let entries = world.entries(handle.id()).into_iter();
    let mut decisions =
        entries.filter(|entry| matches!(entry.input, Input::Agent(AgentInput::Decided { .. })));
    (handle.id(), decisions.next().unwrap().seq)
}

#[tokio::test]
async fn approve_3_an_approved_call_needs_approval_again_in_a_fork() {
    let (world, calls) = risky().await;
    let (run, at) = decided(&world).await;

    let fork = world
        .orchestrator
        .fork(run, Some(at), None, Vec::new(), UserPresence::Present);
    let forked = fork.await.unwrap();
    let anew = asked_since(&forked, at).await;
    assert_eq!(calls.lock().unwrap().len(), 1);
    forked.decide(anew.effect, approve(&anew)).await.unwrap();
    ended(&forked).await.unwrap();

    assert_eq!(calls.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn approve_3_an_approved_call_needs_approval_again_in_a_fork_that_is_resumed_twice() {
    let (world, calls) = risky().await;
    let (run, at) = decided(&world).await;
    // The fork continues the run, and its process ends before the agent does.
    let new = RunId(uuid::Uuid::now_v7());
    let claim = world.journal.fork(run, at, new, Timestamp(1)).unwrap();
    let last_seen = world.entries(new).last().unwrap().at;
    let resumed = RunInput::Resumed {
        last_seen,
        forked: true,
        limits: None,
        interrupted: Default::default(),
    };
    let entry = NewEntry {
        at: last_seen,
        scope: Scope::Run,
        body: serde_json::to_string(&InputRef::Run(&resumed)).unwrap(),
        shared: Vec::new(),
        durability: Durability::Normal,
        consumes: None,
    };
    world.journal.append(&claim, entry, |stored| {
        stored.unwrap();
    });
    world.journal.flush().unwrap();
    drop(claim);

    let resume = world
        .orchestrator
        .resume(new, Resume::new().user(UserPresence::Present));
    let forked = resume.await.unwrap();
    let anew = asked_since(&forked, at).await;
    assert_eq!(calls.lock().unwrap().len(), 1);
    forked.decide(anew.effect, approve(&anew)).await.unwrap();
    ended(&forked).await.unwrap();

    assert_eq!(calls.lock().unwrap().len(), 2);
    let said: Vec<bool> = world
        .entries(new)
        .iter()
        .filter_map(|entry| match entry.input {
            Input::Run(RunInput::Resumed { forked, .. })
            | Input::Agent(AgentInput::Resumed { forked, .. }) => Some(forked),
            _ => None,
        })
        .collect();
    assert_eq!(said, [true, false, true]);
}

#[tokio::test]
async fn host_9_guidance_for_a_fork_replaces_the_answer_to_its_question() {
    let model = Scripted::new(|asked| async move {
        match asked.who() {
            "lead" if asked.task().contains("only in src") => say("As you said."),
            "lead" => plan_work(),
            "worker" => say("worked"),
            _ => ask_user_until(&asked, "As you said."),
        }
    });
    let world = World::new(model, tools([])).await;
    let handle = world.start(UserPresence::Absent).await;
    assert_eq!(ended(&handle).await.unwrap().end, Some(EndReason::UserRequired));

    let guidance = Some("only in src".to_owned());
    let fork = world
        .orchestrator
        .fork(handle.id(), None, guidance, Vec::new(), UserPresence::Absent);
    let report = ended(&fork.await.unwrap()).await.unwrap();

    assert_eq!(report.end, Some(EndReason::GoalAchieved));
    assert_eq!(report.summary, "As you said.");
}

#[tokio::test]
async fn host_9_a_fork_before_a_lead_failure_keeps_the_earlier_iterations() {
    let out = Arc::new(AtomicBool::new(true));
    let is_out = out.clone();
    let model = Scripted::new(move |asked| {
        let is_out = is_out.load(Ordering::SeqCst);
        async move {
            match asked.who() {
                "lead" if !asked.task().contains("Go on.") => plan_work(),
                "lead" if is_out => Err(ModelFailure {
                    kind: ModelFailureKind::Unavailable { retry_after: None },
                    message: "nobody is there".to_owned(),
                }),
                "lead" => say("That was all."),
                "worker" => say("worked"),
                _ if !is_out => achieved(),
                _ => call(
                    "submit_reflection",
                    json!({"verdict": "continue", "summary": "Go on."}),
                ),
            }
        }
    });
    let world = World::new(model, tools([])).await;
    let handle = world.start(UserPresence::Absent).await;
    let report = ended(&handle).await.unwrap();
    assert!(matches!(report.end, Some(EndReason::Failed { .. })), "{report:?}");
    let asked = world.model.asked();

    out.store(false, Ordering::SeqCst);
    let fork = world
        .orchestrator
        .fork(handle.id(), None, None, Vec::new(), UserPresence::Absent);
    let report = ended(&fork.await.unwrap()).await.unwrap();

    assert_eq!(report.end, Some(EndReason::GoalAchieved));
    assert_eq!(
        world.model.asked() - asked,
        2,
        "the failed request is made again and its answer judged, and nothing else is asked"
    );
}

#[tokio::test]
async fn host_9_a_fork_of_a_run_whose_model_did_not_answer_asks_again() {
    for who in ["lead", "reflector"] {
        let out = Arc::new(AtomicBool::new(true));
        let is_out = out.clone();
        let model = Scripted::new(move |asked| {
            let is_out = asked.who() == who && is_out.load(Ordering::SeqCst);
            async move {
                match asked.who() {
                    _ if is_out => Err(ModelFailure {
                        kind: ModelFailureKind::Unavailable { retry_after: None },
                        message: "nobody is there".to_owned(),
                    }),
                    "lead" => plan_work(),
                    "worker" => say("worked"),
                    _ => achieved(),
                }
            }
        });
        let world = World::new(model, tools([])).await;
        let handle = world.start(UserPresence::Absent).await;
        let report = ended(&handle).await.unwrap();
        assert!(matches!(report.end, Some(EndReason::Failed { .. })), "{report:?}");
        let asked = world.model.asked();

        out.store(false, Ordering::SeqCst);
        let fork = world
            .orchestrator
            .fork(handle.id(), None, None, Vec::new(), UserPresence::Absent);
        let report = ended(&fork.await.unwrap()).await.unwrap();

        assert_eq!(report.end, Some(EndReason::GoalAchieved));
        let left = if who == "lead" { 3 } else { 1 };
        assert_eq!(world.model.asked() - asked, left, "nothing else is asked again");
    }
}
