//! Replays recordings: feeds recorded external inputs to the current machines.

use std::sync::Arc;

use super::difference::{diff, json, request_text};
use super::machines::Machines;
use super::{Difference, EntryLocation, Part, RecordedEntry, RecordedRequest, Recording};
use crate::agent::AgentInput;
use crate::agent_report::{AgentFailure, AgentReport};
use crate::brief::AgentBrief;
use crate::id::{AgentId, EffectId, RunId, Scope};
use crate::journal::{Entry, Input};
use crate::run::RunInput;
use crate::spec::{AgentSpec, RunSpec};
use crate::tool::ToolResult;

/// Replays a recording with the run id `run` and the spec `present`, and returns the journal of the replay. Only external inputs are taken
/// from the recording, each with its recorded time: replies of models, results of tools, messages and answers of the user, timers,
/// restarts, and panics of agents. Everything else is derived and compared with the recording: briefs, model requests, tool calls,
/// delegations and their results, questions, reports, and the end of the run. The returned journal equals that of the recorded run.
///
/// The names and profiles of models are taken from the recording, agent by agent, because no model is called.
///
/// # Errors
/// Returns the first [`Difference`] between the replay and the recording.
pub fn replay(recording: &Recording, present: RunSpec, run: RunId) -> Result<Vec<Entry>, Box<Difference>> {
    let present = with_models_of(present, &recording.spec);
    let mut replay = Replay {
        machines: Machines::default(),
        present: Arc::new(present),
        run,
    };
    let entries = recording
        .lines
        .iter()
        .map(|line| replay.step(line))
        .collect::<Result<Vec<_>, _>>()?;
    replay.compare_ends(recording)?;
    Ok(entries)
}

struct Replay {
    machines: Machines,
    present: Arc<RunSpec>,
    run: RunId,
}

impl Replay {
    fn step(&mut self, line: &RecordedEntry) -> Result<Entry, Box<Difference>> {
        let input = self.present_input(line)?;
        let answers = self.machines.answered_request(line.scope, &input);
        let entry = Entry {
            run: self.run,
            seq: line.seq,
            at: line.at,
            scope: line.scope,
            input,
        };
        // Compute the location before the input is applied.
        let location = self.location(line);
        if let Err(refusal) = self.machines.apply(entry.clone()) {
            let recorded = format!("{}\n{}", json(&line.input), request_text(line.answers.as_ref()));
            // A refused input changes nothing, so the machine still waits for the same effects.
            let present = format!("{refusal}\n{}", self.machines.waiting(line.scope));
            return Err(difference(location, Part::Input, &recorded, &present));
        }
        compare_requests(location, line.answers.as_ref(), answers.as_ref())?;
        Ok(entry)
    }

    /// Returns the input for the current machines: derived if possible, otherwise as recorded. An input in the scope of another machine is
    /// returned unchanged, and the machines refuse it.
    fn present_input(&self, line: &RecordedEntry) -> Result<Input, Box<Difference>> {
        match (&line.input, line.scope) {
            (Input::Run(RunInput::Started { spec }), _) => {
                self.compare_specs(line, spec)?;
                Ok(Input::Run(RunInput::Started {
                    spec: self.present.clone(),
                }))
            }
            (Input::Run(RunInput::AgentFinished { effect, report }), _) => {
                self.present_report(line, *effect, report)
            }
            (Input::Run(RunInput::ApprovalAsked { effect }), _) => {
                self.compare_waiting(line, *effect, self.machines.has_requested_approval(*effect))
            }
            (Input::Run(RunInput::ApprovalSettled { effect }), _) => {
                let is_settled =
                    self.machines.has_requested_approval(*effect) && !self.machines.awaits_approval(*effect);
                self.compare_waiting(line, *effect, is_settled)
            }
            (Input::Run(RunInput::Delegated { effect, agent, task }), _) => {
                self.compare_delegation(line, *effect, agent, task)
            }
            (Input::Agent(AgentInput::ToolFinished { effect, result }), Scope::Agent(_))
                if self.machines.delegation(*effect).is_some() =>
            {
                self.compare_findings(line, *effect, result)
            }
            (Input::Agent(AgentInput::Started { brief }), Scope::Agent(agent)) => {
                self.present_start(line, agent, brief)
            }
            (
                Input::Run(
                    RunInput::ToolStarted { .. }
                    | RunInput::ToolFinished { .. }
                    | RunInput::Guided { .. }
                    | RunInput::Redirected { .. }
                    | RunInput::Decided { .. }
                    | RunInput::UserAnswered { .. }
                    | RunInput::UserAbsent { .. }
                    | RunInput::TimerFired { .. }
                    | RunInput::Resumed { .. }
                    | RunInput::Cancelled,
                )
                | Input::Agent(
                    AgentInput::Started { .. }
                    | AgentInput::ModelReplied { .. }
                    | AgentInput::ModelFailed { .. }
                    | AgentInput::OverBudget { .. }
                    | AgentInput::ToolStarted { .. }
                    | AgentInput::ToolFinished { .. }
                    | AgentInput::Decided { .. }
                    | AgentInput::Guided { .. }
                    | AgentInput::TimerFired { .. }
                    | AgentInput::Resumed { .. }
                    | AgentInput::Cancelled,
                ),
                _,
            ) => Ok(line.input.clone()),
        }
    }

