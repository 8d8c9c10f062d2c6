//! Workflows: goals that users invoke by name (FLOW-1), such as `/create_project my-app`.
//!
//! A workflow is a Markdown file with front matter and a template. The user's words set its parameters, by position, by name or as a sentence (FLOW-2), and the rendered template
//! becomes the text of a [`Goal`](crate::Goal), which runs like any other goal. A workflow can restrict what the user's configuration
//! allows, but never widen it. Workflows are run by users; unlike tools, agents cannot call them.
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
mod request;
mod sentence;
mod shipped;
mod spoken_value;
mod template;
#[cfg(test)]
mod tests;
mod understanding;

pub use arguments::{ArgumentProblem, Arguments};
pub use definition::{Workflow, WorkflowSource};
pub use dirigent_core::spec::{PreparatoryRequest, UnderstoodSentence};
pub use error::{NotUnderstood, WorkflowError};
pub(crate) use file::KnownNames;
pub use invocation::Invocation;
pub(crate) use loading::is_trusted;
pub use parameter::{Parameter, ParameterKind};
pub use registry::{RefusedWorkflow, UntrustedWorkflow, Workflows};
pub use request::{InvokedWorkflow, RequestedGoal, UserRequest};
pub use sentence::InvocationWords;
