//! PROMPT-3, LEAD-3, HOST-2, HOST-6: conversations through the library. Each turn is a run that continues with the messages of the turns
//! before it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use dirigent::{
    ApprovalAnswer, Conversation, ConversationFilter, ConversationSettings, Cost, Dirigent, DirigentError,
    EndReason, Goal, Policy, Report, Rule, Ruling, RunHandle, Sent, UserPresence,
};
use dirigent_core::journal::Input;
use dirigent_core::message::Message;
use dirigent_core::run::RunInput;
use dirigent_store::{Journal, StoreError};
use dirigent_tests::scripted::{Gate, Scripted, achieved, call, calls, plan, says};
use dirigent_tests::stage::{Stage, decide, next_approval};
use serde_json::json;

async fn conversation(stage: &Stage, model: &Scripted) -> (Dirigent, Conversation) {
    let dirigent = stage.builder(model.clone()).build().await.unwrap();
    let settings = ConversationSettings::default();
    let conversation = dirigent
        .create_conversation(stage.workspace(), settings)
        .await
        .unwrap();
    (dirigent, conversation)
}

async fn started(conversation: &Conversation, message: &str) -> RunHandle {
    match conversation.send(Goal::new(message)).await.unwrap() {
        Sent::Turn(run) => run,
        _ => panic!("the message began no turn"),
    }
}

/// Sends a message and waits for the end of its turn.
async fn turn(conversation: &Conversation, message: &str) -> Report {
    let run = started(conversation, message).await;
    Report::clone(&*run.outcome().await.unwrap())
}

fn texts(messages: &[Message]) -> Vec<&str> {
    messages.iter().map(Message::content).collect()
}

#[tokio::test]
async fn prompt_3_a_turn_continues_with_the_messages_of_the_turns_before() {
    let stage = Stage::new().file("notes.txt", "first\nsecond\n");
    let model = Scripted::new().lead([
        call(
            "file_operations",
            json!({"operation": "read", "path": "notes.txt"}),
        ),
        says("It has two lines."),
        says("The first one says: first."),
        says("You are welcome."),
    ]);
    let (_dirigent, conversation) = conversation(&stage, &model).await;
    assert_eq!(
        turn(&conversation, "How many lines has notes.txt?").await.summary,
        "It has two lines."
    );
    assert_eq!(
        turn(&conversation, "And what does the first one say?")
            .await
            .summary,
        "The first one says: first."
    );
    assert_eq!(
        turn(&conversation, "Thanks").await.end,
        Some(EndReason::GoalAchieved)
    );

    // Each request begins with the messages of the one before it.
    let asked = model.lead_asked();
    assert_eq!(asked.len(), 4);
    for pair in asked.windows(2) {
        let (before, after) = (&pair[0].messages, &pair[1].messages);
        assert_eq!(before[..], after[..before.len()], "{:?}", texts(after));
    }
    assert_eq!(
        asked[2].roles(),
        ["system", "user", "assistant", "tool", "assistant", "user"]
    );
    assert!(asked[2].last().contains("And what does the first one say?"));
    assert!(
        !asked[2].last().contains("<ENVIRONMENT>"),
        "it is known: {}",
        asked[2].last()
    );
    assert!(model.reflector_asked().is_empty());

    let turns = conversation.turns(10).await.unwrap();
    let told: Vec<_> = turns
        .iter()
        .map(|turn| (turn.number, turn.message.as_str(), turn.report.summary.as_str()))
        .collect();
    assert_eq!(
        told,
        [
            (1, "How many lines has notes.txt?", "It has two lines."),
            (
                2,
                "And what does the first one say?",
                "The first one says: first."
            ),
            (3, "Thanks", "You are welcome."),
        ]
    );
}

#[tokio::test]
async fn prompt_3_a_file_read_in_an_earlier_turn_can_be_edited_without_a_reflection() {
    let stage = Stage::new().file("notes.txt", "first\n");
    let edit = json!({"operation": "edit", "path": "notes.txt", "old": "first", "new": "last"});
    let model = Scripted::new().lead([
        call(
            "file_operations",
            json!({"operation": "read", "path": "notes.txt"}),
        ),
        says("It says first."),
        call("file_operations", edit),
        says("Changed."),
    ]);
    let (_dirigent, conversation) = conversation(&stage, &model).await;
    turn(&conversation, "What is in notes.txt?").await;
    let report = turn(&conversation, "Make it last").await;
    assert_eq!(report.summary, "Changed.");
    assert_eq!(report.changed.len(), 1);
    assert_eq!(stage.read("notes.txt"), "last\n");
    assert!(model.reflector_asked().is_empty(), "LEAD-3: only for a plan");
}

