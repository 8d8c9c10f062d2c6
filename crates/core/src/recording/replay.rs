//! Replays recordings: feeds recorded external inputs to state machines that run the current code.

use std::sync::Arc;

use super::difference::{diff, json, request_text};
use super::machines::{DeliveryKey, Machines};
use super::{Difference, EntryLocation, Part, RecordedEntry, RecordedRequest, Recording};
use crate::agent::AgentInput;
use crate::agent_report::AgentFailure;
use crate::agent_spec::AgentSpec;
use crate::id::{RunId, Scope};
use crate::journal::{Entry, Input};
use crate::route::Delivery;
use crate::run::RunInput;
use crate::spec::RunSpec;
use crate::user_request::UserRequestKind;

/// Replays a recording with the run id `run` and the spec `present`, and returns the journal of the replay. Only external inputs are taken
/// from the recording, each with its recorded time: replies of models, results of tools, messages and answers of the user, timers,
/// restarts, and panics of agents. Everything else is derived and compared with the recording: briefs, model requests, tool calls,
/// delegations and their results, questions, reports, and the end of the run. The returned journal equals the journal of the recorded run.
///
/// The names and profiles of models are taken from the recording, agent by agent, because no model is called. The
/// information about the project that the agents received is taken from the recording, too, because the project's
/// folder may have changed since.
///
/// # Errors
/// Returns the first [`Difference`] between the replay and the recording.
pub fn replay(recording: &Recording, present: RunSpec, run: RunId) -> Result<Vec<Entry>, Box<Difference>> {
    let present = Arc::new(with_recorded_parts(present, &recording.spec));
    let Some((first, rest)) = recording.lines.split_first() else {
        return Ok(Vec::new());
    };
    compare_specs(first, &recording.spec, &present)?;
    let input = Input::Run(RunInput::Started {
        spec: present.clone(),
    });
    let machines = Machines::start(first.at, present).map_err(|refusal| {
        let location = EntryLocation::of_run(first.seq);
        difference(location, Part::Input, &json(&first.input), &refusal.to_string())
    })?;
    let mut replay = Replay { machines, run };
    let mut entries = vec![replay.entry(first, input)];
    for line in rest {
        entries.push(replay.step(line)?);
    }
    replay.compare_ends(recording)?;
    Ok(entries)
}

struct Replay {
    machines: Machines,
    run: RunId,
}

impl Replay {
    fn entry(&self, line: &RecordedEntry, input: Input) -> Entry {
        Entry {
            run: self.run,
            seq: line.seq,
            at: line.at,
            scope: line.scope,
            input,
        }
    }

    fn step(&mut self, line: &RecordedEntry) -> Result<Entry, Box<Difference>> {
        let input = self.present_input(line)?;
        let answers = self.machines.answered_request(line.scope, &input);
        let entry = self.entry(line, input);
        // Determine the location before applying the input, because the input may change the agent's turn.
        let location = self.location(line);
        if let Err(refusal) = self.machines.apply(entry.clone()) {
            let recorded = format!("{}\n{}", json(&line.input), request_text(line.answers.as_ref()));
            // A refused input changes nothing, so the machine is still waiting for the same effects.
            let present = format!("{refusal}\n{}", self.machines.waiting(line.scope));
            return Err(difference(location, Part::Input, &recorded, &present));
        }
        compare_requests(location, line.answers.as_ref(), answers.as_ref())?;
        Ok(entry)
    }

    /// Returns the input to apply: the derived input if one of the replay's machines causes it, otherwise the recorded input. An input with
    /// the wrong scope is returned unchanged, and the machines refuse it.
    fn present_input(&self, line: &RecordedEntry) -> Result<Input, Box<Difference>> {
        let recorded = &line.input;
        let Some(key) = self.delivery_key(line) else {
            return Ok(recorded.clone());
        };
        let present = self.machines.delivered(key).map(|delivery| match delivery {
            Delivery::Run(input) => Input::Run(input.clone()),
            Delivery::Agent(_, input) => Input::Agent(input.clone()),
        });
        match present {
            Some(present) if present == *recorded => Ok(present),
            Some(present) if differs_in_new_fields_alone(recorded, &present) => Ok(recorded.clone()),
            Some(present) => {
                let (recorded, present) = differing_parts(recorded, &present);
                Err(difference(self.location(line), key.part(), &recorded, &present))
            }
            None => {
                let (recorded, _) = differing_parts(recorded, recorded);
                let present = self.machines.waiting(self.cause(line, key));
                Err(difference(self.location(line), key.part(), &recorded, &present))
            }
        }
    }

