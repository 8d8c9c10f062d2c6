//! Deleting old runs, with all that only they refer to.

use std::fs;
use std::path::{Path, PathBuf};

use dirigent_core::digest::sha256_hex;
use dirigent_core::time::Timestamp;
use dirigent_store::{
    ForkPoint, Journal, JournalSpace, NewRun, PausedRuns, Position, PruneFilter, RunEnding, StoreError,
};

use crate::backup::names_in;
use crate::check::{execute, record, started};
use crate::fixture::{Fixture, append, append_entry, create, end, end_as, fixture, open, run, stored, words};
use crate::other_process::{self, Role};

/// Every run that ended before 10 s; the fixture's runs end at 9 s.
const OLD: PruneFilter = PruneFilter {
    ended_before: Timestamp(10_000),
    paused: PausedRuns::Keep,
};

fn numbers(journal: &Journal) -> Vec<u128> {
    let mut numbers: Vec<_> = journal
        .runs()
        .unwrap()
        .iter()
        .map(|record| record.run.0.as_u128())
        .collect();
    numbers.sort_unstable();
    numbers
}

fn finished(journal: &Journal, number: u128, ending: RunEnding) {
    let claim = create(journal, number);
    append(journal, &claim, "a").unwrap();
    end_as(journal, &claim, ending).unwrap();
    drop(claim);
    journal.flush().unwrap();
}

#[test]
fn only_old_ended_runs_without_an_owner_are_deleted() {
    let f = fixture();
    finished(&f.journal, 1, RunEnding::Finished);
    finished(&f.journal, 2, RunEnding::Paused);
    let interrupted = create(&f.journal, 3);
    append(&f.journal, &interrupted, "a").unwrap();
    drop(interrupted);
    finished(&f.journal, 4, RunEnding::Finished);
    let _owned = f.journal.claim(run(4)).unwrap();

    let too_new = PruneFilter {
        ended_before: Timestamp(9_000),
        ..OLD
    };
    assert_eq!(f.journal.prunable(too_new).unwrap(), []);
    let prunable = f.journal.prunable(OLD).unwrap();
    assert_eq!(prunable.len(), 1);
    assert_eq!(numbers(&f.journal), [1, 2, 3, 4]);

    let pruned = f.journal.prune(OLD).unwrap();

    assert_eq!(pruned.runs, prunable);
    assert_eq!((pruned.runs[0].run, pruned.runs[0].entries), (run(1), 1));
    assert_eq!(numbers(&f.journal), [2, 3, 4]);
    let paused = PruneFilter {
        paused: PausedRuns::Delete,
        ..OLD
    };
    assert_eq!(f.journal.prune(paused).unwrap().runs.len(), 1);
    assert_eq!(numbers(&f.journal), [3, 4]);
    assert_eq!(f.journal.check().unwrap().problems, []);
}

#[test]
fn a_run_of_a_live_process_is_kept_and_a_run_of_a_dead_process_is_deleted() {
    let f = fixture();
    let other = other_process::start(Role::Holds, &f.path);
    execute(&f.path, "UPDATE runs SET ended_at = 9000, status = '1'");

    assert_eq!(f.journal.prune(OLD).unwrap().runs, []);
    other_process::kill(other);
    assert_eq!(f.journal.prune(OLD).unwrap().runs.len(), 1);

    assert_eq!(numbers(&f.journal), [0; 0]);
    assert_eq!(f.journal.check().unwrap().problems, []);
}

#[test]
fn contents_are_deleted_with_the_last_run_that_refers_to_them() {
    let f = fixture();
    let (own, shared, named) = (b"own", b"shared", b"named");
    for number in [1, 2] {
        let claim = create(&f.journal, number);
        append_entry(&f.journal, &claim, started()).unwrap();
        record(&f.journal, number, "b", shared);
        if number == 1 {
            record(&f.journal, 1, "a", own);
            record(&f.journal, 1, "c", named);
            end(&f.journal, &claim).unwrap();
        } else {
            // Refers to the content by its digest, as a tool's change does.
            append(&f.journal, &claim, &sha256_hex(named)).unwrap();
        }
    }

    assert_eq!(f.journal.prune(OLD).unwrap().contents, 1);

    let has = |content: &[u8]| f.journal.has_content(&sha256_hex(content)).unwrap();
    assert_eq!([has(own), has(shared), has(named)], [false, true, true]);
    assert_eq!(f.journal.check().unwrap().problems, []);
    assert_eq!(f.journal.entries(run(2), 0, 1).unwrap().len(), 1);

    let claim = f.journal.claim(run(2)).unwrap();
    end(&f.journal, &claim).unwrap();
    drop(claim);
    f.journal.flush().unwrap();
    assert_eq!(f.journal.prune(OLD).unwrap().contents, 3);
    assert_eq!(numbers(&f.journal), [0; 0]);
}

