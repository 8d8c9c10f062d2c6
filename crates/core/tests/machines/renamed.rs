//! The run of the report tests: `a` is renamed to `b` in two files, then tested.

use dirigent_core::agent_report::{AgentAnswer, CallSummary};
use dirigent_core::confirmation::Outdated;
use dirigent_core::run::Run;
use dirigent_core::time::Millis;
use dirigent_core::tool::{StateChange, ToolResult};
use serde_json::{Value, json};

use crate::driver::{acting, agent_ended, ended, give};
use crate::fixture::{effect, ended_with, reflection, spec};

pub fn edited(path: &str) -> StateChange {
    StateChange::FileEdited {
        after: None,
        before: None,
        path: path.to_owned(),
        diff: Some(format!("--- {path}\n+++ {path}\n@@ -1 +1 @@\n-a\n+b\n")),
    }
}

pub fn exited(command: &str, code: i32) -> StateChange {
    StateChange::ProcessExited {
        command: command.to_owned(),
        code: Some(code),
        files: Vec::new(),
    }
}

pub fn rename() -> Value {
    let change = json!({"tool": "change", "parameters": {"path": "src/main.rs"}});
    let look = json!({"tool": "look", "parameters": {"path": "src"}});
    json!({"summary": "Rename, then test.", "subtasks": [
        {"id": "lib", "title": "Rename in the library", "agent": "implement", "task": "t"},
        {"id": "main", "title": "Rename in the program", "calls": [change]},
        {"id": "test", "title": "Run the tests", "depends_on": ["lib", "main"], "calls": [look]}
    ]})
}

/// The library and the program are renamed; the tests are `run.4`.
pub fn renamed() -> Run {
    let (mut run, _) = acting(spec(), &rename());
    let mut report = ended_with(AgentAnswer::Text("Renamed `a` in src/lib.rs.".to_owned()));
    report.work.calls.push(CallSummary {
        outdates: Outdated::Nothing,
        shown_by_diff: false,
        effect: Some(effect("a2.2")),
        tool: "change".to_owned(),
        parameters: json!({"path": "src/lib.rs"}),
        success: true,
        duration: Millis(12),
        error: None,
        output: Value::Null,
        agent: None,
    });
    report.work.changes.push(edited("src/lib.rs"));
    give(&mut run, 1_000, agent_ended("run.2", report));
    let mut changed = ToolResult::success(json!("1 line")).with_changes(vec![edited("src/main.rs")]);
    changed.duration = Millis(8);
    give(&mut run, 2_000, ended("run.3", changed));
    run
}

/// The tests pass, and the reflector is `run.5`.
pub fn tested() -> Run {
    let mut run = renamed();
    let tested = ToolResult::success(json!("12 passed")).with_changes(vec![exited("cargo test", 0)]);
    give(&mut run, 63_500, ended("run.4", tested));
    run
}

pub fn achieved() -> Run {
    let mut run = tested();
    let judgement = json!({
        "verdict": "achieved",
        "summary": "Renamed `a` to `b` in two files; the tests pass.",
        "confirmed_by": [{"call": "run.4", "command": "cargo test", "exit_code": 0, "line": "12 passed"}]
    });
    let answer = AgentAnswer::Reflection(reflection(&judgement));
    give(&mut run, 65_000, agent_ended("run.5", ended_with(answer)));
    run
}
