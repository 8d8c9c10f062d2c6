//! The form in which each model calls tools, as determined by a request to the model. Forms are not tied to a
//! run.

use dirigent_core::call::CallForm;
use dirigent_core::time::Timestamp;
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, params};
use serde_json::Value;

use crate::error::StoreError;
use crate::journal::Journal;
use crate::sql::{integer, unsigned};

/// The form in which a model calls tools, as determined by a request to the model (CALL-4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundCallForm {
    /// The address of the server that provides the model.
    pub address: String,
    /// The server's name for the model.
    pub model: String,
    /// The form that was determined.
    pub form: CallForm,
    /// The time at which the form was determined.
    pub at: Timestamp,
}

impl Journal {
    /// Reads the form in which a model calls tools; `None` if the form has not been determined yet.
    ///
    /// # Errors
    /// Any failure to read the journal.
    pub fn call_form(&self, address: &str, model: &str) -> Result<Option<FoundCallForm>, StoreError> {
        self.readers().with(|db| load(db, address, model))
    }

    /// Stores the form in which a model calls tools, and replaces an earlier form. Blocks on the writer
    /// thread, so it must not be called from a callback of [`Journal::append`].
    ///
    /// # Errors
    /// A write failure.
    pub fn store_call_form(&self, found: FoundCallForm) -> Result<(), StoreError> {
        self.write(Box::new(move |db| store(db, &found).map(|()| Ok(0))))
    }
}

fn load(db: &Connection, address: &str, model: &str) -> rusqlite::Result<Option<FoundCallForm>> {
    db.prepare_cached("SELECT form, at FROM call_forms WHERE address = ?1 AND model = ?2")?
        .query_row([address, model], |row| {
            let form: String = row.get(0)?;
            let form = serde_json::from_value(Value::String(form))
                .map_err(|e| rusqlite::Error::FromSqlConversionFailure(0, Type::Text, Box::new(e)))?;
            Ok(FoundCallForm {
                address: address.to_owned(),
                model: model.to_owned(),
                form,
                at: Timestamp(unsigned(row, 1)?),
            })
        })
        .optional()
}

/// Stores a form within a transaction.
fn store(db: &Connection, found: &FoundCallForm) -> rusqlite::Result<()> {
    let FoundCallForm {
        address,
        model,
        form,
        at,
    } = found;
    let form =
        serde_json::to_value(form).map_err(|e| rusqlite::Error::ToSqlConversionFailure(Box::new(e)))?;
    db.prepare_cached("INSERT OR REPLACE INTO call_forms (address, model, form, at) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![address, model, form.as_str(), integer(at.0)])
        .map(drop)
}
