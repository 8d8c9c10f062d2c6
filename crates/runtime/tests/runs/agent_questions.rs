//! LEAD-4: sub-agents that ask the user.

use std::sync::Arc;

use dirigent_core::agent::AgentInput;
use dirigent_core::end_reason::EndReason;
use dirigent_core::id::EffectId;
use dirigent_core::journal::Input;
use dirigent_core::steering::Steering;
use dirigent_core::view::EventKind;
use dirigent_runtime::{Resume, RunHandle, SteerOutcome, UserPresence, read_run, with_read_output};
use serde_json::json;

use crate::script::{Asked, Reply, Scripted, achieved, call, plan, say, tools, work};
use crate::world::{World, ended, event};

fn asks() -> Reply {
    call(
        "ask_user",
        json!({"question": "Which one?", "choices": ["the left one", "the right one"]}),
    )
}

/// A lead that plans a sub-task for each of two workers, both of which ask the user. If it has guidance, it answers the goal.
async fn two_that_ask(asked: Asked) -> Reply {
    match asked.who() {
        "lead" if asked.task().contains("only the left") => say("As you said."),
        "lead" => plan("both", json!([work("one", &[]), work("two", &[])])),
        "worker" if asked.turn() == 0 => asks(),
        "worker" => say("worked"),
        _ => achieved(),
    }
}

/// A world whose workers may ask, and read outputs.
async fn asking(model: Arc<Scripted>) -> World {
    let mut world = World::new(model, tools([])).await;
    world.spec.setup.tools = with_read_output(world.spec.setup.tools.clone());
    let names = ["ask_user", "read_output"].map(str::to_owned);
    world.spec.setup.agents[0].tools.extend(names);
    world
}

/// Waits until this many questions of the run are open.
async fn questions_open(world: &World, handle: &RunHandle, count: usize) {
    event(handle, |kind| {
        let (view, _) = read_run(&world.journal, handle.id()).unwrap();
        matches!(kind, EventKind::QuestionAsked { .. }) && view.questions().len() == count
    })
    .await;
}

fn answer(of: &str, answer: &str) -> Steering {
    Steering::Answer {
        effect: of.parse().unwrap(),
        answer: answer.to_owned(),
    }
}

#[tokio::test]
async fn paor_8_a_run_that_stopped_at_its_agents_questions_continues_with_guidance() {
    let world = asking(Scripted::new(two_that_ask)).await;
    let handle = world.start(UserPresence::Absent).await;
    assert_eq!(ended(&handle).await.unwrap().end, Some(EndReason::UserRequired));

    let guidance = "only the left".to_owned();
    let sent = world
        .orchestrator
        .steer(handle.id(), Steering::Guide { guidance })
        .await;
    assert_eq!(sent.unwrap(), SteerOutcome::Pending);
    let resumed = world.orchestrator.resume(handle.id(), Resume::new()).await;
    let report = ended(&resumed.unwrap()).await.unwrap();

    assert_eq!(report.end, Some(EndReason::GoalAchieved));
    assert_eq!(report.summary, "As you said.", "the next plan knows it, too");
    assert!(
        report.iterations[0]
            .observations
            .iter()
            .all(|seen| seen.succeeded())
    );
}

#[tokio::test]
async fn paor_8_a_run_that_waits_for_its_agents_questions_continues_with_guidance() {
    let world = asking(Scripted::new(two_that_ask)).await;
    let handle = world.start(UserPresence::Present).await;
    questions_open(&world, &handle, 2).await;
    handle.guide("only the left").unwrap();
    assert_eq!(ended(&handle).await.unwrap().summary, "As you said.");
}

#[tokio::test]
async fn paor_8_urgent_guidance_stops_agents_whose_questions_wait() {
    let world = asking(Scripted::new(two_that_ask)).await;
    let handle = world.start(UserPresence::Present).await;
    questions_open(&world, &handle, 2).await;
    handle.guide_now("only the left").unwrap();
    let report = ended(&handle).await.unwrap();

    assert_eq!(report.summary, "It is done.");
    assert_eq!(report.questions, []);
    assert!(
        !report.iterations[0]
            .observations
            .iter()
            .any(|seen| seen.succeeded())
    );
    assert_eq!(
        world.model.asked(),
        5,
        "the lead twice, two workers, the reflector"
    );
}

#[tokio::test]
async fn host_9_a_fork_asks_all_open_questions_again() {
    let world = asking(Scripted::new(two_that_ask)).await;
    let handle = world.start(UserPresence::Absent).await;
    ended(&handle).await.unwrap();

    let fork = world
        .orchestrator
        .fork(handle.id(), None, None, Vec::new(), UserPresence::Present)
        .await
        .unwrap();
    event(&fork, |kind| matches!(kind, EventKind::Resumed)).await;
    // an answer to the original run does not answer the fork
    let sent = world.orchestrator.steer(handle.id(), answer("a2.2", "1")).await;
    assert_eq!(sent.unwrap(), SteerOutcome::Pending);
    for of in ["a3.2", "a2.2"] {
        fork.steer(answer(of, "2")).await.unwrap();
    }
    let report = ended(&fork).await.unwrap();

    assert_eq!(report.end, Some(EndReason::GoalAchieved));
    let (source, _) = read_run(&world.journal, handle.id()).unwrap();
    assert_eq!(source.questions().len(), 2);
}

#[tokio::test]
async fn host_9_a_fork_continues_with_guidance_instead_of_answers() {
    let world = asking(Scripted::new(two_that_ask)).await;
    let handle = world.start(UserPresence::Absent).await;
    ended(&handle).await.unwrap();
    let guidance = Some("only the left".to_owned());
    let fork = world
        .orchestrator
        .fork(handle.id(), None, guidance, Vec::new(), UserPresence::Absent);
    let report = ended(&fork.await.unwrap()).await.unwrap();
    assert_eq!(report.summary, "As you said.");
}

#[tokio::test]
async fn paor_6_read_output_of_a_question_gives_the_chosen_text() {
    let model = Scripted::new(|asked| async move {
        match (asked.who(), asked.turn()) {
            ("lead", _) => plan("one", json!([work("one", &[])])),
            ("worker", 0) => asks(),
            ("worker", 1) => call("read_output", json!({"handle": "a2.2"})),
            ("worker", _) => say(asked.last()),
            _ => achieved(),
        }
    });
    let world = asking(model).await;
    let handle = world.start(UserPresence::Present).await;
    questions_open(&world, &handle, 1).await;
    handle.steer(answer("a2.2", "2")).await.unwrap();
    ended(&handle).await.unwrap();

    let read: EffectId = "a2.4".parse().unwrap();
    let told = world
        .entries(handle.id())
        .into_iter()
        .find_map(|entry| match entry.input {
            Input::Agent(AgentInput::ToolFinished { effect, result }) if effect == read => {
                Some(result.for_model().to_string())
            }
            Input::Run(_) | Input::Agent(_) => None,
        });
    let told = told.unwrap();
    assert!(told.contains("the right one"), "{told}");
}