#[tokio::test]
async fn lead_3_a_plan_of_a_turn_is_judged_and_the_next_turn_knows_its_result() {
    let stage = Stage::new().file("notes.txt", "first\n");
    let look = calls("look", [("search", json!({"pattern": "first"}))]);
    let model = Scripted::new()
        .lead([plan("Look.", [look]), says("In notes.txt.")])
        .reflector([achieved("Found once.")]);
    let (_dirigent, conversation) = conversation(&stage, &model).await;
    assert_eq!(
        turn(&conversation, "Search for first").await.summary,
        "Found once."
    );
    assert_eq!(
        turn(&conversation, "Where was it?").await.summary,
        "In notes.txt."
    );
    let asked = model.lead_asked();
    let result = asked[1]
        .messages
        .iter()
        .find(|message| matches!(message, Message::Tool { .. }));
    let result = result.unwrap().content();
    assert!(
        result.contains("<JUDGEMENT>") && result.contains("Found once."),
        "{result}"
    );
    assert!(result.contains("notes.txt"), "{result}");
}

#[tokio::test]
async fn approve_2_a_rejected_call_ends_the_turn_and_the_conversation_stays() {
    let stage = Stage::new();
    let model = Scripted::new().lead([
        call("execute_command", json!({"command": "rm -r build"})),
        says("Then I leave it."),
    ]);
    let (_dirigent, conversation) = conversation(&stage, &model).await;
    let ask = Rule {
        ruling: Ruling::Ask,
        calls: "execute_command".parse().unwrap(),
    };
    let goal = Goal::new("Clean up")
        .user(UserPresence::Present)
        .policy(Policy { rules: vec![ask] });
    let run = conversation.start_turn(goal).await.unwrap();
    let approval = next_approval(&mut run.events(0)).await;
    let reason = Some("too dangerous".to_owned());
    decide(&run, &approval, ApprovalAnswer::Reject { reason })
        .await
        .unwrap();
    let report = run.outcome().await.unwrap();
    assert!(
        matches!(report.end, Some(EndReason::Failed { .. })),
        "{:?}",
        report.end
    );

    assert_eq!(turn(&conversation, "All right").await.summary, "Then I leave it.");
    let asked = model.lead_asked();
    assert_eq!(asked[1].roles(), ["system", "user", "assistant", "tool", "user"]);
    assert!(
        asked[1].last().contains("Your last turn ended without an answer"),
        "{}",
        asked[1].last()
    );
    assert!(asked[1].last().contains("too dangerous"), "{}", asked[1].last());
}

#[tokio::test]
async fn paor_8_a_message_during_a_turn_is_guidance_to_it() {
    let stage = Stage::new();
    let gate = Gate::shut();
    let model = Scripted::new().lead([
        call("search", json!({"pattern": "x"})).behind(&gate),
        says("Searched for x, and then for y."),
    ]);
    let (_dirigent, conversation) = conversation(&stage, &model).await;
    let run = started(&conversation, "Search").await;
    let Sent::Message { run: guided, .. } = conversation.send(Goal::new("and y")).await.unwrap() else {
        panic!("the message began a turn")
    };
    assert_eq!(guided, run.id());
    gate.open();
    let report = run.outcome().await.unwrap();
    assert_eq!(report.guidance.len(), 1);
    assert_eq!(conversation.turns(10).await.unwrap().len(), 1);
}

