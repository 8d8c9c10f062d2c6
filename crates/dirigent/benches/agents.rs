//! The cost of parallel agents: processor time and journal bytes for each step, which is a model request with its tool call.
//!
//! ```text
//! cargo bench -p dirigent --bench agents -- [--agents A] [--rounds N] [--latency MS] [--stream] [--variant V] [--fanout P] [--threads T] [--db FOLDER]
//! ```
//! A agents each make N rounds: the model calls the tool `echo`, the tool runs, and its result goes back; then the model says "done". With
//! `MOCK_URL` the model is an OpenAI-compatible server that plays this script by the model's name (`mock-r<N>-l<MS>-s<P>`: N rounds, MS latency, P sub-tasks);
//! without it, replies are made in the process. Prints one line of JSON.
//!
//! | variant | an agent is |
//! | --- | --- |
//! | `lean` (default) | a run whose lead calls `echo` N times and then answers: N+1 requests. All runs at once, in one journal |
//! | `onerun` | a sub-agent: one run whose plan has A parallel sub-tasks. It makes two more requests, for the plan and the reflection |
//! | `facade` | a run with the shipped prompts, all built-in tools and default limits: N+1 requests |
//!
//! With `--fanout P` each of A runs is a `onerun` with P sub-agents.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use dirigent::{Dirigent, Goal, UserPresence};
use dirigent_core::agent_spec::{AgentSpec, AnswerForm, ModelProfile};
use dirigent_core::call::CallForm;
use dirigent_core::limits::{AgentLimits, RunLimits};
use dirigent_core::message::{FinishReason, Message, ModelFailure, ModelReply, ToolCall, Usage};
use dirigent_core::policy::Policy;
use dirigent_core::setup::RunSetup;
use dirigent_core::spec::RunSpec;
use dirigent_core::time::Millis;
use dirigent_core::tool::{Access, Repeat};
use dirigent_model::openai::Delivery;
use dirigent_model::{ChatModel, ChatRequest, OpenAiModel, OpenAiOptions};
use dirigent_runtime::{Orchestrator, RunHandle, Services};
use dirigent_store::Journal;
use dirigent_tools::{ToolRegistry, ToolSource as _, TypedTool, typed};
use futures::FutureExt as _;
use futures::future::{BoxFuture, join_all};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

fn text(name: &str) -> Option<String> {
    let arguments: Vec<String> = std::env::args().collect();
    let place = arguments.iter().position(|argument| argument == name)?;
    arguments.get(place + 1).cloned()
}

fn number(name: &str, default: u32) -> u32 {
    text(name).map_or(default, |text| text.parse().expect("a number"))
}

fn flag(name: &str) -> bool {
    std::env::args().any(|argument| argument == name)
}

/// The processor time of this process so far, in microseconds.
fn processor_time() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
}

/// The peak of the memory in use, in megabytes.
fn peak_memory() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmHWM"))
        .unwrap_or("VmHWM: 0");
    line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1e3
}

fn folder_bytes(folder: &Path) -> u64 {
    let files = std::fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().metadata().unwrap());
    files.filter(|file| file.is_file()).map(|file| file.len()).sum()
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Echo {
    text: String,
}

fn echo() -> TypedTool {
    typed("echo", "echo", |_context, Echo { text }| async move {
        Ok::<_, String>(text)
    })
    .access(Access::ReadOnly)
    .repeat(Repeat::Safe)
}

/// Plays the script in the process.
struct InProcess {
    rounds: u32,
    subtasks: u32,
}

