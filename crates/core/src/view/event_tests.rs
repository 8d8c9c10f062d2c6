//! The JSON form of each event, as `docs/events.md` shows it.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};

use super::{Event, EventKind};
use crate::agent_report::{AgentFailure, AgentWork};
use crate::approval::{Approval, ApprovalAnswer, Decision, Digest};
use crate::brief::AgentRole;
use crate::end_reason::EndReason;
use crate::id::{AgentId, Scope};
use crate::message::Usage;
use crate::observation::{Observation, SubTaskResult};
use crate::phase::{Phase, Transition};
use crate::plan::{Plan, SubTask, Work};
use crate::price::Cost;
use crate::question::Question;
use crate::reflection::{Reflection, ReflectionVerdict};
use crate::spec::Worktree;
use crate::time::{Millis, Timestamp};
use crate::tool::{FileVersion, StateChange};

const PAGE: &str = include_str!("../../../../docs/events.md");

/// The fields of every event, which the page explains once.
const COMMON: [&str; 6] = ["version", "run", "seq", "at", "scope", "event"];

fn usage() -> Usage {
    Usage {
        model_calls: 1,
        input_tokens: 1_200,
        output_tokens: 80,
        cost: Cost(1_500_000),
        ..Usage::default()
    }
}

fn digest() -> String {
    "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08".to_owned()
}

fn edited() -> StateChange {
    StateChange::FileEdited {
        path: "src/lib.rs".to_owned(),
        diff: Some("--- a/src/lib.rs\n+++ b/src/lib.rs\n@@ -1 +1 @@\n-old\n+new\n".to_owned()),
        before: None,
        after: Some(FileVersion {
            digest: digest(),
            mode: 0o100_644,
        }),
    }
}

fn plan() -> Plan {
    Plan {
        summary: "Rename the function.".to_owned(),
        answers_guidance: Vec::new(),
        subtasks: vec![SubTask {
            id: "rename".into(),
            title: "Rename parse_amount".to_owned(),
            depends_on: Vec::new(),
            may_fail: false,
            work: Work::Agent {
                agent: "implement".to_owned(),
                task: "Rename parse_amount to parse_money.".to_owned(),
            },
        }],
    }
}

fn observation() -> Observation {
    Observation {
        subtask: "rename".into(),
        title: "Rename parse_amount".to_owned(),
        duration: Millis(4_200),
        may_fail: false,
        finding: SubTaskResult::Agent {
            agent: AgentId(2),
            name: "implement".to_owned(),
            result: Ok("Renamed in 3 files.".to_owned()),
            work: AgentWork {
                calls: Vec::new(),
                changes: vec![edited()],
                usage: usage(),
                findings_so_far: String::new(),
            },
        },
    }
}

fn approval() -> Approval {
    Approval {
        effect: "a2.3".parse().unwrap(),
        agent: Some("implement".to_owned()),
        tool: "execute_command".to_owned(),
        parameters: json!({"command": "cargo test"}),
        workspace: "/home/me/project".to_owned(),
        asked_at: Timestamp(1_764_000_000_000),
        expires_at: Some(Timestamp(1_764_000_600_000)),
        digest: Digest(digest()),
    }
}

/// The worktree of a run.
const WORKTREE: &str =
    "/home/me/.local/share/dirigent/journal.db-worktrees/0190a1b2-c3d4-7e5f-8a6b-0123456789ab";

