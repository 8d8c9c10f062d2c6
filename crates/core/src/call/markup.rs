//! The markup that model families use for thinking and calls, and special tokens from chat templates.
//!
//! Models that were trained on one kind of call markup fall back to it, whatever form their prompt teaches. Some markup announces JSON
//! (`<tool_call>{…}`, `[TOOL_CALLS] […]`), some a name with arguments (`<function=search>{…}`). If neither follows, the markup still shows
//! that a call was meant (LOOP-3).

use std::ops::Range;

/// A tag such as `<think>`, `</tool_call>`, `<function=search>`, `<|python_tag|>` or `[TOOL_CALLS]`.
#[derive(Clone, Copy)]
pub(super) struct Tag<'t> {
    name: &'t str,
    attributes: &'t str,
    closing: bool,
    /// Whether vertical bars (`|`) enclose the name, as in special tokens of chat templates.
    barred: bool,
    pub(super) end: usize,
}

/// The purpose of a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Opens thinking text.
    Thinking,
    /// Closes thinking text.
    ThinkingEnd,
    /// Announces a call.
    Call,
    /// Closes a call.
    CallEnd,
    /// A special token of a chat template.
    Token,
    /// Anything else: prose, HTML, code.
    Other,
}

const THINKING: [&str; 14] = [
    "think",
    "thinking",
    "thought",
    "thoughts",
    "reason",
    "reasoning",
    "reasoning_content",
    "analysis",
    "reflection",
    "scratchpad",
    "inner_monologue",
    "inner_thoughts",
    "chain_of_thought",
    "cot",
];
const THINKING_BEGINS: [&str; 3] = ["begin_of_thought", "start_thinking", "begin_of_thinking"];
const THINKING_ENDS: [&str; 3] = ["end_of_thought", "end_thinking", "end_of_thinking"];
const CALLS: [&str; 19] = [
    "tool_call",
    "tool_calls",
    "toolcall",
    "tool_use",
    "function_call",
    "function_calls",
    "functioncall",
    "tool_code",
    "python_tag",
    "tool_call_begin",
    "tool_calls_begin",
    "tool_calls_section_begin",
    "tool_call_start",
    "action_start",
    "start_action",
    "start_function_call",
    "longcat_tool_call",
    "invoke",
    "function",
];
const CALL_ENDS: [&str; 7] = [
    "tool_call_end",
    "tool_calls_end",
    "tool_calls_section_end",
    "tool_call_argument_end",
    "action_end",
    "end_action",
    "end_function_call",
];
/// Tags around arguments, for model families that write arguments as tags. Their closing tags occur after a call.
const CALL_PARTS: [&str; 3] = ["parameter", "arg_key", "arg_value"];
const TOKENS: [&str; 5] = ["s", "eos", "bos", "end_of_turn", "start_of_turn"];
/// Maximum length of a tag.
const MAX_TAG_BYTES: usize = 256;

impl<'t> Tag<'t> {
    /// Parses the tag at `position`, which is a `<`, `[` or `◁`.
    pub(super) fn at(text: &'t str, position: usize) -> Option<Tag<'t>> {
        let rest = &text[position..];
        let (open, close) = match rest.chars().next()? {
            '<' => ("<", '>'),
            '[' => ("[", ']'),
            '◁' => ("◁", '▷'),
            _ => return None,
        };
        let is_end = |c: char| c == close || matches!(c, '<' | '[' | '◁' | '\n');
        let inner = &rest[open.len()..];
        let inner = &inner[..inner.floor_char_boundary(MAX_TAG_BYTES)];
        let length = inner.find(is_end)?;
        let inner = &inner[..length];
        if !rest[open.len() + length..].starts_with(close) {
            return None;
        }
        let end = position + open.len() + length + close.len_utf8();
        let barred = inner.starts_with(['|', '｜']);
        let inner = inner.trim_matches(['|', '｜']);
        let (inner, closing) = match inner.strip_prefix('/') {
            Some(inner) => (inner, true),
            None => (inner, false),
        };
        let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '▁' | '-' | ':');
        let length = inner.find(|c| !is_name(c)).unwrap_or(inner.len());
        let (name, attributes) = inner.split_at(length);
        let is_bare = open != "[" || attributes.is_empty();
        (!name.is_empty() && is_bare).then_some(Tag {
            name,
            attributes,
            closing,
            barred,
            end,
        })
    }

    /// The name in lowercase, without a namespace.
    fn plain(&self) -> String {
        let name = self.name.rsplit(':').next().unwrap_or_default();
        name.to_lowercase().replace(['▁', '-'], "_")
    }

    /// Returns true for thinking tags that have no other use, such as `<think>`.
    pub(super) fn is_think(&self) -> bool {
        let name = self.plain();
        name == "think" || name == "thinking" || THINKING_BEGINS.contains(&name.as_str())
    }

