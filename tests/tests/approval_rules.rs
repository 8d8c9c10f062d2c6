//! APPROVE-1, HOST-3: calls that the user always allows ("Always…"), through the library and at the terminal.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use dirigent::approval_rules::{ApprovalRuleError, RuleScope, Within};
use dirigent::{
    ConversationSettings, Dirigent, DirigentError, EndReason, Goal, Policy, Report, Rule, Ruling,
};
use dirigent_model_server::{Script, Turn};
use dirigent_tests::approving::{ASK, RUN};
use dirigent_tests::pty::{Terminal, last_line};
use dirigent_tests::scripted::{Scripted, call, says};
use dirigent_tests::served::{Served, achieved, command, is_reflector};
use dirigent_tests::stage::Stage;
use serde_json::json;

/// A lead that makes two files with commands that begin alike.
fn two_files() -> Script {
    Script::from_fn(|request| {
        if is_reflector(request) {
            return achieved("Both are there.");
        }
        // The system prompt and the goal come first; each call adds two messages.
        match request.messages().len() {
            2 => command(&["touch", "both.txt", "first.txt"]),
            4 => command(&["touch", "both.txt", "second.txt"]),
            _ => Turn::text("Both are there."),
        }
    })
}

#[test]
fn approve_1_always_saves_a_rule_after_showing_it_and_stops_asking() {
    let served = Served::new(ASK, two_files());
    let run = ["run", "Make the files", "--workspace", "work", "--mode", "auto"];
    let terminal = Terminal::start(served.place.command(run));
    terminal.wait_until("the dialog", |all| last_line(all).starts_with("a1.2: "));
    terminal.enters("always");
    terminal.wait_until("the choices", |all| {
        all.contains("1  execute_command(command: touch both.txt first.txt)")
            && all.contains("2  execute_command(command: touch both.txt *)")
            // The configuration asks about the tool, so all its calls cannot be allowed.
            && !all.contains("3  execute_command")
            && last_line(all).starts_with("a1.2, number and where")
    });
    terminal.enters("2 folder");
    terminal.wait_until("the rule", |all| {
        all.contains(
            "rule: allow `execute_command(command: touch both.txt *)` without asking, in all runs in ",
        ) && last_line(all).contains("y/n")
    });
    assert!(!served.place.work().join("first.txt").exists());
    terminal.enters("y");
    let contents = terminal.end_with(0);
    assert!(contents.contains("rule 1 is saved"), "{contents}");
    assert!(
        contents.contains("approved by your rule `execute_command(command: touch both.txt *)`: a1."),
        "{contents}"
    );
    for file in ["first.txt", "second.txt"] {
        assert!(served.place.work().join(file).exists());
        std::fs::remove_file(served.place.work().join(file)).unwrap();
    }

    // Later runs in the folder do not ask either, even if nobody could answer.
    let _ = served.place.dirigent(RUN).with_code(0);
    assert!(served.place.work().join("second.txt").exists());
    let listed = served.place.dirigent(["approvals", "list"]).with_code(0).stdout;
    assert!(
        listed.starts_with("1  execute_command(command: touch both.txt *)  (in "),
        "{listed}"
    );
    let checked = served.place.dirigent(["config", "check", "--offline"]).stdout;
    assert!(
        checked.contains("you always allow\n  1  execute_command(command: touch both.txt *)"),
        "{checked}"
    );
    let _ = served.place.dirigent(["approvals", "remove", "1"]).with_code(0);
    let gone = served
        .place
        .dirigent(["approvals", "remove", "1"])
        .with_code(2)
        .stderr;
    assert!(
        gone.contains("there is no approval rule 1") && gone.contains("next: dirigent approvals list"),
        "{gone}"
    );
    let _ = served.place.dirigent(RUN).with_code(4);
}

async fn turn(
    dirigent: &Dirigent,
    stage: &Stage,
    policy: &Policy,
    id: Option<dirigent::ConversationId>,
) -> Report {
    let conversation = match id {
        Some(id) => dirigent.conversation(id).await.unwrap(),
        None => {
            let settings = ConversationSettings::default();
            dirigent
                .create_conversation(stage.workspace(), settings)
                .await
                .unwrap()
        }
    };
    let goal = Goal::new("Make it").policy(policy.clone());
    let run = conversation.start_turn(goal).await.unwrap();
    Report::clone(&*run.outcome().await.unwrap())
}

