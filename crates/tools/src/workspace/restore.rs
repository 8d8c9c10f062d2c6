//! Putting a workspace back: what is there at a path, and making it what it was: for `undo`, and for
//! a run that undoes what it changed.

use std::io::{self, Write};
use std::path::Path;

use cap_std::fs::Metadata;
use cap_tempfile::TempFile;
use dirigent_core::undo::There;

use super::change::version;
use super::lock::alone;
use super::place::{Changeable, FinalLink};
use super::system::{self, rename_without_replacing};
use super::{FileFault, Workspace};

/// What is made of a path.
#[derive(Clone, Copy, Debug)]
pub enum Past<'a> {
    /// Nothing is there.
    Nothing,
    /// An empty folder, if there is none.
    Folder,
    /// A file with that content, or a link with that target, with that kind and those permissions (`st_mode`).
    File(&'a [u8], u32),
}

impl Workspace {
    /// What there is at a path, a link for itself. [`There::Unknown`] for what is neither a folder nor a link nor a file of up to
    /// [`super::MAX_FILE_BYTES`], and for a path that leads through a link.
    pub fn there(&self, path: &str) -> Result<There, FileFault> {
        let relative = self.relative(path)?;
        let metadata = match self.dir.symlink_metadata(&relative) {
            Ok(metadata) => metadata,
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) =>
            {
                return Ok(There::Nothing);
            }
            Err(error) => return Err(FileFault::from_io(path, error)),
        };
        if self.canonical_of_itself(path)? != path {
            return Ok(There::Unknown);
        }
        if metadata.is_dir() {
            return Ok(There::Folder);
        }
        Ok(match self.content_of_itself(path, &relative, &metadata)? {
            Some(bytes) => There::File(version(&bytes, &metadata)),
            None => There::Unknown,
        })
    }

    /// Makes a path what it was, where it is still `now`: [`FileFault::Changed`] otherwise. What is replaced is kept first. An empty folder
    /// in the way of a file goes.
    pub fn restore(&self, path: &str, now: &There, past: Past<'_>) -> Result<(), FileFault> {
        let Changeable { folder, name, plain } = self.changeable(path, FinalLink::Keep)?;
        let relative = folder.join(&name);
        let expect = || {
            self.clear(path, &relative, now)?;
            if self.there(path)? == *now {
                Ok(())
            } else {
                Err(FileFault::Changed {
                    path: path.to_owned(),
                })
            }
        };
        expect()?;
        if let There::File(_) = now {
            let metadata = self.dir.symlink_metadata(&relative);
            let metadata = metadata.map_err(|error| FileFault::from_io(path, error))?;
            if let Some(bytes) = self.content_of_itself(path, &relative, &metadata)? {
                self.keep(&plain, &bytes, &metadata)?;
            }
        }
        match past {
            Past::Nothing => {
                let _alone = alone();
                expect()?;
                match now {
                    There::Folder => self.dir.remove_dir(&relative),
                    There::Nothing => Ok(()),
                    There::File(_) | There::Unknown => self.dir.remove_file(&relative),
                }
                .map_err(|error| FileFault::from_io(path, error))
            }
            Past::Folder => self.in_folder(path, &relative, |_| Ok(())),
            Past::File(target, mode) if system::is_link(mode) => self.in_folder(path, &folder, |folder| {
                let _alone = alone();
                expect()?;
                if let There::File(_) = now {
                    folder.remove_file(&name)?;
                }
                Ok(system::make_link(folder, target, Path::new(&name))?)
            }),
            Past::File(bytes, mode) => self.in_folder(path, &folder, |folder| {
                let mut temporary = TempFile::new(folder)?;
                temporary.write_all(bytes)?;
                system::set_mode(temporary.as_file(), mode)?;
                temporary.as_file().sync_all()?;
                let _alone = alone();
                expect()?;
                Ok(temporary.replace(&name)?)
            }),
        }
    }

    /// Moves whatever is at `from` to `to`, where nothing is but perhaps an empty folder, which goes.
    pub fn move_back(&self, from: &str, to: &str) -> Result<(), FileFault> {
        let (source, target) = (
            self.changeable(from, FinalLink::Keep)?,
            self.changeable(to, FinalLink::Keep)?,
        );
        let fault = |error| FileFault::from_io(from, error);
        let source_folder = self.folder(&source.folder).map_err(fault)?;
        source_folder.symlink_metadata(&source.name).map_err(fault)?;
        self.clear(to, &target.folder.join(&target.name), &There::Nothing)?;
        self.in_folder(to, &target.folder, |folder| {
            let _alone = alone();
            Ok(rename_without_replacing(
                &source_folder,
                &source.name,
                folder,
                &target.name,
            )?)
        })
    }

    /// Whether there is nothing at a path, or what an undoing may take away: a folder with nothing in it but such folders.
    pub fn is_free(&self, path: &str) -> Result<bool, FileFault> {
        let relative = self.relative(path)?;
        match self.dir.symlink_metadata(&relative) {
            Ok(metadata) => Ok(metadata.is_dir() && self.is_hollow(&relative)),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) =>
            {
                Ok(true)
            }
            Err(error) => Err(FileFault::from_io(path, error)),
        }
    }

    fn is_hollow(&self, folder: &Path) -> bool {
        let Ok(mut entries) = self.dir.read_dir(folder) else {
            return false;
        };
        entries.all(|entry| {
            entry.is_ok_and(|entry| {
                let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
                is_folder && self.is_hollow(&folder.join(entry.file_name()))
            })
        })
    }

    /// Takes away a hollow folder where nothing is expected.
    fn clear(&self, path: &str, relative: &Path, expected: &There) -> Result<(), FileFault> {
        let is_folder = |metadata: Metadata| metadata.is_dir();
        if *expected == There::Nothing
            && self.dir.symlink_metadata(relative).is_ok_and(is_folder)
            && self.is_hollow(relative)
        {
            self.take_away(relative)
                .map_err(|error| FileFault::from_io(path, error))?;
        }
        Ok(())
    }

    /// Folder by folder, so that what comes in meanwhile stays.
    fn take_away(&self, folder: &Path) -> io::Result<()> {
        for entry in self.dir.read_dir(folder)? {
            self.take_away(&folder.join(entry?.file_name()))?;
        }
        self.dir.remove_dir(folder)
    }

    /// What is in a file of a size that is read, or where a link leads.
    fn content_of_itself(
        &self,
        path: &str,
        relative: &Path,
        metadata: &Metadata,
    ) -> Result<Option<Vec<u8>>, FileFault> {
        if metadata.is_symlink() {
            let target = self.dir.read_link_contents(relative);
            let target = target.map_err(|error| FileFault::from_io(path, error))?;
            return Ok(Some(target.as_os_str().as_encoded_bytes().to_vec()));
        }
        if !metadata.is_file() {
            return Ok(None);
        }
        match self.read(path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(FileFault::TooBig { .. }) => Ok(None),
            Err(fault) => Err(fault),
        }
    }
}
