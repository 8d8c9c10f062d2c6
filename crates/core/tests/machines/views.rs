//! The events that a watcher receives, entry by entry.

use dirigent_core::agent::AgentInput;
use dirigent_core::brief::{AgentBrief, AgentRole};
use dirigent_core::id::{AgentId, Scope};
use dirigent_core::journal::Input;
use dirigent_core::message::{ModelReply, Usage};
use dirigent_core::observation::SubTaskResult;
use dirigent_core::price::Cost;
use dirigent_core::run::{ChangedFile, FileChangeKind, RunInput};
use dirigent_core::spec::RunSpec;
use dirigent_core::tool::{StateChange, ToolResult};
use dirigent_core::view::RunView;
use serde_json::{Value, json};

use crate::driver::{agent_ended, ended, planned, reflected};
use crate::fixture::{agent_resumed, effect, replied, resumed, says_call, spec, text, tool_ended, usage};
use crate::journaled::{RUN, entry};

/// A watcher, and the number of entries that it has seen.
struct Watcher {
    view: RunView,
    seq: u64,
}

impl Watcher {
    fn started() -> Self {
        Watcher::started_with(spec())
    }

    fn started_with(spec: RunSpec) -> Self {
        Watcher::first(spec).0
    }

    /// A watcher, and the events of the first entry.
    fn first(spec: RunSpec) -> (Self, Vec<Value>) {
        let started = Input::Run(RunInput::Started { spec: spec.into() });
        let (view, events) = RunView::start(entry(1, 1, Scope::Run, started)).unwrap();
        let events = events.iter().map(|event| json!(event.kind)).collect();
        (Watcher { view, seq: 1 }, events)
    }

    fn apply(&mut self, scope: Scope, input: Input) -> Result<Vec<Value>, String> {
        self.seq += 1;
        let entry = entry(self.seq, self.seq, scope, input);
        let events = self.view.apply(entry).map_err(|refusal| refusal.to_string())?;
        Ok(events
            .iter()
            .map(|event| {
                assert_eq!((event.run, event.seq, event.scope), (RUN, self.seq, scope));
                serde_json::to_value(&event.kind).unwrap()
            })
            .collect())
    }

    fn run(&mut self, input: RunInput) -> Vec<Value> {
        self.apply(Scope::Run, Input::Run(input)).unwrap()
    }

    fn agent(&mut self, agent: u32, input: AgentInput) -> Vec<Value> {
        self.apply(Scope::Agent(AgentId(agent)), Input::Agent(input))
            .unwrap()
    }
}

fn phase(from: &str, to: &str) -> Value {
    json!({"event": "phase_changed", "from": from, "to": to, "iteration": 1})
}

fn two() -> Value {
    json!({"summary": "s", "subtasks": [
        {"id": "p", "title": "P", "agent": "explore", "task": "t"},
        {"id": "q", "title": "Q", "calls": [
            {"tool": "look", "parameters": {"path": "x"}},
            {"tool": "look", "parameters": {"path": "y"}}
        ]}
    ]})
}

#[test]
fn paor_1_a_watcher_sees_the_start_and_every_phase() {
    let (mut watcher, events) = Watcher::first(spec());
    assert_eq!(
        events,
        [
            json!({"event": "run_started", "goal": "Rename `a` to `b`", "workspace": "/work"}),
            phase("idle", "planning")
        ]
    );
    let empty = json!({"summary": "Nothing.", "subtasks": []});
    assert_eq!(
        watcher.run(planned("run.1", &empty)),
        [
            json!({"event": "plan_made", "plan": {"summary": "Nothing.", "subtasks": []}}),
            phase("planning", "acting"),
            phase("acting", "observing"),
            phase("observing", "reflecting")
        ]
    );
    assert_eq!(
        watcher.run(reflected("run.2", "achieved", "Done.")),
        [
            json!({"event": "reflected", "verdict": "achieved", "summary": "Done."}),
            phase("reflecting", "complete"),
            json!({"event": "run_finished", "reason": "goal_achieved", "summary": "Done."})
        ]
    );
}

