//! Keeps blocking work off the async threads.

use dirigent_runtime::RuntimeError;
use dirigent_store::Journal;

use crate::DirigentError;

/// Reads or writes the journal on tokio's blocking threads.
pub(crate) async fn with_journal<T: Send + 'static>(
    journal: &Journal,
    work: impl FnOnce(&Journal) -> Result<T, DirigentError> + Send + 'static,
) -> Result<T, DirigentError> {
    let journal = journal.clone();
    blocking(move || work(&journal)).await
}

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
