//! Planning: starts and continues the lead, and handles its plan or answer (LEAD-1).

use std::sync::Arc;

use super::work::{Purpose, RunningAgent};
use super::{Commands, Run};
use crate::agent_report::{AgentAnswer, AgentFailure, AgentReport, AgentWork};
use crate::brief::{AgentBrief, AgentRole, Continuation};
use crate::end_reason::EndReason;
use crate::id::{AgentId, EffectId};
use crate::machine::Refusal;
use crate::message::Message;
use crate::observation::{Observation, SubTaskResult};
use crate::phase::Phase;
use crate::plan::{LEAD, Plan, PlanError, PlanGraph, Work};
use crate::prompt::{self, ContinueContext, EndedIteration};
use crate::run::Iteration;
use crate::time::Timestamp;
use crate::tool::StateChange;

/// The run's lead: one agent, which is continued for each iteration.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Lead {
    brief: Arc<AgentBrief>,
    continuations: u32,
    /// The number of iterations whose results the lead has received.
    told_iterations: usize,
    /// The number of the user's answers that the lead has received.
    told_answers: usize,
    /// True once the lead has begun to act in the current iteration (LEAD-3).
    acting: bool,
}

impl Run {
    pub(super) fn plan(&mut self, commands: &mut Commands) -> Result<(), Refusal> {
        if let Some(reason) = self.budget_exhausted().or_else(|| self.iterations_exhausted()) {
            return self.finish(reason, commands);
        }
        self.iteration += 1;
        self.enter(Phase::Planning, commands)?;
        match self.lead.take() {
            Some(lead) => self.continue_lead(lead, commands),
            None => self.start_lead(commands),
        }
        self.guidance_iterations
            .resize(self.guidance.len(), self.iteration);
        Ok(())
    }

    /// Ends the run with an answer that needs no lead. The run passes through every phase, as every other run does
    /// (LEAD-3).
    pub(super) fn answer_at_once(&mut self, answer: String, commands: &mut Commands) -> Result<(), Refusal> {
        self.iteration += 1;
        self.enter(Phase::Planning, commands)?;
        self.observe_lead(commands)?;
        self.enter(Phase::Reflecting, commands)?;
        self.finish_with_answer(answer, commands)
    }

    fn start_lead(&mut self, commands: &mut Commands) {
        let spec = self.spec().clone();
        let task = prompt::plan_request(
            &self.iteration_context(&spec),
            &spec.setup,
            &spec.limits,
            &spec.services,
            spec.only_agent(),
        );
        let brief = Arc::new(AgentBrief {
            agents_left: Some(self.agents_left()),
            guidance: Some(self.guidance_given()),
            ..self.brief(AgentRole::Lead, task)
        });
        self.lead = Some(Lead {
            brief: brief.clone(),
            continuations: 0,
            told_iterations: 0,
            told_answers: 0,
            acting: false,
        });
        self.wait_for(
            RunningAgent::new(brief, Purpose::Lead, self.guidance_given()),
            commands,
        );
    }

    /// Continues the lead with everything that it does not know yet.
    fn continue_lead(&mut self, lead: Lead, commands: &mut Commands) {
        let told = self.guidance_iterations.len();
        let guidance = (1..).zip(&self.guidance).skip(told);
        let message = prompt::continue_request(&ContinueContext {
            iteration: self.iteration,
            max_iterations: self.spec().limits.max_iterations,
            guidance: guidance.map(|(number, text)| (number, text.as_str())).collect(),
            answers: &self.answers[lead.told_answers..],
            ended: self.iterations[lead.told_iterations..]
                .iter()
                .map(|iteration| self.ended(iteration))
                .collect(),
        });
        let continuation = Continuation {
            number: lead.continuations + 1,
            message,
            agents_left: self.agents_left(),
            guidance: self.guidance_given(),
        };
        let mut agent = RunningAgent::new(lead.brief.clone(), Purpose::Lead, continuation.guidance);
        agent.continuation = Some(Arc::new(continuation));
        self.lead = Some(Lead {
            brief: lead.brief,
            continuations: lead.continuations + 1,
            told_iterations: self.iterations.len(),
            told_answers: self.answers.len(),
            acting: false,
        });
        self.wait_for(agent, commands);
    }

