//! Changing files atomically, and only if a file is in the state that the caller expects.
//!
//! New content is written to a temporary file in the same folder, which then takes the file's name. A crash, a full disk or a signal therefore
//! leaves either the old file or the new one. On file systems with `O_TMPFILE` (ext4, XFS, Btrfs, tmpfs), the temporary file has no name until
//! it is complete and on the disk, and disappears with its process; a process killed between naming and renaming leaves a complete copy with
//! a random name or `.dirigent-…`. On other file systems, it has a random name from the start, and a killed process leaves it behind.
//!
//! The folder is opened from the root on without following links, and all operations use the opened folder. Therefore, if the folder is
//! replaced by a link during an operation, the link has no effect.
//!
//! If a file has several names (hard links), only the changed path gets the new content; the other names keep
//! the old content, whether they are inside or outside the workspace. A file with several names can be read
//! like any other, because the system does not reveal its other names, and package managers hard-link whole
//! trees.

use std::ffi::{OsStr, OsString};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use cap_std::fs::{Dir, Metadata, OpenOptions};
use cap_tempfile::TempFile;
use dirigent_core::tool::{FileVersion, StateChange};

use super::lock::lock_replacing;
use super::resolve::{ChangeablePath, FinalLink};
use super::system::{
    NonBlocking, copy_owner_and_mode, open_folder_nofollow, rename_without_replacing, version,
};
use super::{FileError, MAX_FILE_BYTES, Workspace, check_regular};

/// The state of a path that a change requires.
#[derive(Clone, Copy)]
enum Expected<'a> {
    Anything,
    Nothing,
    Content(&'a [u8]),
}

impl<'a> From<Option<&'a [u8]>> for Expected<'a> {
    fn from(content: Option<&'a [u8]>) -> Self {
        content.map_or(Expected::Anything, Expected::Content)
    }
}

/// Reason why a change was not made.
pub(super) enum ChangeError {
    Io(io::Error),
    File(FileError),
}

impl From<io::Error> for ChangeError {
    fn from(error: io::Error) -> Self {
        ChangeError::Io(error)
    }
}

impl From<FileError> for ChangeError {
    fn from(error: FileError) -> Self {
        ChangeError::File(error)
    }
}

impl Workspace {
    /// Creates a file with this content, and the missing folders of its path. Readers see either no file or the whole file. On failure,
    /// nothing has changed.
    ///
    /// # Errors
    /// [`FileError::Exists`] if the path is taken, among others.
    pub fn create(&self, path: &str, bytes: &[u8]) -> Result<StateChange, FileError> {
        self.write_atomically(path, bytes, Expected::Nothing)
    }

    /// Replaces the content `before` of a file by `after`. Readers see either the old or the new content. On failure, nothing has changed. The
    /// file keeps its permissions and owner; a link is followed, not replaced.
    ///
    /// # Errors
    /// [`FileError::Changed`] if the content is no longer `before`, among others.
    pub fn replace(&self, path: &str, before: &[u8], after: &[u8]) -> Result<StateChange, FileError> {
        self.write_atomically(path, after, Expected::Content(before))
    }

    /// Deletes a file, a link (not its target) or an empty folder. `before` is the content that the file must have, which is recorded for
    /// undo. If `before` is `None`, any content is accepted, and the content of a regular file is not recorded.
    ///
    /// # Errors
    /// [`FileError::Changed`] if the content is no longer `before`, among others.
    pub fn remove(&self, path: &str, before: Option<&[u8]>) -> Result<StateChange, FileError> {
        let ChangeablePath { folder, name, plain } = self.changeable(path, FinalLink::NoFollow)?;
        let remove = |folder: &Dir| {
            let metadata = folder.symlink_metadata(&name)?;
            let target = link_target(folder, &name, &metadata)?;
            let version = match before.or(target.as_deref()) {
                Some(content) => Some(self.record(&plain, content, &metadata)?),
                None => None,
            };
            let _guard = lock_replacing();
            check_expected(path, folder, &name, before.into())?;
            if metadata.is_dir() {
                folder.remove_dir(&name)?;
                Ok((format!("{plain}/"), version))
            } else {
                folder.remove_file(&name)?;
                Ok((plain, version))
            }
        };
        let removed = self
            .folder(&folder)
            .map_err(ChangeError::from)
            .and_then(|folder| remove(&folder));
        let (path, before) = removed.map_err(|error| self.change_error(path, error))?;
        Ok(StateChange::FileDeleted {
            path,
            diff: None,
            before,
        })
    }

