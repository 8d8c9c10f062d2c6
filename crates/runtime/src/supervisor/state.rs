//! The supervisor's state and messages.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Weak};

use dirigent_core::agent::Agent;
use dirigent_core::id::{AgentId, EffectId, RunId};
use dirigent_core::limits::RunLimits;
use dirigent_core::machine::Refusal;
use dirigent_core::message::Usage;
use dirigent_core::route::Resumption;
use dirigent_core::run::{Report, Run, RunInput, RunTimer};
use dirigent_core::run_diff::ReflectorDiff;
use dirigent_core::spec::RunSpec;
use dirigent_core::steering::Steering;
use dirigent_core::tool::ToolResult;
use ractor::{ActorId, ActorRef};
use tokio::task::AbortHandle;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use tracing::Span;

use crate::ack::Ack;
use crate::agent_actor::{AgentEvent, AgentMsg};
use crate::agent_message::AgentMessage;
use crate::deltas::Listeners;
use crate::driver::Driver;
use crate::error::RuntimeError;
use crate::outcome::Outcome;
use crate::replayed_run::ReplayedRun;
use crate::run_log::{RunClaim, RunLogError};
use crate::run_mailbox::{MailboxEvent, MailboxState, RunMailbox};
use crate::run_resources::RunResources;
use crate::services::Services;

/// The arguments of a run's supervisor. The replacement of a crashed supervisor gets the same arguments, except for a new `cancel` and
/// `tasks`.
#[derive(Clone)]
pub(crate) struct SupervisorArguments {
    pub(crate) run: RunId,
    pub(crate) services: Arc<Services>,
    /// Weak, because the orchestrator owns the claim.
    pub(crate) claim: Weak<dyn RunClaim>,
    pub(crate) mailbox: Arc<RunMailbox>,
    /// Cancelled when the run ends for any reason.
    pub(crate) cancel: CancellationToken,
    /// All of the run's agents and tasks.
    pub(crate) tasks: TaskTracker,
    pub(crate) listeners: Listeners,
    /// The span of the run.
    pub(crate) span: Span,
}

/// How a supervisor starts.
pub(crate) enum StartMode {
    /// Starts a new run.
    New(Arc<RunSpec>),
    /// Continues a run that has inputs in the journal.
    Resume(Box<ResumedRun>),
}

pub(crate) struct ResumedRun {
    pub(crate) replayed: ReplayedRun,
    pub(crate) recovery: Recovery,
    /// New limits; `None` keeps the run's limits.
    pub(crate) limits: Option<Box<RunLimits>>,
    /// Messages to handle before all others.
    pub(crate) first_messages: Vec<Steering>,
}

/// How a resumed run recovers if its machine has already ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recovery {
    /// A run that failed but can continue plans again.
    Recover,
    /// The run stays ended. Only its end is journaled, because the previous owner died before it could
    /// journal the end.
    StayEnded,
}

pub(crate) enum SupervisorMsg {
    /// Continues a resumed run. `resumed` is its first input in this process.
    Resume {
        recovery: Recovery,
        resumed: RunInput,
        first_messages: Vec<Steering>,
    },
    Stored(Result<(), RunLogError>),
    Agent(AgentEvent),
    Mailbox(MailboxEvent),
    ToolEnded {
        effect: EffectId,
        result: ToolResult,
    },
    DiffRead {
        effect: EffectId,
        diff: ReflectorDiff,
    },
    TimerFired(RunTimer),
    /// The run's inbox was checked for pending messages from other processes.
    InboxChecked {
        pending: bool,
    },
    /// All agents and tasks of the run have ended.
    WorkEnded,
    /// The run's end is journaled.
    Closed(Result<(), RunLogError>),
    /// The final report, with the work of agents that were stopped.
    Reported(Box<Report>),
}

impl From<AgentEvent> for SupervisorMsg {
    fn from(event: AgentEvent) -> Self {
        SupervisorMsg::Agent(event)
    }
}

impl From<MailboxEvent> for SupervisorMsg {
    fn from(event: MailboxEvent) -> Self {
        SupervisorMsg::Mailbox(event)
    }
}

/// Returned by the conversions below if a [`SupervisorMsg`] has a different variant. Ractor uses the conversions to return a message that
/// could not be sent.
pub(crate) struct OtherMessage;

