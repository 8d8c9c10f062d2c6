//! Path resolution: the operating system resolves paths beneath the root, link by link.
//!
//! On Linux, cap-std uses `openat2` with `RESOLVE_BENEATH` and `RESOLVE_NO_MAGICLINKS`. On other systems, and on kernels without `openat2`,
//! cap-std opens one folder after the other. This module never compares strings to decide whether a path is inside the workspace.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Component, Path, PathBuf};

use super::{FileError, Workspace};

/// Maximum length of a path, in bytes. Equal to Linux's limit.
const MAX_PATH_BYTES: usize = 4096;

/// Maximum number of lookups of one path. A lookup is repeated if its target is replaced during the lookup.
const MAX_LOOKUPS: usize = 100;

/// File names that tools never change, at any depth: git's own files, the configuration of Dirigent and its agents, including agents
/// defined for Claude Code, and a project's MCP services. They are compared as names, not as paths, so renaming a parent folder does not remove the protection.
pub(crate) const PROTECTED: [&str; 5] = [".git", ".dirigent", ".claude", "dirigent.toml", ".mcp.json"];

/// The treatment of a link at the end of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FinalLink {
    Follow,
    NoFollow,
}

/// A path in the workspace with all links resolved.
#[derive(Debug)]
pub(super) struct ResolvedPath {
    /// The parent folder, relative to the root; empty for the root.
    pub(super) folder: PathBuf,
    /// `None` for the root itself.
    pub(super) name: Option<OsString>,
}

impl ResolvedPath {
    pub(super) fn relative(&self) -> PathBuf {
        match &self.name {
            Some(name) => self.folder.join(name),
            None => self.folder.clone(),
        }
    }

    /// Returns the path as text, for models and people. `path` is for the error message only.
    pub(super) fn plain(&self, path: &str) -> Result<String, FileError> {
        let text = with_slashes(&self.relative())
            .ok_or_else(|| FileError::bad_path(path, "it leads to a file whose name is not valid Unicode"))?;
        Ok(if text.is_empty() { ".".to_owned() } else { text })
    }
}

/// A resolved path that tools may change.
#[derive(Debug)]
pub(super) struct ChangeablePath {
    pub(super) folder: PathBuf,
    pub(super) name: OsString,
    /// The path as text, for models and people.
    pub(super) plain: String,
}

impl Workspace {
    /// Returns the path relative to the root. Models often write absolute paths, so the root's own path is stripped; the system decides
    /// whether the rest stays inside.
    pub(super) fn relative(&self, path: &str) -> Result<PathBuf, FileError> {
        if path.len() > MAX_PATH_BYTES {
            return Err(FileError::bad_path(path, "it is too long"));
        }
        if path.contains('\0') {
            return Err(FileError::bad_path(path, "it contains a NUL character"));
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

    /// Resolves a path. Components at the end of the path need not exist, but `..` must not follow a missing component.
    pub(super) fn resolve(&self, path: &str, link: FinalLink) -> Result<ResolvedPath, FileError> {
        let relative = self.relative(path)?;
        if link == FinalLink::Follow {
            match self.real(&relative) {
                Ok(resolved) => return Ok(resolved),
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

    /// Resolves a path and checks that tools may change the file.
    pub(super) fn changeable(&self, path: &str, link: FinalLink) -> Result<ChangeablePath, FileError> {
        let resolved = self.resolve(path, link)?;
        let plain = resolved.plain(path)?;
        let ResolvedPath {
            folder,
            name: Some(name),
        } = resolved
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

    /// Resolves the links of a folder's path. Components that do not exist are kept unchanged.
    fn real_folder(&self, path: &str, folder: &Path) -> Result<PathBuf, FileError> {
        let mut missing = Vec::new();
        let mut existing = folder;
        loop {
            match self.real(or_dot(existing)) {
                Ok(real) => {
                    let mut whole = real.relative();
                    whole.extend(missing.into_iter().rev());
                    return Ok(whole);
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    match (existing.parent(), existing.components().next_back()) {
                        (Some(parent), Some(Component::Normal(name))) if !self.is_link(existing) => {
                            missing.push(name);
                            existing = parent;
                        }
                        _ => return Err(self.file_error(path, error)),
                    }
                }
                Err(error) => return Err(self.file_error(path, error)),
            }
        }
    }

    /// Resolves all links of an existing path.
    fn real(&self, relative: &Path) -> io::Result<ResolvedPath> {
        for _ in 0..MAX_LOOKUPS {
            let resolved = split_real_path(&self.dir.canonicalize(relative)?);
            if !self.was_just_deleted(&resolved) {
                return Ok(resolved);
            }
        }
        Err(io::ErrorKind::ResourceBusy.into())
    }

    /// Returns true for the name `file (deleted)`, which Linux reports for a file that was deleted or
    /// replaced between opening it and reading its name.
    fn was_just_deleted(&self, resolved: &ResolvedPath) -> bool {
        let name = resolved.name.as_deref().map(OsStr::as_encoded_bytes);
        name.is_some_and(|name| name.ends_with(b" (deleted)"))
            && self.dir.symlink_metadata(resolved.relative()).is_err()
    }

    /// Returns true if the path is a link. A link that cannot be resolved is dangling.
    fn is_link(&self, relative: &Path) -> bool {
        let metadata = self.dir.symlink_metadata(relative);
        metadata.is_ok_and(|metadata| metadata.is_symlink())
    }
}

/// Returns true for a name in [`PROTECTED`]. Ignores case, as some file systems do.
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

/// Splits a canonical path into folder and name; the root is `.` or empty.
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

/// Returns the path with `/`; `None` if it is not Unicode.
pub(super) fn with_slashes(path: &Path) -> Option<String> {
    let parts: Option<Vec<&str>> = path.iter().map(OsStr::to_str).collect();
    Some(parts?.join("/"))
}
