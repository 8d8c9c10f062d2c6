//! Tools of services: a lead reads their schemas by `describe_tool` and calls them by `call_tool` (MCP-4).

use dirigent_core::agent::Agent;
use dirigent_core::brief::AgentRole;
use dirigent_core::call::CallForm;
use dirigent_core::message::Message;
use dirigent_core::policy::{Policy, Ruling};
use dirigent_core::spec::RunSpec;
use dirigent_core::tool::{Repeat, ToolCategory, ToolSpec};
use serde_json::{Map, Value, json};

use crate::approvals::{rule, tell};
use crate::fixture::{call, native, replied, result_parts, says_call, spec, started, tool};

const ISSUE: &str = "mcp__github__create_issue";

fn service_tool(name: &str, repeat: Repeat) -> ToolSpec {
    ToolSpec {
        category: ToolCategory::Service,
        ..tool(name, "Creates an issue. Needs the right to write.", repeat)
    }
}

/// A run with the tool of a service, whose lead calls it by name.
fn with_service(calls: CallForm) -> RunSpec {
    let mut spec = spec();
    let setup = &mut spec.setup;
    setup.tools.push(service_tool(ISSUE, Repeat::Unsafe));
    setup
        .lead
        .tools
        .extend(["call_tool", "describe_tool"].map(str::to_owned));
    setup.lead.profile.calls = calls;
    spec
}

fn lead(spec: RunSpec) -> Agent {
    started(spec, AgentRole::Lead)
}

fn last_result(agent: &Agent) -> Value {
    result_parts(agent.conversation().last().unwrap())
}

fn by_name(arguments: Value) -> Value {
    json!({"name": ISSUE, "arguments": arguments})
}

#[test]
fn mcp_4_no_request_names_a_tool_of_a_service() {
    let agent = lead(with_service(CallForm::Native));
    let offered: Vec<&str> = agent.offered().iter().map(|tool| tool.name.as_str()).collect();
    assert!(offered.contains(&"call_tool") && offered.contains(&"describe_tool"));
    assert!(!offered.contains(&ISSUE));
    let request = serde_json::to_string(agent.request()).unwrap();
    assert!(!request.contains(ISSUE), "{request}");
}

#[test]
fn mcp_4_a_tool_is_described_with_its_whole_schema() {
    let mut agent = lead(with_service(CallForm::Native));
    let asked = native(vec![call("d", "describe_tool", json!({"name": ISSUE}))]);
    assert_eq!(tell(&mut agent, 10, replied("a7.1", asked)), ["ask a7.2"]);
    let output = &last_result(&agent)["output"];
    let output: Value = match output {
        Value::String(text) => serde_json::from_str(text).unwrap(),
        other => other.clone(),
    };
    assert_eq!(output["name"], ISSUE);
    assert_eq!(output["parameters"]["required"], json!(["path"]));
}

#[test]
fn mcp_4_a_long_schema_is_shown_whole() {
    let mut spec = with_service(CallForm::Native);
    let fields = (0..500).map(|number| {
        let field = json!({"type": "string", "description": "One of many."});
        (format!("field_{number}"), field)
    });
    let properties: Map<String, Value> = fields.collect();
    spec.setup.tools.last_mut().unwrap().parameters = json!({"type": "object", "properties": properties});
    let mut agent = lead(spec);
    let asked = native(vec![call("d", "describe_tool", json!({"name": ISSUE}))]);
    tell(&mut agent, 10, replied("a7.1", asked));
    let shown = agent.conversation().last().unwrap().content();
    assert!(shown.len() > 20_000);
    for field in ["field_0", "field_250", "field_499"] {
        assert!(shown.contains(field), "{field}");
    }
}

