//! Finding calls in what a model said. One pass from left to right with an explicit stack: no recursion, and time linear in the text,
//! whatever it holds. It knows the tags of [`super::markup`] and, by [`super::reader`], JSON's structure; which objects are calls is told by
//! [`super::shape`], and so is whether their content is right.
//!
//! - Outside JSON, everything is prose: fences, byte order marks, NULs.
//! - Thinking text in tags (`<think>…</think>`, `[THINK]…[/THINK]` and the like) is skipped; so is all that follows an opening tag that is
//!   never closed, and all that precedes a closing one that was never opened and ends its line (some chat templates open it in the prompt).
//! - A brace or bracket that begins no JSON is prose, and the search goes on where it stopped being JSON. A stray quote can make an object
//!   look like the inside of a string: so braces in the strings of such a stretch are tried again, as long as all tries together read the
//!   text at most [`READINGS`] times.
//! - Call markup with JSON after it announces a call, whatever keys its objects have. In [`CallForm::Auto`], JSON that is broken is read once
//!   more as what can be mended to it. That counts as a try as well.
//! - Calls in another form than the one agreed on are found too, and marked as such: a reply that is nothing else is no answer (LOOP-3).

use std::ops::Range;

use super::form::CallForm;
use super::lookalike;
use super::markup::{self, Purpose, Tag};
use super::reader::{Candidate, Dialect, End, read};
use super::shape::{self, Announced, Keys};

const READINGS: usize = 8;

/// What a text holds.
pub(super) struct Scan<'t> {
    /// The JSON that is meant as calls; that inside other JSON is not among it.
    pub(super) found: Vec<Found<'t>>,
    /// Thinking text, and what else is neither a call nor words.
    pub(super) skipped: Vec<Range<usize>>,
    /// Where the text begins that follows the thinking.
    pub(super) answer: usize,
    /// Whether a closing tag that was never opened makes thinking of what precedes it.
    pub(super) is_unopened: bool,
    /// Whether there is nothing but thinking, the last of it not closed.
    pub(super) only_thinking: bool,
    /// The first call markup that announces nothing that can be read.
    pub(super) bare_markup: Option<usize>,
    /// Where the last tag ends that closes a call.
    pub(super) last_closer: Option<usize>,
    /// The first and the last brace of what looks like a call and is no JSON.
    pub(super) lookalikes: Option<(usize, usize)>,
}

/// JSON that is meant as one call or several.
pub(super) struct Found<'t> {
    /// Where it stands, with the markup that belongs to it.
    pub(super) span: Range<usize>,
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
    pub(super) announced: Announced<'t>,
    /// Whether it has the form that was agreed on.
    pub(super) is_own: bool,
    /// Its keys, or those of the first item of an array.
    pub(super) keys: Keys,
}

impl<'t> Found<'t> {
    /// What was read from there.
    pub(super) fn new(text: &'t str, start: usize, candidate: &Candidate<'t>) -> Self {
        Found {
            span: start..candidate.stop,
            text: &text[start..candidate.stop],
            mended: candidate.mended(text, start),
            end: candidate.end,
            depth: candidate.depth,
            huge_integer: candidate.huge_integer,
            announced: Announced::Bare,
            is_own: true,
            keys: candidate.keys,
        }
    }
}

pub(super) fn scan(text: &str, form: CallForm) -> Scan<'_> {
    let mut scanner = Scanner {
        text,
        form,
        scan: Scan {
            found: Vec::new(),
            skipped: Vec::new(),
            answer: 0,
            is_unopened: false,
            only_thinking: false,
            bare_markup: None,
            last_closer: None,
            lookalikes: None,
        },
        pending: None,
        unclosed: Vec::new(),
        effort: text.len().saturating_mul(READINGS),
    };
    let mut place = 0;
    while let Some(offset) = text[place..].find(['{', '[', '<', '◁']) {
        place += offset;
        place = scanner.at(place);
    }
    scanner.scan
}

