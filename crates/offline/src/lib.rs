//! The offline model: a [`ChatModel`] without a key, a server or a network (HOST-4).
//!
//! It receives the same prompts and results as any other model, and replies in the JSON call form (CALL-1). It is a pure function of the
//! conversation: the same messages give the same reply. It does no IO, keeps no state and reads no clock, and claims only what
//! observations show. It declines goals that it does not understand.
//!
//! It supports six families of goals:
//!
//! | family | for example |
//! | --- | --- |
//! | rename a symbol | Find all usages of function `parse_amount` and rename it to `parse_money` in src/ |
//! | find usages | Where is `parse_amount` used? |
//! | replace text | Replace "colour" with "color" in *.md |
//! | create a project | Create a minimal Rust project `my-app` |
//! | run a check | Make sure that the tests pass; run `cargo clippy` |
//! | count or list | Count the lines in src; list the files ending in .rs; how many times does TODO occur |
//!
//! As the lead, it inspects the workspace and submits a plan; as the reflector, it judges the observations; as a sub-agent, it
//! executes a task that the offline lead wrote. It also finds the values of a workflow's parameters in a sentence. Each role reads the [sections](dirigent_core::tags) of its request.
#![warn(missing_docs)]

mod capabilities;
mod checks;
mod code;
mod conversation;
mod empty_plan;
mod file_kinds;
mod goal;
mod lead;
mod location;
mod new_project;
mod outputs;
mod parameters;
mod prompt_sections;
mod reflector;
mod report;
mod requirements;
mod role_texts;
mod scope;
mod sub_agent;
mod sub_agent_task;
mod text;
mod tools;
mod words;

use dirigent_core::message::{FinishReason, Message, ModelFailure, ModelReply, Usage};
use dirigent_core::tags;
use dirigent_model::{ChatModel, ChatRequest};
use futures::future::{BoxFuture, FutureExt, ready};

use conversation::{Call, Conversation, Role};

/// The offline model. It has no settings.
#[derive(Clone, Copy, Debug, Default)]
pub struct OfflineModel;

impl ChatModel for OfflineModel {
    fn chat(&self, request: ChatRequest) -> BoxFuture<'static, Result<ModelReply, ModelFailure>> {
        ready(Ok(reply(&request.messages))).boxed()
    }
}

fn reply(messages: &[Message]) -> ModelReply {
    let content = match next(messages) {
        Ok(text) => text,
        Err(call) => call.to_json(),
    };
    let input: usize = messages
        .iter()
        .map(|message| message.content().chars().count())
        .sum();
    let usage = Usage {
        model_calls: 1,
        tool_calls: 0,
        input_tokens: estimated_tokens(input),
        output_tokens: estimated_tokens(content.chars().count()),
        ..Usage::default()
    };
    ModelReply {
        content,
        calls: Vec::new(),
        malformed_calls: Vec::new(),
        finish: FinishReason::Stop,
        usage,
        model: Some("offline".to_owned()),
    }
}

/// Returns the agent's final text. `Err` is the next call to make.
fn next(messages: &[Message]) -> Result<String, Call> {
    let conversation = Conversation::from_messages(messages);
    let has_goal = conversation.sections.text(tags::GOAL).is_some();
    match conversation.role {
        Role::Lead if has_goal => Err(lead::next(&conversation)),
        Role::Reflector if has_goal => Err(reflector::next(&conversation)),
        Role::SubAgent => sub_agent::next(&conversation),
        Role::Extraction => Err(parameters::next(&conversation)),
        Role::Lead | Role::Reflector => Ok(capabilities::introduction()),
    }
}

/// Estimates tokens from a number of characters: four characters are one token.
fn estimated_tokens(characters: usize) -> u64 {
    u64::try_from(characters.div_ceil(4)).unwrap_or(u64::MAX)
}
