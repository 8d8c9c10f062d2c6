//! Scripted models and tools: functions of a test give the models' replies and do the tools' work. Nothing here waits for time to pass.

use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use dirigent_core::agent_spec::{AgentSpec, AnswerForm, ModelProfile};
use dirigent_core::limits::{AgentLimits, RunLimits};
use dirigent_core::message::{FinishReason, Message, ModelFailure, ModelReply, ToolCall, Usage};
use dirigent_core::policy::Policy;
use dirigent_core::setup::RunSetup;
use dirigent_core::spec::RunSpec;
use dirigent_core::time::Millis;
use dirigent_core::tool::{Access, Repeat, ToolCategory, ToolResult, ToolSpec};
use dirigent_model::{ChatModel, ChatRequest};
use dirigent_tools::{Tool, ToolContext, ToolRegistry, ToolSource as _};
use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

/// A model's answer.
pub type Reply = Result<ModelReply, ModelFailure>;

/// A request as a script sees it.
#[derive(Clone)]
pub struct Asked {
    messages: Arc<Vec<Message>>,
    request: ChatRequest,
}

impl Asked {
    /// The agent: its system prompt is its name.
    pub fn who(&self) -> &str {
        self.messages[0].content()
    }

    /// The agent's task and, for a lead, the later messages to it.
    pub fn task(&self) -> String {
        let told = self.messages.iter().skip(2).filter(|message| match message {
            Message::User { .. } => true,
            Message::Tool { name, .. } => name == "submit_plan",
            Message::System { .. } | Message::Assistant { .. } => false,
        });
        let told = told.map(Message::content);
        std::iter::once(self.messages[1].content())
            .chain(told)
            .collect::<Vec<_>>()
            .join("\n")
    }

    /// The number of earlier replies to this agent; for a lead, since it was last continued.
    pub fn turn(&self) -> usize {
        let messages = self.messages.iter().rev();
        let replies = messages
            .take_while(|message| !is_continuation(message))
            .filter(|m| matches!(m, Message::Assistant { .. }));
        replies.count()
    }

    /// The maximum length of the reply, in tokens.
    pub fn max_output_tokens(&self) -> Option<u64> {
        self.request.max_output_tokens
    }

    /// Returns true if the reply is streamed.
    pub fn has_listeners(&self) -> bool {
        self.request.deltas.is_some()
    }

    /// Streams a piece of the reply.
    pub fn send(&self, piece: &str) {
        if let Some(deltas) = &self.request.deltas {
            deltas.send(piece);
        }
    }

    /// All messages, one after the other.
    pub fn all(&self) -> String {
        self.messages.iter().map(Message::content).collect()
    }

    /// The last message.
    pub fn last(&self) -> &str {
        self.messages[self.messages.len() - 1].content()
    }
}

/// Returns true if the message continues a lead.
fn is_continuation(message: &Message) -> bool {
    match message {
        Message::User { content } | Message::Tool { content, .. } => content.starts_with("<ITERATION>"),
        Message::System { .. } | Message::Assistant { .. } => false,
    }
}

/// A model whose replies are computed by a function.
pub struct Scripted {
    answer: Box<dyn Fn(Asked) -> BoxFuture<'static, Reply> + Send + Sync>,
    asked: AtomicUsize,
}

impl Scripted {
    pub fn new<F: Future<Output = Reply> + Send + 'static>(
        answer: impl Fn(Asked) -> F + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Scripted {
            answer: Box::new(move |asked| answer(asked).boxed()),
            asked: AtomicUsize::new(0),
        })
    }

    /// A model whose replies may wait at the gate.
    pub fn gated<F: Future<Output = Reply> + Send + 'static>(
        gate: &Arc<Gate>,
        answer: impl Fn(Asked, Arc<Gate>) -> F + Send + Sync + 'static,
    ) -> Arc<Self> {
        let gate = gate.clone();
        Self::new(move |asked| answer(asked, gate.clone()))
    }

    /// The number of requests.
    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

impl ChatModel for Scripted {
    fn chat(&self, request: ChatRequest) -> BoxFuture<'static, Reply> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        (self.answer)(Asked {
            messages: request.messages.clone(),
            request,
        })
    }
}

