//! The end-to-end tests, a module each: one program, as linking the whole of Dirigent takes longer than most of these tests.
//!
//! A test that needs its own process is a file next to this one with an entry in `Cargo.toml`.

mod agent_limits;
mod agent_loop;
mod agents;
mod answers;
mod approval_rules;
mod attacks;
mod bad_input;
mod budget;
mod call;
mod call_forms;
mod chat;
mod cli;
mod config;
mod conversations;
mod databases;
mod faults;
mod goal_files;
mod host_library;
mod instructions;
mod intents;
mod journal;
mod journals;
mod kill;
mod long_conversations;
mod memory;
mod modes;
mod openai;
mod output;
mod paor;
mod projects;
mod prompt_prefix;
mod prompts;
mod real_model;
mod recording;
mod scenarios;
mod steering;
mod storm;
mod system_prompts;
mod terminal;
mod terminal_goals;
mod tool_settings;
mod undo;
mod workflows;
mod worktrees;