/// JSON that markup announces, and where the markup begins.
struct Pending<'t> {
    json: usize,
    start: usize,
    announced: Announced<'t>,
}

struct Scanner<'t> {
    text: &'t str,
    form: CallForm,
    scan: Scan<'t>,
    pending: Option<Pending<'t>>,
    /// The thinking tags that are never closed from here on.
    unclosed: Vec<String>,
    /// How many bytes may still be read in order to try again.
    effort: usize,
}

impl<'t> Scanner<'t> {
    /// Where the search goes on after what begins at `place`.
    fn at(&mut self, place: usize) -> usize {
        if let Some(tag) = Tag::at(self.text, place)
            && let Some(next) = self.tag(place, tag)
        {
            return next;
        }
        if self.text[place..].starts_with(['{', '[']) {
            self.json(place)
        } else {
            place + self.text[place..].chars().next().map_or(1, char::len_utf8)
        }
    }

    /// Where the search goes on after a tag; `None` if it is prose.
    fn tag(&mut self, place: usize, tag: Tag<'t>) -> Option<usize> {
        match tag.purpose() {
            Purpose::Thinking => self.thinking(place, tag),
            Purpose::ThinkingEnd => {
                let rest = self.text[tag.end..].trim_start_matches([' ', '\t', '\r']);
                (rest.is_empty() || rest.starts_with('\n')).then(|| {
                    self.scan.found.clear();
                    self.scan.bare_markup = None;
                    self.scan.lookalikes = None;
                    self.scan.answer = tag.end;
                    self.scan.is_unopened = true;
                    tag.end
                })
            }
            Purpose::Token => match markup::thinking_channel(self.text, &tag) {
                Some(message) => Some(self.skip_thinking(place, self.end_of_channel(message))),
                None => self.announced(place).or(Some(tag.end)),
            },
            Purpose::Call => self.announced(place).or_else(|| {
                if markup::begins_line(self.text, place) {
                    self.scan.bare_markup.get_or_insert(place);
                }
                Some(tag.end)
            }),
            Purpose::CallEnd => {
                self.scan.last_closer = Some(tag.end);
                Some(tag.end)
            }
            Purpose::Other => None,
        }
    }

    fn announced(&mut self, place: usize) -> Option<usize> {
        let announcement = markup::announced(self.text, place)?;
        self.pending = Some(Pending {
            json: announcement.json,
            start: place,
            announced: match announcement.tool {
                Some(tool) => Announced::Named(tool),
                None => Announced::Tagged,
            },
        });
        Some(announcement.json)
    }

