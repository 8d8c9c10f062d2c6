//! Finds candidates for calls in a reply. Scans from left to right with an explicit stack instead of recursion, in linear time.
//! [`super::markup`] parses tags, [`super::json_scanner`] scans JSON, and [`super::shape`] decides which objects are calls and whether their
//! content is valid.
//!
//! - Everything outside of JSON is prose: fences, byte order marks, NULs.
//! - Thinking text in tags (`<think>…</think>`, `[THINK]…[/THINK]` and similar) is skipped. So is everything after an unclosed opening tag,
//!   and everything before an unopened closing tag at the end of a line (some chat templates open the tag in the prompt).
//! - A brace or bracket that does not begin JSON is prose, and the scan continues where the JSON became invalid. A stray quote can make an
//!   object look like the inside of a string, so braces in strings of invalid JSON are tried as well, as long as all attempts together read
//!   the text at most [`MAX_PASSES`] times.
//! - Call markup followed by JSON announces a call, whatever the keys of the objects. In [`CallForm::Auto`], invalid JSON is scanned again
//!   with repairs, which counts as an attempt, too.
//! - Calls in a form other than the configured one are also found, with `is_own` set to false: a reply that consists of such a call is not
//!   an answer (LOOP-3).

use std::ops::Range;

use super::candidate::{Announced, CallCandidate};
use super::form::CallForm;
use super::json_scanner::{Dialect, JsonEnd, ScannedJson, scan_json};
use super::keys::CallKeys;
use super::lookalike;
use super::markup::{self, Purpose, Tag};
use super::shape;

const MAX_PASSES: usize = 8;

/// The result of scanning a reply.
pub(super) struct Scan<'t> {
    /// JSON that is probably meant as calls, not including JSON nested in other JSON.
    pub(super) candidates: Vec<CallCandidate<'t>>,
    /// Ranges of thinking text and of other text that is neither a call nor words.
    pub(super) skipped: Vec<Range<usize>>,
    /// Offset of the text after the thinking.
    pub(super) answer: usize,
    /// Whether an unopened closing tag turned the text before it into thinking.
    pub(super) is_unopened: bool,
    /// Whether the reply consists of unclosed thinking text.
    pub(super) only_thinking: bool,
    /// Offset of the first call markup that is not followed by a readable call.
    pub(super) bare_markup: Option<usize>,
    /// Offset after the last tag that closes a call.
    pub(super) last_closer: Option<usize>,
    /// Offsets of the first and the last brace that begin text that looks like a call but is not valid JSON.
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

/// Markup that announces JSON.
struct Pending<'t> {
    /// Offset of the JSON.
    json: usize,
    /// Offset of the markup.
    start: usize,
    announced: Announced<'t>,
}

struct Scanner<'t> {
    text: &'t str,
    form: CallForm,
    scan: Scan<'t>,
    pending: Option<Pending<'t>>,
    /// Thinking tags that have no closing tag in the remaining text.
    unclosed: Vec<String>,
    /// Number of bytes that may still be read again.
    scan_budget: usize,
}

impl<'t> Scanner<'t> {
    /// Scans at `position`. Returns the offset at which to continue.
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

    /// Handles a tag. Returns the offset at which to continue; `None` if the tag is prose.
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

    /// Skips thinking text. Returns the offset after it; `None` if the tag is prose: a type argument (`Option<Reason>`), a link
    /// (`[Analysis](a.md)`), or an unclosed word in angle brackets.
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
        // Some models use a closing tag that differs from the opening tag.
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

    /// Returns the offset at which a channel's message ends: the next token that begins or ends a message.
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

    /// Handles a `{` or `[`. Returns the offset at which to continue.
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
        let is_meant = |form| match announced {
            Announced::Tagged | Announced::Named(_) => match form {
                CallForm::Auto | CallForm::AutoNative => true,
                CallForm::Json | CallForm::JsonSchema | CallForm::ToolCall | CallForm::Native => {
                    announced == Announced::Tagged && shape::is_meant(form, best, is_array)
                }
            },
            Announced::Bare => shape::is_meant(form, best, is_array),
        };
        let is_own = is_meant(self.form);
        if is_own || is_meant(CallForm::Auto) {
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
            // Small models may write `{"terminate": …}` as a separate object next to the call.
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

    /// Recognises the array of calls that Phi writes after `functools`.
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

/// Returns true if a second scan, which repairs syntax errors, may succeed. An unclosed value cannot be repaired.
fn may_be_repaired(form: CallForm, end: JsonEnd<'_>) -> bool {
    let repairs = match form {
        CallForm::Auto | CallForm::AutoNative => true,
        CallForm::Json | CallForm::JsonSchema | CallForm::Native | CallForm::ToolCall => false,
    };
    let is_broken = match end {
        JsonEnd::Invalid(_) | JsonEnd::ControlCharacter => true,
        JsonEnd::Closed | JsonEnd::Unfinished => false,
    };
    repairs && is_broken
}
