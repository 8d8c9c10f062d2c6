//! A second process, which tests start and kill.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use dirigent_core::time::Timestamp;
use dirigent_store::{NewEntry, Position};

use crate::fixture::{append, append_entry, create, entry, open, run};

const JOURNAL: &str = "DIRIGENT_STORE_TEST_JOURNAL";
const ROLE: &str = "DIRIGENT_STORE_TEST_ROLE";

/// What the process does until it is killed.
#[derive(Clone, Copy, Debug)]
pub enum Role {
    /// Creates run 1, appends `from the other process` and keeps the claim.
    Holds,
    /// Claims run 1 and appends an entry for each message.
    Takes,
    /// Posts `1`, `2` and so on to run 1.
    Posts,
}

/// Starts the process; it is working when this returns.
pub fn start(role: Role, journal: &Path) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "other_process::the_other_process",
            "--ignored",
            "--nocapture",
        ])
        .env(JOURNAL, journal)
        .env(ROLE, format!("{role:?}"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let at_work = lines.any(|line| line.is_ok_and(|line| line.contains("at work")));
    assert!(at_work, "the other process ended early");
    child
}

/// Kills the process like `kill -9`.
pub fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

#[tokio::test]
#[ignore = "it is what other tests start as a second process"]
async fn the_other_process() {
    let (Some(path), Ok(role)) = (std::env::var_os(JOURNAL), std::env::var(ROLE)) else {
        return;
    };
    let journal = open(path.as_ref());
    match role.as_str() {
        "Holds" => {
            let claim = create(&journal, 1);
            append(&journal, &claim, "from the other process").unwrap();
            println!("at work");
            // Standard input never ends: the process is killed before.
            std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
        }
        "Takes" => {
            let claim = journal.claim(run(1)).unwrap();
            println!("at work");
            let mut inbox = journal.inbox(run(1));
            loop {
                let message = inbox.next().await;
                let taking = NewEntry {
                    consumes: Some(message.id),
                    ..entry(&message.body)
                };
                append_entry(&journal, &claim, taking).unwrap();
            }
        }
        "Posts" => {
            println!("at work");
            for number in 1.. {
                // This process posts faster than the owner reads, so there may be too many pending messages.
                while journal
                    .post(run(1), Timestamp(1), number.to_string(), Position::Last)
                    .is_err()
                {}
            }
        }
        other => panic!("no role: {other}"),
    }
}
