//! JSON in a reply that may be a call.

use std::ops::Range;

use super::json_scanner::{JsonEnd, ScannedJson};
use super::keys::CallKeys;

/// JSON that is meant as one call or several.
pub(super) struct CallCandidate<'t> {
    /// Where it stands, with the markup that belongs to it.
    pub(super) span: Range<usize>,
    /// Its text, as far as it is JSON.
    pub(super) text: &'t str,
    /// That text as JSON, where it had to be repaired.
    pub(super) repaired: Option<String>,
    /// How it ends.
    pub(super) end: JsonEnd<'t>,
    /// How deep its arrays and objects are nested, itself included.
    pub(super) depth: usize,
    /// An integer in it that 64 bits cannot hold.
    pub(super) huge_integer: Option<&'t str>,
    /// What shows that it is meant as a call.
    pub(super) announced: Announced<'t>,
    /// Whether it has the form that was agreed on.
    pub(super) is_own: bool,
    /// Its keys, or those of the first item of an array.
    pub(super) keys: CallKeys,
}

impl<'t> CallCandidate<'t> {
    /// What was read from there.
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

/// What shows that JSON is meant as a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Announced<'t> {
    /// Its keys alone.
    Bare,
    /// The markup before it.
    Tagged,
    /// The markup and the tool's name before it: the JSON is the arguments.
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
