//! The files that the agent has seen (PAOR-5). Computed only from the results of calls, so that a replay produces the same set.

use std::sync::Arc;

use super::Agent;
use crate::tool::{SeenFiles, ToolResult};

impl Agent {
    /// The version of each file that the agent saw last. Tools use it to refuse changes to files that others have changed since.
    pub fn seen(&self) -> &Arc<SeenFiles> {
        &self.seen
    }

    pub(super) fn record_seen_files(&mut self, result: &ToolResult) {
        if result.seen.is_empty() {
            return;
        }
        let seen = Arc::make_mut(&mut self.seen);
        for file in &result.seen {
            seen.insert(file.path.clone(), file.clone());
        }
    }
}
