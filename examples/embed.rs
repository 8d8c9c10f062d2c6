//! An orchestrator embedded in a program: build it, submit a goal, follow the events and await the outcome (HOST-1).
//! This example uses the offline model, so it needs no key and no network. It changes no files in its workspace.

use dirigent::{Detail, Dirigent, Goal, render};

#[tokio::main]
async fn main() -> Result<(), dirigent::DirigentError> {
    let journal = std::env::temp_dir().join(format!("dirigent-embed-{}.db", std::process::id()));
    let dirigent = Dirigent::builder().journal(journal).build().await?;
    let goal = Goal::new("Find all usages of `Dirigent`").workspace(env!("CARGO_MANIFEST_DIR"));
    let run = dirigent.start(goal).await?;
    let mut events = run.events(0);
    while let Some(event) = events.next().await {
        println!("{}", serde_json::json!(event?.kind)["event"]);
    }
    let report = run.outcome().await?;
    println!("\n{}", render::report(&report, Detail::Concise));
    Ok(())
}
