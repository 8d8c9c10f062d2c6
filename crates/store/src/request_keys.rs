//! The keys with which clients repeat requests: a repeated request gets the answer of the first one, and has no further effect.

use dirigent_core::time::Timestamp;
use rusqlite::{OptionalExtension, params};

use crate::error::StoreError;
use crate::journal::Journal;
use crate::sql::integer;

/// A request that a client may repeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyedRequest {
    /// The key that the client has chosen.
    pub key: String,
    /// Digest of the request.
    pub digest: String,
    /// The process that handles the request, under a name that no other process has.
    pub handler: String,
    /// The time at which the request arrived.
    pub at: Timestamp,
}

/// An earlier request with the same key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EarlierRequest {
    /// Digest of the request.
    pub digest: String,
    /// The process that handles or handled the request.
    pub handler: String,
    /// The answer; `None` if the request has none yet.
    pub answer: Option<String>,
}

impl Journal {
    /// Stores a request under its key, unless there is one with this key: then returns that one. Requests that arrived before `expired` are
    /// deleted first.
    ///
    /// # Errors
    /// A read or write failure.
    pub fn claim_request(
        &self,
        request: KeyedRequest,
        expired: Timestamp,
    ) -> Result<Option<EarlierRequest>, StoreError> {
        let key = request.key.clone();
        let claimed = self.wait_for_write(Box::new(move |db| {
            db.prepare_cached("DELETE FROM request_keys WHERE at < ?1")?
                .execute([integer(expired.0)])?;
            db.prepare_cached(
                "INSERT INTO request_keys (key, digest, handler, at) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING",
            )?
            .execute(params![
                request.key,
                request.digest,
                request.handler,
                integer(request.at.0)
            ])
            .map(|inserted| Ok(inserted as u64))
        }))?;
        if claimed > 0 {
            return Ok(None);
        }
        self.readers().with(|db| {
            db.prepare_cached("SELECT digest, handler, answer FROM request_keys WHERE key = ?1")?
                .query_row([&key], |row| {
                    Ok(EarlierRequest {
                        digest: row.get(0)?,
                        handler: row.get(1)?,
                        answer: row.get(2)?,
                    })
                })
                .optional()
        })
    }

    /// Stores the answer of a request.
    ///
    /// # Errors
    /// A write failure.
    pub fn answer_request(&self, key: String, answer: String) -> Result<(), StoreError> {
        self.write(Box::new(move |db| {
            db.prepare_cached("UPDATE request_keys SET answer = ?2 WHERE key = ?1")?
                .execute(params![key, answer])
                .map(|changed| Ok(changed as u64))
        }))
    }

    /// Deletes a request that had no effect, so that it can be sent again.
    ///
    /// # Errors
    /// A write failure.
    pub fn release_request(&self, key: String) -> Result<(), StoreError> {
        self.write(Box::new(move |db| {
            db.prepare_cached("DELETE FROM request_keys WHERE key = ?1 AND answer IS NULL")?
                .execute([&key])
                .map(|changed| Ok(changed as u64))
        }))
    }
}
