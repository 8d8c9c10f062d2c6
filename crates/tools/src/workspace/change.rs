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

use super::lock::alone;
use super::place::{Changeable, FinalLink};
use super::system::{
    WithoutWaiting, keep_owner_and_mode, mode, open_folder_itself, rename_without_replacing,
};
use super::{FileFault, MAX_FILE_BYTES, Workspace, regular};

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
enum Unchanged {
    System(io::Error),
    Fault(FileFault),
}

impl From<io::Error> for Unchanged {
    fn from(error: io::Error) -> Self {
        Unchanged::System(error)
    }
}

impl From<FileFault> for Unchanged {
    fn from(fault: FileFault) -> Self {
        Unchanged::Fault(fault)
    }
}

impl Workspace {
    /// Makes `bytes` the content of a file that is not there: [`FileFault::Exists`] otherwise. Whoever looks sees no file or all of it, never a
    /// part; where it fails, nothing has changed. Missing folders are made.
    pub fn create(&self, path: &str, bytes: &[u8]) -> Result<StateChange, FileFault> {
        self.put(path, bytes, Expected::Nothing)
    }

    /// Makes `after` the content of a file where it is still `before`: [`FileFault::Changed`] otherwise. Whoever looks sees the old content or
    /// the new, never a part; where it fails, nothing has changed. Permissions and owner are kept, and a link is followed, not replaced.
    pub fn replace(&self, path: &str, before: &[u8], after: &[u8]) -> Result<StateChange, FileFault> {
        self.put(path, after, Expected::Content(before))
    }

