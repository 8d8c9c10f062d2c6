//! Finding JSON objects in what a model said. One pass from left to right with an explicit stack: no recursion, and time
//! linear in the text, whatever it holds. It knows JSON's structure and thinking text; which objects are calls is told by
//! [`super::extract`], and so is whether their content is right.
//!
//! - Outside JSON, everything is prose: fences, byte order marks, NULs.
//! - Text in `<think>…</think>` (or `<thinking>`) is passed over; so is all that follows a `<think>` that is never closed, and all
//!   that precedes a `</think>` that was never opened and ends its line (some chat templates open it in the prompt).
//! - A brace or bracket that begins no JSON is prose, and the search goes on where it stopped being JSON. A stray quote can make
//!   an object look like the inside of a string: so braces in the strings of such a stretch are tried again, as long as all
//!   tries together read the text at most [`READINGS`] times.

use std::borrow::Cow;

const READINGS: usize = 8;

/// What a text holds.
pub(super) struct Scan<'t> {
    /// The objects with a key at their top level that marks a call; those inside other JSON are not among them.
    pub(super) marked: Vec<Found<'t>>,
    /// The text without the thinking before it.
    pub(super) answer: &'t str,
}

/// An object that has a mark.
pub(super) struct Found<'t> {
    /// Its text, as far as it is JSON.
    pub(super) text: &'t str,
    /// How it ends.
    pub(super) end: End<'t>,
    /// How deep its arrays and objects are nested, itself included.
    pub(super) depth: usize,
    /// An integer in it that 64 bits cannot hold.
    pub(super) huge_integer: Option<&'t str>,
}

/// How an object ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End<'t> {
    /// With its brace.
    Closed,
    /// It stops being JSON before this.
    Broken(&'t str),
    /// A line break or another control character in a string.
    ControlCharacter,
    /// The text ends first.
    Unfinished,
}

pub(super) fn scan<'t>(text: &'t str, is_mark: &dyn Fn(&str) -> bool) -> Scan<'t> {
    let mut marked = Vec::new();
    let mut answer = 0;
    let mut effort = text.len().saturating_mul(READINGS);
    let mut place = 0;
    while let Some(offset) = text[place..].find(['{', '[', '<']) {
        place += offset;
        if text[place..].starts_with('<') {
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
                    marked.clear();
                    answer = end;
                    place = end;
                }
            }
            continue;
        }
        let candidate = Reader::new(text, place).read(is_mark);
        effort = effort.saturating_sub(candidate.stop - place);
        let again = match (candidate.end, candidate.marked) {
            (End::Closed, _) | (_, true) => None,
            (_, false) => candidate.hidden.filter(|_| effort > 0),
        };
        if candidate.marked {
            marked.push(Found {
                text: &text[place..candidate.stop],
                end: candidate.end,
                depth: candidate.depth,
                huge_integer: candidate.huge_integer,
            });
        }
        place = again.unwrap_or(candidate.stop);
    }
    Scan {
        marked,
        answer: text[answer..].trim(),
    }
}

/// The object that a text begins with.
pub(super) fn read_object(text: &str) -> Found<'_> {
    let candidate = Reader::new(text, 0).read(&|_| false);
    Found {
        text: &text[..candidate.stop],
        end: candidate.end,
        depth: candidate.depth,
        huge_integer: candidate.huge_integer,
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

#[derive(Clone, Copy)]
enum Bracket {
    Object,
    Array,
}

/// What may come next.
#[derive(Clone, Copy)]
enum Expect {
    FirstKey,
    Key,
    Colon,
    FirstValue,
    Value,
    CommaOrEnd,
}

/// What stands at a brace or bracket.
struct Candidate<'t> {
    end: End<'t>,
    /// Where it stops, or stops being JSON.
    stop: usize,
    marked: bool,
    depth: usize,
    huge_integer: Option<&'t str>,
    /// The first place inside a string at which something might begin if that string were none.
    hidden: Option<usize>,
}

/// Reads one candidate.
struct Reader<'t> {
    text: &'t str,
    place: usize,
    stack: Vec<Bracket>,
    marked: bool,
    depth: usize,
    huge_integer: Option<&'t str>,
    hidden: Option<usize>,
}

impl<'t> Reader<'t> {
    fn new(text: &'t str, place: usize) -> Self {
        Reader {
            text,
            place,
            stack: Vec::new(),
            marked: false,
            depth: 0,
            huge_integer: None,
            hidden: None,
        }
    }

