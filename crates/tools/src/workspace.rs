//! The workspace jail: every file that a tool reads or changes goes through here.
//!
//! Paths are resolved beneath the folder by the system, link by link, so that neither `..` nor a link leads out, not
//! even one that is put there meanwhile. Nothing here blocks on a pipe or device, writes half a file, or changes
//! git's or Dirigent's own files. All calls block on the disk: async code runs them in a blocking task.

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

use crate::{ContentStore, ToolContext};

use resolve::FinalLink;
use system::{NonBlocking, special};

pub use error::FileError;
pub(crate) use resolve::{PROTECTED, is_protected};
pub use restore::PreviousState;
pub use walk::{Depth, Entry, Hidden, Kind, Walk};

/// The most bytes that are read from one file: 16 MiB.
pub const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;

/// A folder that tools work in and cannot leave. Paths are relative to it, with `/`; an absolute path that begins with
/// the folder's own is taken as relative to it.
#[derive(Debug)]
pub struct Workspace {
    dir: Dir,
    root: PathBuf,
    /// Where what was in a file is kept before it is changed.
    content_store: Option<Arc<dyn ContentStore>>,
}

impl Workspace {
    /// The workspace of a call, where what the call changes can be undone.
    pub fn from_context(context: &ToolContext) -> Result<Self, FileError> {
        Ok(Workspace {
            content_store: context.content_store.clone(),
            ..Workspace::open(&context.workspace)?
        })
    }

    /// The workspace at `root`, an existing folder. What was in its files before a change is not kept.
    pub fn open(root: &Path) -> Result<Self, FileError> {
        let fault = |source| FileError::Workspace {
            path: root.display().to_string(),
            source,
        };
        let real = root.canonicalize().map_err(fault)?;
        let dir = Dir::open_ambient_dir(&real, ambient_authority()).map_err(fault)?;
        Ok(Workspace {
            dir,
            root: real,
            content_store: None,
        })
    }

    /// The same, where what was in files is kept there before a change.
    #[must_use]
    pub fn with_content_store(mut self, content_store: Arc<dyn ContentStore>) -> Self {
        self.content_store = Some(content_store);
        self
    }

    /// Its absolute path, links resolved; for display.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The path of a file or folder, there or not, in its plain form: relative, with `/`, without `.` and `..`, links
    /// resolved; `.` for the workspace itself.
    pub fn canonical(&self, path: &str) -> Result<String, FileError> {
        self.plain(path, FinalLink::Follow)
    }

    /// Like [`Workspace::canonical`], but a link at the end counts as itself.
    pub fn canonical_nofollow(&self, path: &str) -> Result<String, FileError> {
        self.plain(path, FinalLink::NoFollow)
    }

    /// What there is at a path; [`FileError::NotFound`] for nothing.
    pub fn kind(&self, path: &str) -> Result<Kind, FileError> {
        let metadata = self.dir.metadata(self.relative(path)?);
        Ok(kind(&metadata.map_err(|error| self.file_error(path, error))?))
    }

    /// Like [`Workspace::kind`], but a link counts as itself: [`Kind::Other`].
    pub fn kind_nofollow(&self, path: &str) -> Result<Kind, FileError> {
        let metadata = self.dir.symlink_metadata(self.relative(path)?);
        Ok(kind(&metadata.map_err(|error| self.file_error(path, error))?))
    }

    /// Whether a file may be changed, as far as that can be said without changing it: [`FileError::Protected`] otherwise, among others.
    pub(crate) fn check_changeable(&self, path: &str) -> Result<(), FileError> {
        self.changeable(path, FinalLink::Follow).map(drop)
    }

    /// The same of a link itself.
    pub(crate) fn check_changeable_nofollow(&self, path: &str) -> Result<(), FileError> {
        self.changeable(path, FinalLink::NoFollow).map(drop)
    }

    /// The content of a regular file of up to [`MAX_FILE_BYTES`].
    pub fn read(&self, path: &str) -> Result<Vec<u8>, FileError> {
        let file = self.open_file(path)?;
        let too_big = || FileError::TooBig {
            path: path.to_owned(),
            limit: MAX_FILE_BYTES,
        };
        // One with holes in it is read as fast as memory is filled, but need not be.
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

    /// A regular file, open for reading; never waits for a pipe or a device.
    pub fn open_file(&self, path: &str) -> Result<File, FileError> {
        let relative = self.relative(path)?;
        let metadata = self
            .dir
            .metadata(&relative)
            .map_err(|error| self.file_error(path, error))?;
        regular(path, &metadata)?;
        let file = self
            .dir
            .open_with(&relative, OpenOptions::new().read(true).nonblocking())
            .map_err(|error| self.file_error(path, error))?;
        // Again, as it may be another file by now.
        regular(
            path,
            &file.metadata().map_err(|error| self.file_error(path, error))?,
        )?;
        Ok(file)
    }

    fn plain(&self, path: &str, link: FinalLink) -> Result<String, FileError> {
        self.resolve(path, link)?.plain(path)
    }

    /// What an error means; a name that was not found gets suggestions.
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

fn kind(metadata: &Metadata) -> Kind {
    if metadata.is_file() {
        Kind::File
    } else if metadata.is_dir() {
        Kind::Folder
    } else {
        Kind::Other
    }
}

fn regular(path: &str, metadata: &Metadata) -> Result<(), FileError> {
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
