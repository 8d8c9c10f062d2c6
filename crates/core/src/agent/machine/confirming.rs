//! Reflections with confirmations (PAOR-10). The outputs of the confirming calls are in the journal, not in this state machine. Therefore the
//! submission runs like a tool call that checks the confirmations. Its result is the complete list of confirmations, or the problems with
//! them.

use std::collections::VecDeque;

use serde_json::{Value, json};

use super::{Agent, Commands, Edited, State};
use crate::agent_report::AgentAnswer;
use crate::agent_spec::AnswerForm;
use crate::call::{SUBMIT_PLAN, SUBMIT_REFLECTION};
use crate::message::ToolCall;
use crate::reflection::Reflection;
use crate::time::Timestamp;
use crate::tool::{ToolOutcome, ToolResult};

impl Agent {
    /// Returns true for a call of the agent's terminating tool.
    pub(super) fn is_submission(&self, call: &ToolCall) -> bool {
        match self.answer_form() {
            AnswerForm::Text => false,
            AnswerForm::Plan => call.tool == SUBMIT_PLAN,
            AnswerForm::Reflection => call.tool == SUBMIT_REFLECTION,
        }
    }

    /// Starts the call that checks the confirmations named in a reflection.
    pub(super) fn check_confirmations(
        &mut self,
        now: Timestamp,
        mut call: ToolCall,
        rest: VecDeque<ToolCall>,
        reflection: &Reflection,
        commands: &mut Commands,
    ) {
        call.parameters = json!(reflection);
        let effect = self.outstanding.next_effect();
        self.execute(now, effect, call, Edited::No, None, commands);
        self.state = State::Calling(rest);
    }

    /// Ends with the checked reflection, or tells the model about the problems.
    pub(super) fn confirmations_checked(
        &mut self,
        now: Timestamp,
        call: ToolCall,
        result: ToolResult,
        commands: &mut Commands,
    ) {
        let rest = self.take_calls();
        let checked = match &result.outcome {
            ToolOutcome::Success { output } => with_confirmations(&call, output),
            ToolOutcome::Failure { error, .. } => Err(error.clone()),
        };
        match checked {
            Ok(reflection) => self.submit(now, call, rest, AgentAnswer::Reflection(reflection), commands),
            Err(error) => {
                let refused = match result.succeeded() {
                    // Should not happen, because the check returns confirmations.
                    true => ToolResult::failure(error),
                    false => result,
                };
                self.answer_call(&call, &refused);
                self.next_call(now, rest, commands);
            }
        }
    }
}

/// Returns the submitted reflection with the confirmations that the check has returned.
fn with_confirmations(call: &ToolCall, checked: &Value) -> Result<Reflection, String> {
    let reflection = Reflection::from_parameters(&call.parameters)?;
    let confirmed_by = serde_json::from_value(checked.clone());
    Ok(Reflection {
        confirmed_by: confirmed_by.map_err(|error| error.to_string())?,
        ..reflection
    })
}
