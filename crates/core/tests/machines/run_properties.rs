//! The run machine under arbitrary inputs in arbitrary order.

use std::collections::BTreeSet;
use std::sync::Arc;

use dirigent_core::agent_report::{AgentAnswer, AgentFailure, AgentReport, AgentWork};
use dirigent_core::approval::{Approval, ApprovalAnswer, Decision, Digest};
use dirigent_core::brief::{AgentBrief, AgentRole};
use dirigent_core::end_reason::EndReason;
use dirigent_core::id::{AgentId, EffectId, Scope, SubTaskId};
use dirigent_core::journal::Input;
use dirigent_core::machine::Machine;
use dirigent_core::message::Usage;
use dirigent_core::observation::SubTaskResult;
use dirigent_core::phase::Phase;
use dirigent_core::plan::{Plan, SubTaskState};
use dirigent_core::run::{Run, RunCommand, RunInput, RunTimer};
use dirigent_core::run_diff::ReflectorDiff;
use dirigent_core::spec::RunSpec;
use dirigent_core::time::{Millis, Timestamp};
use dirigent_core::tool::{StateChange, ToolResult};
use dirigent_core::user_request::UserRequestKind;
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop_oneof, proptest};
use serde_json::{Value, json};

use crate::agent_properties::an_answer;
use crate::fixture::{at, ended_with, plan, reflection, resumed, spec};

/// Completes one of the outstanding effects.
#[derive(Clone, Debug)]
struct Ending {
    /// Selects the effect.
    pick: usize,
    kind: u8,
    plan: Plan,
}

#[derive(Clone, Debug)]
enum Step {
    End(Ending),
    ToolStarts(usize),
    Guide,
    Redirect,
    /// An agent delegates; it may or may not be active.
    Delegate {
        agent: u32,
        step: u32,
        attempt: u32,
    },
    FireDeadline,
    FireCall(u32),
    FireApproval(u32),
    /// Decides about a waiting call, with its digest or another one.
    Decide(usize, ApprovalAnswer, bool),
    /// A call of an active agent begins or stops waiting.
    AgentWaits(usize, bool),
    /// The user is absent; the number selects the waiting call.
    Absent(usize),
    Resume,
    Fork,
    Cancel,
    Foreign(EffectId, u8),
    StartAgain,
}

/// A plan whose sub-tasks depend on earlier ones; occasionally one with an invalid graph or one that cannot run.
pub fn a_plan() -> impl Strategy<Value = Plan> {
    let node = (any::<u8>(), 0..12_u8);
    (proptest::collection::vec(node, 0..7), 0..40_u8).prop_map(|(nodes, fault)| {
        let mut subtasks: Vec<Value> = nodes
            .iter()
            .enumerate()
            .map(|(index, (dependencies, work))| {
                let depends_on: Vec<String> = (0..index)
                    .filter(|earlier| dependencies & (1 << earlier) != 0)
                    .map(|earlier| format!("s{earlier}"))
                    .collect();
                let mut subtask = json!({"id": format!("s{index}"), "title": "S", "depends_on": depends_on});
                let tool = if *work % 2 == 0 { "look" } else { "change" };
                match work % 4 {
                    0 => {
                        subtask["agent"] = json!("explore");
                        subtask["task"] = json!("t");
                    }
                    count => {
                        subtask["calls"] =
                            vec![json!({"tool": tool, "parameters": {"path": "x"}}); count.into()].into()
                    }
                }
                subtask
            })
            .collect();
        // The sub-tasks can be in any order.
        if fault % 2 == 1 {
            subtasks.reverse();
        }
        match (fault, subtasks.first_mut()) {
            (0, Some(first)) => first["depends_on"] = json!([first["id"]]),
            (1, Some(first)) => first["depends_on"] = json!(["nowhere"]),
            (2, Some(first)) => {
                *first = json!({"id": "s0", "title": "S", "calls": []});
            }
            _ => {}
        }
        plan(&json!({"summary": "s", "subtasks": subtasks}))
    })
}