#[test]
fn paor_6_a_watcher_sees_subtasks_and_their_calls() {
    let mut watcher = Watcher::started();
    let events = watcher.run(planned("run.1", &two()));
    assert_eq!(
        events[2..],
        [
            json!({"event": "subtask_started", "subtask": "p", "title": "P", "agent": 2}),
            json!({"event": "subtask_started", "subtask": "q", "title": "Q", "agent": null}),
        ]
    );
    assert_eq!(
        watcher.run(RunInput::ToolStarted {
            effect: effect("run.3")
        }),
        [
            json!({"event": "tool_started", "effect": "run.3", "tool": "look", "parameters": {"path": "x"}, "subtask": "q"})
        ]
    );
    let ended_well = |effect: &str| {
        json!({"event": "tool_finished", "effect": effect, "tool": "look", "success": true, "error": null,
               "duration": 0, "changes": []})
    };
    assert_eq!(
        watcher.run(ended("run.3", ToolResult::success(json!("seen")))),
        [ended_well("run.3")]
    );
    let events = watcher.run(ended("run.4", ToolResult::success(json!("seen"))));
    assert_eq!(events[0], ended_well("run.4"));
    assert_eq!(
        [&events[1]["event"], &events[1]["observation"]["subtask"]],
        [&json!("subtask_finished"), &json!("q")]
    );
    assert_eq!(events[2..], [phase("acting", "observing")]);
}

#[test]
fn host_2_a_resumed_sub_task_is_not_reported_as_started_again() {
    let mut watcher = Watcher::started();
    watcher.run(planned("run.1", &two()));
    assert_eq!(watcher.run(resumed()), [json!({"event": "resumed"})]);
}

#[test]
fn a_watcher_sees_an_agents_loop() {
    let mut watcher = Watcher::started();
    let brief = AgentBrief {
        agent: AgentId(1),
        role: AgentRole::Lead,
        task: "t".to_owned(),
        agents_left: None,
        guidance: None,
        depth: 0,
        caller: None,
    };
    assert_eq!(
        watcher.agent(1, AgentInput::Started { brief }),
        [json!({"event": "agent_started", "role": "lead"})]
    );
    let said = r#"{"tool":"look","parameters":{"path":"x"},"terminate":false}"#;
    let reply = ModelReply {
        model: Some("big".to_owned()),
        usage: Usage {
            cost: Cost(5_000),
            ..usage(10, 5)
        },
        ..says_call("look", json!({"path": "x"}), false)
    };
    assert_eq!(
        watcher.agent(1, replied("a1.1", reply)),
        [
            json!({"event": "model_replied", "turn": 1, "content": said, "model": "big",
                "usage": {"model_calls": 1, "tool_calls": 0, "input_tokens": 10, "output_tokens": 5, "cost": 5_000}})
        ]
    );
    assert_eq!(
        watcher.agent(
            1,
            AgentInput::ToolStarted {
                effect: effect("a1.2")
            }
        ),
        [json!({"event": "tool_started", "effect": "a1.2", "tool": "look", "parameters": {"path": "x"}})]
    );
    assert_eq!(
        watcher.agent(1, tool_ended("a1.2", ToolResult::failure("no such file"))),
        [
            json!({"event": "tool_finished", "effect": "a1.2", "tool": "look", "success": false, "error": "no such file",
                   "duration": 0, "changes": []})
        ]
    );
    assert_eq!(
        watcher.agent(1, AgentInput::Cancelled),
        [
            json!({"event": "agent_finished", "failure": {"kind": "cancelled"}, "duration": 4,
                   "usage": {"model_calls": 1, "tool_calls": 1, "input_tokens": 10, "output_tokens": 5, "cost": 5_000}})
        ]
    );
    assert_eq!(watcher.view.agents().count(), 1);
}

#[test]
fn paor_9_a_watcher_sees_the_question_and_its_answer() {
    let mut watcher = Watcher::started();
    watcher.run(planned("run.1", &json!({"summary": "s", "subtasks": []})));
    assert_eq!(
        watcher.run(reflected("run.2", "ask_user", "Two fit.")),
        [
            json!({"event": "reflected", "verdict": "ask_user", "summary": "Two fit.", "question": "Which one?", "choices": ["a", "b"]}),
            json!({"event": "question_asked", "effect": "run.3", "question": "Which one?", "choices": ["a", "b"]})
        ]
    );
    let absent = RunInput::UserAbsent {
        effect: effect("run.3"),
        guided: false,
    };
    assert_eq!(
        watcher.run(absent),
        [json!({"event": "run_finished", "reason": "user_required", "summary": "Two fit."})]
    );
    watcher.run(resumed());
    let answer = RunInput::UserAnswered {
        effect: effect("run.3+1"),
        answer: "a".to_owned(),
    };
    assert_eq!(
        watcher.run(answer)[0],
        json!({"event": "question_answered", "effect": "run.3+1", "answer": "a"})
    );
    let guided = RunInput::Guided {
        guidance: "g".to_owned(),
    };
    assert_eq!(watcher.run(guided), [json!({"event": "guided", "guidance": "g"})]);
}

