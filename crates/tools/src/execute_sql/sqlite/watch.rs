//! What SQLite asks for while it prepares a statement, and the rows that it says it changed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::Connection;
use rusqlite::hooks::{Action, AuthAction, AuthContext, Authorization};

use super::super::fault::{Fault, Looker};

/// Pragmas that only tell something, whatever their value is.
const TELLING: [&str; 14] = [
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
/// Pragmas that tell something where they have no value.
const TELLING_WITHOUT_VALUE: [&str; 10] = [
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
/// Functions that reach out of the database.
const FUNCTIONS: [&str; 5] = [
    "edit",
    "fts3_tokenizer",
    "load_extension",
    "readfile",
    "writefile",
];

/// Whose statement is prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    Ours,
    Models,
}

/// Watches over one connection.
#[derive(Clone)]
pub(super) struct Watch(Arc<Mutex<Watched>>);

struct Watched {
    looks_only: Option<Looker>,
    whose: Whose,
    refused: Option<Refusal>,
    /// The tables that the model's statement may write to.
    written: BTreeSet<String>,
    /// How many rows it did change, by table.
    changed: BTreeMap<String, u64>,
}

enum Refusal {
    Never(String),
    OnlyLooks(Looker, &'static str),
}

impl Watch {
    pub(super) fn new(looks_only: Option<Looker>) -> Self {
        Watch(Arc::new(Mutex::new(Watched {
            looks_only,
            whose: Whose::Ours,
            refused: None,
            written: BTreeSet::new(),
            changed: BTreeMap::new(),
        })))
    }

    pub(super) fn set_on(&self, database: &Connection) -> rusqlite::Result<()> {
        let (asked, told) = (self.clone(), self.clone());
        database.authorizer(Some(move |context: AuthContext<'_>| {
            asked.watched().authorize(&context)
        }))?;
        database.update_hook(Some(move |_: Action, _: &str, table: &str, _: i64| {
            *told.watched().changed.entry(table.to_owned()).or_default() += 1;
        }))
    }

    /// Whose statement comes next.
    pub(super) fn expect(&self, whose: Whose) {
        self.watched().whose = whose;
    }

    /// Runs what is our own, which nothing is refused.
    pub(super) fn ours<T>(&self, work: impl FnOnce() -> T) -> T {
        self.expect(Whose::Ours);
        let done = work();
        self.expect(Whose::Models);
        done
    }

    /// Why the model's statement was refused, where it was.
    pub(super) fn refused(&self) -> Option<Fault> {
        self.watched().refused.take().map(|refusal| match refusal {
            Refusal::Never(what) => Fault::Refused(format!("{what} is never allowed here")),
            Refusal::OnlyLooks(who, what) => Fault::OnlyLooks {
                who,
                what: format!("the statement would {what}"),
            },
        })
    }

    /// How many rows were changed by table, and the tables that the statement may have written to.
    pub(super) fn changed_rows(&self) -> (BTreeMap<String, u64>, BTreeSet<String>) {
        let watched = self.watched();
        (watched.changed.clone(), watched.written.clone())
    }

    fn watched(&self) -> MutexGuard<'_, Watched> {
        // Nothing in it can be half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watched {
    fn authorize(&mut self, context: &AuthContext<'_>) -> Authorization {
        if self.whose == Whose::Ours {
            return Authorization::Allow;
        }
        match self.refusal(context) {
            None => Authorization::Allow,
            Some(refusal) => {
                self.refused.get_or_insert(refusal);
                Authorization::Deny
            }
        }
    }

    fn refusal(&mut self, context: &AuthContext<'_>) -> Option<Refusal> {
        let never = |what: String| Some(Refusal::Never(what));
        let writes = match context.action {
            AuthAction::Select | AuthAction::Read { .. } | AuthAction::Recursive => return None,
            AuthAction::Function { function_name } => {
                let name = function_name.to_ascii_lowercase();
                return if FUNCTIONS.contains(&name.as_str()) {
                    never(format!("the function `{name}`"))
                } else {
                    None
                };
            }
            AuthAction::Pragma {
                pragma_name,
                pragma_value,
            } => return self.pragma(pragma_name, pragma_value),
            AuthAction::Attach { .. } => return never("another file (ATTACH, VACUUM)".to_owned()),
            AuthAction::Detach { .. } => return never("DETACH".to_owned()),
            AuthAction::Transaction { .. } | AuthAction::Savepoint { .. } => {
                return never("a transaction of its own, as each statement has one already,".to_owned());
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
            AuthAction::Unknown { .. } => return never("what the statement asks for".to_owned()),
            // Creating, dropping and altering, also what may come in later versions.
            _ => "change the schema",
        };
        self.looks_only.map(|who| Refusal::OnlyLooks(who, writes))
    }

    fn writes_to(&mut self, table: &str) {
        if !table.starts_with("sqlite_") {
            self.written.insert(table.to_owned());
        }
    }

    fn pragma(&self, name: &str, value: Option<&str>) -> Option<Refusal> {
        let name = name.to_ascii_lowercase();
        let tells = TELLING.contains(&name.as_str())
            || value.is_none() && TELLING_WITHOUT_VALUE.contains(&name.as_str());
        // Numbers that mean something to their application alone.
        let numbers = ["application_id", "user_version"].contains(&name.as_str());
        match (tells, numbers, self.looks_only) {
            (true, ..) | (false, true, None) => None,
            (false, true, Some(who)) => Some(Refusal::OnlyLooks(who, "write to the database")),
            (false, false, _) => Some(Refusal::Never(format!("PRAGMA {name}"))),
        }
    }
}
