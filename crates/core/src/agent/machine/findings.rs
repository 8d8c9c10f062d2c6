//! The findings of an agent that ends without an answer (LOOP-2): the text that its model wrote. Its calls are listed in
//! [`crate::agent_report::AgentWork`].

use serde_json::Value;

use super::Agent;
use crate::message::Message;
use crate::text::shorten;

/// Maximum number of characters of the findings.
const MAX_FINDINGS: usize = 4_000;

impl Agent {
    /// Returns the summary that replaced earlier turns, if any, and the text of all later replies.
    pub(super) fn findings_so_far(&self) -> String {
        let replies = self
            .conversation
            .own_messages()
            .iter()
            .filter_map(|message| match message {
                Message::Assistant { content, .. } => has_text(content).then_some(content.trim()),
                Message::System { .. } | Message::User { .. } | Message::Tool { .. } => None,
            });
        let all: Vec<&str> = [self.summary.trim()]
            .into_iter()
            .filter(|summary| !summary.is_empty())
            .chain(replies)
            .collect();
        shorten(&all.join("\n\n"), MAX_FINDINGS, None).into_owned()
    }
}

/// Returns true if a reply contains more than the JSON of its calls.
fn has_text(content: &str) -> bool {
    let content = content.trim();
    !content.is_empty() && serde_json::from_str::<Value>(content).is_err()
}
