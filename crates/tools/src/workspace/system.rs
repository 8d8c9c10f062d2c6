//! The operations of the jail that differ between operating systems.

use std::ffi::OsStr;
use std::io;
use std::path::Path;

use cap_std::fs::{Dir, File, FileType, Metadata, OpenOptions};
use dirigent_core::digest::sha256_hex;
use dirigent_core::tool::FileVersion;

/// Renames a file. Fails if the new name is taken.
#[cfg(target_os = "linux")]
pub(super) fn rename_without_replacing(from: &Dir, old: &OsStr, to: &Dir, new: &OsStr) -> io::Result<()> {
    use rustix::fs::{RenameFlags, renameat_with};
    use rustix::io::Errno;
    match renameat_with(from, old, to, new, RenameFlags::NOREPLACE) {
        // Not every file system supports `NOREPLACE`. The caller has just checked that the new name is free.
        Err(Errno::INVAL | Errno::NOSYS) => from.rename(old, to, new),
        done => Ok(done?),
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn rename_without_replacing(from: &Dir, old: &OsStr, to: &Dir, new: &OsStr) -> io::Result<()> {
    from.rename(old, to, new)
}

/// Returns the kind of a file that is neither a regular file nor a folder, with its article: `a socket`.
#[cfg(unix)]
pub(super) fn special(file_type: FileType) -> &'static str {
    use cap_std::fs::FileTypeExt;
    if file_type.is_fifo() {
        "a named pipe"
    } else if file_type.is_socket() {
        "a socket"
    } else {
        "a device"
    }
}

#[cfg(not(unix))]
pub(super) fn special(_: FileType) -> &'static str {
    "a device"
}

/// Opens a folder. Fails if it is a link.
#[cfg(unix)]
pub(super) fn open_folder_nofollow(parent: &Dir, name: &OsStr) -> io::Result<Dir> {
    use rustix::fs::{Mode, OFlags, openat};
    // With `O_PATH`, Linux opens a folder without the permission to list it, which is enough to open files in it.
    #[cfg(target_os = "linux")]
    let access = OFlags::PATH;
    #[cfg(not(target_os = "linux"))]
    let access = OFlags::RDONLY;
    let flags = access | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(Dir::from(openat(parent, name, flags, Mode::empty())?))
}

#[cfg(not(unix))]
pub(super) fn open_folder_nofollow(parent: &Dir, name: &OsStr) -> io::Result<Dir> {
    if parent.symlink_metadata(name)?.is_symlink() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    parent.open_dir(name)
}

/// Returns true if the error is due to a loop of links, or to a magic link such as `/proc/self/root`.
#[cfg(unix)]
pub(super) fn is_symlink_loop(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error())
}

#[cfg(not(unix))]
pub(super) fn is_symlink_loop(_: &io::Error) -> bool {
    false
}

pub(super) trait NonBlocking {
    /// Makes opening return at once, even for a pipe whose other end is not open.
    fn nonblocking(&mut self) -> &mut Self;

    /// Like `nonblocking`, and makes opening a link fail if the system supports that.
    fn nonblocking_nofollow(&mut self) -> &mut Self;
}

#[cfg(unix)]
const NONBLOCKING: rustix::fs::OFlags = rustix::fs::OFlags::NONBLOCK.union(rustix::fs::OFlags::NOCTTY);

impl NonBlocking for OpenOptions {
    #[cfg(unix)]
    fn nonblocking(&mut self) -> &mut Self {
        use cap_std::fs::OpenOptionsExt;
        self.custom_flags(NONBLOCKING.bits().cast_signed())
    }

    #[cfg(not(unix))]
    fn nonblocking(&mut self) -> &mut Self {
        self
    }

    #[cfg(unix)]
    fn nonblocking_nofollow(&mut self) -> &mut Self {
        use cap_std::fs::OpenOptionsExt;
        self.custom_flags((NONBLOCKING | rustix::fs::OFlags::NOFOLLOW).bits().cast_signed())
    }

    #[cfg(not(unix))]
    fn nonblocking_nofollow(&mut self) -> &mut Self {
        self
    }
}

/// Returns the version of a file with this content.
pub(super) fn version(content: &[u8], metadata: &Metadata) -> FileVersion {
    FileVersion {
        digest: sha256_hex(content),
        mode: mode(metadata),
    }
}

/// Returns a file's kind and permissions (`st_mode`).
#[cfg(unix)]
fn mode(metadata: &Metadata) -> u32 {
    use cap_std::fs::MetadataExt;
    metadata.mode()
}

#[cfg(not(unix))]
fn mode(metadata: &Metadata) -> u32 {
    if metadata.is_symlink() {
        0o120_777
    } else {
        0o100_644
    }
}

/// Gives a file the owner, the group and the permissions of another file, except set-user-ID and
/// set-group-ID, because its content is new.
#[cfg(unix)]
pub(super) fn copy_owner_and_mode(file: &File, like: &Metadata) -> io::Result<()> {
    use cap_std::fs::{MetadataExt, Permissions, PermissionsExt};
    use rustix::fs::{Gid, Uid};
    let ours = file.metadata()?;
    if (ours.uid(), ours.gid()) != (like.uid(), like.gid()) {
        // Only the superuser may change a file's owner. For other users, this call fails and they own the new file, as with any editor that
        // writes atomically.
        let _ = rustix::fs::fchown(
            file,
            Some(Uid::from_raw(like.uid())),
            Some(Gid::from_raw(like.gid())),
        );
    }
    file.set_permissions(Permissions::from_mode(like.mode() & 0o777))
}

#[cfg(not(unix))]
pub(super) fn copy_owner_and_mode(file: &File, like: &Metadata) -> io::Result<()> {
    file.set_permissions(like.permissions())
}

/// Returns true if an `st_mode` describes a link.
pub(super) fn is_link(mode: u32) -> bool {
    const KIND: u32 = 0o170_000;
    const LINK: u32 = 0o120_000;
    mode & KIND == LINK
}

/// Sets a file's permissions.
#[cfg(unix)]
pub(super) fn set_mode(file: &File, mode: u32) -> io::Result<()> {
    use cap_std::fs::{Permissions, PermissionsExt};
    file.set_permissions(Permissions::from_mode(mode & 0o7777))
}

#[cfg(not(unix))]
pub(super) fn set_mode(_: &File, _: u32) -> io::Result<()> {
    Ok(())
}

/// Creates a link with any target. A target outside the workspace is harmless, because the jail never follows a link out of it.
#[cfg(unix)]
pub(super) fn make_link(folder: &Dir, target: &[u8], name: &Path) -> io::Result<()> {
    use std::os::unix::ffi::OsStrExt;
    folder.symlink_contents(OsStr::from_bytes(target), name)
}

#[cfg(not(unix))]
pub(super) fn make_link(_: &Dir, _: &[u8], _: &Path) -> io::Result<()> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}
