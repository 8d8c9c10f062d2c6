//! Reads and writes recordings.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use dirigent_core::recording::{FormatError, Recording};
use tempfile::NamedTempFile;

use crate::DirigentError;
use crate::blocking::blocking;

/// Number of bytes at the beginning of a file that are searched for a recording's header.
const HEADER_BYTES: u64 = 1 << 20;

/// Why a recording cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordingError {
    /// The file cannot be read.
    #[error("the recording {} cannot be read: {error}", path.display())]
    Read {
        /// The file's path.
        path: PathBuf,
        /// The error of the file system.
        error: io::Error,
    },
    /// The file is not a recording, is damaged, or is from another version.
    #[error("{}: {fault}", path.display())]
    Format {
        /// The file's path.
        path: PathBuf,
        /// The error in its content.
        fault: FormatError,
    },
    /// The file cannot be written.
    #[error("the recording {} cannot be written: {error}", path.display())]
    Write {
        /// The file's path.
        path: PathBuf,
        /// The error of the file system.
        error: io::Error,
    },
    /// The file exists and is not a recording, so it is not overwritten.
    #[error("{} already exists and is not a recording: name another file, or remove it", path.display())]
    NotARecording {
        /// The file's path.
        path: PathBuf,
    },
}

/// Reads a recording.
///
/// # Errors
/// [`RecordingError::Read`], [`RecordingError::Format`].
pub async fn read_recording(path: impl Into<PathBuf>) -> Result<Recording, DirigentError> {
    let path = path.into();
    blocking(move || read(&path)).await
}

fn read(path: &Path) -> Result<Recording, RecordingError> {
    let failed = |error| RecordingError::Read {
        path: path.to_owned(),
        error,
    };
    // A pipe could block, and a device could be endless.
    if !fs::metadata(path).map_err(failed)?.is_file() {
        return Err(failed(io::Error::new(
            ErrorKind::InvalidInput,
            "it is not a file",
        )));
    }
    let text = fs::read(path).map_err(failed)?;
    Recording::parse(text).map_err(|fault| RecordingError::Format {
        path: path.to_owned(),
        fault,
    })
}

/// Writes a recording atomically, replacing an earlier recording. Only the user can read the file, as with the journal.
///
/// # Errors
/// [`RecordingError::NotARecording`], [`RecordingError::Write`].
pub async fn write_recording(path: impl Into<PathBuf>, recording: Recording) -> Result<(), DirigentError> {
    let path = path.into();
    blocking(move || write(&path, &recording)).await
}

fn write(path: &Path, recording: &Recording) -> Result<(), RecordingError> {
    let mut target = AtomicFile::new(path)?;
    let written = write!(target.file, "{recording}").and_then(|()| target.file.as_file().sync_all());
    let kept = written.and_then(|()| target.file.persist(&target.path).map_err(|error| error.error));
    kept.map(drop).map_err(|error| RecordingError::Write {
        path: path.to_owned(),
        error,
    })
}

/// Checks, before a run starts, that [`write_recording`] can write to a path. Leaves no file behind.
///
/// # Errors
/// The errors of [`write_recording`].
pub async fn check_recording_file(path: impl Into<PathBuf>) -> Result<(), DirigentError> {
    let path = path.into();
    blocking(move || AtomicFile::new(&path).map(drop)).await
}

/// A temporary file that replaces the target once it is complete, and is removed otherwise.
struct AtomicFile {
    path: PathBuf,
    file: NamedTempFile,
}

impl AtomicFile {
    fn new(path: &Path) -> Result<Self, RecordingError> {
        let failed = |error| RecordingError::Write {
            path: path.to_owned(),
            error,
        };
        // If the path is a link, its target is replaced, not the link itself.
        let target = match path.canonicalize() {
            Ok(there) if may_be_replaced(&there).map_err(failed)? => there,
            Ok(_) => {
                return Err(RecordingError::NotARecording {
                    path: path.to_owned(),
                });
            }
            Err(error) if error.kind() == ErrorKind::NotFound => path.to_owned(),
            Err(error) => return Err(failed(error)),
        };
        if target.file_name().is_none() {
            return Err(failed(io::Error::new(
                ErrorKind::InvalidInput,
                "the path has no file name",
            )));
        }
        let folder = match target.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            Some(_) | None => Path::new("."),
        };
        let file = NamedTempFile::with_prefix_in(".recording-", folder).map_err(failed)?;
        Ok(AtomicFile { path: target, file })
    }
}

/// Returns true if a file may be overwritten: if it is empty or an earlier recording.
fn may_be_replaced(path: &Path) -> io::Result<bool> {
    if !fs::metadata(path)?.is_file() {
        return Ok(false);
    }
    let mut beginning = Vec::new();
    File::open(path)?.take(HEADER_BYTES).read_to_end(&mut beginning)?;
    Ok(beginning.is_empty() || Recording::is_recording(&beginning))
}
