//! The data that callers give to the journal and get from it.

use dirigent_core::id::{EffectId, RunId, Scope};
use dirigent_core::time::Timestamp;
use dirigent_core::tool::FileVersion;

use crate::message::MessageId;

/// The guarantee that an entry has once its callback is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Durability {
    /// Survives the end of the process, `kill -9` included, but not a power failure.
    Normal,
    /// Survives a power failure too: for entries that an external effect depends on (HOST-2).
    Full,
}

/// An entry to be appended to a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEntry {
    /// When the input arrived.
    pub at: Timestamp,
    /// The machine that takes the input.
    pub scope: Scope,
    /// A [`dirigent_core::journal::Input`] as JSON.
    pub body: String,
    /// What the entry must survive.
    pub durability: Durability,
    /// The pending message that this entry records. It is marked as accepted in the entry's transaction, so that a message becomes exactly
    /// one entry even if the process dies.
    pub consumes: Option<MessageId>,
}

/// Whether a run that is marked as ended can be resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RunEnding {
    /// The run is over: its pending messages are rejected, and no new ones are accepted.
    Finished,
    /// The run waits to be resumed: its messages stay pending, and new ones are accepted.
    Paused,
}

/// The point at which a fork leaves its source run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ForkPoint {
    /// The source run.
    pub run: RunId,
    /// The last entry that both runs share.
    pub seq: u64,
}

/// A run's metadata, without its entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRecord {
    /// The run.
    pub run: RunId,
    /// The text of its goal.
    pub goal: String,
    /// The folder that it works in.
    pub workspace: String,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was marked as ended; `None` while it can go on.
    pub ended_at: Option<Timestamp>,
    /// The reason for its end, as the JSON that [`crate::Journal::end`] was given.
    pub status: Option<String>,
    /// The live process that owns the run; `None` if no process does.
    pub owner_pid: Option<u32>,
    /// The number of its entries.
    pub entries: u64,
    /// The point at which it was forked from another run, if it was.
    pub forked_from: Option<ForkPoint>,
}

/// A file as a call found it, recorded before the call changed it. The call may have died before it could report its changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Original {
    /// The run.
    pub run: RunId,
    /// The call.
    pub effect: EffectId,
    /// The file's path relative to the run's workspace, with `/`.
    pub path: String,
    /// The file's version. Its digest finds the recorded content.
    pub version: FileVersion,
}
