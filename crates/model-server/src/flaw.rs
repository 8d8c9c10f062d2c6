//! What can be wrong with a reply that a server does send, each seen at real servers.
//!
//! A flaw never changes what a request's check finds, nor which turn comes next.

use serde::Deserialize;

/// What is wrong with the delivery of a reply. "Streaming only" flaws leave a plain JSON reply as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Flaw {
    // The bytes.
    /// The connection breaks in the middle of an event, or half way through the JSON.
    CutMidEvent,
    /// The connection breaks inside a UTF-8 character. A text without one gets an `é` at its end.
    CutMidCharacter,
    /// The connection breaks between two events, half way; streaming only.
    CutBetweenEvents,
    /// The body ends properly, but half way: no finish reason, no `[DONE]`, no error; plain JSON just stops.
    EndsEarly,
    /// The body comes in frames of this many bytes, so that lines and characters are split between reads.
    SmallFrames {
        /// Bytes in each frame; 0 counts as 1.
        bytes: usize,
    },

    // The events.
    /// No `data: [DONE]`; streaming only.
    MissingDone,
    /// Half way comes an error object instead of the rest, status 200; plain JSON is an error object at once.
    ErrorObject,
    /// Half way comes an event that is not JSON, and the stream goes on; streaming only.
    GarbageEvent,
    /// Comments stand between the events; before plain JSON come empty lines.
    KeepAliveComments,
    /// Every event comes twice, `[DONE]` excepted; streaming only.
    DuplicatedEvents,
    /// Lines end with CR LF; streaming only.
    CrlfLines,
    /// Each event's JSON is spread over several `data:` lines; streaming only.
    MultiLineData,
    /// `data:` without the space after it; streaming only.
    NoSpaceAfterColon,
    /// `Content-Type: text/plain`, whatever the body is.
    WrongContentType,

    // The chunks.
    /// Fragments of several tool calls take turns; streaming only.
    InterleavedCalls,
    /// The last tool call comes first, with its own index; streaming only.
    ReversedCalls,
    /// Arguments come one character at a time; streaming only.
    SplitArguments,
    /// Tool calls have no `id`.
    CallIdsMissing,
    /// All tool calls have the first one's `id`.
    CallIdsReused,
    /// Tool calls have no `index`; streaming only.
    CallIndexMissing,
    /// A chunk without choices comes first; plain JSON has none at all.
    EmptyChoices,
    /// `content` is null: in an extra chunk before the text; in plain JSON instead of the text.
    NullContent,
    /// No chunk says why the reply ended; in plain JSON it is null.
    FinishReasonMissing,
    /// The text goes on for this many bytes.
    Padded {
        /// Bytes of filler after the text: dots and spaces, no words.
        bytes: usize,
    },
}
