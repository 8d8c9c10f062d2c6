//! Acting and observing: starts sub-tasks that are ready, and collects their results.

use std::sync::Arc;

use super::work::{CallPosition, CallState, Pending, PlannedCall, Purpose};
use super::{Commands, Run};
use crate::agent_report::AgentFailure;
use crate::approval::Approval;
use crate::brief::AgentRole;
use crate::id::{EffectId, Scope};
use crate::machine::Refusal;
use crate::message::ToolCall;
use crate::observation::{Observation, ObservedCall, SubTaskResult};
use crate::phase::Phase;
use crate::plan::{Plan, SubTaskOutcome, Work};
use crate::policy::PolicyDecision;
use crate::prompt;
use crate::run::iteration::ActiveSubTask;
use crate::run::{RunCommand, RunTimer};
use crate::time::{Millis, Timestamp};
use crate::tool::ToolResult;

impl Run {
    /// Starts the sub-tasks that are ready. Starts the reflection once all sub-tasks have ended.
    pub(super) fn advance(&mut self, now: Timestamp, commands: &mut Commands) -> Result<(), Refusal> {
        // There is no plan to execute until the lead and its delegates have ended.
        if self.phase == Phase::Failed || self.outstanding_lead().is_some() {
            return Ok(());
        }
        if self.redirecting {
            return self.replan_once_stopped(now, commands);
        }
        if let Some(reason) = self.budget_exhausted() {
            let running = self.current_iteration()?.graph.running();
            // Running agents have already reserved budget, so the run waits for their results.
            return if self.budget_exceeded.is_some() && running > 0 {
                Ok(())
            } else {
                self.finish(reason, commands)
            };
        }
        while let Some(index) = self.take_ready()? {
            self.start_subtask(now, index, commands)?;
        }
        if !self.current_iteration()?.graph.is_done() {
            return Ok(());
        }
        if self.phase == Phase::Acting {
            self.enter(Phase::Observing, commands)?;
        }
        self.reflect(commands)
    }

    /// Takes the next sub-task that is ready, if a slot is free. Sub-tasks that wait for the user do not occupy a slot (HOST-11).
    fn take_ready(&mut self) -> Result<Option<usize>, Refusal> {
        let max_parallel = self.spec().limits.max_parallel.max(1) as usize;
        let waiting = self.work.waiting_subtasks();
        let graph = &mut self.current_iteration_mut()?.graph;
        if graph.running().saturating_sub(waiting) >= max_parallel {
            return Ok(None);
        }
        Ok(graph.next_ready())
    }

    pub(super) fn start_subtask(
        &mut self,
        now: Timestamp,
        index: usize,
        commands: &mut Commands,
    ) -> Result<(), Refusal> {
        let iteration = self.current_iteration()?;
        let plan = iteration.graph.plan().clone();
        let agent = match &plan.subtasks[index].work {
            Work::Agent { agent, task } => {
                let findings: Vec<&Observation> = iteration
                    .graph
                    .dependencies(index)
                    .filter_map(|dependency| iteration.observation(dependency))
                    .collect();
                let number = self.iteration_in_conversation(self.iteration);
                let task = prompt::task_request(task, &self.guidance, number, &findings);
                let brief = self.brief(AgentRole::Sub(agent.clone()), task);
                self.sub_agents += 1;
                let agent = brief.agent;
                self.start_agent(brief, Purpose::SubTask(index), commands);
                Some(agent)
            }
            Work::Calls { .. } => None,
        };
        let active = ActiveSubTask {
            since: now,
            agent,
            calls: Vec::new(),
        };
        self.current_iteration_mut()?.active.insert(index, active);
        match agent {
            Some(_) => Ok(()),
            None => {
                let position = CallPosition {
                    subtask: index,
                    call: 0,
                };
                self.start_call(now, &plan, position, commands)
            }
        }
    }

    /// Starts a call of a sub-task if the policy allows it, or asks for approval. A denied call ends the sub-task.
    fn start_call(
        &mut self,
        now: Timestamp,
        plan: &Plan,
        position: CallPosition,
        commands: &mut Commands,
    ) -> Result<(), Refusal> {
        let Some(call) = planned_call(plan, position) else {
            return Err(self.no_plan());
        };
        match self.evaluate_policy(&call) {
            PolicyDecision::Allow => {
                let effect = self.work.next_effect();
                self.execute(now, effect, position, call, None, commands);
                Ok(())
            }
            PolicyDecision::Ask => {
                self.ask_approval(now, position, call, commands);
                Ok(())
            }
            PolicyDecision::Deny(why) => {
                // The denied call gets its own effect id, although it never becomes outstanding.
                let effect = self.work.skip_effect();
                let result = ToolResult::denied(why);
                self.finish_unexecuted(now, effect, position, call, result, commands)
            }
        }
    }

    /// Runs a call under this effect id. `approved` is the approval that was granted, if one was needed.
    pub(super) fn execute(
        &mut self,
        now: Timestamp,
        effect: EffectId,
        position: CallPosition,
        call: ToolCall,
        approved: Option<Arc<Approval>>,
        commands: &mut Commands,
    ) {
        let deadline = now + self.call_timeout();
        let state = CallState::Running {
            started: false,
            stopping: false,
            deadline,
            approved,
        };
        let planned = PlannedCall {
            position,
            call,
            state,
        };
        commands.push(self.tool_command(effect, &planned));
        self.work.insert(effect, Pending::Call(planned));
        commands.push(RunCommand::SetTimer {
            timer: RunTimer::Call(effect.step),
            at: deadline,
        });
    }

