//! The conversations of a run's agents as text (PAOR-11).

use std::fmt::Write as _;

use dirigent_core::message::Message;
use dirigent_core::text::shorten;
use dirigent_core::view::RunView;

/// Maximum length of a message, in characters.
const MAX_MESSAGE: usize = 2_000;

/// Returns the conversations of all agents, with long messages shortened.
pub fn transcripts(view: &RunView) -> String {
    let mut text = String::new();
    for agent in view.agents() {
        let _ = writeln!(text, "\n{} ({})", agent.id(), agent.spec().name);
        // The system prompt is skipped: it is long, and all agents of the same name share it.
        for message in agent.conversation().iter().skip(1) {
            let speaker = match message {
                Message::System { .. } => "system",
                Message::User { .. } => "task",
                Message::Assistant { .. } => "model",
                Message::Tool { name, .. } => name,
            };
            // All agents receive the same information about the project.
            let content = message.content();
            let content = content.strip_prefix(agent.preamble()).unwrap_or(content);
            let content = shorten(content.trim(), MAX_MESSAGE, None);
            let _ = writeln!(text, "  {speaker}: {}", content.replace('\n', "\n    "));
        }
    }
    text
}
