//! A folder for the temporary files of one command, gone when the command is.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

/// How often to try: a process that was killed this moment may still write a file.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(20);

/// The folder. It blocks when it is dropped.
#[derive(Debug)]
pub(super) struct Temporary {
    folder: TempDir,
}

impl Temporary {
    pub(super) fn new() -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("dirigent-").tempdir()?;
        fs::create_dir(folder.path().join("cache"))?;
        Ok(Temporary { folder })
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        for _ in 0..TRIES {
            match fs::remove_dir_all(self.folder.path()) {
                Ok(()) => return,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return,
                Err(_) => open_up(self.folder.path()),
            }
            thread::sleep(PAUSE);
        }
    }
}

/// Some caches take away the right to change their own folders. Links are not followed.
fn open_up(folder: &Path) {
    let _ = fs::set_permissions(folder, Permissions::from_mode(0o700));
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_up(&entry.path());
        }
    }
}
