//! Recordings in files.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use dirigent_core::recording::{FormatError, Recording};
use tempfile::NamedTempFile;

/// Bytes of a file that tell whether it is a recording.
const HEADER_BYTES: u64 = 1 << 20;

/// What is wrong with a recording's file.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// It cannot be read.
    #[error("the recording {} cannot be read: {error}", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// It is no recording, or one that is damaged or of another version.
    #[error("{}: {fault}", path.display())]
    Format {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        fault: FormatError,
    },
    /// It cannot be written.
    #[error("the recording {} cannot be written: {error}", path.display())]
    Write {
        /// Which file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// There is something else that would be lost.
    #[error("{} is there already and is no recording: name another file, or remove it", path.display())]
    NotARecording {
        /// Which file.
        path: PathBuf,
    },
}

/// Reads a recording. Reads the disk.
///
/// # Errors
/// [`RecordingError::Read`], [`RecordingError::Format`].
pub fn read_recording(path: impl AsRef<Path>) -> Result<Recording, RecordingError> {
    let path = path.as_ref();
    let failed = |error| RecordingError::Read {
        path: path.to_owned(),
        error,
    };
    // Nothing that has no end, or that waits for somebody.
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

/// Writes a recording, whole or not at all; an earlier recording of that name is replaced. The file is for its user's eyes alone, as the
/// journal is. Writes the disk.
///
/// # Errors
/// [`RecordingError::NotARecording`], [`RecordingError::Write`].
pub fn write_recording(path: impl AsRef<Path>, recording: &Recording) -> Result<(), RecordingError> {
    let mut target = AtomicFile::new(path.as_ref())?;
    let written = write!(target.file, "{recording}").and_then(|()| target.file.as_file().sync_all());
    let kept = written.and_then(|()| target.file.persist(&target.path).map_err(|error| error.error));
    kept.map(drop).map_err(|error| RecordingError::Write {
        path: path.as_ref().to_owned(),
        error,
    })
}

/// Says before a run starts whether [`write_recording`] can write there. Leaves nothing behind. Writes the disk.
///
/// # Errors
/// Those of [`write_recording`].
pub fn check_recording_file(path: impl AsRef<Path>) -> Result<(), RecordingError> {
    AtomicFile::new(path.as_ref()).map(drop)
}

/// A file that takes the place of another one once it is whole, and is removed if it does not.
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
        // What a link leads to is replaced, not the link.
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
                "it names no file",
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

/// Nothing is lost with an empty file or an earlier recording.
fn may_be_replaced(path: &Path) -> io::Result<bool> {
    if !fs::metadata(path)?.is_file() {
        return Ok(false);
    }
    let mut beginning = Vec::new();
    File::open(path)?.take(HEADER_BYTES).read_to_end(&mut beginning)?;
    Ok(beginning.is_empty() || Recording::is_recording(&beginning))
}