fn a_step() -> impl Strategy<Value = Step> {
    let ending =
        (any::<usize>(), any::<u8>(), a_plan()).prop_map(|(pick, kind, plan)| Ending { pick, kind, plan });
    let effect = (0..2_u32, 1..12_u32, 0..2_u32).prop_map(|(scope, step, attempt)| EffectId {
        scope: match scope {
            0 => Scope::Run,
            scope => Scope::Agent(AgentId(scope)),
        },
        step,
        attempt,
    });
    prop_oneof![
        24 => ending.prop_map(Step::End),
        4 => any::<usize>().prop_map(Step::ToolStarts),
        2 => Just(Step::Guide),
        1 => Just(Step::Redirect),
        8 => (1..9_u32, 1..4_u32, 0..2_u32)
            .prop_map(|(agent, step, attempt)| Step::Delegate { agent, step, attempt }),
        1 => Just(Step::FireDeadline),
        2 => (1..12_u32).prop_map(Step::FireCall),
        2 => (1..12_u32).prop_map(Step::FireApproval),
        6 => (any::<usize>(), an_answer(), proptest::bool::weighted(0.8))
            .prop_map(|(pick, answer, intact)| Step::Decide(pick, answer, intact)),
        6 => (any::<usize>(), proptest::bool::weighted(0.7)).prop_map(|(pick, waits)| Step::AgentWaits(pick, waits)),
        2 => any::<usize>().prop_map(Step::Absent),
        3 => Just(Step::Resume),
        1 => Just(Step::Fork),
        1 => proptest::bool::weighted(0.2).prop_map(|cancel| if cancel { Step::Cancel } else { Step::Guide }),
        3 => (effect, any::<u8>()).prop_map(|(effect, kind)| Step::Foreign(effect, kind)),
        1 => Just(Step::StartAgain),
    ]
}

fn steps() -> impl Strategy<Value = Vec<(i64, Step)>> {
    let pause = prop_oneof![8 => 0..1_000_i64, 1 => -500..0_i64, 1 => 0..2_000_000_i64];
    proptest::collection::vec((pause, a_step()), 0..60)
}

fn a_spec() -> impl Strategy<Value = RunSpec> {
    (0..4_u32, 1..5_u32, any::<bool>(), any::<bool>()).prop_map(|(parallel, iterations, timed, tokens)| {
        let mut spec = spec();
        spec.reads_diff = true;
        spec.setup.tools[1].requires_approval = true;
        spec.limits.approval_timeout = Some(Millis(1_500_000));
        spec.limits.max_parallel = parallel;
        spec.limits.max_iterations = iterations;
        spec.limits.timeout = timed.then_some(Millis(3_000_000));
        spec.limits.max_tokens = tokens.then_some(200);
        spec.limits.max_agents = 12;
        spec
    })
}

fn is_work(command: &RunCommand) -> bool {
    match command {
        RunCommand::StartAgent { .. }
        | RunCommand::RunTool { .. }
        | RunCommand::ReadDiff { .. }
        | RunCommand::AskApproval { .. }
        | RunCommand::AskUser { .. } => true,
        RunCommand::Announce { .. }
        | RunCommand::GuideLead { .. }
        | RunCommand::GuideAgent { .. }
        | RunCommand::AllowCalls { .. }
        | RunCommand::RedirectLead { .. }
        | RunCommand::StopTool { .. }
        | RunCommand::StopAgent { .. }
        | RunCommand::ReturnFindings { .. }
        | RunCommand::AwaitUser { .. }
        | RunCommand::SetTimer { .. }
        | RunCommand::Finish { .. } => false,
    }
}

fn effect_of(command: &RunCommand) -> Option<EffectId> {
    match command {
        RunCommand::StartAgent { effect, .. }
        | RunCommand::RunTool { effect, .. }
        | RunCommand::ReadDiff { effect }
        | RunCommand::AskUser { effect, .. } => Some(*effect),
        RunCommand::AskApproval { approval } => Some(approval.effect),
        RunCommand::Announce { .. }
        | RunCommand::GuideLead { .. }
        | RunCommand::GuideAgent { .. }
        | RunCommand::AllowCalls { .. }
        | RunCommand::RedirectLead { .. }
        | RunCommand::StopTool { .. }
        | RunCommand::StopAgent { .. }
        | RunCommand::ReturnFindings { .. }
        | RunCommand::AwaitUser { .. }
        | RunCommand::SetTimer { .. }
        | RunCommand::Finish { .. } => None,
    }
}

