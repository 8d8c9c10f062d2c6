//! The tags of prompt sections (`<GOAL>` … `</GOAL>`) and the content of each section. Text that is inserted into a prompt cannot open or
//! close a section.

use std::borrow::Cow;

/// The agents that a plan may use.
pub const AGENTS: &str = "AGENTS";
/// Instructions for the agent's loop of turns.
pub const AGENT_FLOW: &str = "AGENT_FLOW";
/// Questions that the user has answered: one [`AnsweredQuestion`](crate::prompt::AnsweredQuestion) per line, as JSON.
pub const ANSWERS: &str = "ANSWERS";
/// The files that the run has changed: one `- PATH` per line.
pub const CHANGED_FILES: &str = "CHANGED_FILES";
/// The run's net changes to files, as diffs in git's format.
pub const DIFF: &str = "DIFF";
/// Where a run works: its workspace, system, date and more, one `NAME: VALUE` per line ([`Environment`](crate::project::Environment)).
pub const ENVIRONMENT: &str = "ENVIRONMENT";
/// A file that the goal includes, with its path and the number of omitted lines as attributes.
pub const FILE: &str = "FILE";
/// Findings of the sub-tasks on which a task depends: lines as in [`OBSERVATIONS`].
pub const FINDINGS: &str = "FINDINGS";
/// The goal as the user wrote it. For a sub-agent, the goal of its run: its own task is [`TASK`].
pub const GOAL: &str = "GOAL";
/// The user's guidance: entries of the form `NUMBER. TEXT`, numbered from 1. A text may continue on further lines.
pub const GUIDANCE: &str = "GUIDANCE";
/// The results of sub-tasks: one [`ObservationLine`](crate::prompt::ObservationLine) after the other as JSON, each followed by its texts of
/// several lines ([`parse_observations`](crate::prompt::parse_observations)).
pub const OBSERVATIONS: &str = "OBSERVATIONS";
/// The run's changes other than file changes, such as changed table rows: one `- CHANGE` per line.
pub const OTHER_CHANGES: &str = "OTHER_CHANGES";
/// The reason why the run ended before a plan was complete.
pub const INTERRUPTED: &str = "INTERRUPTED";
/// The reflector's judgement of the last iteration: `{"verdict", "summary"}`, in a message that continues the lead.
pub const JUDGEMENT: &str = "JUDGEMENT";
/// The limits of the whole run that the user has set, for the lead.
pub const LIMITS: &str = "LIMITS";
/// The parameters of a workflow: one [`ParameterLine`](crate::prompt::ParameterLine) per line, as JSON.
pub const PARAMETERS: &str = "PARAMETERS";
/// The plan of the iteration that is evaluated: a [`Plan`](crate::plan::Plan) as JSON, each sub-task and each call on a line of its own.
pub const PLAN: &str = "PLAN";
/// The number of the iteration and the maximum number of iterations: `1 of 15`.
pub const ITERATION: &str = "ITERATION";
/// The earlier iterations: one [`PastIteration`](crate::prompt::PastIteration) per line, as JSON.
pub const ITERATIONS: &str = "ITERATIONS";
/// The project's instructions: for each file, a line `=== PATH` and its text ([`Instructions`](crate::project::Instructions)).
pub const PROJECT_INSTRUCTIONS: &str = "PROJECT_INSTRUCTIONS";
/// The services that the goal asks for, each with its tools: `NAME: DESCRIPTION`, then one `- TOOL: SENTENCE` per line.
pub const SERVICES: &str = "SERVICES";
/// A model's summary of the older part of its conversation.
pub const SUMMARY: &str = "SUMMARY";
/// The task of a sub-agent, written by the lead or by a delegating agent.
pub const TASK: &str = "TASK";
/// The tools that the calls of a plan may use.
pub const TOOLS_FOR_CALLS: &str = "TOOLS_FOR_CALLS";
/// Facts that the user asked to be remembered: one `- FACT` per line.
pub const USER_NOTES: &str = "USER_NOTES";
/// The words in which the values of a workflow's parameters are to be found.
pub const WORDS: &str = "WORDS";
/// The workflow that the user invokes: `NAME: DESCRIPTION`.
pub const WORKFLOW: &str = "WORKFLOW";

/// All tags used in the templates.
const TAGS: [&str; 27] = [
    AGENTS,
    AGENT_FLOW,
    ANSWERS,
    CHANGED_FILES,
    DIFF,
    ENVIRONMENT,
    FILE,
    FINDINGS,
    GOAL,
    GUIDANCE,
    INTERRUPTED,
    JUDGEMENT,
    LIMITS,
    OBSERVATIONS,
    OTHER_CHANGES,
    PARAMETERS,
    PLAN,
    PROJECT_INSTRUCTIONS,
    ITERATION,
    ITERATIONS,
    SERVICES,
    SUMMARY,
    TASK,
    TOOLS_FOR_CALLS,
    USER_NOTES,
    WORDS,
    WORKFLOW,
];

/// Escapes all [`TAGS`] in the text: replaces their `<` with `\u003c`, which is equivalent inside a JSON string and which models understand
/// elsewhere. Closing tags are matched in any letter case and with white space around the slash, because a model would recognise them as
/// tags; opening tags are matched exactly as templates write them. Any other `<` is unchanged, so code and markup (`Vec<Task>`) stay
/// readable.
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

/// Restores text whose tags were escaped. For readers of prompts, such as the offline model.
pub fn unescape_tags(text: &str) -> Cow<'_, str> {
    let mut pieces = text.split(r"\u003c");
    let before = pieces.next().unwrap_or_default();
    if !pieces.clone().any(starts_tag) {
        return Cow::Borrowed(text);
    }
    let mut unescaped = before.to_owned();
    for piece in pieces {
        unescaped.push_str(if starts_tag(piece) { "<" } else { r"\u003c" });
        unescaped.push_str(piece);
    }
    Cow::Owned(unescaped)
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

/// Returns true if the name of a tag ends where `rest` begins.
fn is_name_boundary(rest: &str) -> bool {
    !rest.starts_with(|character: char| character.is_ascii_alphanumeric() || character == '_')
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{TAGS, escape_tags, unescape_tags};

    #[test]
    fn escaped_tags_are_restored() {
        for text in ["a <TASK> b </ task> c <b>", r"\u003cb> <GOAL>", "none"] {
            assert_eq!(unescape_tags(&escape_tags(text)), text);
        }
    }

    #[test]
    fn the_list_of_tags_has_exactly_the_tags_of_the_templates() {
        let templates = [
            include_str!("../../../config/prompts/continue_request.md"),
            include_str!("../../../config/prompts/extract_parameters_request.md"),
            include_str!("../../../config/prompts/guidance.md"),
            include_str!("../../../config/prompts/iterations.md"),
            include_str!("../../../config/prompts/plan_request.md"),
            include_str!("../../../config/prompts/project.md"),
            include_str!("../../../config/prompts/reflect_request.md"),
            include_str!("../../../config/prompts/run_goal.md"),
            include_str!("../../../config/prompts/summary.md"),
            include_str!("../../../config/prompts/system.md"),
            include_str!("../../../config/prompts/task_request.md"),
            include_str!("../../../config/prompts/user_notes.md"),
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
