//! The services that all runs of an orchestrator share.

use std::sync::Arc;

use dirigent_core::prompt::READ_OUTPUT;
use dirigent_core::tool::ToolSpec;
use dirigent_model::ChatModel;
use dirigent_tools::{ToolEntry, ToolSource};

use crate::clock::Clock;
use crate::read_output::ReadOutput;
use crate::run_log::RunLog;

/// The run log, model, tools and clock that runs use.
pub struct Services {
    pub(crate) journal: Arc<dyn RunLog>,
    pub(crate) model: Arc<dyn ChatModel>,
    tools: Arc<dyn ToolSource>,
    /// The tool `read_output`, which reads the run log.
    read_output: ToolEntry,
    pub(crate) clock: Clock,
}

impl Services {
    /// Collects the services. Runs can also use the tool `read_output`, which replaces a tool of this name.
    pub fn new(journal: impl RunLog, model: Arc<dyn ChatModel>, tools: impl ToolSource) -> Self {
        let journal: Arc<dyn RunLog> = Arc::new(journal);
        Services {
            read_output: ToolEntry::new(ReadOutput::new(journal.clone())),
            journal,
            model,
            tools: Arc::new(tools),
            clock: Clock::start(),
        }
    }

    /// Returns the specs of the tools that runs can use, ordered by name.
    pub fn tool_specs(&self) -> Vec<ToolSpec> {
        let mut specs = self.tools.specs();
        specs.retain(|spec| spec.name != READ_OUTPUT);
        let place = specs.partition_point(|spec| spec.name.as_str() < READ_OUTPUT);
        specs.insert(place, ToolSpec::clone(&self.read_output.spec));
        specs
    }

    /// Returns the tool with this name; `None` if there is no such tool now.
    pub(crate) fn tool(&self, name: &str) -> Option<ToolEntry> {
        match name {
            READ_OUTPUT => Some(self.read_output.clone()),
            _ => self.tools.get(name),
        }
    }
}
