//! Keeps blocking work off the async threads.

use dirigent_runtime::RuntimeError;

use crate::DirigentError;

/// Runs work that blocks on the disk on tokio's blocking threads, so that it does not delay the actors.
pub(crate) async fn blocking<T, E>(
    work: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T, DirigentError>
where
    T: Send + 'static,
    E: Send + 'static,
    DirigentError: From<E>,
{
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => Ok(result?),
        // The work panicked, or the async runtime is shutting down.
        Err(error) => Err(DirigentError::Runtime(RuntimeError::Stopped {
            reason: error.to_string(),
        })),
    }
}
