use dirigent_core::id::RunId;
use dirigent_core::time::Timestamp;
use dirigent_store::{Journal, NewRun, StoreError};

use crate::fixture::{Fixture, append, fixture};

const OLD: &str = "0190a1b2-c3d4-7e5f-8a6b-00000000aaaa";
const MIDDLE: &str = "0190a1b2-ffff-7e5f-8a6b-11111111bbbb";
const NEW: &str = "0190ffff-c3d4-7e5f-8a6b-22222222aaaa";

fn with_three_runs() -> Fixture {
    let f = fixture();
    for (id, at) in [(MIDDLE, 2), (NEW, 3), (OLD, 1)] {
        let claim = f
            .journal
            .create(id.parse().unwrap(), NewRun::new(id, "/work", Timestamp(at)))
            .unwrap();
        append(&f.journal, &claim, "go on").unwrap();
    }
    f
}

fn check(text: &str, expected: &str) {
    let f = with_three_runs();
    let found = f.journal.find(text).map(|run| run.to_string());
    assert_eq!(found.unwrap(), expected, "looking for {text}");
}

fn refusal(journal: &Journal, text: &str) -> String {
    journal.find(text).unwrap_err().to_string()
}

#[test]
fn a_run_is_found_by_its_id_by_either_end_of_its_id_or_by_last() {
    check(OLD, OLD);
    check(&OLD.to_uppercase(), OLD);
    check("0190a1b2c3d47e5f8a6b00000000aaaa", OLD);
    check("0190a1b2-c", OLD);
    check("0190f", NEW);
    check("bbbb", MIDDLE);
    check("8a6b-22222222aaaa", NEW);
    // The beginning of the short id that lists show.
    check("1111b", MIDDLE);
    check("last", NEW);
}

#[test]
fn all_matching_runs_are_named_newest_first() {
    let f = with_three_runs();

    let error = f.journal.find("aaaa").unwrap_err();

    assert_eq!(
        error.to_string(),
        format!("`aaaa` matches 2 runs; use more digits of the id: {NEW}, {OLD}")
    );
    let StoreError::AmbiguousRun { candidates, .. } = error else {
        panic!("{error:?}");
    };
    let expected: Vec<RunId> = vec![NEW.parse().unwrap(), OLD.parse().unwrap()];
    assert_eq!(candidates, expected);
}

#[test]
fn text_that_does_not_match_a_run_is_refused_with_a_hint() {
    let f = with_three_runs();
    let path = f.path.canonicalize().unwrap();
    let never = format!(
        "no run `cccc` in the journal {}: list the runs to see their ids",
        path.display()
    );

    assert_eq!(refusal(&f.journal, "cccc"), never);
    for text in ["aaa", "zebra", "%%%%", ""] {
        assert_eq!(
            refusal(&f.journal, text),
            format!(
                "`{text}` is not a run id: use a complete id, at least 4 hexadecimal digits from its start or end, or `last`"
            )
        );
    }
    let empty = fixture();
    assert!(matches!(
        empty.journal.find("last"),
        Err(StoreError::NoSuchRun { .. })
    ));
}

#[test]
fn runs_are_listed_newest_first() {
    let f = with_three_runs();

    let goals: Vec<_> = f
        .journal
        .runs()
        .unwrap()
        .into_iter()
        .map(|run| run.goal)
        .collect();

    assert_eq!(goals, [NEW, MIDDLE, OLD]);
}
