use std::sync::mpsc;

use dirigent_core::id::{AgentId, Scope};
use dirigent_core::time::Timestamp;
use dirigent_store::{Durability, Journal, JournalOptions, NewEntry, NewRun, StoreError};
use tempfile::TempDir;

use crate::fixture::{append, append_entry, create, end, entry, fixture, hold_up, run, show, stored};

#[test]
fn entries_come_back_as_they_were_appended() {
    let f = fixture();
    let claim = create(&f.journal, 1);
    let cancelled = NewEntry {
        at: Timestamp(5),
        scope: Scope::Agent(AgentId(3)),
        body: r#"{"agent":"cancelled"}"#.to_owned(),
        shared: Vec::new(),
        durability: Durability::Full,
        consumes: None,
    };

    assert_eq!(append_entry(&f.journal, &claim, cancelled).unwrap(), 1);
    append(&f.journal, &claim, "go on").unwrap();
    let entries = f.journal.entries(run(1), 0, 10).unwrap();
    assert_eq!(
        serde_json::to_string(&entries[0]).unwrap(),
        r#"{"run":"00000000-0000-0000-0000-000000000001","seq":1,"at":5,"scope":"a3","input":{"agent":"cancelled"}}"#
    );
    assert_eq!(
        serde_json::to_string(&entries[1]).unwrap(),
        r#"{"run":"00000000-0000-0000-0000-000000000001","seq":2,"at":2000,"scope":"run","input":{"run":{"guided":{"guidance":"go on"}}}}"#
    );
    assert_eq!(entries.len(), 2);
}

#[test]
fn entries_are_read_from_a_position_up_to_a_limit() {
    let f = fixture();
    let claim = create(&f.journal, 1);
    for text in ["a", "b", "c", "d"] {
        append(&f.journal, &claim, text).unwrap();
    }

    let entries = f.journal.entries(run(1), 1, 2).unwrap();

    assert_eq!(entries.iter().map(show).collect::<Vec<_>>(), ["2 b", "3 c"]);
    assert_eq!(f.journal.entries(run(1), 4, 2).unwrap(), []);
}

#[test]
fn sixteen_producers_leave_no_gap_and_keep_their_own_order() {
    const EACH: usize = 200;
    let f = fixture();
    let claims = [1, 2].map(|number| create(&f.journal, number));
    let (sender, seqs) = mpsc::channel();

    std::thread::scope(|threads| {
        for producer in 0..16 {
            let (journal, claim, sender) = (&f.journal, &claims[producer % 2], sender.clone());
            threads.spawn(move || {
                for n in 0..EACH {
                    let sender = sender.clone();
                    let durability = if n % 50 == 0 {
                        Durability::Full
                    } else {
                        Durability::Normal
                    };
                    let entry = NewEntry {
                        durability,
                        ..entry(&format!("{producer}/{n}"))
                    };
                    journal.append(claim, entry, move |seq| {
                        sender.send((producer, n, seq.unwrap())).unwrap();
                    });
                }
            });
        }
    });
    drop(sender);

    let mut told: Vec<_> = seqs.iter().collect();
    told.sort_by_key(|(producer, _, seq)| (producer % 2, *seq));
    let (first, second) = told.split_at(8 * EACH);
    for (number, told) in [(1, first), (2, second)] {
        let expected: Vec<_> = told
            .iter()
            .zip(1..)
            .map(|((producer, n, _), place)| format!("{place} {producer}/{n}"))
            .collect();
        assert_eq!(stored(&f.journal, run(number)), expected);
    }
    for producer in 0..16 {
        let order: Vec<_> = told
            .iter()
            .filter(|told| told.0 == producer)
            .map(|told| told.1)
            .collect();
        assert_eq!(order, (0..EACH).collect::<Vec<_>>(), "of producer {producer}");
    }
}

#[test]
fn dropping_the_last_handle_stores_everything_first() {
    let f = fixture();
    let claim = create(&f.journal, 1);
    for _ in 0..1_000 {
        f.journal.append(&claim, entry("x"), |_| {});
    }

    drop(claim);
    drop(f.journal);

    let journal = Journal::open(&f.path).unwrap();
    assert_eq!(journal.run(run(1)).unwrap().entries, 1_000);
    let claim = journal.claim(run(1)).unwrap();
    assert_eq!(append(&journal, &claim, "again").unwrap(), 1_001);
}

#[test]
fn a_callback_may_drop_the_last_handle() {
    let f = fixture();
    let claim = create(&f.journal, 1);
    let (go_on, wait) = mpsc::channel::<()>();
    let (sender, dropped) = mpsc::channel();
    let last = f.journal.clone();
    f.journal.append(&claim, entry("x"), move |_| {
        let _ = wait.recv();
        drop(last);
        sender.send(()).unwrap();
    });

    drop(claim);
    drop(f.journal);
    drop(go_on);

    assert_eq!(dropped.recv(), Ok(()));
}

