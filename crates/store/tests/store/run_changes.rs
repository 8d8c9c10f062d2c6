//! HOST-8: which runs change is told, whichever process changes them, without listing the runs.

use std::collections::BTreeSet;

use dirigent_core::id::RunId;
use dirigent_core::time::Timestamp;
use dirigent_store::{Journal, PausedRuns, PruneFilter, RunChanges};

use crate::fixture::{append, create, end, fixture, run};
use crate::other_process::{Role, kill, start};

/// Waits until a run is named.
async fn until(changes: &mut RunChanges, wanted: RunId) {
    while !changes.next().await.unwrap().runs.contains(&wanted) {}
}

#[tokio::test]
async fn host_8_each_change_of_a_run_of_this_process_is_told_and_many_come_together() {
    let f = fixture();
    let mut changes = f.journal.run_changes().unwrap();
    let claim = create(&f.journal, 1);
    assert_eq!(changes.next().await.unwrap().runs, BTreeSet::from([run(1)]));
    for text in ["a", "b", "c"] {
        append(&f.journal, &claim, text).unwrap();
    }
    let other = create(&f.journal, 2);
    let together = changes.next().await.unwrap();
    assert_eq!(together.runs, BTreeSet::from([run(1), run(2)]));
    end(&f.journal, &claim).unwrap();
    until(&mut changes, run(1)).await;
    drop(claim);
    until(&mut changes, run(1)).await;
    drop(other);
    until(&mut changes, run(2)).await;
}

#[tokio::test]
async fn host_8_runs_that_another_process_begins_ends_and_deletes_are_told() {
    let f = fixture();
    let other = Journal::open(&f.path).unwrap();
    let mut changes = f.journal.run_changes().unwrap();
    let claim = create(&other, 1);
    until(&mut changes, run(1)).await;
    append(&other, &claim, "a").unwrap();
    end(&other, &claim).unwrap();
    until(&mut changes, run(1)).await;
    drop(claim);
    until(&mut changes, run(1)).await;
    // A run that has begun and ended before anybody looks is told as well.
    let short = create(&other, 2);
    append(&other, &short, "a").unwrap();
    end(&other, &short).unwrap();
    drop(short);
    until(&mut changes, run(2)).await;

    // So is one that goes on and stops again in the meantime.
    let again = other.claim(run(1)).unwrap();
    append(&other, &again, "b").unwrap();
    end(&other, &again).unwrap();
    drop(again);
    until(&mut changes, run(1)).await;

    let old = PruneFilter {
        ended_before: Timestamp(10_000),
        paused: PausedRuns::Keep,
    };
    assert_eq!(other.prune(old).unwrap().runs.len(), 2);
    while !changes.next().await.unwrap().deleted {}
}

#[tokio::test]
async fn host_8_the_death_of_a_process_is_told_although_nothing_is_written() {
    let f = fixture();
    let other = start(Role::Holds, &f.path);
    let mut changes = f.journal.run_changes().unwrap();
    assert!(f.journal.run(run(1)).unwrap().owner_pid.is_some());
    kill(other);
    until(&mut changes, run(1)).await;
    assert_eq!(f.journal.run(run(1)).unwrap().owner_pid, None);
}

#[tokio::test]
async fn host_8_records_of_several_runs_are_read_together() {
    let f = fixture();
    let _claims = [
        create(&f.journal, 1),
        create(&f.journal, 2),
        create(&f.journal, 3),
    ];
    let wanted = BTreeSet::from([run(1), run(3), run(7)]);
    let records = f.journal.records(&wanted).unwrap();
    let found: BTreeSet<RunId> = records.iter().map(|record| record.run).collect();
    assert_eq!(found, BTreeSet::from([run(1), run(3)]));
}
