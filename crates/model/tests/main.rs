//! The model clients and the wrappers of models, a module each.

mod genai;
mod log;
mod openai;
mod wrappers;
