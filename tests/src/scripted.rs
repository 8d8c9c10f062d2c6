//! A chat model with scripted replies, which records its requests.
//!
//! It decides nothing: the system prompt shows which agent asks, and each agent has a list of replies. A request for which
//! no reply is left fails, and the failure names the agent.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::VecDeque;
use std::sync::{Arc, LazyLock, Mutex};

use dirigent::AgentDefinition;
use dirigent::model::{ChatModel, ChatRequest};
use dirigent_core::message::{
    FinishReason, Message, ModelFailure, ModelFailureKind, ModelReply, ToolCall, Usage,
};
use dirigent_core::mode::Mode;
use dirigent_core::prompt::{parse_observations, roles};
use dirigent_core::tool::ModelToolResult;
use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, watch};

/// The agent that asks the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asker {
    /// The run's lead.
    Lead,
    /// The run's reflector.
    Reflector,
    /// The sub-agent with this name: a built-in one, or one whose role is `You are NAME.`.
    Agent(String),
}

/// The scripted answer to one request.
pub enum Reply {
    /// This text, without calls.
    Says(String),
    /// Native calls: the provider returns them separately from the text.
    Native(Vec<ToolCall>),
    /// The request never ends.
    Never,
    /// The request fails for this reason.
    Fails(&'static str),
    /// The model's own code panics.
    Panics(&'static str),
    /// The reply, once the gate is open.
    Behind(Gate, Box<Reply>),
}

impl Reply {
    /// Delays the reply until the gate is open.
    pub fn behind(self, gate: &Gate) -> Reply {
        Reply::Behind(gate.clone(), Box::new(self))
    }
}

/// Holds back a reply or a tool until the test opens the gate.
#[derive(Clone)]
pub struct Gate(Arc<Semaphore>);

impl Gate {
    /// Creates a closed gate.
    pub fn shut() -> Gate {
        Gate(Arc::new(Semaphore::new(0)))
    }

    /// Opens the gate permanently.
    pub fn open(&self) {
        self.0.close();
    }

    /// Waits until the gate is open.
    pub async fn passed(&self) {
        let _ = self.0.acquire().await;
    }
}

/// A request that the model received.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The agent that asked.
    pub who: Asker,
    /// The name of the requested model, if the agent has one.
    pub model: Option<String>,
    /// The whole conversation.
    pub messages: Vec<Message>,
}

impl Asked {
    /// The system prompt.
    pub fn system(&self) -> &str {
        self.messages[0].content()
    }

    /// The agent's task: the first user message, without the preamble that all agents of the run receive. For a lead, followed by the
    /// run's later messages.
    pub fn task(&self) -> String {
        self.told_after(without_preamble(self.messages[1].content()))
    }

    /// The first request, followed by the run's later messages to a lead.
    fn told_after(&self, request: &str) -> String {
        let told = self.messages.iter().skip(2).filter(|message| match message {
            Message::User { .. } => true,
            Message::Tool { name, .. } => name == "submit_plan",
            Message::System { .. } | Message::Assistant { .. } => false,
        });
        let told = told.map(Message::content);
        std::iter::once(request)
            .chain(told)
            .collect::<Vec<_>>()
            .join("\n")
    }

    /// The text of the last message.
    pub fn last(&self) -> &str {
        self.messages[self.messages.len() - 1].content()
    }

    /// The parts of the last message, a tool's result, by the names of [`ModelToolResult`].
    pub fn result(&self) -> Value {
        match &self.messages[self.messages.len() - 1] {
            Message::Tool { content, .. } => json!(ModelToolResult::from_text(content)),
            other => panic!("the last message is no result: {other:?}"),
        }
    }

    /// The roles of all messages, in order.
    pub fn roles(&self) -> Vec<&'static str> {
        self.messages
            .iter()
            .map(|message| match message {
                Message::System { .. } => "system",
                Message::User { .. } => "user",
                Message::Assistant { .. } => "assistant",
                Message::Tool { .. } => "tool",
            })
            .collect()
    }

    /// The content of the last section `<NAME>` in the agent's messages; `None` if there is none.
    pub fn section(&self, name: &str) -> Option<String> {
        let told = self.told_after(self.messages[1].content());
        let (_, rest) = told.rsplit_once(&format!("<{name}>"))?;
        Some(rest.split_once(&format!("</{name}>"))?.0.trim().to_owned())
    }

    /// The observations in the last section `<NAME>`.
    pub fn observations(&self, name: &str) -> Vec<Value> {
        parse_observations(&self.section(name).unwrap_or_else(|| panic!("no section {name}")))
    }
}

/// The scripted model. Clones share their state.
#[derive(Clone, Default)]
pub struct Scripted {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    scripts: Mutex<Vec<(Asker, Script)>>,
    asked: watch::Sender<Vec<Asked>>,
    dropped: Arc<Mutex<u32>>,
}