#[tokio::test]
async fn host_2_each_turn_adds_only_its_new_messages_to_the_journal() {
    let stage = Stage::new();
    let answers = (0..60).map(|number| says(format!("Answer {number}: {}", "word ".repeat(200))));
    let model = Scripted::new().lead(answers);
    let (_dirigent, conversation) = conversation(&stage, &model).await;
    for number in 0..60 {
        turn(&conversation, &format!("Question {number}")).await;
    }
    // The rows and shared contents that each turn has added.
    let db = rusqlite::Connection::open(stage.journal()).unwrap();
    let mut rows = db
        .prepare(
            "SELECT sum(length(body) + coalesce(length(parts), 0)) FROM journal GROUP BY run ORDER BY run",
        )
        .unwrap();
    let bytes: Vec<i64> = rows
        .query_map([], |row| row.get(0))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    assert_eq!(bytes.len(), 60);
    assert!(bytes[59] < bytes[2] + 200, "{bytes:?}");
    let mut rows = db
        .prepare("SELECT length(bytes) FROM contents WHERE before IS NOT NULL ORDER BY rowid")
        .unwrap();
    let pieces: Vec<i64> = rows
        .query_map([], |row| row.get(0))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    assert_eq!(pieces.len(), 58);
    assert!(pieces.iter().max().unwrap() < &(pieces[0] + 200), "{pieces:?}");

    // Every turn still has all earlier messages.
    let journal = Journal::open(&stage.journal()).unwrap();
    let last = journal.last_turns(conversation.id(), 1).unwrap().remove(0);
    let first = journal.entries(last.run, 0, 1).unwrap().remove(0);
    let Input::Run(RunInput::Started { spec }) = first.input else {
        panic!("{first:?}")
    };
    assert_eq!(spec.earlier_turns().unwrap().history.messages().count(), 118);
}

#[tokio::test]
async fn host_6_a_conversation_has_its_own_limits() {
    let stage = Stage::new();
    let model = Scripted::new().lead([says("One."), says("Two."), says("Three.")]);
    let (_dirigent, conversation) = conversation(&stage, &model).await;
    turn(&conversation, "Count").await;
    let limited = |max_tokens| ConversationSettings {
        max_tokens: Some(max_tokens),
        ..ConversationSettings::default()
    };
    // The first turn has used 110 tokens.
    conversation.set_settings(limited(110)).await.unwrap();
    let refused = conversation.start_turn(Goal::new("Go on")).await;
    assert!(matches!(refused, Err(DirigentError::ConversationBudget { .. })));
    conversation.set_settings(limited(115)).await.unwrap();
    let report = turn(&conversation, "Go on").await;
    assert!(
        matches!(report.end, Some(EndReason::BudgetExhausted { .. })),
        "{:?}",
        report.end
    );
    conversation
        .set_settings(ConversationSettings {
            max_cost: Some(Cost(1)),
            ..ConversationSettings::default()
        })
        .await
        .unwrap();
    assert_eq!(turn(&conversation, "Go on").await.summary, "Two.");
}

#[tokio::test]
async fn host_2_conversations_are_listed_found_renamed_and_deleted_with_their_contents() {
    let stage = Stage::new();
    let model = Scripted::new().lead([says("Red."), says("Blue."), says("Green.")]);
    let (dirigent, first) = conversation(&stage, &model).await;
    turn(&first, "Which colour has\nthe wall?").await;
    let second = dirigent
        .create_conversation(stage.workspace(), ConversationSettings::default())
        .await
        .unwrap();
    turn(&second, "And the door?").await;
    turn(&second, "Sure?").await;

    let listed = async |text: Option<&str>| {
        let filter = ConversationFilter {
            text: text.map(str::to_owned),
            ..ConversationFilter::default()
        };
        let found = dirigent.conversations(filter).await.unwrap();
        found
            .into_iter()
            .map(|info| (info.id, info.title, info.turns))
            .collect::<Vec<_>>()
    };
    let expected = [
        (second.id(), "And the door?".to_owned(), 2),
        (first.id(), "Which colour has the wall?".to_owned(), 1),
    ];
    assert_eq!(listed(None).await, expected);
    assert_eq!(listed(Some("SURE")).await, expected[..1]);
    first.rename("Paint").await.unwrap();
    assert_eq!(listed(Some("paint")).await[0].0, first.id());
    assert_eq!(
        dirigent
            .find_conversation(&second.id().short())
            .await
            .unwrap()
            .id(),
        second.id()
    );
    assert_eq!(
        dirigent.find_conversation("last").await.unwrap().id(),
        second.id()
    );
    // A conversation without a message is never the last one.
    let empty = dirigent
        .create_conversation(stage.workspace(), ConversationSettings::default())
        .await
        .unwrap();
    assert_eq!(
        dirigent.find_conversation("last").await.unwrap().id(),
        second.id()
    );
    empty.delete().await.unwrap();

    for nothing in ["", " \n", "\u{1b}\u{200b}"] {
        let refused = first.rename(nothing).await.unwrap_err();
        assert!(matches!(refused, DirigentError::EmptyTitle), "{refused}");
    }
    first
        .rename(&format!(" Red\u{1b}[31m\nand {}", "blue ".repeat(40)))
        .await
        .unwrap();
    let title = first.info().await.unwrap().title;
    assert!(
        title.starts_with("Red[31m and blue") && title.chars().count() <= 80,
        "{title}"
    );

    let (first_id, second_id) = (first.id(), second.id());
    second.delete().await.unwrap();
    let gone = dirigent.conversation(second_id).await.err().unwrap();
    assert!(
        matches!(gone.store_error(), Some(StoreError::NoSuchConversation { .. })),
        "{gone}"
    );
    let journal = Journal::open(&stage.journal()).unwrap();
    assert_eq!(journal.runs().unwrap().len(), 1);
    assert_eq!(journal.check().unwrap().problems, []);
    first.delete().await.unwrap();
    assert!(dirigent.conversation(first_id).await.is_err());
    let db = rusqlite::Connection::open(stage.journal()).unwrap();
    let left: i64 = db
        .query_row("SELECT count(*) FROM contents", [], |row| row.get(0))
        .unwrap();
    assert_eq!(left, 0, "nothing refers to it");
}

