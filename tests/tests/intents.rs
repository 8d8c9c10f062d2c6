//! INTENT-1, APPROVE-2: how each kind of message of a conversation is handled, through the library.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use dirigent::memory::{FactScope, Visible};
use dirigent::{
    Conversation, ConversationSettings, Dirigent, EndReason, EventKind, Goal, Policy, Report, Rule, Ruling,
    Sent, UserPresence,
};
use dirigent_tests::scripted::{Scripted, call, calls, last_call, plan, says};
use dirigent_tests::stage::{Stage, all_events, next_approval, until};
use serde_json::json;

async fn conversation(stage: &Stage, model: &Scripted) -> (Dirigent, Conversation) {
    let dirigent = stage.builder(model.clone()).build().await.unwrap();
    let settings = ConversationSettings::default();
    let created = dirigent.create_conversation(stage.workspace(), settings);
    (dirigent.clone(), created.await.unwrap())
}

/// Sends a message and waits for the end of its turn.
async fn turn(conversation: &Conversation, message: &str) -> Report {
    match conversation.send(Goal::new(message)).await.unwrap() {
        Sent::Turn(run) => Report::clone(&*run.outcome().await.unwrap()),
        Sent::Resumed(resumed) => Report::clone(&*resumed.run.outcome().await.unwrap()),
        Sent::AskedBack(waiting) => panic!("`{message}` was asked back: {}", waiting.intent),
        Sent::Message { outcome, .. } => panic!("`{message}` went to the active turn: {outcome:?}"),
        _ => panic!("`{message}` became no turn"),
    }
}

/// The answer to a message.
async fn answer(conversation: &Conversation, message: &str) -> String {
    let report = turn(conversation, message).await;
    assert_eq!(report.end, Some(EndReason::GoalAchieved), "{message}");
    report.summary
}

#[tokio::test]
async fn intent_1_facts_are_kept_recalled_and_forgotten_without_a_model() {
    let stage = Stage::new();
    let model = Scripted::new();
    let (dirigent, chat) = conversation(&stage, &model).await;
    let workspace = stage.workspace().canonicalize().unwrap();

    let kept = answer(&chat, "Please remember that my favourite colour is green.").await;
    assert!(
        kept.contains("about you") && kept.contains("my favourite colour is green"),
        "{kept}"
    );
    assert!(kept.contains("forget that"), "it says how to undo it: {kept}");
    let of_folder = answer(&chat, "Remember that the staging server is called blue").await;
    assert!(of_folder.contains("about this folder"), "{of_folder}");
    let facts = dirigent.memory().list(Visible::All).await.unwrap();
    let scopes: Vec<_> = facts.iter().map(|fact| fact.scope.clone()).collect();
    assert_eq!(scopes, [FactScope::Workspace(workspace), FactScope::User]);

    let known = answer(&chat, "remember that my favourite colour is green").await;
    assert!(known.contains("already"), "{known}");
    let recalled = answer(&chat, "What is my favourite colour?").await;
    assert_eq!(recalled, "You told me: my favourite colour is green.");
    let none = answer(&chat, "What did I tell you about the database?").await;
    assert!(none.contains("no fact about \"database\""), "{none}");

    let chinese = answer(&chat, "记住我喜欢喝绿茶").await;
    assert!(chinese.starts_with("记住了（关于你"), "{chinese}");
    let undone = answer(&chat, "forget that").await;
    assert!(undone.starts_with("I have forgotten: "), "{undone}");
    let forgotten = answer(&chat, "Forget what I told you about the staging server").await;
    assert!(
        forgotten.contains("the staging server is called blue"),
        "{forgotten}"
    );
    assert_eq!(dirigent.memory().list(Visible::All).await.unwrap().len(), 1);

    let refused = answer(&chat, "Remember that my password is hunter2hunter2").await;
    assert!(refused.contains("looks like it contains a password"), "{refused}");
    assert!(model.lead_asked().is_empty(), "no model was asked");
    let turns = chat.turns(20).await.unwrap();
    assert_eq!(turns.len(), 9);
    let last = turns.last().unwrap();
    assert!(!format!("{last:?}").contains("hunter2"), "{last:?}");
    assert_eq!(
        turns[0].intent.as_ref().unwrap().to_string(),
        "memory (remember: \"remember that\")"
    );
}

