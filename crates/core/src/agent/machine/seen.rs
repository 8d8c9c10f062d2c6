//! The files that the agent has seen (PAOR-5). Taken from results of calls alone, so that a replay knows them, too.

use std::sync::Arc;

use super::Agent;
use crate::tool::{SeenFiles, ToolResult};

impl Agent {
    /// The version of each file as the agent last saw it. Tools need it to leave alone what others have changed since.
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
