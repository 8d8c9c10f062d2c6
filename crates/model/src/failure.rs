//! Classification of errors from model servers. A [`ModelFailureKind`] tells whether a retry or another model can help; the message
//! has no secrets.

use std::time::Duration;

use dirigent_core::message::{ModelFailure, ModelFailureKind};
use dirigent_core::time::Millis;
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use reqwest::header::HeaderMap;
use serde_json::Value;

use crate::secrets::Secrets;

/// Maximum retry delay. A longer delay requested by a server is reduced to this.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(86_400);

/// Maximum size of an excerpt of a server's text in a message, in characters.
const MAX_EXCERPT_CHARS: usize = 500;

/// Converts the errors of one server to failures.
#[derive(Clone, Debug)]
pub(crate) struct FailureClassifier {
    /// Name of the server in messages, without secrets.
    pub(crate) server: String,
    pub(crate) secrets: Secrets,
}

impl FailureClassifier {
    /// Creates a failure. The message is prefixed with the server, and secrets in it are redacted.
    pub(crate) fn failure(&self, kind: ModelFailureKind, message: &str) -> ModelFailure {
        ModelFailure {
            kind,
            message: self.secrets.redact(&format!("{}: {message}", self.server)),
        }
    }

    /// Creates a failure for a server that can't be reached or that sent no usable reply.
    pub(crate) fn unavailable(&self, message: &str) -> ModelFailure {
        self.failure(ModelFailureKind::Unavailable { retry_after: None }, message)
    }

    /// Classifies a response with an error status.
    pub(crate) fn status(&self, status: u16, headers: &HeaderMap, body: &str) -> ModelFailure {
        let error = ErrorBody::parse(body);
        let kind = failure_kind(status, retry_after(headers, Timestamp::now()), &error);
        let hint = hint(kind, status);
        let redirect_target = headers
            .get(reqwest::header::LOCATION)
            .and_then(|to| to.to_str().ok());
        let message = match redirect_target {
            Some(to) if (300..400).contains(&status) => {
                format!("it answered {status}, a redirect to {}", self.excerpt(to))
            }
            Some(_) | None => format!("it answered {status}: {}", self.excerpt(&error.message)),
        };
        self.failure(kind, &format!("{message}{hint}"))
    }

    /// Classifies an error object that the server sent in place of a reply.
    pub(crate) fn error_object(&self, object: &Value) -> ModelFailure {
        let error = ErrorBody::from_value(object);
        let code = &object["code"];
        let status = code
            .as_u64()
            .or_else(|| code.as_str()?.parse().ok())
            .and_then(|code| u16::try_from(code).ok())
            .filter(|code| (400..600).contains(code))
            .unwrap_or_else(|| error.status());
        let kind = failure_kind(status, None, &error);
        let hint = hint(kind, status);
        self.failure(kind, &format!("{}{hint}", self.excerpt(&error.message)))
    }

    /// Returns the beginning of a server's text, without secrets and on one line.
    pub(crate) fn excerpt(&self, text: &str) -> String {
        // Redact before shortening: a part of a key would not be recognised.
        let text = self.secrets.redact(text);
        let mut words = text
            .split_whitespace()
            .flat_map(|word| [word, " "])
            .flat_map(str::chars);
        let excerpt: String = words.by_ref().take(MAX_EXCERPT_CHARS).collect();
        let excerpt = excerpt.trim_end();
        match (excerpt.is_empty(), words.next()) {
            (true, _) => "(empty)".to_owned(),
            (false, Some(_)) => format!("{excerpt}…"),
            (false, None) => excerpt.to_owned(),
        }
    }
}

/// A server's description of an error.
struct ErrorBody {
    message: String,
    /// The server's error codes in lowercase: `type`, `code` and `status`.
    codes: String,
}

impl ErrorBody {
    /// Parses a body: `{"error": {"message": …}}`, `{"error": "…"}`, `{"message": …}`, `{"detail": …}`, or any text.
    fn parse(body: &str) -> ErrorBody {
        match serde_json::from_str::<Value>(body) {
            Ok(Value::Object(object)) => {
                let whole = Value::Object(object);
                match (&whole["error"], &whole["detail"]) {
                    (Value::Null, Value::Null) => ErrorBody::from_value(&whole),
                    (Value::Null, detail) => ErrorBody::from_value(detail),
                    (error, _) => ErrorBody::from_value(error),
                }
            }
            Ok(Value::Array(list)) => {
                ErrorBody::from_value(list.first().map_or(&Value::Null, |first| &first["error"]))
            }
            Ok(Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) | Err(_) => ErrorBody {
                message: body.to_owned(),
                codes: String::new(),
            },
        }
    }

    fn from_value(error: &Value) -> ErrorBody {
        let message = match (error, &error["message"]) {
            (_, Value::String(message)) => message.clone(),
            (Value::String(message), _) => message.clone(),
            (other, _) => other.to_string(),
        };
        let word = |field: &str| error[field].as_str().unwrap_or_default().to_lowercase();
        ErrorBody {
            message,
            codes: format!("{} {} {}", word("type"), word("code"), word("status")),
        }
    }

