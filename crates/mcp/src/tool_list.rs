//! The tools of a service: converts the service's list into specs for agents (MCP-2).
//!
//! Everything that a service says about its tools is untrusted. A tool that cannot be used is left out, and the reason is recorded; the
//! other tools are kept.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dirigent_core::tool::{Access, Repeat, ToolCategory, ToolSpec};
use rmcp::model::{
    ClientRequest, ListToolsRequest, PaginatedRequestParams, ServerResult, Tool, ToolAnnotations,
};
use rmcp::service::{Peer, PeerRequestOptions};
use rmcp::{RoleClient, ServiceError};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::config::ServiceConfig;
use crate::names::tool_name;
use crate::status::UnavailableTool;
use crate::text::{clean, clean_line, clean_schema, cut};

/// Maximum number of tools that are read from a service. Further tools are left out.
const MAX_TOOLS: usize = 1000;
/// Maximum number of pages of the list that are read.
const MAX_PAGES: usize = 100;
/// Maximum length of a tool's description, in characters.
const MAX_DESCRIPTION: usize = 2000;
/// Maximum length of a parameter's description, in characters.
const MAX_PARAMETER_DESCRIPTION: usize = 1000;
/// Maximum size of the schema of a tool's parameters, in bytes of JSON.
const MAX_SCHEMA: usize = 64 * 1024;
/// Maximum length of a tool's name in an error, in characters.
const MAX_SHOWN_NAME: usize = 100;

/// A tool of a service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ServiceTool {
    /// The name that the service uses.
    pub(crate) original: String,
    /// The spec under the name that agents use.
    pub(crate) spec: Arc<ToolSpec>,
}

/// The tools of a service, as it last listed them. Its JSON can be stored, so that the tools are known before the service runs again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ToolList {
    /// The tools by the names that agents use.
    pub(crate) tools: BTreeMap<String, ServiceTool>,
    pub(crate) unavailable: Vec<UnavailableTool>,
}

/// The differences between two lists, as names.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ToolChanges {
    pub(crate) added: Vec<String>,
    pub(crate) removed: Vec<String>,
    pub(crate) changed: Vec<String>,
}

impl ToolChanges {
    pub(crate) fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && self.changed.is_empty()
    }
}

impl ToolList {
    /// Returns the specs of the tools, ordered by the names that agents use.
    pub fn specs(&self) -> impl Iterator<Item = &ToolSpec> {
        self.tools.values().map(|tool| tool.spec.as_ref())
    }

    /// Returns the tools that the service lists but that cannot be called.
    pub fn unavailable(&self) -> &[UnavailableTool] {
        &self.unavailable
    }

    /// Returns true if the service has not listed any tools.
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty() && self.unavailable.is_empty()
    }

    /// Returns the names of the tools whose description, parameters or annotations differ in a newer list. Such a tool may now do
    /// something else.
    pub fn changed_in(&self, newer: &ToolList) -> Vec<String> {
        self.changes(newer).changed
    }

    /// Creates the specs of the tools that a service lists.
    pub(crate) fn new(config: &ServiceConfig, listed: Vec<Value>) -> Self {
        let mut list = ToolList::default();
        let mut taken = BTreeSet::new();
        let all = listed.len();
        for value in listed.into_iter().take(MAX_TOOLS) {
            let shown = value["name"].as_str().unwrap_or("without a name");
            let shown = clean_line(shown, MAX_SHOWN_NAME);
            match service_tool(config, value, &mut taken) {
                Ok(tool) => {
                    list.tools.insert(tool.spec.name.clone(), tool);
                }
                Err(reason) => list.unavailable.push(UnavailableTool { tool: shown, reason }),
            }
        }
        if all > MAX_TOOLS {
            list.unavailable.push(UnavailableTool {
                tool: format!("{} more tools", all - MAX_TOOLS),
                reason: format!("only {MAX_TOOLS} tools of a service are read"),
            });
        }
        list
    }

    /// Compares this list with a newer one.
    pub(crate) fn changes(&self, newer: &ToolList) -> ToolChanges {
        let missing = |from: &ToolList, of: &ToolList| {
            let names = of.tools.keys().filter(|name| !from.tools.contains_key(*name));
            names.cloned().collect::<Vec<_>>()
        };
        let changed = newer.tools.iter().filter(|(name, tool)| {
            let before = self.tools.get(*name);
            before.is_some_and(|before| before != *tool)
        });
        ToolChanges {
            added: missing(self, newer),
            removed: missing(newer, self),
            changed: changed.map(|(name, _)| name.clone()).collect(),
        }
    }
}

