//! The offline model: a [`ChatModel`] without a key, a server or a network (HOST-4).
//!
//! It reads the prompts and results that any other model gets, answers in the JSON call form (CALL-1), and is a pure
//! function of the conversation: the same messages give the same reply, for ever. It never does IO, keeps state, reads a
//! clock, or claims what no observation shows; a goal that it doesn't understand it declines.
//!
//! Five families of goals, in any sensible wording:
//!
//! | family | for example |
//! | --- | --- |
//! | rename a symbol | Find all usages of function `parse_amount` and rename it to `parse_money` in src/ |
//! | find usages | Where is `parse_amount` used? |
//! | replace a text | Replace "colour" with "color" in *.md |
//! | run a check | Make sure that the tests pass; run `cargo clippy` |
//! | count or list | Count the lines in src; list the files ending in .rs; how many times does TODO occur |
//!
//! In the conversation of a planner it looks, then submits a plan; in that of a reflector it judges the observations; in
//! that of a sub-agent it executes a task that its planner wrote.

mod checks;
mod code;
mod conversation;
mod empty_plan;
mod goal;
mod location;
mod planner;
mod prompt_sections;
mod reflector;
mod report;
mod requirements;
mod scope;
mod sub_agent;
mod sub_agent_task;
mod text;
mod tools;
mod words;

use dirigent_core::message::{FinishReason, Message, ModelFailure, ModelReply, Usage};
use futures::future::{BoxFuture, FutureExt, ready};

use conversation::{Call, Conversation, Role};
use dirigent_model::{ChatModel, ChatRequest};
use prompt_sections::Sections;

/// The model that is built in. It has no settings: it is the same everywhere.
#[derive(Clone, Copy, Debug, Default)]
pub struct OfflineModel;

impl ChatModel for OfflineModel {
    fn chat(&self, request: ChatRequest) -> BoxFuture<'static, Result<ModelReply, ModelFailure>> {
        ready(Ok(reply(&request.messages))).boxed()
    }
}

/// The reply to a conversation. There is one to any.
fn reply(messages: &[Message]) -> ModelReply {
    let content = match next(messages) {
        Ok(text) => text,
        Err(call) => call.to_json(),
    };
    let read: usize = messages
        .iter()
        .map(|message| message.content().chars().count())
        .sum();
    let usage = Usage {
        model_calls: 1,
        tool_calls: 0,
        input_tokens: estimated_tokens(read),
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

/// A text to end with, or a call to make.
fn next(messages: &[Message]) -> Result<String, Call> {
    let conversation = Conversation::from_messages(messages);
    let sections = Sections(conversation.request);
    match conversation.role {
        Role::Planner if sections.text("GOAL").is_some() => Err(planner::next(&conversation)),
        Role::Reflector if sections.text("GOAL").is_some() => Err(reflector::next(&conversation)),
        Role::SubAgent => sub_agent::next(&conversation),
        Role::Planner | Role::Reflector => Ok(introduction()),
    }
}

/// There is no tokenizer here: four characters make a token, as a rule of thumb.
fn estimated_tokens(characters: usize) -> u64 {
    u64::try_from(characters.div_ceil(4)).unwrap_or(u64::MAX)
}

/// What a conversation is told that is no request of a run.
fn introduction() -> String {
    format!(
        "This is Dirigent's offline model: it works without a network and holds no free conversation. {}",
        capabilities()
    )
}

/// What a goal is told that fits no family.
fn unsupported() -> String {
    format!("this goal is beyond the offline model. {}", capabilities())
}

fn capabilities() -> String {
    "It can:\n\
     - rename a symbol: Find all usages of function `parse_amount` and rename it to `parse_money`\n\
     - find usages: Find all usages of `parse_amount` in src\n\
     - replace a text: Replace \"old text\" with \"new text\" in docs/\n\
     - run a check: Run the tests; make sure that `cargo clippy` passes\n\
     - count or list: Count the lines in src; list the files ending in .rs\n\
     For anything else choose a language model: set DIRIGENT_MODEL, such as openai/gpt-4.1-mini, or [model] in dirigent.toml, and \
     look at it with `dirigent config check`; from Rust, `Dirigent::builder().config(…)` or `.model(…)`."
        .to_owned()
}
