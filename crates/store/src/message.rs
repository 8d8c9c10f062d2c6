//! What other processes say to runs, as it lies in the journal's database. A message waits, is taken with the entry that it
//! became, or is refused; each of them happens once.

use std::fmt;

use dirigent_core::id::RunId;
use dirigent_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use crate::claimed_runs::{integer, key};
use crate::error::StoreError;

/// How long the body of a message may be, in bytes: 1 MiB.
pub const MAX_MESSAGE_BYTES: usize = 1024 * 1024;

/// How many messages may wait for a run.
pub const MAX_PENDING_MESSAGES: u64 = 1_000;

/// Why what still waits for a run that ends comes to nothing.
const RUN_ENDED: &str = "the run finished before the message was handled";

/// A message in its journal. Later ones have higher numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId(pub u64);

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Something that was said to a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Which.
    pub id: MessageId,
    /// When it was posted.
    pub at: Timestamp,
    /// What was said, as it was given to [`crate::Journal::post`].
    pub body: String,
}

/// What has come of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MessageState {
    /// Nothing yet: nobody carries the run out, or its process hasn't come to it.
    Pending,
    /// It is an entry of the run.
    Accepted,
    /// It won't be one.
    Rejected {
        /// Why, for people.
        reason: String,
    },
}

/// The number of the newest message of all, 0 before the first.
pub(crate) fn last(db: &Connection) -> rusqlite::Result<u64> {
    db.prepare_cached("SELECT coalesce(max(id), 0) FROM messages")?
        .query_row([], |row| row.get::<_, i64>(0).map(i64::unsigned_abs))
}

/// At most `limit` messages that wait for the run, in order, from the one after `after`.
pub(crate) fn waiting(
    db: &Connection,
    run: RunId,
    after: MessageId,
    limit: usize,
) -> rusqlite::Result<Vec<Message>> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    db.prepare_cached(
        "SELECT id, at, body FROM messages
         WHERE run = (SELECT id FROM runs WHERE run = ?1) AND body IS NOT NULL AND id > ?2 ORDER BY id LIMIT ?3",
    )?
    .query_map(params![key(run), integer(after.0), limit], |row| {
        Ok(Message {
            id: MessageId(row.get::<_, i64>(0)?.unsigned_abs()),
            at: Timestamp(row.get::<_, i64>(1)?.unsigned_abs()),
            body: row.get(2)?,
        })
    })?
    .collect()
}

/// `None` for a message that there is not.
pub(crate) fn state(db: &Connection, message: MessageId) -> rusqlite::Result<Option<MessageState>> {
    db.prepare_cached("SELECT seq IS NOT NULL, reason FROM messages WHERE id = ?1")?
        .query_row([integer(message.0)], |row| {
            let (taken, reason): (bool, Option<String>) = (row.get(0)?, row.get(1)?);
            Ok(match (taken, reason) {
                (true, _) => MessageState::Accepted,
                (false, Some(reason)) => MessageState::Rejected { reason },
                (false, None) => MessageState::Pending,
            })
        })
        .optional()
}

/// Within a transaction. `last` is the newest message that must be waiting, 0 for none; `None` for no such condition. The outer failure is
/// the transaction's.
pub(crate) fn post(
    db: &Connection,
    run: RunId,
    at: Timestamp,
    body: &str,
    last: Option<MessageId>,
) -> rusqlite::Result<Result<MessageId, PostError>> {
    let found = db
        .prepare_cached("SELECT id, ended_at IS NOT NULL AND NOT paused FROM runs WHERE run = ?1")?
        .query_row([key(run)], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, bool>(1)?))
        })
        .optional()?;
    let run = match found {
        None => return Ok(Err(PostError::NoSuchRun)),
        Some((_, true)) => return Ok(Err(PostError::Finished)),
        Some((id, false)) => id,
    };
    let (waiting, newest): (i64, i64) = db
        .prepare_cached(
            "SELECT count(*), coalesce(max(id), 0) FROM messages WHERE run = ?1 AND body IS NOT NULL",
        )?
        .query_row([run], |row| Ok((row.get(0)?, row.get(1)?)))?;
    if last.is_some_and(|last| last.0 != newest.unsigned_abs()) {
        return Ok(Err(PostError::Outdated));
    }
    if waiting.unsigned_abs() >= MAX_PENDING_MESSAGES {
        return Ok(Err(PostError::TooMany));
    }
    db.prepare_cached("INSERT INTO messages (run, at, body) VALUES (?1, ?2, ?3)")?
        .execute(params![run, integer(at.0), body])?;
    Ok(Ok(MessageId(db.last_insert_rowid().unsigned_abs())))
}

/// Why a message is not posted.
pub(crate) enum PostError {
    NoSuchRun,
    Finished,
    TooMany,
    /// Other messages wait by now.
    Outdated,
}

/// Marks a message as taken by an entry of its run, within the transaction that stores it. `false` where it does not wait for
/// that run.
pub(crate) fn consume(db: &Connection, message: MessageId, run: i64, seq: u64) -> rusqlite::Result<bool> {
    let taken = db
        .prepare_cached(
            "UPDATE messages SET seq = ?3, body = NULL WHERE id = ?1 AND run = ?2 AND body IS NOT NULL",
        )?
        .execute(params![integer(message.0), run, integer(seq)])?;
    Ok(taken == 1)
}

/// One that does not wait for that run stays as it is.
pub(crate) fn reject(db: &Connection, message: MessageId, run: i64, reason: &str) -> rusqlite::Result<()> {
    db.prepare_cached(
        "UPDATE messages SET reason = ?3, body = NULL WHERE id = ?1 AND run = ?2 AND body IS NOT NULL",
    )?
    .execute(params![integer(message.0), run, reason])
    .map(drop)
}

/// Refuses all that waits for a run that ends, within the transaction that ends it, so that nobody waits for ever.
pub(crate) fn reject_pending(db: &Connection, run: i64) -> rusqlite::Result<()> {
    db.prepare_cached("UPDATE messages SET reason = ?2, body = NULL WHERE run = ?1 AND body IS NOT NULL")?
        .execute(params![run, RUN_ENDED])
        .map(drop)
}

pub(crate) fn check_length(body: &str) -> Result<(), StoreError> {
    if body.len() > MAX_MESSAGE_BYTES {
        return Err(StoreError::MessageTooLong { bytes: body.len() });
    }
    Ok(())
}