#[tokio::test]
async fn intent_1_a_fact_is_undone_later_as_well_and_a_vague_wish_to_forget_shows_what_is_near() {
    let stage = Stage::new();
    let (dirigent, chat) = conversation(&stage, &Scripted::new()).await;
    answer(&chat, "Remember that my favourite colour is green.").await;
    let near = answer(&chat, "Forget what I told you about my colour and my shoes").await;
    assert!(
        near.contains("no fact has all words") && near.contains("my favourite colour is green"),
        "{near}"
    );
    let undone = answer(&chat, "forget that").await;
    assert_eq!(undone, "I have forgotten: my favourite colour is green.");
    assert!(dirigent.memory().list(Visible::All).await.unwrap().is_empty());

    // A turn that is its answer from the start has nothing to continue.
    let run = chat.last_run().await.unwrap().unwrap().run;
    let fork = dirigent.fork(run, None, None, UserPresence::Absent).await;
    let refused = fork.err().unwrap().to_string();
    assert!(refused.contains("there is nothing to continue"), "{refused}");
}

#[tokio::test]
async fn intent_1_later_turns_contain_the_answers_of_the_memory() {
    let stage = Stage::new();
    let model = Scripted::new().lead([says("Hello Ann."), says("Still here.")]);
    let (_dirigent, chat) = conversation(&stage, &model).await;
    answer(&chat, "remember that my name is Ann").await;
    assert_eq!(answer(&chat, "Greet me by my name").await, "Hello Ann.");
    answer(&chat, "what's my name?").await;
    assert_eq!(answer(&chat, "Anything else?").await, "Still here.");

    let asked = model.lead_asked();
    assert_eq!(asked[0].roles(), ["system", "user", "assistant", "user"]);
    assert_eq!(asked[0].messages[1].content(), "remember that my name is Ann");
    let first = asked[0].last();
    assert!(
        first.contains("<TOOLS_FOR_CALLS>") || first.contains("<ENVIRONMENT>"),
        "{first}"
    );
    assert!(
        first.contains("<USER_NOTES>\n- my name is Ann\n</USER_NOTES>"),
        "{first}"
    );
    let (before, after) = (&asked[0].messages, &asked[1].messages);
    assert_eq!(before[..], after[..before.len()]);
    assert_eq!(
        asked[1].roles()[4..],
        ["assistant", "user", "assistant", "user"],
        "{:?}",
        asked[1].roles()
    );
    assert_eq!(asked[1].messages[6].content(), "You told me: my name is Ann");
    assert!(
        !asked[1].last().contains("<USER_NOTES>"),
        "only the first message has notes"
    );
}

#[tokio::test]
async fn intent_1_a_few_relevant_facts_join_the_first_message_as_notes() {
    let stage = Stage::new();
    let model = Scripted::new().lead([says("Green."), says("Fine.")]);
    let (dirigent, chat) = conversation(&stage, &model).await;
    let memory = dirigent.memory();
    memory.add(FactScope::User, "I like green buttons").await.unwrap();
    memory.add(FactScope::User, "My dog is called Rex").await.unwrap();
    for number in 0..20 {
        let fact = format!("Button {number} is round");
        memory.add(FactScope::User, &fact).await.unwrap();
    }
    turn(&chat, "Should the buttons be green?").await;
    turn(&chat, "And the other buttons?").await;
    let asked = model.lead_asked();
    let notes = asked[0].section("USER_NOTES").unwrap();
    assert!(
        notes.contains("I like green buttons") && !notes.contains("Rex"),
        "{notes}"
    );
    assert_eq!(notes.lines().count(), 8, "{notes}");
    assert!(!asked[1].last().contains("<USER_NOTES>"), "{}", asked[1].last());
}