fn failed() -> AgentReport {
    AgentReport {
        result: Err(AgentFailure::TurnLimit { max_turns: 10 }),
        work: AgentWork {
            usage: Usage {
                input_tokens: 3,
                ..Usage::default()
            },
            ..AgentWork::default()
        },
        duration: Millis(1),
        guidance: None,
    }
}

fn judged(kind: u8) -> AgentReport {
    let verdict = match kind % 8 {
        0 => "achieved",
        1 => "failed",
        2 | 3 => "ask_user",
        _ => "continue",
    };
    ended_with(AgentAnswer::Reflection(reflection(
        &json!({"verdict": verdict, "summary": "s", "question": "q"}),
    )))
}

fn tool_result(kind: u8) -> ToolResult {
    if kind.is_multiple_of(3) {
        ToolResult::failure("no")
    } else {
        ToolResult::success(json!("seen")).with_changes(vec![StateChange::FileEdited {
            after: None,
            before: None,
            path: "x".to_owned(),
            diff: None,
        }])
    }
}

fn decided(approval: &Approval, answer: ApprovalAnswer, intact: bool) -> RunInput {
    let digest = if intact {
        approval.digest.clone()
    } else {
        Digest("0".repeat(64))
    };
    RunInput::Decided {
        effect: approval.effect,
        decision: Decision { digest, answer },
    }
}

fn completion(command: &RunCommand, now: Timestamp, kind: u8, plan: Plan) -> RunInput {
    match command {
        RunCommand::AskApproval { approval } if approval.has_expired(now) => RunInput::TimerFired {
            timer: RunTimer::Approval(approval.effect.step),
        },
        RunCommand::AskApproval { approval } => decided(approval, ApprovalAnswer::Approve, true),
        RunCommand::StartAgent { effect, brief, .. } => RunInput::AgentFinished {
            effect: *effect,
            report: match (&brief.role, kind % 32) {
                (_, 31) => failed(),
                (AgentRole::Lead, 30) => judged(kind),
                (AgentRole::Lead, 29) => ended_with(AgentAnswer::Text("It is 42.".to_owned())),
                (AgentRole::Lead, _) => ended_with(AgentAnswer::Plan(plan)),
                (AgentRole::Reflector, 30) => ended_with(AgentAnswer::Text("Fine.".to_owned())),
                (AgentRole::Reflector, _) => judged(kind),
                (AgentRole::Sub(_), 20..) => failed(),
                (AgentRole::Sub(_), _) => ended_with(AgentAnswer::Text("found".to_owned())),
            },
        },
        RunCommand::RunTool { effect, .. } => RunInput::ToolFinished {
            effect: *effect,
            result: tool_result(kind),
        },
        RunCommand::ReadDiff { effect } => RunInput::DiffRead {
            effect: *effect,
            diff: ReflectorDiff::default(),
        },
        RunCommand::AskUser { effect, .. } if kind.is_multiple_of(3) => RunInput::UserAbsent {
            effect: *effect,
            guided: false,
        },
        RunCommand::AskUser { effect, .. } => RunInput::UserAnswered {
            effect: *effect,
            answer: "a".to_owned(),
        },
        RunCommand::Announce { .. }
        | RunCommand::GuideLead { .. }
        | RunCommand::GuideAgent { .. }
        | RunCommand::AllowCalls { .. }
        | RunCommand::RedirectLead { .. }
        | RunCommand::StopTool { .. }
        | RunCommand::StopAgent { .. }
        | RunCommand::ReturnFindings { .. }
        | RunCommand::AwaitUser { .. }
        | RunCommand::SetTimer { .. }
        | RunCommand::Finish { .. } => panic!("{command:?} has no completion"),
    }
}

fn pick(run: &Run, pick: usize) -> Option<RunCommand> {
    let work: Vec<RunCommand> = run.outstanding().into_iter().filter(is_work).collect();
    (!work.is_empty()).then(|| work[pick % work.len()].clone())
}

