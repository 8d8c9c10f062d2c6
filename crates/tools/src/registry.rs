//! A set of tools, by name.

use std::collections::BTreeMap;
use std::sync::Arc;

use dirigent_core::tool::ToolSpec;

use crate::tool::Tool;

/// The tools of an orchestrator, by name.
#[derive(Clone, Default)]
pub struct ToolRegistry {
    tools: BTreeMap<String, Arc<dyn Tool>>,
}

impl ToolRegistry {
    /// Creates an empty registry.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a tool, replacing a tool of the same name.
    pub fn insert(&mut self, tool: impl Tool) {
        self.tools.insert(tool.spec().name, Arc::new(tool));
    }

    /// Adds the tools of another registry, replacing tools of the same names.
    pub fn extend(&mut self, other: ToolRegistry) {
        self.tools.extend(other.tools);
    }

    /// Returns the tool with this name.
    pub fn get(&self, name: &str) -> Option<Arc<dyn Tool>> {
        self.tools.get(name).cloned()
    }

    /// Returns the specs of all tools, ordered by name.
    pub fn specs(&self) -> Vec<ToolSpec> {
        self.tools.values().map(|tool| tool.spec()).collect()
    }
}

impl std::fmt::Debug for ToolRegistry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.tools.keys()).finish()
    }
}
