//! The tools `submit_plan` and `submit_reflection`, with which the lead submits a plan and the reflector its judgement.

use serde_json::json;

use crate::agent_spec::AnswerForm;
use crate::call::{SUBMIT_PLAN, SUBMIT_REFLECTION};
use crate::plan::plan_schema;
use crate::reflection::reflection_schema;
use crate::tool::{Access, Repeat, ToolCategory, ToolSpec};

/// Returns the submission tool for this form of answer; `None` for text answers.
pub fn submission_tool(answer: AnswerForm) -> Option<ToolSpec> {
    let (name, description, parameters, example) = match answer {
        AnswerForm::Text => return None,
        AnswerForm::Plan => (
            SUBMIT_PLAN,
            "Carries out a plan; its result is what was observed and judged. Call it last.",
            plan_schema(),
            json!({
                "summary": "Look for the callers, then change them and check.",
                "subtasks": [
                    {"id": "look", "title": "Find the callers", "agent": "explore", "task": "Find every caller of `load` in src/, with file and line."},
                    {"id": "test", "title": "Run the tests", "depends_on": ["look"],
                     "calls": [{"tool": "execute_command", "parameters": {"command": ["cargo", "test"]}}]}
                ]
            }),
        ),
        AnswerForm::Reflection => (
            SUBMIT_REFLECTION,
            "Submits your verdict and ends your work.",
            reflection_schema(),
            json!({"verdict": "achieved", "summary": "Renamed `a` to `b` in src/lib.rs; `cargo test` passes.", "confirmed_by": [{"call": "run.7", "line": "test result: ok. 12 passed"}]}),
        ),
    };
    Some(ToolSpec {
        category: ToolCategory::Ending,
        changes_where: None,
        read_only: None,
        name: name.to_owned(),
        description: description.to_owned(),
        parameters,
        repeat: Repeat::Safe,
        access: Access::ReadOnly,
        requires_approval: false,
        approval_where: None,
        rules: Vec::new(),
        example,
    })
}