    /// Checks that an agent's notification about a pending call matches the recording.
    fn compare_waiting(
        &self,
        line: &RecordedEntry,
        effect: EffectId,
        is_so: bool,
    ) -> Result<Input, Box<Difference>> {
        if is_so {
            return Ok(line.input.clone());
        }
        let present = self.machines.waiting(effect.scope);
        Err(difference(
            self.location(line),
            Part::Approval,
            &json(&line.input),
            &present,
        ))
    }

    /// Compares the agent and the task of a delegation with the recording.
    fn compare_delegation(
        &self,
        line: &RecordedEntry,
        call: EffectId,
        agent: &str,
        task: &str,
    ) -> Result<Input, Box<Difference>> {
        let description = |agent: &str, task: &str| format!("agent `{agent}`: {task}");
        match self.machines.delegation(call) {
            Some((present, present_task)) if present == agent && present_task == task => {
                Ok(line.input.clone())
            }
            Some((present, present_task)) => Err(difference(
                self.location(line),
                Part::Call,
                &description(agent, task),
                &description(present, present_task),
            )),
            None => {
                let present = self.machines.waiting(call.scope);
                Err(difference(
                    self.location(line),
                    Part::Call,
                    &description(agent, task),
                    &present,
                ))
            }
        }
    }

    /// Compares the result of a delegation with the recording.
    fn compare_findings(
        &self,
        line: &RecordedEntry,
        call: EffectId,
        recorded: &ToolResult,
    ) -> Result<Input, Box<Difference>> {
        match self.machines.run().findings_of(call) {
            Some(present) if present == recorded => Ok(line.input.clone()),
            Some(present) => Err(difference(
                self.location(line),
                Part::Report,
                &json(recorded),
                &json(present),
            )),
            None => {
                let present = self.machines.waiting(Scope::Run);
                Err(difference(
                    self.location(line),
                    Part::Report,
                    &json(recorded),
                    &present,
                ))
            }
        }
    }

    fn present_start(
        &self,
        line: &RecordedEntry,
        agent: AgentId,
        recorded: &AgentBrief,
    ) -> Result<Input, Box<Difference>> {
        let differs = |recorded: &str, present: &str| {
            Err(difference(self.location(line), Part::Brief, recorded, present))
        };
        match self.machines.brief(agent) {
            Some(present) if present == recorded => Ok(Input::Agent(AgentInput::Started {
                brief: present.clone(),
            })),
            Some(present) if present.task != recorded.task => differs(&recorded.task, &present.task),
            Some(present) => differs(&json(recorded), &json(present)),
            None => {
                let waiting = self.machines.waiting(Scope::Run);
                differs(
                    &json(recorded),
                    &format!("agent {agent} has not started\n{waiting}"),
                )
            }
        }
    }

    fn present_report(
        &self,
        line: &RecordedEntry,
        effect: EffectId,
        recorded: &AgentReport,
    ) -> Result<Input, Box<Difference>> {
        let Some(agent) = self.machines.run().agent_of(effect) else {
            return Ok(line.input.clone());
        };
        // A panic is an external event, so it is taken from the recording.
        if let Err(AgentFailure::Panicked { .. }) = recorded.result {
            return Ok(line.input.clone());
        }
        match self.machines.report(effect) {
            Some(present) if present == recorded => Ok(Input::Run(RunInput::AgentFinished {
                effect,
                report: present.clone(),
            })),
            Some(present) => Err(difference(
                self.location(line),
                Part::Report,
                &json(recorded),
                &json(present),
            )),
            None => {
                let present = self.machines.waiting(Scope::Agent(agent));
                Err(difference(
                    self.location(line),
                    Part::Report,
                    &json(recorded),
                    &present,
                ))
            }
        }
    }

