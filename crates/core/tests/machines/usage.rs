//! HOST-10: a run's cost, computed from its journal alone.

use dirigent_core::agent::AgentInput;
use dirigent_core::brief::{AgentBrief, AgentRole};
use dirigent_core::id::{AgentId, Scope};
use dirigent_core::journal::Input;
use dirigent_core::message::{ModelFailure, ModelFailureKind, ModelReply, Usage};
use dirigent_core::price::Cost;
use dirigent_core::run::{RunInput, RunTimer};
use dirigent_core::time::Millis;
use dirigent_core::tool::ToolResult;
use dirigent_core::usage::{ModelUsage, UsageReport, UsageTotals};
use dirigent_core::view::RunView;
use serde_json::{Value, json};

use crate::driver::{agent_ended, ended};
use crate::fixture::{at, effect, replied, says_call, spec, text, tool_ended, usage};
use crate::journaled::entry;

/// A watcher that receives inputs with their times.
struct Watched {
    view: RunView,
    seq: u64,
}

impl Watched {
    fn started() -> Self {
        let started = Input::Run(RunInput::Started { spec: spec().into() });
        let (view, _) = RunView::start(entry(1, 0, Scope::Run, started)).unwrap();
        Watched { view, seq: 1 }
    }

    fn apply(&mut self, after: u64, scope: Scope, input: Input) {
        self.seq += 1;
        self.view.apply(entry(self.seq, after, scope, input)).unwrap();
    }

    fn run(&mut self, after: u64, input: RunInput) {
        self.apply(after, Scope::Run, Input::Run(input));
    }

    fn agent(&mut self, after: u64, agent: u32, input: AgentInput) {
        self.apply(after, Scope::Agent(AgentId(agent)), Input::Agent(input));
    }

    fn start_agent(&mut self, after: u64, agent: u32, role: AgentRole) {
        let brief = AgentBrief {
            agent: AgentId(agent),
            role,
            task: "t".to_owned(),
            agents_left: None,
            guidance: None,
            depth: 0,
            caller: None,
        };
        self.agent(after, agent, AgentInput::Started { brief });
    }

    /// Gives the report of the agent's machine to the run.
    fn report(&mut self, after: u64, of: &str, agent: u32) {
        let report = self.view.agent(AgentId(agent)).unwrap().report().unwrap().clone();
        self.run(after, agent_ended(of, report));
    }
}

fn by(model: &str, usage: Usage, reply: ModelReply) -> ModelReply {
    ModelReply {
        model: Some(model.to_owned()),
        usage,
        ..reply
    }
}

fn priced(nano: u64) -> Usage {
    Usage {
        cached_input_tokens: 40,
        cost: Cost(nano),
        ..usage(100, 20)
    }
}

