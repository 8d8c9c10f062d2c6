//! Agents that delegate to other agents (PAOR-5).
//!
//! A delegate works in its caller's slot, and is stopped with its caller. Its usage is counted once, by its own report. Its changes belong
//! to its caller: as the result of the delegating call or, if the caller ended before it received the result, added to the caller's report
//! here.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Commands, Pending, Run};
use crate::agent_report::{AgentAnswer, AgentReport, AgentWork};
use crate::brief::{AgentBrief, AgentRole};
use crate::delegation::{delegation_targets, with_started_agent};
use crate::id::{AgentId, EffectId, Scope};
use crate::machine::Refusal;
use crate::plan::{SubTaskState, Work};
use crate::prompt;
use crate::run::RunCommand;
use crate::time::Timestamp;
use crate::tool::{ToolResult, code};

/// The result of an agent's last delegation. Stored until the agent shows that it has received the result, as it may ask again after a
/// restart.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct LastDelegation {
    call: EffectId,
    result: ToolResult,
}

impl Run {
    pub(super) fn delegate(
        &mut self,
        effect: EffectId,
        agent: String,
        task: String,
        commands: &mut Commands,
    ) -> Result<(), Refusal> {
        let Some((caller, brief)) = self.caller(effect.scope) else {
            return Err(Refusal::Stale { effect });
        };
        let same = |call: EffectId| call.scope == effect.scope && call.step == effect.step;
        for pending in self.outstanding.values_mut() {
            if let Pending::Child { call, .. } = pending
                && same(*call)
            {
                return update_attempt(call, effect);
            }
        }
        if let Some(returned) = self.last_delegations.get_mut(&caller)
            && same(returned.call)
        {
            update_attempt(&mut returned.call, effect)?;
            let result = returned.result.clone();
            commands.push(RunCommand::ReturnFindings { effect, result });
            return Ok(());
        }
        match self.may_delegate(&brief, &agent) {
            Err(reason) => {
                let refused = ToolResult::failure(reason).with_code(code::REFUSED);
                self.return_findings(caller, effect, refused, commands);
            }
            Ok(()) => {
                // A further delegation shows that the agent has received the last result.
                self.last_delegations.remove(&caller);
                let task = prompt::task_request(&task, self.iteration, &[]);
                let child = AgentBrief {
                    depth: brief.depth + 1,
                    caller: Some(effect),
                    ..self.brief(AgentRole::Sub(agent), task)
                };
                self.sub_agents += 1;
                let pending = Pending::Child {
                    brief: Arc::new(child),
                    call: effect,
                };
                self.start_agent(pending, commands);
            }
        }
        Ok(())
    }

    /// The running agent of this scope.
    fn caller(&self, scope: Scope) -> Option<(AgentId, Arc<AgentBrief>)> {
        let Scope::Agent(agent) = scope else { return None };
        let effect = self.effect_of(agent)?;
        let brief = self.outstanding.get(effect).ok()?.brief()?;
        (!self.awaiting_children.contains_key(&effect.step)).then(|| (agent, brief.clone()))
    }

