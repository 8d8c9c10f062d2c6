//! Drives a state machine: journals each of its inputs, and releases the resulting commands only once the input is stored. Every input and
//! every command of a state machine passes through its driver.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use dirigent_core::agent::{Agent, AgentCommand, AgentInput};
use dirigent_core::call::ToolSet;
use dirigent_core::id::{EffectId, RunId, Scope};
use dirigent_core::journal::InputRef;
use dirigent_core::machine::{Machine, Refusal};
use dirigent_core::message::ToolCall;
use dirigent_core::run::{Run, RunCommand, RunInput};
use dirigent_core::time::Timestamp;

use crate::ack::Ack;
use crate::json::to_json;
use crate::run_log::{Durability, NewEntry, RunClaim, RunLogError};

/// A callback that the journal's thread calls for each input, once the input is stored or the write has
/// failed. The callback sends a message to the actor.
pub(crate) type Notify = Arc<dyn Fn(Result<(), RunLogError>) + Send + Sync>;

/// A machine whose inputs are journaled.
pub(crate) trait Journaled: Machine {
    fn journal_input(input: &Self::Input) -> InputRef<'_>;
    /// Returns the tool call whose start the input records, if any.
    fn recorded_start(input: &Self::Input) -> Option<EffectId>;
    /// Returns the input that records the start of a tool call, if the command runs a tool.
    fn start_input(command: &Self::Command) -> Option<Self::Input>;
    /// Returns true if it is safe to run the active call a second time; false if the call or its tool is unknown.
    fn is_safe_to_repeat(&self, effect: EffectId) -> bool;
}

impl Journaled for Run {
    fn journal_input(input: &RunInput) -> InputRef<'_> {
        InputRef::Run(input)
    }

    fn recorded_start(input: &RunInput) -> Option<EffectId> {
        if let RunInput::ToolStarted { effect } = input {
            Some(*effect)
        } else {
            None
        }
    }

    fn start_input(command: &RunCommand) -> Option<RunInput> {
        if let RunCommand::RunTool { effect, .. } = command {
            Some(RunInput::ToolStarted { effect: *effect })
        } else {
            None
        }
    }

    fn is_safe_to_repeat(&self, effect: EffectId) -> bool {
        is_safe(self.spec().tool_set(), self.running_call(effect))
    }
}

impl Journaled for Agent {
    fn journal_input(input: &AgentInput) -> InputRef<'_> {
        InputRef::Agent(input)
    }

    fn recorded_start(input: &AgentInput) -> Option<EffectId> {
        if let AgentInput::ToolStarted { effect } = input {
            Some(*effect)
        } else {
            None
        }
    }

    fn start_input(command: &AgentCommand) -> Option<AgentInput> {
        if let AgentCommand::RunTool { effect, .. } = command {
            Some(AgentInput::ToolStarted { effect: *effect })
        } else {
            None
        }
    }

    fn is_safe_to_repeat(&self, effect: EffectId) -> bool {
        is_safe(self.run_spec().tool_set(), self.running_call(effect))
    }
}

fn is_safe(tools: &ToolSet, call: Option<&ToolCall>) -> bool {
    call.and_then(|call| Some((tools.get(&call.tool)?, call)))
        .is_some_and(|(tool, call)| tool.repeat.is_safe(&call.parameters))
}

/// The work that may begin once an input is stored.
pub(crate) struct StoredInput<C> {
    pub(crate) commands: Vec<C>,
    /// The tool call that may run now, because the input recorded its start.
    pub(crate) started: Option<EffectId>,
    /// Sent only after the commands are executed, so that messages from these commands arrive before the next
    /// message of the acknowledged sender.
    pub(crate) ack: Ack,
}

/// A machine with its pending commands, each of which waits until the input that caused it is stored. The
/// reference to the claim is weak, so that the run's owner decides when to release the run. The driver can
/// write until then.
pub(crate) struct Driver<M: Journaled> {
    pub(crate) machine: M,
    run: RunId,
    scope: Scope,
    claim: Weak<dyn RunClaim>,
    notify: Notify,
    waiting: VecDeque<StoredInput<M::Command>>,
}

