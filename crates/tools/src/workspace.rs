//! The workspace jail: every file that a tool reads or changes goes through here.
//!
//! Paths are resolved beneath the folder by the system, link by link, so that neither `..` nor a link leads out, not
//! even one that is put there meanwhile. Nothing here blocks on a pipe or device, writes half a file, or changes
//! anything in `.git` and `.dirigent`. All calls block on the disk: async code runs them in a blocking task.

mod fault;
mod lock;
mod restore;
mod system;
mod walk;

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use cap_std::ambient_authority;
use cap_std::fs::{Dir, File, Metadata, OpenOptions};
use cap_tempfile::TempFile;
use dirigent_core::digest::sha256_hex;
use dirigent_core::tool::{FileVersion, StateChange};

use crate::{Contents, ToolContext};

use lock::alone;
use system::{WithoutWaiting, keep_owner_and_mode, mode, rename_without_replacing, special};

pub use fault::FileFault;
pub use restore::Past;
pub use walk::{Depth, Entry, Hidden, Kind, Walk};

/// The most bytes that are read from one file: 16 MiB.
pub const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;

/// How many files are looked at for names like the one that was not found.
const MAX_SUGGESTION_FILES: usize = 20_000;

/// A folder that tools work in and cannot leave. Paths are relative to it, with `/`; an absolute path that begins with
/// the folder's own is taken as relative to it.
#[derive(Debug)]
pub struct Workspace {
    dir: Dir,
    root: PathBuf,
    /// Where what was in a file is kept before it is changed.
    contents: Option<Arc<dyn Contents>>,
}

/// What a link at the end of a path stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FinalLink {
    /// What it points to.
    Follow,
    /// Itself.
    Keep,
}

/// Where in the workspace a path leads, all links resolved.
#[derive(Debug)]
struct Place {
    /// Relative to the root, empty for the root.
    folder: PathBuf,
    /// None for the root itself.
    name: Option<OsString>,
}

