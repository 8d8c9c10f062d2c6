//! A run and its agents, driven as the actors drive them, with arbitrary models, tools, users and crashes; and a watcher that reads only
//! the journal.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use dirigent_core::agent::AgentInput;
use dirigent_core::brief::AgentRole;
use dirigent_core::id::{AgentId, EffectId, RunId, Scope, SubTaskId};
use dirigent_core::journal::{Entry, Input};
use dirigent_core::machine::Machine;
use dirigent_core::message::{FinishReason, ModelReply};
use dirigent_core::plan::Plan;
use dirigent_core::recording::{Recorder, Recording, replay};
use dirigent_core::route::{AgentEffect, Delivery, Resumption, Route, RunEffect};
use dirigent_core::run::RunInput;
use dirigent_core::run_diff::ReflectorDiff;
use dirigent_core::run_tree::{RunTree, TreeEffect};
use dirigent_core::spec::RunSpec;
use dirigent_core::time::Timestamp;
use dirigent_core::tool::{Access, StateChange, ToolResult};
use dirigent_core::view::{Event, EventKind, RunView};
use proptest::prelude::{ProptestConfig, Strategy, any, proptest};
use serde_json::json;

use crate::agent_properties::assert_conversation;
use crate::fixture::{call, native, says_call, spec, text};
use crate::run_inputs::a_plan;
use crate::run_properties::assert_iterations;
use crate::usage::assert_account;

const RUN: RunId = RunId(uuid::Uuid::from_u128(7));

/// Outstanding work of the run or of one of its agents.
#[derive(Clone, Debug)]
enum Work {
    Model(AgentId, EffectId),
    AgentTool(AgentId, EffectId),
    RunTool(EffectId),
    Diff(EffectId),
    User(EffectId),
}

/// Drives the machines of a run as the actors do, completes work on demand, and keeps the journal.
struct Driver {
    machines: RunTree,
    work: VecDeque<Work>,
    journal: Vec<Entry>,
    now: u64,
    resumption: Resumption,
}

impl Driver {
    fn start(spec: RunSpec) -> Self {
        let (now, spec) = (1_000, Arc::new(spec));
        let (machines, commands) = RunTree::start(Timestamp(now), spec.clone()).unwrap();
        let mut driver = Driver {
            machines,
            work: VecDeque::new(),
            journal: Vec::new(),
            now,
            resumption: Resumption::default(),
        };
        driver.journal(Scope::Run, Input::Run(RunInput::Started { spec }));
        let routes = driver.machines.route(commands, &driver.resumption);
        driver.follow(routes);
        driver
    }

    fn journal(&mut self, scope: Scope, input: Input) {
        let seq = self.journal.len() as u64 + 1;
        self.journal.push(Entry {
            run: RUN,
            seq,
            at: Timestamp(self.now),
            scope,
            input,
        });
    }

    fn give_run(&mut self, input: RunInput) {
        self.give(Delivery::Run(input));
    }

    fn give_agent(&mut self, id: AgentId, input: AgentInput) {
        self.give(Delivery::Agent(id, input));
    }

    fn give(&mut self, delivery: Delivery) {
        let now = Timestamp(self.now);
        let routes = self
            .machines
            .handle(now, delivery.clone(), &self.resumption)
            .unwrap();
        match delivery {
            Delivery::Run(input) => self.journal(Scope::Run, Input::Run(input)),
            Delivery::Agent(agent, input) => {
                let machine = self.machines.agent(agent).unwrap();
                assert_conversation(machine);
                if machine.report().is_some() {
                    self.stop(agent);
                }
                self.journal(Scope::Agent(agent), Input::Agent(input));
            }
        }
        self.follow(routes);
    }

