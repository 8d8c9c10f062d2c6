//! Journal, then act: the one way in which an input reaches a machine and its commands leave it.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use dirigent_core::agent::{Agent, AgentCommand, AgentInput};
use dirigent_core::call::ToolSet;
use dirigent_core::end_reason::EndReason;
use dirigent_core::id::{EffectId, RunId, Scope};
use dirigent_core::journal::InputRef;
use dirigent_core::machine::{Machine, Refusal};
use dirigent_core::message::ToolCall;
use dirigent_core::run::{Run, RunCommand, RunInput};
use dirigent_core::time::Timestamp;
use dirigent_store::{Durability, Journal, MessageId, NewEntry, RunClaim, RunEnding, StoreError};

use crate::run_mailbox::Ack;

/// Called on the journal's thread when an input is stored: it sends the actor a message.
pub(crate) type Notify = Arc<dyn Fn(Result<(), StoreError>) + Send + Sync>;

/// A machine whose inputs are journaled.
pub(crate) trait Journaled: Machine {
    fn entry(input: &Self::Input) -> InputRef<'_>;
    /// The tool call whose start the input records.
    fn started(input: &Self::Input) -> Option<EffectId>;
    /// The input that records the start of the call that is commanded.
    fn start(command: &Self::Command) -> Option<Self::Input>;
    /// Whether a call that is under way may be made once more; not where it or its tool is unknown.
    fn is_safe_to_repeat(&self, effect: EffectId) -> bool;
}

impl Journaled for Run {
    fn entry(input: &RunInput) -> InputRef<'_> {
        InputRef::Run(input)
    }

    fn started(input: &RunInput) -> Option<EffectId> {
        if let RunInput::ToolStarted { effect } = input {
            Some(*effect)
        } else {
            None
        }
    }

    fn start(command: &RunCommand) -> Option<RunInput> {
        if let RunCommand::RunTool { effect, .. } = command {
            Some(RunInput::ToolStarted { effect: *effect })
        } else {
            None
        }
    }

    fn is_safe_to_repeat(&self, effect: EffectId) -> bool {
        self.context()
            .is_some_and(|context| is_safe(context.tools(), self.running_call(effect)))
    }
}

impl Journaled for Agent {
    fn entry(input: &AgentInput) -> InputRef<'_> {
        InputRef::Agent(input)
    }

    fn started(input: &AgentInput) -> Option<EffectId> {
        if let AgentInput::ToolStarted { effect } = input {
            Some(*effect)
        } else {
            None
        }
    }

    fn start(command: &AgentCommand) -> Option<AgentInput> {
        if let AgentCommand::RunTool { effect, .. } = command {
            Some(AgentInput::ToolStarted { effect: *effect })
        } else {
            None
        }
    }

    fn is_safe_to_repeat(&self, effect: EffectId) -> bool {
        is_safe(self.context().tools(), self.running_call(effect))
    }
}

fn is_safe(tools: &ToolSet, call: Option<&ToolCall>) -> bool {
    call.and_then(|call| Some((tools.get(&call.tool)?, call)))
        .is_some_and(|(tool, call)| tool.repeat.is_safe(&call.parameters))
}

/// Whether a run that ends for this reason may go on.
pub(crate) fn run_ending(reason: &EndReason) -> RunEnding {
    match reason {
        EndReason::UserRequired => RunEnding::Paused,
        EndReason::GoalAchieved
        | EndReason::IterationLimit { .. }
        | EndReason::TimeLimit
        | EndReason::BudgetExhausted { .. }
        | EndReason::Cancelled
        | EndReason::Failed { .. } => RunEnding::Finished,
    }
}

/// The journal's form of a run's end.
pub(crate) fn end_status(reason: &EndReason) -> String {
    #[expect(clippy::expect_used, reason = "plain data, which always serializes")]
    serde_json::to_string(reason).expect("an end serializes")
}

/// What may be done once an input is stored.
pub(crate) struct StoredInput<C> {
    pub(crate) commands: Vec<C>,
    /// The tool call that may run then, as its start is on record.
    pub(crate) started: Option<EffectId>,
    /// Whom to tell, once the commands are carried out: what they tell others comes before what follows from the ack.
    pub(crate) ack: Ack,
}

/// A machine and the commands that wait for their inputs to be stored. The claim is not its own: whoever carries out the
/// run decides when it is given free, and until then this may write.
pub(crate) struct Driver<M: Journaled> {
    pub(crate) machine: M,
    run: RunId,
    scope: Scope,
    journal: Journal,
    claim: Weak<RunClaim>,
    notify: Notify,
    waiting: VecDeque<StoredInput<M::Command>>,
}

impl<M: Journaled> Driver<M> {
    pub(crate) fn new(
        machine: M,
        run: RunId,
        scope: Scope,
        journal: Journal,
        claim: Weak<RunClaim>,
        notify: Notify,
    ) -> Self {
        Driver {
            machine,
            run,
            scope,
            journal,
            claim,
            notify,
            waiting: VecDeque::new(),
        }
    }

    /// Gives the machine an input and queues it for the journal. Its commands come out of [`Self::stored`]. The starts of the
    /// calls that it commands are queued right behind it, so that both are stored at once.
    pub(crate) fn accept(&mut self, now: Timestamp, input: M::Input) -> Result<(), Refusal> {
        let accepted = self.accept_with_ack(now, input, Ack::default());
        accepted.map_err(|(refusal, _)| refusal)
    }

    /// As [`Self::accept`], of something that somebody said: their ack comes out of [`Self::stored`] too. A refusal gives it back.
    pub(crate) fn accept_with_ack(
        &mut self,
        now: Timestamp,
        input: M::Input,
        ack: Ack,
    ) -> Result<(), (Refusal, Ack)> {
        // Plain data with string keys: it has a JSON form.
        #[expect(
            clippy::expect_used,
            reason = "inputs are plain data, which always serializes"
        )]
        let body = serde_json::to_string(&M::entry(&input)).expect("an input serializes");
        let started = M::started(&input);
        let durability = started.map_or(Durability::Normal, |effect| self.start_durability(effect));
        let commands = match self.machine.handle(now, input) {
            Ok(commands) => commands,
            Err(refusal) => return Err((refusal, ack)),
        };
        let starts: Vec<M::Input> = commands.iter().filter_map(M::start).collect();
        let consumes = ack.message();
        self.waiting.push_back(StoredInput {
            commands,
            started,
            ack,
        });
        self.append(now, body, durability, consumes);
        starts
            .into_iter()
            .try_for_each(|start| self.accept_with_ack(now, start, Ack::default()))
    }

    /// The start of a call that must not happen twice is on the disk before it happens.
    fn start_durability(&self, effect: EffectId) -> Durability {
        if self.machine.is_safe_to_repeat(effect) {
            Durability::Normal
        } else {
            Durability::Full
        }
    }

    fn append(&self, now: Timestamp, body: String, durability: Durability, consumes: Option<MessageId>) {
        let notify = self.notify.clone();
        let entry = NewEntry {
            at: now,
            scope: self.scope,
            body,
            durability,
            consumes,
        };
        match self.claim.upgrade() {
            Some(claim) => self
                .journal
                .append(&claim, entry, move |stored| notify(stored.map(drop))),
            // The run was given free.
            None => notify(Err(StoreError::NotClaimed { run: self.run })),
        }
    }

    /// The oldest input that was not stored before is.
    pub(crate) fn stored(&mut self) -> Option<StoredInput<M::Command>> {
        self.waiting.pop_front()
    }
}