    pub(super) fn purpose(&self) -> Purpose {
        let name = self.plain();
        let name = name.as_str();
        if THINKING.contains(&name) {
            return match (self.closing, self.attributes.trim_end().ends_with('/')) {
                (true, _) => Purpose::ThinkingEnd,
                (false, true) => Purpose::Other,
                (false, false) => Purpose::Thinking,
            };
        }
        if THINKING_BEGINS.contains(&name) {
            return Purpose::Thinking;
        }
        if THINKING_ENDS.contains(&name) {
            return Purpose::ThinkingEnd;
        }
        if CALL_ENDS.contains(&name) || self.closing && CALL_PARTS.contains(&name) {
            return Purpose::CallEnd;
        }
        // `<function>` and `<invoke>` are common words, so they announce a call only with a tool's name.
        let needs_name = matches!(name, "function" | "invoke");
        if CALLS.contains(&name) && (self.closing || !needs_name || self.tool().is_some()) {
            return if self.closing {
                Purpose::CallEnd
            } else {
                Purpose::Call
            };
        }
        if self.barred || TOKENS.contains(&name) {
            return Purpose::Token;
        }
        Purpose::Other
    }

    /// The part of the name that opening and closing tags of thinking text share.
    pub(super) fn stem(&self) -> String {
        let name = self.plain();
        ["begin_of_", "end_of_", "start_", "end_"]
            .iter()
            .find_map(|prefix| name.strip_prefix(prefix))
            .map(str::to_owned)
            .unwrap_or(name)
    }

    /// The tool that a tag names: `<function=search>`, `<invoke name="search">`.
    fn tool(&self) -> Option<&'t str> {
        let attributes = self.attributes.trim();
        let named = attributes
            .strip_prefix("name")
            .map_or(attributes, str::trim_start);
        let value = named.strip_prefix('=')?.trim_start();
        let value = match value.chars().next()? {
            quote @ ('"' | '\'') => value[1..].split(quote).next()?,
            _ => value.split_whitespace().next()?,
        };
        (!value.is_empty() && value.chars().all(is_tool_character)).then_some(value)
    }
}

fn is_tool_character(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.')
}

/// A call that markup announces.
pub(super) struct Announcement<'t> {
    /// The tool's name, if it precedes the JSON. The JSON then contains only the arguments.
    pub(super) tool: Option<&'t str>,
    /// Offset of the JSON.
    pub(super) json: usize,
}

/// Parses the call that the markup at `position` announces: an object or an array, or a tool's name and its arguments. `None` if the markup
/// announces no call, or nothing readable follows the markup.
pub(super) fn announced(text: &str, position: usize) -> Option<Announcement<'_>> {
    /// Maximum number of tags and words before the JSON; more than any model family uses.
    const MAX_STEPS: usize = 8;
    let tag = Tag::at(text, position)?;
    let (mut tool, mut at) = match tag.purpose() {
        Purpose::Call => (tag.tool(), tag.end),
        Purpose::Token if matches!(tag.plain().as_str(), "channel" | "start") => {
            let (named, end) = addressed(text, tag.end)?;
            (Some(named), end)
        }
        Purpose::Token | Purpose::Thinking | Purpose::ThinkingEnd | Purpose::CallEnd | Purpose::Other => {
            return None;
        }
    };
    for _ in 0..MAX_STEPS {
        at = text.len() - text[at..].trim_start().len();
        let rest = &text[at..];
        match rest.chars().next()? {
            '{' => return Some(Announcement { tool, json: at }),
            '`' => {
                let fence = rest.len() - rest.trim_start_matches('`').len();
                if fence < 3 {
                    return None;
                }
                let info = rest[fence..].find(|c: char| !c.is_alphanumeric() && c != '_')?;
                at += fence + info;
            }
            '<' | '[' => match Tag::at(text, at) {
                Some(tag) if tag.closing => return None,
                Some(tag) => match tag.purpose() {
                    Purpose::Call => {
                        tool = tool.or(tag.tool());
                        at = tag.end;
                    }
                    Purpose::Token => at = tag.end,
                    Purpose::Other if matches!(tag.name, "ARGS") => at = tag.end,
                    Purpose::Thinking | Purpose::ThinkingEnd | Purpose::CallEnd | Purpose::Other => {
                        return None;
                    }
                },
                None if rest.starts_with('[') && tool.is_none() => {
                    return Some(Announcement { tool, json: at });
                }
                None => return None,
            },
            _ => {
                let length = rest.find(|c| !is_tool_character(c)).unwrap_or(rest.len());
                let word = &rest[..length];
                at += length + call_number(&rest[length..]);
                match word {
                    "" => return None,
                    // DeepSeek writes the kind of call (`function`) before the name.
                    "function" if rest[length..].starts_with('<') => {}
                    _ if tool.is_some() => return None,
                    _ => tool = Some(word.strip_prefix("functions.").unwrap_or(word)),
                }
            }
        }
    }
    None
}

