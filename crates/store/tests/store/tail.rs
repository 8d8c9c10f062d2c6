use dirigent_store::{NewEntry, StoreError, Tail};

use crate::fixture::{append, append_entry, create, end, entry, fixture, run, show};

/// The entries and errors of a tail up to its end.
async fn all(mut tail: Tail) -> Vec<String> {
    let mut seen = Vec::new();
    while let Some(entry) = tail.next().await {
        seen.push(entry.map_or_else(|e| e.to_string(), |entry| show(&entry)));
    }
    seen
}

#[tokio::test]
async fn a_tail_returns_stored_entries_then_new_ones_until_the_end() {
    let f = fixture();
    let claim = create(&f.journal, 1);
    append(&f.journal, &claim, "a").unwrap();
    append(&f.journal, &claim, "b").unwrap();
    let mut from_the_start = f.journal.follow(run(1), 0);
    let from_midway = tokio::spawn(all(f.journal.follow(run(1), 1)));

    assert_eq!(show(&from_the_start.next().await.unwrap().unwrap()), "1 a");
    append(&f.journal, &claim, "c").unwrap();
    let writer = f.journal.clone();
    tokio::task::spawn_blocking(move || {
        append(&writer, &claim, "d").unwrap();
        end(&writer, &claim).unwrap();
        // The claim is still held: the tails end with the run.
        claim
    })
    .await
    .unwrap();

    assert_eq!(all(from_the_start).await, ["2 b", "3 c", "4 d"]);
    assert_eq!(from_midway.await.unwrap(), ["2 b", "3 c", "4 d"]);
}

#[tokio::test]
async fn tails_see_every_entry_in_order_while_a_writer_appends() {
    const COUNT: usize = 3_000;
    let f = fixture();
    let claim = create(&f.journal, 1);
    let never_read = f.journal.follow(run(1), 0);
    let tails = [0, 0, 1_000].map(|after| tokio::spawn(all(f.journal.follow(run(1), after))));

    let writer = f.journal.clone();
    tokio::task::spawn_blocking(move || {
        for n in 1..=COUNT {
            writer.append(&claim, entry(&format!("word {n}")), |seq| {
                seq.unwrap();
            });
        }
        end(&writer, &claim).unwrap();
    })
    .await
    .unwrap();

    let expected: Vec<_> = (1..=COUNT).map(|n| format!("{n} word {n}")).collect();
    let [first, second, midway] = tails;
    assert_eq!(first.await.unwrap(), expected);
    assert_eq!(second.await.unwrap(), expected);
    assert_eq!(midway.await.unwrap(), expected[1_000..]);
    assert_eq!(all(never_read).await, expected);
}

#[tokio::test]
async fn a_tail_ends_when_the_claim_is_released() {
    let f = fixture();
    let claim = create(&f.journal, 1);
    append(&f.journal, &claim, "a").unwrap();
    let tail = tokio::spawn(all(f.journal.follow(run(1), 0)));

    drop(claim);

    assert_eq!(tail.await.unwrap(), ["1 a"]);
}

#[tokio::test]
async fn a_tail_of_an_unowned_run_ends_after_the_stored_entries() {
    let f = fixture();
    let claim = create(&f.journal, 1);
    append(&f.journal, &claim, "a").unwrap();
    drop(claim);
    drop(f.journal.claim(run(1)).unwrap());

    assert_eq!(all(f.journal.follow(run(1), 0)).await, ["1 a"]);
    assert_eq!(all(f.journal.follow(run(1), 1)).await, Vec::<String>::new());
    assert_eq!(all(f.journal.follow(run(2), 0)).await, Vec::<String>::new());
}

#[tokio::test]
async fn paor_9_a_tail_follows_an_ended_run_that_is_claimed_again() {
    let f = fixture();
    let claim = create(&f.journal, 1);
    append(&f.journal, &claim, "a").unwrap();
    end(&f.journal, &claim).unwrap();
    drop(claim);
    let claim = f.journal.claim(run(1)).unwrap();
    let tail = tokio::spawn(all(f.journal.follow(run(1), 0)));

    append(&f.journal, &claim, "the answer").unwrap();
    end(&f.journal, &claim).unwrap();

    assert_eq!(tail.await.unwrap(), ["1 a", "2 the answer"]);
}

#[tokio::test]
async fn a_tail_returns_the_entries_before_an_unreadable_one_then_its_error() {
    let f = fixture();
    let claim = create(&f.journal, 1);
    append(&f.journal, &claim, "a").unwrap();
    let no_json = NewEntry {
        body: "not JSON".to_owned(),
        ..entry("")
    };
    assert_eq!(append_entry(&f.journal, &claim, no_json).unwrap(), 2);
    append(&f.journal, &claim, "c").unwrap();
    let mut tail = f.journal.follow(run(1), 0);

    assert_eq!(show(&tail.next().await.unwrap().unwrap()), "1 a");
    assert!(matches!(
        tail.next().await,
        Some(Err(StoreError::Entry { seq: 2, .. }))
    ));
    assert!(tail.next().await.is_none());
    assert!(tail.next().await.is_none());
}

#[tokio::test]
async fn a_tail_returns_each_entry_at_once_and_each_wait_may_be_cancelled() {
    let f = fixture();
    let claim = create(&f.journal, 1);
    let mut tail = f.journal.follow(run(1), 0);

    for expected in ["1 a", "2 b", "3 c"] {
        // Each wait is cancelled; entries that have been read by then are still returned.
        for _ in 0..3 {
            tokio::select! {
                biased;
                entry = tail.next() => panic!("nothing was appended: {entry:?}"),
                () = tokio::task::yield_now() => {}
            }
        }
        let text = expected.split_at(2).1;
        append(&f.journal, &claim, text).unwrap();
        assert_eq!(show(&tail.next().await.unwrap().unwrap()), expected);
    }
}
