//! The user's MCP services (MCP-1): their configurations, which of them the user has stopped, and the results
//! of their latest starts. This data is not tied to a run.

use dirigent_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use crate::error::StoreError;
use crate::journal::Journal;
use crate::sql::{integer, unsigned};

/// Maximum number of results stored for a service name. Services of several projects may have the same name.
const MAX_STARTS: u32 = 8;

/// The configuration of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredService {
    /// The service's name.
    pub name: String,
    /// The configuration as JSON, without secrets.
    pub config: String,
    /// The version number of the configuration, from 1. Each update adds 1.
    pub version: u32,
    /// The time when this version was written.
    pub at: Timestamp,
}

/// What becomes of the mark that the user has stopped a service when the service is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopMark {
    /// It is deleted.
    Delete,
    /// It stays, for a service of this name that is configured elsewhere.
    Keep,
}

/// The result of a service's latest start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredServiceStart {
    /// The service's name.
    pub name: String,
    /// The digest of the configuration that was started.
    pub digest: String,
    /// The result as JSON.
    pub result: String,
    /// The time when the result was written.
    pub at: Timestamp,
}

impl Journal {
    /// Adds a service as version 1. Returns false, and writes nothing, if the name is taken. Blocks on the writer thread.
    ///
    /// # Errors
    /// A write failure.
    pub fn add_mcp_service(&self, name: &str, config: &str, at: Timestamp) -> Result<bool, StoreError> {
        let (name, config) = (name.to_owned(), config.to_owned());
        let write = move |db: &Connection| {
            let added = db
                .prepare_cached(
                    "INSERT INTO mcp_services (name, config, version, at) VALUES (?1, ?2, 1, ?3) ON CONFLICT DO NOTHING",
                )?
                .execute(params![name, config, integer(at.0)])?;
            Ok(Ok(added as u64))
        };
        Ok(self.wait_for_write(Box::new(write))? > 0)
    }

    /// Writes the next version of a service and returns its number. Returns `None`, and writes nothing, if there is no such service. Blocks
    /// on the writer thread.
    ///
    /// # Errors
    /// A write failure.
    pub fn update_mcp_service(
        &self,
        name: &str,
        config: &str,
        at: Timestamp,
    ) -> Result<Option<u32>, StoreError> {
        let (name, config) = (name.to_owned(), config.to_owned());
        let write = move |db: &Connection| {
            let version = db
                .prepare_cached(
                    "UPDATE mcp_services SET config = ?2, version = version + 1, at = ?3 WHERE name = ?1 RETURNING version",
                )?
                .query_row(params![name, config, integer(at.0)], |row| unsigned(row, 0))
                .optional()?;
            Ok(Ok(version.unwrap_or(0)))
        };
        let version = self.wait_for_write(Box::new(write))?;
        Ok(u32::try_from(version).ok().filter(|version| *version > 0))
    }

    /// Deletes a service and the results of its starts, and the mark that the user has stopped it, unless it is kept. Returns false if there is no such
    /// service. Blocks on the writer thread.
    ///
    /// # Errors
    /// A write failure.
    pub fn delete_mcp_service(&self, name: &str, mark: StopMark) -> Result<bool, StoreError> {
        let name = name.to_owned();
        let write = move |db: &Connection| {
            let deleted = db
                .prepare_cached("DELETE FROM mcp_services WHERE name = ?1")?
                .execute([&name])?;
            if deleted > 0 && mark == StopMark::Delete {
                db.prepare_cached("DELETE FROM mcp_stopped WHERE name = ?1")?
                    .execute([&name])?;
            }
            if deleted > 0 {
                db.prepare_cached("DELETE FROM mcp_starts WHERE name = ?1")?
                    .execute([&name])?;
            }
            Ok(Ok(deleted as u64))
        };
        Ok(self.wait_for_write(Box::new(write))? > 0)
    }

    /// Reads all services, sorted by name.
    ///
    /// # Errors
    /// A read failure.
    pub fn mcp_services(&self) -> Result<Vec<StoredService>, StoreError> {
        self.readers().with(|db| {
            db.prepare_cached("SELECT name, config, version, at FROM mcp_services ORDER BY name")?
                .query_map([], |row| {
                    Ok(StoredService {
                        name: row.get(0)?,
                        config: row.get(1)?,
                        version: row.get(2)?,
                        at: Timestamp(unsigned(row, 3)?),
                    })
                })?
                .collect()
        })
    }

    /// Records that the user has stopped the service with this name, or removes this record if `stopped` is
    /// `None`. The service may be configured in a file instead of the journal. Blocks on the writer thread.
    ///
    /// # Errors
    /// A write failure.
    pub fn set_mcp_service_stopped(&self, name: &str, stopped: Option<Timestamp>) -> Result<(), StoreError> {
        let name = name.to_owned();
        let write = move |db: &Connection| {
            match stopped {
                Some(at) => db
                    .prepare_cached(
                        "INSERT INTO mcp_stopped (name, at) VALUES (?1, ?2) ON CONFLICT DO NOTHING",
                    )?
                    .execute(params![name, integer(at.0)])?,
                None => db
                    .prepare_cached("DELETE FROM mcp_stopped WHERE name = ?1")?
                    .execute([&name])?,
            };
            Ok(Ok(0))
        };
        self.wait_for_write(Box::new(write)).map(drop)
    }

    /// Reads the names of the services that the user has stopped, sorted.
    ///
    /// # Errors
    /// A read failure.
    pub fn stopped_mcp_services(&self) -> Result<Vec<String>, StoreError> {
        self.readers().with(|db| {
            db.prepare_cached("SELECT name FROM mcp_stopped ORDER BY name")?
                .query_map([], |row| row.get(0))?
                .collect()
        })
    }

    /// Stores the result of a service's start, and replaces an earlier result of the same configuration.
    /// Blocks on the writer thread.
    ///
    /// # Errors
    /// A write failure.
    pub fn record_mcp_start(&self, start: StoredServiceStart) -> Result<(), StoreError> {
        let write = move |db: &Connection| record(db, &start).map(|()| Ok(0));
        self.wait_for_write(Box::new(write)).map(drop)
    }

    /// Reads the results of the latest starts, sorted by name.
    ///
    /// # Errors
    /// A read failure.
    pub fn mcp_starts(&self) -> Result<Vec<StoredServiceStart>, StoreError> {
        self.readers().with(|db| {
            db.prepare_cached("SELECT name, digest, result, at FROM mcp_starts ORDER BY name, digest")?
                .query_map([], |row| {
                    Ok(StoredServiceStart {
                        name: row.get(0)?,
                        digest: row.get(1)?,
                        result: row.get(2)?,
                        at: Timestamp(unsigned(row, 3)?),
                    })
                })?
                .collect()
        })
    }
}

/// Stores a result within a transaction, and deletes the oldest results for the service's name.
fn record(db: &Connection, start: &StoredServiceStart) -> rusqlite::Result<()> {
    let StoredServiceStart {
        name,
        digest,
        result,
        at,
    } = start;
    db.prepare_cached(
        "INSERT OR REPLACE INTO mcp_starts (name, digest, result, at) VALUES (?1, ?2, ?3, ?4)",
    )?
    .execute(params![name, digest, result, integer(at.0)])?;
    db.prepare_cached(
        "DELETE FROM mcp_starts WHERE name = ?1 AND digest NOT IN
         (SELECT digest FROM mcp_starts WHERE name = ?1 ORDER BY at DESC, rowid DESC LIMIT ?2)",
    )?
    .execute(params![name, MAX_STARTS])
    .map(drop)
}
