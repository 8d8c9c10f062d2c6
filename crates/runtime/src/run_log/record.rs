//! The data that is written to and read from a run log.

use dirigent_core::id::{ConversationId, EffectId, RunId, Scope};
use dirigent_core::shared_text::SharedText;
use dirigent_core::time::Timestamp;
use dirigent_core::tool::FileVersion;

use super::message::MessageId;

/// The durability that an entry has when its callback is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Durability {
    /// The entry survives the end of the process, even by `kill -9`, but not a power failure.
    Normal,
    /// The entry also survives a power failure. Required for entries that must be stored before an external effect starts (HOST-2).
    Full,
}

/// An entry to be appended to a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEntry {
    /// The time at which the input arrived.
    pub at: Timestamp,
    /// The state machine that receives the input: the run's or an agent's.
    pub scope: Scope,
    /// A [`dirigent_core::journal::Input`] as JSON.
    pub body: String,
    /// The parts of the body that other entries also contain. The journal stores each part only once.
    pub shared: Vec<SharedText>,
    /// The required durability of the entry.
    pub durability: Durability,
    /// The pending message that this entry records, if any. The message is marked as accepted in the same transaction, so that it becomes
    /// exactly one entry even if the process dies.
    pub consumes: Option<MessageId>,
}

/// Whether a run that is marked as ended can be resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RunEnding {
    /// The run cannot be resumed: its pending messages are rejected, and no new messages are accepted.
    Finished,
    /// The run can be resumed: its messages stay pending, and new messages are accepted.
    Paused,
}

/// The entry at which a fork branches off from its source run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ForkPoint {
    /// The id of the source run.
    pub run: RunId,
    /// The number of the last entry that both runs share.
    pub seq: u64,
}

/// The position of a run in a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TurnNumber {
    /// The id of the conversation.
    pub conversation: ConversationId,
    /// The number of the turn, counted from 1.
    pub number: u32,
}

/// The initial record of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRun {
    /// The goal in the user's words.
    pub goal: String,
    /// The absolute path of the workspace.
    pub workspace: String,
    /// The time at which the run is created.
    pub at: Timestamp,
    /// The position of the run in a conversation; `None` outside of a conversation.
    pub turn: Option<TurnNumber>,
}

impl NewRun {
    /// Creates the record of a run outside of a conversation.
    pub fn new(goal: impl Into<String>, workspace: impl Into<String>, at: Timestamp) -> Self {
        NewRun {
            goal: goal.into(),
            workspace: workspace.into(),
            at,
            turn: None,
        }
    }
}

/// A run's metadata, without its entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRecord {
    /// The run's id.
    pub run: RunId,
    /// The goal of the run.
    pub goal: String,
    /// The folder in which the run works.
    pub workspace: String,
    /// The time at which the run was created.
    pub created_at: Timestamp,
    /// The time at which the run was marked as ended; `None` while it can continue.
    pub ended_at: Option<Timestamp>,
    /// The reason for the end, as the JSON that was passed to [`RunClaim::end`](super::RunClaim::end).
    pub status: Option<String>,
    /// The id of the live process that owns the run; `None` if no process owns it.
    pub owner_pid: Option<u32>,
    /// The number of entries in the run.
    pub entries: u64,
    /// The run's position in its conversation; `None` outside of a conversation.
    pub turn: Option<TurnNumber>,
    /// The point at which the run was forked from another run; `None` if it was not forked.
    pub forked_from: Option<ForkPoint>,
    /// The problem with the stored record: a field that cannot be read, or missing entries; `None` if there is none. Damage within entries
    /// is found only when they are read.
    pub problem: Option<String>,
}

/// The version of a file before a tool call changed it. Recorded before the change, so it exists even if the process died before the call
/// could report the change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Original {
    /// The id of the run.
    pub run: RunId,
    /// The effect id of the call.
    pub effect: EffectId,
    /// The file's path relative to the run's workspace, with `/` as separator.
    pub path: String,
    /// The version of the file. The recorded content is stored under its digest.
    pub version: FileVersion,
}
