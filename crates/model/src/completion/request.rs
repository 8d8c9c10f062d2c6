//! The request of an OpenAI client, kept in its own words: only the fields that decide where and how it is sent are read.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use dirigent_core::token_ratio::estimated_tokens;
use serde::de::{Error as _, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::CompletionError;

/// Maximum number of fields of a request's body. The API has some forty.
const MAX_FIELDS: usize = 256;

/// A chat completions request of an OpenAI client. Clones share the body.
#[derive(Clone, Debug)]
pub struct CompletionRequest {
    shared: Arc<Shared>,
    /// Text of a system message to put in front of the messages.
    system_prompt: Option<Arc<str>>,
    /// The server's name of the model; `None` for the default model.
    upstream_model: Option<String>,
}

#[derive(Debug)]
struct Shared {
    body: Bytes,
    /// Names of the body's fields, and where their values are, in the client's order.
    fields: Vec<(String, Range<usize>)>,
    model: String,
    is_streamed: bool,
    includes_usage: bool,
    has_instructions: bool,
    max_output_tokens: Option<u64>,
}

impl CompletionRequest {
    /// Reads a request's body.
    ///
    /// # Errors
    /// The body is not a JSON object, has a field twice, or has no valid `model` or `messages`: status 400.
    pub fn parse(body: Bytes) -> Result<Self, CompletionError> {
        let fields: Fields<'_> = serde_json::from_slice(&body).map_err(|error| {
            CompletionError::invalid(
                None,
                format!("the body is not a chat completions request: {error}"),
            )
        })?;
        let start = body.as_ptr() as usize;
        let place = |value: &RawValue| {
            // The value is a part of the body.
            let from = value.get().as_ptr() as usize - start;
            from..from + value.get().len()
        };
        let model: String = fields.read("model")?.unwrap_or_default();
        if model.is_empty() {
            let message = "the request names no model: set `model` to one of those that GET /v1/models lists";
            return Err(CompletionError::invalid("model", message));
        }
        let options: Option<StreamOptions> = fields.read("stream_options")?;
        let max_output_tokens = match fields.read("max_completion_tokens")? {
            Some(tokens) => Some(tokens),
            None => fields.read("max_tokens")?,
        };
        let shared = Shared {
            model,
            is_streamed: fields.read("stream")?.unwrap_or(false),
            includes_usage: options.is_some_and(|options| options.include_usage.unwrap_or(false)),
            has_instructions: has_instructions(&fields)?,
            max_output_tokens,
            fields: fields
                .0
                .iter()
                .map(|(name, value)| (name.clone().into_owned(), place(value)))
                .collect(),
            body: body.clone(),
        };
        Ok(CompletionRequest {
            shared: Arc::new(shared),
            system_prompt: None,
            upstream_model: None,
        })
    }

    /// Returns the name of the model that the client asks for.
    pub fn model(&self) -> &str {
        &self.shared.model
    }

    /// Returns true if the client asks for a stream.
    pub fn is_streamed(&self) -> bool {
        self.shared.is_streamed
    }

    /// Returns true if the client asks for the usage at the end of a stream.
    pub(crate) fn includes_usage(&self) -> bool {
        self.shared.includes_usage
    }

    /// Returns true if a message has the role `system` or `developer`.
    pub fn has_instructions(&self) -> bool {
        self.shared.has_instructions
    }

    /// Puts a system message in front of the messages.
    pub fn system_prompt(mut self, text: impl Into<Arc<str>>) -> Self {
        self.system_prompt = Some(text.into());
        self
    }

    /// Sets the server's name of the model.
    pub fn upstream_model(mut self, name: impl Into<Option<String>>) -> Self {
        self.upstream_model = name.into();
        self
    }

    /// Returns the server's name of the model.
    pub(crate) fn upstream_name(&self) -> Option<&String> {
        self.upstream_model.as_ref()
    }

    /// Returns the limit of the reply's tokens.
    pub(crate) fn max_output_tokens(&self) -> Option<u64> {
        self.shared.max_output_tokens
    }

    /// Returns the text of the system message to put in front of the messages.
    pub(crate) fn added_prompt(&self) -> Option<&str> {
        self.system_prompt.as_deref()
    }

    /// Returns the JSON text of a field's value; `None` if the request does not have the field.
    fn raw(&self, name: &str) -> Option<&str> {
        let (_, place) = self.shared.fields.iter().find(|(known, _)| known == name)?;
        self.text(place)
    }

    /// The body was parsed as JSON, so it is UTF-8.
    fn text(&self, place: &Range<usize>) -> Option<&str> {
        std::str::from_utf8(self.shared.body.get(place.clone())?).ok()
    }

    /// Returns the whole request as JSON, for a translation.
    pub(crate) fn to_value(&self) -> Result<Map<String, Value>, CompletionError> {
        serde_json::from_slice(&self.shared.body).map_err(|error| {
            CompletionError::invalid(
                None,
                format!("the body is not a chat completions request: {error}"),
            )
        })
    }

    /// Estimates the request's tokens, including its tools.
    pub(crate) fn estimated_tokens(&self) -> u64 {
        let parts = ["messages", "tools"]
            .into_iter()
            .filter_map(|name| self.raw(name));
        let texts = parts.chain(self.added_prompt());
        texts.map(estimated_tokens).fold(0, u64::saturating_add)
    }

    /// Returns the body to send: the client's fields in the client's order and words, with the server's name of the model, the added
    /// system message, and those of the `extra` fields that the client does not set.
    pub(crate) fn body_for(&self, model: &str, extra: &Map<String, Value>) -> Vec<u8> {
        let added = self.added_prompt().map_or(0, str::len);
        let mut body = Vec::with_capacity(self.shared.body.len() + added + model.len() + 256);
        let mut separator = b'{';
        let mut begin = |body: &mut Vec<u8>, name: &str| {
            body.push(std::mem::replace(&mut separator, b','));
            body.extend_from_slice(json_text(name).as_bytes());
            body.push(b':');
        };
        for (name, place) in &self.shared.fields {
            begin(&mut body, name);
            let value = self.text(place).unwrap_or("null");
            match (name.as_str(), self.added_prompt()) {
                ("model", _) => body.extend_from_slice(json_text(model).as_bytes()),
                ("messages", Some(prompt)) => push_messages(&mut body, prompt, value),
                _ => body.extend_from_slice(value.as_bytes()),
            }
        }
        for (name, value) in extra.iter().filter(|(name, _)| self.raw(name).is_none()) {
            begin(&mut body, name);
            body.extend_from_slice(value.to_string().as_bytes());
        }
        body.push(b'}');
        body
    }
}

