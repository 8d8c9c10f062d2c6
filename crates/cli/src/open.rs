//! Opens the journal, with or without the configuration.

use std::path::PathBuf;

use dirigent::{Builder, Config, Dirigent, DirigentError, StoreError};

/// Opens the journal without reading the configuration; runs started with it use the offline model.
pub(crate) async fn open(db: Option<PathBuf>) -> Result<Dirigent, DirigentError> {
    build(Dirigent::builder(), db).await
}

/// Opens the journal for a command about an existing run. A journal given with `--db` must exist; the default journal may be missing,
/// because the first run creates it.
pub(crate) async fn open_existing(builder: Builder, db: Option<PathBuf>) -> Result<Dirigent, DirigentError> {
    let builder = if db.is_some() {
        builder.existing_journal()
    } else {
        builder
    };
    build(builder, db).await
}

/// Opens the journal for a command that only reads it.
pub(crate) async fn open_reading(db: Option<PathBuf>) -> Result<Dirigent, DirigentError> {
    build(Dirigent::builder().read_only_journal(), db).await
}

/// Opens the journal for a command that only reads it; `None` if it is the default journal and does not exist yet.
pub(crate) async fn open_if_created(db: Option<PathBuf>) -> Result<Option<Dirigent>, DirigentError> {
    match db {
        Some(_) => open_reading(db).await.map(Some),
        None => open_if_exists(db).await,
    }
}

/// Opens the journal for a command that reads it but also works without it; `None` if there is no journal.
pub(crate) async fn open_if_exists(db: Option<PathBuf>) -> Result<Option<Dirigent>, DirigentError> {
    match open_reading(db).await {
        Ok(dirigent) => Ok(Some(dirigent)),
        Err(error) if matches!(error.store_error(), Some(StoreError::Missing { .. })) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Opens the journal for runs that use the configured models.
pub(crate) async fn open_configured(db: Option<PathBuf>, config: &Config) -> Result<Dirigent, DirigentError> {
    build(Dirigent::builder().config(config), db).await
}

pub(crate) async fn build(builder: Builder, db: Option<PathBuf>) -> Result<Dirigent, DirigentError> {
    match db {
        Some(path) => builder.journal(path).build().await,
        None => builder.build().await,
    }
}