/// Asks a service for all its tools, each as the service describes it. A service without tools is not asked.
pub(crate) async fn list_tools(peer: &Peer<RoleClient>) -> Result<Vec<Value>, ServiceError> {
    let has_tools = peer
        .peer_info()
        .is_some_and(|info| info.capabilities.tools.is_some());
    let mut tools = Vec::new();
    if !has_tools {
        return Ok(tools);
    }
    let mut cursor = None;
    for _ in 0..MAX_PAGES {
        let page = PaginatedRequestParams::default().with_cursor(cursor);
        let request = ClientRequest::ListToolsRequest(ListToolsRequest {
            method: Default::default(),
            params: Some(page),
            extensions: Default::default(),
        });
        let sent = peer.send_cancellable_request(request, PeerRequestOptions::no_options());
        let (listed, next) = match sent.await?.await_response().await? {
            ServerResult::ListToolsResult(result) => {
                let listed = result
                    .tools
                    .iter()
                    .filter_map(|tool| serde_json::to_value(tool).ok());
                (listed.collect(), result.next_cursor)
            }
            // If one tool has an invalid schema, the list cannot be parsed as the response's type.
            ServerResult::CustomResult(mut result) => {
                let next = result.0["nextCursor"].as_str().map(str::to_owned);
                match result.0.get_mut("tools").map(Value::take) {
                    Some(Value::Array(listed)) => (listed, next),
                    Some(_) | None => return Err(ServiceError::UnexpectedResponse),
                }
            }
            _ => return Err(ServiceError::UnexpectedResponse),
        };
        tools.extend::<Vec<Value>>(listed);
        cursor = next;
        if cursor.is_none() || tools.len() > MAX_TOOLS {
            break;
        }
    }
    Ok(tools)
}

/// Converts the service's description of a tool. The error says why the tool cannot be called.
fn service_tool(
    config: &ServiceConfig,
    value: Value,
    taken: &mut BTreeSet<String>,
) -> Result<ServiceTool, String> {
    let tool: Tool = serde_json::from_value(value).map_err(|error| format!("it is malformed: {error}"))?;
    let schema = parameters(&tool.input_schema)?;
    let original = tool.name.clone().into_owned();
    let name = tool_name(&config.name, &original, taken).ok_or("it is listed twice")?;
    let hints = tool.annotations.clone().unwrap_or_default();
    let spec = ToolSpec {
        name,
        description: description(config, &tool),
        category: ToolCategory::Service,
        parameters: schema,
        repeat: repeat(config, &hints),
        access: access(config, &hints),
        changes_where: None,
        read_only: None,
        requires_approval: requires_approval(config, &hints),
        approval_where: None,
        rules: Vec::new(),
        example: Value::Null,
    };
    Ok(ServiceTool {
        original,
        spec: Arc::new(spec),
    })
}

/// Checks and cleans the schema of the parameters.
fn parameters(schema: &Map<String, Value>) -> Result<Value, String> {
    let mut schema = Value::Object(schema.clone());
    if schema.to_string().len() > MAX_SCHEMA {
        return Err(format!(
            "the schema of its parameters has more than {MAX_SCHEMA} bytes"
        ));
    }
    let is_object = match &schema["type"] {
        Value::Null => true,
        kind => kind == "object",
    };
    if !is_object {
        return Err("the schema of its parameters is not that of an object".to_owned());
    }
    jsonschema::options()
        .offline()
        .build(&schema)
        .map_err(|error| format!("the schema of its parameters is invalid: {}", error.masked()))?;
    if let Some(object) = schema.as_object_mut() {
        object.remove("$schema");
        object.entry("type").or_insert_with(|| "object".into());
    }
    clean_schema(&mut schema, MAX_PARAMETER_DESCRIPTION);
    Ok(schema)
}

/// Returns the description for models. It says that the service wrote it.
fn description(config: &ServiceConfig, tool: &Tool) -> String {
    let title = tool
        .title
        .as_deref()
        .or_else(|| tool.annotations.as_ref()?.title.as_deref());
    let text = tool.description.as_deref().or(title).unwrap_or(&tool.name);
    let text = cut(clean(text).trim().to_owned(), MAX_DESCRIPTION);
    format!("[MCP service {}] {text}", config.name)
}

/// Returns the access that an agent needs for the tool. Without trust, read-only agents never get the tool, whatever its annotations say.
fn access(config: &ServiceConfig, hints: &ToolAnnotations) -> Access {
    match hints.read_only_hint {
        Some(true) if config.trust => Access::ReadOnly,
        Some(_) | None => Access::ReadWrite,
    }
}

