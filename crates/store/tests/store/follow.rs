use dirigent_core::time::Timestamp;
use dirigent_store::{Journal, RunEnding, StoreError, Tail};

use crate::fixture::{append, append_entry, create, end, end_as, entry, fixture, run, show};
use crate::other_process::{Role, kill, start};

async fn next(tail: &mut Tail) -> String {
    show(&tail.next().await.unwrap().unwrap())
}

/// The entries of a tail up to its end.
async fn all(mut tail: Tail) -> Vec<String> {
    let mut seen = Vec::new();
    while let Some(entry) = tail.next().await {
        seen.push(show(&entry.unwrap()));
    }
    seen
}

#[tokio::test]
async fn a_run_of_another_process_is_followed_until_it_ends() {
    let f = fixture();
    let other = Journal::open(&f.path).unwrap();
    let claim = create(&other, 1);
    append(&other, &claim, "a").unwrap();
    append(&other, &claim, "b").unwrap();
    let mut from_the_start = f.journal.follow(run(1), 0);
    let mut from_midway = f.journal.follow(run(1), 1);

    assert_eq!(next(&mut from_the_start).await, "1 a");
    assert_eq!(next(&mut from_the_start).await, "2 b");
    assert_eq!(next(&mut from_midway).await, "2 b");
    append(&other, &claim, "c").unwrap();
    assert_eq!(next(&mut from_the_start).await, "3 c");
    append(&other, &claim, "d").unwrap();
    end(&other, &claim).unwrap();

    // The claim is still held: the tails end with the run.
    assert_eq!(all(from_the_start).await, ["4 d"]);
    assert_eq!(all(from_midway).await, ["3 c", "4 d"]);
    drop(claim);
}

#[tokio::test]
async fn following_a_run_ends_when_its_claim_is_released_or_its_owner_has_died() {
    let f = fixture();
    let other = Journal::open(&f.path).unwrap();
    let claim = create(&other, 1);
    append(&other, &claim, "a").unwrap();
    let mut tail = f.journal.follow(run(1), 0);
    assert_eq!(next(&mut tail).await, "1 a");

    append(&other, &claim, "b").unwrap();
    drop(claim);

    assert_eq!(all(tail).await, ["2 b"]);
    assert_eq!(all(f.journal.follow(run(1), 0)).await, ["1 a", "2 b"]);
    assert_eq!(all(f.journal.follow(run(2), 0)).await, Vec::<String>::new());
}

#[tokio::test]
async fn following_a_run_ends_when_its_process_is_killed() {
    let f = fixture();
    let other = start(Role::Holds, &f.path);
    let mut tail = f.journal.follow(run(1), 0);
    assert_eq!(next(&mut tail).await, "1 from the other process");

    kill(other);

    assert!(tail.next().await.is_none());
    assert_eq!(
        all(f.journal.follow(run(1), 0)).await,
        ["1 from the other process"]
    );
}

#[tokio::test]
async fn paor_9_a_watcher_of_a_paused_run_sees_it_continue_in_another_process() {
    let f = fixture();
    let other = Journal::open(&f.path).unwrap();
    let claim = create(&other, 1);
    append(&other, &claim, "a").unwrap();
    end_as(&other, &claim, RunEnding::Paused).unwrap();
    drop(claim);
    let claim = other.claim(run(1)).unwrap();
    let mut tail = f.journal.follow(run(1), 0);
    assert_eq!(next(&mut tail).await, "1 a");
    // The tail has read all entries and checked the run's owner; now it returns new entries.
    for (text, expected) in [("the answer", "2 the answer"), ("the end", "3 the end")] {
        let mut following = tail;
        let waiting = tokio::spawn(async move { (next(&mut following).await, following) });
        tokio::task::yield_now().await;
        append(&other, &claim, text).unwrap();
        let (came, following) = waiting.await.unwrap();
        assert_eq!(came, expected);
        tail = following;
    }
    let (status, later) = (r#""done""#.to_owned(), Timestamp(9_500));
    other.end(&claim, later, status, RunEnding::Finished, |ended| ended.unwrap());

    assert!(tail.next().await.is_none());
}

#[tokio::test]
async fn a_run_of_this_process_is_followed_too() {
    let f = fixture();
    let claim = create(&f.journal, 1);
    let mut tail = f.journal.follow(run(1), 0);

    append(&f.journal, &claim, "a").unwrap();
    assert_eq!(next(&mut tail).await, "1 a");
    end(&f.journal, &claim).unwrap();

    assert!(tail.next().await.is_none());
}

#[tokio::test]
async fn an_entry_that_cannot_be_read_is_named_and_the_last() {
    let f = fixture();
    let other = Journal::open(&f.path).unwrap();
    let claim = create(&other, 1);
    let mut no_json = entry("");
    no_json.body = "not JSON".to_owned();
    append_entry(&other, &claim, no_json).unwrap();
    let mut tail = f.journal.follow(run(1), 0);

    assert!(matches!(
        tail.next().await,
        Some(Err(StoreError::Entry { seq: 1, .. }))
    ));
    assert!(tail.next().await.is_none());
}
