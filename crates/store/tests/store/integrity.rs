//! Damaged journals: errors identify the damage, and nothing continues over it.

use std::fs;
use std::path::{Path, PathBuf};

use dirigent_core::time::Timestamp;
use dirigent_store::{EntryProblem, Journal, JournalOptions, NewRun, StoreError};
use rusqlite::Connection;
use tempfile::TempDir;

use crate::fixture::{append, append_entry, create, end, entry, fixture, open, run, stored};

/// A closed journal with two runs of five entries.
fn two_runs() -> (TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("journal.db");
    let journal = open(&path);
    for number in [1, 2] {
        let claim = create(&journal, number);
        for text in ["a", "b", "c", "d", "e"] {
            append(&journal, &claim, text).unwrap();
        }
    }
    (folder, path)
}

fn change(path: &Path, sql: &str) {
    Connection::open(path).unwrap().execute_batch(sql).unwrap();
}

/// The number and the problem of the unreadable entry of run 1.
fn broken(journal: &Journal) -> (u64, EntryProblem) {
    match journal.entries(run(1), 0, 100).unwrap_err() {
        StoreError::BrokenEntry {
            run: broken,
            seq,
            problem,
        } => {
            assert_eq!(broken, run(1));
            (seq, problem)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn host_2_a_changed_missing_or_moved_entry_is_named() {
    use EntryProblem::{Changed, Missing};
    let of_run = "run = (SELECT id FROM runs WHERE run LIKE '%1')";
    for (damage, expected) in [
        (format!("UPDATE journal SET body = replace(body, 'c', 'x') WHERE seq = 3 AND {of_run}"), (3, Changed)),
        (format!("UPDATE journal SET at = at + 1 WHERE seq = 3 AND {of_run}"), (3, Changed)),
        (format!("UPDATE journal SET scope = 1 WHERE seq = 3 AND {of_run}"), (3, Changed)),
        (format!("DELETE FROM journal WHERE seq = 3 AND {of_run}"), (3, Missing)),
        (format!("DELETE FROM journal WHERE seq = 1 AND {of_run}"), (1, Missing)),
        (format!("DELETE FROM journal WHERE seq = 5 AND {of_run}"), (5, Missing)),
        (format!("DELETE FROM journal WHERE {of_run}"), (1, Missing)),
        (format!("UPDATE journal SET body = CAST(x'ff' AS TEXT) WHERE seq = 3 AND {of_run}"), (3, Changed)),
        (format!("UPDATE journal SET scope = -1 WHERE seq = 3 AND {of_run}"), (3, Changed)),
        (format!("UPDATE journal SET parts = 'x' WHERE seq = 3 AND {of_run}"), (3, Changed)),
        (format!("UPDATE journal SET chain = x'00' WHERE seq = 3 AND {of_run}"), (3, Changed)),
        (
            format!(
                "UPDATE journal SET seq = 100 WHERE seq = 2 AND {of_run};
                 UPDATE journal SET seq = 2 WHERE seq = 3 AND {of_run};
                 UPDATE journal SET seq = 3 WHERE seq = 100 AND {of_run}"
            ),
            (2, Changed),
        ),
        (
            "UPDATE journal SET body = (SELECT body FROM journal AS other WHERE other.seq = 4 LIMIT 1),
                                chain = (SELECT chain FROM journal AS other WHERE other.seq = 4 LIMIT 1)
             WHERE seq = 3"
                .to_owned(),
            (3, Changed),
        ),
        (
            "INSERT INTO journal (run, seq, at, body, chain) SELECT run, 6, at, body, chain FROM journal WHERE seq = 5".to_owned(),
            (6, Changed),
        ),
    ] {
        let (_folder, path) = two_runs();
        change(&path, &damage);
        let journal = open(&path);

        assert_eq!(broken(&journal), expected, "{damage}");
    }
}

#[test]
fn host_2_a_run_whose_last_entries_are_missing_is_not_continued() {
    let (_folder, path) = two_runs();
    change(&path, "DELETE FROM journal WHERE seq = 5 AND run = 1");
    let journal = open(&path);

    let error = journal.claim(run(1)).unwrap_err();

    assert_eq!(
        error.to_string(),
        "entry 5 of run 00000000-0000-0000-0000-000000000001 is missing from the journal: restore the journal from a backup, or fork the \
         run from an earlier entry"
    );
    journal.claim(run(2)).unwrap();
}

#[test]
fn host_9_a_fork_shares_only_undamaged_entries() {
    let (_folder, path) = two_runs();
    change(&path, "UPDATE journal SET at = 0 WHERE seq = 4 AND run = 1");
    let journal = open(&path);

    let error = journal.fork(run(1), 5, run(3), Timestamp(1)).unwrap_err();
    let _claim = journal.fork(run(1), 3, run(4), Timestamp(1)).unwrap();

    assert!(
        matches!(error, StoreError::BrokenEntry { seq: 4, .. }),
        "{error:?}"
    );
    assert!(journal.run(run(3)).is_err());
    assert_eq!(stored(&journal, run(4)), ["1 a", "2 b", "3 c"]);
}

/// Copies the journal with its log and its owners' files, as a killed process would leave them now.
fn kill(journal: &Path, folder: &Path) -> PathBuf {
    let copy = folder.join("journal.db");
    let beside = |suffix: &str| PathBuf::from(format!("{}{suffix}", journal.display()));
    fs::copy(journal, &copy).unwrap();
    fs::copy(beside("-wal"), folder.join("journal.db-wal")).unwrap();
    fs::create_dir(folder.join("journal.db-owners")).unwrap();
    for file in fs::read_dir(beside("-owners")).unwrap() {
        let file = file.unwrap();
        fs::copy(
            file.path(),
            folder.join("journal.db-owners").join(file.file_name()),
        )
        .unwrap();
    }
    copy
}

#[test]
fn host_2_a_damaged_log_never_makes_a_killed_run_continue_from_an_earlier_entry() {
    let f = fixture();
    let claim = create(&f.journal, 1);
    for number in 0..20 {
        append(&f.journal, &claim, &number.to_string()).unwrap();
    }
    let complete = stored(&f.journal, run(1));
    let log = fs::read(format!("{}-wal", f.path.display())).unwrap();
    let mut noticed = 0;
    for flipped in (0..40).map(|n| n * log.len() / 40 + 17) {
        let folder = TempDir::new().unwrap();
        let copy = kill(&f.path, folder.path());
        let mut log = log.clone();
        log[flipped] ^= 4;
        fs::write(folder.path().join("journal.db-wal"), log).unwrap();

        let claimed = Journal::open(&copy).and_then(|journal| {
            let _claim = journal.claim(run(1))?;
            journal.entries(run(1), 0, 100)?;
            Ok(stored(&journal, run(1)))
        });

        match claimed {
            Ok(entries) => assert_eq!(entries, complete, "byte {flipped}"),
            Err(_) => noticed += 1,
        }
    }
    assert!(noticed > 20, "{noticed}");
}

#[test]
fn host_2_lost_entries_of_a_killed_process_are_named_and_can_be_abandoned() {
    let f = fixture();
    let claim = create(&f.journal, 1);
    append(&f.journal, &claim, "a").unwrap();
    Connection::open(&f.path)
        .unwrap()
        .execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")
        .unwrap();
    append(&f.journal, &claim, "b").unwrap();
    let folder = TempDir::new().unwrap();
    let copy = kill(&f.path, folder.path());
    fs::remove_file(folder.path().join("journal.db-wal")).unwrap();
    let journal = open(&copy);

    let error = journal.claim(run(1)).unwrap_err();

    let StoreError::EntriesLost {
        committed: 2,
        found: 1,
        record,
        ..
    } = &error
    else {
        panic!("{error:?}")
    };
    assert!(
        error.to_string().contains("had 2 entries when its process ended"),
        "{error}"
    );
    let fork = journal.fork(run(1), 1, run(2), Timestamp(1)).unwrap();
    append(&journal, &fork, "other b").unwrap();
    fs::remove_file(record).unwrap();
    journal.claim(run(1)).unwrap();
}

#[test]
fn a_released_run_can_be_claimed_in_an_older_copy_of_the_journal() {
    let f = fixture();
    let claim = create(&f.journal, 1);
    append(&f.journal, &claim, "a").unwrap();
    drop(claim);
    f.journal.flush().unwrap();
    let folder = TempDir::new().unwrap();
    let copy = kill(&f.path, folder.path());

    assert!(open(&copy).claim(run(1)).is_ok());
}

#[test]
fn an_empty_database_with_a_write_ahead_log_is_refused_unchanged() {
    let f = fixture();
    let claim = create(&f.journal, 1);
    append(&f.journal, &claim, "a").unwrap();
    let folder = TempDir::new().unwrap();
    let copy = kill(&f.path, folder.path());
    fs::write(&copy, "").unwrap();
    let log = folder.path().join("journal.db-wal");
    let before = fs::read(&log).unwrap();

    for options in [JournalOptions::default(), JournalOptions::default().read_only()] {
        let error = options.open(&copy).unwrap_err();
        assert!(matches!(error, StoreError::EmptyBesideLog { .. }), "{error:?}");
    }

    assert_eq!(fs::read(&copy).unwrap(), b"");
    assert_eq!(fs::read(&log).unwrap(), before);
}

#[cfg(unix)]
#[test]
fn a_journal_that_is_moved_deleted_or_replaced_fails_the_next_write() {
    type Change = fn(&Path);
    let changes: [Change; 3] = [
        |path| fs::rename(path, path.with_extension("moved")).unwrap(),
        |path| fs::remove_file(path).unwrap(),
        |path| {
            fs::copy(path, path.with_extension("copy")).unwrap();
            fs::rename(path.with_extension("copy"), path).unwrap();
        },
    ];
    for change in changes {
        let f = fixture();
        let claim = create(&f.journal, 1);
        append(&f.journal, &claim, "a").unwrap();
        change(&f.path);

        let error = append(&f.journal, &claim, "b").unwrap_err();

        assert!(matches!(error, StoreError::Moved { .. }), "{error:?}");
    }
}

#[test]
fn a_read_only_journal_is_read_and_never_written() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("journal.db");
    let reading = JournalOptions::default().read_only();
    let missing = reading.open(&path).unwrap_err();
    assert!(matches!(missing, StoreError::Missing { .. }), "{missing:?}");
    assert!(!path.exists());
    let journal = open(&path);
    let claim = create(&journal, 1);
    append(&journal, &claim, "a").unwrap();

    let reader = reading.open(&path).unwrap();

    assert_eq!(stored(&reader, run(1)), ["1 a"]);
    append(&journal, &claim, "b").unwrap();
    end(&journal, &claim).unwrap();
    assert_eq!(stored(&reader, run(1)), ["1 a", "2 b"]);
    assert_eq!(reader.runs().unwrap().len(), 1);
    let error = reader.claim(run(1)).unwrap_err();
    assert!(matches!(error, StoreError::ReadOnly { .. }), "{error:?}");
    let error = append_entry(&reader, &claim, entry("c")).unwrap_err();
    assert!(matches!(error, StoreError::NotClaimed { .. }), "{error:?}");
}

/// Root can write to a folder without write permission; then this test only shows that reading works.
#[cfg(unix)]
#[test]
fn a_journal_in_a_read_only_folder_is_read() {
    use std::os::unix::fs::PermissionsExt as _;
    let (folder, path) = two_runs();
    let set = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    set(&path, 0o400);
    set(folder.path(), 0o500);

    let reader = JournalOptions::default().read_only().open(&path).unwrap();

    assert_eq!(stored(&reader, run(1)).len(), 5);
    set(folder.path(), 0o700);
}

#[test]
fn a_list_shows_readable_runs_and_marks_unreadable_ones() {
    let (_folder, path) = two_runs();
    change(
        &path,
        "DELETE FROM journal WHERE seq = 5 AND run = 1; UPDATE runs SET goal = CAST(x'ff' AS TEXT) WHERE id = 2",
    );

    let runs = JournalOptions::default()
        .read_only()
        .open(&path)
        .unwrap()
        .runs()
        .unwrap();

    let shown: Vec<_> = runs
        .iter()
        .map(|record| (record.run, record.problem.as_deref()))
        .collect();
    assert_eq!(shown.len(), 2);
    assert_eq!(shown[0].0, run(2));
    assert!(
        shown[0].1.unwrap().starts_with("its goal cannot be read"),
        "{shown:?}"
    );
    assert_eq!(
        shown[1],
        (run(1), Some("it had 5 entries, but the journal has 4"))
    );
}

#[test]
fn the_name_last_ignores_runs_without_entries() {
    let f = fixture();
    let claim = create(&f.journal, 1);
    append(&f.journal, &claim, "a").unwrap();
    let _never_began = f
        .journal
        .create(run(2), NewRun::new("goal", "/work", Timestamp(2_000)))
        .unwrap();

    assert_eq!(f.journal.find("last").unwrap(), run(1));
}
