//! Where a path leads: found by the system, beneath the root, link by link.
//!
//! On Linux cap-std asks `openat2` with `RESOLVE_BENEATH` and `RESOLVE_NO_MAGICLINKS`; elsewhere, and where a kernel does not have that,
//! it opens one folder after the other. It never compares strings to find out what is inside.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Component, Path, PathBuf};

use super::{FileError, Workspace, walk};

/// The longest path that is looked at, in bytes: as much as Linux takes.
const MAX_PATH_BYTES: usize = 4096;

/// How often a path is looked up anew, as what it named was replaced just then.
const MAX_LOOKUPS: usize = 100;

/// What tools leave as it is, at any depth: git's own files, and what tells Dirigent (or an agent that it takes over from another program)
/// what it may do. They are whole names, not paths, so that no renaming of a folder around them makes a difference.
pub(crate) const PROTECTED: [&str; 4] = [".git", ".dirigent", ".claude", "dirigent.toml"];

/// What a link at the end of a path stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FinalLink {
    /// What it points to.
    Follow,
    /// Itself.
    NoFollow,
}

/// Where in the workspace a path leads, all links resolved.
#[derive(Debug)]
pub(super) struct ResolvedPath {
    /// Relative to the root, empty for the root.
    pub(super) folder: PathBuf,
    /// None for the root itself.
    pub(super) name: Option<OsString>,
}

impl ResolvedPath {
    pub(super) fn relative(&self) -> PathBuf {
        match &self.name {
            Some(name) => self.folder.join(name),
            None => self.folder.clone(),
        }
    }

    /// For models and people.
    pub(super) fn plain(&self, path: &str) -> Result<String, FileError> {
        let text = walk::with_slashes(&self.relative()).ok_or_else(|| FileError::NotAFile {
            path: path.to_owned(),
            kind: "behind a name that is not Unicode",
        })?;
        Ok(if text.is_empty() { ".".to_owned() } else { text })
    }
}

/// A place that may be changed.
#[derive(Debug)]
pub(super) struct ChangeablePath {
    pub(super) folder: PathBuf,
    pub(super) name: OsString,
    /// Its path for models and people.
    pub(super) plain: String,
}

impl Workspace {
    /// The path to give to the jail. Stripping the root's own path is a courtesy to models that write absolute paths;
    /// whether the rest stays inside is for the system to say.
    pub(super) fn relative(&self, path: &str) -> Result<PathBuf, FileError> {
        if path.len() > MAX_PATH_BYTES {
            return Err(FileError::bad_path(path, "it is too long"));
        }
        if path.contains('\0') {
            return Err(FileError::bad_path(path, "there is a NUL in it"));
        }
        let given = Path::new(path);
        if !given.is_absolute() {
            return Ok(or_dot(given).to_owned());
        }
        match given.strip_prefix(&self.root) {
            Ok(below) => Ok(or_dot(below).to_owned()),
            Err(_) => Err(FileError::Outside {
                path: path.to_owned(),
            }),
        }
    }

    /// Where a path leads. What is missing at its end may be missing; `..` in that part is not resolvable.
    pub(super) fn resolve(&self, path: &str, link: FinalLink) -> Result<ResolvedPath, FileError> {
        let relative = self.relative(path)?;
        if link == FinalLink::Follow {
            match self.real(&relative) {
                Ok(place) => return Ok(place),
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(self.file_error(path, error));
                }
                Err(_) if self.is_link(&relative) => {
                    return Err(FileError::NotAFile {
                        path: path.to_owned(),
                        kind: "a link to nothing",
                    });
                }
                Err(_) => {}
            }
        }
        let Some(Component::Normal(name)) = relative.components().next_back() else {
            return self.real(&relative).map_err(|error| self.file_error(path, error));
        };
        let parent = relative.parent().unwrap_or(Path::new(""));
        Ok(ResolvedPath {
            folder: self.real_folder(path, parent)?,
            name: Some(name.to_owned()),
        })
    }

    /// Where a path leads, if that may be changed.
    pub(super) fn changeable(&self, path: &str, link: FinalLink) -> Result<ChangeablePath, FileError> {
        let place = self.resolve(path, link)?;
        let plain = place.plain(path)?;
        let ResolvedPath {
            folder,
            name: Some(name),
        } = place
        else {
            return Err(FileError::IsFolder {
                path: path.to_owned(),
            });
        };
        if folder.iter().chain([name.as_os_str()]).any(is_protected) {
            return Err(FileError::Protected {
                path: path.to_owned(),
            });
        }
        Ok(ChangeablePath { folder, name, plain })
    }

    /// The folder with links resolved as far as it is there.
    fn real_folder(&self, path: &str, folder: &Path) -> Result<PathBuf, FileError> {
        let mut missing = Vec::new();
        let mut there = folder;
        loop {
            match self.real(or_dot(there)) {
                Ok(real) => {
                    let mut whole = real.relative();
                    whole.extend(missing.into_iter().rev());
                    return Ok(whole);
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    match (there.parent(), there.components().next_back()) {
                        (Some(parent), Some(Component::Normal(name))) if !self.is_link(there) => {
                            missing.push(name);
                            there = parent;
                        }
                        _ => return Err(self.file_error(path, error)),
                    }
                }
                Err(error) => return Err(self.file_error(path, error)),
            }
        }
    }

    /// Where there is something, all links resolved.
    fn real(&self, relative: &Path) -> io::Result<ResolvedPath> {
        for _ in 0..MAX_LOOKUPS {
            let place = split_real_path(&self.dir.canonicalize(relative)?);
            if !self.was_just_deleted(&place) {
                return Ok(place);
            }
        }
        Err(io::ErrorKind::ResourceBusy.into())
    }

    /// Linux names what was deleted, or replaced, between opening it and asking for its name as `file (deleted)`.
    fn was_just_deleted(&self, place: &ResolvedPath) -> bool {
        let name = place.name.as_deref().map(OsStr::as_encoded_bytes);
        name.is_some_and(|name| name.ends_with(b" (deleted)"))
            && self.dir.symlink_metadata(place.relative()).is_err()
    }

    /// Whether there is a link, which leads to nothing where its path cannot be resolved; anything else was made meanwhile.
    fn is_link(&self, relative: &Path) -> bool {
        let metadata = self.dir.symlink_metadata(relative);
        metadata.is_ok_and(|metadata| metadata.is_symlink())
    }
}

/// Without regard to case, as some file systems are.
pub(crate) fn is_protected(name: &OsStr) -> bool {
    PROTECTED
        .iter()
        .any(|protected| name.eq_ignore_ascii_case(protected))
}

pub(super) fn or_dot(path: &Path) -> &Path {
    if path.as_os_str().is_empty() {
        Path::new(".")
    } else {
        path
    }
}

/// A canonical path as a place; the root is `.` or nothing.
fn split_real_path(real: &Path) -> ResolvedPath {
    let real: PathBuf = real
        .components()
        .filter(|part| matches!(part, Component::Normal(_)))
        .collect();
    ResolvedPath {
        folder: real.parent().unwrap_or(Path::new("")).to_owned(),
        name: real.file_name().map(OsStr::to_owned),
    }
}
