//! Following and steering a run: the goal's new name is already in use, so the run asks a question. Its next plan uses the answer and
//! a piece of guidance.

use std::path::Path;

use dirigent::{Detail, Dirigent, EventKind, Goal, UserPresence, render};

/// Creates a project with two functions. The example tries to give the first function the name of the second.
fn project(folder: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(folder.join("src/utils"))?;
    std::fs::write(
        folder.join("src/utils/disk.py"),
        "def load(path):\n    return open(path).read()\n\n\ndef fetch():\n    pass\n",
    )?;
    std::fs::write(
        folder.join("src/main.py"),
        "from utils.disk import load\n\nprint(load(\"notes.txt\"))\n",
    )
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::temp_dir().join(format!("dirigent-watch-{}", std::process::id()));
    project(&folder)?;
    let dirigent = Dirigent::builder()
        .journal(folder.join("journal.db"))
        .build()
        .await?;
    let goal = Goal::new("Find all usages of function `load` and rename it to `fetch`")
        .workspace(&folder)
        .user(UserPresence::Present);
    let run = dirigent.start(goal).await?;

    let mut events = run.events(0);
    while let Some(event) = events.next().await {
        match &event?.kind {
            EventKind::PhaseChanged { transition } => println!("── {}", transition.to),
            EventKind::PlanMade { plan } => {
                println!("plan: {}", plan.summary);
                println!(
                    "      follows guidance {:?}, {} sub-tasks",
                    plan.answers_guidance,
                    plan.subtasks.len()
                );
            }
            EventKind::ToolFinished { tool, success, .. } => {
                println!("{tool} {}", if *success { "succeeded" } else { "failed" });
            }
            EventKind::QuestionAsked { question, .. } => {
                println!("question: {}", question.question);
                println!("answer: call it `read_text`; guidance: only in src");
                run.guide("only in src")?;
                run.answer("call it `read_text`").await?;
            }
            _ => {}
        }
    }
    let report = run.outcome().await?;
    println!("\n{}", render::report(&report, Detail::Concise));
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}
