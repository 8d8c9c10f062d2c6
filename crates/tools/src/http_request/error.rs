//! Why a request came to nothing, in words for models and in a code that stays the same.

use std::time::Duration;

use dirigent_core::tool::code;

use super::address::DisallowedAddress;

/// Why a request came to nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum HttpError {
    /// What was asked makes no request.
    #[error("{0}")]
    Parameters(String),
    /// The agent may only look.
    #[error(
        "{0} may change something elsewhere, and you may only look; use GET, HEAD or OPTIONS, or say what should be sent"
    )]
    AccessDenied(&'static str),
    /// It is not the public network, and nobody has allowed it.
    #[error("{0}")]
    DisallowedAddress(#[from] DisallowedAddress),
    /// It is against the tool's rules.
    #[error("{0}")]
    Refused(String),
    /// The server sends round and round.
    #[error("redirected more than {0} times; the last one was to `{1}`")]
    TooManyRedirects(usize, String),
    /// No connection, no answer, or none that is HTTP.
    #[error("{0}")]
    Unreachable(String),
    /// The time was up.
    #[error("no complete answer within {0:?}")]
    TimedOut(Duration),
    /// Nobody waits for it any more.
    #[error("cancelled")]
    Cancelled,
}

impl HttpError {
    /// A word that stays the same whatever the text says.
    pub(super) fn code(&self) -> &'static str {
        match self {
            HttpError::Parameters(_) => code::BAD_PARAMETERS,
            HttpError::AccessDenied(_) => code::ACCESS_DENIED,
            HttpError::DisallowedAddress(_) => "refused_address",
            HttpError::Refused(_) => code::REFUSED,
            HttpError::TooManyRedirects(..) => "too_many_redirects",
            HttpError::Unreachable(_) => code::UNREACHABLE,
            HttpError::TimedOut(_) => code::TIMED_OUT,
            HttpError::Cancelled => code::CANCELLED,
        }
    }
}
