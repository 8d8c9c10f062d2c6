//! The facts in the memory, and the index of their words.
//!
//! FTS5 has no tokenizer for languages without spaces between words: `unicode61` treats a whole Chinese
//! sentence as one word, and `trigram` finds nothing shorter than three characters. So each character of
//! these languages is indexed as a separate word, and a word of several characters is found as a phrase.

use dirigent_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::error::StoreError;
use crate::journal::Journal;
use crate::sql::{integer, unsigned};

/// Maximum number of words in a search.
const MAX_WORDS: usize = 64;

const FACTS: &str = "SELECT facts.id, facts.workspace, facts.fact, facts.at FROM facts";

/// The SQL condition for [`VisibleFacts`]. Its parameter 1 is [`VisibleFacts::workspace`].
const VISIBLE: &str = "(?1 IS NULL OR facts.workspace = '' OR facts.workspace = ?1)";

/// A fact to add.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewFact {
    /// The folder that the fact is about, as an absolute path with links resolved. `None` for a fact about
    /// the user.
    pub workspace: Option<String>,
    /// The fact's text.
    pub text: String,
    /// The normalized text. A fact with the same normalized text is not added again.
    pub same: String,
    /// The time at which the fact is added.
    pub at: Timestamp,
}

/// A fact in the memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredFact {
    /// The fact's number. The number of a deleted fact is never used again.
    pub id: u64,
    /// The folder that the fact is about; `None` for a fact about the user.
    pub workspace: Option<String>,
    /// The fact's text.
    pub text: String,
    /// The time at which the fact was added.
    pub at: Timestamp,
}

/// Selects the facts that a list or a search includes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VisibleFacts {
    /// The facts about the user.
    User,
    /// The facts about the user and about this folder.
    Workspace(String),
    /// The facts about the user and about all folders.
    All,
}

impl VisibleFacts {
    /// Returns the parameter of [`VISIBLE`].
    fn workspace(&self) -> Option<&str> {
        match self {
            VisibleFacts::User => Some(""),
            VisibleFacts::Workspace(workspace) => Some(workspace),
            VisibleFacts::All => None,
        }
    }
}

impl Journal {
    /// Adds a fact and returns its number. Returns `None` if the same fact already exists, about the folder
    /// or about the user. Blocks on the writer thread.
    ///
    /// # Errors
    /// A write failure.
    pub fn add_fact(&self, fact: NewFact) -> Result<Option<u64>, StoreError> {
        let write = move |db: &Connection| add(db, &fact).map(Ok);
        let id = self.wait_for_write(Box::new(write))?;
        Ok(Some(id).filter(|id| *id > 0))
    }

    /// Deletes a fact; returns false if no fact has this number. Blocks on the writer thread.
    ///
    /// # Errors
    /// A write failure.
    pub fn delete_fact(&self, id: u64) -> Result<bool, StoreError> {
        let write = move |db: &Connection| delete(db, id).map(Ok);
        let deleted = self.wait_for_write(Box::new(write))?;
        Ok(deleted > 0)
    }

    /// Reads a fact; `None` if no fact has this number.
    ///
    /// # Errors
    /// A read failure.
    pub fn fact(&self, id: u64) -> Result<Option<StoredFact>, StoreError> {
        self.readers().with(|db| {
            db.prepare_cached(&format!("{FACTS} WHERE id = ?1"))?
                .query_row([integer(id)], stored)
                .optional()
        })
    }

    /// Finds an existing fact that is the same as a new fact, about the same folder or about the user.
    ///
    /// # Errors
    /// A read failure.
    pub fn same_fact(&self, workspace: Option<&str>, same: &str) -> Result<Option<StoredFact>, StoreError> {
        self.readers().with(|db| find_same(db, workspace, same))
    }

    /// Reads up to `limit` facts, the newest first.
    ///
    /// # Errors
    /// A read failure.
    pub fn facts(&self, visible: &VisibleFacts, limit: usize) -> Result<Vec<StoredFact>, StoreError> {
        self.readers().with(|db| {
            db.prepare_cached(&format!("{FACTS} WHERE {VISIBLE} ORDER BY id DESC LIMIT ?2"))?
                .query_map(params![visible.workspace(), integer(limit as u64)], stored)?
                .collect()
        })
    }