    /// Guesses the HTTP status from the error codes, for an error without a status.
    fn status(&self) -> u16 {
        const WORDS: [(&str, u16); 7] = [
            ("rate_limit", 429),
            ("quota", 429),
            ("authentication", 401),
            ("api_key", 401),
            ("permission", 403),
            ("not_found", 404),
            ("invalid_request", 400),
        ];
        WORDS
            .iter()
            .find(|(word, _)| self.codes.contains(word))
            .map_or(503, |(_, status)| *status)
    }

    /// Returns true if the conversation is too long. Servers use different statuses and wordings for this.
    fn is_too_long(&self) -> bool {
        const WORDS: [&str; 4] = [
            "context_length",
            "context_size",
            "string_above_max_length",
            "request_too_large",
        ];
        // The comments name the servers that use each phrase.
        const PHRASES: [&str; 18] = [
            "context length",                  // OpenAI, vLLM, SGLang, Ollama, Mistral, LM Studio
            "context_length",                  //
            "context window",                  // OpenAI, MiniMax
            "context size",                    // llama.cpp
            "context limit",                   // Anthropic
            "maximum context",                 // OpenAI and many others
            "maximum model length",            // vLLM
            "maximum prompt length",           // xAI
            "maximum number of tokens",        // Gemini
            "input tokens exceed",             // OpenAI
            "prompt is too long",              // Anthropic
            "prompt too long",                 // Ollama
            "input is too long",               // Bedrock
            "input too long",                  //
            "too many tokens",                 // Cohere
            "`inputs` tokens + `max_new_toke", // TGI
            "reduce the length of the",        // OpenAI, Groq
            "request too large",               // OpenAI and Groq: above the limit of tokens per minute
        ];
        let message = self.message.to_lowercase();
        WORDS.iter().any(|word| self.codes.contains(word))
            || PHRASES.iter().any(|phrase| message.contains(phrase))
    }
}

/// Classifies an error. [`openai`](crate::openai) documents the result for each fault.
fn failure_kind(status: u16, retry_after: Option<Millis>, error: &ErrorBody) -> ModelFailureKind {
    let out_of_money = error.codes.contains("insufficient_quota") || error.codes.contains("billing");
    match status {
        300..=399 | 401..=405 | 407 => ModelFailureKind::Configuration,
        413 => ModelFailureKind::TooLong,
        // A retry does not help: the account has no credit.
        429 if out_of_money => ModelFailureKind::Configuration,
        // A retry does not help: the request alone exceeds the limit of tokens per minute.
        429 if error.message.to_lowercase().contains("request too large") => ModelFailureKind::TooLong,
        408 | 409 | 425 | 429 => ModelFailureKind::Unavailable { retry_after },
        // Some servers respond with 500 if the conversation is too long.
        _ if error.is_too_long() => ModelFailureKind::TooLong,
        500.. => ModelFailureKind::Unavailable { retry_after },
        _ if error.codes.contains("model_not_found") => ModelFailureKind::Configuration,
        _ => ModelFailureKind::Rejected,
    }
}

/// Returns advice to append to the message, if the user has to correct something; empty for other failures.
fn hint(kind: ModelFailureKind, status: u16) -> &'static str {
    match (kind, status) {
        (ModelFailureKind::Configuration, 401 | 403) => ". Check the model's API key",
        (ModelFailureKind::Configuration, 402 | 429) => ". Check the account that the API key belongs to",
        (ModelFailureKind::Configuration, _) => ". Check the model's name and its base_url",
        (
            ModelFailureKind::Unavailable { .. }
            | ModelFailureKind::TooLong
            | ModelFailureKind::Rejected
            | ModelFailureKind::Panicked,
            _,
        ) => "",
    }
}

/// Reads the retry delay: milliseconds in `retry-after-ms`, or seconds or an HTTP date in `retry-after`.
fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Millis> {
    let value = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    if let Some(millis) = value("retry-after-ms").and_then(|ms| ms.parse::<f64>().ok()) {
        return retry_after_seconds(millis / 1_000.0);
    }
    let text = value("retry-after")?;
    match text.parse::<f64>() {
        Ok(seconds) => retry_after_seconds(seconds),
        Err(_) => {
            let then = DateTimeParser::new().parse_timestamp(text).ok()?;
            let wait = then.as_millisecond().saturating_sub(now.as_millisecond());
            let wait = Duration::from_millis(u64::try_from(wait).unwrap_or(0));
            Some(wait.min(MAX_RETRY_AFTER).into())
        }
    }
}

