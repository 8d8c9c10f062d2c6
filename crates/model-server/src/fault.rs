//! Responses in place of a reply: refusals, outages, garbage, or none at all.
//!
//! Error bodies have the wording of the OpenAI API, to test clients that read them.

use std::time::Duration;

use axum::http::{HeaderName, StatusCode, header};
use jiff::{SignedDuration, Timestamp};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

/// A response in place of a reply.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Fault {
    /// 400, code `context_length_exceeded`.
    ContextLengthExceeded {
        /// Largest number of tokens that the model accepts.
        limit: u64,
        /// Number of the request's tokens.
        requested: u64,
    },
    /// 401, code `invalid_api_key`.
    InvalidApiKey,
    /// 403: the key has no access to the model.
    Forbidden,
    /// 404, code `model_not_found`, with the requested model's name.
    ModelNotFound,
    /// 408.
    RequestTimeout,
    /// 409.
    Conflict,
    /// 413.
    PayloadTooLarge,
    /// 422.
    Unprocessable,
    /// 429, code `rate_limit_exceeded`.
    RateLimited {
        /// Value of the `Retry-After` header.
        #[serde(default)]
        retry_after: Option<RetryAfter>,
    },
    /// 429, code `insufficient_quota`: a retry does not help.
    QuotaExceeded,
    /// 500.
    ServerError,
    /// 502.
    BadGateway,
    /// 503.
    Unavailable {
        /// Value of the `Retry-After` header.
        #[serde(default)]
        retry_after: Option<RetryAfter>,
    },
    /// 529, which Anthropic and some gateways send when they are overloaded.
    Overloaded,
    /// Any other error status.
    Status {
        /// Status, 400 to 599.
        #[serde(deserialize_with = "error_status")]
        status: StatusCode,
        /// Message of the error.
        message: String,
    },
    /// An HTML page: a proxy's error, or with 200 the page of another server.
    HtmlPage {
        /// Status: 200, or 400 to 599.
        #[serde(deserialize_with = "page_status")]
        status: StatusCode,
    },
    /// 307 to another address, as from a gateway that requires HTTPS or another path.
    Redirect {
        /// Value of the `Location` header.
        to: String,
    },
    /// The connection closes before the first byte of a response.
    ClosedBeforeHeaders,
    /// Status 200 and the right content type, but no JSON.
    Garbage,
    /// Status 200 and the right content type, but no body.
    EmptyBody,
    /// Status 200, then comments without end (plain JSON: empty lines), and no event.
    EndlessKeepAlive {
        /// Milliseconds between two comments; 0 counts as 1.
        every_ms: u64,
    },
}

/// Value of a `Retry-After` header or the like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RetryAfter {
    /// A number of seconds.
    Seconds(u64),
    /// A number of milliseconds, in the header `retry-after-ms` of some providers.
    Millis(u64),
    /// The HTTP date this many seconds from now.
    DateInSeconds(u32),
}

impl RetryAfter {
    /// Returns the header's name.
    pub(crate) fn name(self) -> HeaderName {
        match self {
            Self::Seconds(_) | Self::DateInSeconds(_) => header::RETRY_AFTER,
            Self::Millis(_) => HeaderName::from_static("retry-after-ms"),
        }
    }

    /// Returns the header's value.
    pub(crate) fn value(self) -> String {
        match self {
            Self::Seconds(number) | Self::Millis(number) => number.to_string(),
            Self::DateInSeconds(seconds) => {
                let at = Timestamp::now() + SignedDuration::from_secs(seconds.into());
                // An HTTP date can express any time of this century.
                jiff::fmt::rfc2822::DateTimePrinter::new()
                    .timestamp_to_rfc9110_string(&at)
                    .unwrap_or_else(|_| seconds.to_string())
            }
        }
    }
}

/// A fault on the wire.
pub(crate) enum FaultResponse {
    /// An error status with a JSON error object.
    Error {
        status: StatusCode,
        body: Value,
        retry_after: Option<RetryAfter>,
    },
    Html {
        status: StatusCode,
        page: String,
    },
    CloseConnection,
    /// Status 307.
    Redirect {
        to: String,
    },
    /// Status 200 without JSON.
    Garbage,
    /// Status 200 with an empty body.
    Empty,
    /// Status 200 with endless filler.
    Endless {
        every: Duration,
    },
}

impl Fault {
    /// Returns a fault with any error status; `None` unless the status is 400 to 599.
    pub fn status(status: u16, message: impl Into<String>) -> Option<Self> {
        error_code(status).map(|status| Self::Status {
            status,
            message: message.into(),
        })
    }

    /// Returns an HTML page; `None` unless the status is 200, or 400 to 599.
    pub fn html_page(status: u16) -> Option<Self> {
        page_code(status).map(|status| Self::HtmlPage { status })
    }

