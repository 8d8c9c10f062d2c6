//! Errors of `file_operations`, with messages that a model can act on.

use dirigent_core::tool::code;

use super::edit::EditError;
use crate::excerpt::ExcerptError;
use crate::seen::Stale;
use crate::workspace::FileError;

/// Reason why an operation failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum FileOperationError {
    #[error("`{operation}` needs `{parameter}`: {purpose}")]
    Missing {
        operation: &'static str,
        parameter: &'static str,
        purpose: &'static str,
    },
    #[error("`{0}` is refused, as this agent may not change files: report what should be changed instead")]
    ReadOnly(&'static str),
    #[error("`{glob}` is not a valid glob: {source}")]
    BadGlob { glob: String, source: globset::Error },
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Stale(#[from] Stale),
    #[error(transparent)]
    Excerpt(#[from] ExcerptError),
    #[error(transparent)]
    Edit(#[from] EditError),
}

impl FileOperationError {
    pub(super) fn code(&self) -> &'static str {
        match self {
            FileOperationError::Missing { .. } | FileOperationError::BadGlob { .. } => code::BAD_PARAMETERS,
            FileOperationError::Excerpt(error) => error.code(),
            FileOperationError::ReadOnly(_) => code::ACCESS_DENIED,
            FileOperationError::File(error) => error.code(),
            FileOperationError::Stale(_) => code::STALE,
            FileOperationError::Edit(error) => error.code(),
        }
    }
}
