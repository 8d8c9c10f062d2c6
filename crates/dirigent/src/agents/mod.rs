//! The lead, the reflector and the sub-agents, each defined by its role, tools, access, model and limits.
//!
//! A sub-agent's definition ships with Dirigent or comes from the program, the user's files or the project's files. A project's files
//! cannot get more access, tools or limits than the other definitions have.

mod bounds;
mod definition;
mod file;
mod limits;
mod model_resolver;
mod registry;
mod run_spec_factory;
mod shipped;
mod tool_selection;

pub use definition::AgentDefinition;
pub(crate) use limits::GoalAgentLimits;
pub(crate) use model_resolver::ModelResolver;
pub(crate) use registry::{AgentRegistry, check_program_agents};
pub use registry::{AgentSource, Agents, ListedAgent, RefusedAgent};
pub use run_spec_factory::PromptOptions;
pub(crate) use run_spec_factory::{RunSpecFactory, described};
pub use shipped::shipped_agents;
