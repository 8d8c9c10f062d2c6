//! Acting and observing: starts sub-tasks that are ready, and collects their results.

use std::sync::Arc;

use super::{Commands, Pending, Run};
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

/// The position of a call in the plan: the sub-task's index, and the call's index in it.
#[derive(Clone, Copy)]
pub(super) struct CallPosition {
    pub(super) index: usize,
    pub(super) position: usize,
}

impl Run {
    /// Starts the sub-tasks that are ready; reflects once none is left.
    pub(super) fn advance(&mut self, now: Timestamp, commands: &mut Commands) -> Result<(), Refusal> {
        if self.phase == Phase::Failed {
            return Ok(());
        }
        if self.redirecting {
            return self.replan_once_stopped(now, commands);
        }
        if let Some(reason) = self.budget_exhausted() {
            let running = self
                .iterations
                .last()
                .map_or(0, |iteration| iteration.graph.running());
            // Running agents have reserved their budget: what they find is paid for, and is observed.
            return if self.budget_exceeded.is_some() && running > 0 {
                Ok(())
            } else {
                self.finish(reason, commands)
            };
        }
        while let Some(index) = self.take_ready() {
            self.start_subtask(now, index, commands)?;
        }
        if !self
            .iterations
            .last()
            .is_some_and(|iteration| iteration.graph.is_done())
        {
            return Ok(());
        }
        if self.phase == Phase::Acting {
            self.enter(Phase::Observing, commands)?;
        }
        self.reflect(commands)
    }

    /// Takes the next sub-task that is ready, if a slot is free. Sub-tasks that wait for people take no slot (HOST-11).
    fn take_ready(&mut self) -> Option<usize> {
        let max_parallel = self.spec().map_or(1, |spec| spec.limits.max_parallel.max(1)) as usize;
        let running = self.iterations.last()?.graph.running();
        if running >= max_parallel && running - self.subtasks_awaiting_user() >= max_parallel {
            return None;
        }
        self.iterations.last_mut()?.graph.next_ready()
    }

    pub(super) fn start_subtask(
        &mut self,
        now: Timestamp,
        index: usize,
        commands: &mut Commands,
    ) -> Result<(), Refusal> {
        let Some(iteration) = self.iterations.last() else {
            return Ok(());
        };
        let plan = iteration.graph.plan().clone();
        let agent = match &plan.subtasks[index].work {
            Work::Agent { agent, task } => {
                let findings: Vec<&Observation> = iteration
                    .graph
                    .dependencies(index)
                    .filter_map(|dependency| iteration.observation(dependency))
                    .collect();
                let task = prompt::task_request(task, self.iteration, &findings);
                let brief = Arc::new(self.brief(AgentRole::Sub(agent.clone()), task));
                self.sub_agents += 1;
                let agent = brief.agent;
                self.start_agent(Pending::SubAgent { brief, index }, commands);
                Some(agent)
            }
            Work::Calls { .. } => None,
        };
        if let Some(iteration) = self.iterations.last_mut() {
            iteration.active.insert(
                index,
                ActiveSubTask {
                    since: now,
                    agent,
                    calls: Vec::new(),
                },
            );
        }
        if agent.is_none() {
            self.start_call(now, &plan, index, 0, commands)?;
        }
        Ok(())
    }

    /// Starts a call of a sub-task if the policy allows it, or asks for approval. A denied call ends the sub-task.
    pub(super) fn start_call(
        &mut self,
        now: Timestamp,
        plan: &Plan,
        index: usize,
        position: usize,
        commands: &mut Commands,
    ) -> Result<(), Refusal> {
        let Some(call) = planned_call(plan, index, position) else {
            return Ok(());
        };
        let call_position = CallPosition { index, position };
        match self.evaluate_policy(&call) {
            PolicyDecision::Allow => {
                let effect = self.outstanding.next_effect();
                self.execute(now, effect, call_position, call, None, commands);
                Ok(())
            }
            PolicyDecision::Ask => {
                self.ask_approval(now, call_position, call, commands);
                Ok(())
            }
            PolicyDecision::Deny(why) => {
                // The denied call gets an id of its own, though it is never outstanding.
                let effect = self.outstanding.skip();
                self.finish_unexecuted(
                    now,
                    effect,
                    call_position,
                    call,
                    ToolResult::denied(why),
                    commands,
                )
            }
        }
    }

    /// Runs a call under this id; `approved` is the approval that was granted, if one was needed.
    pub(super) fn execute(
        &mut self,
        now: Timestamp,
        effect: EffectId,
        call_position: CallPosition,
        call: ToolCall,
        approved: Option<Arc<Approval>>,
        commands: &mut Commands,
    ) {
        let deadline = now + self.call_timeout();
        let pending = Pending::Tool {
            index: call_position.index,
            position: call_position.position,
            call,
            started: false,
            deadline,
            approved,
        };
        commands.push(self.command(effect, &pending));
        self.outstanding.put(effect, pending);
        commands.push(RunCommand::SetTimer {
            timer: RunTimer::Call(effect.step),
            at: deadline,
        });
    }