impl Place {
    fn relative(&self) -> PathBuf {
        match &self.name {
            Some(name) => self.folder.join(name),
            None => self.folder.clone(),
        }
    }
}

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
    /// The workspace of a call, where what the call changes can be undone.
    pub fn of(context: &ToolContext) -> Result<Self, FileFault> {
        Ok(Workspace {
            contents: context.contents.clone(),
            ..Workspace::open(&context.workspace)?
        })
    }

    /// The workspace at `root`, an existing folder. What was in its files before a change is not kept.
    pub fn open(root: &Path) -> Result<Self, FileFault> {
        let fault = |source| FileFault::Workspace {
            path: root.display().to_string(),
            source,
        };
        let real = root.canonicalize().map_err(fault)?;
        let dir = Dir::open_ambient_dir(&real, ambient_authority()).map_err(fault)?;
        Ok(Workspace {
            dir,
            root: real,
            contents: None,
        })
    }

    /// The same, where what was in files is kept there before a change.
    #[must_use]
    pub fn keeping(mut self, contents: Arc<dyn Contents>) -> Self {
        self.contents = Some(contents);
        self
    }

    /// Its absolute path, links resolved; for display.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The path of a file or folder, there or not, in its plain form: relative, with `/`, without `.` and `..`, links
    /// resolved; `.` for the workspace itself.
    pub fn canonical(&self, path: &str) -> Result<String, FileFault> {
        self.plain(path, FinalLink::Follow)
    }

    /// Like [`Workspace::canonical`], but a link at the end counts as itself.
    pub fn canonical_of_itself(&self, path: &str) -> Result<String, FileFault> {
        self.plain(path, FinalLink::Keep)
    }

    /// What there is at a path; [`FileFault::NotFound`] for nothing.
    pub fn kind(&self, path: &str) -> Result<Kind, FileFault> {
        let metadata = self.dir.metadata(self.relative(path)?);
        Ok(kind(&metadata.map_err(|error| self.fault(path, error))?))
    }

    /// Like [`Workspace::kind`], but a link counts as itself: [`Kind::Other`].
    pub fn kind_of_itself(&self, path: &str) -> Result<Kind, FileFault> {
        let metadata = self.dir.symlink_metadata(self.relative(path)?);
        Ok(kind(&metadata.map_err(|error| self.fault(path, error))?))
    }

    /// The content of a regular file of up to [`MAX_FILE_BYTES`].
    pub fn read(&self, path: &str) -> Result<Vec<u8>, FileFault> {
        let file = self.open_file(path)?;
        let mut bytes = Vec::new();
        file.take(MAX_FILE_BYTES + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| self.fault(path, error))?;
        if bytes.len() as u64 > MAX_FILE_BYTES {
            return Err(FileFault::TooBig {
                path: path.to_owned(),
                limit: MAX_FILE_BYTES,
            });
        }
        Ok(bytes)
    }

    /// A regular file, open for reading; never waits for a pipe or a device.
    pub fn open_file(&self, path: &str) -> Result<File, FileFault> {
        let relative = self.relative(path)?;
        let metadata = self
            .dir
            .metadata(&relative)
            .map_err(|error| self.fault(path, error))?;
        regular(path, &metadata)?;
        let file = self
            .dir
            .open_with(&relative, OpenOptions::new().read(true).without_waiting())
            .map_err(|error| self.fault(path, error))?;
        // Again, as it may be another file by now.
        regular(path, &file.metadata().map_err(|error| self.fault(path, error))?)?;
        Ok(file)
    }

    /// Makes `bytes` the content of a file that is not there: [`FileFault::Exists`] otherwise. Whoever looks sees no file or all of it, never a
    /// part; where it fails, nothing has changed. Missing folders are made.
    pub fn create(&self, path: &str, bytes: &[u8]) -> Result<StateChange, FileFault> {
        self.put(path, bytes, Expected::Nothing)
    }

    /// Makes `after` the content of a file where it is still `before`: [`FileFault::Changed`] otherwise. Whoever looks sees the old content or
    /// the new, never a part; where it fails, nothing has changed. Mode and owner are kept, and a link is followed, not replaced.
    pub fn replace(&self, path: &str, before: &[u8], after: &[u8]) -> Result<StateChange, FileFault> {
        self.put(path, after, Expected::Content(before))
    }

    /// Deletes a file, a link (not what it points to) or an empty folder; where `before` is given, only a file with that content:
    /// [`FileFault::Changed`] otherwise.
    pub fn remove(&self, path: &str, before: Option<&[u8]>) -> Result<StateChange, FileFault> {
        let place = self.changeable(path, FinalLink::Keep)?;
        let relative = place.relative();
        let metadata = self
            .dir
            .symlink_metadata(&relative)
            .map_err(|error| self.fault(path, error))?;
        let version = self.keep(path, &relative, &metadata, before)?;
        let _alone = alone();
        self.expect(path, &relative, before.into())?;
        let plain = plain(path, &relative)?;
        let (removed, path_told) = if metadata.is_dir() {
            (self.dir.remove_dir(&relative), format!("{plain}/"))
        } else {
            (self.dir.remove_file(&relative), plain)
        };
        removed.map_err(|error| self.fault(path, error))?;
        Ok(StateChange::FileDeleted {
            path: path_told,
            diff: None,
            before: version,
        })
    }

    /// Gives a file, a folder or a link another name; never replaces anything; where `before` is given, only a file with that
    /// content: [`FileFault::Changed`] otherwise. Missing folders are made.
    pub fn rename(&self, from: &str, to: &str, before: Option<&[u8]>) -> Result<StateChange, FileFault> {
        let (source, target) = (
            self.changeable(from, FinalLink::Keep)?,
            self.changeable(to, FinalLink::Keep)?,
        );
        let (old, new) = (source.relative(), target.relative());
        let metadata = self
            .dir
            .symlink_metadata(&old)
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
        self.with_folders(to, &target.folder, |folder| {
            let source_folder = self.dir.open_dir(or_dot(&source.folder))?;
            let (Some(old_name), Some(new_name)) = (&source.name, &target.name) else {
                return Err(io::Error::from(io::ErrorKind::IsADirectory).into());
            };
            let _alone = alone();
            self.expect(from, &old, before.into())?;
            Ok(rename_without_replacing(
                &source_folder,
                old_name,
                folder,
                new_name,
            )?)
        })?;
        Ok(StateChange::FileMoved {
            from: plain(from, &old)?,
            to: plain(to, &new)?,
            version: before.map(|bytes| version(bytes, &metadata)),
        })
    }

    fn put(&self, path: &str, bytes: &[u8], expected: Expected<'_>) -> Result<StateChange, FileFault> {
        let place = self.changeable(path, FinalLink::Follow)?;
        let relative = place.relative();
        let Some(name) = &place.name else {
            return Err(FileFault::IsFolder {
                path: path.to_owned(),
            });
        };
        let existing = match self.dir.symlink_metadata(&relative) {
            Ok(metadata) => Some(metadata),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(self.fault(path, error)),
        };
        if let Some(metadata) = &existing {
            regular(path, metadata)?;
            // Renaming over a file asks only for the folder's permission; a file marked read-only was meant so.
            self.dir
                .open_with(&relative, OpenOptions::new().write(true).without_waiting())
                .map_err(|error| self.fault(path, error))?;
        }
        // Before anything is made; again, and then for good, when all is ready to take its place.
        self.expect(path, &relative, expected)?;
        let before = match (&existing, expected) {
            (Some(metadata), Expected::Content(bytes)) => {
                self.keep(path, &relative, metadata, Some(bytes))?
            }
            (Some(_) | None, Expected::Nothing | Expected::Anything) | (None, Expected::Content(_)) => None,
        };
        let mut after = None;
        self.with_folders(path, &place.folder, |folder| {
            let mut temporary = TempFile::new(folder)?;
            temporary.write_all(bytes)?;
            if let Some(metadata) = &existing {
                keep_owner_and_mode(temporary.as_file(), metadata)?;
            }
            temporary.as_file().sync_all()?;
            after = Some(version(bytes, &temporary.as_file().metadata()?));
            let _alone = alone();
            self.expect(path, &relative, expected)?;
            Ok(temporary.replace(name)?)
        })?;
        let path = plain(path, &relative)?;
        Ok(match existing {
            None => StateChange::FileCreated {
                path,
                diff: None,
                after,
            },
            Some(_) => StateChange::FileEdited {
                path,
                diff: None,
                before,
                after,
            },
        })
    }

    /// The version of what is about to go, once its content is safe; none for a folder and for what cannot be read.
    fn keep(
        &self,
        path: &str,
        relative: &Path,
        metadata: &Metadata,
        content: Option<&[u8]>,
    ) -> Result<Option<FileVersion>, FileFault> {
        let target;
        let bytes = match content {
            Some(bytes) => bytes,
            None if metadata.is_symlink() => {
                target = self
                    .dir
                    .read_link_contents(relative)
                    .map_err(|error| self.fault(path, error))?;
                target.as_os_str().as_encoded_bytes()
            }
            None => return Ok(None),
        };
        let version = version(bytes, metadata);
        if let Some(contents) = &self.contents {
            contents
                .keep(&plain(path, relative)?, &version, bytes)
                .map_err(|why| FileFault::NotKept {
                    path: path.to_owned(),
                    why,
                })?;
        }
        Ok(Some(version))
    }

    fn expect(&self, path: &str, relative: &Path, expected: Expected<'_>) -> Result<(), FileFault> {
        let path = path.to_owned();
        match expected {
            Expected::Anything => Ok(()),
            Expected::Nothing if self.dir.symlink_metadata(relative).is_ok() => {
                Err(FileFault::Exists { path })
            }
            Expected::Nothing => Ok(()),
            Expected::Content(before) => match self.read(&path) {
                Ok(bytes) if bytes == before => Ok(()),
                Ok(_) | Err(FileFault::NotFound { .. }) => Err(FileFault::Changed { path }),
                Err(fault) => Err(fault),
            },
        }
    }

    /// Runs `change` in the folder, which is made where it is missing and unmade where the change fails.
    fn with_folders(
        &self,
        path: &str,
        folder: &Path,
        change: impl FnOnce(&Dir) -> Result<(), Unchanged>,
    ) -> Result<(), FileFault> {
        let mut made: Vec<&Path> = Vec::new();
        let mut missing: Vec<&Path> = folder
            .ancestors()
            .take_while(|ancestor| !ancestor.as_os_str().is_empty() && !self.dir.is_dir(ancestor))
            .collect();
        let attempt = || {
            while let Some(next) = missing.pop() {
                match self.dir.create_dir(next) {
                    Ok(()) => made.push(next),
                    // Somebody else made it meanwhile.
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                    Err(error) => return Err(error.into()),
                }
            }
            change(&self.dir.open_dir(or_dot(folder))?)
        };
        let result = attempt();
        if result.is_err() {
            for folder in made.into_iter().rev() {
                // Only ever succeeds on an empty folder, so nothing of anybody else's is lost.
                let _ = self.dir.remove_dir(folder);
            }
        }
        result.map_err(|unchanged| match unchanged {
            Unchanged::System(error) => self.fault(path, error),
            Unchanged::Fault(fault) => fault,
        })
    }

    /// The path to give to the jail. Stripping the root's own path is a courtesy to models that write absolute paths;
    /// whether the rest stays inside is for the system to say.
    fn relative(&self, path: &str) -> Result<PathBuf, FileFault> {
        let given = Path::new(path);
        if !given.is_absolute() {
            return Ok(or_dot(given).to_owned());
        }
        match given.strip_prefix(&self.root) {
            Ok(below) => Ok(or_dot(below).to_owned()),
            Err(_) => Err(FileFault::Outside {
                path: path.to_owned(),
            }),
        }
    }

    /// Where a path leads. What is missing at its end may be missing; `..` in that part is not resolvable.
    fn place(&self, path: &str, link: FinalLink) -> Result<Place, FileFault> {
        let relative = self.relative(path)?;
        if link == FinalLink::Follow {
            match self.dir.canonicalize(&relative) {
                Ok(real) => return Ok(split(&real)),
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(self.fault(path, error)),
                Err(_) if self.is_link(&relative) => {
                    return Err(FileFault::NotAFile {
                        path: path.to_owned(),
                        kind: "a link to nothing",
                    });
                }
                Err(_) => {}
            }
        }
        let Some(Component::Normal(name)) = relative.components().next_back() else {
            let real = self
                .dir
                .canonicalize(&relative)
                .map_err(|error| self.fault(path, error))?;
            return Ok(split(&real));
        };
        let parent = relative.parent().unwrap_or(Path::new(""));
        Ok(Place {
            folder: self.real_folder(path, parent)?,
            name: Some(name.to_owned()),
        })
    }

    /// The folder with links resolved as far as it is there.
    fn real_folder(&self, path: &str, folder: &Path) -> Result<PathBuf, FileFault> {
        match self.dir.canonicalize(or_dot(folder)) {
            Ok(real) => Ok(split(&real).relative()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                match (folder.parent(), folder.components().next_back()) {
                    (Some(parent), Some(Component::Normal(name))) if !self.is_link(folder) => {
                        Ok(self.real_folder(path, parent)?.join(name))
                    }
                    _ => Err(self.fault(path, error)),
                }
            }
            Err(error) => Err(self.fault(path, error)),
        }
    }

    /// Whether there is a link, which leads to nothing where its path cannot be resolved; anything else was made meanwhile.
    fn is_link(&self, relative: &Path) -> bool {
        let metadata = self.dir.symlink_metadata(relative);
        metadata.is_ok_and(|metadata| metadata.is_symlink())
    }

    /// Where a path leads, if that may be changed.
    fn changeable(&self, path: &str, link: FinalLink) -> Result<Place, FileFault> {
        let place = self.place(path, link)?;
        if place.name.is_none() {
            return Err(FileFault::IsFolder {
                path: path.to_owned(),
            });
        }
        if place.relative().iter().any(is_protected_name) {
            return Err(FileFault::Protected {
                path: path.to_owned(),
            });
        }
        Ok(place)
    }

    fn plain(&self, path: &str, link: FinalLink) -> Result<String, FileFault> {
        plain(path, &self.place(path, link)?.relative())
    }

    /// What an error means; a name that was not found gets suggestions.
    fn fault(&self, path: &str, error: io::Error) -> FileFault {
        match FileFault::from_io(path, error) {
            FileFault::NotFound { path, .. } => FileFault::NotFound {
                nearest: self.nearest(&path),
                path,
            },
            other => other,
        }
    }

    /// Up to three files that may have been meant: the same name in another folder first, then similar paths.
    fn nearest(&self, path: &str) -> Vec<String> {
        let Ok(files) = self.walk(&[], Hidden::Skip) else {
            return Vec::new();
        };
        let name = path.rsplit('/').next();
        let mut scored: Vec<(f64, String)> = files
            .take(MAX_SUGGESTION_FILES)
            .map(|file| {
                let score = if file.rsplit('/').next() == name {
                    2.0
                } else {
                    strsim::normalized_levenshtein(&file, path)
                };
                (score, file)
            })
            .filter(|(score, _)| *score > 0.6)
            .collect();
        scored.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        scored.into_iter().take(3).map(|(_, file)| file).collect()
    }
}

