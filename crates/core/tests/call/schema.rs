//! The reply schema that a server is asked to enforce (CALL-1, CALL-4).

use dirigent_core::agent_spec::AnswerForm;
use dirigent_core::call::reply_schema;
use dirigent_core::plan::plan_schema;
use dirigent_core::submission::submission_tool;
use dirigent_core::tool::{Access, Repeat, ToolCategory, ToolSpec};
use serde_json::{Value, json};

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

fn look() -> ToolSpec {
    tool(
        "look",
        json!({
            "type": "object",
            "properties": {"path": {"type": "string", "description": "Which file.", "minLength": 1}},
            "required": ["path"],
            "additionalProperties": false
        }),
    )
}

fn allows(schema: &Value, reply: Value) -> bool {
    jsonschema::options()
        .offline()
        .build(schema)
        .unwrap()
        .is_valid(&reply)
}

#[test]
fn call_4_a_reply_is_a_call_of_a_tool_or_an_answer() {
    let schema = reply_schema(&[look(), tool("stop", json!({"type": "object"}))], true);
    insta::assert_snapshot!(serde_json::to_string_pretty(&schema).unwrap(), @r##"
    {
      "anyOf": [
        {
          "type": "object",
          "required": [
            "tool",
            "parameters",
            "terminate"
          ],
          "properties": {
            "tool": {
              "type": "string",
              "const": "look"
            },
            "parameters": {
              "type": "object",
              "required": [
                "path"
              ],
              "properties": {
                "path": {
                  "type": "string"
                }
              },
              "additionalProperties": false
            },
            "terminate": {
              "type": "boolean"
            }
          },
          "additionalProperties": false
        },
        {
          "type": "object",
          "required": [
            "tool",
            "parameters",
            "terminate"
          ],
          "properties": {
            "tool": {
              "type": "string",
              "const": "stop"
            },
            "parameters": {
              "type": "object"
            },
            "terminate": {
              "type": "boolean"
            }
          },
          "additionalProperties": false
        },
        {
          "type": "object",
          "required": [
            "answer"
          ],
          "properties": {
            "answer": {
              "type": "string"
            }
          },
          "additionalProperties": false
        }
      ]
    }
    "##);
    for (reply, is_allowed) in [
        (
            json!({"tool": "look", "parameters": {"path": "a"}, "terminate": false}),
            true,
        ),
        (json!({"tool": "stop", "parameters": {}, "terminate": true}), true),
        (json!({"answer": "Done."}), true),
        (
            json!({"tool": "look", "parameters": {}, "terminate": false}),
            false,
        ),
        (json!({"tool": "look", "parameters": {"path": "a"}}), false),
        (
            json!({"tool": "look", "parameters": {"path": "a"}, "terminate": "false"}),
            false,
        ),
        (
            json!({"tool": "walk", "parameters": {}, "terminate": false}),
            false,
        ),
        (json!({"answer": 1}), false),
        (json!({"answer": "Done.", "tool": "look"}), false),
    ] {
        assert_eq!(allows(&schema, reply.clone()), is_allowed, "{reply}");
    }
}

#[test]
fn call_4_without_text_answers_the_reply_schema_has_no_answer() {
    let schema = reply_schema(&[look(), tool("stop", json!({"type": "object"}))], false);
    assert!(!allows(&schema, json!({"answer": "Done."})));
    assert!(allows(
        &schema,
        json!({"tool": "stop", "parameters": {}, "terminate": true})
    ));
}

#[test]
fn call_4_a_reply_schema_with_one_alternative_has_no_any_of() {
    let answer = json!({
        "type": "object", "required": ["answer"], "properties": {"answer": {"type": "string"}}, "additionalProperties": false
    });
    assert_eq!(reply_schema(&[], true), answer);
    assert_eq!(reply_schema(&[], false), answer);
    let reflection = submission_tool(AnswerForm::Reflection).unwrap();
    assert_eq!(reply_schema(&[reflection], false)["type"], "object");
}

#[test]
fn call_4_the_reply_schema_accepts_a_plan() {
    let submit_plan = submission_tool(AnswerForm::Plan).unwrap();
    let example = submit_plan.example.clone();
    assert_eq!(submit_plan.parameters, plan_schema());
    let schema = reply_schema(&[look(), submit_plan], true);
    let call =
        |parameters: Value| json!({"tool": "submit_plan", "parameters": parameters, "terminate": true});
    assert!(allows(&schema, call(example)));
    assert!(!allows(&schema, call(json!({"summary": "No sub-tasks."}))));
}

/// A schema with its own definitions, one of which is recursive.
fn tree(leaf: &str) -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {"root": {"$ref": "#/$defs/Node"}, "again": {"$ref": "#"}},
        "required": ["root"],
        "additionalProperties": false,
        "$defs": {
            "Node": {
                "type": "object",
                "properties": {
                    "leaf": {"$ref": "#/$defs/Leaf~1of%20tree"},
                    "children": {"type": "array", "items": {"$ref": "#/$defs/Node"}}
                },
                "required": ["leaf"],
                "additionalProperties": false
            },
            "Leaf/of tree": {"type": leaf}
        }
    })
}

