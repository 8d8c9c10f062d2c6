//! The result of a call, as text for models (MCP-5).

use dirigent_core::tool::{ToolResult, code};
use rmcp::model::{CallToolResult, ContentBlock, ErrorCode, ErrorData, ResourceContents};
use serde_json::{Value, json};

use crate::config::ServiceName;
use crate::text::{clean, clean_line, cut};

/// Maximum length of a result's text, in characters.
const MAX_TEXT: usize = 512 * 1024;
/// Maximum length of an error's text, in characters.
const MAX_ERROR: usize = 4 * 1024;

/// The code of a failure that the tool itself reported.
pub const TOOL_FAILED: &str = "tool_failed";

/// Converts the result that a tool returned.
pub(crate) fn tool_result(service: &ServiceName, result: CallToolResult) -> ToolResult {
    let mut parts: Vec<String> = result.content.iter().map(describe).collect();
    if let Some(structured) = result.structured_content
        && !contains(&parts, &structured)
    {
        parts.push(clean(&structured.to_string()));
    }
    let text = cut(parts.join("\n\n"), MAX_TEXT);
    if result.is_error == Some(true) {
        let first = text.lines().next().unwrap_or_default();
        let error = match first {
            "" => format!("the tool of service {service} failed without saying why"),
            first => format!(
                "the tool of service {service} failed: {}",
                cut(first.to_owned(), MAX_ERROR)
            ),
        };
        let failure = ToolResult::failure(error).with_code(TOOL_FAILED);
        return if text.lines().nth(1).is_some() {
            failure.with_output(Value::String(text))
        } else {
            failure
        };
    }
    ToolResult::success(Value::String(text)).with_metadata("mcp_service", json!(service.as_str()))
}

/// Returns the result for a response that no version of the protocol defines as a tool's result.
pub(crate) fn unknown_result(service: &ServiceName, result: &Value) -> ToolResult {
    let text = cut(clean(&result.to_string()), MAX_TEXT);
    let error = format!("service {service} answered the call in an unknown form");
    ToolResult::failure(error)
        .with_code(code::BROKE_DOWN)
        .with_output(Value::String(text))
}

/// Returns the result for an error of the protocol.
pub(crate) fn protocol_error(service: &ServiceName, error: &ErrorData) -> ToolResult {
    let message = cut(clean(&error.message), MAX_ERROR);
    let code = match error.code {
        ErrorCode::INVALID_PARAMS => code::BAD_PARAMETERS,
        ErrorCode::METHOD_NOT_FOUND => code::UNKNOWN_TOOL,
        _ => TOOL_FAILED,
    };
    ToolResult::failure(format!("service {service} refused the call: {message}")).with_code(code)
}

/// Returns true if the parts already contain the structured content: as JSON, which services send for older clients, or as texts that
/// equal all values of the object.
fn contains(parts: &[String], structured: &Value) -> bool {
    let is_json = |part: &String| serde_json::from_str::<Value>(part).is_ok_and(|value| value == *structured);
    let is_text = |value: &Value| {
        let text = value.as_str().map(clean);
        text.is_some_and(|text| parts.contains(&text))
    };
    let has_values = structured
        .as_object()
        .is_some_and(|object| !object.is_empty() && object.values().all(is_text));
    has_values || parts.iter().any(is_json)
}

fn describe(content: &ContentBlock) -> String {
    match content {
        ContentBlock::Text(text) => clean(&text.text),
        ContentBlock::Image(image) => binary("image", &image.mime_type, &image.data),
        ContentBlock::Audio(audio) => binary("audio", &audio.mime_type, &audio.data),
        ContentBlock::Resource(embedded) => resource(&embedded.resource),
        ContentBlock::ResourceLink(link) => {
            let name = clean_line(link.title.as_deref().unwrap_or(&link.name), MAX_ERROR);
            let about = link
                .description
                .as_deref()
                .map(|text| format!(": {}", clean_line(text, MAX_ERROR)));
            let uri = clean_line(&link.uri, MAX_ERROR);
            format!("[resource {name}, {uri}]{}", about.unwrap_or_default())
        }
        _ => "[content of an unknown kind]".to_owned(),
    }
}

