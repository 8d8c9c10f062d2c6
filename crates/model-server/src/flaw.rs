//! Defects of a reply's delivery, each observed at real servers.
//!
//! A flaw never changes the check of a request or the choice of the next turn.

/// A defect of a reply's delivery. Flaws that are "streaming only" do not change a plain JSON reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    // Bytes:
    /// The connection breaks in the middle of an event, or halfway through the JSON.
    CutMidEvent,
    /// The connection breaks inside a UTF-8 character. If the text has no multi-byte character, `é` is appended.
    CutMidCharacter,
    /// The connection breaks between two events, halfway; streaming only.
    CutBetweenEvents,
    /// The body ends properly, but halfway: no finish reason, no `[DONE]`, no error; plain JSON just stops.
    EndsEarly,
    /// The body comes in small frames, which split lines and characters.
    SmallFrames {
        /// Bytes per frame; 0 counts as 1.
        bytes: usize,
    },

    // Events:
    /// No `data: [DONE]`; streaming only.
    MissingDone,
    /// The second half is replaced by an error object, with status 200; a plain JSON reply is replaced as a whole.
    ErrorObject,
    /// One event in the middle of the stream is not JSON; streaming only.
    GarbageEvent,
    /// Comments between the events; empty lines before plain JSON.
    KeepAliveComments,
    /// Every event except `[DONE]` comes twice; streaming only.
    DuplicatedEvents,
    /// Lines end with CR LF; streaming only.
    CrlfLines,
    /// Each event's JSON is spread over several `data:` lines; streaming only.
    MultiLineData,
    /// `data:` without the space after it; streaming only.
    NoSpaceAfterColon,
    /// `Content-Type: text/plain` for any body.
    WrongContentType,

    // Chunks:
    /// Fragments of several tool calls alternate; streaming only.
    InterleavedCalls,
    /// The last tool call comes first, with its own index; streaming only.
    ReversedCalls,
    /// Arguments come one character at a time; streaming only.
    SplitArguments,
    /// Tool calls have no `id`.
    CallIdsMissing,
    /// All tool calls have the `id` of the first.
    CallIdsReused,
    /// Tool calls have no `index`; streaming only.
    CallIndexMissing,
    /// A chunk without choices comes first; plain JSON has no choices.
    EmptyChoices,
    /// Streamed replies have an extra chunk before the text, with a null `content`; plain JSON has a null `content` instead of the text.
    NullContent,
    /// No chunk has a finish reason; in plain JSON it is null.
    FinishReasonMissing,
    /// Filler follows the text.
    Padded {
        /// Bytes of filler: dots and spaces.
        bytes: usize,
    },
}
