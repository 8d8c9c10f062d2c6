//! Conversions between the journal's types and SQLite's types.

use dirigent_core::id::{ConversationId, RunId};
use rusqlite::Row;
use rusqlite::types::Type;

/// Formats a run's id as in the `runs` table: without dashes, so that its beginning and its end can be searched.
pub(crate) fn run_key(run: RunId) -> String {
    run.0.simple().to_string()
}

/// Formats a conversation's id as in the `conversations` table, without dashes.
pub(crate) fn conversation_key(conversation: ConversationId) -> String {
    run_key(RunId(conversation.0))
}

/// Converts a number to SQLite's signed integer type. No time, entry number or message number comes near the maximum.
pub(crate) fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Reads a number that was written with [`integer`].
pub(crate) fn unsigned(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    row.get::<_, i64>(column).map(i64::unsigned_abs)
}

/// Reads a text column and parses it.
pub(crate) fn parsed<T>(row: &Row<'_>, column: usize) -> rusqlite::Result<T>
where
    T: std::str::FromStr,
    T::Err: std::error::Error + Send + Sync + 'static,
{
    let text: String = row.get(column)?;
    text.parse()
        .map_err(|e| rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(e)))
}