/// The replies to one agent.
enum Script {
    /// One reply for each request, in order.
    InOrder(VecDeque<Reply>),
    /// The reply is computed from the request.
    ByRequest(Arc<dyn Fn(&Asked) -> Reply + Send + Sync>),
}

impl Scripted {
    /// Creates a model without replies.
    pub fn new() -> Scripted {
        Scripted::default()
    }

    /// Sets the replies to leads, one for each request of the whole run.
    pub fn lead(self, replies: impl IntoIterator<Item = Reply>) -> Scripted {
        self.asker(Asker::Lead, replies)
    }

    /// Sets the replies to reflectors.
    pub fn reflector(self, replies: impl IntoIterator<Item = Reply>) -> Scripted {
        self.asker(Asker::Reflector, replies)
    }

    /// Sets the replies to the sub-agent with this name.
    pub fn agent(self, name: &str, replies: impl IntoIterator<Item = Reply>) -> Scripted {
        self.asker(Asker::Agent(name.to_owned()), replies)
    }

    /// Sets a function that computes the replies to all sub-agents with this name.
    pub fn agents(self, name: &str, reply: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Scripted {
        self.script(Asker::Agent(name.to_owned()), Script::ByRequest(Arc::new(reply)))
    }

    fn asker(self, who: Asker, replies: impl IntoIterator<Item = Reply>) -> Scripted {
        self.script(who, Script::InOrder(replies.into_iter().collect()))
    }

    fn script(self, who: Asker, script: Script) -> Scripted {
        self.inner.scripts.lock().unwrap().push((who, script));
        self
    }

    /// Every request so far, in order.
    pub fn asked(&self) -> Vec<Asked> {
        self.inner.asked.borrow().clone()
    }

    /// Waits for the first request.
    pub async fn until_asked(&self) {
        let mut asked = self.inner.asked.subscribe();
        asked.wait_for(|asked| !asked.is_empty()).await.unwrap();
    }

    /// The leads' requests so far.
    pub fn lead_asked(&self) -> Vec<Asked> {
        self.asked_by(&Asker::Lead)
    }

    /// The reflectors' requests so far.
    pub fn reflector_asked(&self) -> Vec<Asked> {
        self.asked_by(&Asker::Reflector)
    }

    /// The requests so far of the sub-agent with this name.
    pub fn agent_asked(&self, name: &str) -> Vec<Asked> {
        self.asked_by(&Asker::Agent(name.to_owned()))
    }

    fn asked_by(&self, who: &Asker) -> Vec<Asked> {
        self.asked()
            .into_iter()
            .filter(|asked| asked.who == *who)
            .collect()
    }

    /// The number of requests that were dropped before they were answered.
    pub fn dropped(&self) -> u32 {
        *self.inner.dropped.lock().unwrap()
    }

    fn next(&self, asked: &Asked) -> Reply {
        let mut scripts = self.inner.scripts.lock().unwrap();
        scripts
            .iter_mut()
            .filter(|(who, _)| *who == asked.who)
            .find_map(|(_, script)| match script {
                Script::InOrder(replies) => replies.pop_front(),
                Script::ByRequest(reply) => Some(reply(asked)),
            })
            .unwrap_or(Reply::Fails("the test has no further reply for this asker"))
    }
}

impl ChatModel for Scripted {
    fn chat(&self, request: ChatRequest) -> BoxFuture<'static, Result<ModelReply, ModelFailure>> {
        let asked = Asked {
            who: asker(&request.messages),
            model: request.model,
            messages: request.messages.to_vec(),
        };
        let reply = self.next(&asked);
        self.inner.asked.send_modify(|all| all.push(asked));
        let unanswered = CountDrop(Some(self.inner.dropped.clone()));
        async move {
            let answer = answer(reply).await;
            unanswered.answered();
            answer
        }
        .boxed()
    }
}

async fn answer(mut reply: Reply) -> Result<ModelReply, ModelFailure> {
    while let Reply::Behind(gate, held) = reply {
        gate.passed().await;
        reply = *held;
    }
    let (finish, content, calls) = match reply {
        Reply::Says(text) => (FinishReason::Stop, text, Vec::new()),
        Reply::Native(calls) => (FinishReason::ToolCalls, String::new(), calls),
        Reply::Never => std::future::pending().await,
        Reply::Fails(message) => {
            return Err(ModelFailure {
                kind: ModelFailureKind::Unavailable { retry_after: None },
                message: message.to_owned(),
            });
        }
        Reply::Panics(message) => panic!("{message}"),
        Reply::Behind(..) => unreachable!("unwrapped above"),
    };
    Ok(ModelReply {
        malformed_calls: Vec::new(),
        content,
        calls,
        finish,
        usage: Usage {
            model_calls: 1,
            tool_calls: 0,
            input_tokens: 100,
            output_tokens: 10,
            ..Usage::default()
        },
        model: None,
    })
}

