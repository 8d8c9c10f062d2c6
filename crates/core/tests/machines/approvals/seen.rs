//! Approvals as watchers, reports and recordings show them.

use std::sync::Arc;

use dirigent_core::agent::{Agent, AgentInput};
use dirigent_core::approval::ApprovalAnswer;
use dirigent_core::id::{AgentId, RunId, Scope};
use dirigent_core::journal::{Entry, Input};
use dirigent_core::machine::Machine;
use dirigent_core::policy::Ruling;
use dirigent_core::recording::{Part, RecordedRequest, Recorder, Recording, replay};
use dirigent_core::run::{RunCommand, RunInput};
use dirigent_core::time::Millis;
use dirigent_core::view::{EventKind, RunView};
use serde_json::json;

use super::{
    absent, asked, asking, decided, decision, expiry, guide, rule, run_decided, sequences, settled, tell,
};
use crate::driver::{acting, agent_ended, brief_of, running};
use crate::fixture::{agent_outline, at, effect, replied, resumed, run_outline, says_call};
use crate::journaled::Journaled;

fn run_id() -> RunId {
    RunId("0199f0a0-0000-7000-8000-000000000001".parse().unwrap())
}

fn entries(inputs: Vec<(u64, Scope, Input)>) -> Vec<Entry> {
    let entry = |(seq, (after, scope, input))| Entry {
        run: run_id(),
        seq,
        at: at(after),
        scope,
        input,
    };
    (1..).zip(inputs).map(entry).collect()
}

fn view_of(inputs: Vec<(u64, Scope, Input)>) -> (RunView, Vec<String>) {
    let mut events = Vec::new();
    let mut entries = entries(inputs).into_iter();
    let (mut view, first) = RunView::start(entries.next().unwrap()).unwrap();
    for new in std::iter::once(first).chain(entries.map(|entry| view.apply(entry).unwrap())) {
        for event in new {
            events.extend(match event.kind {
                EventKind::SubTaskStarted { subtask, .. } => Some(format!("{subtask} started")),
                EventKind::ApprovalAsked { approval } => Some(format!("{} asked", approval.effect)),
                EventKind::ApprovalDecided { effect, .. } => Some(format!("{effect} decided")),
                EventKind::ApprovalExpired { effect } => Some(format!("{effect} expired")),
                _ => None,
            });
        }
    }
    (view, events)
}

/// A run with two waiting calls that was resumed.
fn two_waiting() -> Vec<(u64, Scope, Input)> {
    let agent = AgentId(2);
    let (run, _) = acting(asking(), &sequences());
    let brief = run.outstanding().into_iter().find_map(|command| match command {
        RunCommand::StartAgent { brief, .. } => Some((*brief).clone()),
        _ => None,
    });
    let (run, _) = running(asking());
    let leads = (*brief_of(&run, "run.1")).clone();
    let (mut lead, _) = Agent::start(at(0), run.spec().clone(), leads.clone()).unwrap();
    let submit = says_call("submit_plan", sequences(), false);
    tell(&mut lead, 0, replied("a1.1", submit.clone()));
    let of_run = |after, input| (after, Scope::Run, Input::Run(input));
    let of_lead = |input| (0, Scope::Agent(AgentId(1)), Input::Agent(input));
    let of_agent = |after, input| (after, Scope::Agent(agent), Input::Agent(input));
    let change = says_call("change", json!({"path": "y"}), false);
    vec![
        of_run(
            0,
            RunInput::Started {
                spec: Arc::new(asking()),
            },
        ),
        of_lead(AgentInput::Started { brief: leads }),
        of_lead(replied("a1.1", submit)),
        of_run(0, agent_ended("run.1", lead.report().unwrap().clone())),
        of_agent(
            0,
            AgentInput::Started {
                brief: brief.unwrap(),
            },
        ),
        of_agent(10, replied("a2.1", change)),
        of_run(20, asked("a2.2")),
        of_run(20, resumed()),
        of_agent(
            20,
            AgentInput::Resumed {
                last_seen: at(20),
                forked: false,
            },
        ),
        of_run(30, asked("a2.2")),
    ]
}

#[test]
fn host_11_approvals_are_listed_oldest_first_and_announced_once() {
    let (view, events) = view_of(two_waiting());
    let waiting: Vec<String> = view
        .approvals()
        .iter()
        .map(|approval| approval.effect.to_string())
        .collect();
    assert_eq!(waiting, ["run.2", "a2.2"]);
    assert_eq!(events, ["p started", "run.2 asked", "r started", "a2.2 asked"]);
    let mut inputs = two_waiting();
    let approval = view.run().approvals().next().unwrap();
    let approve = RunInput::Decided {
        effect: approval.effect,
        decision: decision(approval, ApprovalAnswer::Approve),
    };
    inputs.push((40, Scope::Run, Input::Run(approve)));
    inputs.push((60_010, Scope::Agent(AgentId(2)), Input::Agent(expiry())));
    let (view, events) = view_of(inputs);
    assert_eq!(events[4..], ["run.2 decided", "a2.2 expired"]);
    assert!(view.approvals().is_empty());
}