    /// Compares causes before effects. For example, tools come before system prompts, which list the tools.
    fn compare_specs(&self, line: &RecordedEntry, recorded: &RunSpec) -> Result<(), Box<Difference>> {
        let (location, present) = (|| self.location(line), &*self.present);
        compare_text(location, Part::Goal, &recorded.goal, &present.goal)?;
        compare_text(location, Part::Workspace, &recorded.workspace, &present.workspace)?;
        compare(location, Part::Limits, &recorded.limits, &present.limits)?;
        compare(location, Part::Policy, &recorded.policy, &present.policy)?;
        let names = |spec: &RunSpec| {
            spec.tools
                .iter()
                .map(|tool| tool.name.clone())
                .collect::<Vec<_>>()
        };
        compare_text(
            location,
            Part::Tools,
            &names(recorded).join("\n"),
            &names(present).join("\n"),
        )?;
        for (recorded, present) in recorded.tools.iter().zip(&present.tools) {
            let name = recorded.name.clone();
            compare(location, Part::Tool { name }, recorded, present)?;
        }
        let names = |spec: &RunSpec| agents(spec).map(|agent| agent.name.clone()).collect::<Vec<_>>();
        compare_text(
            location,
            Part::Agents,
            &names(recorded).join("\n"),
            &names(present).join("\n"),
        )?;
        for (recorded, present) in agents(recorded).zip(agents(present)) {
            let agent = recorded.name.clone();
            let part = Part::AgentTools { agent: agent.clone() };
            compare_text(
                location,
                part,
                &recorded.tools.join("\n"),
                &present.tools.join("\n"),
            )?;
            let part = Part::SystemPrompt { agent: agent.clone() };
            compare_text(location, part, &recorded.system_prompt, &present.system_prompt)?;
            compare(location, Part::AgentDefinition { agent }, recorded, present)?;
        }
        Ok(())
    }

    fn compare_ends(&self, recording: &Recording) -> Result<(), Box<Difference>> {
        let Some(last) = recording.lines.last() else {
            return Ok(());
        };
        let (recorded, present) = (recording.end(), self.machines.run().end());
        if recorded == present {
            return Ok(());
        }
        let recorded = recorded.map_or_else(|| "the run has not ended".to_owned(), json);
        let present = present.map_or_else(
            || format!("the run has not ended\n{}", self.machines.waiting(Scope::Run)),
            json,
        );
        Err(difference(self.location(last), Part::End, &recorded, &present))
    }

    fn location(&self, line: &RecordedEntry) -> EntryLocation {
        let agent = match line.scope {
            Scope::Run => None,
            Scope::Agent(agent) => self.machines.agent(agent),
        };
        EntryLocation {
            seq: line.seq,
            scope: line.scope,
            agent: agent.and_then(|agent| agent.spec()).map(|spec| spec.name.clone()),
            turn: agent.map_or(0, |agent| agent.turns()),
        }
    }
}

fn compare_requests(
    location: EntryLocation,
    recorded: Option<&RecordedRequest>,
    present: Option<&RecordedRequest>,
) -> Result<(), Box<Difference>> {
    if recorded == present {
        return Ok(());
    }
    let part = match present.or(recorded) {
        Some(RecordedRequest::Request(_)) => Part::Request,
        Some(RecordedRequest::Call(_)) => Part::Call,
        Some(RecordedRequest::Question(_)) => Part::Question,
        Some(RecordedRequest::Approval(_)) => Part::Approval,
        None => Part::Input,
    };
    Err(difference(
        location,
        part,
        &request_text(recorded),
        &request_text(present),
    ))
}

fn compare<T: PartialEq + serde::Serialize>(
    location: impl Fn() -> EntryLocation,
    part: Part,
    recorded: &T,
    present: &T,
) -> Result<(), Box<Difference>> {
    if recorded == present {
        Ok(())
    } else {
        Err(difference(location(), part, &json(recorded), &json(present)))
    }
}

fn compare_text(
    location: impl Fn() -> EntryLocation,
    part: Part,
    recorded: &str,
    present: &str,
) -> Result<(), Box<Difference>> {
    if recorded == present {
        Ok(())
    } else {
        Err(difference(location(), part, recorded, present))
    }
}

fn difference(location: EntryLocation, part: Part, recorded: &str, present: &str) -> Box<Difference> {
    Box::new(Difference {
        location,
        part,
        diff: diff(recorded, present),
    })
}

fn agents(spec: &RunSpec) -> impl Iterator<Item = &AgentSpec> {
    [&spec.planner, &spec.reflector].into_iter().chain(&spec.agents)
}

fn with_models_of(mut present: RunSpec, recorded: &RunSpec) -> RunSpec {
    let adopt = |present: &mut AgentSpec, recorded: &AgentSpec| {
        present.model.clone_from(&recorded.model);
        present.asks.clone_from(&recorded.asks);
        present.profile = recorded.profile;
    };
    adopt(&mut present.planner, &recorded.planner);
    adopt(&mut present.reflector, &recorded.reflector);
    for agent in &mut present.agents {
        if let Some(recorded) = recorded.agent(&agent.name) {
            adopt(agent, recorded);
        }
    }
    present
}