    fn read(mut self, is_mark: &dyn Fn(&str) -> bool) -> Candidate<'t> {
        let end = self.run(is_mark);
        Candidate {
            end,
            stop: self.place,
            marked: self.marked,
            depth: self.depth,
            huge_integer: self.huge_integer,
            hidden: self.hidden,
        }
    }

    fn run(&mut self, is_mark: &dyn Fn(&str) -> bool) -> End<'t> {
        let mut expect = Expect::Value;
        let mut key = "";
        loop {
            self.skip_white_space();
            let Some(byte) = self.peek() else {
                return End::Unfinished;
            };
            expect = match (expect, byte) {
                (Expect::FirstKey | Expect::Key, b'"') => match self.string() {
                    Ok(content) => {
                        key = content;
                        Expect::Colon
                    }
                    Err(end) => return end,
                },
                (Expect::Colon, b':') => {
                    // Arrays have no keys: at depth 1 the key is the outermost object's.
                    self.marked |= self.stack.len() == 1 && is_mark(&decoded(key));
                    self.place += 1;
                    Expect::Value
                }
                (Expect::FirstKey, b'}') | (Expect::FirstValue, b']') => {
                    if self.close() {
                        return End::Closed;
                    }
                    Expect::CommaOrEnd
                }
                (Expect::CommaOrEnd, byte) => match (self.stack.last(), byte) {
                    (Some(Bracket::Object), b',') => self.step(Expect::Key),
                    (Some(Bracket::Array), b',') => self.step(Expect::Value),
                    (Some(Bracket::Object), b'}') | (Some(Bracket::Array), b']') => {
                        if self.close() {
                            return End::Closed;
                        }
                        Expect::CommaOrEnd
                    }
                    (Some(Bracket::Object | Bracket::Array) | None, _) => return self.broken(),
                },
                (Expect::Value | Expect::FirstValue, byte) => match self.value(byte) {
                    Ok(next) => next,
                    Err(end) => return end,
                },
                (Expect::FirstKey | Expect::Key | Expect::Colon, _) => return self.broken(),
            };
        }
    }

    fn value(&mut self, byte: u8) -> Result<Expect, End<'t>> {
        match byte {
            b'{' => Ok(self.open(Bracket::Object)),
            b'[' => Ok(self.open(Bracket::Array)),
            b'"' => self.string().map(|_| Expect::CommaOrEnd),
            b'-' | b'0'..=b'9' => {
                self.number();
                Ok(Expect::CommaOrEnd)
            }
            _ => {
                let rest = &self.text[self.place..];
                match ["true", "false", "null"]
                    .iter()
                    .find(|word| rest.starts_with(**word))
                {
                    Some(word) => {
                        self.place += word.len();
                        Ok(Expect::CommaOrEnd)
                    }
                    None => Err(self.broken()),
                }
            }
        }
    }

    fn open(&mut self, bracket: Bracket) -> Expect {
        self.stack.push(bracket);
        self.depth = self.depth.max(self.stack.len());
        self.place += 1;
        match bracket {
            Bracket::Object => Expect::FirstKey,
            Bracket::Array => Expect::FirstValue,
        }
    }

    /// Whether that was the outermost one.
    fn close(&mut self) -> bool {
        self.stack.pop();
        self.place += 1;
        self.stack.is_empty()
    }

    fn step(&mut self, next: Expect) -> Expect {
        self.place += 1;
        next
    }

    fn broken(&self) -> End<'t> {
        End::Broken(&self.text[self.place..])
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.place).copied()
    }

    fn skip_white_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.place += 1;
        }
    }

    /// The content of the string here, escapes and all.
    fn string(&mut self) -> Result<&'t str, End<'t>> {
        let start = self.place + 1;
        self.place = start;
        while let Some(byte) = self.peek() {
            match byte {
                b'"' => {
                    self.place += 1;
                    return Ok(&self.text[start..self.place - 1]);
                }
                0..=0x1f => return Err(End::ControlCharacter),
                // An escaped control character is still one: it is met in the next round.
                b'\\' => match self.text.as_bytes().get(self.place + 1) {
                    Some(b'"' | b'\\') => self.place += 2,
                    Some(_) | None => self.place += 1,
                },
                b'{' | b'[' | b'<' => {
                    self.hidden.get_or_insert(self.place);
                    self.place += 1;
                }
                _ => self.place += 1,
            }
        }
        Err(End::Unfinished)
    }

    fn number(&mut self) {
        let start = self.place;
        while let Some(b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9') = self.peek() {
            self.place += 1;
        }
        let number = &self.text[start..self.place];
        let is_integer = number.bytes().skip(1).all(|byte| byte.is_ascii_digit());
        // Up to 18 digits always fit.
        if number.len() > 18 && is_integer && number.parse::<i64>().is_err() && number.parse::<u64>().is_err()
        {
            self.huge_integer.get_or_insert(number);
        }
    }
}

/// The key that a string's content stands for.
fn decoded(content: &str) -> Cow<'_, str> {
    // A mark is short: a long key is none, however it is written.
    if content.contains('\\')
        && content.len() <= 64
        && let Ok(key) = serde_json::from_str(&format!("\"{content}\""))
    {
        return Cow::Owned(key);
    }
    Cow::Borrowed(content)
}
