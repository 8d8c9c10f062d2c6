//! Finding JSON objects in what a model said. One pass from left to right with an explicit stack: no recursion, and time
//! linear in the text, whatever it holds. It knows thinking text and tags, and [`super::reader`] JSON's structure; which objects are
//! calls is told by [`super::shape`], and so is whether their content is right.
//!
//! - Outside JSON, everything is prose: fences, byte order marks, NULs.
//! - Text in `<think>…</think>` (or `<thinking>`) is passed over; so is all that follows a `<think>` that is never closed, and all
//!   that precedes a `</think>` that was never opened and ends its line (some chat templates open it in the prompt).
//! - A brace or bracket that begins no JSON is prose, and the search goes on where it stopped being JSON. A stray quote can make
//!   an object look like the inside of a string: so braces in the strings of such a stretch are tried again, as long as all
//!   tries together read the text at most [`READINGS`] times.
//! - In [`CallForm::Auto`] an object after a `<tool_call>` is meant as a call whatever its keys are, and one that is no JSON is read once
//!   more as what can be mended to it. That counts as a try as well.

use super::form::CallForm;
use super::reader::{Candidate, Dialect, End, read};
use super::shape::{self, Announced};

const READINGS: usize = 8;

/// What a text holds.
pub(super) struct Scan<'t> {
    /// The objects that are meant as calls; those inside other JSON are not among them.
    pub(super) meant: Vec<Found<'t>>,
    /// The text without the thinking before it.
    pub(super) answer: &'t str,
}

/// An object that is meant as a call.
pub(super) struct Found<'t> {
    /// Its text, as far as it is JSON.
    pub(super) text: &'t str,
    /// That text as JSON, where it had to be mended.
    pub(super) mended: Option<String>,
    /// How it ends.
    pub(super) end: End<'t>,
    /// How deep its arrays and objects are nested, itself included.
    pub(super) depth: usize,
    /// An integer in it that 64 bits cannot hold.
    pub(super) huge_integer: Option<&'t str>,
    /// What shows that it is meant as a call.
    pub(super) announced: Announced,
}

impl<'t> Found<'t> {
    /// What was read from there.
    pub(super) fn new(text: &'t str, start: usize, candidate: &Candidate<'t>) -> Self {
        Found {
            text: &text[start..candidate.stop],
            mended: candidate.mended(text, start),
            end: candidate.end,
            depth: candidate.depth,
            huge_integer: candidate.huge_integer,
            announced: Announced::ByKeys,
        }
    }
}

pub(super) fn scan(text: &str, form: CallForm) -> Scan<'_> {
    let mut meant = Vec::new();
    let mut answer = 0;
    let mut effort = text.len().saturating_mul(READINGS);
    let mut tagged = None;
    let mut place = 0;
    while let Some(offset) = text[place..].find(['{', '[', '<']) {
        place += offset;
        if text[place..].starts_with('<') {
            if let Some(object) = after_tag(text, place, form) {
                tagged = Some(object);
                place = object;
                continue;
            }
            match Thinking::at(text, place) {
                Thinking::None => place += 1,
                Thinking::Unclosed => break,
                Thinking::Block { end } => {
                    if text[answer..place].trim().is_empty() {
                        answer = end;
                    }
                    place = end;
                }
                Thinking::EndOnly { end } => {
                    meant.clear();
                    answer = end;
                    place = end;
                }
            }
            continue;
        }
        let announced = if tagged == Some(place) {
            Announced::ByTag
        } else {
            Announced::ByKeys
        };
        let strict = read(text, place, Dialect::Strict);
        effort = effort.saturating_sub(strict.stop - place);
        let mut go_on = strict.stop;
        let mut best = &strict;
        let mended;
        if may_be_mended(form, strict.end) && effort > 0 {
            mended = read(text, place, Dialect::Mended);
            effort = effort.saturating_sub(mended.stop - place);
            best = &mended;
        }
        if shape::is_meant(form, best.keys, announced) {
            meant.push(Found {
                announced,
                ..Found::new(text, place, best)
            });
            if best.end == End::Closed {
                go_on = best.stop;
            }
        } else if strict.end != End::Closed && effort > 0 {
            go_on = strict.hidden.unwrap_or(go_on);
        }
        place = go_on;
    }
    Scan {
        meant,
        answer: text[answer..].trim(),
    }
}

/// Whether reading on as what can be mended may lead further. At the end of the text there is nothing more to read.
fn may_be_mended(form: CallForm, end: End<'_>) -> bool {
    let mends = match form {
        CallForm::Auto => true,
        CallForm::Json | CallForm::JsonSchema | CallForm::Native | CallForm::ToolCall => false,
    };
    let is_broken = match end {
        End::Broken(_) | End::ControlCharacter => true,
        End::Closed | End::Unfinished => false,
    };
    mends && is_broken
}

/// Where an object begins that a tag announces as a call, as the chat templates of Hermes, Qwen and others teach it. Without an object
/// after it, a tag is prose.
fn after_tag(text: &str, place: usize, form: CallForm) -> Option<usize> {
    match form {
        CallForm::Auto => {
            let rest = text[place..].strip_prefix("<tool_call>")?.trim_start();
            rest.starts_with('{').then_some(text.len() - rest.len())
        }
        CallForm::Json | CallForm::JsonSchema | CallForm::Native | CallForm::ToolCall => None,
    }
}

/// What a `<` in prose is.
enum Thinking {
    None,
    Block { end: usize },
    Unclosed,
    EndOnly { end: usize },
}

impl Thinking {
    fn at(text: &str, place: usize) -> Thinking {
        let rest = &text[place..];
        for (open, close) in [("<think>", "</think>"), ("<thinking>", "</thinking>")] {
            if rest.starts_with(open) {
                return match rest.find(close) {
                    Some(offset) => Thinking::Block {
                        end: place + offset + close.len(),
                    },
                    None => Thinking::Unclosed,
                };
            }
            if let Some(after) = rest.strip_prefix(close)
                && after
                    .trim_start_matches([' ', '\t', '\r'])
                    .chars()
                    .next()
                    .is_none_or(|c| c == '\n')
            {
                return Thinking::EndOnly {
                    end: place + close.len(),
                };
            }
        }
        Thinking::None
    }
}
