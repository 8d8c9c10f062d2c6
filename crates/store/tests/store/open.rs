use std::path::Path;

use dirigent_core::time::Timestamp;
use dirigent_store::{Journal, JournalOptions, NewRun, StoreError};
use rusqlite::Connection;
use tempfile::TempDir;

use crate::fixture::{append, create, fixture, run};

/// Opens a file that must be refused, and checks that it stays unchanged.
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
fn only_the_user_can_read_a_new_journal() {
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
fn host_2_a_journal_whose_creation_was_interrupted_is_created_again() {
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
    // The files on disk in the middle of the transaction are those that a killed process leaves.
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
fn several_threads_can_open_a_new_journal_at_once() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("journal.db");

    std::thread::scope(|threads| {
        for number in 0..8 {
            let path = &path;
            threads.spawn(move || {
                let journal = Journal::open(path).unwrap();
                journal
                    .create(run(number), NewRun::new("goal", "/", Timestamp(1)))
                    .unwrap();
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
fn a_text_file_is_not_a_journal() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("notes.txt");
    std::fs::write(&path, "Remember the milk.\n".repeat(100)).unwrap();

    let error = refused(&path);

    let path = path.canonicalize().unwrap();
    assert_eq!(
        error.to_string(),
        format!(
            "the journal {} is damaged or not a database: restore it from a backup, or move it away to start a new one",
            path.display()
        )
    );
}

#[test]
fn a_truncated_journal_is_reported_as_damaged() {
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
fn a_malformed_page_within_a_journal_is_reported_when_it_is_read() {
    let (_folder, path) = filled();
    let mut bytes = std::fs::read(&path).unwrap();
    // The leaves of a table begin with 13. Opening the journal reads only the first and the last leaf.
    let has_entries = |page: &&mut [u8]| page[0] == 13 && page.windows(100).any(|text| text == [b'x'; 100]);
    let mut leaves: Vec<_> = bytes.chunks_mut(4096).filter(has_entries).collect();
    let middle = leaves.len() / 2;
    leaves[middle].fill(0x5a);
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
                "{} is a database of another program (application id {id}): use another file for the journal",
                path.display()
            )
        );
    }
}

#[test]
fn another_format_is_refused() {
    let (_folder, path) = filled();
    for other in [3, 99] {
        let changed = Connection::open(&path).unwrap();
        changed.pragma_update(None, "user_version", other).unwrap();
        drop(changed);

        let error = refused(&path);

        assert!(
            matches!(error, StoreError::UnsupportedFormat { found, supported: 9, .. } if found == other),
            "{error:?}"
        );
    }
}

#[test]
fn the_error_for_a_missing_path_names_it() {
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
            "cannot open the journal {}: check the path and its permissions",
            folder.path().display()
        )
    );
}

#[test]
fn opening_only_an_existing_journal_creates_no_file() {
    let folder = TempDir::new().unwrap();
    let state = folder.path().join("state");
    let path = state.join("journal.db");
    let existing = JournalOptions::default().existing();

    let error = existing.open(&path).unwrap_err();

    assert_eq!(
        error.to_string(),
        format!(
            "there is no journal at {}: check the path; the first run creates the journal",
            path.display()
        )
    );
    assert!(!state.exists());
    drop(Journal::open(&path).unwrap());
    assert_eq!(existing.open(&path).unwrap().runs().unwrap(), []);
}
