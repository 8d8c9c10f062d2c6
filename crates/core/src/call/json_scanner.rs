//! Reading one JSON value from where it begins: how far it is JSON, how it ends, and what [`super::scan`] needs to know of it. No
//! recursion, and each byte is read once. What its strings and numbers stand for is for [`super::json`] to say.
//!
//! Small models write Python and JavaScript where JSON is wanted. In [`Dialect::Lenient`] that is read too, and noted as repairs which make
//! JSON of it, as far as it can mean one thing only:
//!
//! - a string in single quotes, and `\'` in it;
//! - `True`, `False` and `None`;
//! - a comma before a closing brace or bracket;
//! - a full-width colon or comma between keys and values;
//! - a line break or tab in a string.
//!
//! Nothing else is repaired: what is not closed stays open, words without quotes stay wrong, and so do escapes that JSON does not know, as
//! one cannot tell what `"C:\new\dir"` was to be. A general repair crate (`jsonrepair`) guesses at all three, and so invents values.

use std::borrow::Cow;
use std::ops::Range;

use super::keys::CallKeys;

/// What is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// JSON.
    Strict,
    /// What can be repaired to it as well.
    Lenient,
}

/// How an object ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JsonEnd<'t> {
    /// With its brace.
    Closed,
    /// It stops being JSON before this.
    Invalid(&'t str),
    /// A line break or another control character in a string.
    ControlCharacter,
    /// The text ends first.
    Unfinished,
}

/// What stands at a brace or bracket.
pub(super) struct ScannedJson<'t> {
    pub(super) end: JsonEnd<'t>,
    /// Where it stops, or stops being JSON.
    pub(super) end_offset: usize,
    /// The keys of the outermost object, or those of the first item of an array.
    pub(super) keys: CallKeys,
    /// The outermost closed objects inside it.
    pub(super) closed: Vec<Range<usize>>,
    /// How deep its arrays and objects are nested, itself included.
    pub(super) depth: usize,
    /// An integer in it that 64 bits cannot hold.
    pub(super) huge_integer: Option<&'t str>,
    /// The first position inside a string at which something might begin if that string were none.
    pub(super) hidden: Option<usize>,
    repairs: Vec<Repair>,
}

impl ScannedJson<'_> {
    /// It as JSON, where it is none as it was written; `text` is what it was read from, and `start` where.
    pub(super) fn repaired(&self, text: &str, start: usize) -> Option<String> {
        let mut repaired = String::new();
        let mut done = start;
        for Repair { at, becomes } in &self.repairs {
            repaired.push_str(&text[done..at.start]);
            repaired.push_str(becomes);
            done = at.end;
        }
        repaired.push_str(&text[done..self.end_offset]);
        (!self.repairs.is_empty()).then_some(repaired)
    }
}

/// What is put in the place of something that is not JSON.
struct Repair {
    at: Range<usize>,
    becomes: &'static str,
}

/// Reads what begins at `start`, which is a brace or bracket.
pub(super) fn scan_json(text: &str, start: usize, dialect: Dialect) -> ScannedJson<'_> {
    let mut reader = JsonScanner {
        text,
        dialect,
        position: start,
        comma: start,
        stack: Vec::new(),
        keys: CallKeys::default(),
        keys_level: usize::from(text[start..].starts_with('{')),
        closed: Vec::new(),
        depth: 0,
        huge_integer: None,
        hidden: None,
        repairs: Vec::new(),
    };
    let end = reader.run();
    ScannedJson {
        end,
        end_offset: reader.position,
        keys: reader.keys,
        closed: reader.closed,
        depth: reader.depth,
        huge_integer: reader.huge_integer,
        hidden: reader.hidden,
        repairs: reader.repairs,
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

struct JsonScanner<'t> {
    text: &'t str,
    dialect: Dialect,
    position: usize,
    /// Where the last comma between keys or items stands.
    comma: usize,
    /// What is open, and where it begins.
    stack: Vec<(Bracket, usize)>,
    keys: CallKeys,
    /// The depth of the object whose keys are collected; 0 if there is none.
    keys_level: usize,
    closed: Vec<Range<usize>>,
    depth: usize,
    huge_integer: Option<&'t str>,
    hidden: Option<usize>,
    repairs: Vec<Repair>,
}