#[tokio::test]
async fn intent_1_words_that_only_resemble_commands_are_normal_messages() {
    let stage = Stage::new();
    let messages = ["Do you remember the film?", "yes, go ahead", "2", "好的，批准"];
    let model = Scripted::new().lead(messages.map(|_| says("Answer.")));
    let (_dirigent, chat) = conversation(&stage, &model).await;
    for message in messages {
        assert_eq!(answer(&chat, message).await, "Answer.");
    }
    for turn in chat.turns(10).await.unwrap() {
        assert_eq!(turn.intent.unwrap().to_string(), "normal (no rule matched)");
    }
}

/// A turn with a command that waits for approval, without a user.
async fn waiting_turn(stage: &Stage, model: &Scripted) -> (Dirigent, Conversation) {
    let (dirigent, chat) = conversation(stage, model).await;
    let ask = Rule {
        ruling: Ruling::Ask,
        calls: "execute_command".parse().unwrap(),
    };
    let goal = Goal::new("Make a file").policy(Policy { rules: vec![ask] });
    let run = chat.start_turn(goal).await.unwrap();
    assert_eq!(run.outcome().await.unwrap().end, Some(EndReason::UserRequired));
    (dirigent, chat)
}

fn touching() -> Scripted {
    let touch = call("execute_command", json!({"command": "touch made.txt"}));
    Scripted::new().lead([touch, says("Done."), says("Next.")])
}

#[tokio::test]
async fn intent_1_clear_words_approve_the_call_of_a_turn_that_waits() {
    for words in ["yes, go ahead", "好的，批准"] {
        let stage = Stage::new();
        let (_dirigent, chat) = waiting_turn(&stage, &touching()).await;
        assert_eq!(answer(&chat, words).await, "Done.");
        assert!(stage.workspace().join("made.txt").exists(), "{words}");
        assert_eq!(chat.turns(10).await.unwrap().len(), 1);
    }
}

#[tokio::test]
async fn approve_2_a_message_can_reject_a_waiting_call_or_guide_its_agent() {
    let stage = Stage::new();
    let (_dirigent, chat) = waiting_turn(&stage, &touching()).await;
    let report = turn(&chat, "no").await;
    assert!(
        matches!(report.end, Some(EndReason::Failed { .. })),
        "{:?}",
        report.end
    );
    assert!(!stage.workspace().join("made.txt").exists());

    let stage = Stage::new();
    let model = touching();
    let (_dirigent, chat) = waiting_turn(&stage, &model).await;
    assert_eq!(answer(&chat, "改成 touch other.txt").await, "Done.");
    assert!(
        !stage.workspace().join("made.txt").exists(),
        "a changed call is shown before it runs"
    );
    let result = model.lead_asked()[1].last().to_owned();
    assert!(result.contains("改成 touch other.txt"), "{result}");
}

#[tokio::test]
async fn intent_1_unclear_words_decide_nothing_and_the_user_is_asked_again() {
    let stage = Stage::new();
    let (_dirigent, chat) = waiting_turn(&stage, &touching()).await;
    for words in ["yes, but wait", "maybe", "2"] {
        let Sent::AskedBack(waiting) = chat.send(Goal::new(words)).await.unwrap() else {
            panic!("`{words}` was taken for an answer");
        };
        assert_eq!(waiting.calls.len(), 1);
        assert_eq!(waiting.calls[0].approval.parameters["command"], "touch made.txt");
    }
    assert_eq!(answer(&chat, "approve").await, "Done.");
}