    pub(super) fn call_timeout(&self) -> Millis {
        self.spec().map_or(Millis(0), |spec| spec.limits.call_timeout)
    }

    pub(super) fn overdue_call(&self, now: Timestamp, step: u32) -> Option<EffectId> {
        let (effect, pending) = self.outstanding.at_step(Scope::Run, step)?;
        let Pending::Tool { deadline, .. } = pending else {
            return None;
        };
        (*deadline <= now).then_some(effect)
    }

    pub(super) fn end_call(
        &mut self,
        now: Timestamp,
        effect: EffectId,
        result: ToolResult,
        commands: &mut Commands,
    ) -> Result<(), Refusal> {
        let &Pending::Tool { index, position, .. } = self.outstanding.get(effect)? else {
            return Err(Refusal::Stale { effect });
        };
        let Pending::Tool { call, .. } = self.outstanding.finish(effect)? else {
            return Err(Refusal::Stale { effect });
        };
        self.stopping.remove(&effect.step);
        self.usage.tool_calls = self.usage.tool_calls.saturating_add(1);
        let succeeded = result.succeeded();
        let Some(iteration) = self.iterations.last_mut() else {
            return Err(Refusal::Stale { effect });
        };
        let plan = iteration.graph.plan().clone();
        if let Some(active) = iteration.active.get_mut(&index) {
            active.calls.push(ObservedCall { effect, call, result });
        }
        match planned_call(&plan, index, position + 1) {
            Some(_) if succeeded && !self.redirecting => {
                self.start_call(now, &plan, index, position + 1, commands)?;
                // Further sub-tasks may start: a denied call ended its sub-task, and one that waits for approval freed its slot.
                self.advance(now, commands)
            }
            Some(call) if succeeded => {
                let effect = self.outstanding.skip();
                let call_position = CallPosition {
                    index,
                    position: position + 1,
                };
                self.finish_unexecuted(
                    now,
                    effect,
                    call_position,
                    call,
                    ToolResult::redirected(),
                    commands,
                )?;
                self.advance(now, commands)
            }
            Some(_) | None => {
                let success = if succeeded {
                    SubTaskOutcome::Succeeded
                } else {
                    SubTaskOutcome::Failed
                };
                let calls = self.take_calls(index);
                self.end_subtask(now, index, success, SubTaskResult::Calls { calls }, commands)
            }
        }
    }

    /// Takes the calls of a sub-task that have ended.
    fn take_calls(&mut self, index: usize) -> Vec<ObservedCall> {
        let iteration = self.iterations.last_mut();
        let active = iteration.and_then(|iteration| iteration.active.get_mut(&index));
        active.map_or_else(Vec::new, |active| std::mem::take(&mut active.calls))
    }

    /// Ends a call that did not run, and its sub-task.
    pub(super) fn finish_unexecuted(
        &mut self,
        now: Timestamp,
        effect: EffectId,
        call_position: CallPosition,
        call: ToolCall,
        result: ToolResult,
        commands: &mut Commands,
    ) -> Result<(), Refusal> {
        let mut calls = self.take_calls(call_position.index);
        calls.push(ObservedCall { effect, call, result });
        self.observe_end(
            now,
            call_position.index,
            SubTaskOutcome::Failed,
            SubTaskResult::Calls { calls },
            commands,
        )
    }

    pub(super) fn end_subtask(
        &mut self,
        now: Timestamp,
        index: usize,
        success: SubTaskOutcome,
        finding: SubTaskResult,
        commands: &mut Commands,
    ) -> Result<(), Refusal> {
        self.observe_end(now, index, success, finding, commands)?;
        self.advance(now, commands)
    }

    /// Records the result of a sub-task; starts nothing.
    fn observe_end(
        &mut self,
        now: Timestamp,
        index: usize,
        success: SubTaskOutcome,
        finding: SubTaskResult,
        commands: &mut Commands,
    ) -> Result<(), Refusal> {
        let Some(iteration) = self.iterations.last_mut() else {
            return Ok(());
        };
        let was_stopped = match &finding {
            SubTaskResult::Agent { result, .. } => *result == Err(AgentFailure::Redirected),
            // A stopped call ends its sequence.
            SubTaskResult::Calls { .. } => self.redirecting,
            SubTaskResult::Skipped { .. } => false,
        };
        iteration.observe(index, now, finding);
        for skipped in iteration.graph.finish(index, success) {
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

fn planned_call(plan: &Plan, index: usize, position: usize) -> Option<ToolCall> {
    match &plan.subtasks[index].work {
        Work::Calls { calls } => calls.get(position).map(|planned| ToolCall {
            id: String::new(),
            tool: planned.tool.clone(),
            parameters: planned.parameters.clone(),
            terminate: false,
        }),
        Work::Agent { .. } => None,
    }
}
