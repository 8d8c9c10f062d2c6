//! Sends the next model request, and makes room for it in the model's context window (LOOP-11).

use std::sync::Arc;

use super::{Agent, Commands, Guidance, Pending, State};
use crate::agent::AgentCommand;
use crate::agent_report::{AgentFailure, CallSummary};
use crate::budget::TYPICAL_REPLY_TOKENS;
use crate::call::{ReplyContent, parse};
use crate::message::{Message, ModelFailure, ModelFailureKind, ModelReply};
use crate::prompt;
use crate::tags::escape_tags;
use crate::time::Timestamp;

/// Maximum number of calls to list if the model failed to write a summary.
const LISTED_CALLS: usize = 50;

impl Agent {
    /// Sends the next model request, or ends the loop if none is allowed (LOOP-2, LOOP-10).
    pub(super) fn ask(&mut self, now: Timestamp, commands: &mut Commands) {
        if let Some(stuck) = self.stuck.take() {
            return self.finish(now, Err(stuck), commands);
        }
        let max_turns = self.spec().limits.max_turns;
        if self.turns >= max_turns {
            return self.finish(now, Err(AgentFailure::TurnLimit { max_turns }), commands);
        }
        match self.compact() {
            Some(request) => {
                self.state = State::Summarising(Arc::new(request));
                self.send(commands);
            }
            None => self.ask_next(commands),
        }
    }

    fn ask_next(&mut self, commands: &mut Commands) {
        if let Some(content) = self.take_tool_notices() {
            self.conversation.push(Message::User { content });
        }
        for guidance in std::mem::take(&mut self.guidance) {
            let content = match guidance {
                Guidance::OfAgent(guidance) => format!("The user says: {}", escape_tags(&guidance)),
                Guidance::OfRun(guidance) => {
                    let number = self.guidance_given.map_or(1, |given| given.saturating_add(1));
                    self.guidance_given = Some(number);
                    prompt::guidance(number, &guidance)
                }
            };
            self.conversation.push(Message::User { content });
        }
        self.turns += 1;
        self.calls_of_turn = 0;
        self.announce_last_turn();
        self.state = State::Asking;
        self.send(commands);
    }

    /// Tells the model that its last turn begins (LOOP-2). Does this only once, even if the request of the last turn is repeated.
    fn announce_last_turn(&mut self) {
        let spec = self.spec();
        if self.turns < spec.limits.max_turns || self.last_turn_announced {
            return;
        }
        let content = prompt::last_turn(spec);
        self.last_turn_announced = true;
        self.conversation.push(Message::User { content });
    }

    fn send(&mut self, commands: &mut Commands) {
        let effect = self.outstanding.start(Pending::Model);
        commands.push(AgentCommand::AskModel { effect });
    }

    /// Maximum number of tokens of a request that leaves room for a reply; `None` if the model's context window is unknown.
    fn max_request_tokens(&self) -> Option<u64> {
        let profile = &self.spec().profile;
        let window = [profile.context_window, self.too_long]
            .into_iter()
            .flatten()
            .min()?;
        let reply = profile
            .max_output_tokens
            .unwrap_or(TYPICAL_REPLY_TOKENS)
            .min(window / 4);
        // Token counts are estimates, so 5% are kept free.
        Some(window - reply - window / 20)
    }

    /// Makes room if the conversation is too long for the context window: reduces old results to one line each. If that is not enough,
    /// changes nothing, and returns a request for a summary of the earlier turns with their results. Frees more than the next request needs, so that the following requests need no
    /// further changes and begin with the same messages.
    fn compact(&mut self) -> Option<Vec<Message>> {
        if std::mem::take(&mut self.compacts_history) {
            let most = self.max_request_tokens();
            return self.conversation.summary_request(&self.brief.task, most);
        }
        let most = self.max_request_tokens()?;
        let max_compactions = self.spec().limits.max_compactions;
        if self.conversation.tokens() <= most || self.compactions >= max_compactions {
            return None;
        }
        self.compactions += 1;
        let enough = most / 4 * 3;
        let mut shrunk = self.conversation.clone();
        shrunk.shrink_results(enough);
        if shrunk.tokens() <= enough {
            self.conversation = shrunk;
            return None;
        }
        let request = self.conversation.summary_request(&self.brief.task, Some(most));
        if request.is_none() {
            self.conversation.shorten_latest(most);
        }
        request
    }

    /// Replaces the earlier turns with the model's summary, or with a list of calls if the reply contains no summary.
    pub(super) fn handle_summary(&mut self, reply: ModelReply, commands: &mut Commands) {
        self.work.usage += reply.metered_usage();
        let reply_text = match parse(&reply, self.call_form()) {
            Ok(ReplyContent::Text(text) | ReplyContent::CallInProse(text)) if !text.is_empty() => Some(text),
            Ok(ReplyContent::Text(_) | ReplyContent::CallInProse(_) | ReplyContent::Calls(_)) | Err(_) => {
                None
            }
        };
        self.summarise(reply_text, commands);
    }

    fn summarise(&mut self, reply_text: Option<String>, commands: &mut Commands) {
        let summary = reply_text.unwrap_or_else(|| self.listed_calls());
        let request = if self.conversation.keeps_task() {
            self.preamble.trim_end().to_owned()
        } else {
            format!("{}{}", self.preamble, self.brief.task)
        };
        self.conversation.summarise(&request, &summary);
        self.summary = summary;
        if let Some(most) = self.max_request_tokens() {
            self.conversation.shorten_latest(most);
        }
        self.ask_next(commands);
    }

    fn listed_calls(&self) -> String {
        let calls = &self.work.calls;
        let line = |call: &CallSummary| {
            let outcome = if call.success { "succeeded" } else { "failed" };
            let end = match (&call.effect, &call.error) {
                (Some(handle), _) => format!(" (handle {handle})"),
                (None, Some(error)) => format!(": {error}"),
                (None, None) => String::new(),
            };
            format!("- {} {} {outcome}{end}", call.tool, call.parameters)
        };
        let latest = calls
            .iter()
            .skip(calls.len().saturating_sub(LISTED_CALLS))
            .map(line);
        let mut text = vec![format!("{} tool calls so far, the latest of them:", calls.len())];
        text.extend(latest);
        text.join("\n")
    }

    /// Sends a shorter request if the failed one was too long; otherwise ends the loop.
    pub(super) fn handle_model_failure(
        &mut self,
        now: Timestamp,
        failure: ModelFailure,
        commands: &mut Commands,
    ) {
        let is_too_long = match failure.kind {
            ModelFailureKind::TooLong => true,
            ModelFailureKind::Unavailable { .. }
            | ModelFailureKind::Configuration
            | ModelFailureKind::Rejected
            | ModelFailureKind::Panicked => false,
        };
        if is_too_long && self.is_summarising() {
            return self.summarise(None, commands);
        }
        let before = self.conversation.tokens();
        if is_too_long {
            self.too_long = Some(before);
            let request = self.compact();
            if request.is_some() || self.conversation.tokens() < before / 10 * 9 {
                // The failed request does not count as a turn.
                self.turns = self.turns.saturating_sub(1);
                if let Some(request) = request {
                    self.state = State::Summarising(Arc::new(request));
                    return self.send(commands);
                }
                return self.ask_next(commands);
            }
        }
        self.finish(now, Err(AgentFailure::Model { failure }), commands);
    }
}