#[test]
fn call_4_schema_definitions_move_to_the_top_level_and_do_not_clash() {
    let tools = [
        tool("grow", tree("string")),
        tool("cut", tree("integer")),
        tool("grow.", tree("boolean")),
    ];
    let schema = reply_schema(&tools, true);
    let names: Vec<&String> = schema["$defs"].as_object().unwrap().keys().collect();
    assert_eq!(
        names,
        [
            "grow_Node",
            "grow_Leaf_of_tree",
            "cut_Node",
            "cut_Leaf_of_tree",
            "grow__Node",
            "grow__Leaf_of_tree"
        ]
    );
    let call = |tool: &str, leaf: Value| {
        let root = json!({"leaf": leaf, "children": [{"leaf": leaf}]});
        json!({"tool": tool, "parameters": {"root": root, "again": {"root": {"leaf": leaf}}}, "terminate": false})
    };
    for (tool, right, wrong) in [
        ("grow", json!("a"), json!(1)),
        ("cut", json!(1), json!("a")),
        ("grow.", json!(true), json!(1)),
    ] {
        assert!(allows(&schema, call(tool, right)), "{tool}");
        assert!(!allows(&schema, call(tool, wrong)), "{tool}");
    }
    // In the schema of a single tool, the definitions have another path.
    let alone = reply_schema(&[tool("grow", tree("string"))], false);
    assert!(allows(&alone, call("grow", json!("a"))));
    assert!(!allows(&alone, call("grow", json!(1))));
}

#[test]
fn call_4_definitions_with_the_same_new_name_stay_distinct() {
    let parameters = |name: &str, of: &str| {
        json!({
            "type": "object",
            "properties": {"x": {"$ref": format!("#/$defs/{name}")}},
            "required": ["x"],
            "$defs": {name: {"type": of}}
        })
    };
    let tools = [
        tool("a", parameters("b_c", "string")),
        tool("a_b", parameters("c", "integer")),
    ];
    let schema = reply_schema(&tools, false);
    let call = |tool: &str, x: Value| json!({"tool": tool, "parameters": {"x": x}, "terminate": false});
    assert!(allows(&schema, call("a", json!("x"))) && !allows(&schema, call("a", json!(1))));
    assert!(allows(&schema, call("a_b", json!(1))) && !allows(&schema, call("a_b", json!("x"))));
}