    /// The key of an input that another machine causes; `None` for an input from outside.
    fn delivery_key(&self, line: &RecordedEntry) -> Option<DeliveryKey> {
        match (&line.input, line.scope) {
            (Input::Run(RunInput::AgentFinished { effect, report }), _) => {
                // A panic cannot be derived, so the recorded report is used.
                let panicked = matches!(report.result, Err(AgentFailure::Panicked { .. }));
                let is_awaited = self.machines.run().agent_of(*effect).is_some();
                (is_awaited && !panicked).then_some(DeliveryKey::Report(effect.scope, effect.step))
            }
            (Input::Run(input), _) => DeliveryKey::from_run_input(input),
            (Input::Agent(AgentInput::ToolFinished { effect, .. }), Scope::Agent(_)) => {
                let delegation = DeliveryKey::Delegation(effect.scope, effect.step);
                let is_delegation = self.machines.delivered(delegation).is_some();
                is_delegation.then_some(DeliveryKey::Findings(effect.scope, effect.step))
            }
            (Input::Agent(input), Scope::Agent(agent)) => DeliveryKey::from_agent_input(agent, input),
            (Input::Agent(_), Scope::Run) => None,
        }
    }

    /// Returns the machine that should have caused the input.
    fn cause(&self, line: &RecordedEntry, key: DeliveryKey) -> Scope {
        match key {
            DeliveryKey::Start(_)
            | DeliveryKey::Continuation(_)
            | DeliveryKey::Guidance(..)
            | DeliveryKey::Redirection(..)
            | DeliveryKey::AllowedCalls(..)
            | DeliveryKey::ChangedTools(..)
            | DeliveryKey::Findings(..) => Scope::Run,
            DeliveryKey::Acting(..) => match &line.input {
                Input::Run(RunInput::ActingBegan { effect }) => {
                    let agent = self.machines.run().agent_of(*effect);
                    agent.map_or(Scope::Run, Scope::Agent)
                }
                Input::Run(_) | Input::Agent(_) => Scope::Run,
            },
            DeliveryKey::CallAwaitsUser(scope, _)
            | DeliveryKey::CallSettled(scope, _)
            | DeliveryKey::PlanGuided(scope, _)
            | DeliveryKey::Delegation(scope, _) => scope,
            DeliveryKey::Report(..) => match &line.input {
                Input::Run(RunInput::AgentFinished { effect, .. }) => {
                    let agent = self.machines.run().agent_of(*effect);
                    agent.map_or(Scope::Run, Scope::Agent)
                }
                Input::Run(_) | Input::Agent(_) => Scope::Run,
            },
        }
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
            agent: agent.map(|agent| agent.spec().name.clone()),
            turn: agent.map_or(0, |agent| agent.turns()),
        }
    }
}

impl DeliveryKey {
    /// Returns the [`Part`] under which a difference in this kind of delivery is reported.
    fn part(self) -> Part {
        match self {
            DeliveryKey::Start(_)
            | DeliveryKey::Continuation(_)
            | DeliveryKey::Guidance(..)
            | DeliveryKey::Redirection(..)
            | DeliveryKey::ChangedTools(..) => Part::Brief,
            DeliveryKey::Report(..) | DeliveryKey::Findings(..) => Part::Report,
            DeliveryKey::CallAwaitsUser(..)
            | DeliveryKey::CallSettled(..)
            | DeliveryKey::PlanGuided(..)
            | DeliveryKey::AllowedCalls(..) => Part::Approval,
            DeliveryKey::Delegation(..) | DeliveryKey::Acting(..) => Part::Call,
        }
    }
}

