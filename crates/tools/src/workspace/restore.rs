//! Restores paths to their previous state, to undo a run and for the `undo` operation of agents.

use std::io::{self, Write};
use std::path::Path;

use cap_std::fs::Metadata;
use cap_tempfile::TempFile;
use dirigent_core::undo::PathState;

use super::lock::lock_replacing;
use super::resolve::{ChangeablePath, FinalLink};
use super::system::{self, rename_without_replacing, version};
use super::{FileError, Workspace};

/// The state to which a path is restored.
#[derive(Clone, Copy, Debug)]
pub enum PreviousState<'a> {
    /// Neither a file nor a folder.
    Nothing,
    /// A folder.
    Folder,
    /// A file with this content or a link with this target. The number contains its kind and permissions
    /// (`st_mode`).
    File(&'a [u8], u32),
}

impl Workspace {
    /// Returns the current state of a path, without following a link at its end. Returns [`PathState::Unknown`] for a path through a link,
    /// for files larger than [`super::MAX_FILE_BYTES`], and for anything but files, folders and links.
    pub fn path_state(&self, path: &str) -> Result<PathState, FileError> {
        self.path_state_and_content(path).map(|(state, _)| state)
    }

    /// Like [`Workspace::path_state`]. Also returns the content of a file, or the target of a link, whose state is known.
    pub(crate) fn path_state_and_content(
        &self,
        path: &str,
    ) -> Result<(PathState, Option<Vec<u8>>), FileError> {
        let relative = self.relative(path)?;
        let metadata = match self.dir.symlink_metadata(&relative) {
            Ok(metadata) => metadata,
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) =>
            {
                return Ok((PathState::Nothing, None));
            }
            Err(error) => return Err(FileError::from_io(path, error)),
        };
        if self.canonical_nofollow(path)? != path {
            return Ok((PathState::Unknown, None));
        }
        if metadata.is_dir() {
            return Ok((PathState::Folder, None));
        }
        Ok(match self.content_nofollow(path, &relative, &metadata)? {
            Some(bytes) => (PathState::File(version(&bytes, &metadata)), Some(bytes)),
            None => (PathState::Unknown, None),
        })
    }

    /// Restores a path to its previous state, after recording its current content. If `expected` is [`PathState::Nothing`], an empty folder
    /// at the path is removed first.
    ///
    /// # Errors
    /// [`FileError::Changed`] if the state is not `expected`, among others.
    pub fn restore(
        &self,
        path: &str,
        expected: &PathState,
        previous: PreviousState<'_>,
    ) -> Result<(), FileError> {
        let ChangeablePath { folder, name, plain } = self.changeable(path, FinalLink::NoFollow)?;
        let relative = folder.join(&name);
        let check_expected = || {
            self.clear(path, &relative, expected)?;
            if self.path_state(path)? == *expected {
                Ok(())
            } else {
                Err(FileError::Changed {
                    path: path.to_owned(),
                })
            }
        };
        check_expected()?;
        if let PathState::File(_) = expected {
            let metadata = self.dir.symlink_metadata(&relative);
            let metadata = metadata.map_err(|error| FileError::from_io(path, error))?;
            if let Some(bytes) = self.content_nofollow(path, &relative, &metadata)? {
                self.record(&plain, &bytes, &metadata)?;
            }
        }
        match previous {
            PreviousState::Nothing => {
                let _guard = lock_replacing();
                check_expected()?;
                match expected {
                    PathState::Folder => self.dir.remove_dir(&relative),
                    PathState::Nothing => Ok(()),
                    PathState::File(_) | PathState::Unknown => self.dir.remove_file(&relative),
                }
                .map_err(|error| FileError::from_io(path, error))
            }
            PreviousState::Folder => self.in_folder(path, &relative, |_| Ok(())),
            PreviousState::File(target, mode) if system::is_link(mode) => {
                self.in_folder(path, &folder, |folder| {
                    let _guard = lock_replacing();
                    check_expected()?;
                    if let PathState::File(_) = expected {
                        folder.remove_file(&name)?;
                    }
                    Ok(system::make_link(folder, target, Path::new(&name))?)
                })
            }
            PreviousState::File(bytes, mode) => self.in_folder(path, &folder, |folder| {
                let mut temporary = TempFile::new(folder)?;
                temporary.write_all(bytes)?;
                system::set_mode(temporary.as_file(), mode)?;
                temporary.as_file().sync_all()?;
                let _guard = lock_replacing();
                check_expected()?;
                Ok(temporary.replace(&name)?)
            }),
        }
    }

    /// Moves a file or folder from `from` back to `to`. An empty folder at `to` is removed.
    pub fn move_back(&self, from: &str, to: &str) -> Result<(), FileError> {
        let (source, target) = (
            self.changeable(from, FinalLink::NoFollow)?,
            self.changeable(to, FinalLink::NoFollow)?,
        );
        let source_error = |error| FileError::from_io(from, error);
        let source_folder = self.folder(&source.folder).map_err(source_error)?;
        source_folder
            .symlink_metadata(&source.name)
            .map_err(source_error)?;
        self.clear(to, &target.folder.join(&target.name), &PathState::Nothing)?;
        self.in_folder(to, &target.folder, |folder| {
            let _guard = lock_replacing();
            Ok(rename_without_replacing(
                &source_folder,
                &source.name,
                folder,
                &target.name,
            )?)
        })
    }

    /// Returns true if nothing is at a path, or only a folder that `restore` may remove: a folder that is empty or contains only empty
    /// folders.
    pub fn is_free(&self, path: &str) -> Result<bool, FileError> {
        let relative = self.relative(path)?;
        match self.dir.symlink_metadata(&relative) {
            Ok(metadata) => Ok(metadata.is_dir() && self.is_empty_tree(&relative)),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) =>
            {
                Ok(true)
            }
            Err(error) => Err(FileError::from_io(path, error)),
        }
    }

    fn is_empty_tree(&self, folder: &Path) -> bool {
        let Ok(mut entries) = self.dir.read_dir(folder) else {
            return false;
        };
        entries.all(|entry| {
            entry.is_ok_and(|entry| {
                let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
                is_folder && self.is_empty_tree(&folder.join(entry.file_name()))
            })
        })
    }

    /// Removes a tree of empty folders at the path if `expected` is [`PathState::Nothing`].
    fn clear(&self, path: &str, relative: &Path, expected: &PathState) -> Result<(), FileError> {
        let is_folder = |metadata: Metadata| metadata.is_dir();
        if *expected == PathState::Nothing
            && self.dir.symlink_metadata(relative).is_ok_and(is_folder)
            && self.is_empty_tree(relative)
        {
            self.remove_empty_tree(relative)
                .map_err(|error| FileError::from_io(path, error))?;
        }
        Ok(())
    }

    /// Removes a tree of empty folders, one folder at a time, so that a file created during the removal is not lost.
    fn remove_empty_tree(&self, folder: &Path) -> io::Result<()> {
        for entry in self.dir.read_dir(folder)? {
            self.remove_empty_tree(&folder.join(entry?.file_name()))?;
        }
        self.dir.remove_dir(folder)
    }

    /// Returns the content of a regular file, or the target of a link; `None` for other files and files that are too big.
    fn content_nofollow(
        &self,
        path: &str,
        relative: &Path,
        metadata: &Metadata,
    ) -> Result<Option<Vec<u8>>, FileError> {
        if metadata.is_symlink() {
            let target = self.dir.read_link_contents(relative);
            let target = target.map_err(|error| FileError::from_io(path, error))?;
            return Ok(Some(target.as_os_str().as_encoded_bytes().to_vec()));
        }
        if !metadata.is_file() {
            return Ok(None);
        }
        match self.read(path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(FileError::TooBig { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
