//! Agents that delegate to other agents (PAOR-5).
//!
//! A delegate is an agent that another agent, its caller, started. It shares its caller's slot and is stopped together with its caller. Its
//! usage is counted once, from its report. Its changes are reported to the caller in the result of the `delegate` call. If the caller ends
//! before it receives that result, this module adds the changes to the caller's report.

use serde_json::{Value, json};

use super::work::{LastDelegation, Purpose, RunningAgent};
use super::{Commands, Run};
use crate::agent_report::{AgentAnswer, AgentReport, AgentWork, CallSummary};
use crate::brief::{AgentBrief, AgentRole};
use crate::delegation::{delegation_targets, with_started_agent};
use crate::id::{AgentId, EffectId};
use crate::machine::Refusal;
use crate::plan::{SubTaskState, Work};
use crate::prompt;
use crate::run::RunCommand;
use crate::time::Timestamp;
use crate::tool::{ToolResult, code};

impl Run {
    pub(super) fn delegate(
        &mut self,
        call: EffectId,
        agent: String,
        task: String,
        commands: &mut Commands,
    ) -> Result<(), Refusal> {
        let caller = call.scope.agent().and_then(|caller| self.work.by_id(caller));
        let Some((effect, caller)) = caller.filter(|(_, caller)| caller.report.is_none()) else {
            return Err(Refusal::Stale { effect: call });
        };
        if let Some((delegate, earlier)) = self.delegate_of(caller, call) {
            check_attempt(earlier, call)?;
            return self.work.update_agent(delegate, |delegate| {
                delegate.purpose = Purpose::Delegation(call);
            });
        }
        if let Some(last) = &caller.last_delegation
            && last.call.is_same_effect(call)
        {
            check_attempt(last.call, call)?;
            let result = last.result.clone();
            return self.return_findings(effect, call, result, commands);
        }
        if let Err(reason) = self.may_delegate(caller, &agent) {
            let refused = ToolResult::failure(reason).with_code(code::REFUSED);
            return self.return_findings(effect, call, refused, commands);
        }
        let depth = caller.brief.depth + 1;
        // A new delegation implies that the agent has received the result of its previous delegation.
        self.work
            .update_agent(effect, |caller| caller.last_delegation = None)?;
        let number = self.iteration_in_conversation(self.iteration);
        let task = prompt::task_request(&task, &self.guidance, number, &[]);
        let brief = AgentBrief {
            depth,
            caller: Some(call),
            ..self.brief(AgentRole::Sub(agent), task)
        };
        self.sub_agents += 1;
        self.start_agent(brief, Purpose::Delegation(call), commands);
        Ok(())
    }

    /// Returns the effect id of the delegate that this call started, and the id of the call's latest attempt that the run has handled.
    fn delegate_of(&self, caller: &RunningAgent, call: EffectId) -> Option<(EffectId, EffectId)> {
        let mut delegates = self.work.delegates(caller.brief.agent);
        delegates.find_map(|(delegate, running)| {
            let earlier = running.purpose.delegating_call()?;
            earlier.is_same_effect(call).then_some((delegate, earlier))
        })
    }

    /// Checks that the caller may start the agent now.
    ///
    /// # Errors
    /// Returns a message for the caller's model if the agent may not be started.
    fn may_delegate(&self, caller: &RunningAgent, agent: &str) -> Result<(), String> {
        let (spec, brief) = (self.spec(), &caller.brief);
        let Some(own) = spec.setup.agent_with_role(&brief.role) else {
            return Err(format!(
                "no agent was started: the run has no agent `{}`",
                brief.role.name()
            ));
        };
        let targets: Vec<&str> = delegation_targets(own.access, &spec.setup.agents)
            .map(|target| target.name.as_str())
            .collect();
        if !targets.contains(&agent) {
            let targets = targets.join(", ");
            return Err(format!(
                "you cannot delegate to `{agent}`: you may delegate to {targets}"
            ));
        }
        let limits = &spec.limits;
        if caller.stopping {
            return Err("no agent was started, because this work is being stopped".to_owned());
        }
        if brief.depth >= limits.max_depth {
            let max_depth = limits.max_depth;
            return Err(format!(
                "you cannot delegate at this depth (`max_depth` is {max_depth}): do the task yourself"
            ));
        }
        if self.sub_agents.saturating_add(self.planned_agents()) >= limits.max_agents {
            let max_agents = limits.max_agents;
            return Err(format!(
                "the run cannot start any more agents (`max_agents` is {max_agents}): do the task yourself"
            ));
        }
        match self.budget_exhausted() {
            Some(reason) => Err(format!("no agent was started: {reason}")),
            None => Ok(()),
        }
    }

