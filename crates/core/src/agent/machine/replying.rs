//! What a reply leads to: calls, an answer, or being asked again.

use super::{Agent, Commands};
use crate::agent::{AgentAnswer, AgentFailure};
use crate::call::{Said, parse_after};
use crate::message::{Message, ModelReply};
use crate::prompt;
use crate::reflection::SUBMIT_REFLECTION;
use crate::spec::AnswerForm;
use crate::time::Timestamp;

impl Agent {
    pub(super) fn read_reply(&mut self, now: Timestamp, reply: ModelReply, commands: &mut Commands) {
        // A reply that cannot be used was paid for all the same.
        self.work.usage += reply.counted();
        self.conversation.count(&reply.usage);
        let said = parse_after(&reply, self.call_form(), &self.conversation.prompts());
        match (said, self.answer()) {
            (Ok(Said::Calls(mut calls)), _) => {
                self.malformed = 0;
                self.conversation.name_calls(self.turns, &mut calls);
                self.conversation.say(Message::Assistant {
                    content: reply.content,
                    calls: calls.clone(),
                });
                self.next_call(now, calls.into(), commands);
            }
            (Ok(Said::Text(text)), _) if text.trim().is_empty() => {
                self.ask_again(now, reply, "it was empty".to_owned(), commands);
            }
            // LOOP-4; a planner's text answers the goal (SPEC, "Where the rules meet", 6).
            (Ok(Said::Text(text)), AnswerForm::Text | AnswerForm::Plan) => {
                self.malformed = 0;
                self.conversation.say(Message::Assistant {
                    content: reply.content,
                    calls: Vec::new(),
                });
                self.finish(now, Ok(AgentAnswer::Text(text)), commands);
            }
            (Ok(Said::Text(_)), AnswerForm::Reflection) => {
                let error =
                    format!("it has no tool call, but a judgement is submitted with `{SUBMIT_REFLECTION}`");
                self.ask_again(now, reply, error, commands);
            }
            (Err(malformed), _) => self.ask_again(now, reply, malformed.to_string(), commands),
        }
    }

    /// LOOP-3.
    fn ask_again(&mut self, now: Timestamp, reply: ModelReply, error: String, commands: &mut Commands) {
        self.malformed += 1;
        let Some(spec) = self.spec() else { return };
        let tools = self.offered();
        let (attempts, correction) = (spec.limits.max_malformed, prompt::malformed(&error, spec, &tools));
        if self.malformed >= attempts {
            let last_reply = prompt::shorten(&reply.content, 2_000, None).into_owned();
            let failure = AgentFailure::Malformed {
                attempts: self.malformed,
                error,
                last_reply,
            };
            return self.finish(now, Err(failure), commands);
        }
        // Some providers refuse a message without text.
        let content = if reply.content.is_empty() {
            "(no text)".to_owned()
        } else {
            reply.content
        };
        self.conversation.say(Message::Assistant {
            content,
            calls: Vec::new(),
        });
        self.conversation.say(Message::User { content: correction });
        self.ask(now, commands);
    }
}
