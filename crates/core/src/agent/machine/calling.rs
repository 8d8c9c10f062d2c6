//! Running the calls of a reply, and handling their results.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;

use serde_json::Value;

use super::so_far::ChangeSoFar;
use super::{Agent, Commands, Edited, Pending, State};
use crate::agent::AgentCommand;
use crate::agent_report::{AgentAnswer, AgentFailure, CallSummary};
use crate::agent_spec::{AnswerForm, DELEGATE};
use crate::approval::Approval;
use crate::call::{CallError, SUBMIT_PLAN, SUBMIT_REFLECTION};
use crate::confirmation::Outdated;
use crate::delegation::started_agent;
use crate::id::EffectId;
use crate::loop_tools::LoopCall;
use crate::message::ToolCall;
use crate::mode::Mode;
use crate::plan::{Plan, PlanRules, errors_of_unreadable};
use crate::policy::PolicyDecision;
use crate::prompt::{OutputHandle, shorten_output};
use crate::reflection::Reflection;
use crate::text::{shorten, shorten_error, shorten_value};
use crate::time::Timestamp;
use crate::tool::{ToolOutcome, ToolResult, code};

/// Maximum number of characters of each string parameter in a call's summary. Large enough for most SQL statements and patches.
const DIGEST_PARAMETER: usize = 1_000;
/// Maximum number of characters, in a call's summary, of an error.
const DIGEST_ERROR: usize = 600;
/// Maximum number of characters, in a call's summary, of each string in a structured output.
const DIGEST_STRING: usize = 200;
/// Maximum number of characters of a call's output in its summary.
const DIGEST_OUTPUT: usize = 2_000;
/// After this many identical results, the model is told that it repeats itself (LOOP-10).
const REPEAT_NOTICE_FROM: u32 = 3;
/// Maximum number of errors of a plan to list for the model.
const LISTED_ERRORS: usize = 50;
/// Maximum number of recent changes to list for the model (LOOP-8).
const LISTED_CHANGES: usize = 20;

impl Agent {
    /// Runs the calls of a reply in order (LOOP-1), up to the maximum per reply (LOOP-10), then asks the model again. Once the agent is
    /// stuck, the remaining calls do not run.
    pub(super) fn next_call(
        &mut self,
        now: Timestamp,
        mut calls: VecDeque<ToolCall>,
        commands: &mut Commands,
    ) {
        let most = self.spec().limits.max_calls_per_reply;
        while self.stuck.is_none()
            && let Some(mut call) = calls.pop_front()
        {
            self.calls_of_turn = self.calls_of_turn.saturating_add(1);
            if self.calls_of_turn > most {
                let refused = ToolResult::too_many_calls(most);
                self.record_call(None, &call, &refused);
                self.conversation.push_result(&call, None, &refused, None);
                continue;
            }
            match self.read_submission(&call) {
                Some(Ok(AgentAnswer::Plan(plan)))
                    if self.run_spec.mode == Mode::Plan && !plan.subtasks.is_empty() =>
                {
                    self.ask_approval(now, call, commands);
                    self.state = State::Calling(calls);
                    return;
                }
                Some(Ok(AgentAnswer::Reflection(reflection))) if !reflection.confirmed_by.is_empty() => {
                    return self.check_confirmations(now, call, calls, &reflection, commands);
                }
                Some(Ok(answer)) => return self.submit(now, call, calls, answer, commands),
                Some(Err(refused)) => self.answer_call(&call, &refused),
                None => {
                    if let Some(refused) = self.removed_tool(&call.tool) {
                        self.answer_call(&call, &refused);
                        continue;
                    }
                    match self.check(&call) {
                        Ok(parameters) => call.parameters = parameters,
                        Err(error) => {
                            self.answer_call(&call, &self.call_error(error));
                            continue;
                        }
                    }
                    match self.loop_call(&call) {
                        Some(LoopCall::AskUser(question)) => {
                            self.ask_user(now, call, question, commands);
                            self.state = State::Calling(calls);
                            return;
                        }
                        Some(LoopCall::GiveUp(reason)) => {
                            return self.give_up(now, &call, calls, reason, commands);
                        }
                        Some(LoopCall::Describe(name)) => {
                            self.describe_tool(&call, &name);
                            continue;
                        }
                        Some(LoopCall::Call(named)) => {
                            if let Some(named) = self.call_by_name(&call, named) {
                                calls.push_front(named);
                            }
                            continue;
                        }
                        None => {}
                    }
                    match self.evaluate_policy(&call) {
                        PolicyDecision::Deny(why) => {
                            self.answer_call(&call, &ToolResult::denied(why));
                            continue;
                        }
                        PolicyDecision::Allow => {
                            let effect = self.outstanding.next_effect();
                            self.execute(now, effect, call, Edited::No, None, commands);
                        }
                        PolicyDecision::Ask => self.ask_approval(now, call, commands),
                    }
                    self.state = State::Calling(calls);
                    return;
                }
            }
        }
        self.open_calls = calls;
        self.append_progress();
        self.ask(now, commands);
    }

