//! APPROVE-1, HOST-3: calls that the user always allows ("Always…"), through the library and at the terminal.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use dirigent::approval_rules::{ApprovalRuleError, RuleScope, Within};
use dirigent::{
    ConversationSettings, Dirigent, DirigentError, EndReason, Goal, Policy, Report, Resume, Rule, Ruling,
    SteerOutcome, UserPresence,
};
use dirigent_model_server::{Script, Turn};
use dirigent_store::Journal;
use dirigent_tests::approving::{ASK, RUN};
use dirigent_tests::pty::{Terminal, last_line};
use dirigent_tests::scripted::{Scripted, call, says};
use dirigent_tests::served::{Served, achieved, command, is_reflector};
use dirigent_tests::stage::{Stage, achieved_report, next_approval, until_free};
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
            && last_line(all).starts_with("a1.2, number and scope")
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
        contents.contains("your rule allows from now on: execute_command(command: touch both.txt *)")
            && !contents.contains("no longer needs an answer"),
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
    let (kept, again) = (kept.rule, again.rule);
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
    until_free(&dirigent, turn.id()).await;
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

/// A call of a command that changes nothing.
fn echo() -> dirigent_tests::scripted::Reply {
    call("execute_command", json!({"command": "echo hello"}))
}

fn asks() -> Policy {
    Policy {
        rules: vec![Rule {
            ruling: Ruling::Ask,
            calls: "execute_command".parse().unwrap(),
        }],
    }
}

#[tokio::test]
async fn approve_1_a_rule_holds_at_once_in_the_active_runs_of_its_folder_and_later_in_those_that_are_resumed()
{
    let stage = Stage::new();
    let elsewhere = Stage::new();
    let commands = std::iter::repeat_with(echo).take(4);
    let answers = std::iter::repeat_with(|| says("Said.")).take(3);
    let model = Scripted::new().lead(commands.chain(answers));
    let dirigent = stage.builder(model).policy(asks()).build().await.unwrap();
    let present = |stage: &Stage| stage.goal("Make it").user(UserPresence::Present);
    let mut runs = Vec::new();
    for goal in [present(&stage), present(&stage), present(&elsewhere)] {
        let run = dirigent.start(goal).await.unwrap();
        next_approval(&mut run.events(0)).await;
        runs.push(run);
    }
    let paused = dirigent.start(stage.goal("Make it")).await.unwrap();
    assert_eq!(paused.outcome().await.unwrap().end, Some(EndReason::UserRequired));
    until_free(&dirigent, paused.id()).await;

    let rules = dirigent.approval_rules();
    let calls = || "execute_command(command: echo *)".parse().unwrap();
    let saved = rules
        .allow(runs[0].id(), Within::Workspace, calls())
        .await
        .unwrap();
    assert_eq!(saved.outcome, Some(SteerOutcome::Accepted));
    for run in &runs[..2] {
        achieved_report(run).await;
    }
    assert_eq!(runs[2].approvals().await.unwrap().len(), 1, "another folder");
    let resumed = dirigent.resume(paused.id(), Resume::new()).await.unwrap();
    achieved_report(&resumed).await;
    runs[2].cancel().unwrap();
    runs[2].outcome().await.unwrap();

    let late = rules.allow(runs[2].id(), Within::Run, calls()).await.unwrap();
    assert_eq!(late.outcome, None, "the run has ended");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn approve_1_a_rule_that_is_saved_while_a_run_starts_holds_in_it() {
    let stage = Stage::new();
    let model = Scripted::new().lead([says("Hello."), echo(), says("Said.")]);
    let dirigent = stage.builder(model).policy(asks()).build().await.unwrap();
    let earlier = dirigent.start(stage.goal("Say hello")).await.unwrap();
    achieved_report(&earlier).await;
    // The lock holds back the start between the reading of its rules and its registration.
    let journal = Journal::open(&stage.journal()).unwrap();
    let lock = journal.try_lock_starts().unwrap().unwrap();
    let (starting, goal) = (
        dirigent.clone(),
        stage.goal("Make it").user(UserPresence::Present),
    );
    let started = tokio::spawn(async move { starting.start(goal).await });
    let rules = dirigent.approval_rules();
    for _ in 0..50 {
        rules.list().await.unwrap();
    }
    let calls = "execute_command(command: echo *)".parse().unwrap();
    rules
        .allow(earlier.id(), Within::Everywhere, calls)
        .await
        .unwrap();
    drop(lock);
    let run = started.await.unwrap().unwrap();
    achieved_report(&run).await;
}

#[test]
fn approve_1_a_worktree_run_continues_with_a_rule_saved_for_the_users_folder_from_another_terminal() {
    let served = Served::new(ASK, two_files());
    let place = &served.place;
    let git = |words: &[&str]| {
        let identity = ["-c", "user.name=Ada", "-c", "user.email=ada@example.com"];
        let mut git = std::process::Command::new("git");
        let done = git.current_dir(place.work()).args(identity).args(words).output();
        assert!(done.unwrap().status.success(), "{words:?}");
    };
    git(&["init", "-q"]);
    git(&["commit", "-q", "--allow-empty", "-m", "First"]);
    let run = [
        "run",
        "Make the files",
        "--workspace",
        "work",
        "--mode",
        "auto",
        "--worktree",
    ];
    let _ = place.dirigent(run).with_code(4);

    let shown = place.dirigent(["approve", "last"]).with_code(0).stdout;
    assert!(
        shown.contains("with CALLS one of:\n    'execute_command(command: touch both.txt first.txt)'\n"),
        "{shown}"
    );
    let other = [
        "approve",
        "last",
        "a1.2",
        "--always",
        "execute_command(command: rm *)",
    ];
    let refused = place.dirigent(other).with_code(2).stderr;
    assert!(refused.contains("does not allow this call"), "{refused}");
    let always = [
        "approve",
        "last",
        "a1.2",
        "--always",
        "execute_command(command: touch both.txt *)",
    ];
    let saved = place
        .dirigent(always.iter().chain(&["--within", "folder"]))
        .with_code(0)
        .stdout;
    assert!(
        saved.contains("Saved rule 1  execute_command(command: touch both.txt *)")
            && saved.contains("Pending: a1.2 runs when the run continues"),
        "{saved}"
    );
    let _ = place.dirigent(["resume", "last"]).with_code(0);
    let listed = place.dirigent(["approvals", "list", "--json"]).with_code(0);
    let folder = place.work().canonicalize().unwrap();
    assert_eq!(listed.json_lines()[0]["subject"], json!(folder));
    // The next run in a worktree of the folder has the rule from the start.
    let _ = place.dirigent(run).with_code(0);
}