    /// The number of agents that the current plan has yet to start.
    fn planned_agents(&self) -> u32 {
        let Some(iteration) = self.iterations.last() else {
            return 0;
        };
        let subtasks = iteration.graph.plan().subtasks.iter().enumerate();
        let planned =
            subtasks.filter(
                |(index, subtask)| match (iteration.graph.state(*index), &subtask.work) {
                    (SubTaskState::Waiting | SubTaskState::Ready, Work::Agent { .. }) => true,
                    (SubTaskState::Waiting | SubTaskState::Ready, Work::Calls { .. })
                    | (
                        SubTaskState::Running
                        | SubTaskState::Succeeded
                        | SubTaskState::Failed
                        | SubTaskState::Skipped,
                        _,
                    ) => false,
                },
            );
        u32::try_from(planned.count()).unwrap_or(u32::MAX)
    }

    /// Returns a result to the agent that delegated.
    fn return_findings(
        &mut self,
        caller: EffectId,
        call: EffectId,
        result: ToolResult,
        commands: &mut Commands,
    ) -> Result<(), Refusal> {
        let last_delegation = LastDelegation {
            call,
            result: result.clone(),
        };
        self.work
            .update_agent(caller, |caller| caller.last_delegation = Some(last_delegation))?;
        commands.push(RunCommand::ReturnFindings { effect: call, result });
        Ok(())
    }

    /// Handles the end of an agent, or stores its report until its delegates have ended.
    pub(super) fn finish_or_defer(
        &mut self,
        now: Timestamp,
        effect: EffectId,
        mut report: AgentReport,
        commands: &mut Commands,
    ) -> Result<(), Refusal> {
        let last_delegation = self
            .work
            .update_agent(effect, |agent| agent.last_delegation.take())?;
        if let Some(last) = last_delegation
            && !includes_call(&report.work, last.call)
        {
            report.work.changes.extend(last.result.changes);
        }
        let agent = self.work.agent(effect)?;
        if agent.has_delegates() {
            let id = agent.brief.agent;
            self.work
                .update_agent(effect, |agent| agent.report = Some(report))?;
            return self.stop_delegates(id, commands);
        }
        let agent = self.work.remove_agent(effect)?;
        for (call, calls) in agent.delegate_calls.iter().cloned() {
            insert_after(&mut report.work.calls, call, calls);
        }
        self.end_agent(now, agent, report, commands)
    }

    /// Handles the end of a delegate whose own delegates have all ended.
    pub(super) fn end_delegate(
        &mut self,
        now: Timestamp,
        brief: &AgentBrief,
        call: EffectId,
        report: AgentReport,
        commands: &mut Commands,
    ) -> Result<(), Refusal> {
        // A caller stays outstanding until its delegates have ended.
        let caller = call.scope.agent().and_then(|caller| self.effect_of(caller));
        let caller = caller.ok_or(Refusal::Stale { effect: call })?;
        let deferred = self.work.update_agent(caller, |caller| {
            caller.delegate_calls.push((call, report.work.calls.clone()));
            caller.report.take()
        })?;
        match deferred {
            Some(mut deferred) => {
                deferred.work.changes.extend(report.work.changes);
                self.finish_or_defer(now, caller, deferred, commands)
            }
            None => self.return_findings(caller, call, findings(brief, report), commands),
        }
    }