#[test]
fn a_fork_is_complete_without_its_source() {
    let f = fixture();
    finished(&f.journal, 1, RunEnding::Finished);
    let fork = f.journal.fork(run(1), 1, run(2), Timestamp(3_000)).unwrap();
    append(&f.journal, &fork, "b").unwrap();

    f.journal.prune(OLD).unwrap();

    assert_eq!(numbers(&f.journal), [2]);
    assert_eq!(stored(&f.journal, run(2)), ["1 a", "2 b"]);
    assert_eq!(
        f.journal.run(run(2)).unwrap().forked_from,
        Some(ForkPoint { run: run(1), seq: 1 })
    );
    assert_eq!(f.journal.check().unwrap().problems, []);
}

#[test]
fn the_space_is_freed_unless_a_process_owns_a_run() {
    let fill = |journal: &Journal| {
        let claim = create(journal, 1);
        for _ in 0..200 {
            append(journal, &claim, &"x".repeat(10_000)).unwrap();
        }
        end(journal, &claim).unwrap();
        drop(claim);
        journal.flush().unwrap();
    };
    let f = fixture();
    fill(&f.journal);
    let Fixture { journal, path, .. } = &f;
    let space = journal.prune(OLD).unwrap().space;
    assert!(
        matches!(space, JournalSpace::Reusable(bytes) if bytes > 1_000_000),
        "{space:?}"
    );

    // The run's owner counts as alive as long as its journal is open.
    let f = fixture();
    fill(&open(&f.path));
    let size = |path: &Path| fs::metadata(path).unwrap().len();
    execute(&f.path, "PRAGMA wal_checkpoint(TRUNCATE)");
    assert!(size(&f.path) > 1_000_000);

    let space = f.journal.prune(OLD).unwrap().space;

    assert!(
        matches!(space, JournalSpace::Freed(bytes) if bytes > 1_000_000),
        "{space:?}"
    );
    assert!(size(&f.path) < 200_000);
    assert_eq!(size(path) % 4096, 0);
    let claim = create(&f.journal, 2);
    append(&f.journal, &claim, "goes on").unwrap();
}

#[test]
fn lock_files_of_dead_owners_without_claims_are_removed() {
    let f = fixture();
    other_process::kill(other_process::start(Role::Holds, &f.path));
    let owners = PathBuf::from(format!("{}-owners", f.path.display()));
    fs::write(owners.join("1-2.lock"), "").unwrap();
    let _claim = create(&f.journal, 2);
    assert_eq!(names_in(&owners).len(), 3);

    assert_eq!(f.journal.prune(OLD).unwrap().lock_files, 1);

    // The killed process and this one each have a claim.
    assert_eq!(names_in(&owners).len(), 2);
    execute(
        &f.path,
        "UPDATE runs SET ended_at = 9000, status = '1' WHERE id = 1",
    );
    assert_eq!(f.journal.prune(OLD).unwrap().lock_files, 1);
    assert_eq!(names_in(&owners).len(), 1);
    assert!(matches!(
        f.journal.create(run(2), NewRun::new(words(""), "", Timestamp(1))),
        Err(StoreError::RunExists { .. })
    ));
}

#[test]
fn pending_messages_are_deleted_with_their_run() {
    let f = fixture();
    finished(&f.journal, 1, RunEnding::Paused);
    f.journal
        .post(run(1), Timestamp(1), "hello".to_owned(), Position::Last)
        .unwrap();
    let paused = PruneFilter {
        paused: PausedRuns::Delete,
        ..OLD
    };

    f.journal.prune(paused).unwrap();

    assert_eq!(f.journal.check().unwrap().problems, []);
    assert!(f.journal.pending_messages(run(1)).unwrap_or_default().is_empty());
}