/// A reply of plain text with the usage of every reply here: 10 tokens in, 5 out.
pub fn say(text: &str) -> Reply {
    Ok(ModelReply {
        content: text.to_owned(),
        calls: Vec::new(),
        malformed_calls: Vec::new(),
        finish: FinishReason::Stop,
        usage: Usage {
            model_calls: 1,
            tool_calls: 0,
            input_tokens: 10,
            output_tokens: 5,
            ..Usage::default()
        },
        model: None,
    })
}

pub fn call(tool: &str, parameters: Value) -> Reply {
    let reply = say("");
    reply.map(|reply| ModelReply {
        calls: vec![ToolCall {
            id: String::new(),
            tool: tool.to_owned(),
            parameters,
            terminate: false,
        }],
        finish: FinishReason::ToolCalls,
        ..reply
    })
}

pub fn plan(summary: &str, subtasks: Value) -> Reply {
    call("submit_plan", json!({"summary": summary, "subtasks": subtasks}))
}

/// A plan of one sub-task for the agent `worker`.
pub fn plan_work() -> Reply {
    plan("let it be worked on", json!([work("work", &[])]))
}

/// A plan of one call of this tool.
pub fn plan_call(tool: &str) -> Reply {
    plan(
        "call it",
        json!([{"id": "call", "title": "call it", "calls": [{"tool": tool, "parameters": {}}]}]),
    )
}

/// A sub-task for the agent `worker`, whose task is its id.
pub fn work(id: &str, depends_on: &[&str]) -> Value {
    json!({"id": id, "title": id, "depends_on": depends_on, "agent": "worker", "task": id})
}

pub fn achieved() -> Reply {
    achieved_with("It is done.")
}

fn achieved_with(summary: &str) -> Reply {
    call(
        "submit_reflection",
        json!({"verdict": "achieved", "summary": summary}),
    )
}

/// The reply of a reflector that asks the user until the lead's answer is this text, and then finds the goal achieved with it.
pub fn ask_user_until(asked: &Asked, answer: &str) -> Reply {
    if asked.task().contains(answer) {
        achieved_with(answer)
    } else {
        ask_user()
    }
}

pub fn ask_user() -> Reply {
    call(
        "submit_reflection",
        json!({"verdict": "ask_user", "summary": "Unclear.", "question": "Which one?", "choices": ["a", "b"]}),
    )
}

/// Demands more work until the lead's answer is this text, and then finds the goal achieved with it.
pub fn continue_until(asked: &Asked, answer: &str) -> Reply {
    if asked.task().contains(answer) {
        achieved_with(answer)
    } else {
        call(
            "submit_reflection",
            json!({"verdict": "continue", "summary": "Not yet."}),
        )
    }
}

/// A tool whose results are computed by a function.
pub struct Scriptool {
    spec: ToolSpec,
    body: Box<dyn Fn(ToolContext, Value) -> BoxFuture<'static, ToolResult> + Send + Sync>,
}

impl Scriptool {
    pub fn new<F: Future<Output = ToolResult> + Send + 'static>(
        name: &str,
        repeat: Repeat,
        body: impl Fn(ToolContext, Value) -> F + Send + Sync + 'static,
    ) -> Self {
        Scriptool {
            spec: ToolSpec {
                category: ToolCategory::Other,
                changes_where: None,
                read_only: None,
                name: name.to_owned(),
                description: "Does what the test says.".to_owned(),
                parameters: json!({"type": "object"}),
                repeat,
                access: Access::ReadOnly,
                requires_approval: false,
                approval_where: None,
                rules: Vec::new(),
                example: Value::Null,
            },
            body: Box::new(move |context, parameters| body(context, parameters).boxed()),
        }
    }
}

impl Scriptool {
    /// A tool whose calls wait at the gate.
    pub fn waiting(name: &str, repeat: Repeat, gate: &Arc<Gate>) -> Self {
        let gate = gate.clone();
        Self::new(name, repeat, move |_, _| {
            gate.clone().pass().map(|()| ToolResult::success(Value::Null))
        })
    }

