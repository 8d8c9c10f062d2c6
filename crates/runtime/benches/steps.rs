//! The cost of the actors and the journal: one step of an agent (model, tool, result) with a model and a tool that take no time, the same
//! step in a hundred parallel runs, and resuming a run with ten thousand inputs.
//!
//! Also prints the processor time of all threads, which matters on a busy machine.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[allow(dead_code)]
#[path = "../tests/runs/script.rs"]
mod script;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use dirigent_core::end_reason::EndReason;
use dirigent_core::message::Message;
use dirigent_core::tool::Repeat;
use dirigent_core::view::RunView;
use dirigent_model::{ChatModel, ChatRequest};
use dirigent_runtime::{Orchestrator, Resume, Services, UserPresence};
use dirigent_store::Journal;
use dirigent_tools::ToolRegistry;
use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::json;
use tokio::runtime::Runtime;

use script::{Reply, achieved, call, counting, plan_work, say, spec, tools};

/// Messages before the worker's first reply.
const BRIEFING: usize = 2;

/// A worker that calls its tool this often, then ends or hangs.
struct Instantly {
    steps: usize,
    then_hang: bool,
}

impl ChatModel for Instantly {
    fn chat(&self, request: ChatRequest) -> BoxFuture<'static, Reply> {
        let Message::System { content } = &request.messages[0] else {
            panic!("no system prompt");
        };
        let reply = match content.as_str() {
            "lead" => plan_work(),
            "worker" if request.messages.len() < BRIEFING + 2 * self.steps => call(
                "note",
                json!({"path": "src/main.rs", "text": "a short line of text"}),
            ),
            "worker" if self.then_hang => return std::future::pending().boxed(),
            "worker" => say("worked"),
            _ => achieved(),
        };
        std::future::ready(reply).boxed()
    }
}

struct Bench {
    runtime: Runtime,
    folder: tempfile::TempDir,
    tools: ToolRegistry,
}

impl Bench {
    fn new() -> Self {
        let (note, _) = counting("note", Repeat::Safe);
        Bench {
            runtime: Runtime::new().unwrap(),
            folder: tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap(),
            tools: tools([note]),
        }
    }

    async fn orchestrator(&self, journal: &Path, model: Instantly) -> Orchestrator {
        let journal = Journal::open(journal).unwrap();
        let services = Services::new(journal, Arc::new(model), self.tools.clone());
        Orchestrator::start_up(services).await.unwrap()
    }

    /// Runs this many runs in parallel, each with this many steps.
    async fn run(&self, orchestrator: &Orchestrator, runs: usize) {
        let mut handles = Vec::with_capacity(runs);
        for _ in 0..runs {
            let spec = spec(self.folder.path(), &self.tools);
            handles.push(orchestrator.start(spec, UserPresence::Absent).await.unwrap());
        }
        for handle in handles {
            let report = handle.outcome().await.unwrap();
            assert_eq!(report.end, Some(EndReason::GoalAchieved));
        }
    }
}

/// The processor time of all threads, which the system measures in hundredths of a second.
fn processor_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let mut fields = after_name.split_whitespace().skip(11);
    let mut ticks = || {
        fields
            .next()
            .and_then(|ticks| ticks.parse::<u64>().ok())
            .unwrap_or(0)
    };
    Duration::from_millis(10 * (ticks() + ticks()))
}

/// Runs `runs` in parallel with `steps` each, and prints the time per step.
fn steps(c: &mut Criterion, name: &str, runs: usize, steps: usize) {
    let bench = Bench::new();
    let model = Instantly {
        steps,
        then_hang: false,
    };
    let journal = bench.folder.path().join("journal.db");
    let orchestrator = bench.runtime.block_on(bench.orchestrator(&journal, model));
    let (mut processor, mut made) = (Duration::ZERO, 0_u32);
    let mut group = c.benchmark_group("step");
    group.throughput(Throughput::Elements(1));
    group.sample_size(10);
    group.bench_function(name, |b| {
        b.iter_custom(|wanted| {
            let batch = (runs * steps) as u64;
            let batches = wanted.div_ceil(batch);
            let (before, start) = (processor_time(), Instant::now());
            for _ in 0..batches {
                bench.runtime.block_on(bench.run(&orchestrator, runs));
            }
            let elapsed = start.elapsed();
            processor += processor_time() - before;
            made += u32::try_from(batches * batch).unwrap();
            elapsed.mul_f64(wanted as f64 / (batches * batch) as f64)
        });
    });
    group.finish();
    println!("step/{name}: {:?} of processor time for a step", processor / made);
}

fn one_run(c: &mut Criterion) {
    steps(c, "one run", 1, 1_000);
}

fn hundred_runs(c: &mut Criterion) {
    steps(c, "100 runs at once", 100, 50);
}

fn resume(c: &mut Criterion) {
    const INPUTS: usize = 10_000;
    let bench = Bench::new();
    let cut_off = bench.folder.path().join("cut-off.db");
    let model = Instantly {
        steps: INPUTS / 3,
        then_hang: true,
    };
    let run = bench.runtime.block_on(async {
        let orchestrator = bench.orchestrator(&cut_off, model).await;
        let spec = spec(bench.folder.path(), &bench.tools);
        let handle = orchestrator.start(spec, UserPresence::Absent).await.unwrap();
        let mut events = handle.events(0);
        let mut turns = 0;
        while turns <= (INPUTS / 3) as u32 {
            events.next().await.unwrap().unwrap();
            let turns_of_last = |view: &RunView| view.agents().last().map_or(0, |agent| agent.turns());
            turns = events.with_view(turns_of_last).unwrap();
        }
        handle.id()
    });
    // The journal is complete in its one file once all its handles are dropped.
    let Bench {
        runtime,
        folder,
        tools,
    } = bench;
    drop(runtime);
    let bench = Bench {
        runtime: Runtime::new().unwrap(),
        folder,
        tools,
    };
    let mut copies = 0;
    let mut group = c.benchmark_group("resume");
    group.sample_size(10);
    group.bench_function("10,000 inputs", |b| {
        b.iter_custom(|times| {
            let mut elapsed = Duration::ZERO;
            for _ in 0..times {
                copies += 1;
                let copy = bench.folder.path().join(format!("copy-{copies}.db"));
                std::fs::copy(&cut_off, &copy).unwrap();
                let model = Instantly {
                    steps: 0,
                    then_hang: false,
                };
                elapsed += bench.runtime.block_on(async {
                    let orchestrator = bench.orchestrator(&copy, model).await;
                    let start = Instant::now();
                    let resume = orchestrator.resume(run, Resume::new());
                    let report = resume.await.unwrap().outcome().await.unwrap();
                    assert_eq!(report.end, Some(EndReason::GoalAchieved));
                    start.elapsed()
                });
                std::fs::remove_file(&copy).unwrap();
            }
            elapsed
        });
    });
    group.finish();
}

criterion_group!(benches, one_run, hundred_runs, resume);
criterion_main!(benches);
