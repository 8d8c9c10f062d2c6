//! The agent machine under arbitrary inputs in arbitrary order: valid completions, stale and foreign ones, timers at any
//! time, restarts.

use std::collections::BTreeSet;
use std::sync::Arc;

use dirigent_core::agent::{Agent, AgentCommand, AgentInput, AgentTimer};
use dirigent_core::approval::{ApprovalAnswer, Decision, Digest};
use dirigent_core::brief::{AgentBrief, AgentRole};
use dirigent_core::id::{AgentId, EffectId, Scope};
use dirigent_core::journal::Input;
use dirigent_core::machine::Machine;
use dirigent_core::message::{FinishReason, Message, ModelFailure, ModelFailureKind, ModelReply};
use dirigent_core::policy::{Rule, Ruling};
use dirigent_core::question::Question;
use dirigent_core::spec::RunSpec;
use dirigent_core::time::{Millis, Timestamp};
use dirigent_core::tool::ToolResult;
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop_oneof, proptest};
use proptest::sample::Index;
use serde_json::{Value, json};

use crate::fixture::{agent_resumed, at, call, native, says_call, spec, text};

/// An input, independent of the machine's state.
#[derive(Clone, Debug)]
enum Step {
    Start,
    Reply(ModelReply),
    ModelFails,
    ToolStarts,
    ToolAsks,
    ToolEnds(bool),
    Guide,
    Fire(AgentTimer),
    /// Decides about the waiting call, with its digest or another one.
    Decide(ApprovalAnswer, bool),
    /// Answers the open question with this text.
    Answer(&'static str),
    Resume,
    Fork,
    Cancel,
    /// A completion of an effect that is not outstanding.
    Foreign {
        effect: EffectId,
        reply: bool,
    },
}

fn a_call() -> impl Strategy<Value = (&'static str, &'static str, Value, bool)> {
    let ids = prop_oneof![Just(""), Just("p"), Just("call-1-1"), Just("call-2-2")];
    let tools = prop_oneof![
        3 => Just(("look", json!({"path": "x"}))),
        2 => Just(("change", json!({"path": "y"}))),
        2 => Just(("delegate", json!({"agent": "explore", "task": "t"}))),
        1 => Just(("delegate", json!({"agent": "implement", "task": "t"}))),
        1 => Just(("delegate", json!({"agent": "nobody", "task": "t"}))),
        2 => Just(("ask_user", json!({"question": "Which?", "choices": ["a", "b"]}))),
        1 => Just(("give_up", json!({"reason": "No way."}))),
        1 => Just(("look", json!({}))),
        1 => Just(("nothing", json!({}))),
        1 => Just(("submit_plan", json!({"summary": "s", "subtasks": [{"id": "p", "title": "P", "agent": "explore", "task": "t"}]}))),
        1 => Just(("submit_plan", json!({"summary": "s", "subtasks": [{"id": "p", "title": "P", "depends_on": ["p"], "calls": []}]}))),
        1 => Just(("submit_reflection", json!({"verdict": "achieved", "summary": "s"}))),
        1 => Just(("submit_reflection", json!({"verdict": "ask_user", "summary": "s"}))),
    ];
    (ids, tools, any::<bool>())
        .prop_map(|(id, (tool, parameters), terminate)| (id, tool, parameters, terminate))
}

fn a_reply() -> impl Strategy<Value = ModelReply> {
    let natives = || {
        proptest::collection::vec(a_call(), 1..4).prop_map(|calls| {
            let calls = calls.into_iter().map(|(id, tool, parameters, terminate)| {
                let mut call = call(id, tool, parameters);
                call.terminate = terminate;
                call
            });
            native(calls.collect())
        })
    };
    prop_oneof![
        4 => a_call().prop_map(|(_, tool, parameters, terminate)| says_call(tool, parameters, terminate)),
        4 => natives(),
        1 => (natives(), prop_oneof![Just(FinishReason::Length), Just(FinishReason::Interrupted)])
            .prop_map(|(reply, finish)| ModelReply { finish, ..reply }),
        1 => prop_oneof![
            Just("Done."), Just(""), Just(" \n"), Just(r#"{"tool": "look""#), Just(r#"{"tool": 1}"#),
            Just(r#"{"tool":"look","parameters":{"path":"1"},"terminate":false} {"tool":"look","parameters":{"path":"2"},"terminate":false}"#),
        ].prop_map(text),
    ]
}

fn a_step() -> impl Strategy<Value = Step> {
    let effect = (0..3_u32, 1..6_u32, 0..2_u32).prop_map(|(scope, step, attempt)| EffectId {
        scope: match scope {
            0 => Scope::Run,
            scope => Scope::Agent(AgentId(scope)),
        },
        step,
        attempt,
    });
    prop_oneof![
        1 => Just(Step::Start),
        12 => a_reply().prop_map(Step::Reply),
        1 => Just(Step::ModelFails),
        4 => Just(Step::ToolStarts),
        3 => Just(Step::ToolAsks),
        12 => any::<bool>().prop_map(Step::ToolEnds),
        2 => Just(Step::Guide),
        1 => Just(Step::Fire(AgentTimer::Deadline)),
        2 => Just(Step::Fire(AgentTimer::UserRequest)),
        10 => (an_answer(), proptest::bool::weighted(0.8)).prop_map(|(answer, intact)| Step::Decide(answer, intact)),
        4 => prop_oneof![Just("a"), Just("2"), Just("3")].prop_map(Step::Answer),
        3 => Just(Step::Resume),
        1 => Just(Step::Fork),
        1 => Just(Step::Cancel),
        3 => (effect, any::<bool>()).prop_map(|(effect, reply)| Step::Foreign { effect, reply }),
    ]
}

pub fn an_answer() -> impl Strategy<Value = ApprovalAnswer> {
    prop_oneof![
        4 => Just(ApprovalAnswer::Approve),
        1 => Just(ApprovalAnswer::Edit { parameters: json!({"path": "z"}) }),
        1 => Just(ApprovalAnswer::Edit { parameters: json!({}) }),
        1 => Just(ApprovalAnswer::Reject { reason: None }),
        2 => Just(ApprovalAnswer::Guide { guidance: "g".to_owned() }),
    ]
}

/// The steps, each with the milliseconds since the previous one; negative if the clock was set back.
fn steps() -> impl Strategy<Value = Vec<(i64, Step)>> {
    let pause = prop_oneof![6 => 0..1_000_i64, 1 => -500..0_i64, 1 => 0..400_000_i64];
    proptest::collection::vec((pause, a_step()), 0..40)
}

/// The outstanding effect; if there is none of this kind, a foreign one, so that the input must be refused.
fn under_way(agent: &Agent, tool: bool) -> EffectId {
    agent
        .outstanding()
        .iter()
        .find_map(|command| match command {
            AgentCommand::AskModel { effect } if !tool => Some(*effect),
            AgentCommand::RunTool { effect, .. } | AgentCommand::Delegate { effect, .. } if tool => {
                Some(*effect)
            }
            AgentCommand::AskModel { .. }
            | AgentCommand::RunTool { .. }
            | AgentCommand::AskApproval { .. }
            | AgentCommand::AskUser { .. }
            | AgentCommand::AnswerTool { .. }
            | AgentCommand::CallSettled { .. }
            | AgentCommand::Delegate { .. }
            | AgentCommand::GuideRun { .. }
            | AgentCommand::BeginActing
            | AgentCommand::Stop
            | AgentCommand::SetTimer { .. }
            | AgentCommand::Finish { .. } => None,
        })
        .unwrap_or(EffectId {
            scope: Scope::Run,
            step: 1,
            attempt: 0,
        })
}

fn input(agent: &Agent, role: &AgentRole, step: Step) -> AgentInput {
    let result = |success: bool| {
        if success {
            ToolResult::success(json!("seen"))
        } else {
            ToolResult::failure("no such file")
        }
    };
    match step {
        Step::Start => AgentInput::Started { brief: brief(role) },
        Step::Reply(reply) => AgentInput::ModelReplied {
            effect: under_way(agent, false),
            reply,
        },
        Step::ModelFails => AgentInput::ModelFailed {
            effect: under_way(agent, false),
            failure: ModelFailure {
                kind: ModelFailureKind::Rejected,
                message: "no".to_owned(),
            },
        },
        Step::ToolStarts => AgentInput::ToolStarted {
            effect: under_way(agent, true),
        },
        Step::ToolAsks => AgentInput::ToolAsked {
            effect: under_way(agent, true),
            question: Question {
                question: "Which one?".to_owned(),
                choices: vec!["a".to_owned(), "b".to_owned()],
            },
        },
        Step::ToolEnds(success) => AgentInput::ToolFinished {
            effect: under_way(agent, true),
            result: result(success),
        },
        Step::Guide => AgentInput::Guided {
            guidance: "g".to_owned(),
        },
        Step::Fire(timer) => AgentInput::TimerFired { timer },
        Step::Decide(answer, intact) => decided(agent, answer, intact),
        Step::Answer(answer) => answered(agent, answer),
        Step::Resume => agent_resumed(),
        Step::Fork => AgentInput::Resumed {
            last_seen: at(0),
            forked: true,
        },
        Step::Cancel => AgentInput::Cancelled,
        Step::Foreign { effect, reply: true } => AgentInput::ModelReplied {
            effect,
            reply: text("foreign"),
        },
        Step::Foreign { effect, reply: false } => AgentInput::ToolFinished {
            effect,
            result: result(true),
        },
    }
}

/// An answer to the open question; if there is none, to a question that was never asked.
fn answered(agent: &Agent, answer: &str) -> AgentInput {
    let asked = agent.question().map(|asked| asked.effect);
    AgentInput::UserAnswered {
        effect: asked.unwrap_or_else(|| under_way(agent, true)),
        answer: answer.to_owned(),
    }
}

/// A decision about the waiting call; if there is none, about a call that never waited.
fn decided(agent: &Agent, answer: ApprovalAnswer, intact: bool) -> AgentInput {
    let approval = agent.approval();
    let digest = approval
        .filter(|_| intact)
        .map_or_else(|| Digest("0".repeat(64)), |approval| approval.digest.clone());
    AgentInput::Decided {
        effect: approval.map_or_else(|| under_way(agent, true), |approval| approval.effect),
        decision: Decision { digest, answer },
    }
}

fn brief(role: &AgentRole) -> AgentBrief {
    AgentBrief {
        agent: AgentId(1),
        role: role.clone(),
        task: "t".to_owned(),
        agents_left: None,
        guidance: None,
        depth: 0,
        caller: None,
    }
}

/// A test's own record of the commands without a completion, and the running call that has asked the user.
#[derive(Default)]
struct Expected(Vec<AgentCommand>, Option<AgentCommand>);

impl Expected {
    fn take(&mut self, input: &AgentInput, commands: &[AgentCommand]) {
        let settled: Vec<EffectId> = commands
            .iter()
            .filter_map(|command| match command {
                AgentCommand::CallSettled { effect } => Some(*effect),
                _ => None,
            })
            .collect();
        let completed = match input {
            AgentInput::ModelReplied { effect, .. }
            | AgentInput::ModelFailed { effect, .. }
            | AgentInput::OverBudget { effect, .. }
            | AgentInput::ToolFinished { effect, .. } => Some(*effect),
            AgentInput::Resumed { .. } => {
                self.0.clear();
                None
            }
            AgentInput::ToolAsked { effect, .. } => {
                let runs = |command: &&AgentCommand| matches!(command, AgentCommand::RunTool { effect: running, .. } if running == effect);
                self.1 = self.0.iter().find(runs).cloned();
                Some(*effect)
            }
            AgentInput::Started { .. }
            | AgentInput::ToolStarted { .. }
            | AgentInput::QuestionWithdrawn { .. }
            | AgentInput::Decided { .. }
            | AgentInput::UserAnswered { .. }
            | AgentInput::Guided { .. }
            | AgentInput::RunGuided { .. }
            | AgentInput::Redirected { .. }
            | AgentInput::CallsAllowed { .. }
            | AgentInput::ToolsChanged { .. }
            | AgentInput::Continued { .. }
            | AgentInput::TimerFired { .. }
            | AgentInput::Cancelled => None,
        };
        self.0.retain(|command| match command {
            AgentCommand::AskModel { effect }
            | AgentCommand::RunTool { effect, .. }
            | AgentCommand::Delegate { effect, .. } => Some(*effect) != completed,
            AgentCommand::AskApproval { approval, .. } => !settled.contains(&approval.effect),
            AgentCommand::AskUser { question, .. } => !settled.contains(&question.effect),
            AgentCommand::AnswerTool { .. }
            | AgentCommand::CallSettled { .. }
            | AgentCommand::GuideRun { .. }
            | AgentCommand::BeginActing
            | AgentCommand::Stop
            | AgentCommand::SetTimer { .. }
            | AgentCommand::Finish { .. } => true,
        });
        let is_answered = commands
            .iter()
            .any(|command| matches!(command, AgentCommand::AnswerTool { .. }));
        // A call that was answered runs, unless the input ends it.
        if let Some(running) = self.1.take_if(|_| is_answered)
            && completed.is_none()
            && !matches!(input, AgentInput::Resumed { .. })
        {
            self.0.push(running);
        }
        for command in to_be_done(commands) {
            if matches!(command, AgentCommand::Finish { .. }) {
                self.0.clear();
            }
            self.0.push(command);
        }
    }
}

/// The commands that need a completion, and the command that ends the agent.
fn to_be_done(commands: &[AgentCommand]) -> Vec<AgentCommand> {
    commands
        .iter()
        .filter(|command| {
            !matches!(
                command,
                AgentCommand::SetTimer { .. }
                    | AgentCommand::AnswerTool { .. }
                    | AgentCommand::CallSettled { .. }
                    | AgentCommand::BeginActing
            )
        })
        .cloned()
        .collect()
}

/// Checks that every call has exactly one result or is outstanding, that every result has its call, and that the roles are in order.
pub fn assert_conversation(agent: &Agent) {
    let messages = agent.conversation();
    let mut ids = BTreeSet::new();
    let mut open: Vec<&str> = Vec::new();
    for (place, message) in messages.iter().enumerate() {
        match message {
            Message::System { .. } => assert_eq!(place, 0),
            Message::User { .. } => assert!(place > 0 && open.is_empty(), "{messages:#?}"),
            Message::Assistant { calls, .. } => {
                let before = &messages[place - 1];
                assert!(
                    matches!(before, Message::User { .. } | Message::Tool { .. }) && open.is_empty(),
                    "{messages:#?}"
                );
                for call in calls {
                    assert!(
                        ids.insert(call.id.as_str()),
                        "two calls {}: {messages:#?}",
                        call.id
                    );
                }
                open = calls.iter().map(|call| call.id.as_str()).collect();
            }
            Message::Tool { call_id, .. } => {
                assert!(!open.is_empty() && open.remove(0) == call_id, "{messages:#?}");
            }
        }
    }
    if agent.report().is_none() {
        assert_eq!(
            agent.current_call().map(|call| call.id.as_str()),
            open.first().copied()
        );
    }
}

/// Every `change` and every delegation to `implement` needs approval, within a time limit.
fn asking() -> RunSpec {
    let mut spec = spec();
    spec.setup.tools[1].requires_approval = true;
    spec.limits.approval_timeout = Some(Millis(300_000));
    let of_machine = ["delegate", "ask_user", "give_up"].map(str::to_owned);
    spec.setup.agents[1].tools.extend(of_machine.clone());
    spec.setup.lead.tools.extend(of_machine);
    spec.setup.policy.rules = vec![Rule {
        ruling: Ruling::Ask,
        calls: "delegate(agent: implement)".parse().unwrap(),
    }];
    spec
}

/// The calls that a person has approved.
#[derive(Default)]
struct Approved(BTreeSet<u32>);

impl Approved {
    fn take(&mut self, input: &AgentInput, commands: &[AgentCommand]) {
        if let AgentInput::Decided { effect, decision } = input
            && matches!(
                decision.answer,
                ApprovalAnswer::Approve | ApprovalAnswer::Edit { .. }
            )
        {
            self.0.insert(effect.step);
        }
        if let AgentInput::Resumed { forked: true, .. } = input {
            self.0.clear();
        }
        for command in commands {
            let asked_about = match command {
                AgentCommand::RunTool { effect, call } if call.tool == "change" => effect,
                AgentCommand::Delegate { effect, agent, .. } if agent == "implement" => effect,
                _ => continue,
            };
            assert!(
                self.0.contains(&asked_about.step),
                "{asked_about} was not approved"
            );
        }
    }
}

fn check(role: AgentRole, steps: Vec<(i64, Step)>) {
    let spec = Arc::new(asking());
    let mut approved = Approved::default();
    let brief = brief(&role);
    let start = || Agent::start(Timestamp(10_000), spec.clone(), brief.clone()).unwrap();
    let (mut expected, mut now) = (Expected::default(), 10_000_i64);
    let (mut agent, commands) = start();
    expected.take(&AgentInput::Started { brief: brief.clone() }, &commands);
    let mut journal: Vec<(Timestamp, String, Vec<AgentCommand>, Agent)> = Vec::new();
    let mut ends = 0;
    for (pause, step) in steps {
        now += pause;
        let at = Timestamp(now.unsigned_abs());
        let input = input(&agent, &role, step);
        let before = agent.clone();
        match agent.handle(at, input.clone()) {
            Err(_) => assert_eq!(agent, before),
            Ok(commands) => {
                ends += commands
                    .iter()
                    .filter(|command| matches!(command, AgentCommand::Finish { .. }))
                    .count();
                expected.take(&input, &commands);
                approved.take(&input, &commands);
                let entry = serde_json::to_string(&Input::Agent(input)).unwrap();
                journal.push((at, entry, commands, agent.clone()));
            }
        }
        assert_conversation(&agent);
        assert_eq!(to_be_done(&agent.outstanding()), expected.0);
        assert_eq!(ends, usize::from(agent.report().is_some()));
    }
    let (mut replayed, _) = start();
    for (at, entry, commands, state) in journal {
        let Ok(Input::Agent(input)) = serde_json::from_str(&entry) else {
            panic!("{entry}");
        };
        assert_eq!(replayed.handle(at, input).unwrap(), commands);
        assert_eq!(replayed, state);
        assert_eq!(replayed.outstanding(), state.outstanding());
    }
    assert_ends(agent, Timestamp(now.unsigned_abs()));
}

/// Checks that the loop ends if every outstanding effect is completed, even though the model never stops calling.
fn assert_ends(mut agent: Agent, now: Timestamp) {
    let limit = 100;
    for _ in 0..limit {
        if agent.report().is_some() {
            return;
        }
        let under_way = to_be_done(&agent.outstanding());
        let input = match &under_way[..] {
            [AgentCommand::AskModel { effect }] => AgentInput::ModelReplied {
                effect: *effect,
                reply: says_call("look", json!({"path": "x"}), false),
            },
            [AgentCommand::RunTool { effect, .. } | AgentCommand::Delegate { effect, .. }] => {
                AgentInput::ToolFinished {
                    effect: *effect,
                    result: ToolResult::success(Value::Null),
                }
            }
            [AgentCommand::AskApproval { approval, .. }] if approval.has_expired(now) => {
                AgentInput::TimerFired {
                    timer: AgentTimer::UserRequest,
                }
            }
            [AgentCommand::AskApproval { .. }] => decided(&agent, ApprovalAnswer::Approve, true),
            [AgentCommand::AskUser { question, .. }] if question.has_expired(now) => AgentInput::TimerFired {
                timer: AgentTimer::UserRequest,
            },
            [AgentCommand::AskUser { .. }] => answered(&agent, "a"),
            other => panic!("one thing at a time, not {other:?}"),
        };
        agent.handle(now, input).unwrap();
    }
    panic!("no end after {limit} steps");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_agent_keeps_its_invariants_under_any_inputs(role in any::<Index>(), steps in steps()) {
        let roles = [AgentRole::Lead, AgentRole::Reflector, AgentRole::Sub("implement".to_owned())];
        check(role.get(&roles).clone(), steps);
    }
}
