use std::path::Path;

use dirigent_core::time::Timestamp;
use dirigent_store::{Journal, JournalOptions, StoreError};
use rusqlite::Connection;
use tempfile::TempDir;

use crate::fixture::{append, create, fixture, run, stored};

/// Opens what must be refused, and sees that it stays as it was.
fn refused(path: &Path) -> StoreError {
    let before = std::fs::read(path).unwrap();
    let error = Journal::open(path).unwrap_err();
    assert!(before == std::fs::read(path).unwrap(), "the file was changed");
    error
}

/// A closed journal with enough entries for several pages.
fn filled() -> (TempDir, std::path::PathBuf) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("journal.db");
    let journal = Journal::open(&path).unwrap();
    let claim = create(&journal, 1);
    for _ in 0..50 {
        append(&journal, &claim, &"x".repeat(1_000)).unwrap();
    }
    (folder, path)
}

#[cfg(unix)]
#[test]
fn a_new_journal_is_for_its_users_eyes_only() {
    use std::os::unix::fs::PermissionsExt;
    let folder = TempDir::new().unwrap();
    let state = folder.path().join("state");
    let path = state.join("dirigent").join("journal.db");

    let journal = Journal::open(&path).unwrap();
    let _claim = create(&journal, 1);

    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&state), 0o700);
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    for entry in std::fs::read_dir(path.parent().unwrap()).unwrap() {
        let path = entry.unwrap().path();
        let expected = if path.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode(&path), expected, "{}", path.display());
    }
}

#[test]
fn host_2_a_journal_whose_creation_was_cut_off_is_created_anew() {
    let folder = TempDir::new().unwrap();
    let (begun, path) = (folder.path().join("begun.db"), folder.path().join("journal.db"));
    let creating = Connection::open(&begun).unwrap();
    creating
        .execute_batch(
            "PRAGMA cache_size = 1; BEGIN; CREATE TABLE a (x); CREATE TABLE b (x); CREATE TABLE c (x);",
        )
        .unwrap();
    for table in ["a", "b", "c"] {
        let sql = format!("INSERT INTO {table} VALUES (randomblob(20000))");
        creating.execute(&sql, []).unwrap();
    }
    // What lies on the disk in the middle of the transaction is what a process leaves that dies there.
    std::fs::copy(&begun, &path).unwrap();
    std::fs::copy(
        folder.path().join("begun.db-journal"),
        folder.path().join("journal.db-journal"),
    )
    .unwrap();

    let journal = Journal::open(&path).unwrap();

    let _claim = create(&journal, 1);
    assert_eq!(journal.runs().unwrap().len(), 1);
}

#[test]
fn an_empty_file_becomes_a_journal() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("journal.db");
    std::fs::write(&path, "").unwrap();

    let journal = Journal::open(&path).unwrap();

    assert_eq!(journal.runs().unwrap(), []);
}

#[test]
fn many_may_open_a_new_journal_at_once() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("journal.db");

    std::thread::scope(|threads| {
        for number in 0..8 {
            let path = &path;
            threads.spawn(move || {
                let journal = Journal::open(path).unwrap();
                journal.create(run(number), "goal", "/", Timestamp(1)).unwrap();
            });
        }
    });

    assert_eq!(Journal::open(&path).unwrap().runs().unwrap().len(), 8);
}

#[test]
fn a_reopened_journal_has_everything() {
    let f = fixture();
    let claim = create(&f.journal, 1);
    append(&f.journal, &claim, "a").unwrap();
    let before = f.journal.entries(run(1), 0, 10).unwrap();
    let mut record = f.journal.run(run(1)).unwrap();
    record.owner_pid = None;
    drop(claim);
    drop(f.journal);

    let journal = Journal::open(&f.path).unwrap();

    assert_eq!(journal.entries(run(1), 0, 10).unwrap(), before);
    assert_eq!(journal.runs().unwrap(), [record]);
}

#[test]
fn text_is_no_journal() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("notes.txt");
    std::fs::write(&path, "Remember the milk.\n".repeat(100)).unwrap();

    let error = refused(&path);

    let path = path.canonicalize().unwrap();
    assert_eq!(
        error.to_string(),
        format!(
            "the journal {} is damaged or no database: restore it from a copy, or move it away to begin with a new one",
            path.display()
        )
    );
}

#[test]
fn a_journal_cut_short_is_damaged() {
    let (_folder, path) = filled();
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();

    let error = refused(&path);

    assert!(matches!(error, StoreError::Damaged { .. }), "{error:?}");
}

#[test]
fn a_journal_with_malformed_pages_is_damaged() {
    let (_folder, path) = filled();
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[4096..].fill(0x5a);
    std::fs::write(&path, &bytes).unwrap();

    let error = refused(&path);

    assert!(matches!(error, StoreError::Damaged { .. }), "{error:?}");
}

#[test]
fn a_malformed_page_within_a_journal_is_reported_by_who_reads_it() {
    let (_folder, path) = filled();
    let mut bytes = std::fs::read(&path).unwrap();
    let page = bytes.len() / 4096 / 2;
    bytes[page * 4096..][..4096].fill(0x5a);
    std::fs::write(&path, &bytes).unwrap();

    let error = Journal::open(&path)
        .and_then(|journal| journal.entries(run(1), 0, 100))
        .unwrap_err();

    assert!(matches!(error, StoreError::Damaged { .. }), "{error:?}");
}

