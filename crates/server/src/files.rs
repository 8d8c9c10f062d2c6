//! Folders and files of the service on disk.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

/// The folder of a file; the current one for a mere name.
pub(crate) fn folder_of(file: &Path) -> &Path {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

/// Writes a temporary file, which only its owner can read, in the folder of a file whose place it is to take. So nobody ever reads a part of the content. Blocks.
pub(crate) fn written_beside(file: &Path, content: &[u8]) -> io::Result<NamedTempFile> {
    let mut written = NamedTempFile::new_in(folder_of(file))?;
    written.write_all(content)?;
    Ok(written)
}

/// Returns the path of a folder with its links resolved. Blocks.
///
/// # Errors
/// The folder does not exist or cannot be read, or the path is not a folder.
pub(crate) fn real_folder(path: &Path) -> io::Result<PathBuf> {
    let folder = path.canonicalize()?;
    if !folder.metadata()?.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    Ok(folder)
}
