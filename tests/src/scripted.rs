//! A chat model that says what a test wrote down, and remembers what it was asked.
//!
//! It never decides anything: who asks is read from the system prompt, and each asker has its replies in order. A request for which
//! none is left fails, and the failure names the asker.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::VecDeque;
use std::sync::{Arc, LazyLock, Mutex};

use dirigent::AgentDefinition;
use dirigent::model::{ChatModel, ChatRequest};
use dirigent_core::message::{
    FinishReason, Message, ModelFailure, ModelFailureKind, ModelReply, ToolCall, Usage,
};
use dirigent_core::mode::Mode;
use dirigent_core::prompt::roles;
use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

/// Who asks the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asker {
    /// The run's lead.
    Lead,
    /// The run's reflector.
    Reflector,
    /// The sub-agent of that name: a built-in one, or one whose role is `You are NAME.`.
    Agent(String),
}

/// What a test's model says to one request.
pub enum Reply {
    /// This text, finished.
    Says(String),
    /// Calls that the provider delivers apart from the text.
    Native(Vec<ToolCall>),
    /// Nothing, for ever.
    Never,
    /// No answer, for that reason.
    Fails(&'static str),
    /// The model's own code panics.
    Panics(&'static str),
    /// The reply, once the gate is open.
    Behind(Gate, Box<Reply>),
}

impl Reply {
    /// The same, but not before the gate is open.
    pub fn behind(self, gate: &Gate) -> Reply {
        Reply::Behind(gate.clone(), Box::new(self))
    }
}

/// Holds a reply or a tool back until a test lets it go.
#[derive(Clone)]
pub struct Gate(Arc<Semaphore>);

impl Gate {
    /// A gate that is shut.
    pub fn shut() -> Gate {
        Gate(Arc::new(Semaphore::new(0)))
    }

    /// Opens it for good.
    pub fn open(&self) {
        self.0.close();
    }

    /// Waits until it is open.
    pub async fn passed(&self) {
        let _ = self.0.acquire().await;
    }
}

/// A request that the model got.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Who asked.
    pub who: Asker,
    /// The model that was asked for, where the agent names one.
    pub model: Option<String>,
    /// The whole conversation.
    pub messages: Vec<Message>,
}

impl Asked {
    /// The system prompt.
    pub fn system(&self) -> &str {
        self.messages[0].content()
    }

    /// The first user message: what the agent is to do. For a lead, what it was told since as well.
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

    /// The text of the last message.
    pub fn last(&self) -> &str {
        self.messages[self.messages.len() - 1].content()
    }

