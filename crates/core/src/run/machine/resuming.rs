//! Resuming after a restart: the outstanding commands, and the calls that must not be repeated (HOST-2).

use std::sync::Arc;

use super::work::{CallState, Pending};
use super::{Commands, Run, approving};
use crate::id::EffectId;
use crate::machine::Refusal;
use crate::phase::Phase;
use crate::run::{RunCommand, RunTimer};
use crate::time::Timestamp;
use crate::tool::ToolResult;

impl Run {
    /// Returns the commands of all outstanding effects, which the driver must execute after a replay.
    pub fn outstanding(&self) -> Vec<RunCommand> {
        let (mut commands, mut timers) = (Commands::new(), Commands::new());
        for (effect, pending) in self.work.iter() {
            match pending {
                // The agent has ended; the run waits only for its delegates.
                Pending::Agent(agent) if agent.report.is_some() => continue,
                Pending::Agent(_) | Pending::Call(_) | Pending::Diff | Pending::Question(_) => {}
            }
            commands.push(self.command(effect, pending));
            if let Pending::Agent(agent) = pending {
                commands.extend(self.allow_again(agent.brief.agent));
                commands.extend(self.change_tools_again(agent.brief.agent));
            }
            match pending {
                Pending::Agent(agent) if agent.stopping => commands.push(RunCommand::StopAgent {
                    agent: agent.brief.agent,
                }),
                Pending::Call(planned) => match &planned.state {
                    CallState::AwaitingApproval(approval) => timers.extend(approving::expiry(approval)),
                    CallState::Running {
                        stopping, deadline, ..
                    } => {
                        if *stopping {
                            commands.push(RunCommand::StopTool { effect });
                        }
                        timers.push(RunCommand::SetTimer {
                            timer: RunTimer::Call(effect.step),
                            at: *deadline,
                        });
                    }
                },
                Pending::Agent(_) | Pending::Diff | Pending::Question(_) => {}
            }
        }
        commands.extend(self.guide_again());
        commands.extend(timers);
        match (&self.end, &self.awaiting_user) {
            (Some(end), _) => commands.push(RunCommand::Finish {
                reason: end.reason.clone(),
            }),
            (None, Some(awaiting)) => commands.push(RunCommand::AwaitUser {
                effect: awaiting.effect,
            }),
            (None, None) => commands.extend(self.deadline_timer()),
        }
        commands
    }

    /// Resumes the run in a new process. The time in which no process owned the run does not count towards the time limits. Outstanding
    /// effects are retried if that is safe.
    pub(super) fn resume(
        &mut self,
        now: Timestamp,
        last_seen: Timestamp,
        forked: bool,
        commands: &mut Commands,
    ) -> Result<(), Refusal> {
        self.end = None;
        self.extend_deadlines(now, last_seen)?;
        // Each resumed agent makes its requests to the user again.
        self.work.settle_all_calls();
        self.work.retry();
        let ended = self.interrupted_calls();
        if forked {
            self.renew_approvals(now, &ended)?;
        }
        let has_ended = |step| ended.iter().any(|(effect, _)| effect.step == step);
        *commands = self.outstanding();
        commands.retain(|command| !step_of_call_command(command).is_some_and(has_ended));
        for (effect, result) in ended {
            self.end_call(now, effect, result, commands)?;
        }
        match self.phase {
            // Sub-tasks that now wait for a renewed approval have freed their slots.
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

    /// In a fork, requests approval again for each planned call that waits for approval or that was approved and has not ended. Decisions
    /// made in the source run are not valid in the fork (APPROVE-3).
    fn renew_approvals(&mut self, now: Timestamp, ended: &[(EffectId, ToolResult)]) -> Result<(), Refusal> {
        let spec = self.spec().clone();
        for effect in self.planned_calls() {
            if ended.iter().any(|(ended, _)| *ended == effect) {
                continue;
            }
            self.work.update_call(effect, |planned| {
                let asked = match &planned.state {
                    CallState::AwaitingApproval(asked)
                    | CallState::Running {
                        approved: Some(asked),
                        ..
                    } => asked,
                    CallState::Running { approved: None, .. } => return,
                };
                let approval = asked.renewed(effect, &planned.call, spec.limits.approval_timeout, now);
                planned.state = CallState::AwaitingApproval(Arc::new(approval));
            })?;
        }
        Ok(())
    }

    fn planned_calls(&self) -> Vec<EffectId> {
        self.work.calls().map(|(effect, _)| effect).collect()
    }

    /// Extends all deadlines by the time in which no process owned the run or the run's clock was paused.
    fn extend_deadlines(&mut self, now: Timestamp, last_seen: Timestamp) -> Result<(), Refusal> {
        let away = now - last_seen.max(self.last_at);
        let awaited = self.awaiting_user.take().map(|awaiting| now - awaiting.since);
        if self.question().is_none() {
            self.extend_deadline(awaited.unwrap_or(away), &mut Vec::new());
        }
        for effect in self.planned_calls() {
            self.work
                .update_call(effect, |planned| match &mut planned.state {
                    CallState::Running { deadline, .. } => *deadline = *deadline + away,
                    CallState::AwaitingApproval(approval) => Arc::make_mut(approval).extend_expiry(away),
                })?;
        }
        Ok(())
    }

    /// Returns the running calls of the plan that must not be repeated, with their results: calls that are not safe to repeat, and calls
    /// that were being stopped.
    fn interrupted_calls(&self) -> Vec<(EffectId, ToolResult)> {
        let tools = self.tool_set();
        let calls = self.work.calls().filter_map(|(effect, planned)| {
            let CallState::Running {
                started, stopping, ..
            } = planned.state
            else {
                return None;
            };
            if started && !tools.is_safe_to_repeat(&planned.call) {
                return Some((effect, ToolResult::interrupted(&planned.call.tool)));
            }
            stopping.then(|| (effect, ToolResult::redirected()))
        });
        calls.collect()
    }
}

/// Returns the step of the planned call that the command runs, stops or sets a time limit for; `None` for any other command.
fn step_of_call_command(command: &RunCommand) -> Option<u32> {
    match command {
        RunCommand::RunTool { effect, .. } | RunCommand::StopTool { effect } => Some(effect.step),
        RunCommand::SetTimer {
            timer: RunTimer::Call(step),
            ..
        } => Some(*step),
        RunCommand::Announce { .. }
        | RunCommand::StartAgent { .. }
        | RunCommand::GuideLead { .. }
        | RunCommand::RedirectLead { .. }
        | RunCommand::GuideAgent { .. }
        | RunCommand::AllowCalls { .. }
        | RunCommand::ChangeTools { .. }
        | RunCommand::AskUser { .. }
        | RunCommand::StopAgent { .. }
        | RunCommand::ReturnFindings { .. }
        | RunCommand::ReadDiff { .. }
        | RunCommand::AskApproval { .. }
        | RunCommand::AwaitUser { .. }
        | RunCommand::SetTimer {
            timer: RunTimer::Approval(_) | RunTimer::Deadline,
            ..
        }
        | RunCommand::Finish { .. } => None,
    }
}
