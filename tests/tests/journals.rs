//! Recorded journals: replaying one gives the same commands and the same report (HOST-2, HOST-9). A change of the journal's format
//! changes the recordings, and no command.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::fmt::Write as _;

use dirigent::core::agent::{Agent, AgentCommand};
use dirigent::core::id::Scope;
use dirigent::core::journal::{Entry, Input};
use dirigent::core::machine::Machine;
use dirigent::core::run::{Run, RunCommand};
use dirigent::{Detail, RunView, render};

/// Each entry with the commands that it led to, and the summary at the end.
fn replayed(journal: &str) -> String {
    let (mut run, mut agents, mut view) = (Run::new(), BTreeMap::new(), RunView::new());
    let mut told = String::new();
    for line in journal.lines() {
        let entry: Entry = serde_json::from_str(line).unwrap();
        let (seq, scope) = (entry.seq, entry.scope);
        let (input, commands) = match (scope, entry.input.clone()) {
            (Scope::Run, Input::Run(input)) => {
                let name = input.name();
                let commands = run.handle(entry.at, input).unwrap();
                (name, commands.iter().map(run_command).collect::<Vec<_>>())
            }
            (Scope::Agent(id), Input::Agent(input)) => {
                let context = run.context().unwrap().clone();
                let agent = agents.entry(id).or_insert_with(|| Agent::new(id, context));
                let name = input.name();
                let commands = agent.handle(entry.at, input).unwrap();
                (name, commands.iter().map(agent_command).collect())
            }
            (Scope::Run | Scope::Agent(_), Input::Run(_) | Input::Agent(_)) => {
                panic!("entry {seq} is foreign")
            }
        };
        let _ = writeln!(told, "{seq} {scope} {input} -> {}", commands.join(", "));
        let _ = view.apply(entry).unwrap();
    }
    format!("{told}\n{}", render::report(&view.report(), Detail::Concise))
}

fn run_command(command: &RunCommand) -> String {
    match command {
        RunCommand::Announce { transition } => format!("{} to {}", transition.from, transition.to),
        RunCommand::StartAgent { effect, brief } => {
            format!("start {effect} {} {:?}", brief.agent, brief.role)
        }
        RunCommand::RunTool {
            effect,
            subtask,
            call,
        } => format!("run {effect} {} for {subtask}", call.tool),
        RunCommand::StopTool { effect } => format!("stop {effect}"),
        RunCommand::StopAgent { effect } => format!("stop agent {effect}"),
        RunCommand::ReturnFindings { effect, .. } => format!("return {effect}"),
        RunCommand::AskApproval { approval } => format!("ask to approve {}", approval.effect),
        RunCommand::AwaitUser { effect } => format!("await user {effect}"),
        RunCommand::AskUser { effect, .. } => format!("ask {effect}"),
        RunCommand::SetTimer { timer, .. } => format!("timer {timer:?}"),
        RunCommand::Finish { reason } => format!("finish {reason}"),
    }
}

fn agent_command(command: &AgentCommand) -> String {
    match command {
        AgentCommand::AskModel { effect } => format!("ask {effect}"),
        AgentCommand::RunTool { effect, call } => format!("run {effect} {}", call.tool),
        AgentCommand::AskApproval { approval } => format!("ask to approve {}", approval.effect),
        AgentCommand::ApprovalSettled { effect } => format!("settled {effect}"),
        AgentCommand::Delegate { effect, agent, .. } => format!("delegate {effect} to {agent}"),
        AgentCommand::SetTimer { timer, .. } => format!("timer {timer:?}"),
        AgentCommand::Finish { report } => format!(
            "finish, {}",
            if report.result.is_ok() {
                "answered"
            } else {
                "failed"
            }
        ),
    }
}

#[test]
fn host_2_a_recorded_rename_gives_the_same_commands() {
    insta::assert_snapshot!(replayed(include_str!("../journals/v1-rename.jsonl")));
}

#[test]
fn host_2_a_recorded_question_and_its_answer_give_the_same_commands() {
    insta::assert_snapshot!(replayed(include_str!("../journals/v1-question.jsonl")));
}