    /// Makes each call need approval.
    pub fn needing_approval(mut self) -> Self {
        self.spec.requires_approval = true;
        self
    }
}

impl Tool for Scriptool {
    fn spec(&self) -> ToolSpec {
        self.spec.clone()
    }

    fn call(&self, context: ToolContext, parameters: Value) -> BoxFuture<'static, ToolResult> {
        (self.body)(context, parameters)
    }
}

pub fn tools(tools: impl IntoIterator<Item = Scriptool>) -> ToolRegistry {
    let mut registry = ToolRegistry::new();
    for tool in tools {
        registry.insert(tool);
    }
    registry
}

/// A tool that counts its calls and succeeds with their number.
pub fn counting(name: &str, repeat: Repeat) -> (Scriptool, Arc<AtomicUsize>) {
    let count = Arc::<AtomicUsize>::default();
    let counter = count.clone();
    let tool = Scriptool::new(name, repeat, move |_, _| {
        let number = counter.fetch_add(1, Ordering::SeqCst) + 1;
        std::future::ready(ToolResult::success(json!(number)))
    });
    (tool, count)
}

/// A place where scripts wait until the test lets them through.
pub struct Gate {
    entered: Semaphore,
    open: Semaphore,
    inside: AtomicUsize,
}

impl Gate {
    pub fn shut() -> Arc<Self> {
        Arc::new(Gate {
            entered: Semaphore::new(0),
            open: Semaphore::new(0),
            inside: AtomicUsize::new(0),
        })
    }

    /// For scripts: waits until the gate is open.
    pub async fn pass(self: Arc<Self>) {
        let inside = Inside(&self);
        self.inside.fetch_add(1, Ordering::SeqCst);
        self.entered.add_permits(1);
        let _ = self.open.acquire().await;
        drop(inside);
    }

    /// For tests: waits until another script has arrived at the gate.
    pub async fn entered(&self) {
        self.entered.acquire().await.unwrap().forget();
    }

    /// Opens the gate for all scripts that wait or arrive later.
    pub fn open(&self) {
        self.open.add_permits(1_000);
    }

    /// The number of scripts that wait at the gate, without dropped ones.
    pub fn inside(&self) -> usize {
        self.inside.load(Ordering::SeqCst)
    }
}

struct Inside<'a>(&'a Gate);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.inside.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A run with the sub-agent `worker`, which may call all of these tools.
pub fn spec(workspace: &Path, tools: &ToolRegistry) -> RunSpec {
    let tools = tools.specs();
    let names: Vec<String> = tools.iter().map(|tool| tool.name.clone()).collect();
    RunSpec {
        files: Vec::new(),
        mode: Default::default(),
        worktree: None,
        project: None,
        probes: Vec::new(),
        services: Vec::new(),
        service_endpoints: Default::default(),
        reads_diff: false,
        workflow: None,
        turn: None,
        goal: "Make it so".to_owned(),
        workspace: workspace.to_str().unwrap().to_owned(),
        limits: RunLimits::default(),
        setup: RunSetup {
            lead: agent("lead", AnswerForm::Plan, Vec::new()),
            reflector: agent("reflector", AnswerForm::Reflection, Vec::new()),
            agents: vec![agent("worker", AnswerForm::Text, names)],
            tools,
            policy: Policy::default(),
            approval_rules: 0,
        }
        .into(),
    }
}

fn agent(name: &str, answer: AnswerForm, tools: Vec<String>) -> AgentSpec {
    AgentSpec {
        name: name.to_owned(),
        description: format!("Is the {name}."),
        system_prompt: name.to_owned(),
        tools,
        access: Access::ReadWrite,
        model: None,
        limits: AgentLimits {
            // Long enough for a busy machine: only tests that set a shorter timeout reach it.
            timeout: Millis::from_secs(3_600),
            max_turns: 100_000,
            max_repeats: u32::MAX,
            ..AgentLimits::default()
        },
        answer,
        asks: None,
        base_prompt: None,
        deepest_prompt: None,
        profile: ModelProfile::default(),
    }
}
