use std::collections::BTreeMap;
use std::time::Duration;

use dirigent_core::time::Timestamp;
use dirigent_store::{
    Journal, MAX_MESSAGE_BYTES, MAX_PENDING_MESSAGES, Message, MessageId, MessageState, NewEntry, Position,
    RunClaim, RunEnding, StoreError,
};

use crate::fixture::{append, append_entry, create, end, end_as, entry, fixture, open, run, stored};
use crate::other_process::{Role, kill, start};

/// Longer than any test.
const LONG: Duration = Duration::from_secs(120);

fn post(journal: &Journal, text: &str) -> Result<MessageId, StoreError> {
    journal.post(run(1), Timestamp(5), text.to_owned(), Position::Last)
}

fn take(journal: &Journal, claim: &RunClaim, message: &Message) -> Result<u64, StoreError> {
    let taking = NewEntry {
        consumes: Some(message.id),
        ..entry(&message.body)
    };
    append_entry(journal, claim, taking)
}

fn refused(reason: &str) -> MessageState {
    MessageState::Rejected {
        reason: reason.to_owned(),
    }
}

#[tokio::test]
async fn a_message_is_accepted_in_the_transaction_of_its_entry() {
    let f = fixture();
    let claim = create(&f.journal, 1);
    let other = open(&f.path);
    let mut inbox = f.journal.inbox(run(1));

    let id = post(&other, "look at the tests").unwrap();
    let message = inbox.next().await;

    let expected = Message {
        id,
        at: Timestamp(5),
        body: "look at the tests".to_owned(),
    };
    assert_eq!(message, expected);
    assert_eq!(other.message(id).unwrap(), MessageState::Pending);
    assert_eq!(take(&f.journal, &claim, &message).unwrap(), 1);
    assert_eq!(other.message(id).unwrap(), MessageState::Accepted);
    assert_eq!(stored(&other, run(1)), ["1 look at the tests"]);
}

#[test]
fn a_message_after_another_is_posted_only_if_that_one_is_still_the_newest() {
    let f = fixture();
    let claim = create(&f.journal, 1);
    let other = open(&f.path);
    let after = |journal: &Journal, last| {
        journal.post(run(1), Timestamp(5), "next".to_owned(), Position::After(last))
    };

    let first = after(&f.journal, None).unwrap();
    assert!(matches!(
        after(&other, None),
        Err(StoreError::OtherMessages { .. })
    ));
    let second = after(&other, Some(first)).unwrap();
    assert!(matches!(
        after(&f.journal, Some(first)),
        Err(StoreError::OtherMessages { .. })
    ));
    f.journal.reject_message(&claim, second, "no".to_owned());
    f.journal.flush().unwrap();
    assert!(matches!(
        after(&other, Some(second)),
        Err(StoreError::OtherMessages { .. })
    ));
    after(&other, Some(first)).unwrap();
}

#[tokio::test]
async fn an_inbox_returns_each_earlier_or_later_message_once_in_order() {
    let f = fixture();
    let _claim = create(&f.journal, 1);
    let _other_run = create(&f.journal, 2);
    let other = open(&f.path);
    for number in 1..=40 {
        post(&other, &format!("{number}")).unwrap();
        other
            .post(run(2), Timestamp(5), "for run 2".to_owned(), Position::Last)
            .unwrap();
    }
    let mut inbox = f.journal.inbox(run(1));
    let mut seen = Vec::new();
    for _ in 1..=40 {
        seen.push(inbox.next().await.body);
    }

    // The inbox waits for this message, and returns no earlier one twice.
    for number in 41..=43 {
        let posted = tokio::task::spawn_blocking({
            let journal = f.journal.clone();
            move || post(&journal, &format!("{number}")).unwrap()
        });
        seen.push(inbox.next().await.body);
        posted.await.unwrap();
    }

    let expected: Vec<_> = (1..=43).map(|number| number.to_string()).collect();
    assert_eq!(seen, expected);
}

#[tokio::test]
async fn a_message_to_an_unowned_run_waits_for_the_next_owner() {
    let f = fixture();
    drop(create(&f.journal, 1));
    let id = post(&f.journal, "while nobody was there").unwrap();
    assert_eq!(
        f.journal.wait_settled(id, Duration::ZERO).await.unwrap(),
        MessageState::Pending
    );

    let other = open(&f.path);
    let claim = other.claim(run(1)).unwrap();
    let message = other.inbox(run(1)).next().await;
    take(&other, &claim, &message).unwrap();

    assert_eq!(message.id, id);
    assert_eq!(
        f.journal.wait_settled(id, LONG).await.unwrap(),
        MessageState::Accepted
    );
}

