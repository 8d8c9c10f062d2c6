//! The machines of a run and their requests, for recording and replay. Defines the content of a recorded model request.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{RecordedRequest, Request};
use crate::agent::{Agent, AgentCommand, AgentInput};
use crate::agent_report::AgentReport;
use crate::approval::Approval;
use crate::brief::AgentBrief;
use crate::id::{AgentId, EffectId, Scope};
use crate::journal::{Entry, Input};
use crate::machine::Refusal;
use crate::message::{Message, ToolCall};
use crate::run::{Run, RunCommand, RunInput};
use crate::view::{EventKind, RunView};

#[derive(Default)]
pub(super) struct Machines {
    view: RunView,
    /// The brief of each agent that has started, including agents that have ended.
    briefs: BTreeMap<AgentId, Arc<AgentBrief>>,
    /// The messages of each agent's latest request.
    requests: BTreeMap<AgentId, Vec<Message>>,
    /// The agents' calls for which approval was requested, including calls that are already decided.
    approvals: BTreeSet<EffectId>,
    /// The agent name and the task of each delegation, by the effect id of the delegating call.
    delegations: BTreeMap<EffectId, (String, String)>,
}

impl Machines {
    pub(super) fn run(&self) -> &Run {
        self.view.run()
    }

    pub(super) fn agent(&self, agent: AgentId) -> Option<&Agent> {
        self.view.agent(agent)
    }

    pub(super) fn brief(&self, agent: AgentId) -> Option<&AgentBrief> {
        self.briefs.get(&agent).map(Arc::as_ref)
    }

    /// Returns the report of the agent that was started by this effect of the run; `None` if the agent has not ended.
    pub(super) fn report(&self, effect: EffectId) -> Option<&AgentReport> {
        self.agent(self.run().agent_of(effect)?)?.report()
    }

    /// Returns true if an agent has requested approval for the call.
    pub(super) fn has_requested_approval(&self, effect: EffectId) -> bool {
        self.approvals.contains(&effect)
    }

    /// Returns the agent name and the task of a delegating call.
    pub(super) fn delegation(&self, call: EffectId) -> Option<&(String, String)> {
        self.delegations.get(&call)
    }

    /// Returns true if the call of an agent currently waits for approval.
    pub(super) fn awaits_approval(&self, effect: EffectId) -> bool {
        match effect.scope {
            Scope::Run => false,
            Scope::Agent(agent) => {
                let approval = self.agent(agent).and_then(Agent::approval);
                approval.is_some_and(|approval| approval.effect == effect)
            }
        }
    }

    /// Returns the request that the input answers, if any. Must be called once for each input, before the input is applied.
    pub(super) fn answered_request(&mut self, scope: Scope, input: &Input) -> Option<RecordedRequest> {
        match (scope, input) {
            (Scope::Run, Input::Run(input)) => self.request_answered_by_run_input(input),
            (Scope::Agent(agent), Input::Agent(input)) => self.request_answered_by_agent_input(agent, input),
            (Scope::Run, Input::Agent(_)) | (Scope::Agent(_), Input::Run(_)) => None,
        }
    }

    pub(super) fn apply(&mut self, entry: Entry) -> Result<(), Refusal> {
        let scope = entry.scope;
        for event in self.view.apply(entry)? {
            if let (Scope::Agent(_), EventKind::ApprovalAsked { approval }) = (scope, event.kind) {
                self.approvals.insert(approval.effect);
            }
        }
        if let Scope::Agent(agent) = scope
            && let Some(agent) = self.view.agent(agent)
        {
            self.delegations.extend(agent.delegated());
        }
        if scope == Scope::Run {
            let commands = self.view.run().outstanding().into_iter();
            self.briefs.extend(commands.filter_map(|command| match command {
                RunCommand::StartAgent { brief, .. } => Some((brief.agent, brief)),
                RunCommand::Announce { .. }
                | RunCommand::RunTool { .. }
                | RunCommand::StopTool { .. }
                | RunCommand::StopAgent { .. }
                | RunCommand::ReturnFindings { .. }
                | RunCommand::AskApproval { .. }
                | RunCommand::AwaitUser { .. }
                | RunCommand::AskUser { .. }
                | RunCommand::SetTimer { .. }
                | RunCommand::Finish { .. } => None,
            }));
        }
        Ok(())
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
            RunInput::UserAnswered { effect, .. } | RunInput::UserAbsent { effect } => {
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
            | RunInput::ApprovalAsked { .. }
            | RunInput::ApprovalSettled { .. }
            | RunInput::Delegated { .. }
            | RunInput::TimerFired { .. }
            | RunInput::Resumed { .. }
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
            AgentInput::Started { .. }
            | AgentInput::ToolFinished { .. }
            | AgentInput::Guided { .. }
            | AgentInput::TimerFired { .. }
            | AgentInput::Resumed { .. }
            | AgentInput::Cancelled => None,
        }
    }

    fn request(&mut self, id: AgentId, effect: EffectId) -> Option<Request> {
        let agent = self.view.agent(id)?;
        if !agent.outstanding().contains(&AgentCommand::AskModel { effect }) {
            return None;
        }
        let spec = agent.spec()?;
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
        RunCommand::StartAgent { effect, brief } => {
            Some(format!("waiting for agent {} ({effect})", brief.agent))
        }
        RunCommand::RunTool { effect, call, .. } => {
            Some(format!("waiting for the call {effect}: {}", describe_call(call)))
        }
        RunCommand::AskUser { effect, .. } => Some(format!("waiting for an answer to the question {effect}")),
        RunCommand::Finish { reason } => Some(format!("ended: {reason}")),
        RunCommand::AskApproval { approval } => Some(describe_approval(approval)),
        RunCommand::Announce { .. }
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
        AgentCommand::AskApproval { approval } => Some(describe_approval(approval)),
        AgentCommand::Delegate { effect, agent, .. } => {
            Some(format!("waiting for agent `{agent}` ({effect})"))
        }
        AgentCommand::ApprovalSettled { .. } | AgentCommand::SetTimer { .. } => None,
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
