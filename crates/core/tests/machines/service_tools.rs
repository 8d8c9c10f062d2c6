//! Tools of services: a lead reads their schemas by `describe_tool` and calls them by `call_tool` (MCP-4).

use std::sync::Arc;

use dirigent_core::agent::{Agent, AgentInput};
use dirigent_core::brief::AgentRole;
use dirigent_core::call::CallForm;
use dirigent_core::message::Message;
use dirigent_core::policy::{Policy, Ruling};
use dirigent_core::run::RunInput;
use dirigent_core::spec::{AskedService, RunSpec};
use dirigent_core::tool::{Repeat, ToolCategory, ToolSpec};
use dirigent_core::tools_change::ToolsChange;
use serde_json::{Map, Value, json};

use crate::approvals::of_agents::not_taken;
use crate::approvals::{rule, run_waiting, tell};
use crate::driver::give;
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

const LIST: &str = "mcp__github__list_issues";

/// The service loses the tool `ISSUE`, and gets the tool `LIST`.
fn replaced(number: u32) -> AgentInput {
    let change = change_of_tools();
    AgentInput::ToolsChanged { number, change }
}

fn change_of_tools() -> Arc<ToolsChange> {
    Arc::new(ToolsChange {
        service: "github".to_owned(),
        added: vec![service_tool(LIST, Repeat::Safe)],
        removed: vec![ISSUE.to_owned()],
        changed: Vec::new(),
    })
}

/// A run whose goal asks for the service.
fn asked_for(form: CallForm) -> RunSpec {
    let mut spec = with_service(form);
    spec.services = vec![AskedService {
        name: "github".to_owned(),
        description: String::new(),
        tools: vec![ISSUE.to_owned()],
        problem: None,
        is_from_earlier_turn: false,
    }];
    spec
}

#[test]
fn mcp_2_the_next_request_of_a_lead_that_was_told_of_a_service_says_how_its_tools_changed() {
    let mut agent = lead(asked_for(CallForm::Native));
    let offered = agent.offered().clone();
    assert_eq!(tell(&mut agent, 10, replaced(1)), Vec::<String>::new());
    let asked = native(vec![call("c", "call_tool", by_name(json!({"path": "x"})))]);
    tell(&mut agent, 20, replied("a7.1", asked));
    let [.., result, notice] = &agent.conversation()[..] else {
        panic!("{:?}", agent.conversation());
    };
    assert_eq!(
        notice.content(),
        "The tools of the service github have changed.\nNew tools:\n- mcp__github__list_issues: Creates an issue.\n\
         Tools that no longer exist:\n- mcp__github__create_issue"
    );
    let error = result_parts(result)["error"].as_str().unwrap().to_owned();
    assert_eq!(
        error,
        "the service `github` no longer has the tool `mcp__github__create_issue`: use another one"
    );

    let described = native(vec![call("d", "describe_tool", json!({"name": ISSUE}))]);
    tell(&mut agent, 30, replied("a7.2", described));
    assert!(
        last_result(&agent)["error"]
            .as_str()
            .unwrap()
            .contains("no longer has")
    );
    let parameters = json!({"name": LIST, "arguments": {"path": "x"}});
    let commands = tell(
        &mut agent,
        40,
        replied("a7.3", native(vec![call("e", "call_tool", parameters)])),
    );
    assert!(commands.last().unwrap().contains(LIST), "{commands:?}");
    assert_eq!(
        agent.offered(),
        &offered,
        "the declared tools stay a fixed prefix"
    );
}

#[test]
fn mcp_2_an_agent_takes_each_change_of_tools_once_and_in_order() {
    let mut agent = lead(asked_for(CallForm::Native));
    let early = not_taken(&mut agent, 10, replaced(2));
    assert!(early.contains("a change of a service's tools"), "{early}");
    tell(&mut agent, 10, replaced(1));
    not_taken(&mut agent, 20, replaced(1));
}

#[test]
fn mcp_4_a_lead_that_was_told_of_no_service_hears_nothing_of_its_changes() {
    let mut agent = lead(with_service(CallForm::Native));
    tell(&mut agent, 10, replaced(1));
    let asked = native(vec![call("l", "look", json!({"path": "x"}))]);
    tell(&mut agent, 20, replied("a7.1", asked));
    let all = serde_json::to_string(agent.conversation()).unwrap();
    assert!(!all.contains("github"), "{all}");
}

#[test]
fn mcp_2_a_sub_agent_is_told_the_new_parameters_of_its_tool_and_calls_are_checked_by_them() {
    let mut spec = with_service(CallForm::Json);
    spec.setup.agents[1].tools.push(ISSUE.to_owned());
    let mut agent = started(spec, AgentRole::Sub("implement".to_owned()));
    let changed = ToolSpec {
        description: "Files a report.".to_owned(),
        parameters: json!({"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]}),
        ..service_tool(ISSUE, Repeat::Unsafe)
    };
    let change = Arc::new(ToolsChange {
        service: "github".to_owned(),
        added: vec![service_tool(LIST, Repeat::Safe)],
        removed: Vec::new(),
        changed: vec![changed],
    });
    tell(&mut agent, 10, AgentInput::ToolsChanged { number: 1, change });
    let old = says_call(ISSUE, json!({"path": "x"}), false);
    assert_eq!(tell(&mut agent, 20, replied("a7.1", old)), ["ask a7.2"]);
    let notice = agent.conversation().last().unwrap().content().to_owned();
    assert!(
        notice.contains("- mcp__github__create_issue: Files a report. "),
        "{notice}"
    );
    assert!(notice.contains("title"), "{notice}");
    assert!(!notice.contains(LIST), "the agent has no such tool: {notice}");
    let new = says_call(ISSUE, json!({"title": "x"}), false);
    let commands = tell(&mut agent, 30, replied("a7.2", new));
    assert!(commands[0].starts_with("run a7.3"), "{commands:?}");
}

#[test]
fn mcp_2_a_change_of_tools_reaches_the_agents_of_a_run_and_those_that_start_later() {
    let mut run = run_waiting();
    let change = RunInput::ToolsChanged {
        change: change_of_tools(),
    };
    assert_eq!(give(&mut run, 10, change), ["change tools a2 1. github"]);
    assert!(run.tools().iter().any(|tool| tool.name == LIST));
    let resumed = give(&mut run, 20, crate::fixture::resumed());
    let start = resumed
        .iter()
        .position(|line| line == "start run.3+1 a2 implement");
    assert_eq!(
        resumed[start.unwrap() + 1],
        "change tools a2 1. github",
        "{resumed:?}"
    );
}
