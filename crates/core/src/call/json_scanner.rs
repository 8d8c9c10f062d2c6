//! Scans one JSON value. Determines where and how it ends, and the properties that [`super::scan`] needs. Not recursive; reads each byte
//! once. [`super::json`] parses strings and numbers.
//!
//! Small models write Python or JavaScript literals instead of JSON. [`Dialect::Lenient`] accepts the following unambiguous deviations from
//! JSON, and records the repairs that turn them into JSON:
//!
//! - strings in single quotes, and `\'` in them;
//! - `True`, `False` and `None`;
//! - a comma before a closing brace or bracket;
//! - a full-width colon or comma between keys and values;
//! - a line break or tab in a string.
//!
//! Nothing else is repaired. Unclosed values, unquoted words and unknown escapes remain errors, because their meaning is ambiguous, as in
//! `"C:\new\dir"`. A general repair crate (`jsonrepair`) guesses in all three cases and so invents values.

use std::borrow::Cow;
use std::ops::Range;

use super::keys::CallKeys;

/// The syntax that the scanner accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// JSON.
    Strict,
    /// JSON with the deviations that the module documentation lists, which are repaired.
    Lenient,
}

/// How a JSON value ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JsonEnd<'t> {
    /// The value is complete; it ends at its closing brace or bracket.
    Closed,
    /// The scan ended at a syntax error. Contains the text that begins at the error.
    Invalid(&'t str),
    /// The scan ended at a line break or another control character in a string.
    ControlCharacter,
    /// The text ends before the value is closed.
    Unfinished,
}

/// The result of scanning from a brace or bracket.
pub(super) struct ScannedJson<'t> {
    pub(super) end: JsonEnd<'t>,
    /// Offset at which the value ends or stops being JSON.
    pub(super) end_offset: usize,
    /// The keys of the outermost object, or of the first item of an array.
    pub(super) keys: CallKeys,
    /// Ranges of the outermost closed objects inside the value.
    pub(super) closed: Vec<Range<usize>>,
    /// Nesting depth of arrays and objects, from 1.
    pub(super) depth: usize,
    /// The first integer that does not fit in 64 bits.
    pub(super) huge_integer: Option<&'t str>,
    /// Offset of the first `{`, `[` or `<` inside a string. If a stray quote began the string, JSON or a tag may begin at this offset.
    pub(super) hidden: Option<usize>,
    repairs: Vec<Repair>,
}

impl ScannedJson<'_> {
    /// The repaired JSON of the value scanned in `text` from `start`; `None` if it needs no repair.
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

/// The replacement of a range that is not JSON.
struct Repair {
    at: Range<usize>,
    becomes: &'static str,
}

/// Scans the value at `start`, which is a brace or bracket.
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

/// The expected next token.
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
    /// Offset of the last comma between keys or items.
    comma: usize,
    /// The open brackets with their offsets.
    stack: Vec<(Bracket, usize)>,
    keys: CallKeys,
    /// The depth at which keys are collected: 1 for the outermost object, 2 for the first item of an array; 0 if no keys are collected.
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
                                self.keys.add_non_string(&decoded(key), byte);
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

    /// Closes the innermost bracket. Returns true if it was the outermost one.
    fn close(&mut self) -> bool {
        self.position += 1;
        match self.stack.pop() {
            Some((Bracket::Object, start)) if !self.stack.is_empty() => {
                while self.closed.last().is_some_and(|inner| inner.start > start) {
                    self.closed.pop();
                }
                self.closed.push(start..self.position);
                // The keys of the first item are complete.
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

    /// Replaces a full-width character by its ASCII counterpart.
    fn repair_full_width(&mut self, becomes: &'static str) {
        let end = self.position
            + self.text[self.position..]
                .chars()
                .next()
                .map_or(1, char::len_utf8);
        self.repair(self.position..end, becomes);
        self.position = end;
    }

    /// Removes the last comma, which may itself be a repair.
    fn drop_comma(&mut self) {
        match self.repairs.last_mut() {
            Some(repair) if repair.at.start == self.comma => repair.becomes = "",
            Some(_) | None => self.repair(self.comma..self.comma + 1, ""),
        }
    }

    /// Skips a comma.
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

    /// Scans the string at the current position. Returns its content without decoding escapes.
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
                // A double quote in a string in single quotes needs a backslash.
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
            // A repair would turn the backslash and control character into a different escape.
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
        // Integers of up to 18 digits always fit.
        if number.len() > 18 && is_integer && number.parse::<i64>().is_err() && number.parse::<u64>().is_err()
        {
            self.huge_integer.get_or_insert(number);
        }
    }
}

/// Decodes the escapes in a key.
fn decoded(content: &str) -> Cow<'_, str> {
    // The keys of calls are short, so long keys need no decoding.
    if content.contains('\\')
        && content.len() <= 64
        && let Ok(key) = serde_json::from_str(&format!("\"{content}\""))
    {
        return Cow::Owned(key);
    }
    Cow::Borrowed(content)
}