    fn follow(&mut self, routes: Vec<Route<TreeEffect>>) {
        for route in routes {
            match route {
                Route::Deliver(_) if self.machines.run().phase().is_terminal() => {}
                Route::Deliver(delivery) if self.is_known(&delivery) => {}
                Route::Deliver(delivery) => self.give(delivery),
                Route::Effect(TreeEffect::Run(effect)) => self.execute(effect),
                Route::Effect(TreeEffect::Agent(agent, effect)) => match effect {
                    AgentEffect::AskModel { effect } => self.work.push_back(Work::Model(agent, effect)),
                    AgentEffect::RunTool { effect } => self.work.push_back(Work::AgentTool(agent, effect)),
                    AgentEffect::Stop => self.stop(agent),
                    AgentEffect::AnswerTool { .. } | AgentEffect::SetTimer { .. } => {}
                },
                Route::Watchers => {}
            }
        }
    }

    /// Drops the agent's outstanding work without a result.
    fn stop(&mut self, agent: AgentId) {
        self.work.retain(|work| match work {
            Work::Model(of, _) | Work::AgentTool(of, _) => *of != agent,
            Work::RunTool(_) | Work::Diff(_) | Work::User(_) => true,
        });
    }

    /// Returns true for guidance that the lead already has, repeated after a restart. Actors drop it after the lead has refused it.
    fn is_known(&self, delivery: &Delivery) -> bool {
        let Delivery::Agent(agent, input @ AgentInput::RunGuided { .. }) = delivery else {
            return false;
        };
        let mut lead = self.machines.agent(*agent).unwrap().clone();
        lead.handle(Timestamp(self.now), input.clone()).is_err()
    }

    /// The user gives guidance, sometimes urgent.
    fn guide(&mut self, urgent: bool) {
        let guidance = "Only in src/utils.".to_owned();
        self.give_run(match urgent {
            true => RunInput::Redirected { guidance },
            false => RunInput::Guided { guidance },
        });
    }

    fn execute(&mut self, effect: RunEffect) {
        match effect {
            RunEffect::RunTool { effect } => self.work.push_back(Work::RunTool(effect)),
            RunEffect::ReadDiff { effect } => self.work.push_back(Work::Diff(effect)),
            RunEffect::AwaitUser { effect } => self.work.push_back(Work::User(effect)),
            RunEffect::Finish { .. } if self.machines.run().phase().is_terminal() => self.work.clear(),
            RunEffect::Finish { .. } | RunEffect::StopTool { .. } | RunEffect::SetTimer { .. } => {}
            RunEffect::StartAgent { .. } => panic!("agents are started by a delivery"),
        }
    }

    /// The process crashes and restarts: outstanding work is lost, and the machines are resumed.
    fn crash(&mut self) {
        self.work.clear();
        let last_seen = Timestamp(self.now);
        self.resumption.last_seen = last_seen;
        self.now += 60_000;
        self.give_run(RunInput::Resumed {
            last_seen,
            forked: false,
            limits: None,
            interrupted: Default::default(),
        });
    }

    /// Completes one of the outstanding effects.
    fn end(&mut self, choice: &Choice) {
        let Some(work) = self.work.remove(choice.pick % self.work.len().max(1)) else {
            panic!("nothing is under way in {}", self.machines.run().phase());
        };
        self.now += u64::from(choice.kind);
        match work {
            Work::Model(agent, effect) => {
                let role = self.machines.agent(agent).unwrap().brief().role.clone();
                let reply = reply(&role, choice);
                self.give_agent(agent, AgentInput::ModelReplied { effect, reply });
            }
            Work::AgentTool(agent, effect) if choice.starts => {
                self.give_agent(agent, AgentInput::ToolStarted { effect });
                self.work.push_back(Work::AgentTool(agent, effect));
            }
            Work::AgentTool(agent, effect) => {
                let agents_call = self.machines.agent(agent).unwrap().running_call(effect);
                let result = match agents_call {
                    Some(call) if call.tool == "submit_reflection" => checked(choice),
                    Some(_) | None => result(choice),
                };
                self.give_agent(agent, AgentInput::ToolFinished { effect, result });
            }
            Work::RunTool(effect) if choice.starts => {
                self.give_run(RunInput::ToolStarted { effect });
                self.work.push_back(Work::RunTool(effect));
            }
            Work::RunTool(effect) => self.give_run(RunInput::ToolFinished {
                effect,
                result: result(choice),
            }),
            // Urgent guidance may have cancelled the diff.
            Work::Diff(effect) => {
                let diff = ReflectorDiff::unreadable("no such folder");
                let input = RunInput::DiffRead { effect, diff };
                if self
                    .machines
                    .run()
                    .clone()
                    .handle(Timestamp(self.now), input.clone())
                    .is_ok()
                {
                    self.give_run(input);
                }
            }
            // Urgent guidance may have withdrawn the question.
            Work::User(effect)
                if self
                    .machines
                    .run()
                    .question()
                    .is_none_or(|(asked, _)| asked != effect) => {}
            Work::User(effect) if choice.starts => {
                self.give_run(RunInput::UserAbsent {
                    effect,
                    guided: false,
                });
                // The process ends until the user comes back.
                self.crash();
            }
            Work::User(effect) => self.give_run(RunInput::UserAnswered {
                effect,
                answer: "a".to_owned(),
            }),
        }
    }
}