#[test]
fn paor_10_the_view_of_a_cancelled_run_includes_the_work_of_an_agent_that_never_reported() {
    let mut watcher = Watcher::started();
    watcher.run(planned("run.1", &two()));
    let brief = AgentBrief {
        agent: AgentId(2),
        role: AgentRole::Sub("implement".to_owned()),
        task: "t".to_owned(),
        agents_left: None,
        guidance: None,
        depth: 0,
        caller: None,
    };
    watcher.agent(2, AgentInput::Started { brief });
    let change = says_call("change", json!({"path": "x"}), false);
    watcher.agent(2, replied("a2.1", change));
    let edited = StateChange::FileEdited {
        after: None,
        before: None,
        path: "x".to_owned(),
        diff: Some("-a\n+b\n".to_owned()),
    };
    let result = ToolResult::success(Value::Null).with_changes(vec![edited]);
    watcher.agent(2, tool_ended("a2.2", result));
    let of_the_run = watcher.view.run().usage();
    watcher.run(RunInput::Cancelled);
    let report = watcher.view.report();
    assert_eq!(
        report.changed,
        [ChangedFile {
            path: "x".to_owned(),
            kind: FileChangeKind::Edited
        }]
    );
    assert_eq!(report.usage.tool_calls, of_the_run.tool_calls + 1);
    assert_eq!(report.usage.model_calls, of_the_run.model_calls + 1);
    assert_eq!(changed(&watcher.view), ["x"]);
    assert!(watcher.view.run().report().changed.is_empty());
}

#[test]
fn host_3_a_watcher_sees_refused_calls_and_the_report_counts_them() {
    let mut watcher = Watcher::started();
    watcher.run(planned("run.1", &two()));
    let brief = AgentBrief {
        agent: AgentId(2),
        role: AgentRole::Sub("implement".to_owned()),
        task: "t".to_owned(),
        agents_left: None,
        guidance: None,
        depth: 0,
        caller: None,
    };
    watcher.agent(2, AgentInput::Started { brief });
    let unknown = says_call("nothing", json!({"path": "x"}), false);
    let events = watcher.agent(2, replied("a2.1", unknown));
    let names: Vec<_> = events.iter().map(|event| &event["event"]).collect();
    assert_eq!(names, ["model_replied", "tool_refused"]);
    assert_eq!(
        [&events[1]["tool"], &events[1]["parameters"]],
        [&json!("nothing"), &json!({"path": "x"})]
    );
    let error = events[1]["error"].as_str().unwrap();
    assert!(error.contains("`nothing`"), "{error}");
    let report = watcher.view.report();
    assert_eq!((report.refused_calls, report.usage.tool_calls), (1, 0));
}

/// The files that the report names as changed.
fn changed(view: &RunView) -> Vec<String> {
    view.report().changed.into_iter().map(|file| file.path).collect()
}

#[test]
fn the_work_that_an_agent_has_reported_counts_once() {
    let mut watcher = Watcher::started();
    let brief = AgentBrief {
        agent: AgentId(1),
        role: AgentRole::Lead,
        task: "t".to_owned(),
        agents_left: None,
        guidance: None,
        depth: 0,
        caller: None,
    };
    watcher.agent(1, AgentInput::Started { brief });
    let submitted = says_call("submit_plan", json!({"summary": "s", "subtasks": []}), true);
    watcher.agent(1, replied("a1.1", submitted));
    assert_eq!(watcher.view.report().usage.tokens(), 15);
    watcher.run(planned("run.1", &json!({"summary": "s", "subtasks": []})));
    assert_eq!(watcher.view.report().usage.tokens(), 15);
}

#[test]
fn an_entry_that_the_run_cannot_accept_leaves_the_view_unchanged() {
    let mut watcher = Watcher::started();
    let before = watcher.view.clone();
    for (scope, input, error) in [
        (
            Scope::Run,
            Input::Agent(agent_resumed()),
            "resuming the agent is not accepted: the scope of its journal entry is run",
        ),
        (
            Scope::Agent(AgentId(1)),
            Input::Run(resumed()),
            "resuming the run is not accepted: the scope of its journal entry is a1",
        ),
        (
            Scope::Agent(AgentId(9)),
            Input::Agent(agent_resumed()),
            "resuming the agent is not accepted: agent a9 has not started",
        ),
        (
            Scope::Run,
            Input::Run(ended("run.1", ToolResult::success(Value::Null))),
            "effect run.1 is not in progress: it has ended or never started",
        ),
    ] {
        assert_eq!(watcher.apply(scope, input), Err(error.to_owned()));
        assert_eq!(watcher.view, before);
    }
}

