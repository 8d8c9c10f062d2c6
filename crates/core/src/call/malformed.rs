//! Why a reply cannot be acted on (LOOP-3).

use serde::{Deserialize, Serialize};

use crate::message::{FinishReason, MalformedCall};
use crate::name::{quoted, quoted_list};

/// How many characters of arguments that can't be read are shown.
const SHOWN_ARGUMENTS: usize = 400;

/// Why a reply cannot be acted on. The message goes back to the model: what is wrong, and the form that is
/// wanted (LOOP-3).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum MalformedReply {
    /// The reply ended before the model had finished it (CALL-7).
    #[error("{}", match finish {
        FinishReason::Length => "your reply was cut off at the token limit, so nothing in it was carried out. Say it again, shorter",
        FinishReason::Interrupted => "your reply broke off before its end, so nothing in it was carried out. Say it again",
        FinishReason::Stop | FinishReason::ToolCalls | FinishReason::Filtered | FinishReason::Oversized => "your reply was incomplete, so nothing in it was carried out. Say it again",
    })]
    CutShort {
        /// How it ended.
        finish: FinishReason,
    },
    /// Nothing was said but thinking, and that did not end: what the model would have answered is not known
    /// (CALL-7).
    #[error("your reply ended inside its thinking: say the answer")]
    OnlyThinking,
    /// The reply ended in order to call a tool, and has no call (CALL-2).
    #[error("you announced a tool call and made none")]
    NoCall,
    /// An object that was meant as a call, and is not JSON.
    #[error("your tool call is not valid JSON: {problem}")]
    InvalidJson {
        /// What is wrong with it.
        problem: String,
    },
    /// A call whose fields are missing or of the wrong type (CALL-1).
    #[error("your tool call is incomplete: {}", problems.join("; "))]
    WrongFields {
        /// What is wrong, field by field.
        problems: Vec<String>,
    },
    /// A call in another form than the one agreed on (CALL-4).
    #[error("your reply calls a tool in another form than the one agreed on, so nothing was executed")]
    OtherForm,
    /// Something that is plainly meant as a call and can't be read as one (LOOP-3).
    #[error("your reply looks like a tool call and can't be read as one, so nothing was executed")]
    Unreadable,
    /// The parameters of the agent's own submitting tool, with no call around them (CALL-5).
    #[error(
        "your reply is the parameters of {} without the call around them",
        quoted(tool)
    )]
    BareParameters {
        /// The tool.
        tool: String,
    },
    /// Calls that the provider delivered apart from the text, and whose name or arguments can't be read
    /// (CALL-2).
    #[error(
        "{} No call in your reply was carried out: make them again, each with a JSON object as its arguments",
        unreadable(calls)
    )]
    UnreadableCalls {
        /// Those calls, as they came.
        calls: Vec<MalformedCall>,
    },
    /// Different calls where the form allows one (CALL-5).
    #[error("your reply has {} different tool calls (of {}), and none was carried out: make one call, wait for its result, then make the next", tools.len(), quoted_list(tools.iter().map(String::as_str)))]
    Ambiguous {
        /// The tool of each of the different calls, in order; at most 32.
        tools: Vec<String>,
    },
}

impl MalformedReply {
    /// What is wrong, without the words around it.
    pub(super) fn problem(&self) -> String {
        match self {
            MalformedReply::InvalidJson { problem } => problem.clone(),
            MalformedReply::WrongFields { problems } => problems.join("; "),
            MalformedReply::CutShort { .. }
            | MalformedReply::OnlyThinking
            | MalformedReply::NoCall
            | MalformedReply::OtherForm
            | MalformedReply::Unreadable
            | MalformedReply::BareParameters { .. }
            | MalformedReply::UnreadableCalls { .. }
            | MalformedReply::Ambiguous { .. } => self.to_string(),
        }
    }
}

fn unreadable(calls: &[MalformedCall]) -> String {
    let said = calls.iter().map(|call| {
        let MalformedCall {
            name,
            arguments,
            problem,
        } = call;
        format!(
            "your call of {} can't be read: {problem}. Its arguments were `{}`.",
            quoted(name),
            shortened(arguments)
        )
    });
    said.collect::<Vec<_>>().join(" ")
}

/// The arguments on one line; of long ones, the beginning and the end.
fn shortened(arguments: &str) -> String {
    let plain = |text: &str| text.replace(char::is_control, " ");
    let count = arguments.chars().count();
    if count <= SHOWN_ARGUMENTS {
        return plain(arguments);
    }
    let half = SHOWN_ARGUMENTS / 2;
    let head: String = arguments.chars().take(half).collect();
    let tail: String = arguments.chars().skip(count - half).collect();
    format!("{} … {}", plain(&head), plain(&tail))
}
