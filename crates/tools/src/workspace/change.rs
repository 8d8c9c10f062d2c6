//! Changing files: all of a change or none of it, and only where what is there is what was expected.
//!
//! A new content is written beside the file and then takes its name, so that a crash, a full disk or a signal leaves the old file or the new
//! one. Where the file system can (`O_TMPFILE`, as ext4, XFS, Btrfs and tmpfs), what is written has no name until it is whole and on the disk,
//! and goes with the process that writes it; a process that is killed between naming and renaming leaves a whole copy behind, named at random
//! or `.dirigent-…`. Elsewhere it has a random name all the while, and a process that is killed leaves what it has written under that name.
//!
//! The folder is opened from the root on, no link followed, and everything is done in the folder that was opened: whoever puts a link in its
//! place meanwhile leads nobody elsewhere.
//!
//! A file of several names (hard links) has the other content under the one name afterwards; what the others name stays as it was, be it in
//! the workspace or outside. Reading goes by permissions alone: the system does not tell where a file's other names are, and package managers
//! link whole trees.

use std::ffi::{OsStr, OsString};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use cap_std::fs::{Dir, Metadata, OpenOptions};
use cap_tempfile::TempFile;
use dirigent_core::digest::sha256_hex;
use dirigent_core::tool::{FileVersion, StateChange};

use super::lock::lock_replacing;
use super::resolve::{ChangeablePath, FinalLink};
use super::system::{NonBlocking, copy_owner_and_mode, mode, open_folder_nofollow, rename_without_replacing};
use super::{FileError, MAX_FILE_BYTES, Workspace, regular};

/// What must be there for a change to be made.
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

/// Why a change was not made.
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
    fn from(fault: FileError) -> Self {
        ChangeError::File(fault)
    }
}

impl Workspace {
    /// Makes `bytes` the content of a file that is not there: [`FileError::Exists`] otherwise. Whoever looks sees no file or all of it, never a
    /// part; where it fails, nothing has changed. Missing folders are made.
    pub fn create(&self, path: &str, bytes: &[u8]) -> Result<StateChange, FileError> {
        self.write_atomically(path, bytes, Expected::Nothing)
    }

    /// Makes `after` the content of a file where it is still `before`: [`FileError::Changed`] otherwise. Whoever looks sees the old content or
    /// the new, never a part; where it fails, nothing has changed. Permissions and owner are kept, and a link is followed, not replaced.
    pub fn replace(&self, path: &str, before: &[u8], after: &[u8]) -> Result<StateChange, FileError> {
        self.write_atomically(path, after, Expected::Content(before))
    }

    /// Deletes a file, a link (not what it points to) or an empty folder; where `before` is given, only a file with that content:
    /// [`FileError::Changed`] otherwise. Without it, what was in a file is not kept.
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
        let done = self
            .folder(&folder)
            .map_err(ChangeError::from)
            .and_then(|folder| remove(&folder));
        let (path, before) = done.map_err(|unchanged| self.change_error(path, unchanged))?;
        Ok(StateChange::FileDeleted {
            path,
            diff: None,
            before,
        })
    }

    /// Gives a file, a folder or a link another name; never replaces anything; where `before` is given, only a file with that
    /// content: [`FileError::Changed`] otherwise. Missing folders are made.
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
        // Before any folder is made; the renaming itself makes sure of it.
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
                regular(path, metadata)?;
                check_writable(folder, &name)?;
            }
            // Before anything is written; again, and then for good, when all is ready to take its place.
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
            let (path_told, diff) = (plain, None);
            let _guard = lock_replacing();
            check_expected(path, folder, &name, expected)?;
            if existing.is_some() {
                temporary.replace(&name)?;
                Ok(StateChange::FileEdited {
                    path: path_told,
                    diff,
                    before,
                    after,
                })
            } else {
                persist_noclobber(temporary, folder, &name)?;
                Ok(StateChange::FileCreated {
                    path: path_told,
                    diff,
                    after,
                })
            }
        })
    }

    /// The version of what is about to go, once its content is safe.
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

    /// A folder by its real path, opened from the root on; what has become a link meanwhile is not followed.
    pub(super) fn folder(&self, folder: &Path) -> io::Result<Dir> {
        let mut opened = self.dir.try_clone()?;
        for name in folder {
            opened = open_folder_nofollow(&opened, name)?;
        }
        Ok(opened)
    }

    /// Runs `change` in the folder of a real path, which is made where it is missing and unmade where the change fails.
    pub(super) fn in_folder<T>(
        &self,
        path: &str,
        folder: &Path,
        change: impl FnOnce(&Dir) -> Result<T, ChangeError>,
    ) -> Result<T, FileError> {
        let mut made = Vec::new();
        let attempt = || {
            let (mut opened, mut way) = (self.dir.try_clone()?, PathBuf::new());
            for name in folder {
                way.push(name);
                opened = match open_folder_nofollow(&opened, name) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {
                        match opened.create_dir(name) {
                            Ok(()) => made.push(way.clone()),
                            // Somebody else made it meanwhile.
                            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                            Err(error) => return Err(error.into()),
                        }
                        open_folder_nofollow(&opened, name)?
                    }
                    there => there?,
                };
            }
            change(&opened)
        };
        let result = attempt();
        if result.is_err() {
            for folder in made.into_iter().rev() {
                // Only ever succeeds on an empty folder, so nothing of anybody else's is lost.
                let _ = self.dir.remove_dir(folder);
            }
        }
        result.map_err(|unchanged| self.change_error(path, unchanged))
    }

    fn change_error(&self, path: &str, unchanged: ChangeError) -> FileError {
        match unchanged {
            ChangeError::Io(error) => self.file_error(path, error),
            ChangeError::File(fault) => fault,
        }
    }
}

/// Renaming over a file asks only for the folder's permission; a file marked read-only was meant so.
fn check_writable(folder: &Dir, name: &OsStr) -> io::Result<()> {
    match folder.open_with(name, OpenOptions::new().write(true).nonblocking_nofollow()) {
        // A program that is running: it goes on with the old content.
        Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => Ok(()),
        opened => opened.map(drop),
    }
}

/// Names what was written, unless somebody else made something of that name meanwhile, be it another process.
fn persist_noclobber(temporary: TempFile<'_>, folder: &Dir, name: &OsStr) -> io::Result<()> {
    // Random, as another process may be doing the same here.
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

/// What is in a regular file, or where a link leads; none where that cannot be read, or is too big to be.
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

/// The content of a file that is no link; none where it is not regular, or too big.
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

pub(super) fn version(content: &[u8], metadata: &Metadata) -> FileVersion {
    FileVersion {
        digest: sha256_hex(content),
        mode: mode(metadata),
    }
}