    /// Ends the agent with the answer of a submission. The submission and the calls that follow it stay open: they get results only if the
    /// agent continues.
    pub(super) fn submit(
        &mut self,
        now: Timestamp,
        call: ToolCall,
        mut rest: VecDeque<ToolCall>,
        answer: AgentAnswer,
        commands: &mut Commands,
    ) {
        rest.push_front(call);
        self.open_calls = rest;
        self.finish(now, Ok(answer), commands);
    }

    /// Runs a call that the user has approved, or submits an approved plan (LEAD-2).
    pub(super) fn execute_approved(
        &mut self,
        now: Timestamp,
        effect: EffectId,
        call: ToolCall,
        edited: Edited,
        approved: Option<Arc<Approval>>,
        commands: &mut Commands,
    ) {
        match self.read_submission(&call) {
            Some(Ok(answer)) => {
                self.plan_edited = edited;
                let rest = self.take_calls();
                self.submit(now, call, rest, answer, commands);
            }
            // Should not happen, because a plan is validated before it is shown, and again when it is edited.
            Some(Err(refused)) => {
                self.answer_call(&call, &refused);
                let rest = self.take_calls();
                self.next_call(now, rest, commands);
            }
            None => self.execute(now, effect, call, edited, approved, commands),
        }
    }

    /// Checks the parameters that the user gave to a call that waits for approval, and returns the parameters to run it with.
    pub(super) fn check_edited(&self, call: &ToolCall) -> Result<Value, String> {
        match self.read_submission(call) {
            Some(Ok(_)) => Ok(call.parameters.clone()),
            Some(Err(refused)) => Err(match refused.outcome {
                ToolOutcome::Failure { error, .. } => error,
                ToolOutcome::Success { .. } => String::new(),
            }),
            None => self.check(call).map_err(|fault| fault.to_string()),
        }
    }

    /// Runs a call under this effect id. `approved` is the approval that was granted, if one was needed.
    pub(super) fn execute(
        &mut self,
        now: Timestamp,
        effect: EffectId,
        call: ToolCall,
        edited: Edited,
        approved: Option<Arc<Approval>>,
        commands: &mut Commands,
    ) {
        let pending = Pending::Tool {
            call: call.clone(),
            started: false,
            edited,
            approved,
        };
        self.outstanding.put(effect, pending);
        self.begin_acting(&call, commands);
        let command = self.call_command(effect, &call);
        self.delegating_since = matches!(command, AgentCommand::Delegate { .. }).then_some(now);
        commands.push(command);
    }

    /// Checks the tool, the parameters (CALL-6) and the agent's access. Returns the parameters to run the call with.
    pub(super) fn check(&self, call: &ToolCall) -> Result<Value, CallError> {
        let access = self.spec().access;
        let allowed = match self.callable_by_name(&call.tool) {
            Some(_) => std::slice::from_ref(&call.tool),
            None => &self.offer().names,
        };
        self.tools_for(call).check(call, allowed, access)
    }

    /// Converts a call error to the call's result. For a lead or reflector, the error also lists the submission tool.
    fn call_error(&self, error: CallError) -> ToolResult {
        match self.answer_form() {
            AnswerForm::Plan if !self.run_spec.mode.is_auto() => {
                error.with_submission(SUBMIT_PLAN).result_with_plan()
            }
            AnswerForm::Plan => error.with_submission(SUBMIT_PLAN).result(),
            AnswerForm::Reflection => error.with_submission(SUBMIT_REFLECTION).result(),
            AnswerForm::Text => error.result(),
        }
    }

    /// Reads the answer from a call of the agent's terminating tool, or returns the error for the model if the answer is invalid. `None`
    /// for any other call.
    fn read_submission(&self, call: &ToolCall) -> Option<Result<AgentAnswer, ToolResult>> {
        type Read = fn(&Agent, &Value) -> Result<AgentAnswer, String>;
        let spec = self.spec();
        let (terminating, read): (_, Read) = match spec.answer {
            AnswerForm::Text => return None,
            AnswerForm::Plan => (SUBMIT_PLAN, |agent, parameters| {
                agent.check_plan(parameters).map(AgentAnswer::Plan)
            }),
            AnswerForm::Reflection => (SUBMIT_REFLECTION, |_, parameters| {
                Reflection::from_parameters(parameters).map(AgentAnswer::Reflection)
            }),
        };
        if call.tool != terminating {
            return None;
        }
        let own = [terminating.to_owned()];
        let mut call = call.clone();
        // Reflections in journals of earlier versions also list the changed files, which the report now lists itself.
        if let Some(parameters) = call.parameters.as_object_mut()
            && terminating == SUBMIT_REFLECTION
        {
            parameters.remove("changed_files");
        }
        let checked = self.run_spec.submissions().check(&call, &own, spec.access);
        Some(match checked {
            Ok(parameters) => read(self, &parameters).map_err(refused_submission),
            Err(CallError::BadParameters { problems, .. }) if terminating == SUBMIT_PLAN => {
                let found = errors_of_unreadable(&call.parameters, &self.plan_rules());
                let problems = problems.iter().map(ToString::to_string);
                Err(refused_submission(plan_refusal(problems.chain(found))))
            }
            Err(fault) => Err(fault.result()),
        })
    }

