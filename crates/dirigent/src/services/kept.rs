//! The results of the services' latest starts, which are stored in the journal.

use std::collections::BTreeMap;

use dirigent_core::time::Timestamp;
use dirigent_mcp::{McpServices, ServiceName, ServiceState, ToolList};
use serde::{Deserialize, Serialize};

use crate::memory::find_secret;

/// The result of a service's latest start.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct KeptStart {
    pub(super) tools: ToolList,
    /// Why the service could not be started, or ended too often.
    pub(super) error: Option<String>,
    /// The last lines of its standard error.
    pub(super) stderr: Vec<String>,
    /// The tools that have changed since they were first listed.
    pub(super) changed: BTreeMap<String, Timestamp>,
}

/// Returns a line of a service's output in the form in which the journal may store it: a line that seems to contain a secret is replaced.
fn without_secret(line: String) -> String {
    match find_secret(&line) {
        Some(secret) => format!("[a line that seems to contain {secret} was left out]"),
        None => line,
    }
}

impl KeptStart {
    /// Returns the latest result of a service in this process; `None` if it equals this result, or if the service has not been started.
    pub(super) fn newer(&self, services: &McpServices, name: &ServiceName, now: Timestamp) -> Option<Self> {
        let state = services.service(name.as_str()).ok()?.state;
        let tools = services.tools(name.as_str()).ok()?;
        let error = match state {
            ServiceState::Error { reason, .. } => Some(reason),
            ServiceState::Running => None,
            ServiceState::Stopped(_) | ServiceState::Starting if tools != self.tools => None,
            ServiceState::Stopped(_) | ServiceState::Starting => return None,
        };
        let mut changed = self.changed.clone();
        changed.extend(self.tools.changed_in(&tools).into_iter().map(|tool| (tool, now)));
        changed.retain(|tool, _| tools.specs().any(|spec| spec.name == *tool));
        let newer = KeptStart {
            error: error.map(without_secret),
            stderr: services
                .last_messages(name.as_str())
                .unwrap_or_default()
                .into_iter()
                .map(without_secret)
                .collect(),
            tools,
            changed,
        };
        (newer != *self).then_some(newer)
    }
}
