//! Recorded journals: their replay gives the same commands and the same report (HOST-2, HOST-9). A change of the journal's format may
//! change the recordings, but no command.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::fmt::Write as _;

use dirigent::{Detail, RunView, render};
use dirigent_core::agent::AgentCommand;
use dirigent_core::journal::Entry;
use dirigent_core::route::Delivery;
use dirigent_core::run::{RunCommand, RunInput};
use dirigent_core::run_tree::RunTree;

/// Each entry with its resulting commands, and the summary at the end.
fn replayed(journal: &str) -> String {
    let (mut told, mut machines, mut read) = (String::new(), None, Vec::new());
    for line in journal.lines() {
        let entry: Entry = serde_json::from_str(line).unwrap();
        read.push(entry.clone());
        let (seq, at, scope, input) = (entry.seq, entry.at, entry.scope, entry.input.name());
        let commands: Vec<String> = match (&mut machines, Delivery::try_from(entry).unwrap()) {
            (None, Delivery::Run(RunInput::Started { spec })) => {
                let (tree, commands) = RunTree::start(at, spec).unwrap();
                machines = Some(tree);
                commands.iter().map(run_command).collect()
            }
            (Some(machines), Delivery::Run(input)) => {
                let commands = machines.handle_run_input(at, input).unwrap();
                commands.iter().map(run_command).collect()
            }
            (Some(machines), Delivery::Agent(agent, input)) => {
                let commands = machines.handle_agent_input(at, agent, input).unwrap();
                commands.iter().map(agent_command).collect()
            }
            (None, delivery) => panic!("the first entry is {delivery:?}"),
        };
        let _ = writeln!(told, "{seq} {scope} {input} -> {}", commands.join(", "));
    }
    let (view, _) = RunView::replay(read).unwrap().unwrap();
    format!("{told}\n{}", render::report(&view.report(), Detail::Concise))
}

fn run_command(command: &RunCommand) -> String {
    match command {
        RunCommand::Announce { transition } => format!("{} to {}", transition.from, transition.to),
        RunCommand::StartAgent {
            effect,
            brief,
            continuation: None,
        } => {
            format!("start {effect} {} {:?}", brief.agent, brief.role)
        }
        RunCommand::StartAgent { effect, brief, .. } => format!("continue {effect} {}", brief.agent),
        RunCommand::GuideLead { agent, number, .. } => format!("guide {agent} with {number}"),
        RunCommand::RedirectLead { agent, number, .. } => format!("redirect {agent} with {number}"),
        RunCommand::GuideAgent { agent, .. } => format!("guide agent {agent}"),
        RunCommand::RunTool {
            effect,
            subtask,
            call,
        } => format!("run {effect} {} for {subtask}", call.tool),
        RunCommand::StopTool { effect } => format!("stop {effect}"),
        RunCommand::StopAgent { agent } => format!("stop agent {agent}"),
        RunCommand::ReturnFindings { effect, .. } => format!("return {effect}"),
        RunCommand::ReadDiff { effect } => format!("read diff {effect}"),
        RunCommand::AskApproval { approval } => format!("ask to approve {}", approval.effect),
        RunCommand::AwaitUser { effect } => format!("await user {effect}"),
        RunCommand::AskUser { effect, .. } => format!("ask {effect}"),
        RunCommand::SetTimer { timer, .. } => format!("timer {timer:?}"),
        RunCommand::ChangeTools {
            agent,
            number,
            change,
        } => format!("change tools {agent} {number}. {}", change.service),
        RunCommand::AllowCalls { agent, number, calls } => format!("allow {agent} {number}. {calls}"),
        RunCommand::Finish { reason } => format!("finish {reason}"),
    }
}

fn agent_command(command: &AgentCommand) -> String {
    match command {
        AgentCommand::AskModel { effect } => format!("ask {effect}"),
        AgentCommand::RunTool { effect, call } => format!("run {effect} {}", call.tool),
        AgentCommand::AskApproval { approval, .. } => format!("ask to approve {}", approval.effect),
        AgentCommand::AskUser { question, .. } => format!("ask user {}", question.effect),
        AgentCommand::AnswerTool { effect, answer } => format!("answer {effect} with {answer:?}"),
        AgentCommand::CallSettled { effect } => format!("settled {effect}"),
        AgentCommand::Delegate { effect, agent, .. } => format!("delegate {effect} to {agent}"),
        AgentCommand::GuideRun { effect, guidance } => format!("guide the run about {effect}: {guidance}"),
        AgentCommand::BeginActing => "begin to act".to_owned(),
        AgentCommand::Stop => "stop".to_owned(),
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
fn lead_4_a_recorded_question_of_an_agent_and_its_answer_give_the_same_commands() {
    insta::assert_snapshot!(replayed(include_str!("../journals/v1-ask-user.jsonl")));
}

#[test]
fn host_2_a_recorded_question_and_its_answer_give_the_same_commands() {
    insta::assert_snapshot!(replayed(include_str!("../journals/v1-question.jsonl")));
}