impl ChatModel for InProcess {
    fn chat(&self, request: ChatRequest) -> BoxFuture<'static, Result<ModelReply, ModelFailure>> {
        let offers = |name: &str| request.tools.iter().any(|tool| tool.name == name);
        let done = request
            .messages
            .iter()
            .filter(|message| matches!(message, Message::Assistant { .. }))
            .count();
        let call = |tool: &str, parameters: Value| ToolCall {
            id: format!("call_{done}"),
            tool: tool.to_owned(),
            parameters,
            terminate: false,
        };
        let calls = if self.subtasks > 0 && offers("submit_plan") {
            vec![call("submit_plan", plan(self.subtasks))]
        } else if offers("submit_reflection") {
            vec![call(
                "submit_reflection",
                json!({"verdict": "achieved", "summary": "done"}),
            )]
        } else if done < self.rounds as usize {
            vec![call("echo", json!({"text": format!("step-{}", done + 1)}))]
        } else {
            Vec::new()
        };
        let reply = ModelReply {
            content: if calls.is_empty() {
                "done".to_owned()
            } else {
                String::new()
            },
            finish: if calls.is_empty() {
                FinishReason::Stop
            } else {
                FinishReason::ToolCalls
            },
            calls,
            malformed_calls: Vec::new(),
            usage: Usage {
                model_calls: 1,
                input_tokens: 100,
                output_tokens: 10,
                ..Usage::default()
            },
            model: None,
        };
        std::future::ready(Ok(reply)).boxed()
    }
}

fn plan(subtasks: u32) -> Value {
    let subtask = |number| json!({"id": format!("s{number}"), "title": format!("sub {number}"), "agent": "worker", "task": format!("sub-{number}")});
    json!({"summary": "all of it", "subtasks": (0..subtasks).map(subtask).collect::<Vec<_>>()})
}

fn native() -> ModelProfile {
    ModelProfile {
        calls: CallForm::Native,
        ..ModelProfile::default()
    }
}

fn long() -> AgentLimits {
    AgentLimits {
        max_turns: u32::MAX,
        timeout: Millis::from_secs(36_000),
        ..AgentLimits::default()
    }
}

/// A run with prompts of one line and one tool.
fn spec(workspace: &Path, goal: String, subtasks: u32, model: &str) -> RunSpec {
    let agent = |name: &str, answer, tools: &[&str]| AgentSpec {
        name: name.to_owned(),
        description: "A test agent.".to_owned(),
        system_prompt: "You are a test agent.".to_owned(),
        tools: tools.iter().map(|&tool| tool.to_owned()).collect(),
        access: Access::ReadOnly,
        model: Some(model.to_owned()),
        asks: None,
        base_prompt: None,
        deepest_prompt: None,
        profile: native(),
        limits: long(),
        answer,
    };
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
        goal,
        workspace: workspace.to_str().unwrap().to_owned(),
        limits: RunLimits {
            max_parallel: subtasks.max(4),
            max_subtasks: subtasks.max(1_000),
            max_agents: subtasks.max(100),
            ..RunLimits::default()
        },
        setup: RunSetup {
            lead: agent("lead", AnswerForm::Plan, &["echo"]),
            reflector: agent("reflector", AnswerForm::Reflection, &[]),
            agents: vec![agent("worker", AnswerForm::Text, &["echo"])],
            tools: tools().specs(),
            policy: Policy::default(),
            approval_rules: 0,
        }
        .into(),
    }
}

fn tools() -> ToolRegistry {
    let mut tools = ToolRegistry::new();
    tools.insert(echo());
    tools
}

/// The orchestrator, or the library, with which runs are started.
enum Subject {
    Runtime(Orchestrator, RunSpec),
    Facade(Dirigent),
}

impl Subject {
    async fn start(&self, workspace: &Path, goal: String) -> RunHandle {
        match self {
            Subject::Runtime(orchestrator, spec) => {
                let spec = RunSpec { goal, ..spec.clone() };
                orchestrator.start(spec, UserPresence::Absent).await.unwrap()
            }
            Subject::Facade(dirigent) => dirigent
                .start(Goal::new(goal).workspace(workspace))
                .await
                .unwrap(),
        }
    }

