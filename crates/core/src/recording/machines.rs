//! The state machines of a run and their requests, for recording and replay. Defines the content of a recorded model request.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{RecordedRequest, Request};
use crate::agent::{Agent, AgentCommand, AgentInput};
use crate::approval::Approval;
use crate::id::{AgentId, EffectId, Scope};
use crate::journal::{Entry, Input};
use crate::machine::Refusal;
use crate::message::{Message, ToolCall};
use crate::route::{Delivery, Resumption, Route};
use crate::run::{Run, RunCommand, RunInput};
use crate::run_tree::{RunTree, TreeEffect};
use crate::spec::RunSpec;
use crate::time::Timestamp;

pub(super) struct Machines {
    tree: RunTree,
    /// For each key, the last input that one machine has delivered to another.
    delivered: BTreeMap<DeliveryKey, Delivery>,
    /// The messages of each agent's last request.
    requests: BTreeMap<AgentId, Vec<Message>>,
}

/// The kind of a delivered input, and the agent or the effect (scope and step) that it concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum DeliveryKey {
    Start(AgentId),
    /// A continuation of the lead.
    Continuation(AgentId),
    /// Guidance that the run passes to its working lead, with its number.
    Guidance(AgentId, u32),
    /// Immediate guidance that the run passes to its lead while the lead works, with the number of the guidance.
    Redirection(AgentId, u32),
    /// Calls that the user allows, passed to an agent, with their number.
    AllowedCalls(AgentId, u32),
    /// A change of a service's tools, passed to an agent, with its number.
    ChangedTools(AgentId, u32),
    /// The beginning of the lead's acting. Contains the scope and step of the effect that started or continued the lead.
    Acting(Scope, u32),
    /// An agent's report. Contains the scope and step of the effect that started the agent.
    Report(Scope, u32),
    CallAwaitsUser(Scope, u32),
    CallSettled(Scope, u32),
    /// Guidance that answers a plan of the lead.
    PlanGuided(Scope, u32),
    Delegation(Scope, u32),
    /// A delegate's findings. Contains the scope and step of the `delegate` call.
    Findings(Scope, u32),
}

impl DeliveryKey {
    fn new(delivery: &Delivery) -> Option<Self> {
        match delivery {
            Delivery::Agent(agent, input) => DeliveryKey::from_agent_input(*agent, input),
            Delivery::Run(input) => DeliveryKey::from_run_input(input),
        }
    }

    /// Returns the delivery key of an agent input. A tool's result has a key only if the tool is `delegate`.
    pub(super) fn from_agent_input(agent: AgentId, input: &AgentInput) -> Option<Self> {
        match input {
            AgentInput::Started { .. } => Some(DeliveryKey::Start(agent)),
            AgentInput::Continued { .. } => Some(DeliveryKey::Continuation(agent)),
            AgentInput::RunGuided { number, .. } => Some(DeliveryKey::Guidance(agent, *number)),
            AgentInput::Redirected { number, .. } => Some(DeliveryKey::Redirection(agent, *number)),
            AgentInput::CallsAllowed { number, .. } => Some(DeliveryKey::AllowedCalls(agent, *number)),
            AgentInput::ToolsChanged { number, .. } => Some(DeliveryKey::ChangedTools(agent, *number)),
            AgentInput::ToolFinished { effect, .. } => Some(DeliveryKey::Findings(effect.scope, effect.step)),
            AgentInput::ModelReplied { .. }
            | AgentInput::ModelFailed { .. }
            | AgentInput::OverBudget { .. }
            | AgentInput::ToolStarted { .. }
            | AgentInput::ToolAsked { .. }
            | AgentInput::QuestionWithdrawn { .. }
            | AgentInput::Decided { .. }
            | AgentInput::UserAnswered { .. }
            | AgentInput::Guided { .. }
            | AgentInput::TimerFired { .. }
            | AgentInput::Resumed { .. }
            | AgentInput::Cancelled => None,
        }
    }

    /// Returns the delivery key of a run input that only agents cause; `None` for any other input.
    pub(super) fn from_run_input(input: &RunInput) -> Option<Self> {
        match input {
            RunInput::AgentFinished { effect, .. } => Some(DeliveryKey::Report(effect.scope, effect.step)),
            RunInput::CallAwaitsUser { effect, .. } => {
                Some(DeliveryKey::CallAwaitsUser(effect.scope, effect.step))
            }
            RunInput::CallSettled { effect } => Some(DeliveryKey::CallSettled(effect.scope, effect.step)),
            RunInput::PlanGuided { effect, .. } => Some(DeliveryKey::PlanGuided(effect.scope, effect.step)),
            RunInput::ActingBegan { effect } => Some(DeliveryKey::Acting(effect.scope, effect.step)),
            RunInput::Delegated { effect, .. } => Some(DeliveryKey::Delegation(effect.scope, effect.step)),
            RunInput::Started { .. }
            | RunInput::ToolStarted { .. }
            | RunInput::ToolFinished { .. }
            | RunInput::Guided { .. }
            | RunInput::Redirected { .. }
            | RunInput::Decided { .. }
            | RunInput::DiffRead { .. }
            | RunInput::UserAnswered { .. }
            | RunInput::UserAbsent { .. }
            | RunInput::TimerFired { .. }
            | RunInput::Resumed { .. }
            | RunInput::CallsAllowed { .. }
            | RunInput::ToolsChanged { .. }
            | RunInput::WorkspaceShared { .. }
            | RunInput::Cancelled => None,
        }
    }
}

