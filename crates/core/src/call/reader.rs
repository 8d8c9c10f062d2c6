//! Reading one JSON value from where it begins: how far it is JSON, how it ends, and what [`super::scan`] needs to know of it. No
//! recursion, and each byte is read once. What its strings and numbers stand for is for [`super::json`] to say.
//!
//! Small models write Python and JavaScript where JSON is wanted. In [`Dialect::Mended`] that is read too, and noted as mends which make
//! JSON of it, as far as it can mean one thing only:
//!
//! - a string in single quotes, and `\'` in it;
//! - `True`, `False` and `None`;
//! - a comma before a closing brace or bracket;
//! - a full-width colon or comma between keys and values;
//! - a line break or tab in a string.
//!
//! Nothing else is mended: what is not closed stays open, words without quotes stay wrong, and so do escapes that JSON does not know, as
//! one cannot tell what `"C:\new\dir"` was to be. A general repair crate (`jsonrepair`) guesses at all three, and so invents values.

use std::borrow::Cow;
use std::ops::Range;

use super::shape::Keys;

/// What is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// JSON.
    Strict,
    /// What can be mended to it as well.
    Mended,
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

/// What stands at a brace or bracket.
pub(super) struct Candidate<'t> {
    pub(super) end: End<'t>,
    /// Where it stops, or stops being JSON.
    pub(super) stop: usize,
    /// The keys of the outermost object, or those of the first item of an array.
    pub(super) keys: Keys,
    /// The outermost closed objects inside it.
    pub(super) closed: Vec<Range<usize>>,
    /// How deep its arrays and objects are nested, itself included.
    pub(super) depth: usize,
    /// An integer in it that 64 bits cannot hold.
    pub(super) huge_integer: Option<&'t str>,
    /// The first place inside a string at which something might begin if that string were none.
    pub(super) hidden: Option<usize>,
    mends: Vec<Mend>,
}

impl Candidate<'_> {
    /// It as JSON, where it is none as it was written; `text` is what it was read from, and `start` where.
    pub(super) fn mended(&self, text: &str, start: usize) -> Option<String> {
        let mut mended = String::new();
        let mut done = start;
        for Mend { at, becomes } in &self.mends {
            mended.push_str(&text[done..at.start]);
            mended.push_str(becomes);
            done = at.end;
        }
        mended.push_str(&text[done..self.stop]);
        (!self.mends.is_empty()).then_some(mended)
    }
}

/// What is put in the place of something that is not JSON.
struct Mend {
    at: Range<usize>,
    becomes: &'static str,
}

/// Reads what begins at `start`, which is a brace or bracket.
pub(super) fn read(text: &str, start: usize, dialect: Dialect) -> Candidate<'_> {
    let mut reader = Reader {
        text,
        dialect,
        place: start,
        comma: start,
        stack: Vec::new(),
        keys: Keys::default(),
        keys_level: usize::from(text[start..].starts_with('{')),
        closed: Vec::new(),
        depth: 0,
        huge_integer: None,
        hidden: None,
        mends: Vec::new(),
    };
    let end = reader.run();
    Candidate {
        end,
        stop: reader.place,
        keys: reader.keys,
        closed: reader.closed,
        depth: reader.depth,
        huge_integer: reader.huge_integer,
        hidden: reader.hidden,
        mends: reader.mends,
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
    FirstItem,
    Item,
    Value,
    CommaOrEnd,
}

struct Reader<'t> {
    text: &'t str,
    dialect: Dialect,
    place: usize,
    /// Where the last comma between keys or items stands.
    comma: usize,
    /// What is open, and where it begins.
    stack: Vec<(Bracket, usize)>,
    keys: Keys,
    /// The depth of the object whose keys are collected; 0 if there is none.
    keys_level: usize,
    closed: Vec<Range<usize>>,
    depth: usize,
    huge_integer: Option<&'t str>,
    hidden: Option<usize>,
    mends: Vec<Mend>,
}