    /// Runs to the end; returns the number of model requests.
    async fn run(&self, workspace: &Path, goal: String) -> u64 {
        let report = self.start(workspace, goal).await.outcome().await.unwrap();
        assert!(report.is_achieved(), "{:?} {}", report.end, report.summary);
        report.usage.model_calls.into()
    }
}

async fn subject(variant: &str, rounds: u32, subtasks: u32, journal: &Path, workspace: &Path) -> Subject {
    let name = format!("mock-r{rounds}-l{}-s{subtasks}", number("--latency", 0));
    let model: Arc<dyn ChatModel> = match std::env::var("MOCK_URL") {
        Ok(url) => {
            let mut options = OpenAiOptions::new(&url, &name).api_key("x".to_owned());
            options.delivery = if flag("--stream") {
                Delivery::Streamed
            } else {
                Delivery::Whole
            };
            Arc::new(OpenAiModel::new(options).unwrap())
        }
        Err(_) => Arc::new(InProcess { rounds, subtasks }),
    };
    if variant == "facade" {
        let builder = Dirigent::builder()
            .journal(journal)
            .model(model)
            .profile(native())
            .tool(echo());
        return Subject::Facade(builder.build().await.unwrap());
    }
    let services = Services::new(Journal::open(journal).unwrap(), model, tools());
    let orchestrator = Orchestrator::start_up(services).await.unwrap();
    // All runs share their setup, like the runs of one configuration.
    Subject::Runtime(orchestrator, spec(workspace, String::new(), subtasks, &name))
}

fn main() {
    // Cargo's convention: only `cargo bench` passes this argument.
    let is_test = !flag("--bench");
    let (agents, rounds) = (
        number("--agents", if is_test { 2 } else { 100 }),
        number("--rounds", 10),
    );
    let (fanout, variant) = (
        number("--fanout", 0),
        text("--variant").unwrap_or_else(|| "lean".to_owned()),
    );
    let (runs, subtasks) = match variant.as_str() {
        _ if fanout > 0 => (agents, fanout),
        "onerun" => (1, agents),
        _ => (agents, 0),
    };
    let folder = text("--db")
        .map_or_else(tempfile::tempdir, tempfile::tempdir_in)
        .unwrap();
    let (journal, work) = (folder.path().join("journal.db"), folder.path().join("work"));
    std::fs::create_dir(&work).unwrap();
    let threads = number("--threads", 1) as usize;
    let runtime = match threads {
        1 => tokio::runtime::Builder::new_current_thread().enable_all().build(),
        _ => tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads)
            .enable_all()
            .build(),
    }
    .unwrap();
    let subject = Arc::new(runtime.block_on(subject(&variant, rounds, subtasks, &journal, &work)));
    // Warms up.
    let warm = runtime.block_on(subject.run(&work, "warm".to_owned()));
    let (before, started) = (processor_time(), Instant::now());
    let all = (0..runs).map(|run| {
        let (subject, work) = (subject.clone(), work.clone());
        runtime.spawn(async move { subject.run(&work, format!("task {run}")).await })
    });
    let steps: u64 = runtime
        .block_on(join_all(all))
        .into_iter()
        .map(Result::unwrap)
        .sum();
    let (wall, used) = (started.elapsed().as_secs_f64(), processor_time() - before);
    drop((subject, runtime));
    let bytes = folder_bytes(folder.path());
    let line = json!({
        "peer": format!("dirigent-{variant}"), "version": format!("dirigent {}", env!("CARGO_PKG_VERSION")), "agents": runs, "rounds": rounds,
        "latency_ms": number("--latency", 0), "fanout": fanout, "stream": flag("--stream"), "wall_s": wall, "agents_per_s": f64::from(agents) / wall, "llm_calls": steps,
        "steps_per_s": steps as f64 / wall, "cpu_s": used / 1e6, "cpu_us_per_step": used / steps as f64, "rss_peak_mb": peak_memory(), "errors": 0,
        "db_bytes_per_step": bytes as f64 / (warm + steps) as f64,
    });
    println!("{line}");
}