impl Machines {
    /// Starts the machines with a run's first entry.
    pub(super) fn start(at: Timestamp, spec: Arc<RunSpec>) -> Result<Self, Refusal> {
        let (tree, commands) = RunTree::start(at, spec)?;
        let routes = tree.route(commands, &Resumption::default());
        let mut machines = Machines {
            tree,
            delivered: BTreeMap::new(),
            requests: BTreeMap::new(),
        };
        machines.deliver(routes);
        Ok(machines)
    }

    pub(super) fn run(&self) -> &Run {
        self.tree.run()
    }

    pub(super) fn agent(&self, agent: AgentId) -> Option<&Agent> {
        self.tree.agent(agent)
    }

    /// The last input with this key that one machine has delivered to another.
    pub(super) fn delivered(&self, key: DeliveryKey) -> Option<&Delivery> {
        self.delivered.get(&key)
    }

    /// Returns the request that the input answers, if any. Must be called once for each input, before the input is applied.
    pub(super) fn answered_request(&mut self, scope: Scope, input: &Input) -> Option<RecordedRequest> {
        match (scope, input) {
            (Scope::Run, Input::Run(input)) => self.request_answered_by_run_input(input),
            (Scope::Agent(agent), Input::Agent(input)) => self.request_answered_by_agent_input(agent, input),
            (Scope::Run, Input::Agent(_)) | (Scope::Agent(_), Input::Run(_)) => None,
        }
    }

    /// Applies an entry. The first entry is handled by [`Self::start`] instead.
    pub(super) fn apply(&mut self, entry: Entry) -> Result<(), Refusal> {
        let at = entry.at;
        let delivery = Delivery::try_from(entry)?;
        let routes = self.tree.handle(at, delivery, &Resumption::default())?;
        self.deliver(routes);
        Ok(())
    }

    fn deliver(&mut self, routes: Vec<Route<TreeEffect>>) {
        for route in routes {
            if let Route::Deliver(delivery) = route
                && let Some(key) = DeliveryKey::new(&delivery)
            {
                self.delivered.insert(key, delivery);
            }
        }
    }

    /// Describes the effects for which the machine waits, one per line.
    pub(super) fn waiting(&self, scope: Scope) -> String {
        let lines: Vec<String> = match scope {
            Scope::Run => self
                .run()
                .outstanding()
                .iter()
                .filter_map(describe_run_command)
                .collect(),
            Scope::Agent(agent) => self.agent(agent).map_or_else(Vec::new, |agent| {
                agent
                    .outstanding()
                    .iter()
                    .filter_map(describe_agent_command)
                    .collect()
            }),
        };
        if lines.is_empty() {
            "waiting for nothing".to_owned()
        } else {
            lines.join("\n")
        }
    }

    fn request_answered_by_run_input(&self, input: &RunInput) -> Option<RecordedRequest> {
        match input {
            RunInput::ToolStarted { effect } => self
                .run()
                .running_call(*effect)
                .cloned()
                .map(RecordedRequest::Call),
            RunInput::UserAnswered { effect, .. } | RunInput::UserAbsent { effect, .. } => {
                let (asked, question) = self.run().question()?;
                (asked == *effect).then(|| RecordedRequest::Question(question.clone()))
            }
            RunInput::Decided { effect, .. } => {
                let step = (effect.scope, effect.step);
                let mut approvals = self.run().approvals();
                let decided =
                    approvals.find(|approval| (approval.effect.scope, approval.effect.step) == step)?;
                Some(RecordedRequest::Approval(Approval::clone(decided)))
            }
            RunInput::Started { .. }
            | RunInput::AgentFinished { .. }
            | RunInput::ToolFinished { .. }
            | RunInput::Guided { .. }
            | RunInput::Redirected { .. }
            | RunInput::CallAwaitsUser { .. }
            | RunInput::CallSettled { .. }
            | RunInput::PlanGuided { .. }
            | RunInput::ActingBegan { .. }
            | RunInput::Delegated { .. }
            | RunInput::DiffRead { .. }
            | RunInput::TimerFired { .. }
            | RunInput::Resumed { .. }
            | RunInput::CallsAllowed { .. }
            | RunInput::ToolsChanged { .. }
            | RunInput::WorkspaceShared { .. }
            | RunInput::Cancelled => None,
        }
    }

