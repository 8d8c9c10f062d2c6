//! What the agent last saw of the workspace's files (PAOR-5). It comes from the results of its calls alone, so that a replay knows it too.

use std::sync::Arc;

use super::Agent;
use crate::tool::{SeenFiles, ToolResult};

impl Agent {
    /// What it last saw of files: what its tools need to leave alone what others have changed since.
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
