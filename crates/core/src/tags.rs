//! The tags of the sections in prompts, which no text from elsewhere may open or close.

use std::borrow::Cow;

/// The tags of the templates' sections: `<GOAL>`.
const TAGS: [&str; 14] = [
    "AGENTS",
    "AGENT_FLOW",
    "ANSWERS",
    "CHANGED_FILES",
    "FINDINGS",
    "GOAL",
    "GUIDANCE",
    "OBSERVATIONS",
    "PLAN",
    "ITERATION",
    "ITERATIONS",
    "SUMMARY",
    "TASK",
    "TOOLS_FOR_CALLS",
];

/// The text with none of the [`TAGS`] in it: their `<` is written `\u003c`, as in JSON, where it means the
/// same in a string and stands nowhere else; a model reads it well elsewhere too. A closing tag counts in
/// whatever case and with whatever white space around its slash, as it would end a section; an opening one as
/// the templates write it. Every other `<` stays, so that code and markup (`Vec<Task>`) are as they were.
pub(crate) fn escape_tags(text: &str) -> Cow<'_, str> {
    let mut pieces = text.split('<');
    let before = pieces.next().unwrap_or_default();
    if !pieces.clone().any(starts_tag) {
        return Cow::Borrowed(text);
    }
    let mut escape_tags = before.to_owned();
    for piece in pieces {
        escape_tags.push_str(if starts_tag(piece) { r"\u003c" } else { "<" });
        escape_tags.push_str(piece);
    }
    Cow::Owned(escape_tags)
}

fn starts_tag(text: &str) -> bool {
    let closing = text.trim_start().strip_prefix('/').map(str::trim_start);
    TAGS.iter().any(|tag| match closing {
        Some(name) => name
            .split_at_checked(tag.len())
            .is_some_and(|(name, rest)| name.eq_ignore_ascii_case(tag) && is_name_boundary(rest)),
        None => text.strip_prefix(tag).is_some_and(is_name_boundary),
    })
}

/// Whether a tag's name is whole where this follows it.
fn is_name_boundary(rest: &str) -> bool {
    !rest.starts_with(|character: char| character.is_ascii_alphanumeric() || character == '_')
}
