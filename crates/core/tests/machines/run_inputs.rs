//! Arbitrary plans, settings and inputs for the run machine, and the input that completes a command.

use std::sync::Arc;

use dirigent_core::agent_report::{AgentAnswer, AgentFailure, AgentReport, AgentWork};
use dirigent_core::approval::{Approval, ApprovalAnswer, Decision, Digest};
use dirigent_core::brief::AgentRole;
use dirigent_core::id::{AgentId, EffectId, Scope};
use dirigent_core::message::Usage;
use dirigent_core::plan::Plan;
use dirigent_core::run::{Run, RunCommand, RunInput, RunTimer};
use dirigent_core::run_diff::ReflectorDiff;
use dirigent_core::spec::RunSpec;
use dirigent_core::time::{Millis, Timestamp};
use dirigent_core::tool::{StateChange, ToolResult};
use dirigent_core::user_request::UserRequestKind;
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use serde_json::{Value, json};

use crate::agent_properties::an_answer;
use crate::fixture::{at, ended_with, plan, reflection, resumed, spec};

/// Completes one of the outstanding effects.
#[derive(Clone, Debug)]
pub(crate) struct Ending {
    /// Selects the effect.
    pick: usize,
    kind: u8,
    plan: Plan,
}

#[derive(Clone, Debug)]
pub(crate) enum Step {
    End(Ending),
    ToolStarts(usize),
    Guide,
    Redirect,
    /// An agent delegates; it may or may not be active.
    Delegate {
        agent: u32,
        step: u32,
        attempt: u32,
    },
    FireDeadline,
    FireCall(u32),
    FireApproval(u32),
    /// Decides about a waiting call, with its digest or another one.
    Decide(usize, ApprovalAnswer, bool),
    /// A call of an active agent begins or stops waiting.
    AgentWaits(usize, bool),
    /// The user is absent; the number selects the waiting call.
    Absent(usize),
    Resume,
    Fork,
    Cancel,
    Foreign(EffectId, u8),
    StartAgain,
}

/// A plan whose sub-tasks depend on earlier ones; occasionally one with an invalid graph or one that cannot run.
pub(crate) fn a_plan() -> impl Strategy<Value = Plan> {
    let node = (any::<u8>(), 0..12_u8);
    (proptest::collection::vec(node, 0..7), 0..40_u8).prop_map(|(nodes, fault)| {
        let mut subtasks: Vec<Value> = nodes
            .iter()
            .enumerate()
            .map(|(index, (dependencies, work))| {
                let depends_on: Vec<String> = (0..index)
                    .filter(|earlier| dependencies & (1 << earlier) != 0)
                    .map(|earlier| format!("s{earlier}"))
                    .collect();
                let mut subtask = json!({"id": format!("s{index}"), "title": "S", "depends_on": depends_on});
                let tool = if *work % 2 == 0 { "look" } else { "change" };
                match work % 4 {
                    0 => {
                        subtask["agent"] = json!("explore");
                        subtask["task"] = json!("t");
                    }
                    count => {
                        subtask["calls"] =
                            vec![json!({"tool": tool, "parameters": {"path": "x"}}); count.into()].into()
                    }
                }
                subtask
            })
            .collect();
        // The sub-tasks can be in any order.
        if fault % 2 == 1 {
            subtasks.reverse();
        }
        match (fault, subtasks.first_mut()) {
            (0, Some(first)) => first["depends_on"] = json!([first["id"]]),
            (1, Some(first)) => first["depends_on"] = json!(["nowhere"]),
            (2, Some(first)) => {
                *first = json!({"id": "s0", "title": "S", "calls": []});
            }
            _ => {}
        }
        plan(&json!({"summary": "s", "subtasks": subtasks}))
    })
}

fn a_step() -> impl Strategy<Value = Step> {
    let ending =
        (any::<usize>(), any::<u8>(), a_plan()).prop_map(|(pick, kind, plan)| Ending { pick, kind, plan });
    let effect = (0..2_u32, 1..12_u32, 0..2_u32).prop_map(|(scope, step, attempt)| EffectId {
        scope: match scope {
            0 => Scope::Run,
            scope => Scope::Agent(AgentId(scope)),
        },
        step,
        attempt,
    });
    prop_oneof![
        24 => ending.prop_map(Step::End),
        4 => any::<usize>().prop_map(Step::ToolStarts),
        2 => Just(Step::Guide),
        1 => Just(Step::Redirect),
        8 => (1..9_u32, 1..4_u32, 0..2_u32)
            .prop_map(|(agent, step, attempt)| Step::Delegate { agent, step, attempt }),
        1 => Just(Step::FireDeadline),
        2 => (1..12_u32).prop_map(Step::FireCall),
        2 => (1..12_u32).prop_map(Step::FireApproval),
        6 => (any::<usize>(), an_answer(), proptest::bool::weighted(0.8))
            .prop_map(|(pick, answer, intact)| Step::Decide(pick, answer, intact)),
        6 => (any::<usize>(), proptest::bool::weighted(0.7)).prop_map(|(pick, waits)| Step::AgentWaits(pick, waits)),
        2 => any::<usize>().prop_map(Step::Absent),
        3 => Just(Step::Resume),
        1 => Just(Step::Fork),
        1 => proptest::bool::weighted(0.2).prop_map(|cancel| if cancel { Step::Cancel } else { Step::Guide }),
        3 => (effect, any::<u8>()).prop_map(|(effect, kind)| Step::Foreign(effect, kind)),
        1 => Just(Step::StartAgain),
    ]
}

