//! Default paths.

use std::path::PathBuf;

use etcetera::BaseStrategy;

use crate::DirigentError;

/// Returns the default path of the journal: `dirigent/journal.db` in the user's data folder (`XDG_DATA_HOME`, or `~/.local/share`).
///
/// # Errors
/// [`DirigentError::NoDataFolder`] if the user's home folder is unknown.
pub fn default_journal() -> Result<PathBuf, DirigentError> {
    let strategy = etcetera::choose_base_strategy().map_err(|_| DirigentError::NoDataFolder)?;
    Ok(strategy.data_dir().join("dirigent").join("journal.db"))
}