    /// Renames a file, a folder or a link, and creates the missing folders of the new path. `before` is the content that the file must
    /// have; `None` accepts any content. Never replaces an existing file.
    ///
    /// # Errors
    /// [`FileError::Exists`] if the new path is taken, [`FileError::Changed`] if the content is no longer `before`, among others.
    pub fn rename(&self, from: &str, to: &str, before: Option<&[u8]>) -> Result<StateChange, FileError> {
        let (source, target) = (
            self.changeable(from, FinalLink::NoFollow)?,
            self.changeable(to, FinalLink::NoFollow)?,
        );
        let (old, new) = (source.folder.join(&source.name), target.folder.join(&target.name));
        let old_folder = self
            .folder(&source.folder)
            .map_err(|error| self.file_error(from, error))?;
        let metadata = old_folder
            .symlink_metadata(&source.name)
            .map_err(|error| self.file_error(from, error))?;
        if new != old && new.starts_with(&old) {
            return Err(FileError::IntoItself {
                path: from.to_owned(),
            });
        }
        // Check before any folder is created. The rename itself checks again.
        if self.dir.symlink_metadata(&new).is_ok() {
            return Err(FileError::Exists { path: to.to_owned() });
        }
        let version = self.in_folder(to, &target.folder, |new_folder| {
            let _guard = lock_replacing();
            check_expected(from, &old_folder, &source.name, before.into())?;
            let content = match before {
                Some(_) => None,
                None => content(&old_folder, &source.name, &metadata),
            };
            rename_without_replacing(&old_folder, &source.name, new_folder, &target.name)?;
            Ok(before
                .or(content.as_deref())
                .map(|content| version(content, &metadata)))
        })?;
        Ok(StateChange::FileMoved {
            from: source.plain,
            to: target.plain,
            version,
        })
    }

    fn write_atomically(
        &self,
        path: &str,
        bytes: &[u8],
        expected: Expected<'_>,
    ) -> Result<StateChange, FileError> {
        let ChangeablePath { folder, name, plain } = self.changeable(path, FinalLink::Follow)?;
        self.in_folder(path, &folder, |folder| {
            let existing = match folder.symlink_metadata(&name) {
                Ok(metadata) => Some(metadata),
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                Err(error) => return Err(error.into()),
            };
            if let Some(metadata) = &existing {
                check_regular(path, metadata)?;
                check_writable(folder, &name)?;
            }
            // Checked before anything is written, and again under the lock, right before the replacement.
            check_expected(path, folder, &name, expected)?;
            let before = match (&existing, expected) {
                (Some(metadata), Expected::Content(content)) => Some(self.record(&plain, content, metadata)?),
                (Some(_) | None, Expected::Nothing | Expected::Anything) | (None, Expected::Content(_)) => {
                    None
                }
            };
            let mut temporary = TempFile::new(folder)?;
            temporary.write_all(bytes)?;
            if let Some(metadata) = &existing {
                copy_owner_and_mode(temporary.as_file(), metadata)?;
            }
            temporary.as_file().sync_all()?;
            let after = Some(version(bytes, &temporary.as_file().metadata()?));
            let (plain_path, diff) = (plain, None);
            let _guard = lock_replacing();
            check_expected(path, folder, &name, expected)?;
            if existing.is_some() {
                temporary.replace(&name)?;
                Ok(StateChange::FileEdited {
                    path: plain_path,
                    diff,
                    before,
                    after,
                })
            } else {
                persist_noclobber(temporary, folder, &name)?;
                Ok(StateChange::FileCreated {
                    path: plain_path,
                    diff,
                    after,
                })
            }
        })
    }

    /// Records the content that is about to be replaced or deleted, and returns the file's version.
    pub(super) fn record(
        &self,
        plain: &str,
        content: &[u8],
        metadata: &Metadata,
    ) -> Result<FileVersion, FileError> {
        let version = version(content, metadata);
        if let Some(content_store) = &self.content_store {
            content_store
                .record(plain, &version, content)
                .map_err(|why| FileError::NotKept {
                    path: plain.to_owned(),
                    why,
                })?;
        }
        Ok(version)
    }

    /// Opens a folder by its real path, one component after the other from the root, without following links.
    pub(super) fn folder(&self, folder: &Path) -> io::Result<Dir> {
        let mut opened = self.dir.try_clone()?;
        for name in folder {
            opened = open_folder_nofollow(&opened, name)?;
        }
        Ok(opened)
    }