fn resource(contents: &ResourceContents) -> String {
    match contents {
        ResourceContents::TextResourceContents { uri, text, .. } => {
            format!("[resource {}]\n{}", clean_line(uri, MAX_ERROR), clean(text))
        }
        ResourceContents::BlobResourceContents {
            uri, mime_type, blob, ..
        } => {
            let kind = mime_type.as_deref().unwrap_or("application/octet-stream");
            format!(
                "[resource {}]\n{}",
                clean_line(uri, MAX_ERROR),
                binary("file", kind, blob)
            )
        }
        _ => "[resource of an unknown kind]".to_owned(),
    }
}

/// Returns a note that replaces binary content, which is given as base64.
fn binary(what: &str, kind: &str, base64: &str) -> String {
    let padding = base64.bytes().rev().take_while(|byte| *byte == b'=').count();
    let bytes = (base64.len() / 4 * 3).saturating_sub(padding);
    format!(
        "[{what} of type {}, {bytes} bytes, not shown]",
        clean_line(kind, 100)
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use dirigent_core::tool::ToolOutcome;

    use super::*;

    fn check(result: Value, expected: &str) {
        let service = ServiceName::new("demo").unwrap();
        let result: CallToolResult = serde_json::from_value(result).unwrap();
        let shown = match tool_result(&service, result).outcome {
            ToolOutcome::Success { output } => output.as_str().unwrap().to_owned(),
            ToolOutcome::Failure { code, error, output } => format!("{code}: {error} {output}"),
        };
        assert_eq!(shown, expected);
    }

    #[test]
    fn mcp_5_every_kind_of_content_becomes_text() {
        check(
            json!({"content": [
                {"type": "text", "text": "a\u{1b}[1m"},
                {"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"},
                {"type": "audio", "data": "", "mimeType": "audio/wav"},
                {"type": "resource_link", "uri": "file:///a", "name": "a", "description": "the\nfile"},
                {"type": "resource", "resource": {"uri": "demo://t", "text": "inside"}},
                {"type": "resource", "resource": {"uri": "demo://b", "mimeType": "application/gzip", "blob": "aGVsbG8h"}},
            ]}),
            "a[1m\n\n[image of type image/png, 5 bytes, not shown]\n\n[audio of type audio/wav, 0 bytes, not shown]\n\n\
             [resource a, file:///a]: the file\n\n[resource demo://t]\ninside\n\n\
             [resource demo://b]\n[file of type application/gzip, 6 bytes, not shown]",
        );
    }

    #[test]
    fn mcp_5_structured_content_is_shown_once() {
        let structured = json!({"temperature": 20.5});
        check(
            json!({"content": [{"type": "text", "text": "{\"temperature\": 20.5}"}], "structuredContent": structured}),
            "{\"temperature\": 20.5}",
        );
        check(
            json!({"content": [{"type": "text", "text": "mild"}], "structuredContent": structured}),
            "mild\n\n{\"temperature\":20.5}",
        );
        check(
            json!({"content": [{"type": "text", "text": "all"}], "structuredContent": {"content": "all"}}),
            "all",
        );
        check(
            json!({"content": [], "structuredContent": structured}),
            "{\"temperature\":20.5}",
        );
    }

    #[test]
    fn mcp_5_a_failed_tool_is_a_failure_with_its_text() {
        check(
            json!({"content": [{"type": "text", "text": "no such file\nlook again"}], "isError": true}),
            "tool_failed: the tool of service demo failed: no such file \"no such file\\nlook again\"",
        );
        check(
            json!({"content": [], "isError": true}),
            "tool_failed: the tool of service demo failed without saying why null",
        );
    }
}
