//! The temporary folder of one command.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use cap_std::ambient_authority;
use cap_std::fs::Dir;

use crate::removal::remove;

/// Number of attempts to remove the folder. Removal can fail because a process that was just killed is still
/// writing a file.
const REMOVE_ATTEMPTS: u32 = 5;
const REMOVE_INTERVAL: Duration = Duration::from_millis(20);

/// A temporary folder, which is removed on drop. Dropping blocks.
#[derive(Debug)]
pub(super) struct TemporaryFolder {
    folder: PathBuf,
}

impl TemporaryFolder {
    pub(super) fn new() -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("dirigent-").tempdir()?.keep();
        let temporary = TemporaryFolder { folder };
        fs::create_dir(temporary.folder.join("cache"))?;
        Ok(temporary)
    }

    pub(super) fn path(&self) -> &Path {
        &self.folder
    }

    fn remove(&self) -> io::Result<()> {
        let (Some(parent), Some(name)) = (self.folder.parent(), self.folder.file_name()) else {
            return Ok(());
        };
        let parent = Dir::open_ambient_dir(parent, ambient_authority())?;
        remove(&parent, Path::new(name))
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        for _ in 0..REMOVE_ATTEMPTS {
            match self.remove() {
                Ok(()) => return,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return,
                Err(_) => thread::sleep(REMOVE_INTERVAL),
            }
        }
    }
}