/// Appends the list of messages with a system message in front. The list has at least one message.
fn push_messages(body: &mut Vec<u8>, prompt: &str, messages: &str) {
    let rest = messages.strip_prefix('[').unwrap_or(messages);
    let message = format!("[{{\"role\":\"system\",\"content\":{}}},", json_text(prompt));
    body.extend_from_slice(message.as_bytes());
    body.extend_from_slice(rest.as_bytes());
}

/// Returns a text as JSON.
fn json_text(text: &str) -> String {
    Value::from(text).to_string()
}

/// Checks that `messages` is a list of messages, and returns true if one of them is a system or developer message.
fn has_instructions(fields: &Fields<'_>) -> Result<bool, CompletionError> {
    #[derive(Deserialize)]
    struct Roles<'a> {
        #[serde(borrow)]
        role: Cow<'a, str>,
    }
    let messages: Option<Vec<Roles<'_>>> = fields.read("messages")?;
    match messages.as_deref() {
        None | Some([]) => {
            let message = "the request has no messages: put at least one into `messages`";
            Err(CompletionError::invalid("messages", message))
        }
        Some(messages) => Ok(messages
            .iter()
            .any(|message| matches!(&*message.role, "system" | "developer"))),
    }
}

#[derive(Deserialize)]
struct StreamOptions {
    include_usage: Option<bool>,
}

