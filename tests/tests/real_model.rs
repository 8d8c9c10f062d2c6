//! Goals pursued with a real model that is very small and may reply anything: what must hold whatever it replies (LOOP-2, LOOP-3, CALL-6,
//! PAOR-12, HOST-2). `tests/real-model/run` starts the model and runs these tests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Once};
use std::time::Duration;

use dirigent::model::{ChatModel, ChatRequest, OpenAiModel, OpenAiOptions};
use dirigent::tools::{Tool, typed};
use dirigent::{AgentLimits, Builder, Dirigent, EndReason, Millis, Report, RunLimits};
use dirigent_core::agent::{Agent, AgentInput};
use dirigent_core::agent_report::AgentFailure;
use dirigent_core::agent_spec::ModelProfile;
use dirigent_core::call::CallForm;
use dirigent_core::id::AgentId;
use dirigent_core::journal::Entry;
use dirigent_core::message::{ModelFailure, ModelReply};
use dirigent_core::mode::Mode;
use dirigent_core::prompt::roles;
use dirigent_core::route::Delivery;
use dirigent_core::run::RunInput;
use dirigent_core::run_tree::RunTree;
use dirigent_core::time::Timestamp;
use dirigent_core::tool::{Access, StateChange, ToolResult};
use dirigent_tests::cli::files;
use dirigent_tests::probes::{Notes, note};
use dirigent_tests::scripted::{Scripted, achieved, delegate, plan};
use dirigent_tests::stage::{Stage, agent};
use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::{Value, json};