    /// The last message, a tool's result.
    pub fn result(&self) -> Value {
        match &self.messages[self.messages.len() - 1] {
            Message::Tool { content, .. } => serde_json::from_str(content).expect("results are JSON"),
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

    /// The content of the last section `<NAME>` of the task; none where it has none.
    pub fn section(&self, name: &str) -> Option<String> {
        let task = self.task();
        let (_, rest) = task.rsplit_once(&format!("<{name}>"))?;
        Some(rest.split_once(&format!("</{name}>"))?.0.trim().to_owned())
    }

    /// The lines of such a section, each as JSON.
    pub fn json_lines(&self, name: &str) -> Vec<Value> {
        let section = self.section(name).unwrap_or_else(|| panic!("no section {name}"));
        section
            .lines()
            .map(|line| serde_json::from_str(line).expect("a line of JSON"))
            .collect()
    }
}

/// The model. Clones are the same one.
#[derive(Clone, Default)]
pub struct Scripted {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    scripts: Mutex<Vec<(Asker, Script)>>,
    asked: Mutex<Vec<Asked>>,
    dropped: Arc<Mutex<u32>>,
}

/// What an asker is told.
enum Script {
    /// This, request by request.
    InOrder(VecDeque<Reply>),
    /// What the request asks for.
    ByRequest(Arc<dyn Fn(&Asked) -> Reply + Send + Sync>),
}

impl Scripted {
    /// A model that has nothing to say yet.
    pub fn new() -> Scripted {
        Scripted::default()
    }

    /// What it says to leads, request by request, over the whole run.
    pub fn lead(self, replies: impl IntoIterator<Item = Reply>) -> Scripted {
        self.asker(Asker::Lead, replies)
    }

    /// What it says to reflectors.
    pub fn reflector(self, replies: impl IntoIterator<Item = Reply>) -> Scripted {
        self.asker(Asker::Reflector, replies)
    }

    /// What it says to the sub-agent of that name.
    pub fn agent(self, name: &str, replies: impl IntoIterator<Item = Reply>) -> Scripted {
        self.asker(Asker::Agent(name.to_owned()), replies)
    }

    /// What it says to sub-agents of that name, however many there are, each by what it asks.
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
        self.inner.asked.lock().unwrap().clone()
    }

    /// The leads' requests so far.
    pub fn lead_asked(&self) -> Vec<Asked> {
        self.asked_by(&Asker::Lead)
    }

    /// The reflectors' requests so far.
    pub fn reflector_asked(&self) -> Vec<Asked> {
        self.asked_by(&Asker::Reflector)
    }

    /// The requests so far of the sub-agent of that name.
    pub fn agent_asked(&self, name: &str) -> Vec<Asked> {
        self.asked_by(&Asker::Agent(name.to_owned()))
    }

    fn asked_by(&self, who: &Asker) -> Vec<Asked> {
        self.asked()
            .into_iter()
            .filter(|asked| asked.who == *who)
            .collect()
    }

    /// How many requests were dropped before they were answered.
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
        let reply = named_changes(self.next(&asked), &asked);
        self.inner.asked.lock().unwrap().push(asked);
        let unanswered = CountDrop(Some(self.inner.dropped.clone()));
        async move {
            let answer = answer(reply).await;
            unanswered.answered();
            answer
        }
        .boxed()
    }
}

/// The reply; a judgement that the goal is reached names the files that its request does, as it must (PAOR-10), so that scripts need
/// not.
fn named_changes(reply: Reply, asked: &Asked) -> Reply {
    let Reply::Says(text) = reply else {
        return reply;
    };
    let section = asked.messages.get(1).and_then(|brief| {
        let (_, after) = brief.content().split_once("<CHANGED_FILES>")?;
        Some(after.split_once("</CHANGED_FILES>")?.0)
    });
    match (section, serde_json::from_str::<Value>(&text)) {
        (Some(section), Ok(mut call))
            if call["parameters"]["verdict"] == "achieved"
                && call["parameters"].get("changed_files").is_none() =>
        {
            let named = section.lines().filter_map(|line| line.strip_prefix("- "));
            call["parameters"]["changed_files"] = named.collect();
            Reply::Says(call.to_string())
        }
        (_, _) => Reply::Says(text),
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
    let is = |role: &str| system.starts_with(role.trim_end());
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

// What models say

/// A text.
pub fn says(text: impl Into<String>) -> Reply {
    Reply::Says(text.into())
}

/// A call after which the model wants to be asked again.
pub fn call(tool: &str, parameters: Value) -> Reply {
    says(json!({"tool": tool, "parameters": parameters, "terminate": false}).to_string())
}

/// A call whose result is the final one.
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

/// A plan of these sub-tasks, submitted.
pub fn plan<const N: usize>(summary: &str, subtasks: [Value; N]) -> Reply {
    last_call(
        "submit_plan",
        json!({"summary": summary, "subtasks": subtasks.to_vec()}),
    )
}

/// A plan that answers guidance, submitted.
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

/// The same sub-task, once these have succeeded.
pub fn after<const N: usize>(mut subtask: Value, dependencies: [&str; N]) -> Value {
    subtask["depends_on"] = json!(dependencies.to_vec());
    subtask
}

/// The judgement that the goal is reached.
pub fn achieved(summary: &str) -> Reply {
    last_call(
        "submit_reflection",
        json!({"verdict": "achieved", "summary": summary}),
    )
}

/// The judgement that more is to be done.
pub fn go_on(summary: &str) -> Reply {
    last_call(
        "submit_reflection",
        json!({"verdict": "continue", "summary": summary}),
    )
}

/// The judgement that the goal cannot be reached.
pub fn hopeless(summary: &str) -> Reply {
    last_call(
        "submit_reflection",
        json!({"verdict": "failed", "summary": summary}),
    )
}

/// The judgement that only the user can decide.
pub fn ask_user(summary: &str, question: &str) -> Reply {
    last_call(
        "submit_reflection",
        json!({"verdict": "ask_user", "summary": summary, "question": question}),
    )
}
