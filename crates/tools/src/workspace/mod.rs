//! The workspace jail: tools read and change files only through this module.
//!
//! The operating system resolves paths beneath the workspace folder, link by link, so neither `..` nor a link leads out, even if a link is
//! created at the same moment. This module never waits for a pipe or a device, leaves no half-written file, and changes none of git's or
//! Dirigent's own files. All calls block on disk access, so async code must run them in a blocking task.

mod change;
mod error;
mod ignore_rules;
mod lock;
mod nearest;
mod resolve;
mod restore;
mod system;
mod walk;

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cap_std::ambient_authority;
use cap_std::fs::{Dir, File, Metadata, OpenOptions};

use crate::content_store::ContentStore;
use crate::tool::ToolContext;

use resolve::FinalLink;
use system::{NonBlocking, special};

pub use error::FileError;
pub(crate) use resolve::{PROTECTED, is_protected};
pub use restore::PreviousState;
pub use walk::{Depth, Entry, EntryKind, Hidden, Walk};

/// The size of the largest file that can be read, in bytes: 16 MiB.
pub const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;

/// A folder that tools work in and cannot leave. Paths are relative to it, with `/`. An absolute path below the folder is accepted too.
#[derive(Debug)]
pub struct Workspace {
    dir: Dir,
    root: PathBuf,
    /// Records the content of files before they are changed.
    content_store: Option<Arc<dyn ContentStore>>,
}

impl Workspace {
    /// Opens the workspace of a call. Contents are recorded for undo if the context has a content store.
    pub fn from_context(context: &ToolContext) -> Result<Self, FileError> {
        Ok(Workspace {
            content_store: context.content_store.clone(),
            ..Workspace::open(&context.workspace)?
        })
    }

    /// Opens the existing folder `root` as a workspace without a content store.
    pub fn open(root: &Path) -> Result<Self, FileError> {
        let workspace_error = |source| FileError::Workspace {
            path: root.display().to_string(),
            source,
        };
        let real = root.canonicalize().map_err(workspace_error)?;
        let dir = Dir::open_ambient_dir(&real, ambient_authority()).map_err(workspace_error)?;
        Ok(Workspace {
            dir,
            root: real,
            content_store: None,
        })
    }

    /// Sets the store that records the content of files before they are changed.
    #[must_use]
    pub fn with_content_store(mut self, content_store: Arc<dyn ContentStore>) -> Self {
        self.content_store = Some(content_store);
        self
    }

    /// Returns the workspace's absolute path with links resolved, for display.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the canonical path of a file or folder, which need not exist: relative to the workspace, with `/`, without `.` and `..`,
    /// links resolved. The workspace itself is `.`.
    pub fn canonical(&self, path: &str) -> Result<String, FileError> {
        self.plain_path(path, FinalLink::Follow)
    }

    /// Like [`Workspace::canonical`], but does not resolve a link at the end of the path.
    pub fn canonical_nofollow(&self, path: &str) -> Result<String, FileError> {
        self.plain_path(path, FinalLink::NoFollow)
    }

    /// Returns the kind of file at a path.
    ///
    /// # Errors
    /// [`FileError::NotFound`] if there is no file, among others.
    pub fn kind(&self, path: &str) -> Result<EntryKind, FileError> {
        let metadata = self.dir.metadata(self.relative(path)?);
        let metadata = metadata.map_err(|error| self.file_error(path, error))?;
        Ok(EntryKind::from_file_type(metadata.file_type()))
    }

    /// Like [`Workspace::kind`], but does not follow a link: links are [`EntryKind::Other`].
    pub fn kind_nofollow(&self, path: &str) -> Result<EntryKind, FileError> {
        let metadata = self.dir.symlink_metadata(self.relative(path)?);
        let metadata = metadata.map_err(|error| self.file_error(path, error))?;
        Ok(EntryKind::from_file_type(metadata.file_type()))
    }

    /// Checks that tools may change a file, without changing it.
    ///
    /// # Errors
    /// [`FileError::Protected`], among others.
    pub(crate) fn check_changeable(&self, path: &str) -> Result<(), FileError> {
        self.changeable(path, FinalLink::Follow).map(drop)
    }

    /// Like [`Workspace::check_changeable`], but checks a link itself instead of its target.
    pub(crate) fn check_changeable_nofollow(&self, path: &str) -> Result<(), FileError> {
        self.changeable(path, FinalLink::NoFollow).map(drop)
    }

    /// Reads a regular file of up to [`MAX_FILE_BYTES`].
    pub fn read(&self, path: &str) -> Result<Vec<u8>, FileError> {
        let file = self.open_file(path)?;
        let too_big = || FileError::TooBig {
            path: path.to_owned(),
            limit: MAX_FILE_BYTES,
        };
        // Check the size first, because reading a huge sparse file would quickly fill the memory.
        let metadata = file.metadata().map_err(|error| self.file_error(path, error))?;
        if metadata.len() > MAX_FILE_BYTES {
            return Err(too_big());
        }
        let mut bytes = Vec::new();
        file.take(MAX_FILE_BYTES + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| self.file_error(path, error))?;
        if bytes.len() as u64 > MAX_FILE_BYTES {
            return Err(too_big());
        }
        Ok(bytes)
    }

    /// Reads up to `max_bytes` from the start of a regular file of any size; `None` if it does not exist.
    pub fn read_start(&self, path: &str, max_bytes: usize) -> Result<Option<Vec<u8>>, FileError> {
        match self.dir.metadata(self.relative(path)?) {
            // Handled here, because the jail's own error would include a search for similar names.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Ok(_) | Err(_) => {}
        }
        let mut bytes = Vec::new();
        self.open_file(path)?
            .take(max_bytes as u64)
            .read_to_end(&mut bytes)
            .map_err(|error| self.file_error(path, error))?;
        Ok(Some(bytes))
    }

    /// Opens a regular file for reading. Never waits for a pipe or a device.
    pub fn open_file(&self, path: &str) -> Result<File, FileError> {
        let relative = self.relative(path)?;
        let metadata = self
            .dir
            .metadata(&relative)
            .map_err(|error| self.file_error(path, error))?;
        check_regular(path, &metadata)?;
        let file = self
            .dir
            .open_with(&relative, OpenOptions::new().read(true).nonblocking())
            .map_err(|error| self.file_error(path, error))?;
        // Check again, because the path may refer to another file by now.
        check_regular(
            path,
            &file.metadata().map_err(|error| self.file_error(path, error))?,
        )?;
        Ok(file)
    }

    fn plain_path(&self, path: &str, link: FinalLink) -> Result<String, FileError> {
        self.resolve(path, link)?.plain(path)
    }

    /// Converts a system error. Adds suggestions if the path was not found.
    fn file_error(&self, path: &str, error: io::Error) -> FileError {
        match FileError::from_io(path, error) {
            FileError::NotFound { path, .. } => FileError::NotFound {
                nearest: self.nearest(&path),
                path,
            },
            other => other,
        }
    }
}

fn check_regular(path: &str, metadata: &Metadata) -> Result<(), FileError> {
    let path = path.to_owned();
    if metadata.is_file() {
        Ok(())
    } else if metadata.is_dir() {
        Err(FileError::IsFolder { path })
    } else {
        let kind = special(metadata.file_type());
        Err(FileError::NotAFile { path, kind })
    }
}
