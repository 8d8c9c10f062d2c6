//! Descriptions of inputs in words that users know, for errors about refused inputs.

use crate::agent::AgentInput;
use crate::journal::Input;
use crate::run::RunInput;

impl Input {
    pub(crate) fn description(&self) -> &'static str {
        match self {
            Input::Run(input) => input.description(),
            Input::Agent(input) => input.description(),
        }
    }
}

impl RunInput {
    /// Returns a description of the input for use as the subject of a sentence in an error message.
    pub fn description(&self) -> &'static str {
        match self {
            RunInput::Started { .. } => "the start of the run",
            RunInput::AgentFinished { .. } => "the end of an agent",
            RunInput::ToolStarted { .. } => "the start of a call",
            RunInput::ToolFinished { .. } => "the result of a call",
            RunInput::Guided { .. } => "guidance",
            RunInput::Redirected { .. } => "immediate guidance",
            RunInput::CallAwaitsUser { .. } => "a request to the user",
            RunInput::CallSettled { .. } => "the end of a request to the user",
            RunInput::Decided { .. } => "the decision about a call",
            RunInput::PlanGuided { .. } => "guidance about a plan",
            RunInput::ActingBegan { .. } => "the first action of the lead",
            RunInput::Delegated { .. } => "a delegation",
            RunInput::DiffRead { .. } => "the diff of the run",
            RunInput::UserAnswered { .. } => "the answer",
            RunInput::UserAbsent { .. } => "the absence of the user",
            RunInput::TimerFired { .. } => "the expiry of a timer",
            RunInput::Resumed { .. } => "resuming the run",
            RunInput::CallsAllowed { .. } => "a rule that allows calls",
            RunInput::ToolsChanged { .. } => "a change of a service's tools",
            RunInput::WorkspaceShared { .. } => "the notice of runs in the same folder",
            RunInput::Cancelled => "the cancellation of the run",
        }
    }
}

impl AgentInput {
    /// Returns a description of the input for use as the subject of a sentence in an error message.
    pub fn description(&self) -> &'static str {
        match self {
            AgentInput::Started { .. } => "the start of an agent",
            AgentInput::ModelReplied { .. } => "the model's reply",
            AgentInput::ModelFailed { .. } => "the failure of a model request",
            AgentInput::OverBudget { .. } => "the refusal of a model request by the budget",
            AgentInput::ToolStarted { .. } => "the start of a call",
            AgentInput::ToolAsked { .. } => "the question of a tool",
            AgentInput::QuestionWithdrawn { .. } => "the withdrawal of a tool's question",
            AgentInput::ToolFinished { .. } => "the result of a call",
            AgentInput::Decided { .. } => "the decision about a call",
            AgentInput::UserAnswered { .. } => "the answer",
            AgentInput::Guided { .. } => "guidance for the agent",
            AgentInput::RunGuided { .. } => "guidance",
            AgentInput::Redirected { .. } => "immediate guidance",
            AgentInput::CallsAllowed { .. } => "a rule that allows calls",
            AgentInput::ToolsChanged { .. } => "a change of a service's tools",
            AgentInput::Continued { .. } => "continuing the lead's conversation",
            AgentInput::TimerFired { .. } => "the expiry of a timer",
            AgentInput::Resumed { .. } => "resuming the agent",
            AgentInput::Cancelled => "the cancellation of the agent",
        }
    }
}
