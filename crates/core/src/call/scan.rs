//! Finding calls in what a model said. One pass from left to right with an explicit stack: no recursion, and time linear in the text,
//! whatever it holds. It knows the tags of [`super::markup`] and, by [`super::json_scanner`], JSON's structure; which objects are calls is told by
//! [`super::shape`], and so is whether their content is right.
//!
//! - Outside JSON, everything is prose: fences, byte order marks, NULs.
//! - Thinking text in tags (`<think>…</think>`, `[THINK]…[/THINK]` and the like) is skipped; so is all that follows an opening tag that is
//!   never closed, and all that precedes a closing one that was never opened and ends its line (some chat templates open it in the prompt).
//! - A brace or bracket that begins no JSON is prose, and the search goes on where it stopped being JSON. A stray quote can make an object
//!   look like the inside of a string: so braces in the strings of such a stretch are tried again, as long as all tries together read the
//!   text at most [`MAX_PASSES`] times.
//! - Call markup with JSON after it announces a call, whatever keys its objects have. In [`CallForm::Auto`], JSON that is broken is read once
//!   more as what can be repaired to it. That counts as a try as well.
//! - Calls in another form than the one agreed on are found too, and marked as such: a reply that is nothing else is no answer (LOOP-3).

use std::ops::Range;

use super::candidate::{Announced, CallCandidate};
use super::form::CallForm;
use super::json_scanner::{Dialect, JsonEnd, ScannedJson, scan_json};
use super::keys::CallKeys;
use super::lookalike;
use super::markup::{self, Purpose, Tag};
use super::shape;

const MAX_PASSES: usize = 8;

/// What a text holds.
pub(super) struct Scan<'t> {
    /// The JSON that is meant as calls; that inside other JSON is not among it.
    pub(super) candidates: Vec<CallCandidate<'t>>,
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

