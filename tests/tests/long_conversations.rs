//! HOST-2, HOST-11: a long conversation survives being killed again and again, and many conversations work at once.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::Write as _;
use std::process::{Child, Stdio};
use std::time::Duration;

use dirigent::model::{ChatModel, ChatRequest};
use dirigent::{ConversationSettings, Goal, Sent};
use dirigent_core::message::{Message, ModelFailure, ModelReply};
use dirigent_model_server::{Request, Script, Turn};
use dirigent_store::{Journal, RunRecord};
use dirigent_tests::served::Served;
use dirigent_tests::stage::Stage;
use futures::FutureExt as _;
use futures::future::{BoxFuture, join_all};
use serde_json::Value;

const TURNS: usize = 300;
const KILLS: usize = 20;
const CONVERSATIONS: usize = 100;

/// Answers with the number of user messages, so an answer shows how many messages the conversation has.
fn counting() -> Script {
    Script::from_fn(|request| Turn::text(format!("Answer {}.", user_messages(request))))
}

fn user_messages(request: &Request) -> usize {
    let is_user = |message: &&Value| message["role"] == "user";
    request.messages().iter().filter(is_user).count()
}

/// A pseudo-random number generator (xorshift): the same seed gives the same sequence.
struct Random(u64);

impl Random {
    /// A number below `end`.
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// Starts a chat that sends the messages from `first` on, one after the other.
fn chat_from(served: &Served, first: usize) -> Child {
    let mut child = served
        .place
        .command(["chat", "--context", "last"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let messages: Vec<String> = (first..TURNS)
        .map(|number| format!("message {number}\n"))
        .collect();
    // Fails only if the process has ended, which the caller notices.
    let _ = child
        .stdin
        .take()
        .unwrap()
        .write_all(messages.concat().as_bytes());
    child
}

/// The turns so far, the oldest first.
fn turns(served: &Served) -> Vec<RunRecord> {
    let journal = Journal::open(&served.place.db()).unwrap();
    let mut turns = journal.runs().unwrap();
    // A turn that was killed before its first entry never began, and the next message becomes a turn in its place.
    turns.retain(|record| record.entries > 0);
    turns.sort_by_key(|record| record.turn.map(|turn| turn.number));
    turns
}

/// Sends all messages. Kills the chat after each of the numbers of requests in `kills`, each time after a pause, and then continues as a
/// user would.
fn converse(served: &Served, kills: &[(usize, Duration)]) {
    let _ = served.place.dirigent(["chat", "message 0"]).with_code(0);
    for (requests, pause) in kills {
        let first = turns(served).len();
        let mut child = chat_from(served, first);
        // The point in time of a kill is random on purpose; no result is expected of the kill itself.
        let so_far = served.requests().len();
        let _ = served.wait_for_requests(so_far + requests);
        std::thread::sleep(*pause);
        child.kill().unwrap();
        child.wait().unwrap();
        let unfinished = turns(served).last().is_some_and(|last| last.ended_at.is_none());
        if unfinished {
            // A turn may have stored its last entry, but not yet its end. It has nothing left to resume.
            let resumed = served.place.dirigent(["resume", "last", "--non-interactive"]);
            let has_ended = resumed.stderr.contains("already ended");
            assert!(has_ended || resumed.code() == Some(0), "{resumed}");
        }
    }
    let mut child = chat_from(served, turns(served).len());
    assert!(child.wait().unwrap().success());
}

/// The messages of the last request, without the system prompt and the part that differs between places.
fn last_messages(served: &Served) -> Vec<(String, String)> {
    let last = served.requests().last().unwrap().clone();
    let text = |message: &Value| {
        let content = message["content"].as_str().unwrap();
        let content = content
            .split_once("</ENVIRONMENT>")
            .map_or(content, |(_, task)| task);
        content.to_owned()
    };
    let messages = last.messages().iter().skip(1);
    messages
        .map(|message| (message["role"].as_str().unwrap().to_owned(), text(message)))
        .collect()
}

/// The bytes of the journal's entries of each turn, without the contents that turns share.
fn bytes_of_turns(served: &Served) -> Vec<i64> {
    let db = rusqlite::Connection::open(served.place.db()).unwrap();
    let query = "SELECT sum(length(body) + coalesce(length(parts), 0)) FROM journal JOIN runs ON runs.id = journal.run GROUP BY runs.id ORDER BY turn";
    let mut rows = db.prepare(query).unwrap();
    let bytes = rows.query_map([], |row| row.get(0)).unwrap();
    bytes.collect::<Result<_, _>>().unwrap()
}

fn median(values: &[i64]) -> i64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    sorted[sorted.len() / 2]
}

#[test]
fn host_2_a_conversation_of_300_turns_killed_20_times_ends_as_an_undisturbed_one() {
    let seed = std::env::var("DIRIGENT_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let seed: u64 = seed.unwrap_or_else(|| u64::from(std::process::id()) | 1);
    println!("seed: {seed} (repeat with DIRIGENT_SEED={seed})");
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    for _ in 0..8 {
        random.below(2);
    }
    let kills: Vec<(usize, Duration)> = (0..KILLS)
        .map(|_| {
            let requests = 1 + random.below(2 * (TURNS / KILLS) as u64 - 8);
            let pause = Duration::from_micros(random.below(30_000));
            (usize::try_from(requests).unwrap(), pause)
        })
        .collect();
    let killed = Served::new("", counting());
    converse(&killed, &kills);
    let undisturbed = Served::new("", counting());
    converse(&undisturbed, &[]);

    let told = last_messages(&undisturbed);
    assert_eq!(told.len(), 2 * TURNS - 1);
    assert_eq!(last_messages(&killed), told);
    for served in [&killed, &undisturbed] {
        let turns = turns(served);
        assert_eq!(turns.len(), TURNS);
        for (number, turn) in turns.iter().enumerate() {
            assert_eq!(turn.goal, format!("message {number}"));
            let is_achieved = |status: &str| status.contains("goal_achieved");
            assert!(turn.status.as_deref().is_none_or(is_achieved), "{turn:?}");
        }
        let bytes = bytes_of_turns(served);
        let (early, late) = (median(&bytes[10..60]), median(&bytes[TURNS - 50..]));
        println!("bytes of entries per turn: {early} at first, {late} at last");
        assert!(late <= early + early / 10, "{early} at first, {late} at last");
        let problems = Journal::open(&served.place.db())
            .unwrap()
            .check()
            .unwrap()
            .problems;
        assert_eq!(problems, []);
    }
    println!(
        "requests: {} killed, {} undisturbed",
        killed.requests().len(),
        undisturbed.requests().len()
    );
}

/// Answers with the first and the last line of what the user has said, so an answer shows to which conversation it belongs.
struct Echo;

impl ChatModel for Echo {
    fn chat(&self, request: ChatRequest) -> BoxFuture<'static, Result<ModelReply, ModelFailure>> {
        let goals: Vec<String> = request
            .messages
            .iter()
            .filter(|message| matches!(message, Message::User { .. }))
            .filter_map(|message| {
                Some(
                    message
                        .content()
                        .split_once("<GOAL>\n")?
                        .1
                        .split_once("\n</GOAL>")?
                        .0
                        .to_owned(),
                )
            })
            .collect();
        let reply = ModelReply::text(goals.join(", "));
        async move {
            tokio::task::yield_now().await;
            Ok(reply)
        }
        .boxed()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn host_11_a_hundred_concurrent_conversations_do_not_mix() {
    let stage = Stage::new();
    let dirigent = stage.builder(Echo).build().await.unwrap();
    let talks = (0..CONVERSATIONS).map(|number| {
        let (dirigent, workspace) = (dirigent.clone(), stage.workspace());
        tokio::spawn(async move {
            let settings = ConversationSettings::default();
            let chat = dirigent.create_conversation(workspace, settings).await.unwrap();
            let mut said = Vec::new();
            for turn in 0..3 {
                said.push(format!("word {turn} of {number}"));
                let Sent::Turn(run) = chat.send(Goal::new(said[turn].clone())).await.unwrap() else {
                    panic!("no turn");
                };
                assert_eq!(run.outcome().await.unwrap().summary, said.join(", "));
            }
            chat.id()
        })
    });
    let mut ids: Vec<_> = join_all(talks).await.into_iter().map(Result::unwrap).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), CONVERSATIONS);
    assert_eq!(
        Journal::open(&stage.journal()).unwrap().check().unwrap().problems,
        []
    );
}
