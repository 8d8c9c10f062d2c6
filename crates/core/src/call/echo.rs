//! What a reply repeats of its prompts: no call (CALL-7).

use std::collections::BTreeSet;
use std::ops::Range;

use super::scan::Found;

/// Drops the objects that a reply only repeats: those in one line of it that has other text as well
/// (`Example: …`) and that stands in a prompt too. An object alone on its line or on several lines is meant,
/// as a prompt may well ask for it. The objects are in the order in which they stand in the reply; the text
/// of those that stay is never touched.
pub(super) fn drop_echoes(meant: &mut Vec<Found<'_>>, reply: &str, prompts: &[&str]) {
    if prompts.is_empty() {
        return;
    }
    let mut lines: Vec<Range<usize>> = Vec::new();
    for found in meant.iter() {
        // Each line once: there may be many objects in a long one.
        if lines.last().is_none_or(|last| found.start >= last.end) {
            lines.push(line_around(reply, found.start));
        }
    }
    let said: BTreeSet<&str> = lines.iter().map(|line| reply[line.clone()].trim()).collect();
    let shown: BTreeSet<&str> = prompts
        .iter()
        .flat_map(|prompt| prompt.lines())
        .map(str::trim)
        .filter(|line| said.contains(line))
        .collect();
    lines.retain(|line| shown.contains(reply[line.clone()].trim()));
    meant.retain(|found| {
        let next = lines.partition_point(|line| line.end <= found.start);
        !lines
            .get(next)
            .is_some_and(|line| is_among_words(found, line, reply))
    });
}

fn line_around(text: &str, place: usize) -> Range<usize> {
    let start = text[..place].rfind('\n').map_or(0, |end| end + 1);
    let end = text[place..]
        .find('\n')
        .map_or(text.len(), |length| place + length);
    start..end
}

/// Whether an object stands in that line whole, and not alone.
fn is_among_words(found: &Found<'_>, line: &Range<usize>, reply: &str) -> bool {
    // One that is broken may have white space at its end.
    let object = found.text.trim_end();
    line.contains(&found.start)
        && found.start + object.len() <= line.end
        && reply[line.clone()].trim() != object
}
