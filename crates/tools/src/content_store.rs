//! The interface to the storage of the original contents that an undo restores.

use std::collections::BTreeSet;
use std::fmt;

use dirigent_core::tool::FileVersion;
use dirigent_core::undo::UndoPlan;

/// Content-addressed storage for the content of files before they are changed. All methods block.
pub trait ContentStore: fmt::Debug + Send + Sync + 'static {
    /// Records the content of the file at `path` (relative to the workspace, with `/`) under the digest of its version. The content is
    /// on disk when the method returns.
    ///
    /// # Errors
    /// A message that says why the content could not be recorded. After this error, the caller must not change the file.
    fn record(&self, path: &str, version: &FileVersion, bytes: &[u8]) -> Result<(), String>;

    /// Returns the content with this digest, or `None` if it was never recorded.
    ///
    /// # Errors
    /// A message that says why the storage cannot be read.
    fn load(&self, digest: &str) -> Result<Option<Vec<u8>>, String>;

    /// Returns the paths of the files whose content was recorded during the run. Empty if the storage does not know the run.
    ///
    /// # Errors
    /// A message that says why the storage cannot be read.
    fn recorded_paths(&self) -> Result<BTreeSet<String>, String> {
        Ok(BTreeSet::new())
    }

    /// Returns the changes of the run's finished calls so far.
    ///
    /// # Errors
    /// A message that says why the changes are unknown, for instance because there is no run.
    fn run_changes(&self) -> Result<RunChanges, String>;
}

/// The file changes of a run so far.
#[derive(Clone, Debug, Default)]
pub struct RunChanges {
    /// The steps that undo the changes.
    pub undoing: UndoPlan,
    /// Files that interrupted calls may have changed without reporting the change, each with its version before the call.
    pub unreported: Vec<(String, FileVersion)>,
}
