//! The sub-agents that ship with Dirigent.

use std::path::Path;

use dirigent_core::tool::Access;
use dirigent_tools::{ToolSettings, ToolSource as _, built_in};

use super::definition::AgentDefinition;
use super::file::{self, Dialect};
use super::tool_selection::ToolSelection;
use crate::known_tools::{OPTIONAL_TOOLS, known_tools};

/// The shipped agent files.
const SHIPPED: [(&str, &str); 4] = [
    ("explore.md", include_str!("../../../../config/agents/explore.md")),
    (
        "implement.md",
        include_str!("../../../../config/agents/implement.md"),
    ),
    ("review.md", include_str!("../../../../config/agents/review.md")),
    ("verify.md", include_str!("../../../../config/agents/verify.md")),
];

/// Returns the sub-agents that ship with Dirigent, as defined in `config/agents`.
pub fn shipped_agents() -> Vec<AgentDefinition> {
    let mut known = known_tools(&built_in(&ToolSettings::default()).specs(), &[]);
    // The files list every tool that the agents may have; a registry removes those that do not exist.
    known.extend(OPTIONAL_TOOLS.map(|tool| (tool.to_owned(), Access::ReadOnly)));
    let read = |(name, text): (&str, &str)| {
        #[expect(
            clippy::expect_used,
            reason = "constants, read whenever a `Dirigent` is built"
        )]
        let parsed =
            file::read(text, Path::new(name), Dialect::Dirigent, &known).expect("a valid agent file");
        let tools = match parsed.tools {
            ToolSelection::All => Vec::new(),
            ToolSelection::Named(tools) => tools.into_iter().collect(),
        };
        AgentDefinition::new(parsed.name, parsed.description, parsed.role)
            .tools(tools)
            .access(parsed.access)
            .default_limits(parsed.limits.unwrap_or(parsed.default_limits))
    };
    SHIPPED.map(read).into()
}