    /// Checks a submitted plan that conforms to its schema. The error lists all problems of the plan (PAOR-4).
    fn check_plan(&self, parameters: &Value) -> Result<Plan, String> {
        let rules = self.plan_rules();
        let Ok(plan) = Plan::from_parameters(parameters) else {
            return Err(plan_refusal(errors_of_unreadable(parameters, &rules)));
        };
        plan.validate(&rules)
            .map_err(|errors| plan_refusal(errors.iter().map(ToString::to_string)))
    }

    fn plan_rules(&self) -> PlanRules<'_> {
        let spec = &self.run_spec;
        PlanRules {
            agents: &spec.setup.agents,
            only_agent: spec.only_agent(),
            tools: self.tool_set(),
            policy: &spec.setup.policy,
            workspace: &spec.workspace,
            max_subtasks: spec.limits.max_subtasks,
            remaining_agents: self.agents_left.unwrap_or(spec.limits.max_agents),
            guidance: self.guidance_given,
        }
    }

    pub(super) fn handle_result(
        &mut self,
        now: Timestamp,
        effect: EffectId,
        call: ToolCall,
        edited: Edited,
        result: ToolResult,
        commands: &mut Commands,
    ) {
        if self.is_submission(&call) {
            return self.confirmations_checked(now, call, result, commands);
        }
        self.work.usage.tool_calls = self.work.usage.tool_calls.saturating_add(1);
        self.record_call(Some(effect), &call, &result);
        self.work.changes.extend(result.changes.iter().cloned());
        self.record_seen_files(&result);
        let repeated = self.record_repetition(&call, &result);
        self.conversation
            .push_result(&call, Some(effect), &result, repeated);
        match edited {
            Edited::No => {}
            Edited::ByUser => {
                let note = format!("the user changed the parameters to {}", call.parameters);
                self.conversation
                    .amend_last_result(|result| result.edited = Some(note));
            }
        }
        if std::mem::take(&mut self.redirected) {
            self.skip_remaining_calls(&ToolResult::redirected());
            return self.next_call(now, VecDeque::new(), commands);
        }
        match (&result.outcome, std::mem::replace(&mut self.state, State::Asking)) {
            // CALL-1: a successful terminating call ends the loop; the result of a failed one goes to the model (SPEC, "Where the rules
            // meet", 1). A reflector can end only with its submission.
            (ToolOutcome::Success { output }, _) if call.terminate && self.answer_form().allows_text() => {
                let text = match output {
                    // If the output is empty, the text is the rest of the result, such as the changes.
                    Value::String(text) if text.is_empty() => result.for_model().to_string(),
                    Value::String(text) => text.clone(),
                    Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                        output.to_string()
                    }
                };
                self.finish(now, Ok(AgentAnswer::Text(text)), commands);
            }
            (ToolOutcome::Success { .. } | ToolOutcome::Failure { .. }, State::Calling(rest)) => {
                self.next_call(now, rest, commands);
            }
            (
                ToolOutcome::Success { .. } | ToolOutcome::Failure { .. },
                State::Asking | State::Summarising(_) | State::Done(_),
            ) => self.next_call(now, VecDeque::new(), commands),
        }
    }

    /// Records a call for the reflector (PAOR-6); `effect` is `None` if the call did not run.
    pub(super) fn record_call(&mut self, effect: Option<EffectId>, call: &ToolCall, result: &ToolResult) {
        self.work.calls.push(digest(effect, call, result));
        match result.succeeded() {
            true => {}
            false if result.was_withheld() => self.withheld += 1,
            false => self.failed += 1,
        }
    }

    /// Records a call that does not run, and adds its result to the conversation: the reason why it does not run or, for `describe_tool`,
    /// the description.
    pub(super) fn answer_call(&mut self, call: &ToolCall, result: &ToolResult) {
        self.record_call(None, call, result);
        let note = self.record_repetition(call, result);
        self.conversation.push_result(call, None, result, note);
    }

    /// Counts how many times a call had the same result (LOOP-10). Returns a note for the model if the call is a repetition. Beyond
    /// `max_repeats`, marks the agent as stuck, so that it ends before the next call or request.
    fn record_repetition(&mut self, call: &ToolCall, result: &ToolResult) -> Option<String> {
        let max_repeats = self.spec().limits.max_repeats;
        let times = self.repeats.count(call, result);
        if times > max_repeats {
            self.stuck = Some(AgentFailure::Stuck {
                tool: call.tool.clone(),
                times,
            });
        }
        (times >= REPEAT_NOTICE_FROM).then(|| {
            format!(
                "this call has returned the same result {times} times: try something else, or finish and report what prevents progress"
            )
        })
    }

    /// Adds an overview of the work so far to the last result of a turn (LOOP-8).
    fn append_progress(&mut self) {
        let calls = self.earlier_calls + self.work.calls.len();
        // The first result needs no overview.
        if calls < 2 {
            return;
        }
        let mut so_far = format!("{calls} calls");
        for (count, outcome) in [(self.failed, "failed"), (self.withheld, "not carried out")] {
            if count > 0 {
                so_far.push_str(&format!(", {count} {outcome}"));
            }
        }
        let changes = self.changes_so_far();
        let earlier = changes.len().saturating_sub(LISTED_CHANGES);
        if earlier > 0 {
            so_far.push_str(&format!("; {earlier} earlier changes"));
        }
        for ChangeSoFar { text, times, .. } in changes.iter().skip(earlier) {
            let times = if *times > 1 {
                format!(" ({times} times)")
            } else {
                String::new()
            };
            so_far.push_str(&format!("; {text}{times}"));
        }
        self.conversation
            .amend_last_result(|result| result.so_far = Some(so_far));
    }
}

