//! Lists of runs, page by page.

use std::sync::mpsc;

use dirigent_core::time::Timestamp;
use dirigent_store::{Journal, NewRun, RunClaim, RunEnding, RunFilter, RunState, StoreError};
use rusqlite::Connection;

use crate::fixture::{Fixture, append, fixture, open, run};

fn ids(journal: &Journal, filter: &RunFilter) -> Vec<u128> {
    let page = journal.run_page(filter).unwrap();
    assert_eq!(page.total, page.runs.len() as u64);
    page.runs.iter().map(|record| record.run.0.as_u128()).collect()
}

/// Creates a run with an entry.
fn begun(journal: &Journal, number: u128, goal: &str, workspace: &str) -> RunClaim {
    let at = Timestamp(1_000 + number as u64);
    let claim = journal
        .create(run(number), NewRun::new(goal, workspace, at))
        .unwrap();
    append(journal, &claim, "go on").unwrap();
    claim
}

fn end(journal: &Journal, claim: &RunClaim, status: &str, ending: RunEnding) {
    let (sender, ended) = mpsc::channel();
    let on_commit = move |done| sender.send(done).unwrap();
    journal.end(claim, Timestamp(9_000), status.to_owned(), ending, on_commit);
    ended.recv().unwrap().unwrap();
}

/// Runs 1 to 6: achieved, failed, waiting for the user, interrupted, running, never began.
fn with_all_states() -> (Fixture, RunClaim) {
    let f = fixture();
    for (number, status, ending) in [
        (1, r#"{"reason":"goal_achieved"}"#, RunEnding::Finished),
        (
            2,
            r#"{"reason":"failed","error":"it broke"}"#,
            RunEnding::Finished,
        ),
        (3, r#"{"reason":"user_required"}"#, RunEnding::Paused),
    ] {
        let claim = begun(&f.journal, number, "Rename `load`", "/one");
        end(&f.journal, &claim, status, ending);
    }
    drop(begun(&f.journal, 4, "Count the files", "/one"));
    let running = begun(&f.journal, 5, "rename Parser", "/two");
    let at = Timestamp(1_006);
    drop(
        f.journal
            .create(run(6), NewRun::new("Count lines", "/two", at))
            .unwrap(),
    );
    f.journal.flush().unwrap();
    (f, running)
}

#[test]
fn pages_have_all_runs_newest_first_each_once() {
    let f = fixture();
    // Runs with the same start time are in a stable order, too.
    for number in 1..=23 {
        let at = Timestamp(number as u64 / 4);
        drop(
            f.journal
                .create(run(number), NewRun::new("goal", "/work", at))
                .unwrap(),
        );
    }
    f.journal.flush().unwrap();
    let (mut seen, mut filter) = (Vec::new(), RunFilter::new().limit(5));
    loop {
        let page = f.journal.run_page(&filter).unwrap();
        assert_eq!(page.total, 23);
        seen.extend(page.runs.iter().map(|record| record.run.0.as_u128()));
        match page.next {
            Some(next) => filter = filter.after(next),
            None => break,
        }
    }
    assert_eq!(seen, (1..=23).rev().collect::<Vec<u128>>());
}

#[test]
fn runs_are_selected_by_state() {
    let (f, running) = with_all_states();
    for (state, expected) in [
        (RunState::GoalAchieved, 1),
        (RunState::Failed, 2),
        (RunState::UserRequired, 3),
        (RunState::Interrupted, 4),
        (RunState::Running, 5),
        (RunState::NeverBegan, 6),
    ] {
        let filter = RunFilter::new().state(state);
        assert_eq!(ids(&f.journal, &filter), [expected], "{state:?}");
        let record = f.journal.run(run(expected)).unwrap();
        assert_eq!(RunState::from_record(&record), state);
    }
    let two = RunFilter::new().state(RunState::Failed).state(RunState::Running);
    assert_eq!(ids(&open(&f.path), &two), [5, 2]);
    drop(running);
    f.journal.flush().unwrap();
    assert_eq!(ids(&f.journal, &two), [2]);
}

#[test]
fn runs_are_selected_by_workspace_goal_and_time() {
    let (f, _running) = with_all_states();
    let select = |filter: RunFilter| ids(&f.journal, &filter);
    assert_eq!(select(RunFilter::new().workspace("/two")), [6, 5]);
    assert_eq!(select(RunFilter::new().text("RENAME")), [5, 3, 2, 1]);
    assert_eq!(select(RunFilter::new().text("%")), []);
    assert_eq!(select(RunFilter::new().created_after(Timestamp(1_004))), [6, 5]);
    assert_eq!(select(RunFilter::new().created_before(Timestamp(1_002))), [1]);
    let both = RunFilter::new().text("rename").workspace("/one");
    assert_eq!(select(both.clone()), [3, 2, 1]);
    let page = f.journal.run_page(&both.after(run(3)).limit(1)).unwrap();
    assert_eq!(
        (page.runs[0].run, page.total, page.next),
        (run(2), 3, Some(run(2)))
    );
}

#[test]
fn a_page_after_an_unknown_run_is_an_error() {
    let (f, _running) = with_all_states();
    let error = f.journal.run_page(&RunFilter::new().after(run(99))).unwrap_err();
    assert!(matches!(error, StoreError::NoSuchRun { .. }), "{error}");
}

#[test]
fn runs_with_a_damaged_status_are_still_listed() {
    let (f, _running) = with_all_states();
    let db = Connection::open(&f.path).unwrap();
    db.execute("UPDATE runs SET status = 'no JSON' WHERE goal LIKE 'Rename%'", [])
        .unwrap();
    assert_eq!(ids(&f.journal, &RunFilter::new()), [6, 5, 4, 3, 2, 1]);
    for state in RunState::ALL {
        let selected = ids(&f.journal, &RunFilter::new().state(state));
        let all = f.journal.run_page(&RunFilter::new()).unwrap().runs;
        let expected = all.iter().filter(|record| RunState::from_record(record) == state);
        let expected: Vec<_> = expected.map(|record| record.run.0.as_u128()).collect();
        assert_eq!(selected, expected, "{state:?}");
    }
    assert_eq!(
        ids(&f.journal, &RunFilter::new().state(RunState::Failed)),
        [3, 2, 1]
    );
}

#[test]
fn state_names_are_the_names_in_json() {
    for state in RunState::ALL {
        assert_eq!(serde_json::to_value(state).unwrap(), state.name());
        assert_eq!(state.name().parse(), Ok(state));
    }
    let unknown = "done".parse::<RunState>().unwrap_err().to_string();
    assert!(
        unknown.contains("`done`") && unknown.contains("goal_achieved"),
        "{unknown}"
    );
}