/// The fields of a body, with their values as they are written.
struct Fields<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Fields<'a> {
    /// Reads a field; `None` if it is missing or null.
    fn read<T: Deserialize<'a>>(&self, name: &'static str) -> Result<Option<T>, CompletionError> {
        let Some((_, value)) = self.0.iter().find(|(known, _)| known == name) else {
            return Ok(None);
        };
        serde_json::from_str(value.get())
            .map_err(|error| CompletionError::invalid(name, format!("`{name}` is invalid: {error}")))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Fields<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields: Vec<(Cow<'de, str>, &'de RawValue)> = Vec::new();
                while let Some(Name(name)) = map.next_key()? {
                    if fields.len() >= MAX_FIELDS {
                        let _ = map.next_value::<IgnoredAny>();
                        return Err(A::Error::custom(format_args!(
                            "it has more than {MAX_FIELDS} fields"
                        )));
                    }
                    // Two readers of the request could take different values.
                    if fields.iter().any(|(known, _)| *known == name) {
                        let _ = map.next_value::<IgnoredAny>();
                        return Err(A::Error::custom(format_args!("the field `{name}` occurs twice")));
                    }
                    fields.push((name, map.next_value()?));
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(Reader)
    }
}

/// The name of a field, borrowed where it has no escapes.
#[derive(Deserialize, PartialEq)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn request(body: &str) -> CompletionRequest {
        CompletionRequest::parse(Bytes::from(body.to_owned())).unwrap()
    }

    fn sent(request: &CompletionRequest, extra: &str) -> String {
        let extra = serde_json::from_str(extra).unwrap();
        String::from_utf8(request.body_for("served", &extra)).unwrap()
    }

    #[test]
    fn prompt_3_a_body_is_sent_in_the_clients_words_with_the_models_name_replaced() {
        let body = r#"{"messages": [ {"role":"user","content":"h\u0069"} ], "model":"own", "x": {"b":1.00,"a":12345678901234567890123}, "n":null}"#;
        assert_eq!(
            sent(&request(body), r#"{"x": 1, "top_k": 5}"#),
            r#"{"messages":[ {"role":"user","content":"h\u0069"} ],"model":"served","x":{"b":1.00,"a":12345678901234567890123},"n":null,"top_k":5}"#
        );
    }

    #[test]
    fn prompt_3_a_system_message_is_put_in_front() {
        let request = request(r#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#);
        assert!(!request.has_instructions());
        assert_eq!(
            sent(&request.system_prompt("Be \"brief\"."), "{}"),
            r#"{"model":"served","messages":[{"role":"system","content":"Be \"brief\"."},{"role":"user","content":"hi"}]}"#
        );
    }

    #[test]
    fn prompt_3_invalid_requests_are_refused_with_the_field() {
        let message = r#"[{"role":"user","content":"hi"}]"#;
        for (body, param) in [
            ("", None),
            ("[]", None),
            (r#"{"model":"a","model":"b","messages":[]}"#, None),
            (r#"{"model":"a","mod\u0065l":"b","messages":[]}"#, None),
            (&format!(r#"{{"messages":{message}}}"#), Some("model")),
            (&format!(r#"{{"model":1,"messages":{message}}}"#), Some("model")),
            (r#"{"model":"m"}"#, Some("messages")),
            (r#"{"model":"m","messages":[]}"#, Some("messages")),
            (r#"{"model":"m","messages":"hi"}"#, Some("messages")),
            (r#"{"model":"m","messages":[{"content":"hi"}]}"#, Some("messages")),
            (
                &format!(r#"{{"model":"m","messages":{message},"stream":1}}"#),
                Some("stream"),
            ),
        ] {
            let error = CompletionRequest::parse(Bytes::from(body.to_owned())).unwrap_err();
            assert_eq!(
                (error.status, error.param.as_deref()),
                (400, param),
                "{body}: {error}"
            );
        }
    }
}