#[test]
fn a_panic_in_an_append_callback_does_not_affect_later_appends() {
    let f = fixture();
    let claim = create(&f.journal, 1);

    f.journal.append(&claim, entry("a"), |_| panic!("on purpose"));

    assert_eq!(append(&f.journal, &claim, "b").unwrap(), 2);
    assert_eq!(stored(&f.journal, run(1)), ["1 a", "2 b"]);
}

#[test]
fn a_batch_that_does_not_fit_is_not_stored_and_leaves_no_gap() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("journal.db");
    let journal = JournalOptions::default()
        .max_bytes(256 * 1024)
        .open(&path)
        .unwrap();
    let claims = [1, 2, 3].map(|number| create(&journal, number));
    let (sender, results) = mpsc::channel();
    let go_on = hold_up(&journal, &claims[2]);
    for (claim, text) in [
        (&claims[0], "small".to_owned()),
        (&claims[1], "x".repeat(1_000_000)),
    ] {
        let sender = sender.clone();
        journal.append(claim, entry(&text), move |seq| {
            sender.send(seq).unwrap();
        });
    }
    drop(go_on);

    for _ in 0..2 {
        let result = results.recv().unwrap();
        assert!(matches!(result, Err(StoreError::Full { .. })), "{result:?}");
    }
    let refused = append(&journal, &claims[0], "later").unwrap_err();
    assert!(matches!(refused, StoreError::Poisoned { .. }), "{refused:?}");
    assert_eq!(append(&journal, &claims[2], "not of that batch").unwrap(), 2);
    assert_eq!(stored(&journal, run(1)), Vec::<String>::new());
    assert_eq!(stored(&journal, run(2)), Vec::<String>::new());

    let [first, ..] = claims;
    drop(first);
    let first = journal.claim(run(1)).unwrap();
    assert_eq!(append(&journal, &first, "anew").unwrap(), 1);
    assert_eq!(stored(&journal, run(1)), ["1 anew"]);
}

#[test]
fn the_error_for_a_locked_journal_names_the_lock() {
    let f = fixture();
    drop(create(&f.journal, 1));
    drop(f.journal);
    let options = JournalOptions::default().busy_timeout(std::time::Duration::from_millis(20));
    let journal = options.open(&f.path).unwrap();
    let claim = journal.claim(run(1)).unwrap();
    let other = rusqlite::Connection::open(&f.path).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();

    let appended = append(&journal, &claim, "a").unwrap_err();
    let created = journal
        .create(run(2), NewRun::new("goal", "/", Timestamp(1)))
        .unwrap_err();

    let path = f.path.canonicalize().unwrap();
    assert_eq!(
        appended.to_string(),
        format!(
            "the journal {} is locked by another process: end the process that is writing to it, then try again",
            path.display()
        )
    );
    assert!(matches!(created, StoreError::Locked { .. }), "{created:?}");
    drop(claim);
    other.execute_batch("ROLLBACK").unwrap();
    drop(create(&journal, 2));
    let claim = journal.claim(run(1)).unwrap();
    assert_eq!(append(&journal, &claim, "b").unwrap(), 1);
}

#[test]
fn nothing_follows_the_end_of_a_run() {
    let f = fixture();
    let claim = create(&f.journal, 1);
    append(&f.journal, &claim, "a").unwrap();

    end(&f.journal, &claim).unwrap();

    let late = append(&f.journal, &claim, "late").unwrap_err();
    assert!(matches!(late, StoreError::Ended { .. }), "{late:?}");
    let record = f.journal.run(run(1)).unwrap();
    assert_eq!(record.ended_at, Some(Timestamp(9_000)));
    assert_eq!(record.status.as_deref(), Some(r#""done""#));
    assert_eq!(record.entries, 1);
}

#[test]
fn an_entry_that_cannot_be_read_is_named() {
    let f = fixture();
    let claim = create(&f.journal, 1);
    append(&f.journal, &claim, "a").unwrap();
    let unknown = NewEntry {
        body: r#"{"run":"unheard_of"}"#.to_owned(),
        ..entry("")
    };
    append_entry(&f.journal, &claim, unknown).unwrap();

    let error = f.journal.entries(run(1), 0, 10).unwrap_err();

    assert_eq!(
        error.to_string(),
        "entry 2 of run 00000000-0000-0000-0000-000000000001 cannot be read: use the version of Dirigent that wrote it"
    );
}
