//! Changes of a service's tools during a run (MCP-2, MCP-4).
//!
//! The tools that are declared to an agent stay those of the run's spec, so that its requests keep their prefix. What has changed is a message.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::call::ToolSet;
use crate::tool::ToolSpec;

/// A change of a service's tools. JSON: an object with these fields.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolsChange {
    /// The service's name.
    pub service: String,
    /// The new tools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub added: Vec<ToolSpec>,
    /// The names of the tools that no longer exist.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removed: Vec<String>,
    /// The tools whose description, parameters or annotations have changed, as they are now. Such a tool may do something else than before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<ToolSpec>,
}

impl ToolsChange {
    /// Compares the tools of a service with its tools before. `None` if they are the same.
    pub fn between(service: &str, before: &[ToolSpec], now: &[ToolSpec]) -> Option<Self> {
        let find = |tools: &'_ [ToolSpec], name: &str| tools.iter().find(|tool| tool.name == name).cloned();
        let mut change = ToolsChange {
            service: service.to_owned(),
            added: Vec::new(),
            removed: Vec::new(),
            changed: Vec::new(),
        };
        for tool in now {
            match find(before, &tool.name) {
                None => change.added.push(tool.clone()),
                Some(known) if known != *tool => change.changed.push(tool.clone()),
                Some(_) => {}
            }
        }
        let gone = before.iter().filter(|tool| find(now, &tool.name).is_none());
        change.removed = gone.map(|tool| tool.name.clone()).collect();
        let is_empty = change.added.is_empty() && change.removed.is_empty() && change.changed.is_empty();
        (!is_empty).then_some(change)
    }

    /// The tools that are new or different.
    fn present(&self) -> impl Iterator<Item = &ToolSpec> {
        self.added.iter().chain(&self.changed)
    }
}

/// The changes of services' tools since a run started, and the run's tools as they are now.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ToolChanges {
    changes: Vec<Arc<ToolsChange>>,
    /// The tools as they are now; `None` without changes.
    current: Option<ToolSet>,
}

impl ToolChanges {
    /// The number of changes.
    pub(crate) fn count(&self) -> usize {
        self.changes.len()
    }

    /// The changes, each with its number, counted from 1.
    pub(crate) fn numbered(&self) -> impl Iterator<Item = (u32, &Arc<ToolsChange>)> {
        (1..).zip(&self.changes)
    }

    /// Returns the tools as they are now. `at_start` are the tools with which the run started.
    pub(crate) fn tools<'a>(&'a self, at_start: &'a ToolSet) -> &'a ToolSet {
        self.current.as_ref().unwrap_or(at_start)
    }

    /// Adds a change. `at_start` are the tools with which the run started.
    pub(crate) fn add(&mut self, at_start: &ToolSet, change: Arc<ToolsChange>) {
        let is_outdated =
            |name: &String| change.removed.contains(name) || change.present().any(|tool| tool.name == *name);
        let before = self.tools(at_start).specs().iter();
        let mut tools: Vec<ToolSpec> = before.filter(|tool| !is_outdated(&tool.name)).cloned().collect();
        tools.extend(change.present().cloned());
        tools.sort_by(|one, other| one.name.cmp(&other.name));
        self.current = Some(ToolSet::new(tools));
        self.changes.push(change);
    }

    /// The service that had the tool and no longer has it; `None` if the tool exists or never did.
    pub(crate) fn former_service(&self, tool: &str) -> Option<&str> {
        let current = self.current.as_ref()?;
        let mut removing = self.changes.iter().rev();
        let removed = removing.find(|change| change.removed.iter().any(|name| name == tool))?;
        current.get(tool).is_none().then_some(removed.service.as_str())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;
    use crate::tool::{Access, Repeat, ToolCategory};

    fn tool(name: &str, description: &str) -> ToolSpec {
        ToolSpec {
            name: name.to_owned(),
            description: description.to_owned(),
            category: ToolCategory::Service,
            parameters: json!({"type": "object"}),
            repeat: Repeat::Unsafe,
            access: Access::ReadWrite,
            changes_where: None,
            read_only: None,
            requires_approval: true,
            approval_where: None,
            rules: Vec::new(),
            example: serde_json::Value::Null,
        }
    }

    #[test]
    fn mcp_2_two_lists_of_a_service_are_compared_by_names_and_content() {
        let before = [tool("a", "1"), tool("b", "1"), tool("c", "1")];
        let now = [tool("b", "2"), tool("c", "1"), tool("d", "1")];
        let change = ToolsChange::between("files", &before, &now).unwrap();
        assert_eq!(change.added, [tool("d", "1")]);
        assert_eq!(change.removed, ["a"]);
        assert_eq!(change.changed, [tool("b", "2")]);
        assert_eq!(ToolsChange::between("files", &now, &now), None);
    }
}
