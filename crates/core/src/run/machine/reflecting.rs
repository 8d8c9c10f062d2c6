//! Reflecting: the run's diff, the reflector's brief, its judgement, and the user's answer to its question.

use super::work::{AskedQuestion, Pending, Purpose};
use super::{Commands, Run};
use crate::brief::AgentRole;
use crate::end_reason::EndReason;
use crate::file_changes::{ChangedFile, changed_files, other_changes};
use crate::id::EffectId;
use crate::machine::Refusal;
use crate::phase::Phase;
use crate::prompt::{self, AnsweredQuestion};
use crate::question::Question;
use crate::reflection::{Reflection, ReflectionVerdict};
use crate::run::RunCommand;
use crate::run::iteration::changes;
use crate::run_diff::ReflectorDiff;
use crate::time::Timestamp;
use crate::tool::StateChange;

impl Run {
    pub(super) fn reflect(&mut self, commands: &mut Commands) -> Result<(), Refusal> {
        self.enter(Phase::Reflecting, commands)?;
        if self.spec().reads_diff && self.may_have_changed_files() {
            let effect = self.work.next_effect();
            self.work.insert(effect, Pending::Diff);
            commands.push(RunCommand::ReadDiff { effect });
            return Ok(());
        }
        self.start_reflector(None, commands)
    }

    /// Starts the reflector with the run's net diff.
    pub(super) fn diff_read(
        &mut self,
        effect: EffectId,
        diff: &ReflectorDiff,
        commands: &mut Commands,
    ) -> Result<(), Refusal> {
        self.work.remove_diff(effect)?;
        self.start_reflector(Some(diff), commands)
    }

    fn start_reflector(
        &mut self,
        diff: Option<&ReflectorDiff>,
        commands: &mut Commands,
    ) -> Result<(), Refusal> {
        let iteration = self.current_iteration()?;
        let changed = self.changed_files();
        let paths: Vec<&str> = changed.iter().map(|file| file.path.as_str()).collect();
        let task = prompt::reflect_request(
            &self.iteration_context(self.spec()),
            iteration.has_plan().then(|| &**iteration.graph.plan()),
            &iteration.observations,
            &paths,
            &other_changes(changes(&self.iterations, &[])),
            diff,
        );
        let brief = self.brief(AgentRole::Reflector, task);
        self.start_agent(brief, Purpose::Reflection, commands);
        Ok(())
    }

    /// Returns true if a file tool changed a file, or a file changed while a command was running.
    fn may_have_changed_files(&self) -> bool {
        let is_noticed = |change: &StateChange| matches!(change, StateChange::ProcessExited { files, .. } if !files.is_empty());
        !self.changed_files().is_empty() || changes(&self.iterations, &[]).any(is_noticed)
    }

    fn changed_files(&self) -> Vec<ChangedFile> {
        changed_files(changes(&self.iterations, &[]))
    }

    pub(super) fn accept_reflection(
        &mut self,
        now: Timestamp,
        reflection: Reflection,
        commands: &mut Commands,
    ) -> Result<(), Refusal> {
        self.current_iteration_mut()?.reflection = Some(reflection.clone());
        match reflection.verdict {
            // PAOR-8: guidance given since the last plan needs another plan.
            ReflectionVerdict::Achieved | ReflectionVerdict::Failed if self.has_unplanned_guidance() => {
                self.plan(commands)
            }
            ReflectionVerdict::Achieved => self.finish(EndReason::GoalAchieved, commands),
            ReflectionVerdict::Continue => self.plan(commands),
            ReflectionVerdict::Failed => self.finish(EndReason::failed(reflection.summary), commands),
            ReflectionVerdict::AskUser => {
                let question = Question {
                    question: reflection.question.unwrap_or(reflection.summary),
                    choices: reflection.choices,
                };
                // No question is asked if no plan can be made with the answer.
                if let Some(reason) = self.budget_exhausted().or_else(|| self.iterations_exhausted()) {
                    return self.finish_unasked(reason, question, commands);
                }
                let effect = self.work.next_effect();
                let asked = AskedQuestion {
                    question: question.clone(),
                    asked_at: now,
                };
                self.work.insert(effect, Pending::Question(asked));
                commands.push(RunCommand::AskUser { effect, question });
                Ok(())
            }
        }
    }

    pub(super) fn accept_user_answer(
        &mut self,
        now: Timestamp,
        effect: EffectId,
        answer: String,
        commands: &mut Commands,
    ) -> Result<(), Refusal> {
        let (_, question) = self
            .question()
            .filter(|(asked, _)| *asked == effect)
            .ok_or(Refusal::Stale { effect })?;
        let answer = AnsweredQuestion {
            question: question.question.clone(),
            answer: question.choose(&answer)?,
        };
        self.answers.push(answer);
        self.end_question(now, commands)?;
        self.plan(commands)
    }

    /// Ends the wait for an answer, if the run waits for one. The time of the wait does not count towards the time limit.
    pub(super) fn end_question(&mut self, now: Timestamp, commands: &mut Commands) -> Result<(), Refusal> {
        if let Some((effect, asked)) = self.work.question() {
            let waited = now - asked.asked_at;
            self.work.remove(effect)?;
            self.extend_deadline(waited, commands);
        }
        Ok(())
    }

    /// Returns true if the user has given guidance that the lead has not received, and limits and budget allow another iteration.
    pub(super) fn has_unplanned_guidance(&self) -> bool {
        self.guidance.len() > self.guidance_iterations.len()
            && self.iterations_exhausted().is_none()
            && self.budget_exhausted().is_none()
    }
}
