//! Removes the folders that a command created, however deeply nested, with two descriptors and without recursion.

use std::ffi::OsStr;
use std::io;
use std::path::Path;

use cap_std::fs::{Dir, Permissions, PermissionsExt};

/// Removes a file, a link or a folder with all its content. Blocks.
pub(crate) fn remove(dir: &Dir, path: &Path) -> io::Result<()> {
    if !dir.symlink_metadata(path)?.is_dir() {
        return dir.remove_file(path);
    }
    let folder = open(dir, path)?;
    let mut moved = 0_u64;
    loop {
        let mut is_empty = true;
        for entry in folder.entries()? {
            let name = entry?.file_name();
            is_empty = false;
            if is_folder(&folder, &name) {
                remove_folder(&folder, &name, &mut moved)?;
            } else {
                gone(folder.remove_file(&name))?;
            }
        }
        if is_empty {
            return dir.remove_dir(path);
        }
    }
}

/// Removes a folder in `top`. Its subfolders are first moved up into `top`, so that a tree of any depth
/// becomes flat.
fn remove_folder(top: &Dir, name: &OsStr, moved: &mut u64) -> io::Result<()> {
    let folder = open(top, Path::new(name))?;
    for entry in folder.entries()? {
        let inner = entry?.file_name();
        if is_folder(&folder, &inner) {
            open_up(&folder, Path::new(&inner));
            // Fails if this name is already used.
            while folder.rename(&inner, top, format!("removed-{moved}")).is_err() {
                *moved += 1;
                if top.symlink_metadata(format!("removed-{}", *moved - 1)).is_err() {
                    return Err(io::Error::other("it changes while it is removed"));
                }
            }
            *moved += 1;
        } else {
            gone(folder.remove_file(&inner))?;
        }
    }
    drop(folder);
    gone(top.remove_dir(name))
}

fn is_folder(dir: &Dir, name: &OsStr) -> bool {
    dir.symlink_metadata(name).is_ok_and(|metadata| metadata.is_dir())
}

/// Opens a folder for changes. Makes it writable first, because some caches remove the write permission from their own folders.
fn open(dir: &Dir, path: &Path) -> io::Result<Dir> {
    open_up(dir, path);
    dir.open_dir(path)
}

fn open_up(dir: &Dir, path: &Path) {
    let _ = dir.set_permissions(path, Permissions::from_mode(0o700));
}

/// Treats a missing file as removed.
fn gone(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}
