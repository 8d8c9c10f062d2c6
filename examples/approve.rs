//! Approval of calls: the policy requires an approval for every command, and denies `rm`. In this example, the program approves each
//! call itself; a service would ask a person.

use dirigent::{ApprovalAnswer, Decision, Detail, Dirigent, EventKind, Goal, UserPresence, render};
use dirigent::{Policy, Rule, Ruling};

fn rule(ruling: Ruling, calls: &str) -> Result<Rule, Box<dyn std::error::Error>> {
    let calls = calls.parse()?;
    Ok(Rule { ruling, calls })
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::temp_dir().join(format!("dirigent-approve-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("work"))?;
    let policy = Policy {
        rules: vec![
            rule(Ruling::Ask, "execute_command")?,
            rule(Ruling::Deny, "execute_command(command: rm *)")?,
        ],
    };
    let dirigent = Dirigent::builder()
        .journal(folder.join("journal.db"))
        .policy(policy)
        .build()
        .await?;
    let goal = Goal::new("run `ls`")
        .workspace(folder.join("work"))
        .user(UserPresence::Present);
    let run = dirigent.start(goal).await?;

    let mut events = run.events(0);
    while let Some(event) = events.next().await {
        if let EventKind::ApprovalAsked { approval } = &event?.kind {
            println!(
                "approval requested: {} with {}",
                approval.tool, approval.parameters
            );
            let decision = Decision {
                // The digest identifies the call that was shown. A decision with another digest is not applied.
                digest: approval.digest.clone(),
                answer: ApprovalAnswer::Approve,
            };
            run.decide(approval.effect, decision).await?;
            println!("approved");
        }
    }
    let report = run.outcome().await?;
    println!("\n{}", render::report(&report, Detail::Concise));
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}
