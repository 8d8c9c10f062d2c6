//! A typical service: starts several runs, lists them, serves their events to watchers that connect and disconnect, and shuts down. The
//! next process resumes the unfinished runs.

use dirigent::{Dirigent, EventKind, Goal, Policy, Resume, Rule, Ruling, RunFilter, RunState, UserPresence};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::temp_dir().join(format!("dirigent-service-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("work"))?;
    std::fs::write(folder.join("work/notes.txt"), "one\ntwo\n")?;
    let goal = |text| Goal::new(text).workspace(folder.join("work"));
    let ask = Rule {
        ruling: Ruling::Ask,
        calls: "execute_command".parse()?,
    };
    let policy = Policy { rules: vec![ask] };
    let builder = || {
        let builder = Dirigent::builder().journal(folder.join("journal.db"));
        builder.policy(policy.clone())
    };

    let dirigent = builder().build().await?;
    let counted = dirigent.start(goal("Count the lines in notes.txt")).await?;
    // This run waits for an approval.
    let waiting = goal("run `ls`").user(UserPresence::Present);
    let waiting = dirigent.start(waiting).await?;
    let mut events = waiting.events(0);
    while let Some(event) = events.next().await.transpose()? {
        if let EventKind::ApprovalAsked { .. } = event.kind {
            break;
        }
    }

    // A watcher reads some events and is disconnected. The next one continues where it stopped.
    let mut last = 0;
    let mut events = dirigent.events(counted.id(), last);
    while let Some(event) = events.next().await.transpose()? {
        last = event.seq;
        if last == 3 {
            break;
        }
    }
    println!("the first watcher saw the events up to entry {last}");
    let mut events = dirigent.events(counted.id(), last);
    while let Some(event) = events.next().await.transpose()? {
        println!("{}", serde_json::to_value(&*event)?["event"]);
    }

    dirigent.shutdown().await?;

    let dirigent = builder().build().await?;
    let interrupted = RunFilter::new().state(RunState::Interrupted);
    for record in dirigent.runs(interrupted).await?.runs {
        println!("interrupted: {}", record.goal);
        // Without a user to approve the command, the run would stop before it could be cancelled.
        let resume = Resume::new().user(UserPresence::Present);
        let run = dirigent.resume(record.run, resume).await?;
        run.cancel()?;
        println!("cancelled: {:?}", run.outcome().await?.end);
    }
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}
