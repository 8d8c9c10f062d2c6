use dirigent_core::id::{AgentId, Scope};
use dirigent_core::time::Timestamp;
use dirigent_store::{ForkPoint, Journal, NewEntry, RunRecord, StoreError};

use crate::fixture::{append, append_entry, create, end, entry, fixture, run, stored};

/// Run 1 with three entries, the second of which is an agent's.
fn three_entries(journal: &Journal) -> dirigent_store::RunClaim {
    let claim = create(journal, 1);
    append(journal, &claim, "a").unwrap();
    let of_an_agent = NewEntry {
        at: Timestamp(2_500),
        scope: Scope::Agent(AgentId(2)),
        ..entry("b")
    };
    append_entry(journal, &claim, of_an_agent).unwrap();
    append(journal, &claim, "c").unwrap();
    claim
}

#[test]
fn host_9_a_fork_shares_the_earlier_entries_and_continues_independently() {
    let f = fixture();
    let source = three_entries(&f.journal);

    let fork = f.journal.fork(run(1), 2, run(2), Timestamp(7_000)).unwrap();
    append(&f.journal, &fork, "another way").unwrap();
    append(&f.journal, &source, "d").unwrap();

    assert_eq!(fork.run(), run(2));
    assert_eq!(stored(&f.journal, run(1)), ["1 a", "2 b", "3 c", "4 d"]);
    assert_eq!(stored(&f.journal, run(2)), ["1 a", "2 b", "3 another way"]);
    let past = |number| {
        let entries = f.journal.entries(run(number), 0, 2).unwrap();
        entries
            .into_iter()
            .map(|entry| (entry.at, entry.scope, entry.input))
            .collect::<Vec<_>>()
    };
    assert_eq!(past(2), past(1));
    let expected = RunRecord {
        run: run(2),
        goal: "goal".to_owned(),
        workspace: "/work".to_owned(),
        created_at: Timestamp(7_000),
        ended_at: None,
        status: None,
        owner_pid: Some(std::process::id()),
        entries: 3,
        problem: None,
        turn: None,
        forked_from: Some(ForkPoint { run: run(1), seq: 2 }),
    };
    assert_eq!(f.journal.run(run(2)).unwrap(), expected);
    assert_eq!(f.journal.run(run(1)).unwrap().forked_from, None);
}

#[test]
fn host_9_a_run_of_another_process_and_an_ended_run_can_be_forked() {
    let f = fixture();
    let source = three_entries(&f.journal);
    let other = Journal::open(&f.path).unwrap();

    let first = other.fork(run(1), 3, run(2), Timestamp(7_000)).unwrap();
    end(&f.journal, &source).unwrap();
    let second = other.fork(run(1), 1, run(3), Timestamp(8_000)).unwrap();

    assert_eq!(append(&other, &first, "d").unwrap(), 4);
    assert_eq!(append(&other, &second, "b").unwrap(), 2);
    assert_eq!(other.run(run(3)).unwrap().ended_at, None);
    assert!(matches!(
        f.journal.claim(run(2)),
        Err(StoreError::AlreadyClaimed { .. })
    ));
}

#[test]
fn host_9_a_fork_of_a_fork_says_where_it_comes_from() {
    let f = fixture();
    let _source = three_entries(&f.journal);
    drop(f.journal.fork(run(1), 2, run(2), Timestamp(7_000)).unwrap());

    drop(f.journal.fork(run(2), 1, run(3), Timestamp(8_000)).unwrap());

    let record = f.journal.run(run(3)).unwrap();
    assert_eq!(record.forked_from, Some(ForkPoint { run: run(2), seq: 1 }));
    assert_eq!(record.entries, 1);
}

#[test]
fn host_9_a_fork_at_an_unknown_entry_is_refused_with_the_last_entry() {
    let f = fixture();
    let _source = three_entries(&f.journal);
    drop(create(&f.journal, 4));
    let refusal = |source: u128, at| {
        f.journal
            .fork(run(source), at, run(2), Timestamp(7_000))
            .unwrap_err()
            .to_string()
    };

    assert_eq!(
        refusal(1, 4),
        "run 00000000-0000-0000-0000-000000000001 has no entry 4: it has entries 1 to 3"
    );
    assert_eq!(
        refusal(1, 0),
        "run 00000000-0000-0000-0000-000000000001 has no entry 0: it has entries 1 to 3"
    );
    assert_eq!(
        refusal(4, 1),
        "run 00000000-0000-0000-0000-000000000004 has no entry 1: it has no entries yet"
    );
    let never = f.journal.fork(run(9), 1, run(2), Timestamp(7_000)).unwrap_err();
    assert!(matches!(never, StoreError::NoSuchRun { .. }), "{never:?}");
    let taken = f.journal.fork(run(1), 1, run(4), Timestamp(7_000)).unwrap_err();
    assert!(matches!(taken, StoreError::RunExists { .. }), "{taken:?}");
    assert_eq!(f.journal.runs().unwrap().len(), 2);
}

#[test]
fn a_fork_that_does_not_fit_leaves_nothing_behind() {
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("journal.db");
    let options = dirigent_store::JournalOptions::default();
    let journal = options.max_bytes(384 * 1024).open(&path).unwrap();
    let claim = create(&journal, 1);
    append(&journal, &claim, &"x".repeat(200_000)).unwrap();

    let error = journal.fork(run(1), 1, run(2), Timestamp(7_000)).unwrap_err();

    assert!(matches!(error, StoreError::Full { .. }), "{error:?}");
    assert_eq!(journal.runs().unwrap().len(), 1);
    assert_eq!(append(&journal, &claim, "goes on").unwrap(), 2);
}
