//! The tools `ask_user` and `report`, which every agent except the reflector has (LEAD-4).
//!
//! Like `delegate`, they are not tools of the run: an agent is offered them if its spec lists them, and its machine handles their calls. Rules
//! do not apply to them, because they do nothing but talk to the user and to the run.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::agent_spec::{AnswerForm, DELEGATE};
use crate::message::ToolCall;
use crate::question::Question;
use crate::tool::{Access, Repeat, ToolCategory, ToolResult, ToolSpec};

/// The name of the tool that asks the user. The call waits for the answer, which is its result.
pub const ASK_USER: &str = "ask_user";

/// The name of the tool with which an agent ends as failed.
pub const REPORT: &str = "report";

/// Returns true if the name is that of a tool that an agent's machine handles itself. Tools of a run must not have these names.
pub fn is_reserved(tool: &str) -> bool {
    [ASK_USER, REPORT].contains(&tool)
}

/// Returns true for a tool that is left out of an agent's description, because every agent has it or it is described elsewhere.
pub(crate) fn is_control_tool(tool: &str) -> bool {
    tool == DELEGATE || is_reserved(tool)
}

/// Returns the tools of this module for an agent with this form of answer; none for the reflector, which uses its
/// verdicts instead.
pub fn loop_tools(answer: AnswerForm) -> Vec<ToolSpec> {
    match answer {
        AnswerForm::Text | AnswerForm::Plan => vec![ask_user_tool(), report_tool()],
        AnswerForm::Reflection => Vec::new(),
    }
}

fn ask_user_tool() -> ToolSpec {
    tool(
        ASK_USER,
        ToolCategory::Agents,
        "Asks the user and waits for the answer. Only for what you can't find out and should not decide yourself.",
        json!({
            "type": "object",
            "properties": {
                "question": {"type": "string", "minLength": 1},
                "choices": {"type": "array", "items": {"type": "string"}}
            },
            "required": ["question"],
            "additionalProperties": false
        }),
        json!({"question": "Which of the two endpoints may I remove?", "choices": ["/v1/users", "/v2/users"]}),
    )
}

fn report_tool() -> ToolSpec {
    tool(
        REPORT,
        ToolCategory::Ending,
        "Ends your work as failed. Only if the task can't be done; a plain answer is a success.",
        json!({
            "type": "object",
            "properties": {"reason": {"type": "string", "minLength": 1, "description": "What stands in the way, and what you know so far."}},
            "required": ["reason"],
            "additionalProperties": false
        }),
        json!({"reason": "The database that the tests need can't be reached."}),
    )
}

fn tool(
    name: &str,
    category: ToolCategory,
    description: &str,
    parameters: Value,
    example: Value,
) -> ToolSpec {
    ToolSpec {
        category,
        changes_where: None,
        read_only: None,
        name: name.to_owned(),
        description: description.to_owned(),
        parameters,
        repeat: Repeat::Safe,
        access: Access::ReadOnly,
        requires_approval: false,
        approval_where: None,
        example,
    }
}

/// A validated call of one of these tools.
pub(crate) enum LoopCall {
    /// A question to the user.
    AskUser(Question),
    /// The reason why the agent failed.
    Report(String),
}

impl LoopCall {
    /// Reads a validated call; `None` if it is a call of another tool.
    pub(crate) fn read(call: &ToolCall) -> Option<LoopCall> {
        #[derive(Deserialize)]
        struct Reported {
            reason: String,
        }
        match call.tool.as_str() {
            ASK_USER => Question::deserialize(&call.parameters)
                .ok()
                .map(LoopCall::AskUser),
            REPORT => Reported::deserialize(&call.parameters)
                .ok()
                .map(|reported| LoopCall::Report(reported.reason)),
            _ => None,
        }
    }
}

/// Returns the result of a call that asked the user.
pub fn answer_result(answer: &str) -> ToolResult {
    ToolResult::success(json!({"answer": answer}))
}
