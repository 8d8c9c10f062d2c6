//! The tools `ask_user` and `give_up`, which every agent except the reflector has (LEAD-4), and `describe_tool` and `call_tool`, with which
//! a lead uses the tools of services (MCP-4).
//!
//! Like `delegate`, they are not tools of the run: an agent is offered them if its spec lists them, and its state machine handles their calls.
//! The user's rules do not apply to these tools, because they only communicate with the user and the run. The rules do apply to the tool
//! that `call_tool` names.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::answer_form::AnswerForm;
use crate::message::ToolCall;
use crate::question::Question;
use crate::tool::{Access, Repeat, ToolCategory, ToolResult, ToolSpec};

/// The name of the delegation tool. An agent may delegate if its spec lists this tool.
pub const DELEGATE: &str = "delegate";

/// The name of the tool that asks the user. The call waits for the answer, which is its result.
pub const ASK_USER: &str = "ask_user";

/// The name of the tool with which an agent ends as failed.
pub const GIVE_UP: &str = "give_up";

/// The name of the tool that returns the description and the schema of a service's tool.
pub const DESCRIBE_TOOL: &str = "describe_tool";

/// The name of the tool that calls a service's tool. In every other respect, the call counts as a call of that tool: its access, rules,
/// approval and parameters are checked, and it is shown in the journal and the views.
pub const CALL_TOOL: &str = "call_tool";

/// Returns true for the name of a tool that an agent's machine handles itself. Tools of a run must not have these names.
pub fn is_reserved(tool: &str) -> bool {
    [ASK_USER, GIVE_UP, DESCRIBE_TOOL, CALL_TOOL].contains(&tool)
}

/// Returns true for a tool that is left out of an agent's description, because every agent has it or it is described elsewhere.
pub(crate) fn is_control_tool(tool: &str) -> bool {
    tool == DELEGATE || is_reserved(tool)
}

/// Returns the tools of this module for an agent with this form of answer; none for the reflector, which uses its
/// verdicts instead.
pub fn loop_tools(answer: AnswerForm) -> Vec<ToolSpec> {
    match answer {
        AnswerForm::Text | AnswerForm::Plan => vec![ask_user_tool(), give_up_tool()],
        AnswerForm::Reflection => Vec::new(),
    }
}

/// Returns `describe_tool` and `call_tool`, for the lead of a run with tools of services. Their descriptions name none of these tools, so
/// that all requests begin with the same text, whatever tools the services have.
pub fn service_tools() -> Vec<ToolSpec> {
    vec![describe_tool(), call_tool()]
}

fn describe_tool() -> ToolSpec {
    tool(
        DESCRIBE_TOOL,
        ToolCategory::Other,
        "Returns what a tool of a service does and its parameters. Needed before the first `call_tool` of that tool.",
        json!({
            "type": "object",
            "properties": {"name": {"type": "string", "minLength": 1}},
            "required": ["name"],
            "additionalProperties": false
        }),
        json!({"name": "mcp__github__create_issue"}),
    )
}

fn call_tool() -> ToolSpec {
    tool(
        CALL_TOOL,
        ToolCategory::Other,
        "Calls a tool of a service by its name.",
        json!({
            "type": "object",
            "properties": {
                "name": {"type": "string", "minLength": 1},
                "arguments": {"type": "object", "description": "The tool's parameters."}
            },
            "required": ["name"],
            "additionalProperties": false
        }),
        json!({"name": "mcp__github__create_issue", "arguments": {"title": "Crash at start-up"}}),
    )
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

fn give_up_tool() -> ToolSpec {
    tool(
        GIVE_UP,
        ToolCategory::Ending,
        "Ends your work as failed. Only if the task can't be done.",
        json!({
            "type": "object",
            "properties": {"reason": {"type": "string", "minLength": 1, "description": "What stands in the way, and all your findings."}},
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
        rules: Vec::new(),
        example,
    }
}

/// A validated call of one of this module's tools.
pub(crate) enum LoopCall {
    /// A question to the user.
    AskUser(Question),
    /// The reason why the agent gives up.
    GiveUp(String),
    /// The name of the tool to describe.
    Describe(String),
    /// A call of another tool.
    Call(ToolCall),
}

impl LoopCall {
    /// Reads a validated call; `None` if it is a call of another tool.
    pub(crate) fn read(call: &ToolCall) -> Option<LoopCall> {
        #[derive(Deserialize)]
        struct GivenUp {
            reason: String,
        }
        #[derive(Deserialize)]
        struct Named {
            name: String,
            #[serde(default)]
            arguments: Map<String, Value>,
        }
        match call.tool.as_str() {
            ASK_USER => Question::deserialize(&call.parameters)
                .ok()
                .map(LoopCall::AskUser),
            GIVE_UP => GivenUp::deserialize(&call.parameters)
                .ok()
                .map(|given_up| LoopCall::GiveUp(given_up.reason)),
            DESCRIBE_TOOL => Named::deserialize(&call.parameters)
                .ok()
                .map(|named| LoopCall::Describe(named.name)),
            CALL_TOOL => Named::deserialize(&call.parameters).ok().map(|named| {
                LoopCall::Call(ToolCall {
                    id: call.id.clone(),
                    tool: named.name,
                    parameters: Value::Object(named.arguments),
                    terminate: call.terminate,
                })
            }),
            _ => None,
        }
    }
}

/// Returns the result of a call of `describe_tool`. JSON: `{"name": "…", "description": "…", "parameters": {…}}`, with the JSON Schema of the
/// parameters.
pub(crate) fn description_result(tool: &ToolSpec) -> ToolResult {
    ToolResult::success(json!({
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters_for_model(),
    }))
}

/// Returns the result of a call that asked the user.
pub fn answer_result(answer: &str) -> ToolResult {
    ToolResult::success(json!({"answer": answer}))
}