    /// Deletes a file, a link (not what it points to) or an empty folder; where `before` is given, only a file with that content:
    /// [`FileFault::Changed`] otherwise. Without it, what was in a file is not kept.
    pub fn remove(&self, path: &str, before: Option<&[u8]>) -> Result<StateChange, FileFault> {
        let Changeable { folder, name, plain } = self.changeable(path, FinalLink::Keep)?;
        let remove = |folder: &Dir| {
            let metadata = folder.symlink_metadata(&name)?;
            let target = link_target(folder, &name, &metadata)?;
            let version = match before.or(target.as_deref()) {
                Some(content) => Some(self.keep(path, content, &metadata)?),
                None => None,
            };
            let _alone = alone();
            expect(path, folder, &name, before.into())?;
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
            .map_err(Unchanged::from)
            .and_then(|folder| remove(&folder));
        let (path, before) = done.map_err(|unchanged| self.unchanged(path, unchanged))?;
        Ok(StateChange::FileDeleted {
            path,
            diff: None,
            before,
        })
    }

    /// Gives a file, a folder or a link another name; never replaces anything; where `before` is given, only a file with that
    /// content: [`FileFault::Changed`] otherwise. Missing folders are made.
    pub fn rename(&self, from: &str, to: &str, before: Option<&[u8]>) -> Result<StateChange, FileFault> {
        let (source, target) = (
            self.changeable(from, FinalLink::Keep)?,
            self.changeable(to, FinalLink::Keep)?,
        );
        let (old, new) = (source.folder.join(&source.name), target.folder.join(&target.name));
        let old_folder = self
            .folder(&source.folder)
            .map_err(|error| self.fault(from, error))?;
        let metadata = old_folder
            .symlink_metadata(&source.name)
            .map_err(|error| self.fault(from, error))?;
        if new != old && new.starts_with(&old) {
            return Err(FileFault::IntoItself {
                path: from.to_owned(),
            });
        }
        // Before any folder is made; the renaming itself makes sure of it.
        if self.dir.symlink_metadata(&new).is_ok() {
            return Err(FileFault::Exists { path: to.to_owned() });
        }
        let version = self.in_folder(to, &target.folder, |new_folder| {
            let _alone = alone();
            expect(from, &old_folder, &source.name, before.into())?;
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

    fn put(&self, path: &str, bytes: &[u8], expected: Expected<'_>) -> Result<StateChange, FileFault> {
        let Changeable { folder, name, plain } = self.changeable(path, FinalLink::Follow)?;
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
            expect(path, folder, &name, expected)?;
            let before = match (&existing, expected) {
                (Some(metadata), Expected::Content(content)) => Some(self.keep(path, content, metadata)?),
                (Some(_) | None, Expected::Nothing | Expected::Anything) | (None, Expected::Content(_)) => {
                    None
                }
            };
            let mut temporary = TempFile::new(folder)?;
            temporary.write_all(bytes)?;
            if let Some(metadata) = &existing {
                keep_owner_and_mode(temporary.as_file(), metadata)?;
            }
            temporary.as_file().sync_all()?;
            let after = Some(version(bytes, &temporary.as_file().metadata()?));
            let (path_told, diff) = (plain, None);
            let _alone = alone();
            expect(path, folder, &name, expected)?;
            if existing.is_some() {
                temporary.replace(&name)?;
                Ok(StateChange::FileEdited {
                    path: path_told,
                    diff,
                    before,
                    after,
                })
            } else {
                name_new(temporary, folder, &name)?;
                Ok(StateChange::FileCreated {
                    path: path_told,
                    diff,
                    after,
                })
            }
        })
    }

    /// The version of what is about to go, once its content is safe.
    fn keep(&self, path: &str, content: &[u8], metadata: &Metadata) -> Result<FileVersion, FileFault> {
        let version = version(content, metadata);
        if let Some(contents) = &self.contents {
            contents
                .keep(&version.digest, content)
                .map_err(|why| FileFault::NotKept {
                    path: path.to_owned(),
                    why,
                })?;
        }
        Ok(version)
    }

    /// A folder by its real path, opened from the root on; what has become a link meanwhile is not followed.
    fn folder(&self, folder: &Path) -> io::Result<Dir> {
        let mut opened = self.dir.try_clone()?;
        for name in folder {
            opened = open_folder_itself(&opened, name)?;
        }
        Ok(opened)
    }

    /// Runs `change` in the folder of a real path, which is made where it is missing and unmade where the change fails.
    fn in_folder<T>(
        &self,
        path: &str,
        folder: &Path,
        change: impl FnOnce(&Dir) -> Result<T, Unchanged>,
    ) -> Result<T, FileFault> {
        let mut made = Vec::new();
        let attempt = || {
            let (mut opened, mut way) = (self.dir.try_clone()?, PathBuf::new());
            for name in folder {
                way.push(name);
                opened = match open_folder_itself(&opened, name) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {
                        match opened.create_dir(name) {
                            Ok(()) => made.push(way.clone()),
                            // Somebody else made it meanwhile.
                            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                            Err(error) => return Err(error.into()),
                        }
                        open_folder_itself(&opened, name)?
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
        result.map_err(|unchanged| self.unchanged(path, unchanged))
    }

    fn unchanged(&self, path: &str, unchanged: Unchanged) -> FileFault {
        match unchanged {
            Unchanged::System(error) => self.fault(path, error),
            Unchanged::Fault(fault) => fault,
        }
    }
}

/// Renaming over a file asks only for the folder's permission; a file marked read-only was meant so.
fn check_writable(folder: &Dir, name: &OsStr) -> io::Result<()> {
    match folder.open_with(
        name,
        OpenOptions::new().write(true).without_waiting_or_following(),
    ) {
        // A program that is running: it goes on with the old content.
        Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => Ok(()),
        opened => opened.map(drop),
    }
}

/// Names what was written, unless somebody else made something of that name meanwhile, be it another process.
fn name_new(temporary: TempFile<'_>, folder: &Dir, name: &OsStr) -> io::Result<()> {
    // Random, as another process may be doing the same here.
    let interim = OsString::from(format!(".dirigent-{:016x}", RandomState::new().hash_one(name)));
    temporary.replace(&interim)?;
    let named = rename_without_replacing(folder, &interim, folder, name);
    if named.is_err() {
        let _ = folder.remove_file(&interim);
    }
    named
}

fn expect(path: &str, folder: &Dir, name: &OsStr, expected: Expected<'_>) -> Result<(), Unchanged> {
    let path = path.to_owned();
    match expected {
        Expected::Anything => Ok(()),
        Expected::Nothing if folder.symlink_metadata(name).is_ok() => Err(FileFault::Exists { path }.into()),
        Expected::Nothing => Ok(()),
        Expected::Content(before) => match read_itself(folder, name) {
            Ok(bytes) if bytes.as_deref() == Some(before) => Ok(()),
            Ok(_) => Err(FileFault::Changed { path }.into()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(FileFault::Changed { path }.into()),
            Err(error) => Err(error.into()),
        },
    }
}

/// What is in a regular file, or where a link leads; none where that cannot be read, or is too big to be.
fn content(folder: &Dir, name: &OsStr, metadata: &Metadata) -> Option<Vec<u8>> {
    match link_target(folder, name, metadata) {
        Ok(None) => read_itself(folder, name).ok().flatten(),
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
fn read_itself(folder: &Dir, name: &OsStr) -> io::Result<Option<Vec<u8>>> {
    if !folder.symlink_metadata(name)?.is_file() {
        return Ok(None);
    }
    let file = folder.open_with(name, OpenOptions::new().read(true).without_waiting_or_following())?;
    let metadata = file.metadata()?;
    if !metadata.is_file() || metadata.len() > MAX_FILE_BYTES {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= MAX_FILE_BYTES).then_some(bytes))
}

fn version(content: &[u8], metadata: &Metadata) -> FileVersion {
    FileVersion {
        digest: sha256_hex(content),
        mode: mode(metadata),
    }
}
