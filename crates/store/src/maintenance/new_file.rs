//! Files that appear under their final name only once they are complete.

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::error::StoreError;
use crate::files::sync_folder;

/// A new file, accessible only to the current user. Until it is complete, it has a temporary name in the same folder, and is
/// removed on drop.
pub(super) struct NewFile {
    target: PathBuf,
    file: NamedTempFile,
}

impl NewFile {
    /// Creates the file under its temporary name.
    pub(super) fn create(target: &Path) -> Result<Self, StoreError> {
        if target.symlink_metadata().is_ok() {
            let path = target.to_owned();
            return Err(StoreError::FileExists { path });
        }
        let file = tempfile::Builder::new()
            .prefix(".dirigent-")
            .suffix(".partial")
            .tempfile_in(folder(target))
            .map_err(|e| StoreError::io("create the file", target, e))?;
        Ok(NewFile {
            target: target.to_owned(),
            file,
        })
    }

    /// Returns the temporary path.
    pub(super) fn path(&self) -> &Path {
        self.file.path()
    }

    pub(super) fn file(&self) -> &File {
        self.file.as_file()
    }

    /// Gives the complete file its final name; returns its length in bytes. The file is on disk when this
    /// function returns.
    pub(super) fn finish(self) -> Result<u64, StoreError> {
        let NewFile { target, file } = self;
        let bytes = file
            .as_file()
            .sync_all()
            .and_then(|()| file.as_file().metadata())
            .map_err(|e| StoreError::io("write the file", &target, e))?
            .len();
        match file.persist_noclobber(&target) {
            Ok(_) => sync_folder(Some(folder(&target)))
                .map_err(|e| StoreError::io("write the file", &target, e))?,
            Err(e) if e.error.kind() == ErrorKind::AlreadyExists => {
                return Err(StoreError::FileExists { path: target });
            }
            Err(e) => return Err(StoreError::io("create the file", &target, e.error)),
        }
        Ok(bytes)
    }
}

fn folder(file: &Path) -> &Path {
    match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        Some(_) | None => Path::new("."),
    }
}