#[test]
fn host_9_a_recording_contains_the_decided_approvals_and_replays() {
    let (view, _) = view_of(two_waiting());
    let approve = run_decided(view.run(), ApprovalAnswer::Approve);
    let guided = decided(view.agent(AgentId(2)).unwrap(), guide());
    let mut inputs = two_waiting();
    inputs.push((40, Scope::Run, Input::Run(approve)));
    inputs.push((50, Scope::Agent(AgentId(2)), Input::Agent(guided)));
    inputs.push((60, Scope::Run, Input::Run(settled("a2.2"))));
    let mut recorder = Recorder::new();
    for entry in entries(inputs.clone()) {
        recorder.add(entry).unwrap();
    }
    let recording = recorder.finish().unwrap();
    let asked: Vec<&str> = recording.entries()[10..]
        .iter()
        .map(|line| match &line.answers {
            Some(RecordedRequest::Approval(approval)) => approval.tool.as_str(),
            Some(RecordedRequest::Request(_) | RecordedRequest::Call(_) | RecordedRequest::Question(_))
            | None => "",
        })
        .collect();
    assert_eq!(asked, ["change", "change", ""]);
    let recording = Recording::parse(recording.to_string()).unwrap();
    assert_eq!(replay(&recording, asking(), run_id()).unwrap(), entries(inputs));
    let mut present = asking();
    present.setup.policy.rules = vec![rule(Ruling::Allow, "change")];
    assert_eq!(
        replay(&recording, present, run_id()).unwrap_err().part,
        Part::Policy
    );
}

#[test]
fn host_10_waiting_for_the_user_is_not_active_time() {
    let mut inputs = two_waiting();
    inputs.push((50_030, Scope::Run, Input::Run(settled("a2.2"))));
    let (view, _) = view_of(inputs);
    assert_eq!(view.usage_report().active_time, Millis(30));
}

#[test]
fn paor_9_a_report_lists_calls_that_wait_for_approval_and_the_blocked_work() {
    let mut inputs = two_waiting();
    inputs.push((40, Scope::Run, Input::Run(absent("run.2"))));
    let (view, _) = view_of(inputs);
    let json = serde_json::to_value(view.report()).unwrap();
    assert_eq!(json["waiting"][0]["effect"], "run.2");
    assert_eq!(json["waiting"][0]["subtask"], "p");
    assert_eq!(json["waiting"][0]["dependents"], 1);
    assert_eq!(json["waiting"][1]["agent"], "implement");
    assert_eq!(json["waiting"][1]["subtask"], "r");
}

#[test]
fn approve_3_an_answer_to_one_of_two_approvals_leaves_the_other_pending() {
    let (view, _) = view_of(two_waiting());
    let (mut run, mut agents) = view.into_machines().into_machines();
    let agent = agents.get_mut(&AgentId(2)).unwrap();
    let approve = decided(agent, ApprovalAnswer::Approve);
    let commands = agent_outline(&agent.handle(at(40), approve).unwrap());
    assert_eq!(commands[0], "settled a2.2");
    assert_eq!(
        run_outline(&run.handle(at(50), settled("a2.2")).unwrap()),
        ["timer Deadline 501020"]
    );
    assert_eq!(run.approvals().count(), 1);
}

#[test]
fn approve_3_calls_asked_again_in_a_fork_cause_events_and_no_sub_task_starts_twice() {
    let (last_seen, forked) = (at(20), true);
    let mut inputs = two_waiting();
    inputs.truncate(7);
    let of_run = |input| (30, Scope::Run, Input::Run(input));
    inputs.push(of_run(RunInput::Resumed {
        last_seen,
        forked,
        limits: None,
        interrupted: Default::default(),
    }));
    inputs.push((
        30,
        Scope::Agent(AgentId(2)),
        Input::Agent(AgentInput::Resumed { last_seen, forked }),
    ));
    inputs.push(of_run(asked("a2.2")));
    let (view, events) = view_of(inputs);
    assert_eq!(events[4..], ["run.2 asked", "a2.2 asked"]);
    assert_eq!(view.approvals()[0].asked_at, at(30));
}

#[test]
fn paor_9_a_waiting_call_of_a_delegate_blocks_the_plans_sub_task() {
    let mut spec = asking();
    spec.setup.agents[1].tools.push("delegate".to_owned());
    let subtasks = json!([
        {"id": "p", "title": "P", "agent": "implement", "task": "t"},
        {"id": "q", "title": "Q", "depends_on": ["p"], "agent": "explore", "task": "t"}
    ]);
    let mut run = Journaled::acting(spec, &json!({"summary": "s", "subtasks": subtasks}));
    run.start(2, "run.2");
    for (caller, works) in [(2, 3), (3, 4)] {
        let delegate = json!({"agent": "implement", "task": "t"});
        run.replies(
            caller,
            &format!("a{caller}.1"),
            says_call("delegate", delegate, false),
        );
        run.run(RunInput::Delegated {
            effect: effect(&format!("a{caller}.2")),
            agent: "implement".to_owned(),
            task: "t".to_owned(),
        });
        run.start(works, &format!("run.{works}"));
    }
    run.replies(4, "a4.1", says_call("change", json!({"path": "x"}), false));
    run.run(asked("a4.2"));
    let waiting = run.view.report().waiting;
    assert_eq!(waiting.len(), 1);
    assert_eq!(waiting[0].subtask, Some("p".into()));
    assert_eq!(waiting[0].dependents, 1);
}