    /// Runs `change` in `folder`, a path without links. Creates missing folders first, and removes them again if the change fails.
    pub(super) fn in_folder<T>(
        &self,
        path: &str,
        folder: &Path,
        change: impl FnOnce(&Dir) -> Result<T, ChangeError>,
    ) -> Result<T, FileError> {
        let mut created = Vec::new();
        let run = || {
            let (mut opened, mut ancestor) = (self.dir.try_clone()?, PathBuf::new());
            for name in folder {
                ancestor.push(name);
                opened = match open_folder_nofollow(&opened, name) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {
                        match opened.create_dir(name) {
                            Ok(()) => created.push(ancestor.clone()),
                            // Another process has created the folder in the meantime.
                            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                            Err(error) => return Err(error.into()),
                        }
                        open_folder_nofollow(&opened, name)?
                    }
                    result => result?,
                };
            }
            change(&opened)
        };
        let result = run();
        if result.is_err() {
            for folder in created.into_iter().rev() {
                // Succeeds only for an empty folder, so no files of other processes are lost.
                let _ = self.dir.remove_dir(folder);
            }
        }
        result.map_err(|error| self.change_error(path, error))
    }

    fn change_error(&self, path: &str, error: ChangeError) -> FileError {
        match error {
            ChangeError::Io(error) => self.file_error(path, error),
            ChangeError::File(error) => error,
        }
    }
}

/// Checks that the file itself is writable. Renaming another file over it would need only the folder's permission, but a read-only file
/// must not be replaced.
fn check_writable(folder: &Dir, name: &OsStr) -> io::Result<()> {
    match folder.open_with(name, OpenOptions::new().write(true).nonblocking_nofollow()) {
        // The file is a running program, which continues with the old content.
        Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => Ok(()),
        opened => opened.map(drop),
    }
}

/// Gives the temporary file its final name. Fails if another file has taken the name in the meantime.
fn persist_noclobber(temporary: TempFile<'_>, folder: &Dir, name: &OsStr) -> io::Result<()> {
    // A random name, because another process may be creating a file in this folder at the same time.
    let interim = OsString::from(format!(".dirigent-{:016x}", RandomState::new().hash_one(name)));
    temporary.replace(&interim)?;
    let named = rename_without_replacing(folder, &interim, folder, name);
    if named.is_err() {
        let _ = folder.remove_file(&interim);
    }
    named
}

fn check_expected(path: &str, folder: &Dir, name: &OsStr, expected: Expected<'_>) -> Result<(), ChangeError> {
    let path = path.to_owned();
    match expected {
        Expected::Anything => Ok(()),
        Expected::Nothing if folder.symlink_metadata(name).is_ok() => Err(FileError::Exists { path }.into()),
        Expected::Nothing => Ok(()),
        Expected::Content(before) => match read_nofollow(folder, name) {
            Ok(bytes) if bytes.as_deref() == Some(before) => Ok(()),
            Ok(_) => Err(FileError::Changed { path }.into()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(FileError::Changed { path }.into()),
            Err(error) => Err(error.into()),
        },
    }
}

/// Returns the content of a regular file or the target of a link; `None` if it cannot be read or is too big.
fn content(folder: &Dir, name: &OsStr, metadata: &Metadata) -> Option<Vec<u8>> {
    match link_target(folder, name, metadata) {
        Ok(None) => read_nofollow(folder, name).ok().flatten(),
        target => target.ok().flatten(),
    }
}

fn link_target(folder: &Dir, name: &OsStr, metadata: &Metadata) -> io::Result<Option<Vec<u8>>> {
    if !metadata.is_symlink() {
        return Ok(None);
    }
    let target = folder.read_link_contents(name)?;
    Ok(Some(target.into_os_string().into_encoded_bytes()))
}

/// Reads a file that is not a link; `None` if it is not a regular file, or too big.
fn read_nofollow(folder: &Dir, name: &OsStr) -> io::Result<Option<Vec<u8>>> {
    if !folder.symlink_metadata(name)?.is_file() {
        return Ok(None);
    }
    let file = folder.open_with(name, OpenOptions::new().read(true).nonblocking_nofollow())?;
    let metadata = file.metadata()?;
    if !metadata.is_file() || metadata.len() > MAX_FILE_BYTES {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= MAX_FILE_BYTES).then_some(bytes))
}
