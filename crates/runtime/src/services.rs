//! The services that all runs of an orchestrator share.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use dirigent_core::call::SUBMIT_REFLECTION;
use dirigent_core::prompt::READ_OUTPUT;
use dirigent_core::tool::ToolSpec;
use dirigent_model::ChatModel;
use dirigent_tools::{ToolEntry, ToolRegistry, ToolSource};

use crate::clock::Clock;
use crate::confirmations::CheckConfirmations;
use crate::read_output::{self, ReadOutput};
use crate::run_log::RunLog;

/// The run log, model, tools and clock that runs use.
pub struct Services {
    pub(crate) journal: Arc<dyn RunLog>,
    pub(crate) model: Arc<dyn ChatModel>,
    tools: Arc<dyn ToolSource>,
    /// The tool `read_output`, which reads the run log.
    read_output: ToolEntry,
    /// The tool that checks the confirmations in a reflection. It is not offered to agents.
    check_confirmations: Option<ToolEntry>,
    pub(crate) clock: Clock,
}

impl Services {
    /// Collects the services. Runs can also use the tool `read_output`, which replaces a tool of this name.
    pub fn new(journal: impl RunLog, model: Arc<dyn ChatModel>, tools: impl ToolSource) -> Self {
        let journal: Arc<dyn RunLog> = Arc::new(journal);
        Services {
            read_output: ToolEntry::new(ReadOutput::new(journal.clone())),
            check_confirmations: CheckConfirmations::new(journal.clone()).map(ToolEntry::new),
            journal,
            model,
            tools: Arc::new(tools),
            clock: Clock::start(),
        }
    }

    /// Returns the model that agents ask, unless their run has its own.
    pub fn model(&self) -> &Arc<dyn ChatModel> {
        &self.model
    }

    /// Returns the specs of the tools that runs can use, ordered by name.
    pub fn tool_specs(&self) -> Vec<ToolSpec> {
        with_read_output(self.tools.specs())
    }

    /// Returns these services with a run's own model and tools.
    pub(crate) fn for_run(self: &Arc<Self>, own: RunServices) -> Arc<Services> {
        if own.is_empty() {
            return self.clone();
        }
        Arc::new(Services {
            journal: self.journal.clone(),
            model: own.model.unwrap_or_else(|| self.model.clone()),
            tools: Arc::new(RunTools {
                own: own.tools,
                shared: self.tools.clone(),
            }),
            read_output: self.read_output.clone(),
            check_confirmations: self.check_confirmations.clone(),
            clock: self.clock,
        })
    }

    /// Returns the tool with this name; `None` if there is no such tool now.
    pub(crate) fn tool(&self, name: &str) -> Option<ToolEntry> {
        match name {
            READ_OUTPUT => Some(self.read_output.clone()),
            SUBMIT_REFLECTION => self.check_confirmations.clone(),
            _ => self.tools.get(name),
        }
    }
}

/// Adds the spec of the tool `read_output`, which every run has, and replaces any other tool of this name.
/// `specs` must be ordered by name.
pub fn with_read_output(mut specs: Vec<ToolSpec>) -> Vec<ToolSpec> {
    specs.retain(|spec| spec.name != READ_OUTPUT);
    let place = specs.partition_point(|spec| spec.name.as_str() < READ_OUTPUT);
    specs.insert(place, read_output::spec());
    specs
}

/// The model and the tools of one run, which take precedence over the model and tools of its orchestrator.
/// They are not journaled, so they must be provided again when the run is resumed.
#[derive(Clone, Default)]
pub struct RunServices {
    /// The model of all agents; `None` for the orchestrator's model.
    pub model: Option<Arc<dyn ChatModel>>,
    /// The tools in addition to the orchestrator's tools. They replace tools of the same names.
    pub tools: ToolRegistry,
}

impl RunServices {
    fn is_empty(&self) -> bool {
        self.model.is_none() && self.tools.specs().is_empty()
    }
}

impl fmt::Debug for RunServices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunServices")
            .field("has_model", &self.model.is_some())
            .field("tools", &self.tools)
            .finish()
    }
}

/// A run's own tools and the shared tools.
struct RunTools {
    own: ToolRegistry,
    shared: Arc<dyn ToolSource>,
}

impl ToolSource for RunTools {
    fn specs(&self) -> Vec<ToolSpec> {
        let all = self.shared.specs().into_iter().chain(self.own.specs());
        let by_name: BTreeMap<String, ToolSpec> = all.map(|spec| (spec.name.clone(), spec)).collect();
        by_name.into_values().collect()
    }

    fn get(&self, name: &str) -> Option<ToolEntry> {
        self.own.get(name).or_else(|| self.shared.get(name))
    }
}
