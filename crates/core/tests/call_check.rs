//! Checks whether a call may run (CALL-6).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use dirigent_core::call::{CallError, ToolSet};
use dirigent_core::message::ToolCall;
use dirigent_core::tool::{Access, CallDemand, CallRule, ParameterValues, Repeat, ToolCategory, ToolSpec};
use serde_json::{Value, json};

fn call(tool: &str, parameters: Value) -> ToolCall {
    ToolCall {
        id: String::new(),
        tool: tool.to_owned(),
        parameters,
        terminate: false,
    }
}

fn tool(name: &str, parameters: Value) -> ToolSpec {
    ToolSpec {
        category: ToolCategory::Other,
        changes_where: None,
        read_only: None,
        name: name.to_owned(),
        description: "A tool.".to_owned(),
        parameters,
        repeat: Repeat::Safe,
        access: Access::ReadOnly,
        requires_approval: false,
        approval_where: None,
        rules: Vec::new(),
        example: Value::Null,
    }
}

fn tools() -> ToolSet {
    let search = json!({
        "type": "object",
        "properties": {
            "pattern": {"type": "string"},
            "path": {"type": "string"},
            "max_results": {"type": ["integer", "null"], "minimum": 1},
            "mode": {"enum": ["text", "regex"]},
            "globs": {"type": "array", "items": {"$ref": "#/$defs/glob"}},
            "context": {"anyOf": [{"type": "integer"}, {"$ref": "#/$defs/glob"}]}
        },
        "required": ["pattern"],
        "additionalProperties": false,
        "$defs": {"glob": {
            "type": "object",
            "properties": {"pattern": {"type": "string"}, "exclude": {"type": "boolean"}},
            "required": ["pattern"],
            "additionalProperties": false
        }}
    });
    ToolSet::new(vec![
        tool("search", search),
        tool("read_file", json!({"type": "object"})),
        tool("run_command", json!(true)),
        tool("broken", json!({"type": "no such type"})),
        tool("remote", json!({"$ref": "https://example.com/schema.json"})),
        tool("circular", json!({"$ref": "#"})),
    ])
}

/// The error for a call by an agent that may use only some tools.
fn refusal(name: &str, parameters: Value) -> String {
    let allowed = ["search", "read_file", "broken", "remote"].map(str::to_owned);
    tools()
        .check(&call(name, parameters), &allowed, Access::Execute)
        .expect_err(name)
        .to_string()
}

#[test]
fn call_6_a_call_that_matches_the_schema_may_run() {
    let tools = tools();
    let allowed = ["search".to_owned(), "read_file".to_owned()];
    let good = json!({"pattern": "a", "max_results": null, "mode": "regex", "globs": [{"pattern": "*.rs"}], "context": 3});
    assert_eq!(
        tools.check(&call("search", good.clone()), &allowed, Access::ReadOnly),
        Ok(good)
    );
    assert_eq!(
        tools.check(&call("read_file", json!({"any": 1})), &allowed, Access::ReadOnly),
        Ok(json!({"any": 1}))
    );
}

#[test]
fn call_6_an_optional_field_that_is_null_counts_as_left_out() {
    let (tools, allowed) = (tools(), ["search".to_owned()]);
    let submitted = json!({
        "pattern": "a", "path": null, "max_results": null, "mode": null,
        "globs": [{"pattern": "*.rs", "exclude": null}], "context": {"pattern": "b", "exclude": null}
    });
    let run_with = json!({
        "pattern": "a", "max_results": null, "globs": [{"pattern": "*.rs"}], "context": {"pattern": "b"}
    });
    assert_eq!(
        tools.check(&call("search", submitted), &allowed, Access::ReadOnly),
        Ok(run_with)
    );
    insta::assert_snapshot!(refusal("search", json!({"pattern": null, "path": null})), @"the parameters of `search` are wrong: `parameters.pattern` is required, but is null");
    insta::assert_snapshot!(refusal("search", json!({"pattern": "a", "globs": [null], "other": null})), @"the parameters of `search` are wrong: `parameters.globs[0]` must be of type object, but is null; `parameters.other` is unknown: the fields are `pattern`, `path`, `max_results`, `mode`, `globs` and `context`");
}

