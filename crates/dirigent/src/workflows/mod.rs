//! Workflows: goals that users invoke by name (FLOW-1), such as `/create_project my-app`.
//!
//! A workflow is a Markdown file with a front matter and a template. Its parameters come from the user's words (FLOW-2); the rendered
//! template is the text of a [`Goal`](crate::Goal), which runs as every goal does. A workflow can restrict what the user's configuration
//! allows, and never widens it. It is no tool: users run workflows, and only agents call tools.
//!
//! Workflows ship with Dirigent, or come from the user's or the project's folder. A project's file is used only after the user has trusted
//! its content.

mod argument_words;
mod arguments;
mod claude_template;
mod definition;
mod error;
mod file;
mod invocation;
mod loading;
mod new_file;
mod parameter;
mod parameter_fields;
mod registry;
mod shipped;
mod template;
#[cfg(test)]
mod tests;

pub use arguments::{ArgumentProblem, Arguments};
pub use definition::{Workflow, WorkflowSource};
pub use error::WorkflowError;
pub(crate) use file::KnownNames;
pub use invocation::Invocation;
pub use parameter::{Parameter, ParameterKind};
pub use registry::{RefusedWorkflow, UntrustedWorkflow, Workflows};