#[derive(Clone, Debug)]
struct Choice {
    pick: usize,
    kind: u8,
    starts: bool,
    crashes: bool,
    /// Guidance, and whether it is urgent.
    guides: Option<bool>,
    plan: Plan,
}

fn choices() -> impl Strategy<Value = Vec<Choice>> {
    let choice = (
        any::<usize>(),
        any::<u8>(),
        proptest::bool::weighted(0.3),
        proptest::bool::weighted(0.05),
        proptest::option::weighted(0.07, any::<bool>()),
        a_plan(),
    )
        .prop_map(|(pick, kind, starts, crashes, guides, plan)| Choice {
            pick,
            kind,
            starts,
            crashes,
            guides,
            plan,
        });
    proptest::collection::vec(choice, 0..80)
}

/// Replies of all kinds; those that fit the role are the most likely.
fn reply(role: &AgentRole, choice: &Choice) -> ModelReply {
    match (choice.kind % 16, role) {
        (0, _) => text(r#"{"tool": "look""#),
        (1, _) => ModelReply {
            finish: FinishReason::Length,
            ..text("cut")
        },
        (2, _) => native(vec![
            call("", "look", json!({"path": "1"})),
            call("p", "change", json!({"path": "2"})),
            call("p", "nothing", json!({})),
        ]),
        (3, _) => says_call("look", json!({"path": "x"}), true),
        (4, _) => text("It is 42."),
        (5 | 6, _) => says_call("look", json!({"path": "x"}), false),
        (7 | 8, AgentRole::Lead) => says_call("change", json!({"path": "x"}), false),
        (9, AgentRole::Lead) => says_call("delegate", json!({"agent": "explore", "task": "Look."}), false),
        (_, AgentRole::Lead) => says_call("submit_plan", json!(choice.plan), true),
        (kind, AgentRole::Reflector) => {
            let verdict = match kind {
                7 => "achieved",
                8 => "failed",
                9 | 10 => "ask_user",
                _ => "continue",
            };
            let mut judgement = json!({"verdict": verdict, "summary": "s", "question": "q"});
            if kind.is_multiple_of(2) {
                judgement["confirmed_by"] = json!([{"call": "run.2"}]);
            }
            says_call("submit_reflection", judgement, true)
        }
        (7 | 8, AgentRole::Sub(_)) => says_call("change", json!({"path": "x"}), false),
        (_, AgentRole::Sub(_)) => text("found"),
    }
}

fn result(choice: &Choice) -> ToolResult {
    if choice.kind.is_multiple_of(4) {
        ToolResult::failure("no such file")
    } else if choice.kind.is_multiple_of(3) {
        ToolResult::success(json!("done")).with_changes(vec![StateChange::FileDeleted {
            path: "x".to_owned(),
            diff: None,
            before: None,
        }])
    } else {
        ToolResult::success(json!("seen"))
    }
}

/// The result of a check of confirmations.
fn checked(choice: &Choice) -> ToolResult {
    if choice.pick.is_multiple_of(2) {
        ToolResult::success(json!([{"call": "run.2", "command": "look", "line": "seen"}]))
    } else {
        ToolResult::failure("`run.2` failed, so it confirms nothing")
    }
}

/// Checks that the events are complete: every sub-task starts and ends once in its iteration, and the run ends once.
fn assert_events(events: &[Event]) {
    let (mut started, mut ended) = (BTreeSet::<SubTaskId>::new(), BTreeSet::<SubTaskId>::new());
    let mut ends = 0;
    for event in events {
        match &event.kind {
            EventKind::PlanMade { .. } => {
                started.clear();
                ended.clear();
            }
            EventKind::SubTaskStarted { subtask, .. } => {
                assert!(started.insert(subtask.clone()), "{subtask} started twice");
            }
            EventKind::SubTaskFinished { observation } => {
                assert!(ended.insert(observation.subtask.clone()));
                let skipped = matches!(
                    observation.finding,
                    dirigent_core::observation::SubTaskResult::Skipped { .. }
                );
                assert_eq!(started.contains(&observation.subtask), !skipped);
            }
            EventKind::RunFinished { reason, .. } => {
                ends += u32::from(*reason != dirigent_core::end_reason::EndReason::UserRequired);
            }
            _ => {}
        }
    }
    assert_eq!(ends, 1);
    let last = &events.last().unwrap().kind;
    assert!(matches!(last, EventKind::RunFinished { .. }), "{last:?}");
}

fn check(spec: RunSpec, choices: Vec<Choice>) {
    let mut driver = Driver::start(spec);
    let plain = Choice {
        pick: 0,
        kind: 15,
        starts: false,
        crashes: false,
        guides: None,
        plan: Plan::default(),
    };
    // After the last choice, ordinary completions bring every run to its end.
    for choice in choices.iter().chain(std::iter::repeat_n(&plain, 2_000)) {
        if driver.machines.run().phase().is_terminal() {
            break;
        }
        if choice.crashes {
            driver.crash();
        } else if let Some(urgent) = choice.guides {
            driver.guide(urgent);
        } else {
            driver.end(choice);
        }
        assert_iterations(driver.machines.run());
    }
    assert!(
        driver.machines.run().phase().is_terminal(),
        "no end in {}",
        driver.machines.run().phase()
    );
    let read = |entry: &Entry| serde_json::from_str(&serde_json::to_string(entry).unwrap()).unwrap();
    let (first, rest) = driver.journal.split_first().unwrap();
    let (mut view, mut events) = RunView::start(read(first)).unwrap();
    for entry in rest {
        events.extend(view.apply(read(entry)).unwrap());
    }
    assert_eq!(*view.machines(), driver.machines);
    let cuts_off = |entry: &Entry| match entry.input {
        Input::Run(RunInput::Resumed { .. } | RunInput::Redirected { .. }) => true,
        Input::Run(_) | Input::Agent(_) => false,
    };
    assert_account(&view, driver.journal.iter().any(cuts_off));
    assert_events(&events);
    assert_replays(&driver.journal);
}

/// Checks that recording, writing, reading and replaying gives the same journal.
fn assert_replays(journal: &[Entry]) {
    let mut recorder = Recorder::new();
    for entry in journal {
        recorder.add(entry.clone()).unwrap();
    }
    let recording = recorder.finish().unwrap();
    let read = Recording::parse(recording.to_string()).unwrap();
    assert_eq!(read, recording);
    let spec = RunSpec::clone(read.spec());
    let replayed = replay(&read, spec, RUN).unwrap_or_else(|difference| panic!("{difference}"));
    assert_eq!(replayed, journal);
    assert_eq!(json!(replayed).to_string(), json!(journal).to_string());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn host_2_host_9_a_whole_run_ends_and_its_journal_is_complete_and_replays(
        parallel in 1..4_u32,
        iterations in 1..5_u32,
        choices in choices(),
    ) {
        let mut spec = spec();
        spec.reads_diff = true;
        spec.limits.max_parallel = parallel;
        spec.limits.max_iterations = iterations;
        let lead = &mut spec.setup.lead;
        lead.access = Access::ReadWrite;
        lead.tools.extend(["change", "delegate"].map(str::to_owned));
        check(spec, choices);
    }
}
