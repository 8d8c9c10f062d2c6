//! Resuming after a restart: the outstanding commands, and the calls that may not be repeated (HOST-2).

use std::sync::Arc;

use super::acting::CallPosition;
use super::{Commands, Pending, Run, approving};
use crate::id::EffectId;
use crate::machine::Refusal;
use crate::phase::Phase;
use crate::run::{RunCommand, RunTimer};
use crate::time::Timestamp;
use crate::tool::ToolResult;

impl Run {
    /// The commands of all outstanding effects; after a replay, what is still to be done.
    pub fn outstanding(&self) -> Vec<RunCommand> {
        let mut commands = Commands::new();
        let under_way = || {
            let pending = self.outstanding.iter();
            pending.filter(|(effect, _)| !self.awaiting_children.contains_key(&effect.step))
        };
        for (effect, pending) in under_way() {
            commands.push(self.command(effect, pending));
            if self.stopping.contains(&effect.step) {
                commands.push(match pending.brief() {
                    Some(_) => RunCommand::StopAgent { effect },
                    None => RunCommand::StopTool { effect },
                });
            }
        }
        for (effect, pending) in under_way() {
            if let Pending::Tool { deadline, .. } = pending {
                commands.push(RunCommand::SetTimer {
                    timer: RunTimer::Call(effect.step),
                    at: *deadline,
                });
            }
            commands.extend(
                pending
                    .approval()
                    .and_then(|approval| approving::expiry(approval)),
            );
        }
        match (&self.end, &self.awaiting_user) {
            (Some(reason), _) => commands.push(RunCommand::Finish {
                reason: reason.clone(),
            }),
            (None, Some(awaiting)) => commands.push(RunCommand::AwaitUser {
                effect: awaiting.effect,
            }),
            (None, None) => commands.extend(self.deadline_timer()),
        }
        commands
    }

    /// Resumes the run in a new process: the time away does not count, and outstanding effects are retried if that is safe.
    pub(super) fn resume(
        &mut self,
        now: Timestamp,
        last_seen: Timestamp,
        forked: bool,
        commands: &mut Commands,
    ) -> Result<(), Refusal> {
        self.end = None;
        self.extend_deadlines(now, last_seen);
        // Each agent requests its approvals again.
        self.pending_approvals.clear();
        // An approval keeps its attempt, so that a decision given while no process was there still counts.
        self.outstanding.retry(|pending| pending.approval().is_none());
        let ended = self.interrupted_calls();
        if forked {
            self.renew_approvals(now, &ended);
        }
        let has_ended = |step| ended.iter().any(|(effect, _)| effect.step == step);
        *commands = self.outstanding();
        commands.retain(|command| !step_of_call_command(command).is_some_and(has_ended));
        for (effect, result) in ended {
            self.end_call(now, effect, result, commands)?;
        }
        match self.phase {
            // Sub-tasks whose approvals are requested again have freed their slots.
            Phase::Acting | Phase::Observing if forked => self.advance(now, commands),
            Phase::Idle
            | Phase::Planning
            | Phase::Acting
            | Phase::Observing
            | Phase::Reflecting
            | Phase::Complete
            | Phase::Failed => Ok(()),
        }
    }

    /// Requests approvals anew in a fork, as decisions made for the original run do not count (APPROVE-3): for all calls that wait for
    /// approval, and for approved calls that have not ended.
    fn renew_approvals(&mut self, now: Timestamp, ended: &[(EffectId, ToolResult)]) {
        let Some(context) = &self.context else { return };
        for (effect, pending) in self.outstanding.iter_mut() {
            if ended.iter().any(|(ended, _)| *ended == effect) {
                continue;
            }
            let (call, asked) = match pending {
                Pending::Approval { call, approval, .. }
                | Pending::Tool {
                    call,
                    approved: Some(approval),
                    ..
                } => (call.clone(), approval.clone()),
                Pending::Tool { approved: None, .. }
                | Pending::Planner(_)
                | Pending::Reflector(_)
                | Pending::Abandoned(_)
                | Pending::SubAgent { .. }
                | Pending::Child { .. }
                | Pending::Question { .. } => continue,
            };
            if let Some(CallPosition { index, position }) = pending.call_position() {
                let approval = Arc::new(asked.renewed(effect, &call, context.spec(), now));
                *pending = Pending::Approval {
                    index,
                    position,
                    call,
                    approval,
                };
            }
        }
    }

    /// Extends all deadlines by the time in which no process was there or the run's clock was paused.
    fn extend_deadlines(&mut self, now: Timestamp, last_seen: Timestamp) {
        let away = now - last_seen.max(self.last_at);
        let awaited = self.awaiting_user.take().map(|awaiting| now - awaiting.since);
        if self.question().is_none() {
            self.extend_deadline(awaited.unwrap_or(away), &mut Vec::new());
        }
        for pending in self.outstanding.values_mut() {
            if let Pending::Tool { deadline, .. } = pending {
                *deadline = *deadline + away;
            }
            if let Pending::Approval { approval, .. } = pending {
                Arc::make_mut(approval).extend_expiry(away);
            }
        }
    }

    /// The plan's own calls that are not repeated, with their results: repeating them is not safe, or they were being stopped.
    fn interrupted_calls(&self) -> Vec<(EffectId, ToolResult)> {
        let tools = self.context.as_ref().map(|context| context.tools());
        let calls = self.outstanding.iter().filter_map(|(effect, pending)| {
            let Pending::Tool { call, started, .. } = pending else {
                return None;
            };
            if *started && !tools.is_some_and(|tools| tools.is_safe_to_repeat(call)) {
                return Some((effect, ToolResult::interrupted(&call.tool)));
            }
            let is_stopping = self.stopping.contains(&effect.step);
            is_stopping.then(|| (effect, ToolResult::redirected()))
        });
        calls.collect()
    }
}

/// The step of the plan's own call that the command runs, stops or times.
fn step_of_call_command(command: &RunCommand) -> Option<u32> {
    match command {
        RunCommand::RunTool { effect, .. } | RunCommand::StopTool { effect } => Some(effect.step),
        RunCommand::SetTimer {
            timer: RunTimer::Call(step),
            ..
        } => Some(*step),
        RunCommand::Announce { .. }
        | RunCommand::StartAgent { .. }
        | RunCommand::AskUser { .. }
        | RunCommand::StopAgent { .. }
        | RunCommand::ReturnFindings { .. }
        | RunCommand::AskApproval { .. }
        | RunCommand::AwaitUser { .. }
        | RunCommand::SetTimer {
            timer: RunTimer::Approval(_) | RunTimer::Deadline,
            ..
        }
        | RunCommand::Finish { .. } => None,
    }
}