fn repeat(config: &ServiceConfig, hints: &ToolAnnotations) -> Repeat {
    let is_safe = hints.read_only_hint == Some(true) || hints.is_idempotent();
    if config.trust && is_safe {
        Repeat::Safe
    } else {
        Repeat::Unsafe
    }
}

/// Returns true if a call needs approval. Annotations can always require approval, but can waive it only if the service is trusted.
fn requires_approval(config: &ServiceConfig, hints: &ToolAnnotations) -> bool {
    let is_destructive = hints.destructive_hint == Some(true) && hints.read_only_hint != Some(true);
    !config.trust || is_destructive
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;
    use crate::config::{CommandEndpoint, Endpoint, ServiceName};

    fn config() -> ServiceConfig {
        let endpoint = Endpoint::Command(CommandEndpoint::default());
        ServiceConfig::new(ServiceName::new("files").unwrap(), endpoint)
    }

    #[test]
    fn mcp_2_a_tool_keeps_its_schema_and_names_its_service() {
        let list = ToolList::new(
            &config(),
            vec![json!({
                "name": "read",
                "description": "Reads a file.\u{7} More.",
                "inputSchema": {
                    "$schema": "http://json-schema.org/draft-07/schema#",
                    "type": "object",
                    "properties": {"path": {"type": "string"}},
                    "required": ["path"],
                },
                "annotations": {"readOnlyHint": true},
            })],
        );
        let spec = &list.tools["mcp__files__read"].spec;
        assert_eq!(spec.description, "[MCP service files] Reads a file. More.");
        assert_eq!(
            spec.parameters,
            json!({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]})
        );
        assert_eq!(list.unavailable, []);
    }

    #[test]
    fn mcp_2_annotations_of_an_untrusted_service_can_only_require_approval() {
        let tool =
            |hints: Value| json!({"name": "x", "inputSchema": {"type": "object"}, "annotations": hints});
        let check = |trust: bool, hints: Value, expected: (Access, Repeat, bool)| {
            let config = ServiceConfig { trust, ..config() };
            let list = ToolList::new(&config, vec![tool(hints.clone())]);
            let spec = &list.tools["mcp__files__x"].spec;
            let found = (spec.access, spec.repeat.clone(), spec.requires_approval);
            assert_eq!(found, expected, "{trust} {hints}");
        };
        let read = json!({"readOnlyHint": true});
        let delete = json!({"destructiveHint": true});
        check(false, read.clone(), (Access::ReadWrite, Repeat::Unsafe, true));
        check(false, delete.clone(), (Access::ReadWrite, Repeat::Unsafe, true));
        check(true, read, (Access::ReadOnly, Repeat::Safe, false));
        check(true, delete, (Access::ReadWrite, Repeat::Unsafe, true));
        check(true, json!({}), (Access::ReadWrite, Repeat::Unsafe, false));
        check(
            true,
            json!({"idempotentHint": true}),
            (Access::ReadWrite, Repeat::Safe, false),
        );
    }

    #[test]
    fn mcp_2_an_unusable_tool_leaves_the_others_usable() {
        let list = ToolList::new(
            &config(),
            vec![
                json!({"name": "good", "inputSchema": {"type": "object"}}),
                json!({"name": "good", "inputSchema": {"type": "object"}}),
                json!({"name": "text", "inputSchema": "no schema"}),
                json!({"name": "wrong", "inputSchema": {"type": "object", "properties": {"a": {"type": "strnig"}}}}),
                json!({"name": "list", "inputSchema": {"type": "array"}}),
                json!({"name": "remote", "inputSchema": {"type": "object", "$ref": "https://example.com/schema.json"}}),
                json!(17),
            ],
        );
        assert_eq!(list.tools.keys().collect::<Vec<_>>(), ["mcp__files__good"]);
        let tools: Vec<&str> = list.unavailable.iter().map(|tool| tool.tool.as_str()).collect();
        assert_eq!(
            tools,
            ["good", "text", "wrong", "list", "remote", "without a name"]
        );
        assert_eq!(list.unavailable[0].reason, "it is listed twice");
    }

    #[test]
    fn mcp_2_changes_of_a_list_are_named() {
        let list = |tools: &[(&str, &str)]| {
            let tools = tools.iter().map(|(name, description)| {
                json!({"name": name, "description": description, "inputSchema": {"type": "object"}})
            });
            ToolList::new(&config(), tools.collect())
        };
        let changes =
            list(&[("a", "1"), ("b", "1"), ("c", "1")]).changes(&list(&[("b", "2"), ("c", "1"), ("d", "1")]));
        assert_eq!(changes.added, ["mcp__files__d"]);
        assert_eq!(changes.removed, ["mcp__files__a"]);
        assert_eq!(changes.changed, ["mcp__files__b"]);
    }
}
