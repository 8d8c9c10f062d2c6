//! Planning: the planner's brief, and the handling of its answer.

use std::sync::Arc;

use super::work::Purpose;
use super::{Commands, Run};
use crate::brief::{AgentBrief, AgentRole};
use crate::end_reason::EndReason;
use crate::machine::Refusal;
use crate::phase::Phase;
use crate::plan::{Plan, PlanError, PlanGraph, Work};
use crate::prompt;
use crate::run::Iteration;
use crate::time::Timestamp;

impl Run {
    pub(super) fn plan(&mut self, commands: &mut Commands) -> Result<(), Refusal> {
        if let Some(reason) = self.budget_exhausted().or_else(|| self.iterations_exhausted()) {
            return self.finish(reason, commands);
        }
        self.iteration += 1;
        self.enter(Phase::Planning, commands)?;
        self.start_planner(commands);
        Ok(())
    }

    /// Starts a planner for the current iteration, with all guidance so far.
    pub(super) fn start_planner(&mut self, commands: &mut Commands) {
        let spec = self.spec().clone();
        self.guidance_iterations
            .resize(self.guidance.len(), self.iteration);
        let observed = self
            .iterations
            .last()
            .map_or(&[][..], |iteration| &iteration.observations);
        let task = prompt::plan_request(
            &self.iteration_context(&spec, self.iterations.len()),
            &spec.setup.agents,
            &spec.setup.tools,
            observed,
        );
        let left = spec.limits.max_agents.saturating_sub(self.sub_agents);
        let brief = AgentBrief {
            agents_left: Some(left),
            guidance: Some(u32::try_from(self.guidance.len()).unwrap_or(u32::MAX)),
            ..self.brief(AgentRole::Planner, task)
        };
        self.start_agent(brief, Purpose::Plan, commands);
    }

    pub(super) fn accept_plan(
        &mut self,
        now: Timestamp,
        plan: Plan,
        commands: &mut Commands,
    ) -> Result<(), Refusal> {
        match validated_graph(plan) {
            Ok(graph) => {
                self.iterations.push(Iteration::new(self.iteration, graph));
                self.enter(Phase::Acting, commands)?;
                self.advance(now, commands)
            }
            // Not expected, because the planner's own machine already refuses invalid plans.
            Err(errors) => {
                let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
                self.finish(EndReason::failed(errors.join("; ")), commands)
            }
        }
    }

    /// Accepts text instead of a plan as the answer to the goal (SPEC, "Where the rules meet", 6), unless the user has since given guidance
    /// that the planner cannot have taken into account (PAOR-8).
    pub(super) fn accept_answer(&mut self, text: String, commands: &mut Commands) -> Result<(), Refusal> {
        for phase in [Phase::Acting, Phase::Observing, Phase::Reflecting] {
            self.enter(phase, commands)?;
        }
        if self.has_unplanned_guidance() {
            return self.plan(commands);
        }
        self.finish_with_answer(text, commands)
    }
}

/// The plan's graph, if it is valid and every sub-task has work.
fn validated_graph(plan: Plan) -> Result<PlanGraph, Vec<PlanError>> {
    let idle = plan.subtasks.iter().filter(|subtask| match &subtask.work {
        Work::Calls { calls } => calls.is_empty(),
        Work::Agent { .. } => false,
    });
    let errors: Vec<PlanError> = idle
        .map(|subtask| PlanError::NoCalls {
            subtask: subtask.id.clone(),
        })
        .collect();
    if errors.is_empty() {
        PlanGraph::new(Arc::new(plan))
    } else {
        Err(errors)
    }
}