    /// `None` if the tag is prose: a type's argument (`Option<Reason>`), a link (`[Analysis](a.md)`), or a word in angle brackets that
    /// nothing closes.
    fn thinking(&mut self, place: usize, tag: Tag<'t>) -> Option<usize> {
        let follows_word =
            self.text[..place].ends_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | '`'));
        let begins_line = markup::begins_line(self.text, place);
        let may_open = if tag.is_think() {
            !follows_word
        } else {
            begins_line && !self.text[place..].starts_with('[')
        };
        if !may_open {
            return None;
        }
        let stem = tag.stem();
        let closing = |from: usize, wanted: Option<&str>| {
            let mut at = from;
            while let Some(offset) = self.text[at..].find(['<', '[', '◁']) {
                at += offset;
                match Tag::at(self.text, at) {
                    Some(tag) if tag.purpose() == Purpose::ThinkingEnd => {
                        if wanted.is_none_or(|wanted| tag.stem() == wanted) {
                            return Some(tag.end);
                        }
                        at = tag.end;
                    }
                    Some(_) | None => at += self.text[at..].chars().next().map_or(1, char::len_utf8),
                }
            }
            None
        };
        let own = if self.unclosed.contains(&stem) {
            None
        } else {
            closing(tag.end, Some(&stem))
        };
        // Models close with another tag than they opened with.
        match own.or_else(|| closing(tag.end, None)) {
            Some(end) => {
                if own.is_none() {
                    self.unclosed.push(stem);
                }
                Some(self.skip_thinking(place, end))
            }
            None if tag.is_think() || self.nothing_before(place) => {
                self.scan.only_thinking = self.nothing_before(place);
                self.scan.skipped.push(place..self.text.len());
                Some(self.text.len())
            }
            None => None,
        }
    }

    /// Where a message of a channel ends: at the next token.
    fn end_of_channel(&self, message: usize) -> usize {
        let ends = ["<|end|>", "<|start|>", "<|channel|>", "<|return|>"];
        let mut at = message;
        while let Some(offset) = self.text[at..].find("<|") {
            at += offset;
            if ends.iter().any(|end| self.text[at..].starts_with(end)) {
                return at;
            }
            at += 2;
        }
        self.text.len()
    }

    fn skip_thinking(&mut self, place: usize, end: usize) -> usize {
        if self.nothing_before(place) {
            self.scan.answer = end;
        }
        self.scan.skipped.push(place..end);
        end
    }

    fn nothing_before(&self, place: usize) -> bool {
        self.text[self.scan.answer..place].trim().is_empty()
    }

    /// Where the search goes on after what begins with a `{` or `[`.
    fn json(&mut self, place: usize) -> usize {
        let (start, announced) = match self.pending.take() {
            Some(pending) if pending.json == place => (pending.start, pending.announced),
            Some(_) | None => self.functools(place).unwrap_or((place, Announced::Bare)),
        };
        let strict = self.read(place, Dialect::Strict);
        let mended = may_be_mended(self.form, strict.end) && self.effort > 0;
        let mended = mended.then(|| self.read(place, Dialect::Mended));
        let best = mended.as_ref().unwrap_or(&strict);
        let is_array = self.text[place..].starts_with('[');
        let meant = |form| match announced {
            Announced::Tagged | Announced::Named(_) => match form {
                CallForm::Auto => true,
                CallForm::Json | CallForm::JsonSchema | CallForm::ToolCall | CallForm::Native => {
                    announced == Announced::Tagged && shape::is_meant(form, best, is_array)
                }
            },
            Announced::Bare => shape::is_meant(form, best, is_array),
        };
        let is_own = meant(self.form);
        if is_own || meant(CallForm::Auto) {
            let is_closed = best.end == End::Closed;
            let end = match announced {
                Announced::Tagged | Announced::Named(_) if is_closed => {
                    markup::after_closers(self.text, best.stop)
                }
                Announced::Tagged | Announced::Named(_) | Announced::Bare => best.stop,
            };
            self.scan.found.push(Found {
                announced,
                span: start..end,
                is_own,
                ..Found::new(self.text, place, best)
            });
            return if is_closed { end } else { strict.stop };
        }
        if best.end == End::Closed && best.keys == Keys::ONLY_TERMINATE {
            // Small models say apart from the call whether it is the last.
            self.scan.skipped.push(place..best.stop);
            return best.stop;
        }
        match (strict.end, strict.hidden) {
            (End::Closed, _) => strict.stop,
            (End::Broken(_) | End::ControlCharacter | End::Unfinished, hidden) => {
                if lookalike::begins_call(&self.text[place..]) {
                    let first = self.scan.lookalikes.map_or(place, |(first, _)| first);
                    self.scan.lookalikes = Some((first, place));
                }
                match hidden {
                    Some(hidden) if self.effort > 0 => hidden,
                    Some(_) | None => strict.stop,
                }
            }
        }
    }

    /// The array of calls that Phi writes after a word of its own.
    fn functools(&self, place: usize) -> Option<(usize, Announced<'t>)> {
        let before = self.text[..place].strip_suffix("functools")?;
        self.text[place..]
            .starts_with('[')
            .then_some((before.len(), Announced::Tagged))
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