/// The first call of an active agent.
fn agents_call(run: &Run, pick: usize) -> Option<EffectId> {
    let agents: Vec<AgentId> = run
        .outstanding()
        .iter()
        .filter_map(|command| match command {
            RunCommand::StartAgent { brief, .. } => Some(brief.agent),
            _ => None,
        })
        .collect();
    (!agents.is_empty()).then(|| EffectId {
        scope: Scope::Agent(agents[pick % agents.len()]),
        step: 2,
        attempt: 0,
    })
}

fn input(run: &Run, spec: &Arc<RunSpec>, now: Timestamp, step: Step) -> RunInput {
    let timer = |timer| RunInput::TimerFired { timer };
    match step {
        Step::End(ending) => match pick(run, ending.pick) {
            Some(command) => completion(&command, now, ending.kind, ending.plan),
            None => RunInput::Guided {
                guidance: "g".to_owned(),
            },
        },
        Step::ToolStarts(place) => match pick(run, place).as_ref().and_then(effect_of) {
            Some(effect) => RunInput::ToolStarted { effect },
            None => resumed(),
        },
        Step::Guide => RunInput::Guided {
            guidance: "g".to_owned(),
        },
        Step::Redirect => RunInput::Redirected {
            guidance: "r".to_owned(),
        },
        Step::Delegate { agent, step, attempt } => RunInput::Delegated {
            effect: EffectId {
                scope: Scope::Agent(AgentId(agent)),
                step,
                attempt,
            },
            agent: "explore".to_owned(),
            task: "t".to_owned(),
        },
        Step::FireDeadline => timer(RunTimer::Deadline),
        Step::FireCall(step) => timer(RunTimer::Call(step)),
        Step::FireApproval(step) => timer(RunTimer::Approval(step)),
        Step::Decide(pick, answer, intact) => {
            let approvals: Vec<_> = run.approvals().collect();
            match approvals.get(pick % approvals.len().max(1)) {
                Some(approval) => decided(approval, answer, intact),
                None => resumed(),
            }
        }
        Step::AgentWaits(pick, waits) => match (agents_call(run, pick), waits) {
            (Some(effect), true) => RunInput::CallAwaitsUser {
                effect,
                guidance: None,
                request: match pick % 2 {
                    0 => UserRequestKind::Decision,
                    _ => UserRequestKind::Answer,
                },
                allowed: 0,
            },
            (Some(effect), false) => RunInput::CallSettled { effect },
            (None, _) => resumed(),
        },
        Step::Absent(pick) => {
            let approval = run.approvals().next().map(|approval| approval.effect);
            match approval.or_else(|| agents_call(run, pick)) {
                Some(effect) => RunInput::UserAbsent {
                    effect,
                    guided: false,
                },
                None => resumed(),
            }
        }
        Step::Resume => resumed(),
        Step::Fork => RunInput::Resumed {
            last_seen: at(0),
            forked: true,
            limits: None,
            interrupted: Default::default(),
        },
        Step::Cancel => RunInput::Cancelled,
        Step::Foreign(effect, kind) => match kind % 4 {
            0 => RunInput::AgentFinished {
                effect,
                report: judged(kind),
            },
            1 => RunInput::ToolFinished {
                effect,
                result: tool_result(kind),
            },
            2 => RunInput::UserAbsent {
                effect,
                guided: false,
            },
            _ => RunInput::UserAnswered {
                effect,
                answer: "a".to_owned(),
            },
        },
        Step::StartAgain => RunInput::Started { spec: spec.clone() },
    }
}

/// A test's own record of the commands without a completion.
#[derive(Default)]
struct Expected(Vec<RunCommand>);