    /// The id of the lead; `None` until it is started.
    pub(crate) fn lead_id(&self) -> Option<AgentId> {
        Some(self.lead.as_ref()?.brief.agent)
    }

    /// The lead's task; `None` until it is started.
    pub(crate) fn lead_task(&self) -> Option<Message> {
        let content = self.lead.as_ref()?.brief.task.clone();
        Some(Message::User { content })
    }

    /// The result of the lead's plan that was still open when the run ended: the iterations' results that the lead has not received.
    pub(crate) fn closing_message(&self) -> String {
        let told = self.lead.as_ref().map_or(0, |lead| lead.told_iterations);
        let ended: Vec<EndedIteration<'_>> = self
            .iterations
            .iter()
            .skip(told)
            .map(|iteration| self.ended(iteration))
            .collect();
        prompt::closing_message(&ended)
    }

    /// Describes an ended iteration to the lead, without the lead's own work, which it knows.
    fn ended<'a>(&self, iteration: &'a Iteration) -> EndedIteration<'a> {
        let of_others = iteration
            .observations
            .iter()
            .filter(|seen| seen.subtask.0 != LEAD);
        EndedIteration {
            iteration: self.iteration_in_conversation(iteration.number),
            reflection: iteration.reflection.as_ref(),
            interrupted: iteration.interrupted.as_deref(),
            observations: of_others.collect(),
        }
    }

    fn agents_left(&self) -> u32 {
        self.spec().limits.max_agents.saturating_sub(self.sub_agents)
    }

    /// The lead, while it works.
    pub(super) fn working_lead(&self) -> Option<AgentId> {
        let lead = self.outstanding_lead()?;
        lead.report.is_none().then_some(lead.brief.agent)
    }

    /// The lead, while it works or its report waits for the end of its delegates.
    pub(super) fn outstanding_lead(&self) -> Option<&RunningAgent> {
        let lead = self.lead.as_ref()?.brief.agent;
        self.work.by_id(lead).map(|(_, running)| running)
    }

    pub(super) fn begin_acting(&mut self, effect: EffectId, commands: &mut Commands) -> Result<(), Refusal> {
        let stale = Refusal::Stale { effect };
        match (&mut self.lead, self.work.agent(effect)?.purpose) {
            (Some(lead), Purpose::Lead) => lead.acting = true,
            (_, _) => return Err(stale),
        }
        if self.phase == Phase::Planning {
            self.enter(Phase::Acting, commands)?;
        }
        Ok(())
    }

    /// Handles the lead's report.
    pub(super) fn end_lead(
        &mut self,
        now: Timestamp,
        report: AgentReport,
        commands: &mut Commands,
    ) -> Result<(), Refusal> {
        let given = report.guidance.map_or(0, |given| given as usize);
        let known = given.clamp(self.guidance_iterations.len(), self.guidance.len());
        self.guidance_iterations.resize(known, self.iteration);
        let own_work = self.own_work(&report);
        match report.result {
            Ok(AgentAnswer::Plan(plan)) => self.accept_plan(now, plan, own_work, commands),
            Ok(AgentAnswer::Text(text)) => self.accept_answer(text, own_work, commands),
            Err(AgentFailure::GaveUp { reason }) => self.accept_failure(&reason, own_work, commands),
            result => {
                if own_work.is_some() {
                    self.iterations
                        .push(Iteration::new(self.iteration, own_work, None));
                }
                // A run that is resumed after its end only needs to know the lead's work.
                if self.phase == Phase::Failed {
                    return Ok(());
                }
                self.fail_without_answer("lead", "an answer", result, commands)
            }
        }
    }

    /// Returns the observation of the lead's own work; `None` if it did not act (LEAD-3).
    fn own_work(&self, report: &AgentReport) -> Option<Observation> {
        let lead = self.lead.as_ref()?;
        let is_observed = match &report.result {
            // The reflector judges the answer together with the earlier work.
            Ok(AgentAnswer::Text(_)) => self.has_unjudged_work(),
            Ok(AgentAnswer::Plan(_) | AgentAnswer::Reflection(_)) | Err(_) => false,
        };
        let is_observed = is_observed || lead.acting || needs_reflection(&report.work);
        is_observed.then(|| Observation {
            subtask: LEAD.into(),
            title: "the lead's own work".to_owned(),
            duration: report.duration,
            may_fail: false,
            finding: SubTaskResult::Agent {
                agent: lead.brief.agent,
                name: AgentRole::Lead.name().to_owned(),
                result: report.result.clone().map(AgentAnswer::into_text),
                work: report.work.clone(),
            },
        })
    }

    fn accept_plan(
        &mut self,
        now: Timestamp,
        plan: Plan,
        own_work: Option<Observation>,
        commands: &mut Commands,
    ) -> Result<(), Refusal> {
        match validated_graph(plan) {
            Ok(graph) => {
                self.iterations
                    .push(Iteration::new(self.iteration, own_work, Some(graph)));
                if self.phase == Phase::Planning {
                    self.enter(Phase::Acting, commands)?;
                }
                self.advance(now, commands)
            }
            // Should not happen, because the lead's own machine already refuses invalid plans.
            Err(errors) => {
                let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
                self.finish(EndReason::failed(errors.join("; ")), commands)
            }
        }
    }

    /// Ends the run with the failure that the lead reports (LEAD-4), unless guidance came after the lead's last request (PAOR-8).
    fn accept_failure(
        &mut self,
        reason: &str,
        own_work: Option<Observation>,
        commands: &mut Commands,
    ) -> Result<(), Refusal> {
        if own_work.is_some() {
            self.iterations
                .push(Iteration::new(self.iteration, own_work, None));
        }
        if self.has_unplanned_guidance() {
            self.observe_lead(commands)?;
            self.enter(Phase::Reflecting, commands)?;
            return self.plan(commands);
        }
        let error = format!("the lead gave up: {reason}");
        self.finish(EndReason::failed(error), commands)
    }

    /// Continues with Observing, once the lead has ended without a plan.
    fn observe_lead(&mut self, commands: &mut Commands) -> Result<(), Refusal> {
        if self.phase == Phase::Planning {
            self.enter(Phase::Acting, commands)?;
        }
        self.enter(Phase::Observing, commands)
    }

    /// Accepts text instead of a plan as the answer to the goal (SPEC, "Where the rules meet", 6). The reflector judges the answer if there
    /// is work since it last found the goal achieved (LEAD-3). Guidance that came after the lead's last request needs another iteration
    /// (PAOR-8).
    fn accept_answer(
        &mut self,
        text: String,
        own_work: Option<Observation>,
        commands: &mut Commands,
    ) -> Result<(), Refusal> {
        self.observe_lead(commands)?;
        if own_work.is_some() {
            self.iterations
                .push(Iteration::new(self.iteration, own_work, None));
        }
        if self.has_unjudged_work() && !self.has_unplanned_guidance() {
            return self.reflect(commands);
        }
        self.enter(Phase::Reflecting, commands)?;
        if self.has_unplanned_guidance() {
            return self.plan(commands);
        }
        self.finish_with_answer(text, commands)
    }

    /// Returns true if something was changed or delegated since the reflector last found the goal achieved (LEAD-3). After any other
    /// verdict, an answer of the lead is judged even if it changed nothing more. An iteration ends without a reflection if the run failed
    /// before it and was resumed, or if guidance led to the next plan. In a conversation, only plans are judged.
    fn has_unjudged_work(&self) -> bool {
        let unjudged = self.iterations.iter().rev();
        let unjudged = unjudged.take_while(|iteration| !iteration.is_achieved());
        let only_plans = self.spec().turn.is_some();
        unjudged
            .filter(|iteration| iteration.has_plan() || !only_plans)
            .any(|iteration| iteration.observations.iter().any(must_be_judged))
    }
}

/// Returns true if the reflector must judge what was observed: something was changed, or an agent other than the lead worked (LEAD-3).
fn must_be_judged(seen: &Observation) -> bool {
    match &seen.finding {
        SubTaskResult::Agent { work, .. } => seen.subtask.0 != LEAD || needs_reflection(work),
        SubTaskResult::Calls { .. } => seen.changes().any(StateChange::is_reflected),
        SubTaskResult::Skipped { .. } => false,
    }
}

/// Returns true if the reflector must judge the lead's own work: it changed something, or delegated (LEAD-3).
fn needs_reflection(work: &AgentWork) -> bool {
    work.changes.iter().any(StateChange::is_reflected) || work.calls.iter().any(|call| call.agent.is_some())
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