#[test]
fn pending_messages_are_listed_in_order_until_they_are_settled() {
    let f = fixture();
    drop(create(&f.journal, 1));
    let _other_run = create(&f.journal, 2);
    let ids = ["first", "second", "third"].map(|text| post(&f.journal, text).unwrap());
    f.journal
        .post(run(2), Timestamp(5), "for run 2".to_owned(), Position::Last)
        .unwrap();
    let waiting = || f.journal.pending_messages(run(1)).unwrap();
    let bodies = |messages: Vec<Message>| -> Vec<String> {
        messages.into_iter().map(|message| message.body).collect()
    };
    assert_eq!(bodies(waiting()), ["first", "second", "third"]);

    let claim = f.journal.claim(run(1)).unwrap();
    take(&f.journal, &claim, &waiting()[0]).unwrap();
    f.journal.reject_message(&claim, ids[2], "no".to_owned());
    f.journal.flush().unwrap();

    assert_eq!(bodies(waiting()), ["second"]);
}

#[tokio::test]
async fn a_waiting_sender_gets_the_reason_of_a_rejection() {
    let f = fixture();
    let claim = create(&f.journal, 1);
    let other = open(&f.path);
    let id = post(&other, "yes").unwrap();
    let waiting = tokio::spawn(async move { other.wait_settled(id, LONG).await.unwrap() });

    f.journal
        .reject_message(&claim, id, "there is no question to answer".to_owned());

    assert_eq!(waiting.await.unwrap(), refused("there is no question to answer"));
    f.journal.reject_message(&claim, id, "another reason".to_owned());
    f.journal.flush().unwrap();
    assert_eq!(
        f.journal.message(id).unwrap(),
        refused("there is no question to answer")
    );
}

#[tokio::test]
async fn the_owner_of_another_run_can_neither_reject_nor_accept_a_message() {
    let f = fixture();
    let first = create(&f.journal, 1);
    let second = create(&f.journal, 2);
    let id = post(&f.journal, "for run 1").unwrap();
    let message = f.journal.inbox(run(1)).next().await;

    f.journal.reject_message(&second, id, "not mine".to_owned());
    let error = take(&f.journal, &second, &message).unwrap_err();

    assert!(matches!(error, StoreError::MessageNotPending { .. }), "{error:?}");
    assert_eq!(f.journal.message(id).unwrap(), MessageState::Pending);
    assert_eq!(take(&f.journal, &first, &message).unwrap(), 1);
}

#[tokio::test]
async fn a_second_entry_for_an_accepted_message_fails_and_blocks_later_entries() {
    let f = fixture();
    let claim = create(&f.journal, 1);
    let id = post(&f.journal, "once").unwrap();
    let message = f.journal.inbox(run(1)).next().await;
    take(&f.journal, &claim, &message).unwrap();

    let twice = take(&f.journal, &claim, &message).unwrap_err();
    let later = append(&f.journal, &claim, "later").unwrap_err();

    assert_eq!(
        twice.to_string(),
        format!(
            "message {id} is not pending for run 00000000-0000-0000-0000-000000000001: it was already accepted or rejected, or \
             belongs to another run"
        )
    );
    assert!(matches!(later, StoreError::Poisoned { .. }), "{later:?}");
    assert_eq!(stored(&f.journal, run(1)), ["1 once"]);
}

#[tokio::test]
async fn a_message_whose_entry_could_not_be_stored_stays_pending() {
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("journal.db");
    let options = dirigent_store::JournalOptions::default();
    let journal = options.max_bytes(256 * 1024).open(&path).unwrap();
    let claim = create(&journal, 1);
    let id = post(&journal, "keep me").unwrap();
    let too_long = NewEntry {
        consumes: Some(id),
        ..entry(&"x".repeat(1_000_000))
    };

    let error = append_entry(&journal, &claim, too_long).unwrap_err();

    assert!(matches!(error, StoreError::Full { .. }), "{error:?}");
    assert_eq!(journal.message(id).unwrap(), MessageState::Pending);
    drop(claim);
    let claim = journal.claim(run(1)).unwrap();
    let message = journal.inbox(run(1)).next().await;
    assert_eq!(take(&journal, &claim, &message).unwrap(), 1);
}

#[tokio::test]
async fn the_end_of_a_run_rejects_pending_and_later_messages() {
    let f = fixture();
    let claim = create(&f.journal, 1);
    let other = open(&f.path);
    let id = post(&other, "too late").unwrap();
    let waiting = tokio::spawn({
        let other = other.clone();
        async move { other.wait_settled(id, LONG).await.unwrap() }
    });

    end(&f.journal, &claim).unwrap();

    assert_eq!(
        waiting.await.unwrap(),
        refused("the run finished before the message was handled")
    );
    assert_eq!(
        post(&other, "later still").unwrap_err().to_string(),
        "run 00000000-0000-0000-0000-000000000001 has finished and accepts no messages: fork it to continue from an earlier \
         entry, or start a new run"
    );
}