#[test]
fn another_programs_database_is_refused() {
    let folder = TempDir::new().unwrap();
    for (name, setup, id) in [
        ("plain.db", "CREATE TABLE notes (text TEXT)", "0x0"),
        ("marked.db", "PRAGMA application_id = 0x1234", "0x1234"),
        (
            "log.db",
            "PRAGMA journal_mode = WAL; CREATE TABLE notes (text TEXT)",
            "0x0",
        ),
    ] {
        let path = folder.path().join(name);
        Connection::open(&path).unwrap().execute_batch(setup).unwrap();

        let error = refused(&path);

        let path = path.canonicalize().unwrap();
        assert_eq!(
            error.to_string(),
            format!(
                "{} is a database of another program (application id {id}): name another file for the journal",
                path.display()
            )
        );
    }
}

#[test]
fn a_later_format_is_refused() {
    let (_folder, path) = filled();
    let later = Connection::open(&path).unwrap();
    later.pragma_update(None, "user_version", 99).unwrap();
    drop(later);

    let error = refused(&path);

    assert!(
        matches!(
            error,
            StoreError::Newer {
                found: 99,
                known: 3,
                ..
            }
        ),
        "{error:?}"
    );
}

#[test]
fn a_path_that_leads_nowhere_is_named() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();

    let below_a_file = Journal::open(&file.join("state").join("journal.db")).unwrap_err();
    let a_folder = Journal::open(folder.path()).unwrap_err();

    assert!(
        below_a_file.to_string().contains(&file.display().to_string()),
        "{below_a_file}"
    );
    assert_eq!(
        a_folder.to_string(),
        format!(
            "cannot open the journal {}: check that the path is right and that you may write there",
            folder.path().display()
        )
    );
}

/// What the first version wrote.
const FORMAT_1: &str = r#"
    PRAGMA application_id = 0x44726774;
    PRAGMA user_version = 1;
    PRAGMA journal_mode = WAL;
    CREATE TABLE runs (
        id INTEGER PRIMARY KEY, run TEXT NOT NULL UNIQUE, goal TEXT NOT NULL, workspace TEXT NOT NULL,
        created_at INTEGER NOT NULL, ended_at INTEGER, status TEXT
    ) STRICT;
    CREATE TABLE journal (
        run INTEGER NOT NULL REFERENCES runs (id), seq INTEGER NOT NULL, at INTEGER NOT NULL, scope INTEGER,
        body TEXT NOT NULL, PRIMARY KEY (run, seq)
    ) STRICT;
    CREATE TABLE claims (run INTEGER PRIMARY KEY REFERENCES runs (id), owner TEXT NOT NULL, pid INTEGER NOT NULL) STRICT;
    INSERT INTO runs VALUES
        (1, '00000000000000000000000000000001', 'cut off', '/work', 1000, NULL, NULL),
        (2, '00000000000000000000000000000002', 'stands still', '/work', 2000, 2500, '{"reason":"user_required"}'),
        (3, '00000000000000000000000000000003', 'over', '/work', 3000, 3500, '{"reason":"goal_achieved"}');
    INSERT INTO journal VALUES
        (1, 1, 1001, NULL, '{"run":{"guided":{"guidance":"a"}}}'),
        (1, 2, 1002, NULL, '{"run":{"guided":{"guidance":"b"}}}');
    INSERT INTO claims VALUES (1, '7-1.lock', 7);
"#;

#[test]
fn a_journal_of_format_1_is_brought_up_to_date() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("journal.db");
    Connection::open(&path).unwrap().execute_batch(FORMAT_1).unwrap();

    let journal = Journal::open(&path).unwrap();

    assert_eq!(stored(&journal, run(1)), ["1 a", "2 b"]);
    let records = journal.runs().unwrap();
    let seen: Vec<_> = records
        .iter()
        .map(|record| {
            let status = record.status.as_deref().unwrap_or("none");
            format!("{}: {status}, {} entries", record.goal, record.entries)
        })
        .collect();
    assert_eq!(
        seen,
        [
            r#"over: {"reason":"goal_achieved"}, 0 entries"#,
            r#"stands still: {"reason":"user_required"}, 0 entries"#,
            "cut off: none, 2 entries"
        ]
    );
    assert!(
        records
            .iter()
            .all(|record| record.forked_from.is_none() && record.owner_pid.is_none())
    );
    let post = |number| journal.post(run(number), Timestamp(9_000), "hello".to_owned());
    post(1).unwrap();
    post(2).unwrap();
    assert!(matches!(post(3), Err(StoreError::Finished { .. })));
    let claim = journal.claim(run(1)).unwrap();
    assert_eq!(append(&journal, &claim, "c").unwrap(), 3);
    drop(claim);
    drop(journal);
    assert_eq!(
        stored(&Journal::open(&path).unwrap(), run(1)),
        ["1 a", "2 b", "3 c"]
    );
}

#[test]
fn who_only_reads_creates_no_journal() {
    let folder = TempDir::new().unwrap();
    let state = folder.path().join("state");
    let path = state.join("journal.db");
    let existing = JournalOptions::default().existing();

    let error = existing.open(&path).unwrap_err();

    assert_eq!(
        error.to_string(),
        format!(
            "there is no journal {}: check the path; the first run creates one",
            path.display()
        )
    );
    assert!(!state.exists());
    drop(Journal::open(&path).unwrap());
    assert_eq!(existing.open(&path).unwrap().runs().unwrap(), []);
}