#[test]
fn call_6_the_error_for_a_value_that_is_not_allowed_suggests_the_nearest() {
    insta::assert_snapshot!(refusal("search", json!({"pattern": "a", "mode": "regx"})), @r#"the parameters of `search` are wrong: `parameters.mode` must be one of ["text","regex"]: did you mean `regex`?"#);
}

#[test]
fn call_6_the_error_for_an_unknown_tool_suggests_the_nearest() {
    insta::assert_snapshot!(refusal("serch", json!({})), @"there is no tool `serch` (did you mean `search`?): the tools are `search`, `read_file`, `broken` and `remote`");
    insta::assert_snapshot!(refusal("ReadFile", json!({})), @"there is no tool `ReadFile` (did you mean `read_file`?): the tools are `search`, `read_file`, `broken` and `remote`");
    insta::assert_snapshot!(refusal("delete_everything", json!({})), @"there is no tool `delete_everything`: the tools are `search`, `read_file`, `broken` and `remote`");
    // Other systems give these names to what `search` does.
    insta::assert_snapshot!(refusal("grep", json!({})), @"there is no tool `grep` (did you mean `search`?): the tools are `search`, `read_file`, `broken` and `remote`");
    // A tool that the agent may not call is not suggested.
    insta::assert_snapshot!(refusal("run_comand", json!({})), @"there is no tool `run_comand`: the tools are `search`, `read_file`, `broken` and `remote`");
    insta::assert_snapshot!(refusal(&"x\n".repeat(100), json!({})), @"there is no tool `x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x …`: the tools are `search`, `read_file`, `broken` and `remote`");
}

#[test]
fn call_6_a_tool_of_other_agents_exists_but_is_not_allowed() {
    insta::assert_snapshot!(refusal("run_command", json!({})), @"the tool `run_command` exists, but you may not call it: your tools are `search`, `read_file`, `broken` and `remote`");
    let fault = CallError::NotAllowed {
        tool: "search".to_owned(),
        allowed: Vec::new(),
    };
    assert_eq!(
        tools().check(&call("search", json!({})), &[], Access::ReadWrite),
        Err(fault)
    );
}

#[test]
fn call_6_every_problem_of_the_parameters_is_named_with_its_path() {
    let many = json!({
        "patern": 1, "path": 2, "max_results": 0, "mode": "fuzzy", "globs": [{"pattern": "a"}, {"exclud": true}, "x"]
    });
    insta::assert_snapshot!(refusal("search", many), @r#"the parameters of `search` are wrong: `parameters.path` must be of type string, but is a number; `parameters.max_results` is wrong: the value is less than the minimum of 1; `parameters.mode` must be one of ["text","regex"]; `parameters.globs[1].exclud` is unknown: did you mean `exclude`?; `parameters.globs[1].pattern` is missing; `parameters.globs[2]` must be of type object, but is a string; `parameters.patern` is unknown: did you mean `pattern`?; `parameters.pattern` is missing"#);
    insta::assert_snapshot!(refusal("search", json!({"pattern": "a", "max_results": "many", "odd field": 1})), @r#"the parameters of `search` are wrong: `parameters.max_results` must be of type null or integer, but is a string; `parameters["odd field"]` is unknown: the fields are `pattern`, `path`, `max_results`, `mode`, `globs` and `context`"#);
    insta::assert_snapshot!(refusal("search", json!({"pattern": "a", "context": {"pattern": 1}})), @"the parameters of `search` are wrong: `parameters.context` matches none of its allowed forms: `parameters.context` must be of type integer, but is an object, or `parameters.context.pattern` must be of type string, but is a number");
    insta::assert_snapshot!(refusal("search", json!("a")), @"the parameters of `search` are wrong: `parameters` must be an object, but is a string");
}

#[test]
fn call_6_with_an_invalid_schema_each_call_fails_without_a_panic() {
    insta::assert_snapshot!(refusal("broken", json!({})), @"the tool `broken` cannot be called, because the schema of its parameters is invalid: at `/type`, the value is not valid under any of the schemas listed in the 'anyOf' keyword. Use another tool");
    insta::assert_snapshot!(refusal("remote", json!({})), @"the tool `remote` cannot be called, because the schema of its parameters is invalid: Resource 'https://example.com/schema.json' is not present in a registry and retrieving it failed: Retrieval is disabled, cannot fetch https://example.com/schema.json. Use another tool");
    let tools = tools();
    let first = tools.check(
        &call("broken", json!({})),
        &["broken".to_owned()],
        Access::ReadOnly,
    );
    let second = tools.clone().check(
        &call("broken", json!({})),
        &["broken".to_owned()],
        Access::ReadOnly,
    );
    assert!(matches!(first, Err(CallError::InvalidSchema { .. })));
    assert_eq!(first, second);
}

#[test]
fn call_6_a_schema_that_refers_to_itself_ends() {
    let _ = tools().check(
        &call("circular", json!({})),
        &["circular".to_owned()],
        Access::ReadOnly,
    );
}

#[test]
fn the_first_of_several_tools_with_the_same_name_is_used() {
    let first = tool("a", json!({"type": "object"}));
    let tools = ToolSet::new(vec![tool("b", json!({})), first.clone(), tool("a", json!(false))]);
    assert_eq!(tools.get("a"), Some(&first));
    assert_eq!(tools.get("c"), None);
    assert_eq!(tools.specs().len(), 3);
    assert_eq!(tools.names().collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(
        tools.check(&call("a", json!({})), &["a".to_owned()], Access::ReadOnly),
        Ok(json!({}))
    );
}

#[test]
fn missing_access_is_reported_before_the_parameters_are_validated() {
    let deploy = ToolSpec {
        access: Access::ReadWrite,
        ..tool("deploy", json!({"type": "object", "required": ["to"]}))
    };
    let (tools, allowed) = (ToolSet::new(vec![deploy]), ["deploy".to_owned()]);
    let refused = |access, parameters| {
        let fault = tools
            .check(&call("deploy", parameters), &allowed, access)
            .unwrap_err();
        (fault.code(), fault.to_string())
    };
    let (code, text) = refused(Access::Execute, json!({}));
    assert_eq!(code, "access_denied");
    insta::assert_snapshot!(text, @"this call of `deploy` needs read-write access, but you have execute access: use other tools, or finish and report what you may not do");
    assert_eq!(refused(Access::ReadWrite, json!({})).0, "bad_parameters");

    // A tool can need more access for some of its calls.
    let query = ToolSpec {
        read_only: None,
        changes_where: Some(ParameterValues {
            parameter: "operation".to_owned(),
            values: vec!["change".to_owned()],
        }),
        ..tool("query", json!({"type": "object"}))
    };
    let some = ToolSet::new(vec![query]);
    let check = |operation: &str| {
        let call = call("query", json!({"operation": operation}));
        some.check(&call, &["query".to_owned()], Access::Execute)
            .map_err(|error| error.code())
    };
    assert_eq!(check("change"), Err("access_denied"));
    assert_eq!(check("read"), Ok(json!({"operation": "read"})));

    let good = call("deploy", json!({"to": "production"}));
    assert!(tools.check(&good, &allowed, Access::ReadWrite).is_ok());
}

#[test]
fn call_6_each_fault_has_a_code() {
    let code = |name: &str, parameters| {
        let allowed = ["search", "broken"].map(str::to_owned);
        let fault = tools().check(&call(name, parameters), &allowed, Access::ReadOnly);
        fault.unwrap_err().code()
    };
    assert_eq!(code("serch", json!({})), "unknown_tool");
    assert_eq!(code("run_command", json!({})), "access_denied");
    assert_eq!(code("search", json!({})), "bad_parameters");
    assert_eq!(code("broken", json!({})), "broke_down");
}

/// A tool whose `edit` needs `old`, whose default `query` needs `sql`, and which refuses `change` of `main`.
fn ruled() -> ToolSet {
    let when = |parameter: &str, values: &[&str]| ParameterValues {
        parameter: parameter.to_owned(),
        values: values.iter().map(|value| (*value).to_owned()).collect(),
    };
    let requires = |operation: &str, parameter: &str, or: Option<&str>| CallRule {
        calls: vec![when("operation", &[operation])],
        demand: CallDemand::Requires {
            parameter: parameter.to_owned(),
            or: or.map(str::to_owned),
            purpose: "what it is for".to_owned(),
        },
    };
    let refuses = CallRule {
        calls: vec![when("operation", &["change"]), when("connection", &["main"])],
        demand: CallDemand::Refuses {
            reason: "it is read-only".to_owned(),
        },
    };
    let parameters = json!({
        "type": "object",
        "properties": {"operation": {"type": "string", "default": "query"}, "limit": {"type": "integer"}},
    });
    ToolSet::new(vec![ToolSpec {
        rules: vec![
            requires("edit", "old", None),
            requires("move", "from", Some("path")),
            requires("query", "sql", None),
            refuses,
        ],
        ..tool("work", parameters)
    }])
}

#[test]
fn call_6_a_rule_of_a_tool_is_checked_with_its_schema() {
    let tools = ruled();
    let check = |parameters: Value| {
        let checked = tools.check(&call("work", parameters), &["work".to_owned()], Access::ReadWrite);
        checked.map_err(|error| (error.code(), error.to_string()))
    };
    for good in [
        json!({"operation": "edit", "old": ""}),
        json!({"operation": "move", "path": "a"}),
        json!({"sql": "SELECT 1"}),
        json!({"operation": "change", "connection": "other"}),
        json!({"operation": "read", "connection": "main"}),
    ] {
        assert_eq!(check(good.clone()), Ok(good));
    }
    let problem = |name: &str| format!("`parameters.{name}` is missing: what it is for");
    let wrong = |problems: String| {
        Err((
            "bad_parameters",
            format!("the parameters of `work` are wrong: {problems}"),
        ))
    };
    assert_eq!(check(json!({"operation": "move"})), wrong(problem("from")));
    assert_eq!(check(json!({})), wrong(problem("sql")));
    assert_eq!(
        check(json!({"operation": null, "sql": null})),
        wrong(problem("sql"))
    );
    // The problems with the schema and with the rules are told at once.
    let limit = "`parameters.limit` must be of type integer, but is a string";
    assert_eq!(
        check(json!({"operation": "edit", "limit": "x"})),
        wrong(format!("{limit}; {}", problem("old")))
    );
    assert_eq!(
        check(json!({"operation": "change", "connection": "main"})),
        Err((
            "access_denied",
            "this call of `work` is refused: it is read-only".to_owned()
        ))
    );
}
