//! Moves blocking work off the async threads.

use crate::error::RuntimeError;

/// Runs work that blocks on the disk on tokio's blocking threads.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, RuntimeError> + Send + 'static,
) -> Result<T, RuntimeError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(RuntimeError::Stopped {
            reason: error.to_string(),
        }),
    }
}
