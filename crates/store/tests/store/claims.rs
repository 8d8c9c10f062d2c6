use std::path::Path;
use std::time::Duration;

use dirigent_core::time::Timestamp;
use dirigent_store::{Journal, JournalOptions, NewRun, StoreError};

use crate::fixture::{append, create, end, fixture, run, stored};
use crate::other_process::{Role, kill, start};

fn owners(journal: &Path) -> usize {
    let folder = format!("{}-owners", journal.display());
    std::fs::read_dir(folder).map_or(0, Iterator::count)
}

#[test]
fn host_2_a_run_cannot_be_resumed_before_its_process_was_killed() {
    let f = fixture();
    let other = start(Role::Holds, &f.path);

    let refused = f.journal.claim(run(1)).unwrap_err();
    assert!(
        matches!(refused, StoreError::AlreadyClaimed { pid, .. } if pid == other.id()),
        "{refused:?}"
    );
    assert_eq!(f.journal.run(run(1)).unwrap().owner_pid, Some(other.id()));

    kill(other);

    assert_eq!(f.journal.run(run(1)).unwrap().owner_pid, None);
    let claim = f.journal.claim(run(1)).unwrap();
    assert_eq!(f.journal.runs().unwrap()[0].owner_pid, Some(std::process::id()));
    assert_eq!(append(&f.journal, &claim, "resumed").unwrap(), 2);
    assert_eq!(
        stored(&f.journal, run(1)),
        ["1 from the other process", "2 resumed"]
    );
    assert_eq!(owners(&f.path), 1, "the killed process's lock file is gone");
}

#[test]
fn host_2_the_next_owner_sees_the_entries_of_a_killed_process() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.db");
    let other = start(Role::Holds, &path);
    kill(other);

    let journal = Journal::open(&path).unwrap();

    assert_eq!(stored(&journal, run(1)), ["1 from the other process"]);
}

#[test]
fn a_run_can_be_claimed_once_and_again_after_its_release() {
    let f = fixture();
    let claim = create(&f.journal, 1);

    let again = f.journal.claim(run(1)).unwrap_err();
    assert!(
        matches!(again, StoreError::AlreadyClaimed { pid, .. } if pid == std::process::id()),
        "{again:?}"
    );
    drop(claim);

    f.journal.claim(run(1)).unwrap();
}

#[test]
fn a_run_that_is_claimed_again_stays_claimed() {
    let f = fixture();
    let second = Journal::open(&f.path).unwrap();
    drop(create(&f.journal, 1));
    let claim = f.journal.claim(run(1)).unwrap();

    append(&f.journal, &claim, "a").unwrap();

    assert!(matches!(
        second.claim(run(1)),
        Err(StoreError::AlreadyClaimed { .. })
    ));
}

#[test]
fn two_journals_of_one_process_respect_each_others_claims() {
    let f = fixture();
    let claim = create(&f.journal, 1);
    let second = Journal::open(&f.path).unwrap();

    assert!(matches!(
        second.claim(run(1)),
        Err(StoreError::AlreadyClaimed { .. })
    ));
    let refused = append(&second, &claim, "by the wrong one").unwrap_err();
    assert!(matches!(refused, StoreError::NotClaimed { .. }), "{refused:?}");
    drop(claim);
    drop(f.journal);

    let claim = second.claim(run(1)).unwrap();
    assert_eq!(append(&second, &claim, "a").unwrap(), 1);
}

#[test]
fn a_failed_release_is_retried_by_a_later_write() {
    let f = fixture();
    let options = JournalOptions::default().busy_timeout(Duration::from_millis(20));
    let journal = options.open(&f.path).unwrap();
    let claim = create(&journal, 1);
    let other = rusqlite::Connection::open(&f.path).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    drop(claim);
    // Processed after the release, which had already failed by then.
    assert!(matches!(journal.claim(run(1)), Err(StoreError::Locked { .. })));
    other.execute_batch("ROLLBACK").unwrap();
    assert!(matches!(
        f.journal.claim(run(1)),
        Err(StoreError::AlreadyClaimed { .. })
    ));

    drop(create(&journal, 2));

    f.journal.claim(run(1)).unwrap();
}

#[test]
fn a_claim_that_fails_leaves_the_run_to_its_owner() {
    let f = fixture();
    let options = JournalOptions::default().busy_timeout(Duration::from_millis(20));
    let journal = options.open(&f.path).unwrap();
    let claim = create(&journal, 1);
    let other = rusqlite::Connection::open(&f.path).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    assert!(matches!(journal.claim(run(1)), Err(StoreError::Locked { .. })));
    other.execute_batch("ROLLBACK").unwrap();

    assert_eq!(append(&journal, &claim, "a").unwrap(), 1);
    assert!(matches!(
        journal.claim(run(1)),
        Err(StoreError::AlreadyClaimed { .. })
    ));
}

#[cfg(unix)]
#[test]
fn a_journal_opened_through_a_link_has_the_same_claims() {
    let f = fixture();
    let _claim = create(&f.journal, 1);
    let link = f.path.with_file_name("link.db");
    std::os::unix::fs::symlink(&f.path, &link).unwrap();

    let through_link = Journal::open(&link).unwrap();

    assert!(matches!(
        through_link.claim(run(1)),
        Err(StoreError::AlreadyClaimed { .. })
    ));
}

#[test]
fn reading_leaves_no_lock_files() {
    let f = fixture();
    drop(create(&f.journal, 1));
    drop(f.journal);
    assert_eq!(owners(&f.path), 0);

    let reader = Journal::open(&f.path).unwrap();
    reader.runs().unwrap();
    reader.entries(run(1), 0, 10).unwrap();

    assert_eq!(owners(&f.path), 0);
}

#[test]
fn a_run_is_created_once_and_only_a_created_one_is_claimed() {
    let f = fixture();
    let _claim = create(&f.journal, 1);

    let twice = f
        .journal
        .create(run(1), NewRun::new("goal", "/", Timestamp(1)))
        .unwrap_err();
    let never = f.journal.claim(run(2)).unwrap_err();

    assert!(matches!(twice, StoreError::RunExists { .. }), "{twice:?}");
    assert!(matches!(never, StoreError::NoSuchRun { .. }), "{never:?}");
}

#[test]
fn paor_9_an_ended_run_is_reopened_by_its_next_entry() {
    let f = fixture();
    let claim = create(&f.journal, 1);
    end(&f.journal, &claim).unwrap();
    drop(claim);

    let claim = f.journal.claim(run(1)).unwrap();
    assert_eq!(f.journal.run(run(1)).unwrap().ended_at, Some(Timestamp(9_000)));
    append(&f.journal, &claim, "the answer").unwrap();

    let record = f.journal.run(run(1)).unwrap();
    assert_eq!((record.ended_at, record.status), (None, None));
}
