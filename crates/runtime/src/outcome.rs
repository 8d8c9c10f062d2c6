//! The outcome of a run.

use std::sync::Arc;

use dirigent_core::run::Report;

use crate::error::RuntimeError;

/// The final result of a run. `None` while the run is active.
pub(crate) type Outcome = Option<Result<Arc<Report>, RuntimeError>>;