/// Maximum tokens of a reply: enough for a call, and generated within seconds.
const REPLY: u64 = 80;
const GOALS: [&str; 2] = [
    "Append the line `buy bread` to notes.txt.",
    "Use the tool teleport to send notes.txt to the moon.",
];

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a model server: run tests/real-model/run"]
async fn real_model_goals_end_for_a_recorded_reason_in_free_form() {
    for goal in GOALS {
        pursued(goal, CallForm::Auto, Asked::ByAll, []).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a model server: run tests/real-model/run"]
async fn real_model_goals_end_for_a_recorded_reason_in_schema_constrained_form() {
    for goal in GOALS {
        pursued(goal, CallForm::JsonSchema, Asked::ByAll, []).await;
    }
}

/// The small model hardly ever makes a plan that can be executed, so a script makes the plan, and only the agents use the model.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a model server: run tests/real-model/run"]
async fn real_model_parallel_agents_stay_within_their_limits_in_every_form() {
    for form in [CallForm::Auto, CallForm::JsonSchema] {
        let work = [
            delegate(
                "read",
                "reader",
                "Read notes.txt with file_operations and say what is in it.",
            ),
            delegate(
                "note",
                "writer",
                "Call the tool note with the text hello, then say that you are done.",
            ),
        ];
        let agents = [
            agent("reader", &["file_operations", "search"]).limits(limits()),
            agent("writer", &["note"]).limits(limits()),
        ];
        let planned = Scripted::new()
            .lead([plan("Read and note.", work)])
            .reflector([achieved("Enough.")]);
        let report = pursued("Read and note.", form, Asked::ByAgents(planned), agents).await;
        assert_eq!(report.iterations[0].observations.len(), 2);
    }
}

fn limits() -> AgentLimits {
    AgentLimits {
        max_turns: 4,
        timeout: Millis::from_secs(240),
        ..AgentLimits::default()
    }
}

/// Pursues a goal and checks everything that must hold.
async fn pursued(
    goal: &str,
    form: CallForm,
    asked: Asked,
    agents: impl IntoIterator<Item = dirigent::AgentDefinition>,
) -> Arc<Report> {
    watch_for_panics();
    let (stage, notes) = (
        Stage::new().file("notes.txt", "remember the milk\n"),
        Notes::default(),
    );
    let before = files(&stage.workspace());
    let model = Witness::new(asked);
    let run_limits = RunLimits {
        max_iterations: 2,
        max_agents: 4,
        timeout: Some(Millis::from_secs(600)),
        ..RunLimits::default()
    };
    let profile = ModelProfile {
        calls: form,
        context_window: Some(8_192),
        max_output_tokens: Some(REPLY),
        ..ModelProfile::default()
    };
    let builder = stage
        .builder(model.clone())
        .profile(profile)
        .tool(note(&notes))
        .tool(no_commands());
    let dirigent = agents
        .into_iter()
        .fold(builder, Builder::agent)
        .build()
        .await
        .unwrap();

    let run = dirigent
        .start(stage.goal(goal).limits(run_limits.clone()))
        .await
        .unwrap();
    let report = run.outcome().await.expect("the run is carried out to its end");

    eprintln!(
        "{form:?}, {goal} {:?} after {} model calls",
        report.end, report.usage.model_calls
    );
    let end = report.end.as_ref().expect("a run ends for a reason");
    assert_eq!(stage.journaled_end()["reason"], json!(end)["reason"]);
    let replayed = dirigent.read(run.id()).await.unwrap().0.report();
    assert_eq!(
        json!(replayed.end),
        json!(report.end),
        "the journal tells the same"
    );
    assert_eq!(
        json!(replayed.iterations),
        json!(report.iterations),
        "the journal tells the same"
    );
    let timely = check_limits(&dirigent, run.id(), &run_limits, end).await;
    let seen = Seen::of(stage.entries());
    let (replies, called) = (model.replies(), seen.calls_of("note"));
    // Results that arrive after the time limit are not journaled.
    if timely {
        assert_eq!(seen.replies, replies, "every reply is journaled as it came");
        assert_eq!(called, notes.all().len(), "every call of a tool is journaled");
        let changed = changed_paths(&before, &files(&stage.workspace()));
        assert!(
            changed.is_subset(&seen.changed),
            "{changed:?} changed, and {:?} is known",
            seen.changed
        );
    } else {
        assert!(
            are_among(&seen.replies, &replies),
            "{:?} is journaled of {replies:?}",
            seen.replies
        );
        assert!(called <= notes.all().len(), "what is journaled was called");
    }
    assert_eq!(seen.most_malformed_in_a_row().max(3), 3, "LOOP-3");
    assert_eq!(PANICS.load(Ordering::SeqCst), 0, "nothing panics");
    report
}

/// Checks the limits, and returns whether nothing was cut off by a time limit of the run or of an agent.
async fn check_limits(
    dirigent: &Dirigent,
    run: dirigent::RunId,
    limits: &RunLimits,
    end: &EndReason,
) -> bool {
    let mut timely = *end != EndReason::TimeLimit;
    let (view, _) = dirigent.read(run).await.unwrap();
    assert!(view.run().iteration() <= limits.max_iterations);
    for agent in view.agents() {
        let spec = agent.spec();
        assert!(
            agent.turns() <= spec.limits.max_turns,
            "{} had {} turns",
            spec.name,
            agent.turns()
        );
        match agent.report() {
            Some(report) => timely &= !matches!(report.result, Err(AgentFailure::TimeLimit { .. })),
            None => assert_eq!(*end, EndReason::TimeLimit, "{} has ended", spec.name),
        }
    }
    timely
}

/// Returns true if each element of `some` is one of `all`; both are sorted.
fn are_among(some: &[String], all: &[String]) -> bool {
    let mut all = all.iter();
    some.iter().all(|one| all.any(|other| other == one))
}

/// An `execute_command` that refuses everything: it is unknown which commands such a model invents.
fn no_commands() -> impl Tool {
    typed("execute_command", "Runs a command.", |_, _: Value| async {
        ToolResult::failure("commands are not run here")
    })
    .access(Access::Execute)
}

// Reading the journal

/// The contents of a run's journal.
#[derive(Default)]
struct Seen {
    /// The model's replies, sorted.
    replies: Vec<String>,
    /// For each agent, whether each of its replies was malformed, in order. A call in prose (CALL-7) does not count as malformed.
    malformed: BTreeMap<String, Vec<bool>>,
    /// The tools of finished calls.
    finished: Vec<String>,
    /// The paths that tools reported as changed.
    changed: BTreeSet<String>,
}

impl Seen {
    /// Replays the machines, which alone decide how a reply is understood.
    fn of(entries: Vec<Entry>) -> Seen {
        let (mut machines, mut seen) = (None, Seen::default());
        for entry in entries {
            let (at, delivery) = (entry.at, Delivery::try_from(entry).unwrap());
            match (&mut machines, delivery) {
                (None, Delivery::Run(RunInput::Started { spec })) => {
                    machines = Some(RunTree::start(at, spec).unwrap().0);
                }
                (Some(machines), Delivery::Run(input)) => {
                    seen.run_input(&input);
                    machines.handle_run_input(at, input).unwrap();
                }
                (Some(machines), Delivery::Agent(id, input)) => seen.agent_entry(machines, at, id, input),
                (None, delivery) => panic!("the first entry is {delivery:?}"),
            }
        }
        seen.replies.sort();
        seen
    }

    fn agent_entry(&mut self, machines: &mut RunTree, at: Timestamp, id: AgentId, input: AgentInput) {
        if let Some(agent) = machines.agent(id) {
            self.agent_input(agent, &input);
        }
        let replied = matches!(input, AgentInput::ModelReplied { .. });
        let malformed_before = machines.agent(id).map_or(0, Agent::malformed);
        machines.handle_agent_input(at, id, input).unwrap();
        if replied {
            let replies = self.malformed.entry(id.to_string()).or_default();
            replies.push(machines.agent(id).unwrap().malformed() > malformed_before);
        }
    }

    fn run_input(&mut self, input: &RunInput) {
        if let RunInput::ToolFinished { result, .. } = input {
            self.result(result);
        }
    }

    fn agent_input(&mut self, agent: &Agent, input: &AgentInput) {
        match input {
            AgentInput::ModelReplied { reply, .. } => self.replies.push(told(&Ok(reply.clone()))),
            AgentInput::ModelFailed { failure, .. } => self.replies.push(told(&Err(failure.clone()))),
            AgentInput::ToolStarted { effect } => {
                let call = agent.running_call(*effect).expect("a call that was commanded");
                let allowed = &agent.spec().tools;
                assert!(
                    allowed.contains(&call.tool),
                    "{} is not among {allowed:?}",
                    call.tool
                );
            }
            AgentInput::ToolFinished { effect, result } => {
                let call = agent.running_call(*effect).expect("a call that is under way");
                self.finished.push(call.tool.clone());
                self.result(result);
            }
            _ => {}
        }
    }

    fn result(&mut self, result: &ToolResult) {
        for change in &result.changes {
            match change {
                StateChange::FileCreated { path, .. }
                | StateChange::FileEdited { path, .. }
                | StateChange::FileDeleted { path, .. } => self.changed.extend([path.clone()]),
                StateChange::FileMoved { from, to, .. } => self.changed.extend([from.clone(), to.clone()]),
                StateChange::ProcessExited { .. }
                | StateChange::TableCreated { .. }
                | StateChange::TableDropped { .. }
                | StateChange::RowsChanged { .. }
                | StateChange::RequestSent { .. } => {}
            }
        }
    }

    fn calls_of(&self, tool: &str) -> usize {
        self.finished.iter().filter(|name| *name == tool).count()
    }

    fn most_malformed_in_a_row(&self) -> usize {
        let longest = |replies: &Vec<bool>| replies.split(|malformed| !malformed).map(<[bool]>::len).max();
        self.malformed.values().filter_map(longest).max().unwrap_or(0)
    }
}

fn changed_paths(before: &[(String, Vec<u8>)], after: &[(String, Vec<u8>)]) -> BTreeSet<String> {
    let (old, new): (BTreeMap<_, _>, BTreeMap<_, _>) =
        (before.iter().cloned().collect(), after.iter().cloned().collect());
    let paths = old.keys().chain(new.keys());
    paths
        .filter(|path| old.get(*path) != new.get(*path))
        .cloned()
        .collect()
}

// Which model is asked

/// Which requests go to the real model.
#[derive(Clone)]
enum Asked {
    ByAll,
    /// Requests of sub-agents; the script answers leads and reflectors.
    ByAgents(Scripted),
}

/// The real model, with a record of its replies.
#[derive(Clone)]
struct Witness {
    real: OpenAiModel,
    asked: Asked,
    said: Arc<Mutex<Vec<String>>>,
}

impl Witness {
    fn new(asked: Asked) -> Witness {
        let url = std::env::var("DIRIGENT_REAL_MODEL_URL")
            .expect("tests/real-model/run sets DIRIGENT_REAL_MODEL_URL");
        let mut options = OpenAiOptions::new(url, "smollm2-135m");
        // The model reads a lead's prompt of thousands of tokens before it replies, possibly on a slow machine.
        options.timeouts.first = Duration::from_secs(600);
        Witness {
            real: OpenAiModel::new(options).unwrap(),
            asked,
            said: Arc::default(),
        }
    }

    fn replies(&self) -> Vec<String> {
        let mut replies = self.said.lock().unwrap().clone();
        replies.sort();
        replies
    }
}

impl ChatModel for Witness {
    fn chat(&self, request: ChatRequest) -> BoxFuture<'static, Result<ModelReply, ModelFailure>> {
        let system = request.messages[0].content();
        let plans = [&*roles::lead(Mode::Auto), roles::REFLECTOR]
            .iter()
            .any(|role| system.contains(role.trim_end()));
        let answer = match &self.asked {
            Asked::ByAgents(scripted) if plans => scripted.chat(request),
            Asked::ByAgents(_) | Asked::ByAll => self.real.chat(request),
        };
        let said = self.said.clone();
        async move {
            let answer = answer.await;
            said.lock().unwrap().push(told(&answer));
            answer
        }
        .boxed()
    }
}

fn told(answer: &Result<ModelReply, ModelFailure>) -> String {
    match answer {
        Ok(reply) => json!(reply).to_string(),
        Err(failure) => json!(failure).to_string(),
    }
}

// Panics

static PANICS: AtomicUsize = AtomicUsize::new(0);

/// Counts panics where they occur, since a panic in a task or an actor is caught and becomes data.
fn watch_for_panics() {
    static WATCH: Once = Once::new();
    WATCH.call_once(|| {
        let tell = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            PANICS.fetch_add(1, Ordering::SeqCst);
            tell(panic);
        }));
    });
}