    /// Records that the start of a call was journaled.
    pub(super) fn call_started(&mut self, effect: EffectId) -> Result<(), Refusal> {
        self.work
            .update_call(effect, |planned| match &mut planned.state {
                CallState::Running { started, .. } => {
                    *started = true;
                    Ok(())
                }
                CallState::AwaitingApproval(_) => Err(Refusal::Stale { effect }),
            })?
    }

    pub(super) fn call_timeout(&self) -> Millis {
        self.spec().limits.call_timeout
    }

    pub(super) fn overdue_call(&self, now: Timestamp, step: u32) -> Option<EffectId> {
        let (effect, planned) = self.work.call_at(Scope::Run, step)?;
        match planned.state {
            CallState::Running { deadline, .. } => (deadline <= now).then_some(effect),
            CallState::AwaitingApproval(_) => None,
        }
    }

    pub(super) fn end_call(
        &mut self,
        now: Timestamp,
        effect: EffectId,
        result: ToolResult,
        commands: &mut Commands,
    ) -> Result<(), Refusal> {
        if self.running_call(effect).is_none() {
            return Err(Refusal::Stale { effect });
        }
        let PlannedCall { position, call, .. } = self.work.remove_call(effect)?;
        self.usage.tool_calls = self.usage.tool_calls.saturating_add(1);
        let succeeded = result.succeeded();
        let iteration = self.current_iteration_mut()?;
        let plan = iteration.graph.plan().clone();
        if let Some(active) = iteration.active.get_mut(&position.subtask) {
            active.calls.push(ObservedCall { effect, call, result });
        }
        let next = CallPosition {
            call: position.call + 1,
            ..position
        };
        match planned_call(&plan, next) {
            Some(_) if succeeded && !self.redirecting => {
                self.start_call(now, &plan, next, commands)?;
                // Further sub-tasks may be able to start: a denied call ends its sub-task, and a call that waits for approval frees a slot.
                self.advance(now, commands)
            }
            Some(call) if succeeded => {
                let (effect, result) = (self.work.skip_effect(), ToolResult::redirected());
                self.finish_unexecuted(now, effect, next, call, result, commands)?;
                self.advance(now, commands)
            }
            Some(_) | None => {
                let calls = self.take_calls(position.subtask)?;
                let finding = SubTaskResult::Calls { calls };
                self.end_subtask(now, position.subtask, finding, commands)
            }
        }
    }

    /// Removes and returns the ended calls of a sub-task, with their results.
    fn take_calls(&mut self, index: usize) -> Result<Vec<ObservedCall>, Refusal> {
        let active = self.current_iteration_mut()?.active.get_mut(&index);
        Ok(active.map_or_else(Vec::new, |active| std::mem::take(&mut active.calls)))
    }

    /// Records a call that did not run, and ends its sub-task as failed.
    pub(super) fn finish_unexecuted(
        &mut self,
        now: Timestamp,
        effect: EffectId,
        position: CallPosition,
        call: ToolCall,
        result: ToolResult,
        commands: &mut Commands,
    ) -> Result<(), Refusal> {
        let mut calls = self.take_calls(position.subtask)?;
        calls.push(ObservedCall { effect, call, result });
        let finding = SubTaskResult::Calls { calls };
        self.observe_end(now, position.subtask, finding, commands)
    }

    pub(super) fn end_subtask(
        &mut self,
        now: Timestamp,
        index: usize,
        finding: SubTaskResult,
        commands: &mut Commands,
    ) -> Result<(), Refusal> {
        self.observe_end(now, index, finding, commands)?;
        self.advance(now, commands)
    }

    /// Records the result of a sub-task. Starts no other work.
    fn observe_end(
        &mut self,
        now: Timestamp,
        index: usize,
        mut finding: SubTaskResult,
        commands: &mut Commands,
    ) -> Result<(), Refusal> {
        if self.redirecting {
            finding.mark_redirected();
        }
        let was_stopped = match &finding {
            SubTaskResult::Agent { result, .. } => *result == Err(AgentFailure::Redirected),
            // Immediate guidance stops the running call, which ends the sequence of calls.
            SubTaskResult::Calls { .. } => self.redirecting,
            SubTaskResult::Skipped { .. } => false,
        };
        let iteration = self.current_iteration_mut()?;
        let outcome = match finding.succeeded() {
            true => SubTaskOutcome::Succeeded,
            false if was_stopped || finding.was_stopped_by_user() => SubTaskOutcome::Stopped,
            false => SubTaskOutcome::Failed,
        };
        iteration.observe(index, now, finding);
        for skipped in iteration.graph.finish(index, outcome) {
            let because = iteration.graph.plan().subtasks[skipped.because].id.clone();
            let because = (!was_stopped).then_some(because);
            iteration.observe(skipped.index, now, SubTaskResult::Skipped { because });
        }
        if self.phase == Phase::Acting {
            self.enter(Phase::Observing, commands)?;
        }
        Ok(())
    }
}

fn planned_call(plan: &Plan, position: CallPosition) -> Option<ToolCall> {
    match &plan.subtasks[position.subtask].work {
        Work::Calls { calls } => calls.get(position.call).map(|planned| ToolCall {
            id: String::new(),
            tool: planned.tool.clone(),
            parameters: planned.parameters.clone(),
            terminate: false,
        }),
        Work::Agent { .. } => None,
    }
}