/// A watcher after `a2` has delegated to `a3`, which has changed `x` and used 15 tokens.
fn delegated() -> Watcher {
    let mut spec = spec();
    spec.setup.agents[0].tools.push("delegate".to_owned());
    let mut watcher = Watcher::started_with(spec);
    watcher.run(planned("run.1", &two()));
    let brief = AgentBrief {
        agent: AgentId(2),
        role: AgentRole::Sub("explore".to_owned()),
        task: "t".to_owned(),
        agents_left: None,
        guidance: None,
        depth: 1,
        caller: None,
    };
    watcher.agent(2, AgentInput::Started { brief: brief.clone() });
    let delegate = says_call("delegate", json!({"agent": "implement", "task": "u"}), false);
    assert_eq!(
        watcher.agent(2, replied("a2.1", delegate))[1],
        json!({"event": "tool_started", "effect": "a2.2", "tool": "delegate", "parameters": {"agent": "implement", "task": "u"}, "subtask": "p"})
    );
    let started = RunInput::Delegated {
        effect: effect("a2.2"),
        agent: "implement".to_owned(),
        task: "u".to_owned(),
    };
    assert_eq!(watcher.run(started), [Value::Null; 0]);
    let child = AgentBrief {
        agent: AgentId(3),
        role: AgentRole::Sub("implement".to_owned()),
        depth: 2,
        caller: Some(effect("a2.2")),
        ..brief
    };
    assert_eq!(
        watcher.agent(3, AgentInput::Started { brief: child }),
        [json!({"event": "agent_started", "role": {"sub": "implement"}, "caller": "a2.2"})]
    );
    let change = says_call("change", json!({"path": "x"}), false);
    watcher.agent(3, replied("a3.1", change));
    let edited = StateChange::FileEdited {
        after: None,
        before: None,
        path: "x".to_owned(),
        diff: Some("-a\n+b\n".to_owned()),
    };
    let result = ToolResult::success(Value::Null).with_changes(vec![edited]);
    watcher.agent(3, tool_ended("a3.2", result));
    watcher.agent(3, replied("a3.3", text("Done.")));
    watcher
}

/// The agent reports and ends.
fn reports(watcher: &mut Watcher, agent: u32, of: &str) {
    let report = watcher
        .view
        .agent(AgentId(agent))
        .unwrap()
        .report()
        .unwrap()
        .clone();
    watcher.run(agent_ended(of, report));
}

#[test]
fn paor_10_changes_of_a_delegate_are_reported_exactly_once() {
    let mut watcher = delegated();
    assert_eq!(changed(&watcher.view), ["x"]);
    // the run knows the change, the caller does not
    reports(&mut watcher, 3, "run.4");
    assert_eq!(changed(&watcher.view), ["x"]);
    let used = watcher.view.report().usage;
    let edited = StateChange::FileEdited {
        after: None,
        before: None,
        path: "x".to_owned(),
        diff: Some("-a\n+b\n".to_owned()),
    };
    let mut result = ToolResult::success(json!("found")).with_changes(vec![edited]);
    result.metadata.insert("started_agent".to_owned(), json!(3));
    watcher.agent(2, tool_ended("a2.2", result));
    assert_eq!(changed(&watcher.view), ["x"]);
    watcher.agent(2, replied("a2.3", text("Done.")));
    reports(&mut watcher, 2, "run.2");
    assert_eq!(changed(&watcher.view), ["x"]);
    let report = watcher.view.report();
    let SubTaskResult::Agent { work, .. } = &report.iterations[0].observations[0].finding else {
        panic!("{report:?}");
    };
    assert_eq!(work.calls[0].agent, Some(AgentId(3)));
    // one more model call, and the call itself
    let after = watcher.view.report().usage;
    assert_eq!(after.tokens(), used.tokens() + 15);
    assert_eq!(after.tool_calls, used.tool_calls + 1);
}

#[test]
fn paor_10_changes_of_a_delegate_are_reported_if_its_caller_never_received_them() {
    let mut watcher = delegated();
    reports(&mut watcher, 3, "run.4");
    watcher.run(RunInput::Cancelled);
    assert_eq!(changed(&watcher.view), ["x"]);
}