impl TryFrom<SupervisorMsg> for AgentEvent {
    type Error = OtherMessage;

    fn try_from(message: SupervisorMsg) -> Result<Self, OtherMessage> {
        let SupervisorMsg::Agent(event) = message else {
            return Err(OtherMessage);
        };
        Ok(event)
    }
}

impl TryFrom<SupervisorMsg> for MailboxEvent {
    type Error = OtherMessage;

    fn try_from(message: SupervisorMsg) -> Result<Self, OtherMessage> {
        let SupervisorMsg::Mailbox(event) = message else {
            return Err(OtherMessage);
        };
        Ok(event)
    }
}

/// The last action of a closing supervisor, after the run's work has ended.
pub(super) enum Closing {
    /// Journals the machine's end.
    End,
    /// Stops without journaling an end. The outcome is this error.
    GiveUp(RuntimeError),
}

pub(crate) struct SupervisorState {
    pub(super) driver: Driver<Run>,
    pub(super) arguments: SupervisorArguments,
    pub(super) resources: Option<RunResources>,
    pub(super) agents: BTreeMap<AgentId, ActorRef<AgentMsg>>,
    pub(super) agent_ids: HashMap<ActorId, AgentId>,
    /// The spans of the active agents.
    pub(super) agent_spans: HashMap<AgentId, Span>,
    /// The span of the iteration with this number.
    pub(super) iteration_span: (u32, Span),
    /// The machines without an actor: the lead after its report, and the agents of a resumed run that have not been restarted yet.
    pub(super) inactive: BTreeMap<AgentId, Agent>,
    pub(super) resumption: Resumption,
    /// The usage of the run's agents before this process took over the run.
    pub(super) spent: Usage,
    pub(super) calls: HashMap<EffectId, CancellationToken>,
    pub(super) timers: HashMap<RunTimer, AbortHandle>,
    /// Messages to agents that are about to start.
    pub(super) undelivered: Vec<AgentMessage>,
    /// The question or call that the whole run waits for.
    pub(super) awaited: Option<EffectId>,
    pub(super) closing: Option<Closing>,
    /// Set if agents were stopped when the run ended. The machine does not know the work of these agents.
    pub(super) agents_stopped: bool,
    /// Taken by the orchestrator once the supervisor has stopped.
    pub(crate) outcome: Outcome,
    _stop_everything: DropGuard,
}

impl SupervisorState {
    pub(super) fn new(arguments: SupervisorArguments, driver: Driver<Run>) -> Self {
        SupervisorState {
            driver,
            resources: None,
            agents: BTreeMap::new(),
            agent_ids: HashMap::new(),
            agent_spans: HashMap::new(),
            iteration_span: (0, Span::none()),
            inactive: BTreeMap::new(),
            resumption: Resumption::default(),
            spent: Usage::default(),
            calls: HashMap::new(),
            timers: HashMap::new(),
            undelivered: Vec::new(),
            awaited: None,
            closing: None,
            agents_stopped: false,
            outcome: None,
            _stop_everything: arguments.cancel.clone().drop_guard(),
            arguments,
        }
    }

    pub(super) fn accept(&mut self, input: RunInput) {
        let name = input.name();
        if let Err((refusal, _)) = self.accept_with_ack(input, Ack::default()) {
            // Not an error: the input is a completion that came too late, or a timer that was postponed.
            tracing::debug!(run = %self.arguments.run, input = name, %refusal, "input dropped");
        }
    }

    /// Passes an input to the machine; `ack` is sent once the input is journaled. If the machine refuses the
    /// input, the acknowledgement is returned.
    pub(super) fn accept_with_ack(&mut self, input: RunInput, ack: Ack) -> Result<(), (Refusal, Ack)> {
        let now = self.arguments.services.clock.now();
        let (mailbox, closing) = (self.arguments.mailbox.clone(), self.closing.is_some());
        let driver = &mut self.driver;
        mailbox.update(|| {
            let accepted = driver.accept_with_ack(now, input, ack);
            let mailbox_state = match driver.machine.question() {
                _ if closing || driver.machine.end().is_some() => MailboxState::Closed,
                Some((question, _)) => MailboxState::AwaitingAnswer(question),
                None => MailboxState::Open,
            };
            (mailbox_state, accepted)
        })
    }
}
