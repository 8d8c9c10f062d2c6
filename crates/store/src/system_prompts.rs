//! The user's base system prompts (PROMPT-1), with all their versions. They are not tied to a run.

use dirigent_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::error::StoreError;
use crate::journal::Journal;
use crate::sql::{integer, unsigned};

/// Selects all versions. A version without text represents a deleted prompt, so that its version numbers are
/// not used again.
const VERSIONS: &str = "SELECT name, version, text, at FROM system_prompts WHERE text <> ''";

/// A version of a base system prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredPrompt {
    /// The prompt's name.
    pub name: String,
    /// The number of the version, from 1.
    pub version: u32,
    /// The prompt's text.
    pub text: String,
    /// The time when this version was written.
    pub at: Timestamp,
}

impl Journal {
    /// Writes the next version of a prompt. It follows the latest version in the journal, or `shipped` if the
    /// journal has no version. Returns false, and writes nothing, if the version of `prompt` is not the next
    /// one. Blocks on the writer thread.
    ///
    /// # Errors
    /// A write failure.
    pub fn write_system_prompt(&self, prompt: StoredPrompt, shipped: u32) -> Result<bool, StoreError> {
        let write = move |db: &Connection| insert(db, &prompt, shipped).map(Ok);
        Ok(self.wait_for_write(Box::new(write))? > 0)
    }

    /// Writes the first version of a new prompt, and returns the version's number: 1 or, for a name that a
    /// deleted prompt had, the number after all earlier versions. Returns `None`, and writes nothing, if the
    /// prompt exists. Blocks on the writer thread.
    ///
    /// # Errors
    /// A write failure.
    pub fn create_system_prompt(
        &self,
        name: &str,
        text: &str,
        at: Timestamp,
    ) -> Result<Option<u32>, StoreError> {
        let (name, text) = (name.to_owned(), text.to_owned());
        let write = move |db: &Connection| create(db, &name, &text, at).map(Ok);
        let version = self.wait_for_write(Box::new(write))?;
        Ok(u32::try_from(version).ok().filter(|version| *version > 0))
    }

    /// Deletes all versions of a prompt; returns their number. Blocks on the writer thread.
    ///
    /// # Errors
    /// A write failure.
    pub fn delete_system_prompt(&self, name: &str) -> Result<u64, StoreError> {
        let name = name.to_owned();
        let write = move |db: &Connection| {
            let last: Option<u32> = db
                .prepare_cached(&format!("SELECT max(version) FROM ({VERSIONS} AND name = ?1)"))?
                .query_row([&name], |row| row.get(0))?;
            let Some(last) = last else {
                return Ok(Ok(0));
            };
            let deleted = db
                .prepare_cached("DELETE FROM system_prompts WHERE name = ?1")?
                .execute([&name])?;
            db.prepare_cached(
                "INSERT INTO system_prompts (name, version, text, at) VALUES (?1, ?2 + 1, '', 0)",
            )?
            .execute(params![name, last])?;
            Ok(Ok(deleted as u64))
        };
        self.wait_for_write(Box::new(write))
    }

    /// Reads a version of a prompt, or the latest version. `None` if it does not exist.
    ///
    /// # Errors
    /// A read failure.
    pub fn system_prompt(
        &self,
        name: &str,
        version: Option<u32>,
    ) -> Result<Option<StoredPrompt>, StoreError> {
        self.readers().with(|db| {
            db.prepare_cached(&format!(
                "{VERSIONS} AND name = ?1 AND version = ifnull(?2, version) ORDER BY version DESC LIMIT 1"
            ))?
            .query_row(params![name, version], stored)
            .optional()
        })
    }

    /// Reads all versions of a prompt, the latest first.
    ///
    /// # Errors
    /// A read failure.
    pub fn system_prompt_versions(&self, name: &str) -> Result<Vec<StoredPrompt>, StoreError> {
        self.readers().with(|db| {
            db.prepare_cached(&format!("{VERSIONS} AND name = ?1 ORDER BY version DESC"))?
                .query_map([name], stored)?
                .collect()
        })
    }

    /// Reads the latest version of every prompt, sorted by name.
    ///
    /// # Errors
    /// A read failure.
    pub fn system_prompts(&self) -> Result<Vec<StoredPrompt>, StoreError> {
        self.readers().with(|db| {
            // SQLite takes the other columns from the row with the greatest version.
            db.prepare_cached(
                "SELECT name, max(version), text, at FROM system_prompts WHERE text <> '' GROUP BY name ORDER BY name",
            )?
            .query_map([], stored)?
            .collect()
        })
    }
}

/// Adds a new prompt within a transaction; returns the number of its version, or 0 if the prompt exists.
fn create(db: &Connection, name: &str, text: &str, at: Timestamp) -> rusqlite::Result<u64> {
    let exists = db
        .prepare_cached(&format!("{VERSIONS} AND name = ?1"))?
        .exists([name])?;
    if exists {
        return Ok(0);
    }
    db.prepare_cached(
        "INSERT INTO system_prompts (name, version, text, at)
         VALUES (?1, 1 + ifnull((SELECT max(version) FROM system_prompts WHERE name = ?1), 0), ?2, ?3)
         RETURNING version",
    )?
    .query_row(params![name, text, integer(at.0)], |row| unsigned(row, 0))
}

/// Adds a version within a transaction; returns the number of rows written.
fn insert(db: &Connection, prompt: &StoredPrompt, shipped: u32) -> rusqlite::Result<u64> {
    let StoredPrompt {
        name,
        version,
        text,
        at,
    } = prompt;
    let written = db
        .prepare_cached(
            "INSERT INTO system_prompts (name, version, text, at) SELECT ?1, ?2, ?3, ?4
             WHERE ?2 = 1 + ifnull((SELECT max(version) FROM system_prompts WHERE name = ?1), ?5)",
        )?
        .execute(params![name, version, text, integer(at.0), shipped])?;
    Ok(written as u64)
}

fn stored(row: &Row<'_>) -> rusqlite::Result<StoredPrompt> {
    Ok(StoredPrompt {
        name: row.get(0)?,
        version: row.get(1)?,
        text: row.get(2)?,
        at: Timestamp(unsigned(row, 3)?),
    })
}