impl<M: Journaled> Driver<M> {
    pub(crate) fn new(
        machine: M,
        run: RunId,
        scope: Scope,
        claim: Weak<dyn RunClaim>,
        notify: Notify,
    ) -> Self {
        Driver {
            machine,
            run,
            scope,
            claim,
            notify,
            waiting: VecDeque::new(),
        }
    }

    /// Passes an input to the machine and queues it for the journal. [`Self::stored`] later returns the resulting commands. If these
    /// commands run tool calls, the inputs that record the starts of the calls are queued directly after this input, so that all of them
    /// are stored in one transaction.
    pub(crate) fn accept(&mut self, now: Timestamp, input: M::Input) -> Result<(), Refusal> {
        let accepted = self.accept_with_ack(now, input, Ack::default());
        accepted.map_err(|(refusal, _)| refusal)
    }

    /// Like [`Self::accept`], for an input that comes from a message: [`Self::stored`] also returns the message's acknowledgement. If the
    /// machine refuses the input, the acknowledgement is returned with the refusal.
    pub(crate) fn accept_with_ack(
        &mut self,
        now: Timestamp,
        input: M::Input,
        ack: Ack,
    ) -> Result<(), (Refusal, Ack)> {
        let started = M::recorded_start(&input);
        let durability = started.map_or(Durability::Normal, |effect| self.start_durability(effect));
        let entry = self.entry(now, &input, durability);
        let commands = match self.machine.handle(now, input) {
            Ok(commands) => commands,
            Err(refusal) => return Err((refusal, ack)),
        };
        let work = StoredInput {
            commands,
            started,
            ack,
        };
        self.queue(now, entry, work)
    }

    /// Queues the first input of a machine. The machine has already handled it and returned `commands`.
    pub(crate) fn start(&mut self, now: Timestamp, first: &M::Input, commands: Vec<M::Command>) {
        let entry = self.entry(now, first, Durability::Normal);
        let work = StoredInput {
            commands,
            started: None,
            ack: Ack::default(),
        };
        // `queue` fails only if the machine refuses the start of a tool call, and the first commands run no tool call.
        let _ = self.queue(now, entry, work);
    }

    /// Queues an accepted input for the journal, followed by a start entry for each tool call that the input's commands run.
    fn queue(
        &mut self,
        now: Timestamp,
        mut entry: NewEntry,
        work: StoredInput<M::Command>,
    ) -> Result<(), (Refusal, Ack)> {
        let starts: Vec<M::Input> = work.commands.iter().filter_map(M::start_input).collect();
        entry.consumes = work.ack.message();
        self.waiting.push_back(work);
        self.append(entry);
        starts
            .into_iter()
            .try_for_each(|start| self.accept_with_ack(now, start, Ack::default()))
    }

    /// Returns full durability for the start of a call that must not run twice, because the start must be on
    /// disk before the call runs.
    fn start_durability(&self, effect: EffectId) -> Durability {
        if self.machine.is_safe_to_repeat(effect) {
            Durability::Normal
        } else {
            Durability::Full
        }
    }

    fn entry(&self, now: Timestamp, input: &M::Input, durability: Durability) -> NewEntry {
        let input = M::journal_input(input);
        NewEntry {
            at: now,
            scope: self.scope,
            body: to_json(&input),
            shared: input.shared_texts(),
            durability,
            consumes: None,
        }
    }

    fn append(&self, entry: NewEntry) {
        let notify = self.notify.clone();
        match self.claim.upgrade() {
            Some(claim) => claim.append(entry, Box::new(move |stored| notify(stored.map(drop)))),
            None => notify(Err(RunLogError::released(self.run))),
        }
    }

    /// Takes the work of the oldest queued input. Called once the journal has stored that input.
    pub(crate) fn stored(&mut self) -> Option<StoredInput<M::Command>> {
        self.waiting.pop_front()
    }
}
