//! Authorizes the actions of a statement while SQLite prepares it, and counts the rows that the statement changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::Connection;
use rusqlite::hooks::{Action, AuthAction, AuthContext, Authorization};

use super::super::error::{ReadOnlyReason, SqlError};

/// Pragmas that only read, whether or not they have a value.
const READING_PRAGMAS: [&str; 14] = [
    "collation_list",
    "compile_options",
    "foreign_key_check",
    "foreign_key_list",
    "function_list",
    "index_info",
    "index_list",
    "index_xinfo",
    "integrity_check",
    "pragma_list",
    "quick_check",
    "table_info",
    "table_list",
    "table_xinfo",
];
/// Pragmas that only read if they have no value.
const READING_PRAGMAS_WITHOUT_VALUE: [&str; 10] = [
    "application_id",
    "data_version",
    "encoding",
    "foreign_keys",
    "freelist_count",
    "journal_mode",
    "page_count",
    "page_size",
    "schema_version",
    "user_version",
];
/// Functions that reach outside the database.
const FORBIDDEN_FUNCTIONS: [&str; 5] = [
    "edit",
    "fts3_tokenizer",
    "load_extension",
    "readfile",
    "writefile",
];

/// Author of the statement being prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StatementOrigin {
    Internal,
    Model,
}

/// The authorizer and the update hook of one connection.
#[derive(Clone)]
pub(super) struct StatementMonitor(Arc<Mutex<MonitorState>>);

struct MonitorState {
    read_only: Option<ReadOnlyReason>,
    origin: StatementOrigin,
    first_refusal: Option<Refusal>,
    /// The tables that the model's statement may write to.
    written: BTreeSet<String>,
    /// Number of rows that the statement has changed, by table.
    changed: BTreeMap<String, u64>,
}

enum Refusal {
    Forbidden(String),
    ReadOnly(ReadOnlyReason, &'static str),
}

impl StatementMonitor {
    pub(super) fn new(read_only: Option<ReadOnlyReason>) -> Self {
        StatementMonitor(Arc::new(Mutex::new(MonitorState {
            read_only,
            origin: StatementOrigin::Internal,
            first_refusal: None,
            written: BTreeSet::new(),
            changed: BTreeMap::new(),
        })))
    }

    pub(super) fn install(&self, database: &Connection) -> rusqlite::Result<()> {
        let (authorizer, update_hook) = (self.clone(), self.clone());
        database.authorizer(Some(move |context: AuthContext<'_>| {
            authorizer.state().authorize(&context)
        }))?;
        database.update_hook(Some(move |_: Action, _: &str, table: &str, _: i64| {
            *update_hook.state().changed.entry(table.to_owned()).or_default() += 1;
        }))
    }

    /// Sets the origin of the next statement.
    pub(super) fn set_origin(&self, origin: StatementOrigin) {
        self.state().origin = origin;
    }

    /// Runs `work` with internal statements, which are always allowed.
    pub(super) fn run_internal<T>(&self, work: impl FnOnce() -> T) -> T {
        self.set_origin(StatementOrigin::Internal);
        let done = work();
        self.set_origin(StatementOrigin::Model);
        done
    }

    /// Takes the reason why the model's statement was refused, if any.
    pub(super) fn take_refusal(&self) -> Option<SqlError> {
        self.state().first_refusal.take().map(|refusal| match refusal {
            Refusal::Forbidden(detail) => SqlError::Refused(format!("{detail} is never allowed")),
            Refusal::ReadOnly(reason, detail) => SqlError::ReadOnly {
                reason,
                detail: format!("the statement would {detail}"),
            },
        })
    }

    /// Returns the number of changed rows by table, and the tables that the statement may have written to.
    pub(super) fn changed_rows(&self) -> (BTreeMap<String, u64>, BTreeSet<String>) {
        let state = self.state();
        (state.changed.clone(), state.written.clone())
    }

    fn state(&self) -> MutexGuard<'_, MonitorState> {
        // A poisoned lock is harmless, because a panic cannot leave the state half updated.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MonitorState {
    fn authorize(&mut self, context: &AuthContext<'_>) -> Authorization {
        if self.origin == StatementOrigin::Internal {
            return Authorization::Allow;
        }
        match self.refusal(context) {
            None => Authorization::Allow,
            Some(refusal) => {
                self.first_refusal.get_or_insert(refusal);
                Authorization::Deny
            }
        }
    }

    fn refusal(&mut self, context: &AuthContext<'_>) -> Option<Refusal> {
        let forbidden = |detail: String| Some(Refusal::Forbidden(detail));
        let writes = match context.action {
            AuthAction::Select | AuthAction::Read { .. } | AuthAction::Recursive => return None,
            AuthAction::Function { function_name } => {
                let name = function_name.to_ascii_lowercase();
                return if FORBIDDEN_FUNCTIONS.contains(&name.as_str()) {
                    forbidden(format!("the function `{name}`"))
                } else {
                    None
                };
            }
            AuthAction::Pragma {
                pragma_name,
                pragma_value,
            } => return self.pragma(pragma_name, pragma_value),
            AuthAction::Attach { .. } => {
                return forbidden("opening another file (ATTACH, VACUUM)".to_owned());
            }
            AuthAction::Detach { .. } => return forbidden("DETACH".to_owned()),
            AuthAction::Transaction { .. } | AuthAction::Savepoint { .. } => {
                return forbidden(
                    "transaction control, because each statement runs in its own transaction,".to_owned(),
                );
            }
            AuthAction::Insert { table_name } | AuthAction::Delete { table_name } => {
                self.writes_to(table_name);
                "change rows"
            }
            AuthAction::Update { table_name, .. } => {
                self.writes_to(table_name);
                "change rows"
            }
            AuthAction::Reindex { .. } | AuthAction::Analyze { .. } => "write to the database",
            AuthAction::Unknown { .. } => return forbidden("this kind of statement".to_owned()),
            // Create, drop and alter actions, and actions that later versions of SQLite may add.
            _ => "change the schema",
        };
        self.read_only.map(|reason| Refusal::ReadOnly(reason, writes))
    }

    fn writes_to(&mut self, table: &str) {
        if !table.starts_with("sqlite_") {
            self.written.insert(table.to_owned());
        }
    }

    fn pragma(&self, name: &str, value: Option<&str>) -> Option<Refusal> {
        let name = name.to_ascii_lowercase();
        let only_reads = READING_PRAGMAS.contains(&name.as_str())
            || value.is_none() && READING_PRAGMAS_WITHOUT_VALUE.contains(&name.as_str());
        // Users may set these numbers to any value, because SQLite does not interpret them.
        let is_user_number = ["application_id", "user_version"].contains(&name.as_str());
        match (only_reads, is_user_number, self.read_only) {
            (true, ..) | (false, true, None) => None,
            (false, true, Some(reason)) => Some(Refusal::ReadOnly(reason, "write to the database")),
            (false, false, _) => Some(Refusal::Forbidden(format!("PRAGMA {name}"))),
        }
    }
}
