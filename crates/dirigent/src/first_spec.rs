//! The spec with which a run began.

use std::sync::Arc;

use dirigent_core::id::RunId;
use dirigent_core::journal::Input;
use dirigent_core::run::RunInput;
use dirigent_core::spec::{RunSpec, ServiceEndpoints};
use dirigent_store::{Journal, StoreError};

/// Returns the endpoints of the services that a run may use, as they were when it started. Blocks.
pub(crate) fn endpoints_of(journal: &Journal, run: RunId) -> Result<ServiceEndpoints, StoreError> {
    let spec = first_spec(journal, run)?;
    Ok(spec
        .map(|spec| spec.service_endpoints.clone())
        .unwrap_or_default())
}

/// Returns the spec of a run; `None` if it never began. Blocks.
pub(crate) fn first_spec(journal: &Journal, run: RunId) -> Result<Option<Arc<RunSpec>>, StoreError> {
    let first = journal.entries(run, 0, 1)?.into_iter().next();
    Ok(match first.map(|entry| entry.input) {
        Some(Input::Run(RunInput::Started { spec })) => Some(spec),
        Some(_) | None => None,
    })
}
