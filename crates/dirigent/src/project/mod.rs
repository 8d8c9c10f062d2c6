//! Reads the information about the project that the prompts of a run's agents contain: the project's instructions and the environment
//! (LEAD-4). The information is read once, when a run starts.
//!
//! A project is untrusted. So this module reads only regular files in the project's folder, up to a maximum size.

mod environment;
mod imports;
mod instructions;

pub(crate) use environment::EnvironmentFacts;
pub(crate) use instructions::read_instructions;