pub(crate) fn steps() -> impl Strategy<Value = Vec<(i64, Step)>> {
    let pause = prop_oneof![8 => 0..1_000_i64, 1 => -500..0_i64, 1 => 0..2_000_000_i64];
    proptest::collection::vec((pause, a_step()), 0..60)
}

pub(crate) fn a_spec() -> impl Strategy<Value = RunSpec> {
    (0..4_u32, 1..5_u32, any::<bool>(), any::<bool>()).prop_map(|(parallel, iterations, timed, tokens)| {
        let mut spec = spec();
        spec.reads_diff = true;
        spec.setup.tools[1].requires_approval = true;
        spec.limits.approval_timeout = Some(Millis(1_500_000));
        spec.limits.max_parallel = parallel;
        spec.limits.max_iterations = iterations;
        spec.limits.timeout = timed.then_some(Millis(3_000_000));
        spec.limits.max_tokens = tokens.then_some(200);
        spec.limits.max_agents = 12;
        spec
    })
}

/// Returns true for a command whose work ends with an input.
pub(crate) fn is_work(command: &RunCommand) -> bool {
    effect_of(command).is_some()
}

pub(crate) fn effect_of(command: &RunCommand) -> Option<EffectId> {
    match command {
        RunCommand::StartAgent { effect, .. }
        | RunCommand::RunTool { effect, .. }
        | RunCommand::ReadDiff { effect }
        | RunCommand::AskUser { effect, .. } => Some(*effect),
        RunCommand::AskApproval { approval } => Some(approval.effect),
        RunCommand::Announce { .. }
        | RunCommand::GuideLead { .. }
        | RunCommand::GuideAgent { .. }
        | RunCommand::AllowCalls { .. }
        | RunCommand::ChangeTools { .. }
        | RunCommand::RedirectLead { .. }
        | RunCommand::StopTool { .. }
        | RunCommand::StopAgent { .. }
        | RunCommand::ReturnFindings { .. }
        | RunCommand::AwaitUser { .. }
        | RunCommand::SetTimer { .. }
        | RunCommand::Finish { .. } => None,
    }
}

fn failed() -> AgentReport {
    AgentReport {
        result: Err(AgentFailure::TurnLimit { max_turns: 10 }),
        work: AgentWork {
            usage: Usage {
                input_tokens: 3,
                ..Usage::default()
            },
            ..AgentWork::default()
        },
        duration: Millis(1),
        guidance: None,
    }
}

fn judged(kind: u8) -> AgentReport {
    let verdict = match kind % 8 {
        0 => "achieved",
        1 => "failed",
        2 | 3 => "ask_user",
        _ => "continue",
    };
    ended_with(AgentAnswer::Reflection(reflection(
        &json!({"verdict": verdict, "summary": "s", "question": "q"}),
    )))
}

fn tool_result(kind: u8) -> ToolResult {
    if kind.is_multiple_of(3) {
        ToolResult::failure("no")
    } else {
        ToolResult::success(json!("seen")).with_changes(vec![StateChange::FileEdited {
            after: None,
            before: None,
            path: "x".to_owned(),
            diff: None,
        }])
    }
}

fn decided(approval: &Approval, answer: ApprovalAnswer, intact: bool) -> RunInput {
    let digest = if intact {
        approval.digest.clone()
    } else {
        Digest("0".repeat(64))
    };
    RunInput::Decided {
        effect: approval.effect,
        decision: Decision { digest, answer },
    }
}

