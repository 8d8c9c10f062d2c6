//! What holds in a run under arbitrary inputs in arbitrary order.

use std::collections::BTreeSet;
use std::sync::Arc;

use dirigent_core::approval::ApprovalAnswer;
use dirigent_core::brief::AgentBrief;
use dirigent_core::end_reason::EndReason;
use dirigent_core::id::{AgentId, EffectId, Scope, SubTaskId};
use dirigent_core::journal::Input;
use dirigent_core::machine::Machine;
use dirigent_core::observation::SubTaskResult;
use dirigent_core::phase::Phase;
use dirigent_core::plan::SubTaskState;
use dirigent_core::run::{Run, RunCommand, RunInput, RunTimer};
use dirigent_core::spec::RunSpec;
use dirigent_core::time::Timestamp;
use proptest::prelude::{ProptestConfig, proptest};
use serde_json::json;

use crate::fixture::{plan, resumed};
use crate::run_inputs::{Step, a_spec, completion, effect_of, input, is_work, pick, steps};

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
            | RunInput::ToolsChanged { .. }
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

pub(crate) fn assert_iterations(run: &Run) {
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