    /// Stops the delegates of an agent, and recursively their delegates.
    pub(super) fn stop_delegates(&mut self, agent: AgentId, commands: &mut Commands) -> Result<(), Refusal> {
        let delegates: Vec<EffectId> = self.work.delegates(agent).map(|(effect, _)| effect).collect();
        delegates
            .into_iter()
            .try_for_each(|delegate| self.stop_agent(delegate, commands))
    }

    /// Stops an agent and its delegates. Skips agents that have ended or are already being stopped.
    pub(super) fn stop_agent(&mut self, effect: EffectId, commands: &mut Commands) -> Result<(), Refusal> {
        let running = self.work.agent(effect)?;
        let agent = running.brief.agent;
        if running.report.is_none() && !running.stopping {
            self.work.update_agent(effect, |agent| agent.stopping = true)?;
            commands.push(RunCommand::StopAgent { agent });
        }
        self.stop_delegates(agent, commands)
    }

    /// Returns the changes of delegates that their callers' work does not include yet. `work_of` returns the work of a caller so far.
    pub(crate) fn unreported_delegated_work<'a>(
        &self,
        work_of: impl Fn(AgentId) -> Option<&'a AgentWork>,
    ) -> Vec<AgentWork> {
        let interrupted = self.end.as_ref().map(|end| end.interrupted.agents());
        let agents = self.work.agents().chain(interrupted.into_iter().flatten());
        let unreported = agents.filter_map(|(_, agent)| {
            let deferred = agent.report.as_ref().map(|report| &report.work.changes);
            let unreceived = agent
                .last_delegation
                .as_ref()
                .filter(|last| work_of(agent.brief.agent).is_none_or(|work| !includes_call(work, last.call)));
            deferred.or(unreceived.map(|last| &last.result.changes))
        });
        unreported
            .map(|changes| AgentWork {
                changes: changes.clone(),
                ..AgentWork::default()
            })
            .collect()
    }
}

/// Checks that a repeated `delegate` call has a higher attempt number than the earlier one.
fn check_attempt(earlier: EffectId, call: EffectId) -> Result<(), Refusal> {
    if call.attempt > earlier.attempt {
        Ok(())
    } else {
        Err(Refusal::Stale { effect: call })
    }
}

/// Returns true if the work includes the call, whatever its attempt.
fn includes_call(work: &AgentWork, call: EffectId) -> bool {
    let mut calls = work.calls.iter().rev();
    calls.any(|known| {
        let effect = known.effect;
        effect.is_some_and(|effect| effect.scope == call.scope && effect.step == call.step)
    })
}

/// Inserts the calls of a delegate after the call that started it, so that all calls are in chronological order. Appends them if the caller
/// ended before that call did.
fn insert_after(calls: &mut Vec<CallSummary>, call: EffectId, of_delegate: Vec<CallSummary>) {
    let is_call = |known: &CallSummary| known.effect.is_some_and(|effect| effect.is_same_effect(call));
    let place = calls
        .iter()
        .position(is_call)
        .map_or(calls.len(), |place| place + 1);
    calls.splice(place..place, of_delegate);
}

/// Builds the result of the `delegate` call that started the agent.
fn findings(brief: &AgentBrief, report: AgentReport) -> ToolResult {
    let name = brief.role.name();
    let calls = report.work.calls.len();
    let result = match report.result.map(AgentAnswer::into_text) {
        Ok(findings) => ToolResult::success(json!({"agent": name, "findings": findings, "calls": calls})),
        Err(failure) => {
            let so_far = report.work.findings_so_far;
            let output = match so_far.is_empty() {
                true => Value::Null,
                false => json!({"agent": name, "findings_so_far": so_far, "calls": calls}),
            };
            ToolResult::failure(format!("the agent `{name}` ended without findings: {failure}"))
                .with_code(code::AGENT_FAILED)
                .with_output(output)
        }
    };
    let result = ToolResult {
        duration: report.duration,
        ..result.with_changes(report.work.changes)
    };
    with_started_agent(result, brief.agent)
}
