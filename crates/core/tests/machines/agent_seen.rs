//! What an agent has seen of files, so that its tools can detect changes by others (PAOR-5).

use dirigent_core::agent::{Agent, AgentInput};
use dirigent_core::machine::Machine;
use dirigent_core::tool::{SeenFile, SeenFiles, ToolResult};
use serde_json::json;

use crate::fixture::{agent_resumed, at, implementer, replied, says_call, tool_ended};

fn saw(path: &str, digest: Option<&str>) -> SeenFile {
    SeenFile {
        path: path.to_owned(),
        digest: digest.map(str::to_owned),
        unseen_from: None,
    }
}

#[test]
fn paor_5_an_agents_read_state_of_files_survives_a_restart() {
    let looked = ToolResult::success(json!("a")).with_seen(vec![saw("a", Some("1")), saw("b", Some("2"))]);
    let refused = ToolResult::failure("`a` has changed").with_seen(vec![saw("a", Some("3"))]);
    let moved = ToolResult::success(json!("b")).with_seen(vec![saw("b", None), saw("c", Some("2"))]);
    let mut agent = implementer();
    let brief = agent.brief().clone();
    let mut inputs = Vec::new();
    for (turn, result) in [looked, refused, moved].into_iter().enumerate() {
        let (asked, called) = (format!("a7.{}", 2 * turn + 1), format!("a7.{}", 2 * turn + 2));
        inputs.push(replied(&asked, says_call("look", json!({"path": "a"}), false)));
        inputs.push(tool_ended(&called, result));
    }
    for input in &inputs {
        agent.handle(at(0), input.clone()).unwrap();
    }

    let known = [("a", Some("3")), ("b", None), ("c", Some("2"))];
    let known: SeenFiles = known
        .into_iter()
        .map(|(path, digest)| (path.to_owned(), saw(path, digest)))
        .collect();
    assert_eq!(**agent.seen(), known);

    let journaled = serde_json::to_string(&inputs).unwrap();
    let (mut again, _) = Agent::start(at(0), agent.run_spec().clone(), brief).unwrap();
    for input in serde_json::from_str::<Vec<AgentInput>>(&journaled).unwrap() {
        again.handle(at(0), input).unwrap();
    }
    again.handle(at(0), agent_resumed()).unwrap();
    assert_eq!(**again.seen(), known);
}