impl Expected {
    fn take(&mut self, input: &RunInput, commands: &[RunCommand]) {
        if let RunInput::TimerFired {
            timer: RunTimer::Approval(step),
        } = input
        {
            self.0
                .retain(|command| effect_of(command).is_none_or(|effect| effect.step != *step));
        }
        let mut completed = match input {
            RunInput::AgentFinished { effect, .. }
            | RunInput::ToolFinished { effect, .. }
            | RunInput::Decided { effect, .. }
            | RunInput::DiffRead { effect, .. }
            | RunInput::UserAnswered { effect, .. } => vec![*effect],
            RunInput::Started { .. }
            | RunInput::ToolStarted { .. }
            | RunInput::Guided { .. }
            | RunInput::Redirected { .. }
            | RunInput::CallAwaitsUser { .. }
            | RunInput::CallSettled { .. }
            | RunInput::ActingBegan { .. }
            | RunInput::Delegated { .. }
            | RunInput::UserAbsent { .. }
            | RunInput::TimerFired { .. }
            | RunInput::Resumed { .. }
            | RunInput::PlanGuided { .. }
            | RunInput::CallsAllowed { .. }
            | RunInput::WorkspaceShared { .. }
            | RunInput::Cancelled => Vec::new(),
        };
        // Work that is stopped for urgent guidance still completes; questions and waiting calls are withdrawn.
        let redirected = matches!(input, RunInput::Redirected { .. });
        completed.extend(commands.iter().filter_map(|command| match command {
            RunCommand::StopTool { effect } if !redirected => Some(*effect),
            _ => None,
        }));
        if redirected {
            self.0.retain(|command| {
                !matches!(
                    command,
                    RunCommand::AskUser { .. } | RunCommand::AskApproval { .. } | RunCommand::ReadDiff { .. }
                )
            });
        }
        if matches!(input, RunInput::Resumed { .. }) {
            self.0.clear();
        }
        self.0
            .retain(|command| effect_of(command).is_none_or(|effect| !completed.contains(&effect)));
        for command in commands {
            match command {
                RunCommand::Finish { .. } if !matches!(input, RunInput::UserAbsent { .. }) => {
                    self.0 = vec![command.clone()];
                }
                RunCommand::Finish { .. } => self.0.push(command.clone()),
                command if is_work(command) => self.0.push(command.clone()),
                _ => {}
            }
        }
    }
}

/// The commands without a completion, sorted: a resumed run issues new commands after repeated ones.
fn sorted(commands: &[RunCommand]) -> Vec<String> {
    let mut lines: Vec<String> = commands
        .iter()
        .filter(|command| is_work(command) || matches!(command, RunCommand::Finish { .. }))
        .map(|command| format!("{command:?}"))
        .collect();
    lines.sort();
    lines
}

pub fn assert_iterations(run: &Run) {
    for iteration in run.iterations() {
        let graph = &iteration.graph;
        let mut ended = BTreeSet::new();
        for observation in &iteration.observations {
            assert!(
                ended.insert(&observation.subtask),
                "{} ended twice",
                observation.subtask
            );
        }
        let own = usize::from(ended.contains(&SubTaskId::from("lead")));
        assert_eq!(ended.len(), graph.counts().ended() + own);
        assert!(own == 0 || iteration.observations[0].subtask.0 == "lead");
        for index in 0..graph.plan().subtasks.len() {
            let mut dependencies = graph
                .dependencies(index)
                .map(|dependency| graph.state(dependency));
            match graph.state(index) {
                SubTaskState::Ready
                | SubTaskState::Running
                | SubTaskState::Succeeded
                | SubTaskState::Failed => {
                    assert!(dependencies.all(|state| state == SubTaskState::Succeeded));
                }
                SubTaskState::Waiting => {
                    assert!(dependencies.any(|state| state != SubTaskState::Succeeded));
                }
                SubTaskState::Skipped => assert!(
                    iteration.observation(index).unwrap().finding == SubTaskResult::Skipped { because: None }
                        || dependencies
                            .any(|state| matches!(state, SubTaskState::Failed | SubTaskState::Skipped))
                ),
            }
        }
        let running: Vec<usize> = (0..graph.plan().subtasks.len())
            .filter(|index| graph.state(*index) == SubTaskState::Running)
            .collect();
        assert_eq!(
            iteration.active().map(|(index, _)| index).collect::<Vec<_>>(),
            running
        );
    }
}

/// The agents whose calls wait for a person. A sub-task starts only if a slot is free, and waiting agents take none.
#[derive(Default)]
struct Waiting(BTreeSet<AgentId>);

