//! JSON in a reply that may be one or several calls.

use std::ops::Range;

use super::json_scanner::{JsonEnd, ScannedJson};
use super::keys::CallKeys;

/// JSON that probably represents one or several calls.
pub(super) struct CallCandidate<'t> {
    /// Byte range in the reply, including call markup around the JSON.
    pub(super) span: Range<usize>,
    /// The JSON text, up to its end or its first syntax error.
    pub(super) text: &'t str,
    /// The text repaired to JSON; `None` if it needed no repair.
    pub(super) repaired: Option<String>,
    /// How the JSON ends.
    pub(super) end: JsonEnd<'t>,
    /// Nesting depth of arrays and objects, from 1.
    pub(super) depth: usize,
    /// The first integer that does not fit in 64 bits, if any.
    pub(super) huge_integer: Option<&'t str>,
    /// The evidence that the JSON is meant as a call.
    pub(super) announced: Announced<'t>,
    /// Whether the JSON has the model's configured call form.
    pub(super) is_own: bool,
    /// The keys of the object, or of the first item of an array.
    pub(super) keys: CallKeys,
}

impl<'t> CallCandidate<'t> {
    /// Creates a candidate without markup from the JSON scanned at `start`.
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

/// The evidence that JSON is meant as a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Announced<'t> {
    /// Only the keys of the JSON object.
    Bare,
    /// Call markup before the JSON.
    Tagged,
    /// Call markup and this tool's name before the JSON, which contains only the arguments.
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
