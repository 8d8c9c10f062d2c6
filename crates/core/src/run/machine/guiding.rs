//! The user's guidance to the run, and how it reaches the lead and the sub-agents (PAOR-8).

use super::{Commands, Run};
use crate::id::EffectId;
use crate::machine::Refusal;
use crate::run::RunCommand;

impl Run {
    /// The number of guidance entries so far.
    pub(super) fn guidance_given(&self) -> u32 {
        u32::try_from(self.guidance.len()).unwrap_or(u32::MAX)
    }

    /// Records guidance, and passes it to the lead if it is working. Otherwise the lead's next continuation contains it.
    pub(super) fn guide(&mut self, guidance: String, commands: &mut Commands) {
        self.guidance.push(guidance.clone());
        if let Some(agent) = self.working_lead() {
            let number = self.guidance_given();
            self.work.outdate_request(agent);
            commands.push(RunCommand::GuideLead {
                agent,
                number,
                guidance,
            });
        }
    }

    /// Records guidance with which the user answered a plan of the lead. After a restart, the lead may send the same guidance again.
    pub(super) fn plan_guided(
        &mut self,
        effect: EffectId,
        guidance: String,
        commands: &mut Commands,
    ) -> Result<(), Refusal> {
        let is_new = effect.scope.agent() == self.lead_id() && self.guided_plans.insert(effect.step);
        if !is_new {
            return Err(Refusal::Stale { effect });
        }
        self.guide(guidance, commands);
        Ok(())
    }

    /// Returns the commands that send the working lead the guidance given since its start or last continuation. The lead refuses entries
    /// that it already knows.
    pub(super) fn guide_again(&self) -> impl Iterator<Item = RunCommand> {
        let lead = self.working_lead().into_iter();
        lead.flat_map(|agent| {
            let new = (1..).zip(&self.guidance).skip(self.guidance_iterations.len());
            new.map(move |(number, guidance)| RunCommand::GuideLead {
                agent,
                number,
                guidance: guidance.clone(),
            })
        })
    }

    /// If all outstanding work waits for the user, sends each sub-agent with an open question the guidance that it does not know yet. The
    /// guidance replaces the answer, so the run can continue.
    pub(super) fn guide_askers(&mut self, commands: &mut Commands) {
        if self.end.is_some() || self.work.awaited_call().is_none() {
            return;
        }
        for (agent, known) in self.work.outdate_questions(self.guidance_given()) {
            let guidance = self.guidance[known as usize..].join("\n");
            commands.push(RunCommand::GuideAgent { agent, guidance });
        }
    }
}