impl Waiting {
    fn take(&mut self, input: &RunInput) {
        match input {
            RunInput::CallAwaitsUser { effect, .. } => drop(self.0.insert(agent_of(*effect))),
            RunInput::CallSettled { effect } => drop(self.0.remove(&agent_of(*effect))),
            RunInput::Resumed { .. } => self.0.clear(),
            _ => {}
        }
    }

    fn assert_places(&self, before: &Run, run: &Run) {
        let started = |run: &Run| -> BTreeSet<usize> {
            let iteration = run.iterations().last();
            iteration
                .map(|iteration| iteration.active().map(|(index, _)| index).collect())
                .unwrap_or_default()
        };
        if before.iteration() == run.iteration() && started(run).is_subset(&started(before)) {
            return;
        }
        let Some(iteration) = run.iterations().last() else {
            return;
        };
        let briefs: Vec<_> = run.outstanding().into_iter().filter_map(brief).collect();
        let mut waiting = self.0.clone();
        // Each pass adds the callers of waiting agents.
        for _ in 0..run.spec().limits.max_depth {
            let callers = briefs.iter().filter(|brief| waiting.contains(&brief.agent));
            let callers: Vec<AgentId> = callers.filter_map(|brief| brief.caller).map(agent_of).collect();
            waiting.extend(callers);
        }
        let agents = iteration.active().filter_map(|(_, active)| active.agent);
        let waiting = agents.filter(|agent| waiting.contains(agent)).count() + run.approvals().count();
        let at_work = iteration.graph.running() - waiting;
        assert!(
            at_work <= run.spec().limits.max_parallel.max(1) as usize,
            "{at_work} at work"
        );
    }
}

fn brief(command: RunCommand) -> Option<Arc<AgentBrief>> {
    match command {
        RunCommand::StartAgent { brief, .. } => Some(brief),
        _ => None,
    }
}

/// Checks that every delegate has a caller for which the run waits, at a depth that may delegate.
fn assert_agents(run: &Run) {
    let spec = run.spec();
    let outstanding = run.outstanding();
    let briefs = outstanding.iter().filter_map(|command| match command {
        RunCommand::StartAgent { brief, .. } => Some(brief),
        _ => None,
    });
    let briefs: Vec<_> = briefs.collect();
    let ids: BTreeSet<AgentId> = briefs.iter().map(|brief| brief.agent).collect();
    assert_eq!(ids.len(), briefs.len());
    for brief in briefs {
        assert!(brief.depth <= spec.limits.max_depth);
        let stopped = outstanding.iter().any(|command| match command {
            RunCommand::StopAgent { agent } => *agent == brief.agent,
            _ => false,
        });
        let Some(caller) = brief.caller else { continue };
        assert!(stopped || ids.contains(&agent_of(caller)), "{caller} has ended");
    }
}

fn agent_of(call: EffectId) -> AgentId {
    match call.scope {
        Scope::Agent(agent) => agent,
        Scope::Run => panic!("{call} is no agent's"),
    }
}

/// Checks that a `change` runs only after the user has approved it.
fn assert_approved(approved: &mut BTreeSet<u32>, input: &RunInput, commands: &[RunCommand]) {
    if let RunInput::Decided { effect, decision } = input
        && matches!(
            decision.answer,
            ApprovalAnswer::Approve | ApprovalAnswer::Edit { .. }
        )
    {
        approved.insert(effect.step);
    }
    if let RunInput::Resumed { forked: true, .. } = input {
        approved.clear();
    }
    for command in commands {
        if let RunCommand::RunTool { effect, call, .. } = command
            && call.tool == "change"
        {
            assert!(approved.contains(&effect.step), "{effect} was not approved");
        }
    }
}

/// Checks that a run that waits only for a person reports a waiting call, and that any other run has its deadline.
fn assert_standstill(run: &Run) {
    if let Some(awaited) = run.awaited_call() {
        let waits = |command: &RunCommand| match command {
            RunCommand::AskApproval { approval } => approval.effect == awaited,
            RunCommand::StartAgent { brief, .. } => awaited.scope == Scope::Agent(brief.agent),
            _ => false,
        };
        assert!(run.outstanding().iter().any(waits), "{awaited} waits for nobody");
        assert!(
            !run.outstanding()
                .iter()
                .any(|command| matches!(command, RunCommand::RunTool { .. }))
        );
    }
}