/// Converts a retry delay in seconds; `None` if it is negative or not a number.
pub(crate) fn retry_after_seconds(seconds: f64) -> Option<Millis> {
    // `clamp` returns NaN for NaN, which the conversion rejects; `min` would replace NaN with the maximum.
    let seconds = seconds.clamp(f64::NEG_INFINITY, MAX_RETRY_AFTER.as_secs_f64());
    Duration::try_from_secs_f64(seconds).ok().map(Millis::from)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use reqwest::header::HeaderName;

    fn asked_to_wait(name: &'static str, value: &str) -> Option<Millis> {
        let now: Timestamp = "1994-11-06T08:49:00Z".parse().unwrap();
        let mut headers = HeaderMap::new();
        headers.insert(HeaderName::from_static(name), value.parse().unwrap());
        retry_after(&headers, now)
    }

    #[test]
    fn host_7_retry_after_is_seconds_or_a_date() {
        assert_eq!(asked_to_wait("retry-after", "20"), Some(Millis(20_000)));
        assert_eq!(asked_to_wait("retry-after", " 0.5 "), Some(Millis(500)));
        assert_eq!(
            asked_to_wait("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT"),
            Some(Millis(37_000))
        );
        assert_eq!(
            asked_to_wait("retry-after", "Sun, 06 Nov 1994 08:00:00 GMT"),
            Some(Millis(0))
        );
        assert_eq!(asked_to_wait("retry-after-ms", "250"), Some(Millis(250)));
        for huge in ["1e300", "86401", "inf", "Sat, 06 Nov 2094 08:49:37 GMT"] {
            assert_eq!(
                asked_to_wait("retry-after", huge),
                Some(Millis(86_400_000)),
                "{huge}"
            );
        }
        for nonsense in ["soon", "-1", "NaN", ""] {
            assert_eq!(asked_to_wait("retry-after", nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn failures_are_classified_by_status_and_error_text() {
        let kind = |status, body: &str| failure_kind(status, None, &ErrorBody::parse(body));
        let unavailable = ModelFailureKind::Unavailable { retry_after: None };
        let too_long = r#"{"error": {"message": "x", "code": "context_length_exceeded"}}"#;
        for (status, body, expected) in [
            (401, "", ModelFailureKind::Configuration),
            (402, "", ModelFailureKind::Configuration),
            (404, "", ModelFailureKind::Configuration),
            (307, "", ModelFailureKind::Configuration),
            (
                400,
                r#"{"error": {"code": "model_not_found"}}"#,
                ModelFailureKind::Configuration,
            ),
            (
                429,
                r#"{"error": {"type": "insufficient_quota"}}"#,
                ModelFailureKind::Configuration,
            ),
            (429, r#"{"error": {"type": "rate_limit_exceeded"}}"#, unavailable),
            (408, "", unavailable),
            (500, "<html>", unavailable),
            (529, "", unavailable),
            (413, "", ModelFailureKind::TooLong),
            (400, too_long, ModelFailureKind::TooLong),
            (
                400,
                r#"{"error": "the request exceeds the available context size"}"#,
                ModelFailureKind::TooLong,
            ),
            (
                400,
                r#"{"object": "error", "message": "maximum context length is 8192"}"#,
                ModelFailureKind::TooLong,
            ),
            (
                500,
                r#"{"error": {"message": "prompt is too long"}}"#,
                ModelFailureKind::TooLong,
            ),
            (
                429,
                r#"{"error": {"message": "Request too large for m on tokens per min (TPM): Limit 1, Requested 2"}}"#,
                ModelFailureKind::TooLong,
            ),
            (400, "[]", ModelFailureKind::Rejected),
            (
                422,
                r#"{"detail": [{"msg": "field required"}]}"#,
                ModelFailureKind::Rejected,
            ),
        ] {
            assert_eq!(kind(status, body), expected, "{status} {body}");
        }
    }

    #[test]
    fn loop_11_every_servers_error_for_a_too_long_conversation_is_recognised() {
        for said in [
            "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
            "Input tokens exceed the configured limit of 272000 tokens.",
            "Your input exceeds the context window of this model.",
            "The decoder prompt (length 5000) is longer than the maximum model length of 4096.",
            "Input length (5000) exceeds model's maximum context length (4096).",
            "request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it",
            "prompt too long; exceeded max context length by 12 tokens",
            "the input length exceeds the context length",
            "prompt is too long: 200001 tokens > 200000 maximum",
            "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
            "Input is too long for requested model.",
            "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
            "This model's maximum prompt length is 131072 but the request contains 150000 tokens.",
            "too many tokens: total number of tokens in the prompt cannot exceed 4081",
            "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000",
            "Please reduce the length of the messages or completion.",
        ] {
            for body in [
                serde_json::json!({"error": {"message": said, "type": "invalid_request_error"}}),
                serde_json::json!({"error": said}),
                serde_json::json!({"detail": said}),
            ] {
                let kind = failure_kind(400, None, &ErrorBody::parse(&body.to_string()));
                assert_eq!(kind, ModelFailureKind::TooLong, "{body}");
            }
        }
        let by_its_word = r#"{"error": {"code": 400, "message": "no", "type": "exceed_context_size_error"}}"#;
        assert_eq!(
            failure_kind(400, None, &ErrorBody::parse(by_its_word)),
            ModelFailureKind::TooLong
        );
    }
}
