//! Calls that wait for a person: in an agent's loop, in a plan's own sequences, and what the run does meanwhile (APPROVE-1 to
//! APPROVE-3, HOST-11, LOOP-5).

use std::sync::Arc;

use dirigent_core::agent::{Agent, AgentInput, AgentRole, AgentTimer};
use dirigent_core::approval::{Approval, ApprovalAnswer, Decision, Digest};
use dirigent_core::id::{AgentId, RunId, Scope};
use dirigent_core::journal::{Entry, Input};
use dirigent_core::limits::RunLimits;
use dirigent_core::machine::Machine;
use dirigent_core::message::Message;
use dirigent_core::policy::{Rule, Ruling};
use dirigent_core::recording::{Asked, Part, Recorder, Recording, replay};
use dirigent_core::run::{Detail, EndReason, Phase, Run, RunCommand, RunInput, RunTimer};
use dirigent_core::spec::RunSpec;
use dirigent_core::time::Millis;
use dirigent_core::tool::ToolResult;
use dirigent_core::view::{EventKind, RunView};
use serde_json::{Value, json};

use crate::driver::{acting, agent_ended, answered, brief_of, ended, give, refused, running};
use crate::fixture::{
    agent_outline, at, call, effect, native, replied, resumed, run_outline, says_call, spec, started,
    tool_ended,
};

/// Every `change` is asked about.
fn asking() -> RunSpec {
    let mut spec = spec();
    spec.tools[1].requires_approval = true;
    spec.limits = RunLimits {
        approval_timeout: Some(Millis(60_000)),
        timeout: Some(Millis(500_000)),
        ..RunLimits::default()
    };
    spec
}

fn rule(ruling: Ruling, calls: &str) -> Rule {
    Rule {
        ruling,
        calls: calls.parse().unwrap(),
    }
}

fn implementer(spec: RunSpec) -> Agent {
    started(spec, AgentRole::Sub("implement".to_owned()))
}

fn tell(agent: &mut Agent, after: u64, input: AgentInput) -> Vec<String> {
    agent_outline(&agent.handle(at(after), input).unwrap())
}

fn not_taken(agent: &mut Agent, after: u64, input: AgentInput) -> String {
    let before = agent.clone();
    let refusal = agent.handle(at(after), input).unwrap_err();
    assert_eq!(*agent, before);
    refusal.to_string()
}

fn decision(approval: &Approval, answer: ApprovalAnswer) -> Decision {
    Decision {
        digest: approval.digest.clone(),
        answer,
    }
}

/// About the call that the agent waits with.
fn decided(agent: &Agent, answer: ApprovalAnswer) -> AgentInput {
    let approval = agent.approval().unwrap();
    AgentInput::Decided {
        effect: approval.effect,
        decision: decision(approval, answer),
    }
}

/// An agent that waits, since 10, with a change of x, after which it would change y.
fn waiting() -> Agent {
    let mut agent = implementer(asking());
    let reply = native(vec![
        call("p", "change", json!({"path": "x"})),
        call("q", "look", json!({"path": "y"})),
    ]);
    assert_eq!(
        tell(&mut agent, 10, replied("a7.1", reply)),
        [
            "approval until 61010",
            r#"ask to approve a7.2 change {"path":"x"}"#
        ]
    );
    agent
}

fn results(agent: &Agent) -> Vec<Value> {
    let messages = agent.conversation().iter();
    messages
        .filter_map(|message| match message {
            Message::Tool { content, .. } => Some(serde_json::from_str(content).unwrap()),
            Message::System { .. } | Message::User { .. } | Message::Assistant { .. } => None,
        })
        .collect()
}

fn reject() -> ApprovalAnswer {
    ApprovalAnswer::Reject {
        reason: Some("not that file".to_owned()),
    }
}

fn guide() -> ApprovalAnswer {
    ApprovalAnswer::Guide {
        guidance: "Change z instead.".to_owned(),
    }
}