    fn request_answered_by_agent_input(
        &mut self,
        id: AgentId,
        input: &AgentInput,
    ) -> Option<RecordedRequest> {
        match input {
            AgentInput::ModelReplied { effect, .. }
            | AgentInput::ModelFailed { effect, .. }
            | AgentInput::OverBudget { effect, .. } => {
                self.request(id, *effect).map(RecordedRequest::Request)
            }
            AgentInput::ToolStarted { effect } => {
                let call = self.agent(id)?.running_call(*effect)?;
                Some(RecordedRequest::Call(ToolCall::clone(call)))
            }
            AgentInput::Decided { .. } => {
                let approval = self.agent(id)?.approval()?;
                Some(RecordedRequest::Approval(Approval::clone(approval)))
            }
            AgentInput::UserAnswered { .. } => {
                let asked = self.agent(id)?.question()?;
                Some(RecordedRequest::Question(asked.question.clone()))
            }
            AgentInput::Started { .. }
            | AgentInput::ToolAsked { .. }
            | AgentInput::QuestionWithdrawn { .. }
            | AgentInput::ToolFinished { .. }
            | AgentInput::Guided { .. }
            | AgentInput::RunGuided { .. }
            | AgentInput::Redirected { .. }
            | AgentInput::CallsAllowed { .. }
            | AgentInput::ToolsChanged { .. }
            | AgentInput::Continued { .. }
            | AgentInput::TimerFired { .. }
            | AgentInput::Resumed { .. }
            | AgentInput::Cancelled => None,
        }
    }

    fn request(&mut self, id: AgentId, effect: EffectId) -> Option<Request> {
        let agent = self.tree.agent(id)?;
        if !agent.outstanding().contains(&AgentCommand::AskModel { effect }) {
            return None;
        }
        let spec = agent.spec();
        let messages = agent.request();
        let earlier = self.requests.entry(id).or_default();
        let shared = earlier
            .iter()
            .zip(messages.iter())
            .take_while(|(a, b)| a == b)
            .count();
        let new = messages[shared..].to_vec();
        earlier.truncate(shared);
        earlier.extend_from_slice(&new);
        Some(Request {
            model: spec.model.clone(),
            calls: spec.profile.calls,
            tools: agent.offered().iter().map(|tool| tool.name.clone()).collect(),
            shared,
            messages: new,
        })
    }
}

fn describe_run_command(command: &RunCommand) -> Option<String> {
    match command {
        RunCommand::StartAgent { effect, brief, .. } => {
            Some(format!("waiting for agent {} ({effect})", brief.agent))
        }
        RunCommand::RunTool { effect, call, .. } => {
            Some(format!("waiting for the call {effect}: {}", describe_call(call)))
        }
        RunCommand::AskUser { effect, .. } => Some(format!("waiting for an answer to the question {effect}")),
        RunCommand::ReadDiff { effect } => Some(format!("waiting for the run's diff ({effect})")),
        RunCommand::Finish { reason } => Some(format!("ended: {reason}")),
        RunCommand::AskApproval { approval } => Some(describe_approval(approval)),
        RunCommand::Announce { .. }
        | RunCommand::GuideLead { .. }
        | RunCommand::RedirectLead { .. }
        | RunCommand::GuideAgent { .. }
        | RunCommand::AllowCalls { .. }
        | RunCommand::ChangeTools { .. }
        | RunCommand::StopTool { .. }
        | RunCommand::StopAgent { .. }
        | RunCommand::ReturnFindings { .. }
        | RunCommand::AwaitUser { .. }
        | RunCommand::SetTimer { .. } => None,
    }
}

fn describe_agent_command(command: &AgentCommand) -> Option<String> {
    match command {
        AgentCommand::AskModel { effect } => Some(format!("waiting for the model ({effect})")),
        AgentCommand::RunTool { effect, call } => {
            Some(format!("waiting for the call {effect}: {}", describe_call(call)))
        }
        AgentCommand::Finish { report } => Some(match &report.result {
            Ok(_) => "ended with an answer".to_owned(),
            Err(failure) => format!("ended: {failure}"),
        }),
        AgentCommand::AskApproval { approval, .. } => Some(describe_approval(approval)),
        AgentCommand::AskUser { question, .. } => Some(format!(
            "waiting for an answer to the question {}",
            question.effect
        )),
        AgentCommand::Delegate { effect, agent, .. } => {
            Some(format!("waiting for agent `{agent}` ({effect})"))
        }
        AgentCommand::AnswerTool { .. }
        | AgentCommand::CallSettled { .. }
        | AgentCommand::GuideRun { .. }
        | AgentCommand::BeginActing
        | AgentCommand::Stop
        | AgentCommand::SetTimer { .. } => None,
    }
}

fn describe_approval(approval: &Approval) -> String {
    format!(
        "waiting for an approval of the call {}: {} {}",
        approval.effect, approval.tool, approval.parameters
    )
}

fn describe_call(call: &ToolCall) -> String {
    format!("{} {}", call.tool, call.parameters)
}