/// One event of each kind, with the machine to which it belongs.
fn one_of_each() -> Vec<(Scope, EventKind)> {
    let agent = Scope::Agent(AgentId(2));
    let of_run = [
        EventKind::RunStarted {
            goal: "rename parse_amount to parse_money".to_owned(),
            workspace: WORKTREE.to_owned(),
            worktree: Some(Box::new(Worktree {
                origin: "/home/me/project".to_owned(),
                folder: WORKTREE.to_owned(),
                commit: "9f3c1d0e5b7a4c2d8e6f1a0b3c5d7e9f2a4b6c8d".to_owned(),
                uncommitted: 2,
            })),
            instructions: vec!["AGENTS.md".to_owned(), "docs/style.md".to_owned()],
            instruction_notes: vec!["CLAUDE.md is not read: it is a named pipe".to_owned()],
        },
        EventKind::PhaseChanged {
            transition: Transition {
                from: Phase::Planning,
                to: Phase::Acting,
                iteration: 1,
            },
        },
        EventKind::PlanMade { plan: plan() },
        EventKind::SubTaskStarted {
            subtask: "rename".into(),
            title: "Rename parse_amount".to_owned(),
            agent: Some(AgentId(2)),
        },
        EventKind::SubTaskFinished {
            observation: observation(),
        },
        EventKind::LeadContinued,
        EventKind::Reflected {
            reflection: Reflection {
                verdict: ReflectionVerdict::AskUser,
                summary: "The function is renamed; the script uses the old name.".to_owned(),
                question: Some("Rename it in the script, too?".to_owned()),
                choices: vec!["Yes".to_owned(), "No".to_owned()],
                confirmed_by: Vec::new(),
            },
        },
        EventKind::Guided {
            guidance: "Keep the old name as an alias.".to_owned(),
            immediate: true,
        },
        EventKind::Resumed,
        EventKind::CallsAllowed {
            calls: "execute_command(command: cargo test*)".to_owned(),
        },
        EventKind::ToolsChanged {
            service: "files".to_owned(),
            added: vec!["mcp__files__copy".to_owned()],
            removed: Vec::new(),
            changed: vec!["mcp__files__move".to_owned()],
        },
        EventKind::WorkspaceShared {
            runs: vec!["0190a1b2-0000-7e5f-8a6b-ba9876543210".parse().unwrap()],
        },
        EventKind::RunFinished {
            reason: EndReason::GoalAchieved,
            summary: "Renamed in 3 files; the tests pass.".to_owned(),
        },
    ];
    let of_agent = [
        EventKind::AgentStarted {
            role: AgentRole::Sub("implement".to_owned()),
            caller: Some("a1.2".parse().unwrap()),
        },
        EventKind::ModelReplied {
            turn: 1,
            content: "I will look at the file.".to_owned(),
            model: Some("gpt-4.1-mini".to_owned()),
            usage: usage(),
        },
        EventKind::ModelFailed {
            error: "the provider does not respond".to_owned(),
        },
        EventKind::ToolStarted {
            effect: "a2.3".parse().unwrap(),
            tool: "execute_command".to_owned(),
            parameters: json!({"command": "cargo test"}),
            subtask: Some("rename".into()),
        },
        EventKind::ToolFinished {
            effect: "a2.3".parse().unwrap(),
            tool: "execute_command".to_owned(),
            success: false,
            code: Some("exit_code".to_owned()),
            error: Some("the command failed with exit code 101".to_owned()),
            duration: Millis(850),
            changes: vec![StateChange::ProcessExited {
                command: "cargo test".to_owned(),
                code: Some(101),
                files: Vec::new(),
            }],
            metadata: json!({"confined": true}).as_object().unwrap().clone(),
        },
        EventKind::ToolRefused {
            tool: "execute_sql".to_owned(),
            parameters: json!({"connection": "orders", "sql": "DELETE FROM orders"}),
            error: "the agent has read-only access".to_owned(),
        },
        EventKind::AgentFinished {
            failure: Some(AgentFailure::TurnLimit { max_turns: 50 }),
            usage: usage(),
            duration: Millis(4_200),
        },
        EventKind::ApprovalAsked {
            approval: Arc::new(approval()),
        },
        EventKind::ApprovalDecided {
            effect: "a2.3".parse().unwrap(),
            decision: Decision {
                digest: Digest(digest()),
                answer: ApprovalAnswer::Reject {
                    reason: Some("not now".to_owned()),
                },
            },
        },
        EventKind::ApprovalExpired {
            effect: "a2.3".parse().unwrap(),
        },
        EventKind::QuestionAsked {
            effect: "a2.3".parse().unwrap(),
            agent: Some("implement".to_owned()),
            question: Question {
                question: "Rename the tests, too?".to_owned(),
                choices: vec!["Yes".to_owned(), "No".to_owned()],
            },
        },
        EventKind::QuestionAnswered {
            effect: "a2.3".parse().unwrap(),
            answer: "Yes".to_owned(),
        },
        EventKind::QuestionExpired {
            effect: "a2.3".parse().unwrap(),
        },
    ];
    let of_run = of_run.into_iter().map(|kind| (Scope::Run, kind));
    of_run
        .chain(of_agent.into_iter().map(|kind| (agent, kind)))
        .collect()
}

