//! A journal that is written input by input, together with its machines.

use std::sync::Arc;

use dirigent_core::agent::AgentInput;
use dirigent_core::brief::AgentBrief;
use dirigent_core::id::{AgentId, RunId, Scope};
use dirigent_core::journal::{Entry, Input};
use dirigent_core::message::ModelReply;
use dirigent_core::recording::{Recorder, Recording};
use dirigent_core::run::RunInput;
use dirigent_core::spec::RunSpec;
use dirigent_core::view::RunView;
use serde_json::Value;

use crate::driver::{agent_ended, brief_of};
use crate::fixture::{at, replied, says_call};

pub const RUN: RunId = RunId(uuid::Uuid::from_u128(7));

pub struct Journaled {
    pub view: RunView,
    pub entries: Vec<Entry>,
}

impl Journaled {
    /// A run whose lead has submitted this plan.
    pub fn acting(spec: RunSpec, plan: &Value) -> Self {
        let started = Input::Run(RunInput::Started { spec: Arc::new(spec) });
        let first = entry(1, 1, Scope::Run, started);
        let (view, _) = RunView::start(first.clone()).unwrap();
        let entries = vec![first];
        let mut journaled = Journaled { view, entries };
        journaled.start(1, "run.1");
        journaled.replies(1, "a1.1", says_call("submit_plan", plan.clone(), false));
        journaled.report(1, "run.1");
        journaled
    }

    fn apply(&mut self, scope: Scope, input: Input) {
        let seq = self.entries.len() as u64 + 1;
        let entry = entry(seq, seq, scope, input);
        self.view.apply(entry.clone()).unwrap();
        self.entries.push(entry);
    }

    pub fn run(&mut self, input: RunInput) {
        self.apply(Scope::Run, Input::Run(input));
    }

    pub fn agent(&mut self, agent: u32, input: AgentInput) {
        self.apply(Scope::Agent(AgentId(agent)), Input::Agent(input));
    }

    /// Starts the agent of this effect.
    pub fn start(&mut self, agent: u32, of: &str) {
        let brief = AgentBrief::clone(&brief_of(self.view.run(), of));
        self.agent(agent, AgentInput::Started { brief });
    }

    pub fn replies(&mut self, agent: u32, of: &str, reply: ModelReply) {
        self.agent(agent, replied(of, reply));
    }

    /// Gives the agent's report to the run.
    pub fn report(&mut self, agent: u32, of: &str) {
        let report = self.view.agent(AgentId(agent)).unwrap().report().unwrap().clone();
        self.run(agent_ended(of, report));
    }

    pub fn recording(&self) -> Recording {
        let mut recorder = Recorder::new();
        for entry in self.entries.clone() {
            recorder.add(entry).unwrap();
        }
        recorder.finish().unwrap()
    }
}

/// An entry that is accepted this many milliseconds after the start.
pub fn entry(seq: u64, after: u64, scope: Scope, input: Input) -> Entry {
    Entry {
        run: RUN,
        seq,
        at: at(after),
        scope,
        input,
    }
}
