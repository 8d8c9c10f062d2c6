//! The outcome of a run.

use std::sync::Arc;

use dirigent_core::run::Report;

use crate::error::RuntimeError;

/// The result for those who wait for a run's end; `None` while the run is active.
pub(crate) type Outcome = Option<Result<Arc<Report>, RuntimeError>>;