/// Whether tools must leave it as it is. Without regard to case, as some file systems are.
fn is_protected_name(name: &OsStr) -> bool {
    name.eq_ignore_ascii_case(".git") || name.eq_ignore_ascii_case(".dirigent")
}

fn or_dot(path: &Path) -> &Path {
    if path.as_os_str().is_empty() {
        Path::new(".")
    } else {
        path
    }
}

/// A canonical path as a place; the root is `.` or nothing.
fn split(real: &Path) -> Place {
    let real: PathBuf = real
        .components()
        .filter(|part| matches!(part, Component::Normal(_)))
        .collect();
    Place {
        folder: real.parent().unwrap_or(Path::new("")).to_owned(),
        name: real.file_name().map(OsStr::to_owned),
    }
}

fn plain(path: &str, relative: &Path) -> Result<String, FileFault> {
    let text = walk::with_slashes(relative).ok_or_else(|| FileFault::NotAFile {
        path: path.to_owned(),
        kind: "behind a name that is not Unicode",
    })?;
    Ok(if text.is_empty() { ".".to_owned() } else { text })
}

fn version(content: &[u8], metadata: &Metadata) -> FileVersion {
    FileVersion {
        digest: sha256_hex(content),
        mode: mode(metadata),
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

fn regular(path: &str, metadata: &Metadata) -> Result<(), FileFault> {
    let path = path.to_owned();
    if metadata.is_file() {
        Ok(())
    } else if metadata.is_dir() {
        Err(FileFault::IsFolder { path })
    } else {
        let kind = special(metadata.file_type());
        Err(FileFault::NotAFile { path, kind })
    }
}