/// A lead that uses two models, a sub-agent and a call in parallel, and a reflector that is cancelled.
fn cancelled() -> Watched {
    let mut watched = Watched::started();
    watched.start_agent(0, 1, AgentRole::Lead);
    let look = says_call("look", json!({"path": "x"}), false);
    watched.agent(100, 1, replied("a1.1", by("big", priced(5_000_000), look)));
    watched.agent(150, 1, tool_ended("a1.2", ToolResult::success(Value::Null)));
    let malformed = by("big", priced(5_000_000), text(r#"{"tool": "look""#));
    watched.agent(250, 1, replied("a1.3", malformed));
    let plan = json!({"summary": "s", "subtasks": [
        {"id": "p", "title": "P", "agent": "explore", "task": "t"},
        {"id": "q", "title": "Q", "calls": [{"tool": "look", "parameters": {"path": "x"}}]}
    ]});
    let submitted = by("small", usage(30, 7), says_call("submit_plan", plan, true));
    watched.agent(300, 1, replied("a1.4", submitted));
    watched.report(300, "run.1", 1);
    watched.start_agent(310, 2, AgentRole::Sub("explore".to_owned()));
    watched.run(400, ended("run.3", ToolResult::success(Value::Null)));
    watched.agent(510, 2, replied("a2.1", text("Found.")));
    watched.report(515, "run.2", 2);
    watched.start_agent(520, 3, AgentRole::Reflector);
    watched.run(600, RunInput::Cancelled);
    watched
}

#[test]
fn host_10_a_run_is_accounted_for_by_agent_and_by_model() {
    let big = json!({
        "model": "big", "model_calls": 2, "tool_calls": 1, "input_tokens": 200, "cached_input_tokens": 80,
        "output_tokens": 40, "cost": 10_000_000, "malformed": 1, "model_time": 200, "tool_time": 50
    });
    let small = json!({
        "model": "small", "model_calls": 1, "tool_calls": 0, "input_tokens": 30, "output_tokens": 7,
        "malformed": 0, "model_time": 50, "tool_time": 0
    });
    let unknown = json!({
        "model": "unknown", "model_calls": 1, "tool_calls": 0, "input_tokens": 10, "output_tokens": 5,
        "malformed": 0, "model_time": 200, "tool_time": 0
    });
    let account = json!({
        "model_calls": 4, "tool_calls": 2, "input_tokens": 240, "cached_input_tokens": 80, "output_tokens": 52,
        "cost": 10_000_000, "malformed": 1, "model_time": 530, "tool_time": 150, "active_time": 600,
        "models": [big, small, unknown],
        "agents": [
            {
                "agent": 1, "name": "lead", "model_calls": 3, "tool_calls": 1, "input_tokens": 230,
                "cached_input_tokens": 80, "output_tokens": 47, "cost": 10_000_000, "malformed": 1,
                "model_time": 250, "tool_time": 50, "models": [big, small]
            },
            {
                "agent": 2, "name": "explore", "model_calls": 1, "tool_calls": 0, "input_tokens": 10,
                "output_tokens": 5, "malformed": 0, "model_time": 200, "tool_time": 0, "models": [unknown]
            },
            {
                "agent": 3, "name": "reflector", "model_calls": 0, "tool_calls": 0, "input_tokens": 0,
                "output_tokens": 0, "malformed": 0, "model_time": 80, "tool_time": 0, "models": []
            }
        ]
    });
    let watched = cancelled();
    assert_eq!(
        serde_json::to_value(watched.view.usage_report()).unwrap(),
        account
    );
    let report = serde_json::to_value(watched.view.report()).unwrap();
    assert_eq!(report["account"], account);
    // Without the agents' machines, the run knows only their reports.
    assert_eq!(watched.view.run().report().account, None);
}

#[test]
fn host_10_an_active_run_is_accounted_for_up_to_its_last_entry() {
    let mut watched = Watched::started();
    assert_eq!(watched.view.usage_report(), UsageReport::default());
    watched.start_agent(20, 1, AgentRole::Lead);
    let guided = AgentInput::Guided {
        guidance: "g".to_owned(),
    };
    watched.agent(70, 1, guided);
    let account = watched.view.usage_report();
    assert_eq!(
        (account.total.model_time, account.active_time),
        (Millis(50), Millis(70))
    );
    let look = says_call("look", json!({"path": "x"}), false);
    watched.agent(120, 1, replied("a1.1", look));
    watched.agent(
        160,
        1,
        AgentInput::ToolStarted {
            effect: effect("a1.2"),
        },
    );
    let account = watched.view.usage_report();
    let times = UsageTotals {
        usage: usage(10, 5),
        model_time: Millis(100),
        tool_time: Millis(40),
        ..UsageTotals::default()
    };
    assert_eq!(account.total, times);
    assert_eq!(account.models[0].totals, times);
}

#[test]
fn host_10_the_time_of_a_failed_request_counts_only_for_the_agent() {
    let mut watched = Watched::started();
    watched.start_agent(0, 1, AgentRole::Lead);
    let failure = ModelFailure {
        kind: ModelFailureKind::Rejected,
        message: "no".to_owned(),
    };
    let effect = effect("a1.1");
    watched.agent(90, 1, AgentInput::ModelFailed { effect, failure });
    let account = watched.view.usage_report();
    assert_eq!(account.models, []);
    assert_eq!(
        account.total,
        UsageTotals {
            model_time: Millis(90),
            ..UsageTotals::default()
        }
    );
}

#[test]
fn host_10_time_without_a_process_does_not_count_and_interrupted_calls_count_partly() {
    let mut watched = Watched::started();
    watched.start_agent(0, 1, AgentRole::Lead);
    let plan =
        json!({"summary": "s", "subtasks": [{"id": "p", "title": "P", "agent": "implement", "task": "t"}]});
    watched.agent(10, 1, replied("a1.1", says_call("submit_plan", plan, true)));
    watched.report(10, "run.1", 1);
    watched.start_agent(10, 2, AgentRole::Sub("implement".to_owned()));
    let change = by(
        "big",
        usage(10, 5),
        says_call("change", json!({"path": "x"}), false),
    );
    watched.agent(100, 2, replied("a2.1", change));
    watched.agent(
        120,
        2,
        AgentInput::ToolStarted {
            effect: effect("a2.2"),
        },
    );
    let last_seen = at(120);
    watched.run(
        90_000,
        RunInput::Resumed {
            last_seen,
            forked: false,
            limits: None,
            interrupted: Default::default(),
        },
    );
    let account = watched.view.usage_report();
    assert_eq!(
        (account.total.tool_time, account.active_time),
        (Millis(20), Millis(120))
    );
    watched.agent(
        90_010,
        2,
        AgentInput::Resumed {
            last_seen,
            forked: false,
        },
    );
    watched.agent(90_100, 2, replied("a2.3", by("big", usage(10, 5), text("Done."))));
    let account = watched.view.usage_report();
    assert_eq!(account.active_time, Millis(220));
    assert_eq!(
        account.agents[1].models,
        [ModelUsage {
            model: "big".to_owned(),
            totals: UsageTotals {
                usage: Usage {
                    model_calls: 2,
                    tool_calls: 1,
                    ..usage(20, 10)
                },
                model_time: Millis(180),
                tool_time: Millis(30),
                ..UsageTotals::default()
            }
        }]
    );
}

#[test]
fn host_10_a_call_stopped_at_its_time_limit_counts_with_the_whole_limit() {
    let mut watched = Watched::started();
    watched.start_agent(0, 1, AgentRole::Lead);
    let calls = json!([{"tool": "look", "parameters": {"path": "x"}}]);
    let plan = json!({"summary": "s", "subtasks": [{"id": "p", "title": "P", "calls": calls}]});
    watched.agent(0, 1, replied("a1.1", says_call("submit_plan", plan, true)));
    watched.report(0, "run.1", 1);
    let timer = RunTimer::Call(2);
    watched.run(900_000, RunInput::TimerFired { timer });
    let account = watched.view.usage_report();
    assert_eq!(
        (account.total.tool_time, account.total.usage.tool_calls),
        (Millis(900_000), 1)
    );
}

/// Checks that the parts of an account add up to the whole, and that an agent is never idle.
pub fn assert_account(view: &RunView, was_cut_off: bool) {
    let account = view.usage_report();
    assert_eq!(account.total.usage, view.report().usage);
    let sum = |models: &[ModelUsage]| {
        let mut all = UsageTotals::default();
        models.iter().for_each(|model| all += model.totals);
        all
    };
    let mut agents = UsageTotals::default();
    for agent in &account.agents {
        agents += agent.totals;
        // All of the agent's usage comes from its model or was caused by its model; the agent may be waiting for
        // another reply.
        let of_models = sum(&agent.models);
        assert_eq!(
            (of_models.usage, of_models.malformed),
            (agent.totals.usage, agent.totals.malformed)
        );
        assert_eq!(of_models.tool_time, agent.totals.tool_time);
        let waited = agent.totals.model_time.0 + agent.totals.tool_time.0;
        let machine = view.agent(agent.agent).unwrap();
        // A lead's report covers only the time since its last continuation, and delegating counts neither as model time nor as tool time.
        let delegated = machine.work().calls.iter().any(|call| call.tool == "delegate");
        let is_whole = machine.continuations() == 0 && !delegated;
        if let Some(report) = machine.report().filter(|_| is_whole) {
            if was_cut_off {
                // The time without a process and a cancelled request do not count as model time.
                assert!(waited <= report.duration.0);
                assert!(of_models.model_time <= agent.totals.model_time);
            } else {
                assert_eq!(waited, report.duration.0);
                assert_eq!(of_models.model_time, agent.totals.model_time);
            }
        }
    }
    let models = sum(&account.models);
    assert_eq!((models.usage, models.malformed), (agents.usage, agents.malformed));
    assert_eq!(account.total.model_time, agents.model_time);
}

#[test]
fn host_6_the_calls_whose_tokens_are_estimates_are_counted() {
    let mut watched = Watched::started();
    watched.start_agent(0, 1, AgentRole::Lead);
    let estimated = Usage {
        estimated_calls: 1,
        ..usage(100, 20)
    };
    let look = |usage| by("big", usage, says_call("look", json!({"path": "x"}), false));
    watched.agent(100, 1, replied("a1.1", look(estimated)));
    watched.agent(100, 1, tool_ended("a1.2", ToolResult::success(Value::Null)));
    watched.agent(200, 1, replied("a1.3", look(usage(130, 20))));
    let account = watched.view.usage_report();
    assert_eq!(json!(account)["estimated_calls"], 1);
}