    /// Returns the response to a client that requested `model`.
    pub(crate) fn response(&self, model: &str) -> FaultResponse {
        match self {
            Self::ContextLengthExceeded { limit, requested } => refuse(
                StatusCode::BAD_REQUEST,
                &format!(
                    "This model's maximum context length is {limit} tokens. However, your messages resulted in \
                     {requested} tokens. Please reduce the length of the messages."
                ),
                (
                    "invalid_request_error",
                    Some("messages"),
                    Some("context_length_exceeded"),
                ),
            ),
            Self::InvalidApiKey => refuse(
                StatusCode::UNAUTHORIZED,
                "Incorrect API key provided.",
                ("invalid_request_error", None, Some("invalid_api_key")),
            ),
            Self::Forbidden => refuse(
                StatusCode::FORBIDDEN,
                "You are not allowed to sample from this model.",
                ("invalid_request_error", None, None),
            ),
            Self::ModelNotFound => FaultResponse::Error {
                status: StatusCode::NOT_FOUND,
                body: model_not_found(model),
                retry_after: None,
            },
            Self::RequestTimeout => plain(StatusCode::REQUEST_TIMEOUT, "Request timed out."),
            Self::Conflict => plain(
                StatusCode::CONFLICT,
                "The resource was changed by another request.",
            ),
            Self::PayloadTooLarge => plain(StatusCode::PAYLOAD_TOO_LARGE, "The request body is too large."),
            Self::Unprocessable => plain(
                StatusCode::UNPROCESSABLE_ENTITY,
                "The request cannot be processed.",
            ),
            Self::RateLimited { retry_after } => refuse(
                StatusCode::TOO_MANY_REQUESTS,
                &format!("Rate limit reached for {model} on requests per min (RPM)."),
                ("requests", None, Some("rate_limit_exceeded")),
            )
            .with_retry_after(*retry_after),
            Self::QuotaExceeded => refuse(
                StatusCode::TOO_MANY_REQUESTS,
                "You exceeded your current quota, please check your plan and billing details.",
                ("insufficient_quota", None, Some("insufficient_quota")),
            ),
            Self::ServerError => plain(
                StatusCode::INTERNAL_SERVER_ERROR,
                "The server had an error while processing your request. Sorry about that!",
            ),
            Self::BadGateway => plain(StatusCode::BAD_GATEWAY, "Bad gateway."),
            Self::Unavailable { retry_after } => plain(
                StatusCode::SERVICE_UNAVAILABLE,
                "The engine is currently overloaded, please try again later.",
            )
            .with_retry_after(*retry_after),
            Self::Overloaded => FaultResponse::Error {
                status: error_code(529).unwrap_or(StatusCode::SERVICE_UNAVAILABLE),
                body: json!({
                    "type": "error",
                    "error": { "type": "overloaded_error", "message": "Overloaded" },
                }),
                retry_after: None,
            },
            Self::Status { status, message } => plain(*status, message),
            Self::HtmlPage { status } => FaultResponse::Html {
                status: *status,
                page: format!(
                    "<html>\r\n<head><title>{status}</title></head>\r\n<body>\r\n<center><h1>{status}</h1></center>\r\n\
                     <hr><center>proxy</center>\r\n</body>\r\n</html>\r\n"
                ),
            },
            Self::Redirect { to } => FaultResponse::Redirect { to: to.clone() },
            Self::ClosedBeforeHeaders => FaultResponse::CloseConnection,
            Self::Garbage => FaultResponse::Garbage,
            Self::EmptyBody => FaultResponse::Empty,
            Self::EndlessKeepAlive { every_ms } => FaultResponse::Endless {
                every: Duration::from_millis((*every_ms).max(1)),
            },
        }
    }
}

impl FaultResponse {
    fn with_retry_after(self, when: Option<RetryAfter>) -> Self {
        match self {
            Self::Error { status, body, .. } => Self::Error {
                status,
                body,
                retry_after: when,
            },
            other @ (Self::Html { .. }
            | Self::Redirect { .. }
            | FaultResponse::CloseConnection
            | Self::Garbage
            | Self::Empty
            | Self::Endless { .. }) => other,
        }
    }
}

/// Returns an error object in the API's format.
pub(crate) fn error_object(message: &str, kind: &str, param: Option<&str>, code: Option<&str>) -> Value {
    json!({ "error": { "message": message, "type": kind, "param": param, "code": code } })
}

/// Returns the error object for an unknown model.
pub(crate) fn model_not_found(model: &str) -> Value {
    let message = format!("The model `{model}` does not exist or you do not have access to it.");
    error_object(&message, "invalid_request_error", None, Some("model_not_found"))
}

fn refuse(
    status: StatusCode,
    message: &str,
    (kind, param, code): (&str, Option<&str>, Option<&str>),
) -> FaultResponse {
    FaultResponse::Error {
        status,
        body: error_object(message, kind, param, code),
        retry_after: None,
    }
}

fn plain(status: StatusCode, message: &str) -> FaultResponse {
    let kind = if status.is_server_error() {
        "server_error"
    } else {
        "invalid_request_error"
    };
    refuse(status, message, (kind, None, None))
}

fn error_code(status: u16) -> Option<StatusCode> {
    (400..=599)
        .contains(&status)
        .then(|| StatusCode::from_u16(status).ok())
        .flatten()
}

fn page_code(status: u16) -> Option<StatusCode> {
    if status == 200 {
        Some(StatusCode::OK)
    } else {
        error_code(status)
    }
}

fn page_status<'de, D: Deserializer<'de>>(deserializer: D) -> Result<StatusCode, D::Error> {
    let status = u16::deserialize(deserializer)?;
    page_code(status)
        .ok_or_else(|| D::Error::custom(format!("status {status} has no page: use 200 or 400 to 599")))
}

fn error_status<'de, D: Deserializer<'de>>(deserializer: D) -> Result<StatusCode, D::Error> {
    let status = u16::deserialize(deserializer)?;
    error_code(status)
        .ok_or_else(|| D::Error::custom(format!("status {status} is not an error: use 400 to 599")))
}
