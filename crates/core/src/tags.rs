//! The tags of the sections in prompts (`<GOAL>` … `</GOAL>`) and what the sections hold. No text from elsewhere may open or close one.

use std::borrow::Cow;

/// The agents that a plan may use.
pub const AGENTS: &str = "AGENTS";
/// How an agent works through its turns.
pub const AGENT_FLOW: &str = "AGENT_FLOW";
/// Questions that the user has answered: one [`AnsweredQuestion`](crate::prompt::AnsweredQuestion) a line, as JSON.
pub const ANSWERS: &str = "ANSWERS";
/// The files that the run has changed: `- PATH`, one a line.
pub const CHANGED_FILES: &str = "CHANGED_FILES";
/// What the sub-tasks found that a task depends on: lines as in [`OBSERVATIONS`].
pub const FINDINGS: &str = "FINDINGS";
/// The goal in the user's words.
pub const GOAL: &str = "GOAL";
/// The user's guidance: `NUMBER. TEXT`, from 1; further lines of a text follow it.
pub const GUIDANCE: &str = "GUIDANCE";
/// How sub-tasks ended: one [`ObservationLine`](crate::prompt::ObservationLine) a line, as JSON.
pub const OBSERVATIONS: &str = "OBSERVATIONS";
/// The plan of the iteration that is judged: a [`Plan`](crate::plan::Plan) as JSON.
pub const PLAN: &str = "PLAN";
/// The iteration's number and how many there may be: `1 of 15`.
pub const ITERATION: &str = "ITERATION";
/// The iterations before: one [`PastIteration`](crate::prompt::PastIteration) a line, as JSON.
pub const ITERATIONS: &str = "ITERATIONS";
/// A model's summary of the older part of its conversation.
pub const SUMMARY: &str = "SUMMARY";
/// A sub-agent's task in the planner's words.
pub const TASK: &str = "TASK";
/// The tools that a plan's own calls may use.
pub const TOOLS_FOR_CALLS: &str = "TOOLS_FOR_CALLS";

/// Every tag of the templates.
const TAGS: [&str; 14] = [
    AGENTS,
    AGENT_FLOW,
    ANSWERS,
    CHANGED_FILES,
    FINDINGS,
    GOAL,
    GUIDANCE,
    OBSERVATIONS,
    PLAN,
    ITERATION,
    ITERATIONS,
    SUMMARY,
    TASK,
    TOOLS_FOR_CALLS,
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::TAGS;

    #[test]
    fn the_tags_are_those_of_the_templates() {
        let templates = [
            include_str!("../../../config/prompts/iterations.md"),
            include_str!("../../../config/prompts/plan_request.md"),
            include_str!("../../../config/prompts/reflect_request.md"),
            include_str!("../../../config/prompts/summary.md"),
            include_str!("../../../config/prompts/system.md"),
            include_str!("../../../config/prompts/task_request.md"),
        ]
        .concat();
        let closed: BTreeSet<&str> = templates
            .split("</")
            .skip(1)
            .filter_map(|rest| rest.split_once('>'))
            .map(|(tag, _)| tag)
            .collect();
        assert_eq!(closed, BTreeSet::from(TAGS));
    }
}