/// Returns true if both inputs report that the same call awaits the user, and the recorded input only lacks fields that earlier versions
/// did not write: the lead's guidance and the kind of request.
fn differs_in_new_fields_alone(recorded: &Input, present: &Input) -> bool {
    match (recorded, present) {
        (
            Input::Run(RunInput::CallAwaitsUser {
                effect: recorded,
                guidance: known,
                request: UserRequestKind::Decision,
                ..
            }),
            Input::Run(RunInput::CallAwaitsUser { effect, guidance, .. }),
        ) => recorded == effect && (known.is_none() || known == guidance),
        (Input::Run(_) | Input::Agent(_), _) => false,
    }
}

/// Formats two inputs of the same kind for comparison, reduced to the task, report, result or delegation.
fn differing_parts(recorded: &Input, present: &Input) -> (String, String) {
    match (recorded, present) {
        (
            Input::Agent(AgentInput::Started { brief: recorded }),
            Input::Agent(AgentInput::Started { brief }),
        ) => {
            if recorded.task == brief.task {
                (json(recorded), json(brief))
            } else {
                (recorded.task.clone(), brief.task.clone())
            }
        }
        (
            Input::Agent(AgentInput::Continued {
                continuation: recorded,
            }),
            Input::Agent(AgentInput::Continued { continuation }),
        ) => {
            if recorded.message == continuation.message {
                (json(recorded), json(continuation))
            } else {
                (recorded.message.clone(), continuation.message.clone())
            }
        }
        (
            Input::Run(RunInput::AgentFinished { report: recorded, .. }),
            Input::Run(RunInput::AgentFinished { report, .. }),
        ) => (json(recorded), json(report)),
        (
            Input::Agent(AgentInput::ToolFinished { result: recorded, .. }),
            Input::Agent(AgentInput::ToolFinished { result, .. }),
        ) => (json(recorded), json(result)),
        (
            Input::Run(RunInput::Delegated {
                agent: recorded_agent,
                task: recorded_task,
                ..
            }),
            Input::Run(RunInput::Delegated { agent, task, .. }),
        ) => {
            let delegation = |agent: &str, task: &str| format!("agent `{agent}`: {task}");
            (delegation(recorded_agent, recorded_task), delegation(agent, task))
        }
        (recorded, present) => (json(recorded), json(present)),
    }
}

/// Compares the specs, causes before effects: for example, the tools before the system prompts that describe them.
fn compare_specs(
    first: &RecordedEntry,
    recorded: &RunSpec,
    present: &RunSpec,
) -> Result<(), Box<Difference>> {
    let location = || EntryLocation::of_run(first.seq);
    compare_text(location, Part::Goal, &recorded.goal, &present.goal)?;
    compare_text(location, Part::Workspace, &recorded.workspace, &present.workspace)?;
    compare(location, Part::Limits, &recorded.limits, &present.limits)?;
    compare(
        location,
        Part::Policy,
        &recorded.setup.policy,
        &present.setup.policy,
    )?;
    let names = |spec: &RunSpec| {
        spec.setup
            .tools
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
    for (recorded, present) in recorded.setup.tools.iter().zip(&present.setup.tools) {
        let name = recorded.name.clone();
        compare(location, Part::Tool { name }, recorded, present)?;
    }
    let names = |spec: &RunSpec| {
        spec.setup
            .all_agents()
            .map(|agent| agent.name.clone())
            .collect::<Vec<_>>()
    };
    compare_text(
        location,
        Part::Agents,
        &names(recorded).join("\n"),
        &names(present).join("\n"),
    )?;
    for (recorded, present) in recorded.setup.all_agents().zip(present.setup.all_agents()) {
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

/// Takes those parts from the recorded spec that a replay cannot derive.
fn with_recorded_parts(mut present: RunSpec, recorded: &RunSpec) -> RunSpec {
    let adopt = |present: &mut AgentSpec, recorded: &AgentSpec| {
        present.model.clone_from(&recorded.model);
        present.asks.clone_from(&recorded.asks);
        present.profile = recorded.profile;
    };
    present.project.clone_from(&recorded.project);
    present.probes.clone_from(&recorded.probes);
    present.service_endpoints.clone_from(&recorded.service_endpoints);
    let (setup, recorded) = (&mut *present.setup, &*recorded.setup);
    adopt(&mut setup.lead, &recorded.lead);
    adopt(&mut setup.reflector, &recorded.reflector);
    for agent in &mut setup.agents {
        if let Some(recorded) = recorded.agent(&agent.name) {
            adopt(agent, recorded);
        }
    }
    present
}