#[tokio::test]
async fn intent_1_choices_are_taken_by_number_ordinal_or_text() {
    for (words, chosen) in [("2", "Blue"), ("the second one", "Blue"), ("red", "Red")] {
        let stage = Stage::new();
        let look = calls("look", [("search", json!({"pattern": "x"}))]);
        let question = json!({"verdict": "ask_user", "summary": "?", "question": "Which colour?", "choices": ["Red", "Blue"]});
        let model = Scripted::new()
            .lead([plan("Look.", [look]), says("Painted.")])
            .reflector([last_call("submit_reflection", question)]);
        let (_dirigent, chat) = conversation(&stage, &model).await;
        let report = turn(&chat, "Paint it").await;
        assert_eq!(report.end, Some(EndReason::UserRequired));
        assert_eq!(answer(&chat, words).await, "Painted.", "{words}");
        let told = model.lead_asked()[1].last().to_owned();
        assert!(told.contains(chosen), "{words}: {told}");
    }
}

#[tokio::test]
async fn intent_1_during_a_turn_messages_decide_calls_and_facts_are_answered() {
    let stage = Stage::new();
    let (_dirigent, chat) = conversation(&stage, &touching()).await;
    let ask = Rule {
        ruling: Ruling::Ask,
        calls: "execute_command".parse().unwrap(),
    };
    let goal = Goal::new("Make a file")
        .user(UserPresence::Present)
        .policy(Policy { rules: vec![ask] });
    let run = chat.start_turn(goal).await.unwrap();
    next_approval(&mut run.events(0)).await;
    let Sent::Answer(kept) = chat.send(Goal::new("remember that I prefer tabs")).await.unwrap() else {
        panic!("the memory did not answer");
    };
    assert!(
        kept.contains("I prefer tabs") && kept.contains("forget what I told you about"),
        "{kept}"
    );
    let sent = chat.send(Goal::new("ok, do it")).await.unwrap();
    assert!(matches!(sent, Sent::Message { .. }));
    until(&mut run.events(0), |kind| {
        matches!(kind, EventKind::ApprovalDecided { .. })
    })
    .await;
    assert_eq!(run.outcome().await.unwrap().summary, "Done.");
}

#[tokio::test]
async fn host_9_a_turn_that_the_memory_answers_has_every_phase_and_replays() {
    let stage = Stage::new();
    let (dirigent, chat) = conversation(&stage, &Scripted::new()).await;
    let Sent::Turn(run) = chat.send(Goal::new("remember that I prefer tabs")).await.unwrap() else {
        panic!("no turn");
    };
    run.outcome().await.unwrap();
    let phases = all_events(&run).await;
    let phases = phases
        .iter()
        .filter(|event| matches!(event.kind, EventKind::PhaseChanged { .. }));
    assert_eq!(phases.count(), 5);
    let recording = dirigent.recording(run.id()).await.unwrap();
    let replayed = dirigent
        .replay(&recording, Goal::from_recording(&recording))
        .await
        .unwrap();
    assert_eq!(
        replayed.outcome().await.unwrap().summary,
        run.outcome().await.unwrap().summary
    );
    assert_eq!(dirigent.memory().list(Visible::All).await.unwrap().len(), 1);
}

#[tokio::test]
async fn host_2_a_turn_that_ended_before_its_lead_began_keeps_the_earlier_messages() {
    let stage = Stage::new();
    let model = Scripted::new().lead([says("One."), says("Three.")]);
    let (_dirigent, chat) = conversation(&stage, &model).await;
    answer(&chat, "Count").await;
    let goal = Goal::new("Go on").limits(dirigent::RunLimits {
        max_iterations: 0,
        ..dirigent::RunLimits::default()
    });
    let report = chat.start_turn(goal).await.unwrap().outcome().await.unwrap();
    assert_eq!(report.end, Some(EndReason::IterationLimit { max_iterations: 0 }));
    assert_eq!(answer(&chat, "Go on").await, "Three.");
    let asked = model.lead_asked();
    assert_eq!(asked[1].roles(), ["system", "user", "assistant", "user", "user"]);
}