/// Length of a call number after a tool's name: 2 for `functions.search:0`.
fn call_number(after: &str) -> usize {
    let digits = after.strip_prefix(':').unwrap_or_default();
    match digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len()) {
        0 => 0,
        length => 1 + length,
    }
}

/// Parses the header of a message that is addressed to a tool (`commentary to=functions.search <|constrain|>json<|message|>`). Returns the
/// tool and the offset of the message.
fn addressed(text: &str, from: usize) -> Option<(&str, usize)> {
    const MESSAGE: &str = "<|message|>";
    let limit = text.floor_char_boundary((from + MAX_TAG_BYTES).min(text.len()));
    let header = &text[from..limit];
    let header = &header[..header.find(MESSAGE)?];
    let named = header.split("to=").nth(1)?;
    let named = named.strip_prefix("functions.").unwrap_or(named);
    let tool = named.split(|c| !is_tool_character(c)).next()?;
    (!tool.is_empty()).then_some((tool, from + header.len() + MESSAGE.len()))
}

/// Offset of the message in a thinking channel (`<|channel|>analysis<|message|>`); `None` for any other tag.
pub(super) fn thinking_channel(text: &str, tag: &Tag<'_>) -> Option<usize> {
    let is_channel = tag.barred && tag.plain() == "channel";
    let rest = text[tag.end..].trim_start();
    (is_channel && rest.starts_with("analysis")).then_some(text.len() - rest.len())
}

/// Skips the closing tags, fences and tokens after an announced call. Returns the offset after them.
pub(super) fn after_closers(text: &str, mut at: usize) -> usize {
    loop {
        let rest = text[at..].trim_start();
        let next = text.len() - rest.len();
        let closer = match rest.chars().next() {
            Some('`') => Some(next + rest.len() - rest.trim_start_matches('`').len()),
            Some('<' | '[') => Tag::at(text, next)
                .filter(|tag| match tag.purpose() {
                    Purpose::CallEnd | Purpose::Token => !matches!(tag.plain().as_str(), "start" | "channel"),
                    Purpose::Thinking | Purpose::ThinkingEnd | Purpose::Call | Purpose::Other => false,
                })
                .map(|tag| tag.end),
            _ => None,
        };
        match closer {
            Some(end) => at = end,
            None => return at,
        }
    }
}

/// The contents of a gap between calls: words, or only fences, markup and punctuation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct GapContent {
    /// Whether the gap has letters or digits outside of markup.
    pub(super) words: bool,
    /// Whether the gap has other characters, such as quotation marks.
    pub(super) marks: bool,
    /// Number of opening and closing code fences.
    pub(super) fences: usize,
    /// Whether the gap has call markup.
    pub(super) markup: bool,
}

impl GapContent {
    /// Analyses this range of the text.
    pub(super) fn new(text: &str, range: Range<usize>) -> GapContent {
        let mut gap = GapContent::default();
        let mut at = range.start;
        while let Some(c) = text[at..range.end].chars().next() {
            at = match c {
                '`' | '~' => {
                    let run = text[at..range.end].trim_start_matches(c);
                    let length = range.end - at - run.len();
                    gap.fences += usize::from(length >= 3);
                    gap.marks |= length < 3;
                    at + length + if length >= 3 { info(run) } else { 0 }
                }
                '<' | '[' | '◁' => match Tag::at(text, at).filter(|tag| tag.end <= range.end) {
                    Some(tag) => match tag.purpose() {
                        Purpose::Call | Purpose::CallEnd => {
                            gap.markup = true;
                            tag.end
                        }
                        Purpose::Token | Purpose::ThinkingEnd => tag.end,
                        Purpose::Thinking | Purpose::Other => {
                            gap.marks = true;
                            at + c.len_utf8()
                        }
                    },
                    None => {
                        gap.marks = true;
                        at + c.len_utf8()
                    }
                },
                c => {
                    gap.words |= c.is_alphanumeric();
                    gap.marks |= !c.is_whitespace() && !c.is_control() && c != '\u{feff}';
                    at + c.len_utf8()
                }
            };
            if gap.words {
                break;
            }
        }
        gap
    }
}

/// Length of a code fence's info string, which is one word at the end of the line.
fn info(after: &str) -> usize {
    let length = after
        .find(|c: char| !c.is_alphanumeric() && !matches!(c, '_' | '-' | '+'))
        .unwrap_or(after.len());
    let rest = after[length..].trim_start_matches([' ', '\t', '\r']);
    if rest.is_empty() || rest.starts_with('\n') {
        length
    } else {
        0
    }
}

/// Returns true if a tag is at the beginning of a line or right after other markup.
pub(super) fn begins_line(text: &str, position: usize) -> bool {
    let before = text[..position].trim_end_matches([' ', '\t']);
    before.is_empty() || before.ends_with(['\n', '>', ']'])
}
