//! JSON in a reply that may be a call.

use std::ops::Range;

use super::json_scanner::{JsonEnd, ScannedJson};
use super::keys::CallKeys;

/// JSON that is meant as one or several calls.
pub(super) struct CallCandidate<'t> {
    /// Its range in the reply, including the markup that belongs to it.
    pub(super) span: Range<usize>,
    /// Its text, as far as it is JSON.
    pub(super) text: &'t str,
    /// The repaired text, if it had to be repaired.
    pub(super) repaired: Option<String>,
    /// How the JSON ends.
    pub(super) end: JsonEnd<'t>,
    /// The depth of nested arrays and objects, including itself.
    pub(super) depth: usize,
    /// An integer that 64 bits cannot hold.
    pub(super) huge_integer: Option<&'t str>,
    /// Why it counts as a call.
    pub(super) announced: Announced<'t>,
    /// True if it has the agreed form of calls.
    pub(super) is_own: bool,
    /// Its keys, or those of the first item of an array.
    pub(super) keys: CallKeys,
}

impl<'t> CallCandidate<'t> {
    /// The JSON that the scanner read at `start`.
    pub(super) fn new(text: &'t str, start: usize, candidate: &ScannedJson<'t>) -> Self {
        CallCandidate {
            span: start..candidate.end_offset,
            text: &text[start..candidate.end_offset],
            repaired: candidate.repaired(text, start),
            end: candidate.end,
            depth: candidate.depth,
            huge_integer: candidate.huge_integer,
            announced: Announced::Bare,
            is_own: true,
            keys: candidate.keys,
        }
    }
}

/// Why JSON counts as a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Announced<'t> {
    /// By its keys alone.
    Bare,
    /// By the markup before it.
    Tagged,
    /// By the markup and the tool's name before it; the JSON is the arguments.
    Named(&'t str),
}

impl Announced<'_> {
    pub(super) fn is_by_markup(self) -> bool {
        match self {
            Announced::Bare => false,
            Announced::Tagged | Announced::Named(_) => true,
        }
    }
}
