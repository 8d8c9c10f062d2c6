//! Responses in place of a reply: refusals, outages, garbage, or none at all.

use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use crate::http::{HttpAnswer, Then};
use crate::request::Request;

/// A response in place of a reply. Error bodies have the wording of the OpenAI API, to test clients that read them.
#[derive(Clone, Debug)]
pub enum Fault {
    /// 400, code `context_length_exceeded`.
    ContextLengthExceeded,
    /// 401, code `invalid_api_key`.
    InvalidApiKey,
    /// 404, code `model_not_found`, with the requested model's name.
    ModelNotFound,
    /// 429, code `rate_limit_exceeded`.
    RateLimited {
        /// Value of the `Retry-After` header.
        retry_after: Option<RetryAfter>,
    },
    /// 429, code `insufficient_quota`: a retry does not help.
    QuotaExceeded,
    /// 503.
    Unavailable {
        /// Value of the `Retry-After` header.
        retry_after: Option<RetryAfter>,
    },
    /// Any other error status, with the error's message.
    Status(u16, &'static str),
    /// An HTML page with this status: a proxy's error, or with 200 the page of another server.
    HtmlPage(u16),
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
    EndlessKeepAlive,
}

/// Value of a `Retry-After` header or the like.
#[derive(Clone, Copy, Debug)]
pub enum RetryAfter {
    /// A number of seconds.
    Seconds(u64),
    /// A number of milliseconds, in the header `retry-after-ms` of some providers.
    Millis(u64),
    /// The HTTP date this many seconds from now.
    DateInSeconds(u32),
}

impl RetryAfter {
    fn header(self) -> String {
        match self {
            Self::Seconds(seconds) => format!("retry-after: {seconds}"),
            Self::Millis(millis) => format!("retry-after-ms: {millis}"),
            Self::DateInSeconds(seconds) => {
                let at = Timestamp::now() + SignedDuration::from_secs(seconds.into());
                // A date that cannot be printed results in an invalid header.
                let date = jiff::fmt::rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&at);
                format!("retry-after: {}", date.unwrap_or_default())
            }
        }
    }
}

impl Fault {
    /// Returns the response to a request.
    pub(crate) fn answer(&self, request: &Request) -> HttpAnswer {
        let (invalid, model) = ("invalid_request_error", request.model());
        match self {
            Self::ContextLengthExceeded => error(
                400,
                "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens. Please reduce \
                 the length of the messages.",
                invalid,
                Some("context_length_exceeded"),
                None,
            ),
            Self::InvalidApiKey => error(
                401,
                "Incorrect API key provided.",
                invalid,
                Some("invalid_api_key"),
                None,
            ),
            Self::ModelNotFound => error(
                404,
                &format!("The model `{model}` does not exist or you do not have access to it."),
                invalid,
                Some("model_not_found"),
                None,
            ),
            Self::RateLimited { retry_after } => error(
                429,
                &format!("Rate limit reached for {model} on requests per min (RPM)."),
                "requests",
                Some("rate_limit_exceeded"),
                *retry_after,
            ),
            Self::QuotaExceeded => error(
                429,
                "You exceeded your current quota, please check your plan and billing details.",
                "insufficient_quota",
                Some("insufficient_quota"),
                None,
            ),
            Self::Unavailable { retry_after } => error(
                503,
                "The engine is currently overloaded, please try again later.",
                "server_error",
                None,
                *retry_after,
            ),
            Self::Status(status, message) if *status < 500 => error(*status, message, invalid, None, None),
            Self::Status(status, message) => error(*status, message, "server_error", None, None),
            Self::HtmlPage(status) => {
                let page =
                    format!("<html>\r\n<body><center><h1>{status}</h1></center></body>\r\n</html>\r\n");
                HttpAnswer::new(status, &["content-type: text/html"], page)
            }
            Self::Redirect { to } => HttpAnswer::new(307, &[&format!("location: {to}")], ""),
            Self::ClosedBeforeHeaders => HttpAnswer::raw(""),
            Self::Garbage if request.wants_stream() => HttpAnswer::events(&["<garbage>"]),
            Self::Garbage => HttpAnswer::json(200, "<garbage>"),
            Self::EmptyBody if request.wants_stream() => HttpAnswer::stream(""),
            Self::EmptyBody => HttpAnswer::json(200, ""),
            Self::EndlessKeepAlive if request.wants_stream() => {
                HttpAnswer::stream("").then(Then::Pour(b": keep-alive\n\n"))
            }
            Self::EndlessKeepAlive => HttpAnswer::json(200, "").then(Then::Pour(b"\n")),
        }
    }
}

/// Returns an error in the API's format.
pub(crate) fn error(
    status: u16,
    message: &str,
    kind: &str,
    code: Option<&str>,
    retry_after: Option<RetryAfter>,
) -> HttpAnswer {
    let body = json!({ "error": { "message": message, "type": kind, "param": null, "code": code } });
    let retry_after = retry_after.map(RetryAfter::header);
    let headers: Vec<&str> = std::iter::once("content-type: application/json")
        .chain(retry_after.as_deref())
        .collect();
    HttpAnswer::new(status, &headers, body.to_string())
}
