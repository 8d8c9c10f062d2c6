//! The wire types of a request, serialized from borrowed data.

use std::borrow::Cow;

use dirigent_core::tool::ToolSpec;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use super::conversation::Conversation;
use crate::ChatRequest;
use crate::names;

/// A request and the model it goes to.
#[derive(Clone, Copy)]
pub(super) struct ResolvedRequest<'a> {
    pub(super) request: &'a ChatRequest,
    /// Name of the model at the server.
    pub(super) model: &'a str,
}

/// The body of a request.
#[derive(Serialize)]
pub(super) struct RequestBody<'a> {
    pub(super) model: &'a str,
    pub(super) messages: Conversation<'a>,
    #[serde(skip_serializing_if = "NativeTools::is_empty")]
    pub(super) tools: NativeTools<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) response_format: Option<ResponseFormat<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) max_completion_tokens: Option<u64>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stream_options: Option<StreamOptions>,
    #[serde(flatten)]
    pub(super) extra: &'a Map<String, Value>,
}

#[derive(Serialize)]
pub(super) struct StreamOptions {
    pub(super) include_usage: bool,
}

/// Required format of the reply's text, as `json_schema`.
pub(super) struct ResponseFormat<'a> {
    pub(super) name: &'a str,
    pub(super) schema: &'a Value,
}

impl Serialize for ResponseFormat<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct JsonSchema<'a> {
            name: &'a str,
            schema: &'a Value,
        }
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("type", "json_schema")?;
        let schema = JsonSchema {
            name: self.name,
            schema: self.schema,
        };
        map.serialize_entry("json_schema", &schema)?;
        map.end()
    }
}

/// The tools to offer natively.
pub(super) struct NativeTools<'a>(pub(super) &'a [ToolSpec]);

impl NativeTools<'_> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Serialize for NativeTools<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Tool<'a> {
            r#type: &'a str,
            function: Function<'a>,
        }
        #[derive(Serialize)]
        struct Function<'a> {
            name: Cow<'a, str>,
            description: &'a str,
            parameters: Value,
        }
        serializer.collect_seq(self.0.iter().map(|tool| Tool {
            r#type: "function",
            function: Function {
                name: names::wire_name(&tool.name),
                description: &tool.description,
                parameters: tool.parameters_for_model(),
            },
        }))
    }
}
