//! Malformed replies (LOOP-3).

use serde::{Deserialize, Serialize};

use crate::message::{FinishReason, MalformedCall};
use crate::name::{quoted, quoted_list};

/// Maximum number of characters of unreadable arguments to show in a message.
const SHOWN_ARGUMENTS: usize = 400;

/// The reason why a reply is malformed. The message is sent back to the model (LOOP-3).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum MalformedReply {
    /// The reply was cut before its end (CALL-7).
    #[error("{}", match finish {
        FinishReason::Length => "your reply was cut off at the token limit, so nothing in it was executed. Send it again, shorter",
        FinishReason::Interrupted => "your reply was interrupted before its end, so nothing in it was executed. Send it again",
        FinishReason::Stop | FinishReason::ToolCalls | FinishReason::Filtered | FinishReason::Oversized => "your reply was incomplete, so nothing in it was executed. Send it again",
    })]
    CutShort {
        /// How the reply ended.
        finish: FinishReason,
    },
    /// The reply consists of unclosed thinking text, without an answer (CALL-7).
    #[error("your reply ended inside its thinking: write the answer")]
    OnlyThinking,
    /// The finish reason announces calls, but the reply has none (CALL-2).
    #[error("you announced a tool call, but made none")]
    NoCall,
    /// An object is meant as a call but is not valid JSON.
    #[error("your tool call is not valid JSON: {problem}")]
    InvalidJson {
        /// The problem with the JSON.
        problem: String,
    },
    /// Fields of a call are missing or have the wrong type (CALL-1).
    #[error("your tool call has missing or wrong fields: {}", problems.join("; "))]
    WrongFields {
        /// One problem per field.
        problems: Vec<String>,
    },
    /// A call has a form other than the model's configured call form (CALL-4).
    #[error("your reply calls a tool, but not in the required form, so nothing was executed")]
    OtherForm,
    /// Text is clearly meant as a call but cannot be parsed (LOOP-3).
    #[error("your reply looks like a tool call, but can't be read as one, so nothing was executed")]
    Unreadable,
    /// The reply is the bare parameters of the agent's terminating tool (CALL-5).
    #[error(
        "your reply contains only the parameters of {}, without the call itself",
        quoted(tool)
    )]
    BareParameters {
        /// The name of the terminating tool.
        tool: String,
    },
    /// Native calls have an unreadable name or unreadable arguments (CALL-2).
    #[error(
        "{} No call in your reply was executed: make them again, each with a JSON object as its arguments",
        unreadable(calls)
    )]
    UnreadableCalls {
        /// The calls as received.
        calls: Vec<MalformedCall>,
    },
    /// The reply has several different calls among other text, or in a form that allows only one (CALL-5).
    #[error("your reply has {} different tool calls (to {}), and none was executed: if you mean them all, send nothing but one array, `[{{…}}, {{…}}]`; otherwise make one call", tools.len(), quoted_list(tools.iter().map(String::as_str)))]
    Ambiguous {
        /// The tools of the different calls in order; at most 32.
        tools: Vec<String>,
    },
}

impl MalformedReply {
    /// Returns only the problem, without the introduction of the full message.
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
    let sentences = calls.iter().map(|call| {
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
    sentences.collect::<Vec<_>>().join(" ")
}

/// Formats the arguments on one line, leaving out the middle of long ones.
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
