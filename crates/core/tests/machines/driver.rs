//! Helpers that bring a run to the state where a test begins, and complete its outstanding work.

use std::sync::Arc;

use dirigent_core::agent_report::{AgentAnswer, AgentReport};
use dirigent_core::brief::{AgentBrief, Continuation};
use dirigent_core::id::EffectId;
use dirigent_core::machine::Machine;
use dirigent_core::run::{Run, RunCommand, RunInput};
use dirigent_core::spec::RunSpec;
use dirigent_core::tool::ToolResult;
use serde_json::{Value, json};

use crate::fixture::{at, effect, ended_with, plan, reflection, run_outline};

/// A started run, and the commands of its start.
pub fn running(spec: RunSpec) -> (Run, Vec<String>) {
    let (run, commands) = Run::start(at(0), Arc::new(spec)).unwrap();
    (run, run_outline(&commands))
}

/// A run with a plan, and the commands that execute it.
pub fn acting(spec: RunSpec, parameters: &Value) -> (Run, Vec<String>) {
    let (mut run, _) = running(spec);
    let mut commands = give(&mut run, 0, planned("run.1", parameters));
    assert_eq!(commands.remove(0), "Planning -> Acting (1)");
    (run, commands)
}

/// A run whose only call, `run.2`, has succeeded, and whose reflector is `run.3`.
pub fn reflecting(spec: RunSpec) -> Run {
    let look = json!([{"tool": "look", "parameters": {"path": "x"}}]);
    let subtasks = json!([{"id": "p", "title": "Look at x", "calls": look}]);
    let (mut run, _) = acting(spec, &json!({"summary": "Look at x.", "subtasks": subtasks}));
    give(
        &mut run,
        0,
        ended("run.2", ToolResult::success(json!("fn a() {}"))),
    );
    run
}

/// Gives an input that must be accepted, this many milliseconds after the start.
pub fn give(run: &mut Run, after: u64, input: RunInput) -> Vec<String> {
    run_outline(&run.handle(at(after), input).unwrap())
}

/// Gives an input that must be refused and must leave the run unchanged.
pub fn refused(run: &mut Run, after: u64, input: RunInput) -> String {
    let before = run.clone();
    let refusal = run.handle(at(after), input).unwrap_err();
    assert_eq!(*run, before);
    refusal.to_string()
}

pub fn agent_ended(of: &str, report: AgentReport) -> RunInput {
    RunInput::AgentFinished {
        effect: effect(of),
        report,
    }
}

pub fn planned(of: &str, parameters: &Value) -> RunInput {
    agent_ended(of, ended_with(AgentAnswer::Plan(plan(parameters))))
}

pub fn reflected(of: &str, verdict: &str, summary: &str) -> RunInput {
    let mut parameters = json!({"verdict": verdict, "summary": summary});
    if verdict == "ask_user" {
        parameters["question"] = json!("Which one?");
        parameters["choices"] = json!(["a", "b"]);
    }
    agent_ended(of, ended_with(AgentAnswer::Reflection(reflection(&parameters))))
}

pub fn answered(of: &str, findings: &str) -> RunInput {
    agent_ended(of, ended_with(AgentAnswer::Text(findings.to_owned())))
}

pub fn ended(of: &str, result: ToolResult) -> RunInput {
    RunInput::ToolFinished {
        effect: effect(of),
        result,
    }
}

/// The brief of the agent that the run started with this effect.
pub fn brief_of(run: &Run, of: &str) -> Arc<AgentBrief> {
    start_of(run, of).0
}

/// The task of the agent that the run started with this effect, or the message that continues it.
pub fn told(run: &Run, of: &str) -> String {
    let (brief, continuation) = start_of(run, of);
    continuation.map_or_else(|| brief.task.clone(), |continuation| continuation.message.clone())
}

pub fn start_of(run: &Run, of: &str) -> (Arc<AgentBrief>, Option<Arc<Continuation>>) {
    let of: EffectId = effect(of);
    run.outstanding()
        .into_iter()
        .find_map(|command| match command {
            RunCommand::StartAgent {
                effect,
                brief,
                continuation,
            } if effect == of => Some((brief, continuation)),
            RunCommand::StartAgent { .. }
            | RunCommand::GuideLead { .. }
            | RunCommand::GuideAgent { .. }
            | RunCommand::AllowCalls { .. }
            | RunCommand::ChangeTools { .. }
            | RunCommand::RedirectLead { .. }
            | RunCommand::Announce { .. }
            | RunCommand::RunTool { .. }
            | RunCommand::StopTool { .. }
            | RunCommand::AskUser { .. }
            | RunCommand::StopAgent { .. }
            | RunCommand::ReturnFindings { .. }
            | RunCommand::ReadDiff { .. }
            | RunCommand::AskApproval { .. }
            | RunCommand::AwaitUser { .. }
            | RunCommand::SetTimer { .. }
            | RunCommand::Finish { .. } => None,
        })
        .unwrap()
}