#[tokio::test]
async fn approve_1_a_conversations_rule_applies_to_its_turns_and_never_overrides_a_denial() {
    let stage = Stage::new();
    let touch = || call("execute_command", json!({"command": "touch made.txt"}));
    let replies = [
        touch(),
        touch(),
        says("Made."),
        touch(),
        touch(),
        says("It is denied."),
    ];
    let model = Scripted::new().lead(replies);
    let dirigent = stage.builder(model.clone()).build().await.unwrap();
    let rule = |ruling, calls: &str| Rule {
        ruling,
        calls: calls.parse().unwrap(),
    };
    let ask = Policy {
        rules: vec![rule(Ruling::Ask, "execute_command")],
    };
    let conversation = dirigent
        .create_conversation(stage.workspace(), ConversationSettings::default())
        .await
        .unwrap();
    let id = Some(conversation.id());

    let first = turn(&dirigent, &stage, &ask, id).await;
    assert_eq!(first.end, Some(EndReason::UserRequired));
    let run = conversation.last_run().await.unwrap().unwrap().run;
    dirigent.steer(run, dirigent::Steering::Cancel).await.unwrap();
    let rules = dirigent.approval_rules();
    let calls = "execute_command(command: touch *)";
    let kept = rules
        .allow(run, Within::Conversation, calls.parse().unwrap())
        .await
        .unwrap();
    let again = rules
        .allow(run, Within::Conversation, calls.parse().unwrap())
        .await
        .unwrap();
    assert_eq!(
        (kept.id, &kept.scope),
        (again.id, &RuleScope::Conversation(conversation.id()))
    );

    let allowed = turn(&dirigent, &stage, &ask, id).await;
    assert_eq!(
        (allowed.summary.as_str(), allowed.end),
        ("Made.", Some(EndReason::GoalAchieved))
    );
    let recorded = conversation.last_run().await.unwrap().unwrap().run;
    let elsewhere = turn(&dirigent, &stage, &ask, None).await;
    assert_eq!(elsewhere.end, Some(EndReason::UserRequired));
    let deny = Policy {
        rules: vec![rule(Ruling::Deny, "execute_command(command: touch *)")],
    };
    assert_eq!(turn(&dirigent, &stage, &deny, id).await.summary, "It is denied.");

    // A replay has the rules of its recording.
    let recording = dirigent.recording(recorded).await.unwrap();
    rules.delete(kept.id).await.unwrap();
    let goal = Goal::from_recording(&recording).policy(ask);
    let replayed = dirigent.replay(&recording, goal).await.unwrap();
    assert_eq!(replayed.outcome().await.unwrap().summary, "Made.");

    let error = rules.delete(kept.id).await.unwrap_err();
    assert!(
        matches!(error, DirigentError::ApprovalRule(ApprovalRuleError::NoSuchRule { id }) if id == kept.id),
        "{error}"
    );
}

#[tokio::test]
async fn approve_1_rules_are_deleted_with_their_run_or_conversation() {
    let stage = Stage::new();
    let model = Scripted::new().lead([says("Hello."), says("Hello.")]);
    let dirigent = stage.builder(model).build().await.unwrap();
    let alone = dirigent.start(stage.goal("Greet")).await.unwrap();
    alone.outcome().await.unwrap();
    let rules = dirigent.approval_rules();
    let refused = rules
        .allow(alone.id(), Within::Conversation, "git".parse().unwrap())
        .await;
    assert!(matches!(
        refused.unwrap_err(),
        DirigentError::ApprovalRule(ApprovalRuleError::NoConversation { .. })
    ));
    let conversation = dirigent
        .create_conversation(stage.workspace(), ConversationSettings::default())
        .await
        .unwrap();
    let turn = conversation.start_turn(Goal::new("Greet")).await.unwrap();
    turn.outcome().await.unwrap();
    for within in [
        Within::Run,
        Within::Conversation,
        Within::Workspace,
        Within::Everywhere,
    ] {
        rules
            .allow(turn.id(), within, "git".parse().unwrap())
            .await
            .unwrap();
    }
    assert_eq!(rules.of_run(turn.id()).await.unwrap().len(), 4);
    assert_eq!(rules.of_run(alone.id()).await.unwrap().len(), 2);
    dirigent_tests::stage::until_free(&dirigent, turn.id()).await;
    conversation.delete().await.unwrap();
    let left: Vec<RuleScope> = rules
        .list()
        .await
        .unwrap()
        .into_iter()
        .map(|rule| rule.scope)
        .collect();
    assert_eq!(left.len(), 2);
    assert!(
        matches!(left[0], RuleScope::Workspace(_)) && left[1] == RuleScope::Everywhere,
        "{left:?}"
    );
}