#[tokio::test]
async fn paor_9_a_paused_run_accepts_answers_for_its_resume() {
    let f = fixture();
    let claim = create(&f.journal, 1);
    let before = post(&f.journal, "while it stops").unwrap();
    end_as(&f.journal, &claim, RunEnding::Paused).unwrap();
    drop(claim);
    let after = post(&f.journal, "while it stands still").unwrap();

    let claim = f.journal.claim(run(1)).unwrap();
    let mut inbox = f.journal.inbox(run(1));
    for id in [before, after] {
        let message = inbox.next().await;
        assert_eq!(message.id, id);
        take(&f.journal, &claim, &message).unwrap();
    }
    end(&f.journal, &claim).unwrap();

    assert_eq!(
        stored(&f.journal, run(1)),
        ["1 while it stops", "2 while it stands still"]
    );
    assert!(matches!(
        post(&f.journal, "more"),
        Err(StoreError::Finished { .. })
    ));
}

#[test]
fn length_and_number_of_messages_are_limited() {
    let f = fixture();
    drop(create(&f.journal, 1));
    let too_long = post(&f.journal, &"x".repeat(MAX_MESSAGE_BYTES + 1)).unwrap_err();
    post(&f.journal, &"x".repeat(MAX_MESSAGE_BYTES)).unwrap();
    std::thread::scope(|threads| {
        for _ in 0..9 {
            threads.spawn(|| {
                let other = open(&f.path);
                for _ in 0..111 {
                    post(&other, "x").unwrap();
                }
            });
        }
    });
    assert_eq!(MAX_PENDING_MESSAGES, 1 + 9 * 111);

    let too_many = post(&f.journal, "x").unwrap_err();

    assert_eq!(
        too_long.to_string(),
        "the message has 1048577 bytes: shorten it to at most 1048576 bytes"
    );
    assert_eq!(
        too_many.to_string(),
        "run 00000000-0000-0000-0000-000000000001 already has 1000 pending messages: resume it, or find out why its process \
         is not handling them"
    );
    let claim = f.journal.claim(run(1)).unwrap();
    f.journal
        .reject_message(&claim, MessageId(7), "make room".to_owned());
    f.journal.flush().unwrap();
    post(&f.journal, "x").unwrap();
}

#[test]
fn an_unknown_run_or_message_is_named() {
    let f = fixture();
    let path = f.path.canonicalize().unwrap();

    let message = f.journal.message(MessageId(3)).unwrap_err();
    let no_run = post(&f.journal, "x").unwrap_err();

    assert_eq!(
        message.to_string(),
        format!("the journal {} has no message 3", path.display())
    );
    assert!(matches!(no_run, StoreError::NoSuchRun { .. }), "{no_run:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn host_2_each_message_becomes_one_entry_despite_repeated_kills_of_the_owner() {
    const POSTERS: usize = 4;
    const EACH: usize = 100;
    let f = fixture();
    drop(create(&f.journal, 1));
    // The run is released after the earlier writes, and the other process claims it.
    f.journal.flush().unwrap();
    let posted = std::sync::Mutex::new(BTreeMap::new());
    let post_all = || {
        std::thread::scope(|threads| {
            for poster in 0..POSTERS {
                let (path, posted) = (&f.path, &posted);
                threads.spawn(move || {
                    let journal = open(path);
                    for number in 0..EACH {
                        let text = format!("{poster}/{number}");
                        let id = post(&journal, &text).unwrap();
                        posted.lock().unwrap().insert(id, text);
                    }
                });
            }
        });
    };

    let mut other = start(Role::Takes, &f.path);
    tokio::task::block_in_place(post_all);
    for killed_at in [150, 220, 290] {
        let mut seen = f.journal.follow(run(1), killed_at - 1);
        assert!(seen.next().await.is_some_and(|entry| entry.is_ok()));
        kill(other);
        other = start(Role::Takes, &f.path);
    }
    let posted = posted.into_inner().unwrap();
    let last = *posted.last_key_value().unwrap().0;
    assert_eq!(
        f.journal.wait_settled(last, LONG).await.unwrap(),
        MessageState::Accepted
    );
    kill(other);

    let expected: Vec<_> = posted
        .values()
        .zip(1..)
        .map(|(text, place)| format!("{place} {text}"))
        .collect();
    assert_eq!(stored(&f.journal, run(1)), expected);
}

#[tokio::test]
async fn host_2_a_process_that_is_killed_while_it_posts_leaves_whole_messages_and_no_gap() {
    let f = fixture();
    let claim = create(&f.journal, 1);
    let other = start(Role::Posts, &f.path);
    let mut inbox = f.journal.inbox(run(1));
    let mut seen = Vec::new();
    while seen.len() < 50 {
        let message = inbox.next().await;
        take(&f.journal, &claim, &message).unwrap();
        seen.push(message.body);
    }

    kill(other);
    let mark = loop {
        match post(&f.journal, "mark") {
            Ok(id) => break id,
            Err(StoreError::TooManyMessages { .. }) => {
                let message = inbox.next().await;
                take(&f.journal, &claim, &message).unwrap();
                seen.push(message.body);
            }
            Err(other) => panic!("{other}"),
        }
    };
    loop {
        let message = inbox.next().await;
        if message.id == mark {
            break;
        }
        seen.push(message.body);
    }

    let expected: Vec<_> = (1..=seen.len()).map(|number| number.to_string()).collect();
    assert_eq!(seen, expected);
}
