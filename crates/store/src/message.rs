//! The SQL for messages to runs.

use dirigent_core::id::RunId;
use dirigent_core::time::Timestamp;
use dirigent_runtime::run_log::{MAX_PENDING_MESSAGES, Message, MessageId, MessageState, Position};
use rusqlite::{Connection, OptionalExtension, params};

use crate::sql::{integer, run_key, unsigned};

/// The reason for rejecting messages that are still pending when their run finishes.
const RUN_ENDED: &str = "the run finished before the message was handled";

/// Returns the number of the newest message of the journal; 0 if there is none.
pub(crate) fn newest(db: &Connection) -> rusqlite::Result<u64> {
    db.prepare_cached("SELECT coalesce(max(id), 0) FROM messages")?
        .query_row([], |row| unsigned(row, 0))
}

/// Reads up to `limit` pending messages of a run, in order, starting after the message `after`.
pub(crate) fn pending(
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
    .query_map(params![run_key(run), integer(after.0), limit], |row| {
        Ok(Message {
            id: MessageId(unsigned(row, 0)?),
            at: Timestamp(unsigned(row, 1)?),
            body: row.get(2)?,
        })
    })?
    .collect()
}

/// Reads a message's state; `None` if the message does not exist.
pub(crate) fn state(db: &Connection, message: MessageId) -> rusqlite::Result<Option<MessageState>> {
    db.prepare_cached("SELECT seq IS NOT NULL, reason FROM messages WHERE id = ?1")?
        .query_row([integer(message.0)], |row| {
            let (accepted, reason): (bool, Option<String>) = (row.get(0)?, row.get(1)?);
            Ok(match (accepted, reason) {
                (true, _) => MessageState::Accepted,
                (false, Some(reason)) => MessageState::Rejected { reason },
                (false, None) => MessageState::Pending,
            })
        })
        .optional()
}

/// Inserts a message within a transaction. The outer error makes the whole transaction fail.
pub(crate) fn post(
    db: &Connection,
    run: RunId,
    at: Timestamp,
    body: &str,
    position: Position,
) -> rusqlite::Result<Result<MessageId, PostError>> {
    let found = db
        .prepare_cached("SELECT id, ended_at IS NOT NULL AND NOT paused FROM runs WHERE run = ?1")?
        .query_row([run_key(run)], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, bool>(1)?))
        })
        .optional()?;
    let run = match found {
        None => return Ok(Err(PostError::NoSuchRun)),
        Some((_, true)) => return Ok(Err(PostError::Finished)),
        Some((id, false)) => id,
    };
    let (count, newest) = db
        .prepare_cached(
            "SELECT count(*), coalesce(max(id), 0) FROM messages WHERE run = ?1 AND body IS NOT NULL",
        )?
        .query_row([run], |row| Ok((unsigned(row, 0)?, unsigned(row, 1)?)))?;
    if let Position::After(last) = position
        && last.map_or(0, |last| last.0) != newest
    {
        return Ok(Err(PostError::Outdated));
    }
    if count >= MAX_PENDING_MESSAGES {
        return Ok(Err(PostError::TooMany));
    }
    db.prepare_cached("INSERT INTO messages (run, at, body) VALUES (?1, ?2, ?3)")?
        .execute(params![run, integer(at.0), body])?;
    Ok(Ok(MessageId(db.last_insert_rowid().unsigned_abs())))
}

/// The reason why a message cannot be posted.
pub(crate) enum PostError {
    NoSuchRun,
    Finished,
    TooMany,
    /// The newest pending message is not the expected one.
    Outdated,
}

/// Marks a message as accepted within the transaction that stores its entry. Returns false if the message is not pending for this run.
pub(crate) fn accept(db: &Connection, message: MessageId, run: i64, seq: u64) -> rusqlite::Result<bool> {
    let accepted = db
        .prepare_cached(
            "UPDATE messages SET seq = ?3, body = NULL WHERE id = ?1 AND run = ?2 AND body IS NOT NULL",
        )?
        .execute(params![integer(message.0), run, integer(seq)])?;
    Ok(accepted == 1)
}

/// Rejects a message if it is pending for this run.
pub(crate) fn reject(db: &Connection, message: MessageId, run: i64, reason: &str) -> rusqlite::Result<()> {
    db.prepare_cached(
        "UPDATE messages SET reason = ?3, body = NULL WHERE id = ?1 AND run = ?2 AND body IS NOT NULL",
    )?
    .execute(params![integer(message.0), run, reason])
    .map(drop)
}

/// Rejects all pending messages within the transaction that finishes their run, so that no sender waits forever.
pub(crate) fn reject_pending(db: &Connection, run: i64) -> rusqlite::Result<()> {
    db.prepare_cached("UPDATE messages SET reason = ?2, body = NULL WHERE run = ?1 AND body IS NOT NULL")?
        .execute(params![run, RUN_ENDED])
        .map(drop)
}
