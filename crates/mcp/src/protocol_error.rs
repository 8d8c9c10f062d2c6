//! Errors of the protocol library in words for users: what failed, why, and what to do.

use std::error::Error;

use rmcp::ServiceError;
use rmcp::service::ClientInitializeError;
use rmcp::transport::DynamicTransportError;
use rmcp::transport::streamable_http_client::StreamableHttpError;

use crate::error::StartError;
use crate::http::HttpError;
use crate::text::clean_line;

/// Maximum length of the text of an error, in characters.
const MAX_ERROR: usize = 500;
/// What to do about a program or an address that does not speak the protocol.
const NO_SERVER: &str = "it seems to be no MCP server: check its command or URL";

/// Describes why a connection could not be initialized.
pub(crate) fn initialize_error(error: ClientInitializeError) -> StartError {
    StartError::Protocol(match error {
        ClientInitializeError::ConnectionClosed(_) => "it closed the connection".to_owned(),
        ClientInitializeError::TransportError { error, .. } => transport_error(&error),
        ClientInitializeError::JsonRpcError(error) => {
            format!(
                "it refused the connection: {}",
                clean_line(&error.message, MAX_ERROR)
            )
        }
        ClientInitializeError::NoCompatibleProtocolVersion { .. } => {
            "it speaks no version of the protocol that Dirigent knows: update it".to_owned()
        }
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => return initialize_error(*fallback),
        ClientInitializeError::ExpectedInitResponse(_)
        | ClientInitializeError::ExpectedInitResult(_)
        | ClientInitializeError::ConflictInitResponseId(..)
        | ClientInitializeError::UncorrelatedErrorResponse { .. } => {
            format!("it did not answer `initialize`, the first message: {NO_SERVER}")
        }
        other => format!(
            "it broke the protocol: {}",
            clean_line(&other.to_string(), MAX_ERROR)
        ),
    })
}

/// Describes why a request failed.
pub(crate) fn service_error(error: &ServiceError) -> String {
    match error {
        ServiceError::TransportSend(error) => transport_error(error),
        ServiceError::TransportClosed => "it closed the connection".to_owned(),
        ServiceError::McpError(error) => format!("it answered: {}", clean_line(&error.message, MAX_ERROR)),
        ServiceError::UnexpectedResponse => "its answer has an unknown form".to_owned(),
        other => clean_line(&other.to_string(), MAX_ERROR),
    }
}

/// Describes why a message could not be sent.
fn transport_error(error: &DynamicTransportError) -> String {
    match error.error.downcast_ref::<HttpError>() {
        Some(error) => http_error(error),
        None => format!("it cannot be reached: {}", innermost(&*error.error)),
    }
}

fn http_error(error: &HttpError) -> String {
    const AUTHENTICATION: &str = "it asks for authentication: set `bearer_token_env` or `headers`";
    match error {
        StreamableHttpError::AuthRequired(_) => AUTHENTICATION.to_owned(),
        StreamableHttpError::InsufficientScope(_) => {
            "it refuses the token, which does not permit enough: use another token".to_owned()
        }
        StreamableHttpError::Client(error) => match error.status().map(|status| status.as_u16()) {
            Some(status) => status_error(status),
            None => format!(
                "it cannot be reached: {}: check that it runs, and that `url` is its address",
                innermost(error)
            ),
        },
        StreamableHttpError::HttpStatus(error) => status_error(error.status),
        StreamableHttpError::UnexpectedContentType(_)
        | StreamableHttpError::Deserialize(_)
        | StreamableHttpError::ServerDoesNotSupportSse => {
            format!("its answer is no message of the protocol: {NO_SERVER}")
        }
        StreamableHttpError::UnexpectedServerResponse(text) => match http_status(text) {
            Some(status) => status_error(status),
            None => format!("its answer is no message of the protocol: {NO_SERVER}"),
        },
        other => format!("it cannot be reached: {}", innermost(other)),
    }
}

/// Returns the status in the text of an unexpected response, which begins with `HTTP 404`.
fn http_status(text: &str) -> Option<u16> {
    let status = text.strip_prefix("HTTP ")?.get(..3)?;
    status.parse().ok()
}

fn status_error(status: u16) -> String {
    match status {
        401 | 403 => {
            format!("it cannot be used: HTTP status {status}: check `bearer_token_env` and `headers`")
        }
        404 | 405 => format!(
            "it cannot be used: HTTP status {status}: there is no MCP server at this address; check the path of `url`"
        ),
        500.. => format!("it cannot be used: HTTP status {status}, an error of the server: try again later"),
        _ => format!("it cannot be used: HTTP status {status}"),
    }
}

/// Returns the text of the innermost cause, which is the most specific one.
fn innermost(error: &(dyn Error + 'static)) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    clean_line(&cause.to_string(), MAX_ERROR)
}
