//! Finding JSON objects in what a model said. One pass from left to right with an explicit stack: no
//! recursion, and time linear in the text, whatever it holds. It knows thinking text and tags, and
//! [`super::reader`] JSON's structure; which objects are calls is told by [`super::shape`], and so is whether
//! their content is right.
//!
//! - Outside JSON, everything is prose: fences, byte order marks, NULs.
//! - Text in `<think>…</think>` (or `<thinking>`) is passed over; so is all that follows a `<think>` that is
//!   never closed, and all that precedes a `</think>` that was never opened and ends its line (some chat
//!   templates open it in the prompt).
//! - A brace or bracket that begins no JSON is prose, and the search goes on where it stopped being JSON. A
//!   stray quote can make an object look like the inside of a string: so braces in the strings of such a
//!   stretch are tried again, as long as all tries together read the text at most [`READINGS`] times.
//! - In [`CallForm::Auto`] an object after a `<tool_call>` is meant as a call whatever its keys are, and one
//!   that is no JSON is read once more as what can be mended to it. That counts as a try as well.

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
    /// Whether there is nothing but thinking, the last of it not closed.
    pub(super) only_thinking: bool,
}

/// An object that is meant as a call.
pub(super) struct Found<'t> {
    /// Where it begins.
    pub(super) start: usize,
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
            start,
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
    let mut scanner = Scanner {
        text,
        form,
        meant: Vec::new(),
        answer: 0,
        only_thinking: false,
        tagged: None,
        effort: text.len().saturating_mul(READINGS),
    };
    let mut place = 0;
    while let Some(offset) = text[place..].find(['{', '[', '<']) {
        place += offset;
        place = if text[place..].starts_with('<') {
            scanner.angle_bracket(place)
        } else {
            scanner.brace_or_bracket(place)
        };
    }
    Scan {
        meant: scanner.meant,
        answer: text[scanner.answer..].trim(),
        only_thinking: scanner.only_thinking,
    }
}

struct Scanner<'t> {
    text: &'t str,
    form: CallForm,
    meant: Vec<Found<'t>>,
    /// Where the text after the thinking begins.
    answer: usize,
    only_thinking: bool,
    /// Where the object begins that the last tag announces.
    tagged: Option<usize>,
    /// How many bytes may still be read in order to try again.
    effort: usize,
}

impl<'t> Scanner<'t> {
    /// Where the search goes on after a `<`.
    fn angle_bracket(&mut self, place: usize) -> usize {
        if let Some(object) = after_tag(self.text, place, self.form) {
            self.tagged = Some(object);
            return object;
        }
        let nothing_before = |from: usize| self.text[from..place].trim().is_empty();
        match Thinking::at(self.text, place) {
            Thinking::None => place + 1,
            Thinking::Unclosed => {
                self.only_thinking = nothing_before(self.answer);
                self.text.len()
            }
            Thinking::Block { end } => {
                if nothing_before(self.answer) {
                    self.answer = end;
                }
                end
            }
            Thinking::EndOnly { end } => {
                self.meant.clear();
                self.answer = end;
                end
            }
        }
    }

    /// Where the search goes on after what begins with a `{` or `[`.
    fn brace_or_bracket(&mut self, place: usize) -> usize {
        let announced = if self.tagged == Some(place) {
            Announced::ByTag
        } else {
            Announced::ByKeys
        };
        let strict = self.read(place, Dialect::Strict);
        let mended = may_be_mended(self.form, strict.end) && self.effort > 0;
        let mended = mended.then(|| self.read(place, Dialect::Mended));
        let best = mended.as_ref().unwrap_or(&strict);
        if shape::is_meant(self.form, best.keys, announced) {
            self.meant.push(Found {
                announced,
                ..Found::new(self.text, place, best)
            });
            return match best.end {
                End::Closed => best.stop,
                End::Broken(_) | End::ControlCharacter | End::Unfinished => strict.stop,
            };
        }
        match strict.hidden {
            Some(hidden) if strict.end != End::Closed && self.effort > 0 => hidden,
            Some(_) | None => strict.stop,
        }
    }

    fn read(&mut self, place: usize, dialect: Dialect) -> Candidate<'t> {
        let candidate = read(self.text, place, dialect);
        self.effort = self.effort.saturating_sub(candidate.stop - place);
        candidate
    }
}

/// Whether reading on as what can be mended may lead further. At the end of the text there is nothing more to
/// read.
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

/// Where an object begins that a tag announces as a call, as the chat templates of Hermes, Qwen and others
/// teach it. Without an object after it, a tag is prose.
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