/// The sections of the page about events, by the event's name: the text and the example.
fn sections() -> BTreeMap<&'static str, (&'static str, Value)> {
    let section = |section: &'static str| {
        let (name, text) = section.split_once("`\n").unwrap();
        let (_, example) = text.split_once("```json\n").unwrap();
        let (example, _) = example.split_once("```").unwrap();
        let example = serde_json::from_str(example);
        (
            name,
            (text, example.unwrap_or_else(|error| panic!("{name}: {error}"))),
        )
    };
    PAGE.split("\n### `").skip(1).map(section).collect()
}

#[test]
fn the_page_shows_each_event_as_it_is_serialized_and_explains_its_fields() {
    let mut sections = sections();
    for (scope, kind) in one_of_each() {
        let name = kind.name();
        let run = "0190a1b2-c3d4-7e5f-8a6b-0123456789ab".parse().unwrap();
        let event = json!(Event::new(run, 12, Timestamp(1_764_000_000_000), scope, kind));
        assert_eq!(event["event"], name);
        let (text, example) = sections
            .remove(name)
            .unwrap_or_else(|| panic!("docs/events.md has no section `{name}`; its example is: {event:#}"));
        assert_eq!(example, event, "docs/events.md: {name}: {event:#}");
        let fields = event.as_object().unwrap().keys();
        for field in fields.filter(|field| !COMMON.contains(&field.as_str())) {
            assert!(
                text.contains(&format!("`{field}`")),
                "docs/events.md: {name}: {field}"
            );
        }
    }
    assert_eq!(sections.keys().collect::<Vec<_>>(), Vec::<&&str>::new());
}

#[test]
fn the_list_of_example_events_has_every_kind() {
    let names = include_str!("event.rs").lines().filter_map(|line| {
        let (_, name) = line.trim().strip_prefix("EventKind::")?.split_once(" => \"")?;
        name.strip_suffix("\",")
    });
    let named: BTreeSet<&str> = names.collect();
    let tested: BTreeSet<&str> = one_of_each().iter().map(|(_, kind)| kind.name()).collect();
    assert_eq!(tested, named);
    assert_eq!(EventKind::NAMES.iter().copied().collect::<BTreeSet<_>>(), named);
}

/// The names of the fields in the first column of a table.
fn names_in_table(text: &str) -> BTreeSet<&str> {
    let names = text
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split(" |").next());
    names
        .flat_map(|names| names.trim_end_matches('`').split("`, `"))
        .collect()
}

#[test]
fn the_page_explains_each_field_of_a_report() {
    let source = include_str!("../run/report.rs");
    let (_, fields) = source.split_once("pub struct Report {").unwrap();
    let (fields, _) = fields.split_once("\n}\n").unwrap();
    let names = fields
        .lines()
        .filter_map(|line| line.trim().strip_prefix("pub ")?.split(':').next());
    // The end is flattened into the report by its reason.
    let names: BTreeSet<&str> = names
        .map(|name| if name == "end" { "reason" } else { name })
        .collect();
    let (_, section) = PAGE.split_once("\n## The report\n").unwrap();
    assert_eq!(names_in_table(section), names);
}