#[tokio::test]
async fn host_9_a_turn_replays_and_forks_like_any_run() {
    let stage = Stage::new();
    let model = Scripted::new().lead([says("One."), says("Two."), says("Three.")]);
    let (dirigent, conversation) = conversation(&stage, &model).await;
    turn(&conversation, "Count").await;
    let run = started(&conversation, "Go on").await;
    run.outcome().await.unwrap();
    let recording = dirigent.recording(run.id()).await.unwrap();
    let replayed = dirigent
        .replay(&recording, Goal::from_recording(&recording))
        .await
        .unwrap();
    assert_eq!(replayed.outcome().await.unwrap().summary, "Two.");
    let fork = dirigent
        .fork(run.id(), Some(1), None, UserPresence::Absent)
        .await
        .unwrap();
    assert_eq!(fork.outcome().await.unwrap().summary, "Three.");
    assert_eq!(
        conversation.turns(10).await.unwrap().len(),
        2,
        "a fork is no turn"
    );
}

#[tokio::test]
async fn paor_6_outputs_of_earlier_turns_can_be_read_by_their_handles() {
    let long: String = (0..5_000).map(|number| format!("line {number}\n")).collect();
    let stage = Stage::new()
        .file("first.txt", &long)
        .file("second.txt", "second\n");
    let read = |path: &str| json!({"operation": "read", "path": path});
    let one = calls("one", [("file_operations", read("first.txt"))]);
    let two = calls("two", [("file_operations", read("second.txt"))]);
    let output = |handle: &str| call("read_output", json!({"handle": handle}));
    let model = Scripted::new()
        .lead([
            plan("Read the first.", [one]),
            plan("Read the second.", [two]),
            output("iteration.1"),
            output("iteration.2"),
            output("run.2"),
            call("read_output", json!({"handle": "run.2", "pattern": "line 4321"})),
            output("iteration.3"),
            says("All read."),
        ])
        .reflector([achieved("Read."), achieved("Read as well.")]);
    let (dirigent, conversation) = conversation(&stage, &model).await;
    turn(&conversation, "Read the first file").await;
    turn(&conversation, "Read the second file").await;
    assert_eq!(
        turn(&conversation, "What was in them?").await.summary,
        "All read."
    );

    let asked = model.lead_asked();
    let results: Vec<String> = asked[3..].iter().map(|asked| asked.last().to_owned()).collect();
    assert!(
        results[0].contains("first.txt") && !results[0].contains("second.txt"),
        "{}",
        results[0]
    );
    assert!(
        results[1].contains("second.txt") && !results[1].contains("first.txt"),
        "{}",
        results[1]
    );
    assert!(results[2].contains("line 1"), "{}", results[2]);
    assert!(results[3].contains("line 4321"), "{}", results[3]);
    assert!(results[4].contains("no iteration 3"), "{}", results[4]);
    // A fork of the last turn reads them as well.
    let turns = conversation.turns(1).await.unwrap();
    assert_eq!(turns[0].report.iteration_count, 1);
    drop(dirigent);
}
