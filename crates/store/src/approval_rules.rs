//! The rules by which the user always allows calls. They are stored in the journal; the user's configuration
//! is never changed.

use dirigent_core::id::{ConversationId, RunId};
use dirigent_core::policy::CallPattern;
use dirigent_core::time::Timestamp;
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::error::StoreError;
use crate::journal::Journal;
use crate::sql::{conversation_key, integer, parsed, run_key, unsigned};

const RULES: &str = "SELECT id, scope, subject, calls, at, service FROM approval_rules";

/// The scope of a rule: the runs to which it applies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleScope {
    /// In one run. Deleted with the run.
    Run(RunId),
    /// In the turns of one conversation. Deleted with the conversation.
    Conversation(ConversationId),
    /// In all runs in this folder, an absolute path with links resolved.
    Workspace(String),
    /// In all runs.
    Everywhere,
}

/// A rule to add.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRule {
    /// The scope of the rule.
    pub scope: RuleScope,
    /// The calls that the rule allows.
    pub calls: CallPattern,
    /// The time at which the rule is added.
    pub at: Timestamp,
    /// The digest of the MCP service whose tools the calls name; `None` for calls of other tools.
    pub service: Option<String>,
}

/// A rule in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRule {
    /// The rule's number. The number of a deleted rule is never used again.
    pub id: u64,
    /// The scope of the rule.
    pub scope: RuleScope,
    /// The calls that the rule allows.
    pub calls: CallPattern,
    /// The time at which the rule was added.
    pub at: Timestamp,
    /// The digest of the MCP service whose tools the calls name, as it was when the rule was last added; `None` for calls of other tools.
    pub service: Option<String>,
}

impl RuleScope {
    /// Returns the values of the columns `scope` and `subject`.
    fn columns(&self) -> (&'static str, String) {
        match self {
            RuleScope::Run(run) => (RUN, run_key(*run)),
            RuleScope::Conversation(conversation) => (CONVERSATION, conversation_key(*conversation)),
            RuleScope::Workspace(workspace) => (WORKSPACE, workspace.clone()),
            RuleScope::Everywhere => (EVERYWHERE, String::new()),
        }
    }
}

const RUN: &str = "run";
const CONVERSATION: &str = "conversation";
const WORKSPACE: &str = "workspace";
const EVERYWHERE: &str = "everywhere";

impl Journal {
    /// Adds a rule and returns its number. If the same rule exists already, returns the number of the existing rule, which then
    /// has this service. Blocks on the writer
    /// thread.
    ///
    /// # Errors
    /// A write failure.
    pub fn add_approval_rule(&self, rule: NewRule) -> Result<u64, StoreError> {
        let write = move |db: &Connection| add(db, &rule).map(Ok);
        self.wait_for_write(Box::new(write))
    }

    /// Deletes a rule; returns false if no rule has this number. Blocks on the writer thread.
    ///
    /// # Errors
    /// A write failure.
    pub fn delete_approval_rule(&self, id: u64) -> Result<bool, StoreError> {
        let write = move |db: &Connection| {
            let deleted = db
                .prepare_cached("DELETE FROM approval_rules WHERE id = ?1")?
                .execute([integer(id)])?;
            Ok(Ok(deleted as u64))
        };
        Ok(self.wait_for_write(Box::new(write))? > 0)
    }

    /// Reads a rule; `None` if no rule has this number.
    ///
    /// # Errors
    /// A read failure.
    pub fn approval_rule(&self, id: u64) -> Result<Option<StoredRule>, StoreError> {
        self.readers().with(|db| {
            db.prepare_cached(&format!("{RULES} WHERE id = ?1"))?
                .query_row([integer(id)], stored)
                .optional()
        })
    }

    /// Reads all rules, in the order in which they were added.
    ///
    /// # Errors
    /// A read failure.
    pub fn approval_rules(&self) -> Result<Vec<StoredRule>, StoreError> {
        self.readers().with(|db| {
            db.prepare_cached(&format!("{RULES} ORDER BY id"))?
                .query_map([], stored)?
                .collect()
        })
    }

    /// Reads the rules with one of these scopes, in the order in which they were added.
    ///
    /// # Errors
    /// A read failure.
    pub fn approval_rules_in(&self, scopes: &[RuleScope]) -> Result<Vec<StoredRule>, StoreError> {
        let mut rules = Vec::new();
        self.readers().with(|db| {
            rules.clear();
            let mut statement = db.prepare_cached(&format!("{RULES} WHERE scope = ?1 AND subject = ?2"))?;
            for scope in scopes {
                let (scope, subject) = scope.columns();
                for rule in statement.query_map([scope, &subject], stored)? {
                    rules.push(rule?);
                }
            }
            Ok(())
        })?;
        rules.sort_by_key(|rule: &StoredRule| rule.id);
        Ok(rules)
    }
}

/// Adds a rule within a transaction; returns its number.
fn add(db: &Connection, rule: &NewRule) -> rusqlite::Result<u64> {
    let (scope, subject) = rule.scope.columns();
    let calls = rule.calls.to_string();
    db.prepare_cached(
        "INSERT INTO approval_rules (scope, subject, calls, at, service) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (scope, subject, calls) DO UPDATE SET service = excluded.service",
    )?
    .execute(params![scope, subject, calls, integer(rule.at.0), rule.service])?;
    db.prepare_cached("SELECT id FROM approval_rules WHERE scope = ?1 AND subject = ?2 AND calls = ?3")?
        .query_row([scope, &subject, &calls], |row| unsigned(row, 0))
}

fn stored(row: &Row<'_>) -> rusqlite::Result<StoredRule> {
    let scope: String = row.get(1)?;
    Ok(StoredRule {
        id: unsigned(row, 0)?,
        scope: match scope.as_str() {
            RUN => RuleScope::Run(parsed(row, 2)?),
            CONVERSATION => RuleScope::Conversation(parsed(row, 2)?),
            WORKSPACE => RuleScope::Workspace(row.get(2)?),
            EVERYWHERE => RuleScope::Everywhere,
            other => {
                let unknown = format!("unknown scope of an approval rule: {other}");
                return Err(rusqlite::Error::FromSqlConversionFailure(
                    1,
                    Type::Text,
                    unknown.into(),
                ));
            }
        },
        calls: parsed(row, 3)?,
        at: Timestamp(unsigned(row, 4)?),
        service: row.get(5)?,
    })
}