impl<'t> Reader<'t> {
    fn run(&mut self) -> End<'t> {
        let mut expect = Expect::Value;
        let mut key = "";
        loop {
            self.skip_white_space();
            let Some(byte) = self.peek() else {
                return End::Unfinished;
            };
            expect = match (expect, byte) {
                (Expect::FirstKey | Expect::Key, b'"' | b'\'') if self.is_quote(byte) => {
                    match self.string(byte) {
                        Ok(content) => {
                            key = content;
                            Expect::Colon
                        }
                        Err(end) => return end,
                    }
                }
                (Expect::Colon, b':') => {
                    self.add_key(key);
                    self.place += 1;
                    Expect::Value
                }
                (Expect::Colon, _) if self.is_full_width('：') => {
                    self.add_key(key);
                    self.mend_full_width(":");
                    Expect::Value
                }
                (Expect::CommaOrEnd, _) if self.is_full_width('，') => {
                    self.comma = self.place;
                    self.mend_full_width(",");
                    match self.stack.last() {
                        Some((Bracket::Object, _)) => Expect::Key,
                        Some((Bracket::Array, _)) | None => Expect::Item,
                    }
                }
                (Expect::Key, b'}') | (Expect::Item, b']') if self.dialect == Dialect::Mended => {
                    self.drop_comma();
                    if self.close() {
                        return End::Closed;
                    }
                    Expect::CommaOrEnd
                }
                (Expect::FirstKey, b'}') | (Expect::FirstItem, b']') => {
                    if self.close() {
                        return End::Closed;
                    }
                    Expect::CommaOrEnd
                }
                (Expect::CommaOrEnd, byte) => match (self.stack.last(), byte) {
                    (Some((Bracket::Object, _)), b',') => self.next(Expect::Key),
                    (Some((Bracket::Array, _)), b',') => self.next(Expect::Item),
                    (Some((Bracket::Object, _)), b'}') | (Some((Bracket::Array, _)), b']') => {
                        if self.close() {
                            return End::Closed;
                        }
                        Expect::CommaOrEnd
                    }
                    (Some((Bracket::Object | Bracket::Array, _)) | None, _) => return self.broken(),
                },
                (Expect::Value | Expect::FirstItem | Expect::Item, byte) => {
                    let is_keys = self.stack.len() == self.keys_level;
                    if matches!((expect, byte, self.stack.len()), (Expect::FirstItem, b'{', 1)) {
                        self.keys_level = 2;
                    }
                    match self.value(byte) {
                        Ok(next) => {
                            if is_keys && matches!(expect, Expect::Value) && !self.is_quote(byte) {
                                self.keys.has_no_string(&decoded(key), byte);
                            }
                            next
                        }
                        Err(end) => return end,
                    }
                }
                (Expect::FirstKey | Expect::Key | Expect::Colon, _) => return self.broken(),
            };
        }
    }

    fn value(&mut self, byte: u8) -> Result<Expect, End<'t>> {
        match byte {
            b'{' => Ok(self.open(Bracket::Object)),
            b'[' => Ok(self.open(Bracket::Array)),
            b'"' | b'\'' if self.is_quote(byte) => self.string(byte).map(|_| Expect::CommaOrEnd),
            b'-' | b'0'..=b'9' => {
                self.number();
                Ok(Expect::CommaOrEnd)
            }
            _ => self.word(),
        }
    }

    fn word(&mut self) -> Result<Expect, End<'t>> {
        const JSON: [&str; 3] = ["true", "false", "null"];
        const PYTHON: [&str; 3] = ["True", "False", "None"];
        let rest = &self.text[self.place..];
        for (word, python) in JSON.into_iter().zip(PYTHON) {
            if rest.starts_with(word) {
                self.place += word.len();
                return Ok(Expect::CommaOrEnd);
            }
            if self.dialect == Dialect::Mended && rest.starts_with(python) {
                self.mend(self.place..self.place + python.len(), word);
                self.place += python.len();
                return Ok(Expect::CommaOrEnd);
            }
        }
        Err(self.broken())
    }

    /// Collects a key of the outermost object, or of an array's first item.
    fn add_key(&mut self, key: &str) {
        if self.stack.len() == self.keys_level {
            self.keys.add(&decoded(key));
        }
    }

    fn open(&mut self, bracket: Bracket) -> Expect {
        self.stack.push((bracket, self.place));
        self.depth = self.depth.max(self.stack.len());
        self.place += 1;
        match bracket {
            Bracket::Object => Expect::FirstKey,
            Bracket::Array => Expect::FirstItem,
        }
    }

    /// Whether that was the outermost one.
    fn close(&mut self) -> bool {
        self.place += 1;
        match self.stack.pop() {
            Some((Bracket::Object, start)) if !self.stack.is_empty() => {
                while self.closed.last().is_some_and(|inner| inner.start > start) {
                    self.closed.pop();
                }
                self.closed.push(start..self.place);
                // The first item's keys are known.
                if self.stack.len() == 1 && self.keys_level == 2 {
                    self.keys_level = 0;
                }
            }
            Some((Bracket::Object | Bracket::Array, _)) | None => {}
        }
        self.stack.is_empty()
    }

    fn is_full_width(&self, character: char) -> bool {
        self.dialect == Dialect::Mended && self.text[self.place..].starts_with(character)
    }

    /// Reads a full-width character as the ASCII one that it stands for.
    fn mend_full_width(&mut self, becomes: &'static str) {
        let end = self.place + self.text[self.place..].chars().next().map_or(1, char::len_utf8);
        self.mend(self.place..end, becomes);
        self.place = end;
    }

    /// Leaves out the last comma, which may have been mended itself.
    fn drop_comma(&mut self) {
        match self.mends.last_mut() {
            Some(mend) if mend.at.start == self.comma => mend.becomes = "",
            Some(_) | None => self.mend(self.comma..self.comma + 1, ""),
        }
    }

    /// Passes over a comma.
    fn next(&mut self, expect: Expect) -> Expect {
        self.comma = self.place;
        self.place += 1;
        expect
    }

    fn broken(&self) -> End<'t> {
        End::Broken(&self.text[self.place..])
    }

    fn mend(&mut self, at: Range<usize>, becomes: &'static str) {
        self.mends.push(Mend { at, becomes });
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.place).copied()
    }

    fn skip_white_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.place += 1;
        }
    }

    fn is_quote(&self, byte: u8) -> bool {
        match self.dialect {
            Dialect::Strict => byte == b'"',
            Dialect::Mended => byte == b'"' || byte == b'\'',
        }
    }

    /// The content of the string here, escapes and all.
    fn string(&mut self, quote: u8) -> Result<&'t str, End<'t>> {
        let start = self.place + 1;
        self.mend_quote(quote);
        self.place = start;
        while let Some(byte) = self.peek() {
            match byte {
                b'"' | b'\'' if byte == quote => {
                    self.mend_quote(quote);
                    self.place += 1;
                    return Ok(&self.text[start..self.place - 1]);
                }
                // Inside single quotes.
                b'"' => {
                    self.mend(self.place..self.place, "\\");
                    self.place += 1;
                }
                0..=0x1f => self.control_character(byte)?,
                b'\\' => self.escape(quote)?,
                b'{' | b'[' | b'<' => {
                    self.hidden.get_or_insert(self.place);
                    self.place += 1;
                }
                _ => self.place += 1,
            }
        }
        Err(End::Unfinished)
    }

    fn mend_quote(&mut self, quote: u8) {
        if quote == b'\'' {
            self.mend(self.place..self.place + 1, "\"");
        }
    }

    fn control_character(&mut self, byte: u8) -> Result<(), End<'t>> {
        let escaped = match (self.dialect, byte) {
            (Dialect::Mended, b'\n') => "\\n",
            (Dialect::Mended, b'\r') => "\\r",
            (Dialect::Mended, b'\t') => "\\t",
            (Dialect::Strict | Dialect::Mended, _) => return Err(End::ControlCharacter),
        };
        self.mend(self.place..self.place + 1, escaped);
        self.place += 1;
        Ok(())
    }

    fn escape(&mut self, quote: u8) -> Result<(), End<'t>> {
        match self.text.as_bytes().get(self.place + 1) {
            Some(b'"' | b'\\') => self.place += 2,
            Some(b'\'') if quote == b'\'' => {
                self.mend(self.place..self.place + 1, "");
                self.place += 2;
            }
            // An escaped control character is still one, and a mend of it would be another escape.
            Some(0..=0x1f) => {
                self.place += 1;
                return Err(End::ControlCharacter);
            }
            Some(_) | None => self.place += 1,
        }
        Ok(())
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
