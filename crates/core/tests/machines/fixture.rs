//! A small run spec, replies and ids, and one-line forms of commands.

use std::sync::Arc;

use dirigent_core::agent::{Agent, AgentCommand, AgentInput, AgentTimer};
use dirigent_core::agent_report::{AgentAnswer, AgentReport, AgentWork};
use dirigent_core::agent_spec::{AgentSpec, AnswerForm, ModelProfile};
use dirigent_core::brief::{AgentBrief, AgentRole};
use dirigent_core::id::{AgentId, EffectId};
use dirigent_core::limits::{AgentLimits, RunLimits};
use dirigent_core::message::{FinishReason, Message, ModelReply, ToolCall, Usage};
use dirigent_core::plan::Plan;
use dirigent_core::policy::Policy;
use dirigent_core::reflection::Reflection;
use dirigent_core::run::{RunCommand, RunInput};
use dirigent_core::setup::RunSetup;
use dirigent_core::spec::RunSpec;
use dirigent_core::time::{Millis, Timestamp};
use dirigent_core::tool::{Access, ModelToolResult, Repeat, ToolCategory, ToolResult, ToolSpec};
use serde_json::{Value, json};

/// The time this many milliseconds after the start of the test, which is at 1,000.
pub fn at(after: u64) -> Timestamp {
    Timestamp(1_000 + after)
}

pub fn effect(text: &str) -> EffectId {
    text.parse().unwrap()
}

/// The process resumes the run. The time since the machine's last input does not count.
pub fn resumed() -> RunInput {
    RunInput::Resumed {
        last_seen: at(0),
        forked: false,
        limits: None,
        interrupted: Default::default(),
    }
}

/// Like [`resumed`], for an agent.
pub fn agent_resumed() -> AgentInput {
    AgentInput::Resumed {
        last_seen: at(0),
        forked: false,
    }
}

pub fn tool(name: &str, description: &str, repeat: Repeat) -> ToolSpec {
    ToolSpec {
        category: ToolCategory::Other,
        changes_where: None,
        read_only: None,
        name: name.to_owned(),
        description: description.to_owned(),
        parameters: json!({
            "type": "object",
            "properties": {"path": {"type": "string"}},
            "required": ["path"],
            "additionalProperties": false
        }),
        repeat,
        access: Access::ReadOnly,
        requires_approval: false,
        approval_where: None,
        rules: Vec::new(),
        example: json!({"path": "src/lib.rs"}),
    }
}

fn agent_spec(name: &str, tools: &[&str], answer: AnswerForm) -> AgentSpec {
    AgentSpec {
        name: name.to_owned(),
        description: format!("The {name} agent."),
        system_prompt: format!("You are the {name}."),
        tools: tools.iter().map(|tool| (*tool).to_owned()).collect(),
        access: Access::ReadWrite,
        model: None,
        limits: AgentLimits::default(),
        answer,
        asks: None,
        base_prompt: None,
        deepest_prompt: None,
        profile: ModelProfile::default(),
    }
}

/// The fields of a result's message, as in [`ModelToolResult`].
pub fn result_parts(message: &Message) -> Value {
    json!(ModelToolResult::from_text(message.content()))
}

/// `look` is safe to repeat, `change` is not; `explore` may only call `look`, `implement` may call both.
pub fn spec() -> RunSpec {
    RunSpec {
        files: Vec::new(),
        mode: Default::default(),
        worktree: None,
        project: None,
        probes: Vec::new(),
        reads_diff: false,
        workflow: None,
        turn: None,
        services: Vec::new(),
        service_endpoints: Default::default(),
        goal: "Rename `a` to `b`".to_owned(),
        workspace: "/work".to_owned(),
        limits: RunLimits::default(),
        setup: RunSetup {
            lead: agent_spec("lead", &["look"], AnswerForm::Plan),
            reflector: agent_spec("reflector", &[], AnswerForm::Reflection),
            agents: vec![
                agent_spec("explore", &["look"], AnswerForm::Text),
                agent_spec("implement", &["look", "change"], AnswerForm::Text),
            ],
            tools: vec![
                tool("look", "Looks at a file. Changes nothing.", Repeat::Safe),
                tool("change", "Changes a file.", Repeat::Unsafe),
            ],
            policy: Policy::default(),
            approval_rules: 0,
        }
        .into(),
    }
}