fn edit(parameters: Value) -> ApprovalAnswer {
    ApprovalAnswer::Edit { parameters }
}

fn expiry() -> AgentInput {
    AgentInput::TimerFired {
        timer: AgentTimer::Approval,
    }
}

#[test]
fn approve_1_nothing_runs_until_a_person_has_approved_it() {
    let mut agent = waiting();
    assert_eq!(
        not_taken(
            &mut agent,
            20,
            tool_ended("a7.2", ToolResult::success(json!("done")))
        ),
        "a7.2 is not under way: it has ended, or was never started"
    );
    let approve = decided(&agent, ApprovalAnswer::Approve);
    assert_eq!(
        tell(&mut agent, 30, approve.clone()),
        [
            "settled a7.2",
            "deadline 301020",
            r#"run a7.2 p: change {"path":"x"}"#
        ]
    );
    assert_eq!(
        not_taken(&mut agent, 40, approve),
        "no call `a7.2` waits for an approval: it was decided, has ended, or was never asked for"
    );
    assert_eq!(
        tell(
            &mut agent,
            50,
            tool_ended("a7.2", ToolResult::success(json!("done")))
        ),
        [r#"run a7.3 q: look {"path":"y"}"#]
    );
}

#[test]
fn approve_1_the_policy_holds_for_every_agent_and_names_its_rule() {
    let mut spec = spec();
    spec.policy.rules = vec![
        rule(Ruling::Deny, "look(path: /etc/*)"),
        rule(Ruling::Ask, "look(path: src/*)"),
    ];
    let mut agent = started(spec, AgentRole::Planner);
    let reply = native(vec![
        call("p", "look", json!({"path": "/etc/shadow"})),
        call("q", "look", json!({"path": "src/a.rs"})),
    ]);
    assert_eq!(
        tell(&mut agent, 10, replied("a7.1", reply)),
        [
            "approval until 86401010",
            r#"ask to approve a7.2 look {"path":"src/a.rs"}"#
        ]
    );
    assert_eq!(
        results(&agent),
        [json!({"success": false, "error": "the user's policy denies `look` with path `/etc/*`"})]
    );
}

#[test]
fn approve_1_a_plan_is_submitted_without_asking() {
    let mut spec = spec();
    spec.policy.rules = vec![rule(Ruling::Ask, "*")];
    let mut agent = started(spec, AgentRole::Planner);
    let reply = says_call(
        "submit_plan",
        json!({"summary": "Nothing.", "subtasks": []}),
        false,
    );
    assert_eq!(
        tell(&mut agent, 10, replied("a7.1", reply)),
        ["finish with plan Nothing."]
    );
}

#[test]
fn approve_2_edited_parameters_run_and_the_model_is_told() {
    let mut agent = waiting();
    let wrong = decided(&agent, edit(json!({"file": "z"})));
    assert!(not_taken(&mut agent, 20, wrong).starts_with("the parameters do not fit: "));
    let right = decided(&agent, edit(json!({"path": "z"})));
    assert_eq!(
        tell(&mut agent, 30, right)[2..],
        [r#"run a7.2 p: change {"path":"z"}"#.to_owned()]
    );
    tell(
        &mut agent,
        40,
        tool_ended("a7.2", ToolResult::success(json!("done"))),
    );
    assert_eq!(
        results(&agent),
        [
            json!({"success": true, "output": "done", "edited": r#"the user changed the parameters to {"path":"z"}"#})
        ]
    );
    assert_eq!(agent.work().calls[0].parameters, json!({"path": "z"}));
}

#[test]
fn approve_2_edited_parameters_that_the_policy_denies_are_refused_and_it_stays_pending() {
    let mut spec = asking();
    spec.policy.rules = vec![rule(Ruling::Deny, "change(path: .git/*)")];
    let mut agent = implementer(spec);
    tell(
        &mut agent,
        10,
        replied("a7.1", says_call("change", json!({"path": "x"}), false)),
    );
    let denied = decided(&agent, edit(json!({"path": ".git/config"})));
    assert_eq!(
        not_taken(&mut agent, 20, denied),
        "the user's policy denies `change` with path `.git/*`"
    );
    assert!(agent.approval().is_some());
}

#[test]
fn approve_2_a_rejection_ends_the_loop_and_no_later_call_runs() {
    let mut agent = waiting();
    let rejected = decided(&agent, reject());
    assert_eq!(
        tell(&mut agent, 20, rejected),
        [
            "settled a7.2",
            "deadline 301010",
            "finish, as the user rejected a call of `change`: not that file"
        ]
    );
}

#[test]
fn approve_2_guidance_goes_to_the_model_and_no_later_call_of_the_reply_runs() {
    let mut agent = waiting();
    let guided = decided(&agent, guide());
    assert_eq!(
        tell(&mut agent, 20, guided),
        ["settled a7.2", "deadline 301010", "ask a7.3"]
    );
    let results: Vec<Value> = results(&agent)
        .iter()
        .map(|result| result["error"].clone())
        .collect();
    assert_eq!(
        results,
        [
            "the user did not approve this call: Change z instead.",
            "it did not run, as the user did not approve a call before it"
        ]
    );
    assert_eq!(agent.work().usage.tool_calls, 0);
}

#[test]
fn approve_3_an_altered_a_foreign_and_a_late_answer_are_refused() {
    let mut agent = waiting();
    let mut altered = decided(&agent, ApprovalAnswer::Approve);
    if let AgentInput::Decided { decision, .. } = &mut altered {
        decision.digest = Digest("0".repeat(64));
    }
    assert_eq!(
        not_taken(&mut agent, 20, altered),
        "the decision was made for another call than `a7.2` is now; look at it again"
    );
    let foreign = AgentInput::Decided {
        effect: effect("a8.2"),
        decision: decision(agent.approval().unwrap(), ApprovalAnswer::Approve),
    };
    assert!(not_taken(&mut agent, 20, foreign).starts_with("no call `a8.2` waits for an approval"));
    let late = decided(&agent, ApprovalAnswer::Approve);
    assert_eq!(
        not_taken(&mut agent, 60_010, late),
        "the approval of `a7.2` has expired"
    );
}

#[test]
fn approve_3_a_digest_stands_for_all_that_is_decided_about() {
    let shown = |of: &str, tool: &str, parameters: Value, after: u64| {
        Approval::new(
            effect(of),
            None,
            &call("", tool, parameters),
            &asking(),
            at(after),
        )
    };
    let approval = shown("a7.2", "change", json!({"a": 1, "b": {"c": 2, "d": 3}}), 0);
    assert_eq!(
        approval.digest.0,
        "f7b2e5832202e5c564aec9b47af0f5d3747758ecf15656294c85869b3d98529e"
    );
    let others = [
        shown("a7.3", "change", json!({"a": 1, "b": {"c": 2, "d": 3}}), 0),
        shown("a8.2", "change", json!({"a": 1, "b": {"c": 2, "d": 3}}), 0),
        shown("a7.2", "look", json!({"a": 1, "b": {"c": 2, "d": 3}}), 0),
        shown("a7.2", "change", json!({"a": 1, "b": {"c": 2, "d": 4}}), 0),
        shown("a7.2", "change", json!({"a": 1, "b": {"c": 2, "d": 3}}), 1),
    ];
    for other in others {
        assert_ne!(other.digest, approval.digest);
    }
    let same = shown("a7.2+1", "change", json!({"b": {"d": 3, "c": 2}, "a": 1}), 0);
    assert_eq!(same.digest, approval.digest);
    let altered = Approval {
        parameters: json!({"a": 2}),
        ..approval.clone()
    };
    assert!(approval.is_intact() && !altered.is_intact());
}

#[test]
fn approve_3_what_nobody_approves_in_time_does_not_run() {
    let mut agent = waiting();
    assert_eq!(
        not_taken(&mut agent, 60_009, expiry()),
        "TimerFired cannot apply while the agent `implement` waits for an approval"
    );
    assert_eq!(
        tell(&mut agent, 60_010, expiry()),
        [
            "settled a7.2",
            "deadline 361000",
            r#"run a7.3 q: look {"path":"y"}"#
        ]
    );
    assert_eq!(
        results(&agent),
        [json!({"success": false, "error": "nobody approved it in time; it did not run"})]
    );
}

#[test]
fn loop_5_the_time_that_an_agent_waits_for_a_person_does_not_count() {
    let mut spec = asking();
    spec.limits.approval_timeout = None;
    let mut agent = implementer(spec);
    let asked = tell(
        &mut agent,
        100,
        replied("a7.1", says_call("change", json!({"path": "x"}), false)),
    );
    assert_eq!(asked, [r#"ask to approve a7.2 change {"path":"x"}"#]);
    let deadline = AgentInput::TimerFired {
        timer: AgentTimer::Deadline,
    };
    not_taken(&mut agent, 900_000, deadline.clone());
    let approve = decided(&agent, ApprovalAnswer::Approve);
    assert_eq!(tell(&mut agent, 1_000_000, approve)[1], "deadline 1300900");
    not_taken(&mut agent, 1_299_899, deadline.clone());
    assert!(
        tell(&mut agent, 1_299_900, deadline)[0].starts_with("finish, as the agent reached its time limit")
    );
}

#[test]
fn approve_3_a_pending_approval_keeps_its_handle_over_a_restart() {
    let mut agent = waiting();
    let approve = decided(&agent, ApprovalAnswer::Approve);
    let resumed = AgentInput::Resumed { last_seen: at(1_010) };
    assert_eq!(
        tell(&mut agent, 501_010, resumed),
        [
            r#"ask to approve a7.2 change {"path":"x"}"#,
            "approval until 561010"
        ]
    );
    assert_eq!(
        tell(&mut agent, 501_020, approve),
        [
            "settled a7.2",
            "deadline 802010",
            r#"run a7.2 p: change {"path":"x"}"#
        ]
    );
}

#[test]
fn approve_3_an_agent_that_ends_asks_no_more() {
    let mut agent = waiting();
    assert_eq!(
        tell(&mut agent, 20, AgentInput::Cancelled),
        ["settled a7.2", "finish, as cancelled"]
    );
    assert_eq!(agent.approval(), None);
}

/// `p` changes x and then looks, `q` needs it, `r` is an agent's.
fn sequences() -> Value {
    json!({"summary": "Change.", "subtasks": [
        {"id": "p", "title": "P", "calls": [
            {"tool": "change", "parameters": {"path": "x"}}, {"tool": "look", "parameters": {"path": "x"}}
        ]},
        {"id": "q", "title": "Q", "depends_on": ["p"], "agent": "explore", "task": "t"},
        {"id": "r", "title": "R", "agent": "implement", "task": "t"}
    ]})
}

/// A run whose plan's own call waits, since 0, beside an agent.
fn run_waiting() -> Run {
    let (run, commands) = acting(asking(), &sequences());
    assert_eq!(
        commands,
        [
            "timer Approval(2) 61000",
            r#"ask to approve run.2 change {"path":"x"}"#,
            "start run.3 a2 implement"
        ]
    );
    run
}

fn run_decided(run: &Run, answer: ApprovalAnswer) -> RunInput {
    let approval = run.approvals().next().unwrap();
    RunInput::Decided {
        effect: approval.effect,
        decision: decision(approval, answer),
    }
}

fn asked(of: &str) -> RunInput {
    RunInput::ApprovalAsked { effect: effect(of) }
}

fn settled(of: &str) -> RunInput {
    RunInput::ApprovalSettled { effect: effect(of) }
}

fn absent(of: &str) -> RunInput {
    RunInput::UserAbsent { effect: effect(of) }
}

#[test]
fn host_11_the_other_branch_goes_on_while_one_waits() {
    let mut run = run_waiting();
    assert_eq!(
        give(&mut run, 10, answered("run.3", "Found.")),
        ["Acting -> Observing (1)", "await user run.2"]
    );
    let approve = run_decided(&run, ApprovalAnswer::Approve);
    assert_eq!(
        give(&mut run, 30, approve),
        [
            r#"run run.2 for p: change {"path":"x"}"#,
            "timer Call(2) 901030",
            "timer Deadline 501020"
        ]
    );
    assert_eq!(
        give(&mut run, 40, ended("run.2", ToolResult::success(json!("done"))))[0],
        r#"run run.4 for p: look {"path":"x"}"#
    );
}

#[test]
fn approve_2_a_rejected_call_of_a_plan_ends_its_sequence() {
    let mut run = run_waiting();
    let rejected = run_decided(&run, reject());
    assert_eq!(give(&mut run, 10, rejected), ["Acting -> Observing (1)"]);
    let observed = serde_json::to_value(&run.rounds()[0].observations).unwrap();
    assert_eq!(
        observed[0]["finding"]["calls"][0]["result"]["error"],
        "the user rejected the call: not that file"
    );
    assert_eq!(observed[0]["finding"]["calls"].as_array().unwrap().len(), 1);
    assert_eq!(observed[1]["finding"], json!({"kind": "skipped", "because": "p"}));
    assert!(run.guidance().is_empty());
}

#[test]
fn approve_2_guidance_about_a_call_of_a_plan_joins_the_next_plan() {
    let mut run = run_waiting();
    let guided = run_decided(&run, guide());
    give(&mut run, 10, guided);
    let observed = serde_json::to_value(&run.rounds()[0].observations).unwrap();
    assert_eq!(
        observed[0]["finding"]["calls"][0]["result"]["error"],
        "the user did not approve this call: Change z instead."
    );
    assert_eq!(run.guidance(), ["Change z instead."]);
}

#[test]
fn approve_3_a_call_of_a_plan_that_nobody_approves_in_time_does_not_run() {
    let mut run = run_waiting();
    let expired = RunInput::TimerFired {
        timer: RunTimer::Approval(2),
    };
    refused(&mut run, 59_999, expired.clone());
    assert_eq!(give(&mut run, 60_000, expired), ["Acting -> Observing (1)"]);
    assert_eq!(run.usage().tool_calls, 0);
}

#[test]
fn approve_1_calls_of_a_plan_that_are_denied_fail_and_the_rest_goes_on() {
    let mut spec = spec();
    spec.policy.rules = vec![rule(Ruling::Deny, "change")];
    let change = json!([{"tool": "change", "parameters": {"path": "x"}}]);
    let late = json!([{"tool": "look", "parameters": {"path": "x"}}, {"tool": "change", "parameters": {"path": "x"}}]);
    let subtasks = json!([
        {"id": "p", "title": "P", "calls": change},
        {"id": "q", "title": "Q", "depends_on": ["p"], "calls": change},
        {"id": "r", "title": "R", "calls": late}
    ]);
    let (mut run, commands) = acting(spec, &json!({"summary": "Change.", "subtasks": subtasks}));
    assert_eq!(
        commands,
        [
            "Acting -> Observing (1)",
            r#"run run.3 for r: look {"path":"x"}"#,
            "timer Call(3) 901000"
        ]
    );
    assert_eq!(
        give(&mut run, 10, ended("run.3", ToolResult::success(json!("seen")))),
        ["Observing -> Reflecting (1)", "start run.5 a2 reflector"]
    );
    let observed = serde_json::to_value(&run.rounds()[0].observations).unwrap();
    assert_eq!(
        observed[0]["finding"]["calls"][0]["result"]["error"],
        "the user's policy denies `change`"
    );
    assert_eq!(observed[2]["finding"]["calls"].as_array().unwrap().len(), 2);
}

#[test]
fn host_11_a_run_whose_agents_all_wait_awaits_the_user_and_its_time_stands_still() {
    let mut run = run_waiting();
    assert_eq!(give(&mut run, 10, asked("a2.4")), ["await user run.2"]);
    refused(&mut run, 20, asked("a2.4"));
    refused(&mut run, 20, asked("a9.1"));
    let deadline = RunInput::TimerFired {
        timer: RunTimer::Deadline,
    };
    refused(&mut run, 600_000, deadline.clone());
    assert_eq!(
        give(&mut run, 600_010, settled("a2.4")),
        ["timer Deadline 1101000"]
    );
    refused(&mut run, 600_020, settled("a2.4"));
    assert_eq!(run.awaited_approval(), None);
    assert_eq!(
        give(&mut run, 1_100_000, deadline),
        ["Acting -> Failed (1)", "finish, time limit"]
    );
}

#[test]
fn host_11_the_end_of_an_agent_ends_its_waits() {
    let mut run = run_waiting();
    give(&mut run, 10, asked("a2.4"));
    assert_eq!(run.awaited_approval(), Some(effect("run.2")));
    give(&mut run, 20, answered("run.3", "Found."));
    refused(&mut run, 30, settled("a2.4"));
}

#[test]
fn paor_12_an_absent_user_stops_a_run_that_waits_for_approvals_and_it_goes_on_with_them() {
    let mut run = run_waiting();
    refused(&mut run, 5, absent("run.2"));
    give(&mut run, 10, asked("a2.4"));
    assert_eq!(
        give(&mut run, 20, absent("a2.4")),
        ["finish, user intervention required"]
    );
    assert_eq!(run.end(), Some(&EndReason::UserRequired));
    assert_eq!(run.phase(), Phase::Acting);
    let approve = run_decided(&run, ApprovalAnswer::Approve);
    refused(&mut run, 30, approve.clone());
    refused(&mut run, 30, settled("a2.4"));
    let resumed = RunInput::Resumed { last_seen: at(20) };
    assert_eq!(
        give(&mut run, 700_020, resumed),
        [
            r#"ask to approve run.2 change {"path":"x"}"#,
            "start run.3+1 a2 implement",
            "timer Approval(2) 761000",
            "timer Deadline 1201010"
        ]
    );
    assert_eq!(give(&mut run, 700_030, asked("a2.4")), ["await user run.2"]);
    assert_eq!(
        give(&mut run, 700_040, approve)[0],
        r#"run run.2 for p: change {"path":"x"}"#
    );
}

#[test]
fn host_11_what_is_awaited_is_said_again_when_another_call_has_waited_longest() {
    let mut spec = asking();
    spec.limits.max_parallel = 1;
    let one =
        |id: &str| json!({"id": id, "title": "S", "calls": [{"tool": "change", "parameters": {"path": id}}]});
    let (mut run, commands) = acting(spec, &json!({"summary": "s", "subtasks": [one("p"), one("q")]}));
    assert_eq!(commands[2], "await user run.2");
    let expired = RunInput::TimerFired {
        timer: RunTimer::Approval(2),
    };
    assert_eq!(
        give(&mut run, 60_000, expired),
        [
            "Acting -> Observing (1)",
            "timer Approval(3) 121000",
            r#"ask to approve run.3 change {"path":"q"}"#,
            "await user run.3"
        ]
    );
}

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
    let (mut view, mut events) = (RunView::new(), Vec::new());
    for entry in entries(inputs) {
        for event in view.apply(entry).unwrap() {
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

/// A run with two calls that wait, and that was resumed with them.
fn two_waiting() -> Vec<(u64, Scope, Input)> {
    let agent = AgentId(2);
    let (run, _) = acting(asking(), &sequences());
    let brief = run.outstanding().into_iter().find_map(|command| match command {
        RunCommand::StartAgent { brief, .. } => Some((*brief).clone()),
        _ => None,
    });
    let (run, _) = running(asking());
    let planners = (*brief_of(&run, "run.1")).clone();
    let mut planner = Agent::new(AgentId(1), run.context().unwrap().clone());
    let submit = says_call("submit_plan", sequences(), false);
    tell(
        &mut planner,
        0,
        AgentInput::Started {
            brief: planners.clone(),
        },
    );
    tell(&mut planner, 0, replied("a1.1", submit.clone()));
    let of_run = |after, input| (after, Scope::Run, Input::Run(input));
    let of_planner = |input| (0, Scope::Agent(AgentId(1)), Input::Agent(input));
    let of_agent = |after, input| (after, Scope::Agent(agent), Input::Agent(input));
    let change = says_call("change", json!({"path": "y"}), false);
    vec![
        of_run(
            0,
            RunInput::Started {
                spec: Arc::new(asking()),
            },
        ),
        of_planner(AgentInput::Started { brief: planners }),
        of_planner(replied("a1.1", submit)),
        of_run(0, agent_ended("run.1", planner.report().unwrap().clone())),
        of_agent(
            0,
            AgentInput::Started {
                brief: brief.unwrap(),
            },
        ),
        of_agent(10, replied("a2.1", change)),
        of_run(20, asked("a2.2")),
        of_run(20, resumed()),
        of_agent(20, AgentInput::Resumed { last_seen: at(20) }),
        of_run(30, asked("a2.2")),
    ]
}

#[test]
fn host_11_approvals_are_listed_oldest_first_and_told_once() {
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
fn host_9_a_recording_has_what_was_decided_about_and_replays() {
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
        .map(|line| match &line.asked {
            Some(Asked::Approval(approval)) => approval.tool.as_str(),
            Some(Asked::Request(_) | Asked::Call(_) | Asked::Question(_)) | None => "",
        })
        .collect();
    assert_eq!(asked, ["change", "change", ""]);
    let recording = Recording::parse(recording.to_string()).unwrap();
    assert_eq!(replay(&recording, asking(), run_id()).unwrap(), entries(inputs));
    let mut present = asking();
    present.policy.rules = vec![rule(Ruling::Allow, "change")];
    assert_eq!(
        replay(&recording, present, run_id()).unwrap_err().part,
        Part::Policy
    );
}

#[test]
fn host_10_waiting_for_people_is_no_work() {
    let mut inputs = two_waiting();
    inputs.push((50_030, Scope::Run, Input::Run(settled("a2.2"))));
    let (view, _) = view_of(inputs);
    assert_eq!(view.account().active_time, Millis(30));
}

#[test]
fn paor_9_a_report_says_what_waits_for_approval_and_what_waits_with_it() {
    let mut inputs = two_waiting();
    inputs.push((40, Scope::Run, Input::Run(absent("run.2"))));
    let (view, _) = view_of(inputs);
    insta::assert_snapshot!(view.report().render(Detail::Concise));
    let json = serde_json::to_value(view.report()).unwrap();
    assert_eq!(json["waiting"][0]["effect"], "run.2");
    assert_eq!(json["waiting"][0]["subtask"], "p");
    assert_eq!(json["waiting"][0]["dependents"], 1);
    assert_eq!(json["waiting"][1]["agent"], "implement");
    assert_eq!(json["waiting"][1]["subtask"], "r");
}

#[test]
fn approve_3_an_answer_to_one_of_two_leaves_the_other_pending() {
    let (view, _) = view_of(two_waiting());
    let (mut run, mut agents) = view.into_machines();
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
