//! How long the machines take for a step, a whole graph and a resumption: `cargo bench -p dirigent-core --bench machines`.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::VecDeque;
use std::hint::black_box;
use std::sync::Arc;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use dirigent_core::agent::{Agent, AgentInput};
use dirigent_core::agent_report::{AgentAnswer, AgentReport, AgentWork};
use dirigent_core::agent_spec::{AgentSpec, AnswerForm, ModelProfile};
use dirigent_core::brief::{AgentBrief, AgentRole};
use dirigent_core::id::{AgentId, EffectId, Scope};
use dirigent_core::limits::{AgentLimits, RunLimits};
use dirigent_core::machine::Machine;
use dirigent_core::message::{FinishReason, ModelReply, Usage};
use dirigent_core::plan::{Plan, PlannedCall, SubTask, Work};
use dirigent_core::policy::Policy;
use dirigent_core::run::{Run, RunCommand, RunInput};
use dirigent_core::setup::RunSetup;
use dirigent_core::spec::RunSpec;
use dirigent_core::time::{Millis, Timestamp};
use dirigent_core::tool::{Access, Repeat, ToolCategory, ToolResult, ToolSpec};
use serde_json::json;

const NOW: Timestamp = Timestamp(1_000);

fn spec() -> RunSpec {
    let agent = |name: &str, answer| AgentSpec {
        name: name.to_owned(),
        description: "An agent.".to_owned(),
        system_prompt: "You are an agent.".to_owned(),
        tools: vec!["look".to_owned()],
        access: Access::ReadWrite,
        model: None,
        limits: AgentLimits {
            max_turns: u32::MAX,
            ..AgentLimits::default()
        },
        answer,
        asks: None,
        base_prompt: None,
        deepest_prompt: None,
        profile: ModelProfile::default(),
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
        goal: "Look at everything".to_owned(),
        workspace: "/work".to_owned(),
        limits: RunLimits {
            max_parallel: 64,
            ..RunLimits::default()
        },
        setup: RunSetup {
            lead: agent("lead", AnswerForm::Plan),
            reflector: agent("reflector", AnswerForm::Reflection),
            agents: vec![agent("explore", AnswerForm::Text)],
            tools: vec![ToolSpec {
                category: ToolCategory::Other,
                changes_where: None,
                read_only: None,
                name: "look".to_owned(),
                description: "Looks at a file.".to_owned(),
                parameters: json!({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}),
                repeat: Repeat::Safe,
                access: Access::ReadOnly,
                requires_approval: false,
                approval_where: None,
                rules: Vec::new(),
                example: json!({"path": "x"}),
            }],
            policy: Policy::default(),
            approval_rules: 0,
        }
        .into(),
    }
}

/// A plan in which each sub-task looks at a file; nine of ten sub-tasks depend on one or two earlier sub-tasks.
fn plan(count: usize) -> Plan {
    let subtasks = (0..count).map(|index| {
        let depends_on = [index.checked_sub(10), index.checked_sub(37)]
            .into_iter()
            .flatten()
            .filter(|_| index % 10 != 0)
            .map(|earlier| format!("s{earlier}").as_str().into())
            .collect();
        SubTask {
            id: format!("s{index}").as_str().into(),
            title: "Look".to_owned(),
            depends_on,
            may_fail: false,
            work: Work::Calls {
                calls: vec![PlannedCall {
                    tool: "look".to_owned(),
                    parameters: json!({"path": format!("src/{index}.rs")}),
                }],
            },
        }
    });
    Plan {
        summary: "Look at all of them.".to_owned(),
        answers_guidance: Vec::new(),
        subtasks: subtasks.collect(),
    }
}

/// A run that waits for its lead, and the lead's next reply.
fn planning(plan: Plan) -> (Run, RunInput) {
    planning_with(spec(), plan)
}

fn planning_with(spec: RunSpec, plan: Plan) -> (Run, RunInput) {
    let (run, _) = Run::start(NOW, Arc::new(spec)).unwrap();
    let report = AgentReport {
        result: Ok(AgentAnswer::Plan(plan)),
        work: AgentWork::default(),
        duration: Millis(1),
        guidance: None,
    };
    let effect = EffectId {
        scope: Scope::Run,
        step: 1,
        attempt: 0,
    };
    (run, RunInput::AgentFinished { effect, report })
}

/// Executes the whole plan; every call succeeds. Passes each input to `taken`.
fn carry_out(run: &mut Run, planned: RunInput, mut taken: impl FnMut(&RunInput)) {
    taken(&planned);
    let mut open: VecDeque<RunCommand> = run.handle(NOW, planned).unwrap().into();
    while let Some(command) = open.pop_front() {
        if let RunCommand::RunTool { effect, .. } = command {
            let result = ToolResult::success(json!("seen"));
            for input in [
                RunInput::ToolStarted { effect },
                RunInput::ToolFinished { effect, result },
            ] {
                taken(&input);
                open.extend(run.handle(NOW, input).unwrap());
            }
        }
    }
    assert_eq!(
        run.iterations()[0].graph.counts().succeeded,
        run.iterations()[0].observations.len()
    );
}