impl<'t> JsonScanner<'t> {
    fn run(&mut self) -> JsonEnd<'t> {
        let mut expect = Expect::Value;
        let mut key = "";
        loop {
            self.skip_white_space();
            let Some(byte) = self.peek() else {
                return JsonEnd::Unfinished;
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
                    self.position += 1;
                    Expect::Value
                }
                (Expect::Colon, _) if self.is_full_width('：') => {
                    self.add_key(key);
                    self.repair_full_width(":");
                    Expect::Value
                }
                (Expect::CommaOrEnd, _) if self.is_full_width('，') => {
                    self.comma = self.position;
                    self.repair_full_width(",");
                    match self.stack.last() {
                        Some((Bracket::Object, _)) => Expect::Key,
                        Some((Bracket::Array, _)) | None => Expect::Item,
                    }
                }
                (Expect::Key, b'}') | (Expect::Item, b']') if self.dialect == Dialect::Lenient => {
                    self.drop_comma();
                    if self.close() {
                        return JsonEnd::Closed;
                    }
                    Expect::CommaOrEnd
                }
                (Expect::FirstKey, b'}') | (Expect::FirstItem, b']') => {
                    if self.close() {
                        return JsonEnd::Closed;
                    }
                    Expect::CommaOrEnd
                }
                (Expect::CommaOrEnd, byte) => match (self.stack.last(), byte) {
                    (Some((Bracket::Object, _)), b',') => self.next(Expect::Key),
                    (Some((Bracket::Array, _)), b',') => self.next(Expect::Item),
                    (Some((Bracket::Object, _)), b'}') | (Some((Bracket::Array, _)), b']') => {
                        if self.close() {
                            return JsonEnd::Closed;
                        }
                        Expect::CommaOrEnd
                    }
                    (Some((Bracket::Object | Bracket::Array, _)) | None, _) => return self.invalid(),
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
                (Expect::FirstKey | Expect::Key | Expect::Colon, _) => return self.invalid(),
            };
        }
    }

    fn value(&mut self, byte: u8) -> Result<Expect, JsonEnd<'t>> {
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

    fn word(&mut self) -> Result<Expect, JsonEnd<'t>> {
        const JSON: [&str; 3] = ["true", "false", "null"];
        const PYTHON: [&str; 3] = ["True", "False", "None"];
        let rest = &self.text[self.position..];
        for (word, python) in JSON.into_iter().zip(PYTHON) {
            if rest.starts_with(word) {
                self.position += word.len();
                return Ok(Expect::CommaOrEnd);
            }
            if self.dialect == Dialect::Lenient && rest.starts_with(python) {
                self.repair(self.position..self.position + python.len(), word);
                self.position += python.len();
                return Ok(Expect::CommaOrEnd);
            }
        }
        Err(self.invalid())
    }

    /// Collects a key of the outermost object, or of an array's first item.
    fn add_key(&mut self, key: &str) {
        if self.stack.len() == self.keys_level {
            self.keys.add(&decoded(key));
        }
    }

    fn open(&mut self, bracket: Bracket) -> Expect {
        self.stack.push((bracket, self.position));
        self.depth = self.depth.max(self.stack.len());
        self.position += 1;
        match bracket {
            Bracket::Object => Expect::FirstKey,
            Bracket::Array => Expect::FirstItem,
        }
    }

    /// Whether that was the outermost one.
    fn close(&mut self) -> bool {
        self.position += 1;
        match self.stack.pop() {
            Some((Bracket::Object, start)) if !self.stack.is_empty() => {
                while self.closed.last().is_some_and(|inner| inner.start > start) {
                    self.closed.pop();
                }
                self.closed.push(start..self.position);
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
        self.dialect == Dialect::Lenient && self.text[self.position..].starts_with(character)
    }

    /// Reads a full-width character as the ASCII one that it stands for.
    fn repair_full_width(&mut self, becomes: &'static str) {
        let end = self.position
            + self.text[self.position..]
                .chars()
                .next()
                .map_or(1, char::len_utf8);
        self.repair(self.position..end, becomes);
        self.position = end;
    }

    /// Leaves out the last comma, which may have been repaired itself.
    fn drop_comma(&mut self) {
        match self.repairs.last_mut() {
            Some(repair) if repair.at.start == self.comma => repair.becomes = "",
            Some(_) | None => self.repair(self.comma..self.comma + 1, ""),
        }
    }

    /// Passes over a comma.
    fn next(&mut self, expect: Expect) -> Expect {
        self.comma = self.position;
        self.position += 1;
        expect
    }

    fn invalid(&self) -> JsonEnd<'t> {
        JsonEnd::Invalid(&self.text[self.position..])
    }

    fn repair(&mut self, at: Range<usize>, becomes: &'static str) {
        self.repairs.push(Repair { at, becomes });
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.position).copied()
    }

    fn skip_white_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.position += 1;
        }
    }

    fn is_quote(&self, byte: u8) -> bool {
        match self.dialect {
            Dialect::Strict => byte == b'"',
            Dialect::Lenient => byte == b'"' || byte == b'\'',
        }
    }

    /// The content of the string here, escapes and all.
    fn string(&mut self, quote: u8) -> Result<&'t str, JsonEnd<'t>> {
        let start = self.position + 1;
        self.repair_quote(quote);
        self.position = start;
        while let Some(byte) = self.peek() {
            match byte {
                b'"' | b'\'' if byte == quote => {
                    self.repair_quote(quote);
                    self.position += 1;
                    return Ok(&self.text[start..self.position - 1]);
                }
                // Inside single quotes.
                b'"' => {
                    self.repair(self.position..self.position, "\\");
                    self.position += 1;
                }
                0..=0x1f => self.control_character(byte)?,
                b'\\' => self.escape(quote)?,
                b'{' | b'[' | b'<' => {
                    self.hidden.get_or_insert(self.position);
                    self.position += 1;
                }
                _ => self.position += 1,
            }
        }
        Err(JsonEnd::Unfinished)
    }

    fn repair_quote(&mut self, quote: u8) {
        if quote == b'\'' {
            self.repair(self.position..self.position + 1, "\"");
        }
    }

    fn control_character(&mut self, byte: u8) -> Result<(), JsonEnd<'t>> {
        let escaped = match (self.dialect, byte) {
            (Dialect::Lenient, b'\n') => "\\n",
            (Dialect::Lenient, b'\r') => "\\r",
            (Dialect::Lenient, b'\t') => "\\t",
            (Dialect::Strict | Dialect::Lenient, _) => return Err(JsonEnd::ControlCharacter),
        };
        self.repair(self.position..self.position + 1, escaped);
        self.position += 1;
        Ok(())
    }

    fn escape(&mut self, quote: u8) -> Result<(), JsonEnd<'t>> {
        match self.text.as_bytes().get(self.position + 1) {
            Some(b'"' | b'\\') => self.position += 2,
            Some(b'\'') if quote == b'\'' => {
                self.repair(self.position..self.position + 1, "");
                self.position += 2;
            }
            // An escaped control character is still one, and a repair of it would be another escape.
            Some(0..=0x1f) => {
                self.position += 1;
                return Err(JsonEnd::ControlCharacter);
            }
            Some(_) | None => self.position += 1,
        }
        Ok(())
    }

    fn number(&mut self) {
        let start = self.position;
        while let Some(b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9') = self.peek() {
            self.position += 1;
        }
        let number = &self.text[start..self.position];
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
