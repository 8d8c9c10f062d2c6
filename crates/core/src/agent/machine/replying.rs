//! Handles replies: runs their calls, accepts an answer, or asks for another reply.

use super::{Agent, Commands};
use crate::agent_report::{AgentAnswer, AgentFailure};
use crate::agent_spec::AnswerForm;
use crate::call::{MalformedReply, ReplyContent, ReplyParser, SUBMIT_REFLECTION};
use crate::message::{FinishReason, Message, ModelReply, ToolCall};
use crate::prompt;
use crate::text::shorten;
use crate::time::Timestamp;
use crate::tool::ToolSpec;

impl Agent {
    pub(super) fn handle_reply(&mut self, now: Timestamp, reply: ModelReply, commands: &mut Commands) {
        // A reply that cannot be used is billed as well.
        self.work.usage += reply.metered_usage();
        self.conversation.count(&reply.usage);
        match reply.finish {
            FinishReason::Filtered => return self.finish(now, Err(AgentFailure::Filtered), commands),
            FinishReason::Oversized => return self.finish(now, Err(AgentFailure::Oversized), commands),
            FinishReason::Stop
            | FinishReason::ToolCalls
            | FinishReason::Length
            | FinishReason::Interrupted => {}
        }
        let tools = self.offered();
        let parser = ReplyParser {
            form: self.call_form(),
            tools,
            context: self.conversation.given(),
        };
        match parser.parse(&reply) {
            Ok(ReplyContent::Calls(calls)) => self.make_calls(now, reply, calls, commands),
            Ok(ReplyContent::CallInProse(_)) if !self.asked_to_send_alone => {
                self.asked_to_send_alone = true;
                self.send_back(now, reply, prompt::call_in_prose(), commands);
            }
            Ok(ReplyContent::Text(text) | ReplyContent::CallInProse(text)) => {
                self.accept_text(now, reply, text, commands)
            }
            Err(malformed) => {
                let meant = meant_tool(&reply, &malformed, tools);
                self.ask_again(now, reply, malformed.to_string(), meant, commands);
            }
        }
    }

    fn make_calls(
        &mut self,
        now: Timestamp,
        reply: ModelReply,
        mut calls: Vec<ToolCall>,
        commands: &mut Commands,
    ) {
        self.malformed = 0;
        self.asked_to_send_alone = false;
        self.conversation.assign_call_ids(self.turns, &mut calls);
        self.conversation.push(Message::Assistant {
            content: reply.content,
            calls: calls.clone(),
        });
        self.next_call(now, calls.into(), commands);
    }

    /// Accepts text as the answer (LOOP-4); a lead's text answers the goal (SPEC, "Where the rules meet", 6).
    fn accept_text(&mut self, now: Timestamp, reply: ModelReply, text: String, commands: &mut Commands) {
        if text.trim().is_empty() {
            return self.ask_again(now, reply, "it was empty".to_owned(), None, commands);
        }
        match self.answer_form() {
            AnswerForm::Text | AnswerForm::Plan => {
                self.malformed = 0;
                self.conversation.push(Message::Assistant {
                    content: reply.content,
                    calls: Vec::new(),
                });
                self.finish(now, Ok(AgentAnswer::Text(text)), commands);
            }
            AnswerForm::Reflection if self.malformed + 1 >= self.spec().limits.max_malformed => {
                // The run shows this text to the user, who decides how to continue (SPEC, "Where the rules meet", 7).
                self.finish(now, Ok(AgentAnswer::Text(text)), commands);
            }
            AnswerForm::Reflection => {
                let error = format!("it has no tool call; submit your verdict with `{SUBMIT_REFLECTION}`");
                let meant = Some(SUBMIT_REFLECTION.to_owned());
                self.ask_again(now, reply, error, meant, commands);
            }
        }
    }

    /// Asks the model for another reply (LOOP-3). The correction contains an example call of the tool that the model meant.
    fn ask_again(
        &mut self,
        now: Timestamp,
        reply: ModelReply,
        error: String,
        meant: Option<String>,
        commands: &mut Commands,
    ) {
        self.malformed += 1;
        self.asked_to_send_alone = false;
        let spec = self.spec();
        if self.malformed >= spec.limits.max_malformed {
            let last_reply = shorten(&reply.content, 2_000, None).into_owned();
            let failure = AgentFailure::Malformed {
                attempts: self.malformed,
                error,
                last_reply,
            };
            return self.finish(now, Err(failure), commands);
        }
        let correction = prompt::malformed(&error, spec, self.offered(), meant.as_deref());
        self.send_back(now, reply, correction, commands);
    }

    /// Sends a reply back to the model with a correction.
    fn send_back(&mut self, now: Timestamp, reply: ModelReply, about: String, commands: &mut Commands) {
        // Some providers refuse messages without text.
        let content = if reply.content.is_empty() {
            "(no text)".to_owned()
        } else {
            reply.content
        };
        self.conversation.push(Message::Assistant {
            content,
            calls: Vec::new(),
        });
        self.conversation.push(Message::User { content: about });
        self.ask(now, commands);
    }
}

/// Returns the tool that a malformed reply probably means: the tool of a native call, or the tool whose name occurs first in the text.
/// `None` if the reply names none of the agent's tools.
fn meant_tool(reply: &ModelReply, malformed: &MalformedReply, tools: &[ToolSpec]) -> Option<String> {
    if let MalformedReply::BareParameters { tool } = malformed {
        return Some(tool.clone());
    }
    let named = |name: &str| tools.iter().find(|tool| tool.name == name);
    let native = reply.malformed_calls.iter().find_map(|call| named(&call.name));
    let in_text = || {
        let places = tools.iter().filter_map(|tool| {
            let index = word_index(&reply.content, &tool.name)?;
            Some((index, tool))
        });
        places.min_by_key(|(index, _)| *index).map(|(_, tool)| tool)
    };
    native.or_else(in_text).map(|tool| tool.name.clone())
}

/// Returns the index at which the name first occurs in the text as a whole word.
fn word_index(text: &str, name: &str) -> Option<usize> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(name)
        .map(|(index, _)| index)
        .find(|index| !text[..*index].ends_with(is_part) && !text[index + name.len()..].starts_with(is_part))
}