pub(crate) fn completion(command: &RunCommand, now: Timestamp, kind: u8, plan: Plan) -> RunInput {
    match command {
        RunCommand::AskApproval { approval } if approval.has_expired(now) => RunInput::TimerFired {
            timer: RunTimer::Approval(approval.effect.step),
        },
        RunCommand::AskApproval { approval } => decided(approval, ApprovalAnswer::Approve, true),
        RunCommand::StartAgent { effect, brief, .. } => RunInput::AgentFinished {
            effect: *effect,
            report: match (&brief.role, kind % 32) {
                (_, 31) => failed(),
                (AgentRole::Lead, 30) => judged(kind),
                (AgentRole::Lead, 29) => ended_with(AgentAnswer::Text("It is 42.".to_owned())),
                (AgentRole::Lead, _) => ended_with(AgentAnswer::Plan(plan)),
                (AgentRole::Reflector, 30) => ended_with(AgentAnswer::Text("Fine.".to_owned())),
                (AgentRole::Reflector, _) => judged(kind),
                (AgentRole::Sub(_), 20..) => failed(),
                (AgentRole::Sub(_), _) => ended_with(AgentAnswer::Text("found".to_owned())),
            },
        },
        RunCommand::RunTool { effect, .. } => RunInput::ToolFinished {
            effect: *effect,
            result: tool_result(kind),
        },
        RunCommand::ReadDiff { effect } => RunInput::DiffRead {
            effect: *effect,
            diff: ReflectorDiff::default(),
        },
        RunCommand::AskUser { effect, .. } if kind.is_multiple_of(3) => RunInput::UserAbsent {
            effect: *effect,
            guided: false,
        },
        RunCommand::AskUser { effect, .. } => RunInput::UserAnswered {
            effect: *effect,
            answer: "a".to_owned(),
        },
        RunCommand::Announce { .. }
        | RunCommand::GuideLead { .. }
        | RunCommand::GuideAgent { .. }
        | RunCommand::AllowCalls { .. }
        | RunCommand::ChangeTools { .. }
        | RunCommand::RedirectLead { .. }
        | RunCommand::StopTool { .. }
        | RunCommand::StopAgent { .. }
        | RunCommand::ReturnFindings { .. }
        | RunCommand::AwaitUser { .. }
        | RunCommand::SetTimer { .. }
        | RunCommand::Finish { .. } => panic!("{command:?} has no completion"),
    }
}

pub(crate) fn pick(run: &Run, pick: usize) -> Option<RunCommand> {
    let work: Vec<RunCommand> = run.outstanding().into_iter().filter(is_work).collect();
    (!work.is_empty()).then(|| work[pick % work.len()].clone())
}

/// The first call of an active agent.
fn agents_call(run: &Run, pick: usize) -> Option<EffectId> {
    let agents: Vec<AgentId> = run
        .outstanding()
        .iter()
        .filter_map(|command| match command {
            RunCommand::StartAgent { brief, .. } => Some(brief.agent),
            _ => None,
        })
        .collect();
    (!agents.is_empty()).then(|| EffectId {
        scope: Scope::Agent(agents[pick % agents.len()]),
        step: 2,
        attempt: 0,
    })
}

pub(crate) fn input(run: &Run, spec: &Arc<RunSpec>, now: Timestamp, step: Step) -> RunInput {
    let timer = |timer| RunInput::TimerFired { timer };
    match step {
        Step::End(ending) => match pick(run, ending.pick) {
            Some(command) => completion(&command, now, ending.kind, ending.plan),
            None => RunInput::Guided {
                guidance: "g".to_owned(),
            },
        },
        Step::ToolStarts(place) => match pick(run, place).as_ref().and_then(effect_of) {
            Some(effect) => RunInput::ToolStarted { effect },
            None => resumed(),
        },
        Step::Guide => RunInput::Guided {
            guidance: "g".to_owned(),
        },
        Step::Redirect => RunInput::Redirected {
            guidance: "r".to_owned(),
        },
        Step::Delegate { agent, step, attempt } => RunInput::Delegated {
            effect: EffectId {
                scope: Scope::Agent(AgentId(agent)),
                step,
                attempt,
            },
            agent: "explore".to_owned(),
            task: "t".to_owned(),
        },
        Step::FireDeadline => timer(RunTimer::Deadline),
        Step::FireCall(step) => timer(RunTimer::Call(step)),
        Step::FireApproval(step) => timer(RunTimer::Approval(step)),
        Step::Decide(pick, answer, intact) => {
            let approvals: Vec<_> = run.approvals().collect();
            match approvals.get(pick % approvals.len().max(1)) {
                Some(approval) => decided(approval, answer, intact),
                None => resumed(),
            }
        }
        Step::AgentWaits(pick, waits) => match (agents_call(run, pick), waits) {
            (Some(effect), true) => RunInput::CallAwaitsUser {
                effect,
                guidance: None,
                request: match pick % 2 {
                    0 => UserRequestKind::Decision,
                    _ => UserRequestKind::Answer,
                },
                allowed: 0,
            },
            (Some(effect), false) => RunInput::CallSettled { effect },
            (None, _) => resumed(),
        },
        Step::Absent(pick) => {
            let approval = run.approvals().next().map(|approval| approval.effect);
            match approval.or_else(|| agents_call(run, pick)) {
                Some(effect) => RunInput::UserAbsent {
                    effect,
                    guided: false,
                },
                None => resumed(),
            }
        }
        Step::Resume => resumed(),
        Step::Fork => RunInput::Resumed {
            last_seen: at(0),
            forked: true,
            limits: None,
            interrupted: Default::default(),
        },
        Step::Cancel => RunInput::Cancelled,
        Step::Foreign(effect, kind) => match kind % 4 {
            0 => RunInput::AgentFinished {
                effect,
                report: judged(kind),
            },
            1 => RunInput::ToolFinished {
                effect,
                result: tool_result(kind),
            },
            2 => RunInput::UserAbsent {
                effect,
                guided: false,
            },
            _ => RunInput::UserAnswered {
                effect,
                answer: "a".to_owned(),
            },
        },
        Step::StartAgain => RunInput::Started { spec: spec.clone() },
    }
}
