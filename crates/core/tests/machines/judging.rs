//! What a judgement says of changed files is checked against what was observed (PAOR-10).

use std::sync::Arc;

use dirigent_core::agent::Agent;
use dirigent_core::brief::{AgentBrief, AgentRole};
use dirigent_core::id::AgentId;
use dirigent_core::machine::Machine;
use dirigent_core::tool::{StateChange, ToolResult};
use serde_json::{Value, json};

use crate::driver::{acting, brief_of, ended, give};
use crate::fixture::{agent_outline, at, replied, says_call, spec};

/// A reflector whose run has changed those files; none where it does not know.
fn reflector(changed: Option<&[&str]>) -> Agent {
    let spec = Arc::new(spec());
    let brief = AgentBrief {
        agent: AgentId(7),
        role: AgentRole::Reflector,
        task: "Judge.".to_owned(),
        agents_left: None,
        guidance: None,
        depth: 0,
        caller: None,
        changed: changed.map(|changed| changed.iter().map(|path| (*path).to_owned()).collect()),
    };
    Agent::start(at(0), spec, brief).unwrap().0
}

fn judges(agent: &mut Agent, changed_files: Value) -> Vec<String> {
    let mut parameters = json!({"verdict": "achieved", "summary": "Renamed."});
    if !changed_files.is_null() {
        parameters["changed_files"] = changed_files;
    }
    let reply = replied("a7.1", says_call("submit_reflection", parameters, true));
    agent_outline(&agent.handle(at(10), reply).unwrap())
}

#[test]
fn paor_10_a_judgement_that_names_the_changed_files_is_accepted() {
    for named in [json!(["src/a.rs", "src/b.rs"]), json!(["src/b.rs", "./src/a.rs"])] {
        let mut agent = reflector(Some(&["src/a.rs", "src/b.rs"]));
        assert_eq!(judges(&mut agent, named), ["finish with Achieved: Renamed."]);
    }
}

#[test]
fn paor_10_a_judgement_that_names_others_goes_back_with_every_one_of_them() {
    let mut agent = reflector(Some(&["src/a.rs", "src/b.rs"]));
    assert_eq!(
        judges(&mut agent, json!(["src/a.rs", "src/c.rs", "README.md"])),
        ["ask a7.2"]
    );
    let told = agent.conversation().last().unwrap().content();
    for fault in [
        "`src/c.rs` did not change",
        "`README.md` did not change",
        "`src/b.rs` changed but is missing",
    ] {
        assert!(told.contains(fault), "{told}");
    }
    assert!(!told.contains("src/a.rs"), "{told}");
}

#[test]
fn paor_10_a_judgement_that_names_no_files_goes_back_where_some_have_changed() {
    let mut agent = reflector(Some(&["src/a.rs"]));
    assert_eq!(judges(&mut agent, Value::Null), ["ask a7.2"]);
    let told = agent.conversation().last().unwrap().content();
    assert!(told.contains("`achieved` requires `changed_files`"), "{told}");

    let paths: Vec<String> = (0..51).map(|number| format!("src/{number}.rs")).collect();
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    let many: Option<&[&str]> = Some(&paths);
    for changed in [None, Some(&[][..]), many] {
        let mut agent = reflector(changed);
        assert_eq!(
            judges(&mut agent, Value::Null),
            ["finish with Achieved: Renamed."]
        );
    }
    assert_eq!(
        judges(&mut reflector(Some(&paths[..50])), Value::Null),
        ["ask a7.2"]
    );
}

#[test]
fn paor_10_nothing_is_checked_where_it_is_not_known_what_changed() {
    let mut agent = reflector(None);
    assert_eq!(
        judges(&mut agent, json!(["src/a.rs"])),
        ["finish with Achieved: Renamed."]
    );
}

#[test]
fn paor_10_a_strange_name_is_named_as_the_judge_reads_it() {
    let mut agent = reflector(Some(&["a\nb.rs", "<GOAL>.md"]));
    assert_eq!(
        judges(&mut agent, json!(["a b.rs", r"\u003cGOAL>.md"])),
        ["finish with Achieved: Renamed."]
    );
}

#[test]
fn paor_10_the_reflector_is_given_what_the_run_has_changed() {
    let one = json!({"summary": "s", "subtasks": [
        {"id": "p", "title": "P", "calls": [{"tool": "change", "parameters": {"path": "x"}}]}
    ]});
    let (mut run, _) = acting(spec(), &one);
    let changed = StateChange::FileEdited {
        after: None,
        before: None,
        path: "src/a.rs".to_owned(),
        diff: None,
    };
    give(
        &mut run,
        10,
        ended(
            "run.2",
            ToolResult::success(Value::Null).with_changes(vec![changed]),
        ),
    );
    assert_eq!(brief_of(&run, "run.3").changed, Some(vec!["src/a.rs".to_owned()]));
}
