//! The port through which runs find their tools, [`ToolSource`], and an implementation of this port as a set
//! of tools.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use dirigent_core::tool::ToolSpec;

use crate::tool::Tool;

/// The source of tools for runs, by name.
pub trait ToolSource: Send + Sync + 'static {
    /// Returns the specs of all tools, ordered by name. New runs can use these tools.
    fn specs(&self) -> Vec<ToolSpec>;

    /// Returns the tool with this name; `None` if there is no such tool now.
    fn get(&self, name: &str) -> Option<ToolEntry>;
}

/// A tool with its spec, which is created once.
#[derive(Clone)]
pub struct ToolEntry {
    /// The tool's description for models.
    pub spec: Arc<ToolSpec>,
    /// The tool.
    pub tool: Arc<dyn Tool>,
}

impl ToolEntry {
    /// Creates the entry of a tool.
    pub fn new(tool: impl Tool) -> Self {
        ToolEntry {
            spec: Arc::new(tool.spec()),
            tool: Arc::new(tool),
        }
    }
}

/// A set of tools, by name.
#[derive(Clone, Default)]
pub struct ToolRegistry {
    tools: BTreeMap<String, ToolEntry>,
}

impl ToolRegistry {
    /// Creates an empty registry.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a tool, replacing a tool of the same name.
    pub fn insert(&mut self, tool: impl Tool) {
        let entry = ToolEntry::new(tool);
        self.tools.insert(entry.spec.name.clone(), entry);
    }

    /// Adds the tools of another registry, replacing tools of the same names.
    pub fn extend(&mut self, other: ToolRegistry) {
        self.tools.extend(other.tools);
    }
}

impl ToolSource for ToolRegistry {
    fn specs(&self) -> Vec<ToolSpec> {
        self.tools
            .values()
            .map(|entry| ToolSpec::clone(&entry.spec))
            .collect()
    }

    fn get(&self, name: &str) -> Option<ToolEntry> {
        self.tools.get(name).cloned()
    }
}

impl fmt::Debug for ToolRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.tools.keys()).finish()
    }
}
