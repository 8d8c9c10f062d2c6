//! Two calls wait for the user in two agents. The second is answered, the process dies, another one goes on: the first waits still, and an
//! answer counts once (APPROVE-3, HOST-2).

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use dirigent::store::Journal;
use dirigent::{
    Approval, ApprovalAnswer, Dirigent, EventKind, Goal, Resume, RunHandle, RunId, RuntimeError,
    SteerOutcome, Steering, UserPresence,
};
use dirigent_tests::probes::{LAUNCHED, launch};
use dirigent_tests::scripted::{Scripted, achieved, call, delegate, plan, says};
use dirigent_tests::stage::{
    Stage, achieved_report, agent, decide, decision, findings, next_approval, until, until_free,
};
use serde_json::json;

/// Where the process that is killed finds its stage.
const FOLDER: &str = "DIRIGENT_TEST_STAGE";

/// What is asked before the restart: a pilot for each side, that launches and says so.
fn before() -> Scripted {
    let pilot = |side: &str| {
        [
            call("launch", json!({"what": side})),
            says(format!("{side} is up.")),
        ]
    };
    Scripted::new()
        .planner([plan(
            "Both sides.",
            [
                delegate("left", "port", "Launch left."),
                delegate("right", "starboard", "Launch right."),
            ],
        )])
        .agent("port", pilot("left"))
        .agent("starboard", pilot("right"))
}

/// What is left to be asked after it.
fn after() -> Scripted {
    Scripted::new()
        .agent("port", [says("left is up.")])
        .reflector([achieved("Both are up.")])
}

async fn orchestrator(journal: PathBuf, model: Scripted) -> Dirigent {
    Dirigent::builder()
        .journal(journal)
        .model(model)
        .tool(launch())
        .agent(agent("port", &["launch"]))
        .agent(agent("starboard", &["launch"]))
        .build()
        .await
        .unwrap()
}

/// Starts the run, waits until both sides ask, and approves the right one, whose branch ends.
async fn right_side_launched(dirigent: &Dirigent, workspace: &Path) -> (RunHandle, Arc<Approval>) {
    let goal = Goal::new("Launch")
        .workspace(workspace)
        .user(UserPresence::Present);
    let run = dirigent.start(goal).await.unwrap();
    let mut events = run.events();
    let both = [next_approval(&mut events).await, next_approval(&mut events).await];
    let side = |name: &str| {
        let found = both
            .iter()
            .find(|approval| approval.agent.as_deref() == Some(name));
        found.unwrap().clone()
    };
    decide(&run, &side("starboard"), ApprovalAnswer::Approve)
        .await
        .unwrap();
    until(
        &mut events,
        |kind| matches!(kind, EventKind::SubTaskFinished { observation } if observation.subtask.0 == "right"),
    )
    .await;
    assert_eq!(run.approvals().await.unwrap(), [side("port")]);
    (run, side("port"))
}

/// Goes on with the run and approves the left side with what was shown before the restart.
async fn left_side_launched(stage: &Stage, run: RunId, shown: &Approval) {
    let model = after();
    let dirigent = orchestrator(stage.journal(), model.clone()).await;
    until_free(&dirigent, run).await;
    assert_eq!(stage.read(LAUNCHED), "right\n");

    let resumed = dirigent
        .resume(run, Resume::new().user(UserPresence::Present))
        .await
        .unwrap();

    // It waits still, as it was shown, and for as long again as no process was there.
    let waiting = resumed.approvals().await.unwrap();
    assert_eq!(waiting.len(), 1);
    assert!(waiting[0].expires_at >= shown.expires_at);
    let as_shown = Approval {
        expires_at: shown.expires_at,
        ..Approval::clone(&waiting[0])
    };
    assert_eq!(as_shown, *shown);
    let answers = tokio::join!(
        decide(&resumed, shown, ApprovalAnswer::Approve),
        decide(&resumed, shown, ApprovalAnswer::Approve)
    );
    match answers {
        (Ok(()), Err(refused)) | (Err(refused), Ok(())) => assert!(
            matches!(
                refused,
                RuntimeError::Decision { .. } | RuntimeError::Ended { .. }
            ),
            "{refused}"
        ),
        both => panic!("{both:?}"),
    }
    let report = achieved_report(&resumed).await;
    assert_eq!(stage.read(LAUNCHED), "right\nleft\n");
    for side in ["left", "right"] {
        assert_eq!(findings(&report, 0, side).unwrap(), format!("{side} is up."));
    }
    assert_eq!(model.asked().len(), 2, "nothing was asked twice");
}

#[tokio::test]
async fn approve_3_the_first_of_two_waits_still_when_the_orchestrator_was_dropped() {
    let stage = Stage::new();
    let dirigent = orchestrator(stage.journal(), before()).await;
    let (run, shown) = right_side_launched(&dirigent, &stage.workspace()).await;

    drop(dirigent);
    assert!(run.outcome().await.is_err());

    left_side_launched(&stage, run.id(), &shown).await;
}

#[tokio::test]
async fn approve_3_the_first_of_two_waits_still_when_the_process_was_killed() {
    let stage = Stage::new();
    let (run, shown) = launched_by_a_killed_process(&stage);

    left_side_launched(&stage, run, &shown).await;
}

#[tokio::test]
async fn approve_3_an_answer_while_no_process_is_there_counts_when_one_goes_on() {
    let stage = Stage::new();
    let (run, shown) = launched_by_a_killed_process(&stage);
    let dirigent = orchestrator(stage.journal(), after()).await;
    until_free(&dirigent, run).await;

    let steering = Steering::Decide {
        effect: shown.effect,
        decision: decision(&shown, ApprovalAnswer::Approve),
    };
    assert_eq!(
        dirigent.steer(run, steering).await.unwrap(),
        SteerOutcome::Pending
    );
    assert_eq!(stage.read(LAUNCHED), "right\n");
    let resumed = dirigent
        .resume(run, Resume::new().user(UserPresence::Present))
        .await
        .unwrap();

    achieved_report(&resumed).await;
    assert_eq!(stage.read(LAUNCHED), "right\nleft\n");
}

/// Another process does the first half and is killed.
fn launched_by_a_killed_process(stage: &Stage) -> (RunId, Approval) {
    let test = std::env::current_exe().unwrap();
    let mut child = Command::new(test)
        .args(["--exact", "restart::first_half", "--ignored", "--nocapture"])
        .env(FOLDER, stage.journal().parent().unwrap())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let shown = lines
        .map(Result::unwrap)
        .find_map(|line| serde_json::from_str(line.strip_prefix("waiting: ")?).ok())
        .expect("the process gets as far as that");
    child.kill().unwrap();
    child.wait().unwrap();
    let runs = Journal::open(&stage.journal()).unwrap().runs().unwrap();
    (runs[0].run, shown)
}

/// No test of its own: the process that is killed.
#[tokio::test]
#[ignore = "it never ends; other tests start it and kill it"]
async fn first_half() {
    let folder = PathBuf::from(std::env::var_os(FOLDER).expect("another test starts it"));
    let dirigent = orchestrator(folder.join("journal.db"), before()).await;
    let (_run, shown) = right_side_launched(&dirigent, &folder.join("workspace")).await;
    println!("\nwaiting: {}", serde_json::to_string(&*shown).unwrap());
    std::future::pending().await
}