pub(super) fn scan(text: &str, form: CallForm) -> Scan<'_> {
    let mut scanner = Scanner {
        text,
        form,
        scan: Scan {
            candidates: Vec::new(),
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
        scan_budget: text.len().saturating_mul(MAX_PASSES),
    };
    let mut position = 0;
    while let Some(offset) = text[position..].find(['{', '[', '<', '◁']) {
        position += offset;
        position = scanner.at(position);
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
    scan_budget: usize,
}

impl<'t> Scanner<'t> {
    /// Where the search goes on after what begins at `position`.
    fn at(&mut self, position: usize) -> usize {
        if let Some(tag) = Tag::at(self.text, position)
            && let Some(next) = self.tag(position, tag)
        {
            return next;
        }
        if self.text[position..].starts_with(['{', '[']) {
            self.json(position)
        } else {
            position + self.text[position..].chars().next().map_or(1, char::len_utf8)
        }
    }

    /// Where the search goes on after a tag; `None` if it is prose.
    fn tag(&mut self, position: usize, tag: Tag<'t>) -> Option<usize> {
        match tag.purpose() {
            Purpose::Thinking => self.thinking(position, tag),
            Purpose::ThinkingEnd => {
                let rest = self.text[tag.end..].trim_start_matches([' ', '\t', '\r']);
                (rest.is_empty() || rest.starts_with('\n')).then(|| {
                    self.scan.candidates.clear();
                    self.scan.bare_markup = None;
                    self.scan.lookalikes = None;
                    self.scan.answer = tag.end;
                    self.scan.is_unopened = true;
                    tag.end
                })
            }
            Purpose::Token => match markup::thinking_channel(self.text, &tag) {
                Some(message) => Some(self.skip_thinking(position, self.end_of_channel(message))),
                None => self.announced(position).or(Some(tag.end)),
            },
            Purpose::Call => self.announced(position).or_else(|| {
                if markup::begins_line(self.text, position) {
                    self.scan.bare_markup.get_or_insert(position);
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

    fn announced(&mut self, position: usize) -> Option<usize> {
        let announcement = markup::announced(self.text, position)?;
        self.pending = Some(Pending {
            json: announcement.json,
            start: position,
            announced: match announcement.tool {
                Some(tool) => Announced::Named(tool),
                None => Announced::Tagged,
            },
        });
        Some(announcement.json)
    }

    /// `None` if the tag is prose: a type's argument (`Option<Reason>`), a link (`[Analysis](a.md)`), or a word in angle brackets that
    /// nothing closes.
    fn thinking(&mut self, position: usize, tag: Tag<'t>) -> Option<usize> {
        let follows_word =
            self.text[..position].ends_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | '`'));
        let begins_line = markup::begins_line(self.text, position);
        let may_open = if tag.is_think() {
            !follows_word
        } else {
            begins_line && !self.text[position..].starts_with('[')
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
                Some(self.skip_thinking(position, end))
            }
            None if tag.is_think() || self.nothing_before(position) => {
                self.scan.only_thinking = self.nothing_before(position);
                self.scan.skipped.push(position..self.text.len());
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

    fn skip_thinking(&mut self, position: usize, end: usize) -> usize {
        if self.nothing_before(position) {
            self.scan.answer = end;
        }
        self.scan.skipped.push(position..end);
        end
    }

    fn nothing_before(&self, position: usize) -> bool {
        self.text[self.scan.answer..position].trim().is_empty()
    }

    /// Where the search goes on after what begins with a `{` or `[`.
    fn json(&mut self, position: usize) -> usize {
        let (start, announced) = match self.pending.take() {
            Some(pending) if pending.json == position => (pending.start, pending.announced),
            Some(_) | None => self.functools(position).unwrap_or((position, Announced::Bare)),
        };
        let strict = self.read(position, Dialect::Strict);
        let repaired = may_be_repaired(self.form, strict.end) && self.scan_budget > 0;
        let repaired = repaired.then(|| self.read(position, Dialect::Lenient));
        let best = repaired.as_ref().unwrap_or(&strict);
        let is_array = self.text[position..].starts_with('[');
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
            let is_closed = best.end == JsonEnd::Closed;
            let end = match announced {
                Announced::Tagged | Announced::Named(_) if is_closed => {
                    markup::after_closers(self.text, best.end_offset)
                }
                Announced::Tagged | Announced::Named(_) | Announced::Bare => best.end_offset,
            };
            self.scan.candidates.push(CallCandidate {
                announced,
                span: start..end,
                is_own,
                ..CallCandidate::new(self.text, position, best)
            });
            return if is_closed { end } else { strict.end_offset };
        }
        if best.end == JsonEnd::Closed && best.keys == CallKeys::ONLY_TERMINATE {
            // Small models say apart from the call whether it is the last.
            self.scan.skipped.push(position..best.end_offset);
            return best.end_offset;
        }
        match (strict.end, strict.hidden) {
            (JsonEnd::Closed, _) => strict.end_offset,
            (JsonEnd::Invalid(_) | JsonEnd::ControlCharacter | JsonEnd::Unfinished, hidden) => {
                if lookalike::begins_call(&self.text[position..]) {
                    let first = self.scan.lookalikes.map_or(position, |(first, _)| first);
                    self.scan.lookalikes = Some((first, position));
                }
                match hidden {
                    Some(hidden) if self.scan_budget > 0 => hidden,
                    Some(_) | None => strict.end_offset,
                }
            }
        }
    }

    /// The array of calls that Phi writes after a word of its own.
    fn functools(&self, position: usize) -> Option<(usize, Announced<'t>)> {
        let before = self.text[..position].strip_suffix("functools")?;
        self.text[position..]
            .starts_with('[')
            .then_some((before.len(), Announced::Tagged))
    }

    fn read(&mut self, position: usize, dialect: Dialect) -> ScannedJson<'t> {
        let candidate = scan_json(self.text, position, dialect);
        self.scan_budget = self.scan_budget.saturating_sub(candidate.end_offset - position);
        candidate
    }
}

/// Whether reading on as what can be repaired may lead further. At the end of the text there is nothing more to
/// read.
fn may_be_repaired(form: CallForm, end: JsonEnd<'_>) -> bool {
    let repairs = match form {
        CallForm::Auto => true,
        CallForm::Json | CallForm::JsonSchema | CallForm::Native | CallForm::ToolCall => false,
    };
    let is_broken = match end {
        JsonEnd::Invalid(_) | JsonEnd::ControlCharacter => true,
        JsonEnd::Closed | JsonEnd::Unfinished => false,
    };
    repairs && is_broken
}