struct CountDrop(Option<Arc<Mutex<u32>>>);

impl CountDrop {
    fn answered(mut self) {
        self.0 = None;
    }
}

impl Drop for CountDrop {
    fn drop(&mut self) {
        if let Some(count) = self.0.take() {
            *count.lock().unwrap() += 1;
        }
    }
}

static SHIPPED: LazyLock<Vec<AgentDefinition>> = LazyLock::new(dirigent::shipped_agents);

fn asker(messages: &[Message]) -> Asker {
    let system = messages[0].content();
    // A base system prompt may come before the role.
    let is = |role: &str| system.contains(role.trim_end());
    if [Mode::Auto, Mode::Plan]
        .iter()
        .any(|mode| is(&roles::lead(*mode)))
    {
        return Asker::Lead;
    }
    if is(roles::REFLECTOR) {
        return Asker::Reflector;
    }
    if let Some(agent) = SHIPPED.iter().find(|agent| is(agent.role())) {
        return Asker::Agent(agent.name().to_owned());
    }
    let name = system
        .strip_prefix("You are ")
        .and_then(|rest| rest.split_once('.'))
        .unwrap_or_else(|| panic!("an unknown agent asks: {system}"))
        .0;
    Asker::Agent(name.to_owned())
}

// Replies

/// A reply with this text.
pub fn says(text: impl Into<String>) -> Reply {
    Reply::Says(text.into())
}

/// A call after which the model is asked again (`"terminate": false`).
pub fn call(tool: &str, parameters: Value) -> Reply {
    says(json!({"tool": tool, "parameters": parameters, "terminate": false}).to_string())
}

/// A call whose result ends the agent's loop (`"terminate": true`).
pub fn last_call(tool: &str, parameters: Value) -> Reply {
    says(json!({"tool": tool, "parameters": parameters, "terminate": true}).to_string())
}

/// Several calls in one reply, as providers with native calls deliver them.
pub fn native<const N: usize>(calls: [(&str, Value); N]) -> Reply {
    let call = |(tool, parameters): (&str, Value)| ToolCall {
        id: String::new(),
        tool: tool.to_owned(),
        parameters,
        terminate: false,
    };
    Reply::Native(calls.into_iter().map(call).collect())
}

/// Submits a plan with these sub-tasks.
pub fn plan<const N: usize>(summary: &str, subtasks: [Value; N]) -> Reply {
    last_call(
        "submit_plan",
        json!({"summary": summary, "subtasks": subtasks.to_vec()}),
    )
}

/// Submits a plan that answers the given guidance.
pub fn plan_for_guidance<const N: usize>(summary: &str, answers: &[u32], subtasks: [Value; N]) -> Reply {
    last_call(
        "submit_plan",
        json!({"summary": summary, "answers_guidance": answers, "subtasks": subtasks.to_vec()}),
    )
}

/// A sub-task for a sub-agent.
pub fn delegate(id: &str, agent: &str, task: &str) -> Value {
    json!({"id": id, "title": format!("Title of {id}"), "agent": agent, "task": task})
}

/// A sub-task of tool calls.
pub fn calls<const N: usize>(id: &str, calls: [(&str, Value); N]) -> Value {
    let calls: Vec<Value> = calls
        .into_iter()
        .map(|(tool, parameters)| json!({"tool": tool, "parameters": parameters}))
        .collect();
    json!({"id": id, "title": format!("Title of {id}"), "calls": calls})
}

/// Makes the sub-task depend on these sub-tasks.
pub fn after<const N: usize>(mut subtask: Value, dependencies: [&str; N]) -> Value {
    subtask["depends_on"] = json!(dependencies.to_vec());
    subtask
}

/// Submits the reflection that the goal is reached.
pub fn achieved(summary: &str) -> Reply {
    last_call(
        "submit_reflection",
        json!({"verdict": "achieved", "summary": summary}),
    )
}

/// Submits the reflection that work remains.
pub fn go_on(summary: &str) -> Reply {
    last_call(
        "submit_reflection",
        json!({"verdict": "continue", "summary": summary}),
    )
}

/// Submits the reflection that the goal cannot be reached.
pub fn hopeless(summary: &str) -> Reply {
    last_call(
        "submit_reflection",
        json!({"verdict": "failed", "summary": summary}),
    )
}

/// Submits the reflection that only the user can decide.
pub fn ask_user(summary: &str, question: &str) -> Reply {
    last_call(
        "submit_reflection",
        json!({"verdict": "ask_user", "summary": summary, "question": question}),
    )
}

/// Removes the preamble that all agents receive before their task: the project, and for sub-agents the run's goal.
fn without_preamble(request: &str) -> &str {
    let after = |text, end| str::split_once(text, end).map_or(text, |(_, rest)| rest);
    let request = after(request, "</ENVIRONMENT>\n");
    after(request, "so it must say all that matters.\n")
}