/// Checks that each transition starts in the phase in which the previous one ended.
fn assert_transitions(phase: &mut Phase, commands: &[RunCommand]) {
    for command in commands {
        if let RunCommand::Announce { transition } = command {
            assert_eq!(transition.from, *phase);
            assert_eq!(transition.from.enter(transition.to), Ok(transition.to));
            *phase = transition.to;
        }
    }
}

fn check(spec: RunSpec, steps: Vec<(i64, Step)>) {
    let spec = Arc::new(spec);
    let start = || Run::start(Timestamp(10_000), spec.clone()).unwrap();
    let (mut expected, mut now) = (Expected::default(), 10_000_i64);
    let (mut phase, mut approved, mut waiting) = (Phase::Idle, BTreeSet::new(), Waiting::default());
    let (mut run, commands) = start();
    expected.take(&RunInput::Started { spec: spec.clone() }, &commands);
    assert_transitions(&mut phase, &commands);
    let mut journal: Vec<(Timestamp, String, Vec<RunCommand>, Run)> = Vec::new();
    for (pause, step) in steps {
        now += pause;
        let at = Timestamp(now.unsigned_abs());
        let input = input(&run, &spec, at, step);
        let before = run.clone();
        match run.handle(at, input.clone()) {
            Err(_) => assert_eq!(run, before),
            Ok(commands) => {
                expected.take(&input, &commands);
                waiting.take(&input);
                waiting.assert_places(&before, &run);
                assert_transitions(&mut phase, &commands);
                assert_approved(&mut approved, &input, &commands);
                let finished = commands
                    .iter()
                    .filter(|command| matches!(command, RunCommand::Finish { .. }))
                    .count();
                let absent = matches!(input, RunInput::UserAbsent { .. });
                // A failed run keeps guidance until it is resumed.
                let ends = run.phase().is_terminal() && !matches!(input, RunInput::Guided { .. });
                assert_eq!(finished, usize::from(absent || ends));
                let entry = serde_json::to_string(&Input::Run(input)).unwrap();
                journal.push((at, entry, commands, run.clone()));
            }
        }
        assert_eq!(run.phase(), phase);
        assert_iterations(&run);
        assert_agents(&run);
        assert_standstill(&run);
        assert_eq!(sorted(&run.outstanding()), sorted(&expected.0));
        assert_eq!(run.phase().is_terminal(), !run.outstanding().iter().any(is_work));
    }
    let (mut replayed, _) = start();
    for (at, entry, commands, state) in journal {
        let Ok(Input::Run(input)) = serde_json::from_str(&entry) else {
            panic!("{entry}");
        };
        assert_eq!(replayed.handle(at, input).unwrap(), commands);
        assert_eq!(replayed, state);
        assert_eq!(replayed.outstanding(), state.outstanding());
    }
    assert_ends(run, Timestamp(now.unsigned_abs()));
}

/// Checks that the run ends if every outstanding effect is completed: iterations and their work are bounded.
fn assert_ends(mut run: Run, now: Timestamp) {
    let two = json!({"summary": "s", "subtasks": [
        {"id": "p", "title": "P", "agent": "explore", "task": "t"},
        {"id": "q", "title": "Q", "calls": [{"tool": "look", "parameters": {"path": "x"}}]}
    ]});
    let limit = 200;
    if run.end() == Some(&EndReason::UserRequired) {
        run.handle(now, resumed()).unwrap();
    }
    for step in 0..limit {
        if run.phase().is_terminal() {
            return;
        }
        let command = pick(&run, step).unwrap();
        run.handle(now, completion(&command, now, 4, plan(&two))).unwrap();
    }
    panic!("no end after {limit} steps");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_run_keeps_its_invariants_under_any_inputs(spec in a_spec(), steps in steps()) {
        check(spec, steps);
    }
}
