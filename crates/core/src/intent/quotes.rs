//! The quoted parts of a message: quotations, code and quoted lines. Quoted wording is never an intent (MCP-3).

use std::ops::Range;

use crate::text::is_han;

/// Quotation marks whose opening and closing forms differ.
const PAIRS: [(char, char); 6] = [
    ('“', '”'),
    ('‘', '\''),
    ('「', '」'),
    ('『', '』'),
    ('«', '»'),
    ('《', '》'),
];

/// The ranges of quoted characters, in order and without overlaps.
pub(super) fn quoted_ranges(chars: &[(usize, char)]) -> Vec<Range<usize>> {
    let mut ranges = code_and_quoted_lines(chars);
    let quotations = quotations(chars, &ranges);
    ranges.extend(quotations);
    merged(ranges)
}

/// Joins overlapping ranges.
fn merged(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.sort_by_key(|range| range.start);
    let mut merged: Vec<Range<usize>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start < last.end => last.end = last.end.max(range.end),
            Some(_) | None => merged.push(range),
        }
    }
    merged
}

/// Code between backticks or in fences, and lines that begin with `>`. A fence that is never closed reaches to the end of the message.
fn code_and_quoted_lines(chars: &[(usize, char)]) -> Vec<Range<usize>> {
    let mut ranges = Vec::new();
    let mut at = 0;
    while at < chars.len() {
        let end = match chars[at].1 {
            '>' if starts_line(chars, at) => Some(line_end(chars, at)),
            '~' if run(chars, at) >= 3 && starts_line(chars, at) => Some(closing_fence(chars, at + 3)),
            '`' => code_end(chars, at),
            _ => None,
        };
        match end {
            Some(end) => {
                ranges.push(at..end);
                at = end;
            }
            None => at += run(chars, at),
        }
    }
    ranges
}

/// Returns true if only spaces precede the character on its line.
fn starts_line(chars: &[(usize, char)], at: usize) -> bool {
    let before = chars[..at].iter().rev().map(|(_, c)| *c).find(|c| *c != ' ');
    before.is_none_or(|c| c == '\n')
}

fn line_end(chars: &[(usize, char)], from: usize) -> usize {
    let end = chars[from..].iter().position(|(_, c)| *c == '\n');
    end.map_or(chars.len(), |length| from + length)
}

fn closing_fence(chars: &[(usize, char)], from: usize) -> usize {
    let mut lines = from;
    loop {
        lines = line_end(chars, lines);
        if lines == chars.len() {
            return lines;
        }
        lines += 1;
        if chars.get(lines).is_some_and(|(_, c)| *c == '~') && run(chars, lines) >= 3 {
            return line_end(chars, lines);
        }
    }
}

/// The number of equal characters from this position on.
fn run(chars: &[(usize, char)], at: usize) -> usize {
    let same = chars[at..].iter().take_while(|(_, c)| *c == chars[at].1);
    same.count().max(1)
}

/// The end of code that starts with backticks: the index after the next run of the same number of backticks. `None` for inline code that is
/// not closed within its paragraph.
fn code_end(chars: &[(usize, char)], start: usize) -> Option<usize> {
    let length = run(chars, start);
    let mut at = start + length;
    while at < chars.len() {
        let here = run(chars, at);
        match chars[at].1 {
            '`' if here == length => return Some(at + here),
            '\n' if here > 1 && length < 3 => return None,
            _ => at += here,
        }
    }
    (length >= 3).then_some(chars.len())
}

/// Quotations in running text, which may contain code. A quotation does not cross the end of its paragraph, so an unmatched mark quotes
/// nothing.
fn quotations(chars: &[(usize, char)], code: &[Range<usize>]) -> Vec<Range<usize>> {
    let mut code = code.iter().peekable();
    let mut ranges = Vec::new();
    let mut open: [Vec<usize>; PAIRS.len()] = Default::default();
    let (mut double, mut single) = (None, None);
    let is_plain_word = |at: Option<usize>| {
        let c = at.and_then(|at| chars.get(at)).map(|(_, c)| *c);
        c.is_some_and(|c| c.is_alphanumeric() && !is_han(c))
    };
    for (at, (_, c)) in chars.iter().enumerate() {
        while code.next_if(|range| range.end <= at).is_some() {}
        if code.peek().is_some_and(|range| range.contains(&at)) {
            continue;
        }
        let c = *c;
        if c == '\n' && at > 0 && chars[at - 1].1 == '\n' {
            open = Default::default();
            (double, single) = (None, None);
        }
        // An apostrophe comes within or after a word, an opening mark does not, and no word directly follows a closing mark.
        let opens_single = !is_plain_word(at.checked_sub(1));
        let closes_single = !is_plain_word(Some(at + 1));
        for (kind, (opening, closing)) in PAIRS.iter().enumerate() {
            if c == *opening {
                open[kind].push(at);
            } else if c == *closing
                && (c != '\'' || closes_single)
                && let Some(start) = open[kind].pop()
            {
                ranges.push(start..at + 1);
            }
        }
        match (c, double, single) {
            ('"', None, _) => double = Some(at),
            ('"', Some(start), _) => {
                ranges.push(start..at + 1);
                double = None;
            }
            ('\'', _, Some(start)) if closes_single => {
                ranges.push(start..at + 1);
                single = None;
            }
            ('\'', _, None) if opens_single => single = Some(at),
            _ => {}
        }
    }
    ranges
}
