//! File contents, recorded before a run changes them.

use dirigent_core::id::{AgentId, EffectId, Scope};
use dirigent_core::tool::FileVersion;
use dirigent_store::{Journal, JournalOptions, Original, StoreError};
use rusqlite::Connection;
use tempfile::TempDir;

use crate::fixture::{append, create, fixture, run};

fn original(number: u128, step: u32, path: &str, digest: &str) -> Original {
    Original {
        run: run(number),
        effect: EffectId {
            scope: Scope::Agent(AgentId(2)),
            step,
            attempt: 0,
        },
        path: path.to_owned(),
        version: FileVersion {
            digest: digest.to_owned(),
            mode: 0o100_644,
        },
    }
}

#[test]
fn other_processes_see_a_recorded_content_at_once() {
    let fixture = fixture();
    let _claim = create(&fixture.journal, 1);
    let kept = [
        original(1, 3, "src/a.rs", "d1"),
        original(1, 4, "src/b.rs", "d2"),
        original(1, 5, "src/a.rs", "d1"),
    ];

    for (original, bytes) in kept.iter().zip([&b"one\0\xff"[..], b"", b"one\0\xff"]) {
        fixture.journal.record_original(original.clone(), bytes).unwrap();
    }

    let other = Journal::open(&fixture.path).unwrap();
    assert_eq!(other.content("d1").unwrap(), Some(b"one\0\xff".to_vec()));
    assert_eq!(other.content("d2").unwrap(), Some(Vec::new()));
    assert_eq!(other.content("d3").unwrap(), None);
    assert!(other.has_content("d2").unwrap());
    assert!(!other.has_content("d3").unwrap());
    assert_eq!(other.originals(run(1)).unwrap(), kept);
    assert_eq!(other.originals(run(2)).unwrap(), []);
}

#[test]
fn identical_original_contents_are_stored_once() {
    let fixture = fixture();
    let _claims = [create(&fixture.journal, 1), create(&fixture.journal, 2)];
    let bytes = vec![7; 100_000];

    for (number, path) in [(1, "a"), (1, "b"), (2, "a")] {
        fixture
            .journal
            .record_original(original(number, 1, path, "same"), &bytes)
            .unwrap();
    }

    let db = Connection::open(&fixture.path).unwrap();
    let stored: (i64, i64) = db
        .query_row("SELECT count(*), sum(length(bytes)) FROM contents", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .unwrap();
    assert_eq!(stored, (1, 100_000));
    assert_eq!(fixture.journal.originals(run(2)).unwrap().len(), 1);
}

#[test]
fn several_threads_can_record_contents_at_once() {
    let fixture = fixture();
    let claim = create(&fixture.journal, 1);
    std::thread::scope(|scope| {
        for step in 1..=16 {
            let journal = fixture.journal.clone();
            scope.spawn(move || {
                let original = original(1, step, &format!("file-{step}"), &format!("digest-{step}"));
                journal
                    .record_original(original, format!("content {step}").as_bytes())
                    .unwrap();
            });
        }
        for text in ["a", "b", "c"] {
            append(&fixture.journal, &claim, text).unwrap();
        }
    });

    assert_eq!(fixture.journal.originals(run(1)).unwrap().len(), 16);
    assert_eq!(
        fixture.journal.content("digest-16").unwrap(),
        Some(b"content 16".to_vec())
    );
}

#[test]
fn a_file_content_too_big_for_the_journal_is_refused_and_the_run_continues() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("journal.db");
    let journal = JournalOptions::default()
        .max_bytes(200 * 4096)
        .open(&path)
        .unwrap();
    let claim = create(&journal, 1);

    let error = journal
        .record_original(original(1, 1, "huge", "huge"), &vec![1; 4 * 1024 * 1024])
        .unwrap_err();

    assert!(matches!(error, StoreError::Full { .. }), "{error:?}");
    assert!(!journal.has_content("huge").unwrap());
    assert_eq!(journal.originals(run(1)).unwrap(), []);
    assert_eq!(append(&journal, &claim, "a").unwrap(), 1);
    journal
        .record_original(original(1, 2, "small", "small"), b"x")
        .unwrap();
    assert_eq!(journal.content("small").unwrap(), Some(b"x".to_vec()));
}