/// Agent 7 with this role, started at [`at`]`(0)` with the task "Do it."
pub fn started(spec: RunSpec, role: AgentRole) -> Agent {
    let spec = Arc::new(spec);
    let brief = AgentBrief {
        agent: AgentId(7),
        role,
        task: "Do it.".to_owned(),
        agents_left: None,
        guidance: None,
        depth: 0,
        caller: None,
    };
    let (agent, commands) = Agent::start(at(0), spec, brief).unwrap();
    assert_eq!(agent_outline(&commands), ["deadline 301000", "ask a7.1"]);
    agent
}

pub fn implementer() -> Agent {
    started(spec(), AgentRole::Sub("implement".to_owned()))
}

pub fn usage(input_tokens: u64, output_tokens: u64) -> Usage {
    Usage {
        model_calls: 1,
        tool_calls: 0,
        input_tokens,
        output_tokens,
        ..Usage::default()
    }
}

pub fn text(content: &str) -> ModelReply {
    ModelReply {
        content: content.to_owned(),
        calls: Vec::new(),
        malformed_calls: Vec::new(),
        finish: FinishReason::Stop,
        usage: usage(10, 5),
        model: None,
    }
}

/// A reply with one call in the JSON form.
pub fn says_call(tool: &str, parameters: Value, terminate: bool) -> ModelReply {
    text(&json!({"tool": tool, "parameters": parameters, "terminate": terminate}).to_string())
}

/// A reply with native calls, separate from the text.
pub fn native(calls: Vec<ToolCall>) -> ModelReply {
    ModelReply {
        calls,
        finish: FinishReason::ToolCalls,
        ..text("")
    }
}

pub fn call(id: &str, tool: &str, parameters: Value) -> ToolCall {
    ToolCall {
        id: id.to_owned(),
        tool: tool.to_owned(),
        parameters,
        terminate: false,
    }
}

pub fn replied(of: &str, reply: ModelReply) -> AgentInput {
    AgentInput::ModelReplied {
        effect: effect(of),
        reply,
    }
}

pub fn tool_ended(of: &str, result: ToolResult) -> AgentInput {
    AgentInput::ToolFinished {
        effect: effect(of),
        result,
    }
}

pub fn plan(parameters: &Value) -> Plan {
    Plan::from_parameters(parameters).unwrap()
}

pub fn reflection(parameters: &Value) -> Reflection {
    Reflection::from_parameters(parameters).unwrap()
}

/// The end of an agent that used 15 tokens.
pub fn ended_with(answer: AgentAnswer) -> AgentReport {
    AgentReport {
        result: Ok(answer),
        work: AgentWork {
            usage: usage(10, 5),
            ..AgentWork::default()
        },
        duration: Millis(40),
        guidance: None,
    }
}

fn call_line(call: &ToolCall) -> String {
    let id = if call.id.is_empty() {
        String::new()
    } else {
        format!("{}: ", call.id)
    };
    let end = if call.terminate { " and end" } else { "" };
    format!("{id}{} {}{end}", call.tool, call.parameters)
}

