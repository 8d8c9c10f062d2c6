//! Exact edits of a text: replacing a part, and finding blocks that occur once.

/// Replaces a text, but not where it is part of the new one already: a second replacement changes nothing.
pub(crate) fn replace_outside(text: &str, old: &str, new: &str) -> String {
    if new.is_empty() || !new.contains(old) {
        return text.replace(old, new);
    }
    text.split(new)
        .map(|piece| piece.replace(old, new))
        .collect::<Vec<_>>()
        .join(new)
}

/// The lines `first` to `last`, and as many around them as it takes for the block to occur once in the text.
pub(crate) fn unique_block(text: &str, first: u64, last: u64) -> Option<String> {
    let lines: Vec<&str> = text.split('\n').collect();
    let first = usize::try_from(first).ok()?.checked_sub(1)?;
    let last = usize::try_from(last).ok()?.checked_sub(1)?;
    if first > last || last >= lines.len() {
        return None;
    }
    (0..=lines.len()).find_map(|around| {
        let start = first.saturating_sub(around);
        let end = (last + around).min(lines.len() - 1);
        let block = lines[start..=end].join("\n");
        occurs_once(text, &block).then_some(block)
    })
}

/// Whether the block is there once, overlapping copies counted.
fn occurs_once(text: &str, block: &str) -> bool {
    let Some(at) = text.find(block).filter(|_| !block.is_empty()) else {
        return false;
    };
    let next = at + block.chars().next().map_or(1, char::len_utf8);
    text.get(next..).is_some_and(|rest| !rest.contains(block))
}
