//! Conversions between the journal's types and SQLite's.

use dirigent_core::id::RunId;
use rusqlite::Row;
use rusqlite::types::Type;

/// A run's id as the `runs` table has it: without dashes, so that both ends of it can be searched.
pub(crate) fn run_key(run: RunId) -> String {
    run.0.simple().to_string()
}

/// A number as SQLite's signed integer. No time, entry or message number comes near its maximum.
pub(crate) fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Reads a column that [`integer`] wrote.
pub(crate) fn unsigned(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    row.get::<_, i64>(column).map(i64::unsigned_abs)
}

/// Reads a column whose text has a parser.
pub(crate) fn parsed<T>(row: &Row<'_>, column: usize) -> rusqlite::Result<T>
where
    T: std::str::FromStr,
    T::Err: std::error::Error + Send + Sync + 'static,
{
    let text: String = row.get(column)?;
    text.parse()
        .map_err(|e| rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(e)))
}
