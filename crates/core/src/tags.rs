//! The tags of sections in prompts. No text from users, tools, models or files may open or close a section.

use std::borrow::Cow;

/// The tags of the templates' sections, such as `<GOAL>`.
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

/// Escapes every one of the [`TAGS`] in the text: `<` becomes `\u003c`, which is the same inside a JSON string and which models read well
/// elsewhere. Closing tags are matched in any case and with white space around the slash, as a model would read them; opening tags exactly
/// as templates write them. Any other `<` stays, so code and markup (`Vec<Task>`) are unchanged.
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

/// Returns true if a tag's name ends before `rest`.
fn is_name_boundary(rest: &str) -> bool {
    !rest.starts_with(|character: char| character.is_ascii_alphanumeric() || character == '_')
}