fn agent_step(criterion: &mut Criterion) {
    let spec = Arc::new(spec());
    let brief = AgentBrief {
        agent: AgentId(1),
        role: AgentRole::Sub("explore".to_owned()),
        task: "Look.".to_owned(),
        agents_left: None,
        guidance: None,
        depth: 0,
        caller: None,
    };
    let (mut agent, _) = Agent::start(NOW, spec, brief).unwrap();
    let reply = ModelReply {
        content:
            r#"I look at it. {"tool": "look", "parameters": {"path": "src/lib.rs"}, "terminate": false}"#
                .to_owned(),
        calls: Vec::new(),
        malformed_calls: Vec::new(),
        finish: FinishReason::Stop,
        usage: Usage::default(),
        model: None,
    };
    let mut step = 0;
    let mut next = || {
        step += 1;
        EffectId {
            scope: Scope::Agent(AgentId(1)),
            step,
            attempt: 0,
        }
    };
    criterion.bench_function("an agent's turn: reply with a call, then its result", |bencher| {
        bencher.iter(|| {
            let replied = AgentInput::ModelReplied {
                effect: next(),
                reply: reply.clone(),
            };
            black_box(agent.handle(NOW, replied).unwrap());
            let effect = next();
            // The result differs each time, because an agent that repeats itself counts as stuck.
            let finished = AgentInput::ToolFinished {
                effect,
                result: ToolResult::success(json!(format!("fn main() {{ {effect} }}"))),
            };
            black_box(agent.handle(NOW, finished).unwrap());
        });
    });
}

fn graphs(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("a plan carried out");
    group.sample_size(10);
    for count in [1_000_usize, 10_000, 100_000] {
        group.throughput(Throughput::Elements(count as u64));
        let plan = plan(count);
        group.bench_with_input(BenchmarkId::from_parameter(count), &plan, |bencher, plan| {
            bencher.iter_batched(
                || planning(plan.clone()),
                |(mut run, planned)| {
                    carry_out(&mut run, planned, |_| {});
                    run
                },
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

/// All sub-tasks of agents are ready at once; `max_parallel` of them run.
fn parallel(criterion: &mut Criterion) {
    const SUBTASKS: usize = 20_000;
    let mut group = criterion.benchmark_group("sub-tasks in parallel");
    group.sample_size(10);
    group.throughput(Throughput::Elements(SUBTASKS as u64));
    for max_parallel in [20_u32, 1_000, 20_000] {
        group.bench_function(format!("{SUBTASKS}, {max_parallel} at a time"), |bencher| {
            bencher.iter_batched(
                || independent(SUBTASKS, max_parallel),
                |(mut run, planned)| {
                    run_agents(&mut run, planned);
                    run
                },
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

/// A run that waits for its lead, and a plan of independent sub-tasks of one agent each.
fn independent(count: usize, max_parallel: u32) -> (Run, RunInput) {
    let mut spec = spec();
    spec.limits = RunLimits {
        max_parallel,
        max_subtasks: u32::MAX,
        max_agents: u32::MAX,
        ..spec.limits
    };
    let subtasks = (0..count).map(|index| SubTask {
        id: format!("s{index}").as_str().into(),
        title: "Look".to_owned(),
        depends_on: Vec::new(),
        may_fail: false,
        work: Work::Agent {
            agent: "explore".to_owned(),
            task: "Look.".to_owned(),
        },
    });
    let plan = Plan {
        summary: "Look at all of them.".to_owned(),
        answers_guidance: Vec::new(),
        subtasks: subtasks.collect(),
    };
    planning_with(spec, plan)
}

/// Every agent that the plan starts reports its findings.
fn run_agents(run: &mut Run, planned: RunInput) {
    let mut open: VecDeque<RunCommand> = run.handle(NOW, planned).unwrap().into();
    while let Some(command) = open.pop_front() {
        if let RunCommand::StartAgent { effect, brief, .. } = command
            && matches!(brief.role, AgentRole::Sub(_))
        {
            let report = AgentReport {
                result: Ok(AgentAnswer::Text("Seen.".to_owned())),
                work: AgentWork::default(),
                duration: Millis(1),
                guidance: None,
            };
            open.extend(
                run.handle(NOW, RunInput::AgentFinished { effect, report })
                    .unwrap(),
            );
        }
    }
}

fn resume(criterion: &mut Criterion) {
    let (mut run, planned) = planning(plan(5_000));
    let spec = Arc::new(spec());
    let mut inputs = Vec::new();
    carry_out(&mut run, planned, |input| inputs.push(input.clone()));
    let journal: Vec<String> = inputs
        .iter()
        .map(|input| serde_json::to_string(input).unwrap())
        .collect();
    let mut group = criterion.benchmark_group("a run resumed");
    group.throughput(Throughput::Elements(journal.len() as u64));
    group.sample_size(10);
    group.bench_function(format!("{} inputs", journal.len()), |bencher| {
        bencher.iter(|| {
            let (mut run, _) = Run::start(NOW, spec.clone()).unwrap();
            for line in &journal {
                run.handle(NOW, serde_json::from_str(line).unwrap()).unwrap();
            }
            run.handle(
                NOW,
                RunInput::Resumed {
                    last_seen: NOW,
                    forked: false,
                    limits: None,
                    interrupted: Default::default(),
                },
            )
            .unwrap();
            run
        });
    });
    group.finish();
}

criterion_group!(machines, agent_step, graphs, parallel, resume);
criterion_main!(machines);