#[test]
fn mcp_4_an_unknown_tool_is_refused_with_the_nearest_name() {
    let mut agent = lead(with_service(CallForm::Native));
    let asked = native(vec![
        call("d", "describe_tool", json!({"name": "mcp__github__create_isue"})),
        call("c", "call_tool", json!({"name": "create_issue"})),
    ]);
    assert_eq!(tell(&mut agent, 10, replied("a7.1", asked)), ["ask a7.2"]);
    let results: Vec<&Message> = agent.conversation().iter().rev().take(2).collect();
    for result in results {
        let error = result_parts(result)["error"].as_str().unwrap().to_owned();
        assert!(error.contains(ISSUE), "{error}");
    }
}

#[test]
fn mcp_4_a_call_by_name_is_a_call_of_the_named_tool() {
    for form in [CallForm::Native, CallForm::Json] {
        let mut agent = lead(with_service(form));
        let parameters = by_name(json!({"path": "x"}));
        let reply = match form {
            CallForm::Native => native(vec![call("c", "call_tool", parameters)]),
            _ => says_call("call_tool", parameters, false),
        };
        let commands = tell(&mut agent, 10, replied("a7.1", reply));
        assert_eq!(commands.len(), 2, "{commands:?}");
        assert_eq!(commands[0], "begin to act");
        assert!(
            commands[1].contains(&format!("{ISSUE} {{\"path\":\"x\"}}")),
            "{commands:?}"
        );
    }
}

#[test]
fn mcp_4_the_named_tools_parameters_are_checked() {
    let mut agent = lead(with_service(CallForm::Native));
    let reply = native(vec![call("c", "call_tool", by_name(json!({"file": "x"})))]);
    assert_eq!(tell(&mut agent, 10, replied("a7.1", reply)), ["ask a7.2"]);
    let result = last_result(&agent);
    let error = result["error"].as_str().unwrap();
    assert!(
        error.contains(ISSUE) && error.contains("`parameters.path` is missing"),
        "{error}"
    );
    // The provider needs the name that the model called.
    let Some(Message::Tool { name, .. }) = agent.conversation().last() else {
        panic!("{:?}", agent.conversation());
    };
    assert_eq!(name, "call_tool");
}

#[test]
fn mcp_4_rules_apply_to_the_named_tool_however_it_is_called() {
    for (ruling, shown) in [(Ruling::Ask, "ask to approve"), (Ruling::Deny, "ask a7.2")] {
        for (tool, parameters) in [
            ("call_tool", by_name(json!({"path": "x"}))),
            (ISSUE, json!({"path": "x"})),
        ] {
            let mut spec = with_service(CallForm::Json);
            spec.setup.policy = Policy {
                rules: vec![rule(ruling, ISSUE)],
            };
            let mut agent = lead(spec);
            let commands = tell(
                &mut agent,
                10,
                replied("a7.1", says_call(tool, parameters, false)),
            );
            assert!(
                commands.iter().any(|command| command.starts_with(shown)),
                "{commands:?}"
            );
            assert!(
                !commands.iter().any(|command| command.starts_with("run")),
                "{commands:?}"
            );
        }
    }
}

#[test]
fn mcp_4_an_agent_without_call_tool_calls_no_tool_of_a_service() {
    let mut agent = started(
        with_service(CallForm::Json),
        AgentRole::Sub("implement".to_owned()),
    );
    let reply = says_call(ISSUE, json!({"path": "x"}), false);
    assert_eq!(tell(&mut agent, 10, replied("a7.1", reply)), ["ask a7.2"]);
    assert!(
        last_result(&agent)["error"]
            .as_str()
            .unwrap()
            .contains("may not call")
    );
}

#[test]
fn mcp_4_a_sub_agent_that_names_a_tool_has_it_like_any_other() {
    let mut spec = with_service(CallForm::Json);
    spec.setup.agents[1].tools.push(ISSUE.to_owned());
    let mut agent = started(spec, AgentRole::Sub("implement".to_owned()));
    assert!(agent.offered().iter().any(|tool| tool.name == ISSUE));
    let reply = says_call(ISSUE, json!({"path": "x"}), false);
    let commands = tell(&mut agent, 10, replied("a7.1", reply));
    assert!(commands[0].starts_with("run a7.2"), "{commands:?}");
}
