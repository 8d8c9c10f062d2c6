//! Reflecting: the reflector's brief, its judgement, and the user's answer to its question.

use std::sync::Arc;

use super::{Commands, Pending, Run};
use crate::brief::{AgentBrief, AgentRole};
use crate::end_reason::EndReason;
use crate::id::EffectId;
use crate::machine::Refusal;
use crate::phase::Phase;
use crate::prompt::{self, AnsweredQuestion};
use crate::question::Question;
use crate::reflection::{Reflection, ReflectionVerdict};
use crate::run::RunCommand;
use crate::run::changes::{changed_files, changes};
use crate::time::Timestamp;

impl Run {
    pub(super) fn reflect(&mut self, commands: &mut Commands) -> Result<(), Refusal> {
        self.enter(Phase::Reflecting, commands)?;
        let (Some(context), Some(iteration)) = (self.context.clone(), self.iterations.last()) else {
            return Ok(());
        };
        let earlier = self.iterations.len() - 1;
        let changed = changed_files(changes(&self.iterations, &[]));
        let changed: Vec<String> = changed.into_iter().map(|file| file.path).collect();
        let paths: Vec<&str> = changed.iter().map(String::as_str).collect();
        let task = prompt::reflect_request(
            &self.iteration_context(context.spec(), earlier),
            iteration.graph.plan(),
            &iteration.observations,
            &paths,
        );
        let brief = AgentBrief {
            changed: Some(changed),
            ..self.brief(AgentRole::Reflector, task)
        };
        self.start_agent(Pending::Reflector(Arc::new(brief)), commands);
        Ok(())
    }

    pub(super) fn accept_reflection(
        &mut self,
        now: Timestamp,
        reflection: Reflection,
        commands: &mut Commands,
    ) -> Result<(), Refusal> {
        let Some(iteration) = self.iterations.last_mut() else {
            return Ok(());
        };
        iteration.reflection = Some(reflection.clone());
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
                    self.unasked = Some(question);
                    return self.finish(reason, commands);
                }
                let pending = Pending::Question {
                    question: question.clone(),
                    asked_at: now,
                };
                let effect = self.outstanding.start(pending);
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
        let question = self.outstanding.get(effect)?.question();
        let answer = question.ok_or(Refusal::Stale { effect })?.choose(&answer)?;
        if let Pending::Question { question, asked_at } = self.outstanding.finish(effect)? {
            self.answers.push(AnsweredQuestion {
                question: question.question,
                answer,
            });
            self.extend_deadline(now - asked_at, commands);
        }
        self.plan(commands)
    }

    /// Returns true if the user has given guidance that no planner has received, and another planner can still run.
    pub(super) fn has_unplanned_guidance(&self) -> bool {
        self.guidance.len() > self.guidance_iterations.len()
            && self.iterations_exhausted().is_none()
            && self.budget_exhausted().is_none()
    }
}