impl Agent {
    /// Returns the distinct changes since the agent started, in the order of their last occurrence. Commands and requests that changed
    /// nothing are included as far as they still matter: a success until the next change, a failure until it is repeated.
    pub(super) fn changes_so_far(&self) -> Vec<ChangeSoFar> {
        let mut found = self.earlier_changes.clone();
        for change in &self.work().changes {
            ChangeSoFar::new(change).add_to(&mut found);
        }
        found
    }
}

fn refused_submission(errors: String) -> ToolResult {
    ToolResult::failure(errors).with_code(code::BAD_PARAMETERS)
}

/// Lists the errors of a plan for the lead, at most `LISTED_ERRORS`.
fn plan_refusal(errors: impl IntoIterator<Item = String>) -> String {
    let mut errors: Vec<String> = errors.into_iter().map(|error| format!("- {error}")).collect();
    if let more @ 1.. = errors.len().saturating_sub(LISTED_ERRORS) {
        errors.truncate(LISTED_ERRORS);
        errors.push(format!("- and {more} more"));
    }
    format!(
        "the plan was refused; correct these errors and submit it again:\n{}",
        errors.join("\n")
    )
}

fn digest(effect: Option<EffectId>, call: &ToolCall, result: &ToolResult) -> CallSummary {
    let handle = effect.map(|effect| effect.to_string());
    let handle = handle.as_deref();
    let parameters = effect.map(|effect| OutputHandle::Parameters(effect).to_string());
    CallSummary {
        effect,
        tool: call.tool.clone(),
        parameters: shorten_value(&call.parameters, DIGEST_PARAMETER, parameters.as_deref()),
        success: result.succeeded(),
        duration: result.duration,
        error: match &result.outcome {
            ToolOutcome::Success { .. } => None,
            ToolOutcome::Failure { error, .. } => {
                Some(shorten_error(error, DIGEST_ERROR, handle).into_owned())
            }
        },
        output: short_output(result, handle),
        shown_by_diff: result.shown_by_diff(),
        outdates: Outdated::from_result(result),
        agent: (call.tool == DELEGATE).then(|| started_agent(result)).flatten(),
    }
}

/// Returns a shortened form of a result's output: without empty fields, and with short strings.
fn short_output(result: &ToolResult, handle: Option<&str>) -> Value {
    let (ToolOutcome::Success { output } | ToolOutcome::Failure { output, .. }) = &result.outcome;
    if let Value::String(text) = output {
        return match text.as_str() {
            "" => Value::Null,
            _ => shorten_output(output, DIGEST_OUTPUT, handle, result.omit),
        };
    }
    let output = shorten_value(&without_empty(output), DIGEST_STRING, handle);
    let text = output.to_string();
    match shorten(&text, DIGEST_OUTPUT, handle) {
        Cow::Borrowed(_) => output,
        Cow::Owned(text) => Value::String(text),
    }
}

/// Removes fields without information: `null`, `false` and empty values.
fn without_empty(output: &Value) -> Value {
    let Value::Object(fields) = output else {
        return output.clone();
    };
    let is_uninformative = |value: &Value| match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(true) | Value::Number(_) => false,
    };
    let fields = fields.iter().filter(|(_, value)| !is_uninformative(value));
    fields
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}