    /// Finds up to `limit` facts that contain at least one of the words, the best matches first. Of equally
    /// good matches, newer facts come first. A word may have several parts, such as the characters of a
    /// Chinese word, which must occur next to each other. Words after the first 64 are ignored. English words
    /// are found in any form (`birthday`, `birthdays`). Accents are ignored.
    ///
    /// # Errors
    /// A read failure.
    pub fn search_facts(
        &self,
        visible: &VisibleFacts,
        words: &[String],
        limit: usize,
    ) -> Result<Vec<StoredFact>, StoreError> {
        let phrases = words.iter().map(|word| indexed(word));
        let phrases = phrases.filter(|phrase| phrase.contains(char::is_alphanumeric));
        let quoted: Vec<String> = phrases
            .take(MAX_WORDS)
            .map(|phrase| format!("\"{phrase}\""))
            .collect();
        if quoted.is_empty() {
            return Ok(Vec::new());
        }
        let any = quoted.join(" OR ");
        self.readers().with(|db| {
            db.prepare_cached(&format!(
                "{FACTS} JOIN fact_words ON fact_words.rowid = facts.id
                 WHERE fact_words MATCH ?3 AND {VISIBLE} ORDER BY fact_words.rank, facts.id DESC LIMIT ?2"
            ))?
            .query_map(params![visible.workspace(), integer(limit as u64), any], stored)?
            .collect()
        })
    }
}

/// Adds a fact within a transaction; returns its number, or 0 if the same fact exists.
fn add(db: &Connection, fact: &NewFact) -> rusqlite::Result<u64> {
    let workspace = fact.workspace.as_deref();
    if find_same(db, workspace, &fact.same)?.is_some() {
        return Ok(0);
    }
    db.prepare_cached("INSERT INTO facts (workspace, fact, same, at) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![
            workspace.unwrap_or_default(),
            fact.text,
            fact.same,
            integer(fact.at.0)
        ])?;
    let id = db.last_insert_rowid();
    db.prepare_cached("INSERT INTO fact_words (rowid, words) VALUES (?1, ?2)")?
        .execute(params![id, indexed(&fact.text)])?;
    Ok(id.unsigned_abs())
}

/// Deletes a fact within a transaction; returns the number of deleted facts.
fn delete(db: &Connection, id: u64) -> rusqlite::Result<u64> {
    let deleted = db
        .prepare_cached("DELETE FROM facts WHERE id = ?1")?
        .execute([integer(id)])?;
    if deleted > 0 {
        db.prepare_cached("DELETE FROM fact_words WHERE rowid = ?1")?
            .execute([integer(id)])?;
    }
    Ok(deleted as u64)
}

fn find_same(db: &Connection, workspace: Option<&str>, same: &str) -> rusqlite::Result<Option<StoredFact>> {
    db.prepare_cached(&format!(
        "{FACTS} WHERE same = ?2 AND (workspace = '' OR workspace = ?1) ORDER BY workspace LIMIT 1"
    ))?
    .query_row([workspace.unwrap_or_default(), same], stored)
    .optional()
}

fn stored(row: &Row<'_>) -> rusqlite::Result<StoredFact> {
    let workspace: String = row.get(1)?;
    Ok(StoredFact {
        id: unsigned(row, 0)?,
        workspace: Some(workspace).filter(|workspace| !workspace.is_empty()),
        text: row.get(2)?,
        at: Timestamp(unsigned(row, 3)?),
    })
}

/// Returns the text with spaces around each character of a script without spaces between words, and with
/// spaces in place of the query language's quotes.
fn indexed(text: &str) -> String {
    let mut spaced = String::with_capacity(text.len() * 2);
    for c in text.chars() {
        if is_unspaced(c) {
            spaced.extend([' ', c, ' ']);
        } else {
            spaced.push(if c == '"' || c.is_control() { ' ' } else { c });
        }
    }
    spaced
}

/// Returns true for characters of scripts without spaces between words: Chinese and Japanese.
fn is_unspaced(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3134f}')
}