/// Keywords that some servers do not support are left out; everything that the original schema allowed is still allowed.
#[test]
fn call_4_a_tools_schema_is_reduced_to_common_keywords() {
    let parameters = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "https://example.com/tool",
        "title": "Parameters",
        "type": "object",
        "properties": {
            "count": {"type": ["integer", "null"], "format": "uint32", "minimum": 0, "default": {"$ref": "#/nowhere"}},
            "glob": {"type": "string", "pattern": "\\*"},
            "mode": {"description": "How.", "oneOf": [{"const": "text"}, {"enum": ["regex", "word"]}]},
            "any": true,
            "anything": {"description": "Whatever."},
            "described": {"allOf": [{"$ref": "#/definitions/Inner"}], "description": "Inner."},
            "pair": {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "items": false},
            "map": {"type": "object", "additionalProperties": {"type": "string", "maxLength": 3}},
            "merged": {"allOf": [{"type": "object", "properties": {"a": {}}}, {"type": "object"}]},
            "flat": {"type": "object", "properties": {"a": {"type": "string"}}, "oneOf": [{"properties": {"b": {"const": 1}}, "required": ["b"]}]},
            "either": {"type": "object", "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
            "$ref": {"type": "string"},
            "deep": {"$ref": "#/properties/glob"}
        },
        "required": ["glob"],
        "additionalProperties": false,
        "minProperties": 1,
        "not": {"required": ["never"]},
        "definitions": {"Inner": {"type": "object", "properties": {"x": {"type": "number", "maximum": 1}}}}
    });
    let schema = reply_schema(&[tool("search", parameters.clone())], false);
    insta::assert_snapshot!(serde_json::to_string_pretty(&schema["properties"]["parameters"]).unwrap(), @r##"
    {
      "type": "object",
      "required": [
        "glob"
      ],
      "properties": {
        "count": {
          "type": [
            "integer",
            "null"
          ]
        },
        "glob": {
          "type": "string"
        },
        "mode": {
          "anyOf": [
            {
              "const": "text"
            },
            {
              "enum": [
                "regex",
                "word"
              ]
            }
          ]
        },
        "any": {
          "type": [
            "object",
            "array",
            "string",
            "number",
            "boolean",
            "null"
          ]
        },
        "anything": {
          "type": [
            "object",
            "array",
            "string",
            "number",
            "boolean",
            "null"
          ]
        },
        "described": {
          "$ref": "#/$defs/search_Inner"
        },
        "pair": {
          "type": "array"
        },
        "map": {
          "type": "object",
          "additionalProperties": {
            "type": "string"
          }
        },
        "merged": {
          "type": [
            "object",
            "array",
            "string",
            "number",
            "boolean",
            "null"
          ]
        },
        "flat": {
          "type": "object",
          "properties": {
            "a": {
              "type": "string"
            }
          },
          "additionalProperties": true
        },
        "either": {
          "type": "object"
        },
        "$ref": {
          "type": "string"
        },
        "deep": {
          "type": [
            "object",
            "array",
            "string",
            "number",
            "boolean",
            "null"
          ]
        }
      },
      "additionalProperties": false
    }
    "##);
    insta::assert_snapshot!(schema["$defs"], @r##"{"search_Inner":{"type":"object","properties":{"x":{"type":"number"}}}}"##);
    let given = json!({
        "count": null, "glob": "*.rs", "mode": "word", "any": [1], "anything": "x", "described": {"x": 0.5},
        "pair": ["a", 1], "map": {"k": "v"}, "merged": {"a": 1}, "flat": {"a": "x", "b": 1}, "either": {"a": 1}, "$ref": "x", "deep": "*"
    });
    assert!(allows(&parameters, given.clone()));
    assert!(allows(
        &schema,
        json!({"tool": "search", "parameters": given, "terminate": false})
    ));
}

#[test]
fn call_4_parameters_are_an_object_whatever_the_schema_says() {
    for parameters in [json!(true), json!({}), json!({"type": "string"}), json!(null)] {
        let schema = reply_schema(&[tool("odd", parameters.clone())], false);
        assert_eq!(
            schema["properties"]["parameters"],
            json!({"type": "object"}),
            "{parameters}"
        );
    }
}

#[test]
fn call_4_the_reply_schema_allows_pattern_properties_and_empty_alternatives() {
    let patterned = |schema: Value| {
        let mut schema = schema;
        schema["type"] = json!("object");
        schema["additionalProperties"] = json!(false);
        schema["patternProperties"] = json!({"^x-": {"type": "string"}});
        tool("a", schema)
    };
    for tool in [
        patterned(json!({})),
        patterned(json!({"properties": {"path": {"type": "string"}}})),
        patterned(json!({"properties": {}, "required": []})),
        tool("a", json!({"type": "object", "anyOf": []})),
        tool("a", json!({"type": "object", "oneOf": []})),
        tool(
            "a",
            json!({"type": "object", "properties": {"x-a": {"anyOf": [], "type": "string"}}}),
        ),
    ] {
        let schema = reply_schema(std::slice::from_ref(&tool), false);
        let call = json!({"tool": "a", "parameters": {"x-a": "b"}, "terminate": false});
        assert!(allows(&schema, call), "{schema}");
    }
}