/// The commands, one per line.
pub fn agent_outline(commands: &[AgentCommand]) -> Vec<String> {
    commands
        .iter()
        .map(|command| match command {
            AgentCommand::AskModel { effect } => format!("ask {effect}"),
            AgentCommand::RunTool { effect, call } => format!("run {effect} {}", call_line(call)),
            AgentCommand::SetTimer {
                timer: AgentTimer::Deadline,
                at,
            } => format!("deadline {}", at.0),
            AgentCommand::SetTimer {
                timer: AgentTimer::UserRequest,
                at,
            } => format!("approval until {}", at.0),
            AgentCommand::AskApproval { approval, .. } => {
                format!(
                    "ask to approve {} {} {}",
                    approval.effect, approval.tool, approval.parameters
                )
            }
            AgentCommand::AskUser { question, .. } => {
                format!(
                    "ask user {} {} {:?}",
                    question.effect, question.question.question, question.question.choices
                )
            }
            AgentCommand::AnswerTool {
                effect,
                answer: Some(answer),
            } => format!("answer {effect} with {answer}"),
            AgentCommand::AnswerTool { effect, answer: None } => format!("no answer for {effect}"),
            AgentCommand::CallSettled { effect } => format!("settled {effect}"),
            AgentCommand::GuideRun { effect, guidance } => {
                format!("guide the run about {effect}: {guidance}")
            }
            AgentCommand::BeginActing => "begin to act".to_owned(),
            AgentCommand::Stop => "stop".to_owned(),
            AgentCommand::Delegate { effect, agent, task } => format!("delegate {effect} to {agent}: {task}"),
            AgentCommand::Finish { report } => match &report.result {
                Ok(AgentAnswer::Text(text)) => format!("finish with {text}"),
                Ok(AgentAnswer::Plan(plan)) => format!("finish with plan {}", plan.summary),
                Ok(AgentAnswer::Reflection(reflection)) => {
                    format!("finish with {:?}: {}", reflection.verdict, reflection.summary)
                }
                Err(failure) => format!("finish, as {failure}"),
            },
        })
        .collect()
}

/// The commands, one per line, without the tasks of briefs.
pub fn run_outline(commands: &[RunCommand]) -> Vec<String> {
    commands
        .iter()
        .map(|command| match command {
            RunCommand::Announce { transition } => format!(
                "{} -> {} ({})",
                transition.from, transition.to, transition.iteration
            ),
            RunCommand::StartAgent {
                effect,
                brief,
                continuation,
            } => {
                let role = match &brief.role {
                    AgentRole::Lead => "lead",
                    AgentRole::Reflector => "reflector",
                    AgentRole::Sub(name) => name,
                };
                let start = match continuation {
                    Some(_) => "continue",
                    None => "start",
                };
                format!("{start} {effect} {} {role}", brief.agent)
            }
            RunCommand::GuideAgent { agent, guidance } => format!("guide agent {agent}: {guidance}"),
            RunCommand::ChangeTools {
                agent,
                number,
                change,
            } => format!("change tools {agent} {number}. {}", change.service),
            RunCommand::AllowCalls { agent, number, calls } => format!("allow {agent} {number}. {calls}"),
            RunCommand::GuideLead {
                agent,
                number,
                guidance,
            } => format!("guide {agent} {number}. {guidance}"),
            RunCommand::RedirectLead {
                agent,
                number,
                guidance,
            } => format!("redirect {agent} {number}. {guidance}"),
            RunCommand::RunTool {
                effect,
                subtask,
                call,
            } => format!("run {effect} for {subtask}: {}", call_line(call)),
            RunCommand::StopTool { effect } => format!("stop {effect}"),
            RunCommand::ReadDiff { effect } => format!("read diff {effect}"),
            RunCommand::AskUser { effect, question } => {
                format!("ask user {effect} {} {:?}", question.question, question.choices)
            }
            RunCommand::SetTimer { timer, at } => format!("timer {timer:?} {}", at.0),
            RunCommand::StopAgent { agent } => format!("stop agent {agent}"),
            RunCommand::ReturnFindings { effect, result } => {
                format!("return {effect} {}", result.for_model())
            }
            RunCommand::AskApproval { approval } => {
                format!(
                    "ask to approve {} {} {}",
                    approval.effect, approval.tool, approval.parameters
                )
            }
            RunCommand::AwaitUser { effect } => format!("await user {effect}"),
            RunCommand::Finish { reason } => format!("finish, {reason}"),
        })
        .collect()
}
