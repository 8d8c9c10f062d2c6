//! A turn of a conversation: a run that answers one of the user's messages. Its lead continues with the messages of the previous turn's
//! lead.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::id::{ConversationId, EffectId, RunId, Scope};
use crate::intent::{Classification, MemoryIntent};
use crate::message::{Message, Usage};
use crate::prompt::{self, OutputHandle};
use crate::shared_text::SharedText;
use crate::tool::{SeenFile, SeenFiles};

/// The place of a run in its conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// The conversation's id.
    pub conversation: ConversationId,
    /// The number of the turn, counted from 1.
    pub number: u32,
    /// The context from earlier turns; `None` for the first turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earlier: Option<EarlierTurns>,
    /// The intent of the message, and the reason for it (INTENT-1); `None` if the message was not classified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intent: Option<Classification>,
    /// The answer, if it needs no model. The turn then ends at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<ReadyAnswer>,
    /// Facts from the memory. The lead receives them together with the message, as notes from the user.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// An answer that was known when its turn began, such as one from the memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadyAnswer {
    /// The text of the answer.
    pub text: String,
    /// The number of the fact that was saved; `None` if no fact was saved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_fact: Option<u64>,
}

impl Turn {
    /// Creates a turn whose message was not classified.
    pub fn new(conversation: ConversationId, number: u32, earlier: Option<EarlierTurns>) -> Self {
        Turn {
            conversation,
            number,
            earlier,
            intent: None,
            answer: None,
            notes: Vec::new(),
        }
    }

    /// Returns the number of the most recent fact saved by the conversation; `None` if there is none, or if an undo has deleted it since.
    pub fn last_kept_fact(&self) -> Option<u64> {
        let kept = self.answer.as_ref().and_then(|answer| answer.kept_fact);
        let is_undone = self
            .intent
            .as_ref()
            .is_some_and(|found| found.memory() == Some(&MemoryIntent::Undo));
        match kept {
            None if !is_undone => self.earlier.as_ref()?.kept_fact,
            kept => kept,
        }
    }
}

/// The context from earlier turns of a conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EarlierTurns {
    /// The run of the last turn.
    pub last_run: RunId,
    /// The number of agents that the earlier turns have started. The ids of this turn's agents continue from there, so that handles are
    /// unique in the whole conversation.
    pub agents: u32,
    /// The number of effects that the run machines of the earlier turns have started. The ids of this turn's effects continue from there.
    pub steps: u32,
    /// The number of iterations of the earlier turns. The handles of this turn's iterations continue from there.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub iterations: u32,
    /// The usage of the earlier turns.
    pub usage: Usage,
    /// Why the last turn ended without an answer; `None` if it had one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unanswered: Option<String>,
    /// The number of the most recent fact saved by the conversation, which the user can still ask to delete; `None` if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_fact: Option<u64>,
    /// Whether the turn begins with a summary of the messages, because the user asked for it (LOOP-11).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub compact: bool,
    /// The messages of the conversation.
    pub history: History,
}

/// The messages of a conversation without the system prompt, as its lead left them. Every call in them has a result. Clones share the
/// messages.
///
/// JSON: an array of the parts that the turns have added. The journal stores each part once ([`SharedText`]).
#[derive(Clone)]
pub struct History(Arc<Parts>);

struct Parts {
    parts: Vec<Arc<HistoryPart>>,
    text: OnceLock<Option<SharedText>>,
}

/// The messages that a turn has added to a conversation, or the whole conversation after its messages were compacted (LOOP-11).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HistoryPart {
    /// The messages, in order.
    pub messages: Vec<Message>,
    /// The effects of the calls in the messages, by call id. Handles of outputs contain these effects.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub effects: BTreeMap<String, EffectId>,
    /// The files that the lead has seen for the first time, or in a new version.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub seen: Vec<SeenFile>,
    /// The runs to whose outputs the handles in the messages refer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<TurnRun>,
}

