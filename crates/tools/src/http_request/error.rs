//! Errors of the `http_request` tool, with messages for models and stable codes.

use std::time::Duration;

use dirigent_core::tool::code;

use super::address::DisallowedAddress;

/// Reason why a request failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum HttpError {
    #[error("{0}")]
    Parameters(String),
    #[error(
        "you have read-only access, and a {0} request may change something; use GET, HEAD or OPTIONS, or report what should be sent"
    )]
    AccessDenied(&'static str),
    /// The host is not on the public network, and the configuration does not allow it.
    #[error("{0}")]
    DisallowedAddress(#[from] DisallowedAddress),
    /// The request or the response violates the tool's rules.
    #[error("{0}")]
    Refused(String),
    #[error("redirected more than {0} times; the last redirect was to `{1}`")]
    TooManyRedirects(usize, String),
    /// No connection, no response, or a response that is not HTTP.
    #[error("{0}")]
    Unreachable(String),
    #[error("no complete response within {0:?}")]
    TimedOut(Duration),
    #[error("cancelled")]
    Cancelled,
}

impl HttpError {
    /// Returns the stable code of the error.
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
