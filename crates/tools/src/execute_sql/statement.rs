//! A statement to run, and its result.

use std::time::Duration;

use dirigent_core::tool::StateChange;

use super::error::ReadOnlyReason;
use super::parameter::Parameter;
use super::rows::Rows;

/// A statement to run.
pub(super) struct Statement {
    /// Name of the connection to run the statement on.
    pub(super) connection: String,
    pub(super) sql: String,
    pub(super) parameters: Vec<Parameter>,
    /// Reason why the statement must not change anything. `None` if changes are allowed.
    pub(super) read_only: Option<ReadOnlyReason>,
    pub(super) max_rows: usize,
    pub(super) timeout: Duration,
}

/// Keywords that begin only statements that change something, in every database.
const CHANGES: [&str; 12] = [
    "ALTER", "CREATE", "DELETE", "DROP", "GRANT", "INSERT", "MERGE", "RENAME", "REPLACE", "REVOKE",
    "TRUNCATE", "UPDATE",
];

/// Returns the first keyword of a statement if this keyword shows that the statement changes something.
/// `None` proves nothing, because the database decides.
pub(super) fn change_keyword(sql: &str) -> Option<&'static str> {
    let mut rest = sql.trim_start();
    loop {
        rest = if let Some(comment) = rest.strip_prefix("--") {
            comment.split_once('\n')?.1
        } else if let Some(comment) = rest.strip_prefix("/*") {
            let (comment, after) = comment.split_once("*/")?;
            // MySQL executes `/*! … */`, and PostgreSQL's comments can be nested.
            if comment.starts_with(['!', '+', 'M']) || comment.contains("/*") {
                return None;
            }
            after
        } else {
            break;
        }
        .trim_start();
    }
    let end = rest
        .find(|c: char| !c.is_ascii_alphabetic())
        .unwrap_or(rest.len());
    let (first, after) = rest.split_at(end);
    let is_word = after.is_empty() || after.starts_with(|c: char| c.is_whitespace());
    let known = CHANGES.into_iter().find(|word| word.eq_ignore_ascii_case(first));
    known.filter(|_| is_word)
}

/// Result of a statement.
pub(super) struct StatementResult {
    pub(super) rows: Rows,
    /// Number of rows changed. `None` if the database does not report it.
    pub(super) affected: Option<u64>,
    pub(super) changes: Vec<StateChange>,
}

#[cfg(test)]
mod tests {
    use super::change_keyword;

    #[test]
    fn only_a_clear_first_keyword_shows_a_change() {
        for (sql, keyword) in [
            ("INSERT INTO t VALUES (1)", Some("INSERT")),
            (" \n-- all of them\n/* really */ drop TABLE t", Some("DROP")),
            ("Truncate\tt", Some("TRUNCATE")),
            ("SELECT 1", None),
            ("WITH d AS (SELECT 1) SELECT * FROM d", None),
            ("WITH d AS (DELETE FROM t RETURNING *) SELECT * FROM d", None),
            ("EXPLAIN DELETE FROM t", None),
            ("replace('a', 'b', 'c')", None),
            ("updates", None),
            ("/* /* */ INSERT */ SELECT 1", None),
            ("/*! INSERT INTO t */ SELECT 1", None),
            ("-- INSERT", None),
            ("/* INSERT", None),
            ("'INSERT '", None),
            ("", None),
        ] {
            assert_eq!(change_keyword(sql), keyword, "{sql}");
        }
    }
}
