//! The services that all runs of an orchestrator share.

use std::sync::Arc;

use dirigent_model::ChatModel;
use dirigent_store::Journal;
use dirigent_tools::ToolRegistry;

use crate::clock::Clock;
use crate::read_output::ReadOutput;

/// The journal, model, tools and clock that runs use.
pub struct Services {
    pub(crate) journal: Journal,
    pub(crate) model: Arc<dyn ChatModel>,
    pub(crate) tools: ToolRegistry,
    pub(crate) clock: Clock,
}

impl Services {
    /// Collects the services and adds the tool `read_output`, which reads the journal.
    pub fn new(journal: Journal, model: Arc<dyn ChatModel>, mut tools: ToolRegistry) -> Self {
        tools.insert(ReadOutput::new(journal.clone()));
        Services {
            journal,
            model,
            tools,
            clock: Clock::start(),
        }
    }

    /// The tools that runs can use.
    pub fn tools(&self) -> &ToolRegistry {
        &self.tools
    }
}