/// The run of a turn, with the last ids of its outputs. Its ids continue those of the previous turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnRun {
    /// The run.
    pub run: RunId,
    /// The id of the run's last agent.
    pub agents: u32,
    /// The step of the run machine's last effect.
    pub steps: u32,
    /// The number of the run's last iteration, counted over the whole conversation.
    pub iterations: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl History {
    /// Creates the history of a conversation from its parts, in order.
    pub fn from_parts(parts: Vec<HistoryPart>) -> Self {
        History::from_shared(parts.into_iter().map(Arc::new).collect())
    }

    fn from_shared(parts: Vec<Arc<HistoryPart>>) -> Self {
        let text = OnceLock::new();
        History(Arc::new(Parts { parts, text }))
    }

    /// The parts, in order.
    pub fn parts(&self) -> impl Iterator<Item = &HistoryPart> {
        self.0.parts.iter().map(|part| &**part)
    }

    /// The messages of all parts, in order.
    pub fn messages(&self) -> impl Iterator<Item = &Message> {
        self.parts().flat_map(|part| &part.messages)
    }

    /// Returns the part of a preamble that the lead has not received in earlier turns: the environment if only the environment has changed;
    /// empty if nothing has.
    pub(crate) fn unknown_part<'a>(&self, preamble: &'a str) -> &'a str {
        let told = |text: &str| {
            let user = |message: &&Message| matches!(message, Message::User { .. });
            let mut told = self.messages().filter(user).map(Message::content);
            text.trim().is_empty() || told.any(|message| message.contains(text))
        };
        let (instructions, environment) = prompt::split_environment(preamble);
        if !told(instructions) {
            preamble
        } else if !told(environment) {
            environment
        } else {
            ""
        }
    }

    /// The latest version of each file that the lead has seen.
    pub(crate) fn seen(&self) -> SeenFiles {
        let seen = self.parts().flat_map(|part| &part.seen);
        seen.map(|file| (file.path.clone(), file.clone())).collect()
    }

    /// Returns the history with another part at its end.
    pub fn extended(&self, part: HistoryPart) -> Self {
        let mut parts = self.0.parts.clone();
        parts.push(Arc::new(part));
        History::from_shared(parts)
    }

    /// The JSON text without its last bracket, so that it begins with the text of the previous turn; `None` if the history has no JSON
    /// form.
    pub fn text(&self) -> Option<&SharedText> {
        let build = || {
            let pieces = self.parts().enumerate().map(|(index, part)| {
                let separator = if index == 0 { "[" } else { "," };
                serde_json::to_string(part).map(|json| format!("{separator}{json}"))
            });
            let pieces: Vec<String> = pieces.collect::<Result<_, _>>().ok()?;
            Some(SharedText::from_pieces(pieces.iter().map(String::as_str)))
        };
        self.0.text.get_or_init(build).as_ref()
    }
}

impl PartialEq for History {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.parts == other.0.parts
    }
}

impl std::fmt::Debug for History {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.parts()).finish()
    }
}

impl Serialize for History {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.parts())
    }
}

impl<'de> Deserialize<'de> for History {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::deserialize(deserializer).map(History::from_parts)
    }
}

impl EarlierTurns {
    /// Returns the run of the earlier turn that has the output with this handle; `None` if the handle is one of this turn, or unknown.
    pub fn run_of(&self, handle: OutputHandle) -> Option<RunId> {
        let has = |ids: &TurnRun| match handle {
            OutputHandle::Call(effect) | OutputHandle::Parameters(effect) => match effect.scope {
                Scope::Run => effect.step <= ids.steps,
                Scope::Agent(agent) => agent.0 <= ids.agents,
            },
            OutputHandle::Agent(agent) => agent.0 <= ids.agents,
            OutputHandle::Iteration(iteration) | OutputHandle::Diff(iteration) => iteration <= ids.iterations,
            // This handle always means the diff of the turn that reads it.
            OutputHandle::RunDiff => false,
        };
        let mut runs = self.history.parts().flat_map(|part| &part.runs);
        runs.find(|ids| has(ids)).map(|ids| ids.run)
    }
}
