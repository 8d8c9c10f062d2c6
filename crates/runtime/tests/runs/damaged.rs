//! HOST-2, HOST-9: data that the journal shares between runs, and runs whose entries are damaged.

use dirigent_runtime::UserPresence;
use dirigent_store::{EntryProblem, StoreError};
use dirigent_tools::ToolRegistry;
use rusqlite::Connection;

use crate::script::{Asked, Reply, Scripted, achieved, plan_work, say};
use crate::world::{World, ended, store_error, within};

async fn plan_and_work(asked: Asked) -> Reply {
    match asked.who() {
        "lead" => plan_work(),
        "worker" => say("worked"),
        _ => achieved(),
    }
}

async fn world() -> World {
    World::new(Scripted::new(plan_and_work), ToolRegistry::new()).await
}

fn change(world: &World, sql: &str) {
    let journal = Connection::open(world.journal.path()).unwrap();
    journal.busy_timeout(std::time::Duration::from_secs(60)).unwrap();
    journal.execute_batch(sql).unwrap();
}

fn count(world: &World, sql: &str) -> i64 {
    let journal = Connection::open(world.journal.path()).unwrap();
    journal.query_row(sql, [], |row| row.get(0)).unwrap()
}

fn is_broken(error: &StoreError, expected: (u64, EntryProblem)) -> bool {
    matches!(error, StoreError::BrokenEntry { seq, problem, .. } if (*seq, *problem) == expected)
}

#[tokio::test]
async fn host_2_the_setup_of_runs_is_journaled_once_and_repaired_by_the_next_run() {
    let world = world().await;
    let first = world.start(UserPresence::Absent).await;
    ended(&first).await.unwrap();
    let whole = world.entries(first.id());
    world.run().await;

    assert_eq!(count(&world, "SELECT count(*) FROM contents"), 1);
    assert!(count(&world, "SELECT max(length(body)) FROM journal WHERE seq = 1") < 1_000);

    change(&world, "UPDATE contents SET bytes = CAST('{}' AS BLOB)");
    let error = world.journal.entries(first.id(), 0, 10).unwrap_err();
    assert!(is_broken(&error, (1, EntryProblem::Changed)), "{error:?}");

    world.run().await;
    assert_eq!(world.entries(first.id()), whole);
}

#[tokio::test]
async fn host_9_a_damaged_run_is_not_resumed_but_forked_before_the_damage() {
    let world = world().await;
    let run = world.start(UserPresence::Absent).await;
    ended(&run).await.unwrap();
    change(&world, "UPDATE journal SET at = at + 1 WHERE seq = 5");
    let fork = |at| {
        world
            .orchestrator
            .fork(run.id(), at, None, Vec::new(), UserPresence::Absent)
    };

    for at in [None, Some(5)] {
        match within(fork(at)).await {
            Err(error) => {
                let error = store_error(&error);
                assert!(is_broken(error, (5, EntryProblem::Changed)), "{error:?}");
            }
            Ok(_) => panic!("forked at {at:?}"),
        }
    }
    let forked = within(fork(Some(4))).await.unwrap();
    assert!(ended(&forked).await.unwrap().is_achieved());
}