    /// Checks that the caller may start the agent now; the error says why not, for the caller's model.
    fn may_delegate(&self, caller: &AgentBrief, agent: &str) -> Result<(), String> {
        let context = self.context.as_ref();
        let known = context.and_then(|context| Some((context.spec(), context.agent(&caller.role)?)));
        let Some((spec, own)) = known else {
            return Err("no agent is started, as it is not known what you may do yourself".to_owned());
        };
        let mut known = delegation_targets(own.access, &spec.agents).map(|known| known.name.as_str());
        if !known.any(|name| name == agent) {
            let known: Vec<&str> = delegation_targets(own.access, &spec.agents)
                .map(|known| known.name.as_str())
                .collect();
            let known = known.join(", ");
            return Err(format!(
                "there is no agent `{agent}` that you may delegate to: the agents are {known}"
            ));
        }
        let limits = &spec.limits;
        if self.is_stopping(caller.agent) {
            return Err("no agent is started any more, as this work is being stopped".to_owned());
        }
        if caller.depth >= limits.max_depth {
            let max_depth = limits.max_depth;
            return Err(format!(
                "agents may not delegate any deeper (`max_depth` is {max_depth}): do it yourself"
            ));
        }
        if self.sub_agents.saturating_add(self.planned_agents()) >= limits.max_agents {
            let max_agents = limits.max_agents;
            return Err(format!(
                "the run has no agent left to start (`max_agents` is {max_agents}): do it yourself"
            ));
        }
        match self.budget_exhausted() {
            Some(reason) => Err(format!("no agent is started any more: {reason}")),
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

    fn return_findings(
        &mut self,
        caller: AgentId,
        call: EffectId,
        result: ToolResult,
        commands: &mut Commands,
    ) {
        let returned = LastDelegation {
            call,
            result: result.clone(),
        };
        self.last_delegations.insert(caller, returned);
        commands.push(RunCommand::ReturnFindings { effect: call, result });
    }

    /// Handles the end of an agent; deferred while its delegates still work.
    pub(super) fn finish_or_defer(
        &mut self,
        now: Timestamp,
        effect: EffectId,
        mut report: AgentReport,
        commands: &mut Commands,
    ) -> Result<(), Refusal> {
        let Some(agent) = self.agent_of(effect) else {
            return Err(Refusal::Stale { effect });
        };
        if let Some(returned) = self.last_delegations.remove(&agent)
            && !includes_call(&report.work, returned.call)
        {
            report.work.changes.extend(returned.result.changes);
        }
        if self.has_children(agent) {
            self.awaiting_children.insert(effect.step, report);
            self.stop_children(agent, commands);
            return Ok(());
        }
        report
            .work
            .calls
            .extend(self.child_calls.remove(&agent).unwrap_or_default());
        self.stopping.remove(&effect.step);
        match self.outstanding.finish(effect)? {
            Pending::Child { brief, call } => self.end_child(now, &brief, call, report, commands),
            Pending::Abandoned(_) => Ok(()),
            pending @ (Pending::Planner(_)
            | Pending::Reflector(_)
            | Pending::SubAgent { .. }
            | Pending::Tool { .. }
            | Pending::Approval { .. }
            | Pending::Question { .. }) => self.end_agent(now, pending, report, commands),
        }
    }

    fn end_child(
        &mut self,
        now: Timestamp,
        brief: &AgentBrief,
        call: EffectId,
        report: AgentReport,
        commands: &mut Commands,
    ) -> Result<(), Refusal> {
        let Scope::Agent(caller) = call.scope else {
            return Ok(());
        };
        // A caller is outstanding until its delegates have ended.
        let Some(caller_effect) = self.effect_of(caller) else {
            return Ok(());
        };
        let calls = self.child_calls.entry(caller).or_default();
        calls.extend(report.work.calls.iter().cloned());
        match self.awaiting_children.remove(&caller_effect.step) {
            Some(mut held) => {
                held.work.changes.extend(report.work.changes);
                self.finish_or_defer(now, caller_effect, held, commands)
            }
            None => {
                self.return_findings(caller, call, findings(brief, report), commands);
                Ok(())
            }
        }
    }

    /// The result of the last delegation by this call, until its caller has received it.
    pub(crate) fn findings_of(&self, call: EffectId) -> Option<&ToolResult> {
        let Scope::Agent(caller) = call.scope else {
            return None;
        };
        let returned = self.last_delegations.get(&caller)?;
        (returned.call == call).then_some(&returned.result)
    }

    pub(super) fn effect_of(&self, agent: AgentId) -> Option<EffectId> {
        self.outstanding.iter().find_map(|(effect, pending)| {
            let brief = pending.brief()?;
            (brief.agent == agent).then_some(effect)
        })
    }

    /// The ancestor of an agent that the run started by itself; the agent itself if it has no caller.
    pub(super) fn root_agent(&self, agent: AgentId) -> AgentId {
        let pending = |effect| self.outstanding.get(effect).ok();
        let caller = self.effect_of(agent).and_then(pending).and_then(Pending::caller);
        match caller.map(|caller| caller.scope) {
            Some(Scope::Agent(caller)) => self.root_agent(caller),
            Some(Scope::Run) | None => agent,
        }
    }

    pub(super) fn has_children(&self, agent: AgentId) -> bool {
        self.children_of(agent).next().is_some()
    }

    pub(super) fn children_of(&self, agent: AgentId) -> impl Iterator<Item = EffectId> {
        let children = self.outstanding.iter().filter(move |(_, pending)| {
            let caller = pending.caller();
            caller.is_some_and(|caller| caller.scope == Scope::Agent(agent))
        });
        children.map(|(effect, _)| effect)
    }

    /// Stops the delegates of an agent, and theirs.
    fn stop_children(&mut self, agent: AgentId, commands: &mut Commands) {
        let children: Vec<EffectId> = self.children_of(agent).collect();
        for child in children {
            self.stop_agent(child, commands);
        }
    }

    /// Stops an agent and its delegates, unless they are being stopped or have ended.
    pub(super) fn stop_agent(&mut self, effect: EffectId, commands: &mut Commands) {
        let Some(agent) = self.agent_of(effect) else {
            return;
        };
        if !self.awaiting_children.contains_key(&effect.step) && self.stopping.insert(effect.step) {
            commands.push(RunCommand::StopAgent { effect });
        }
        self.stop_children(agent, commands);
    }

    fn is_stopping(&self, agent: AgentId) -> bool {
        self.effect_of(agent)
            .is_none_or(|effect| self.stopping.contains(&effect.step))
    }

    /// The changes of delegates that are in no report of their callers yet, given the callers' work so far.
    pub(crate) fn unreported_delegated_work<'a>(
        &self,
        work_of: impl Fn(AgentId) -> Option<&'a AgentWork>,
    ) -> Vec<AgentWork> {
        let returned = self.last_delegations.iter().filter(|(caller, returned)| {
            work_of(**caller).is_none_or(|work| !includes_call(work, returned.call))
        });
        let returned = returned.map(|(_, returned)| &returned.result.changes);
        let held = self.awaiting_children.values().map(|held| &held.work.changes);
        held.chain(returned)
            .map(|changes| AgentWork {
                changes: changes.clone(),
                ..AgentWork::default()
            })
            .collect()
    }
}

/// Updates the attempt of a call, so that the result answers the newest one.
fn update_attempt(call: &mut EffectId, effect: EffectId) -> Result<(), Refusal> {
    if effect.attempt <= call.attempt {
        return Err(Refusal::Stale { effect });
    }
    *call = effect;
    Ok(())
}

/// Returns true if the work includes the call, at any attempt.
fn includes_call(work: &AgentWork, call: EffectId) -> bool {
    let mut calls = work.calls.iter().rev();
    calls.any(|known| {
        let effect = known.effect;
        effect.is_some_and(|effect| effect.scope == call.scope && effect.step == call.step)
    })
}

/// The result of the delegating call that started the agent.
fn findings(brief: &AgentBrief, report: AgentReport) -> ToolResult {
    let name = match &brief.role {
        AgentRole::Sub(name) => name.as_str(),
        AgentRole::Planner => "planner",
        AgentRole::Reflector => "reflector",
    };
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
