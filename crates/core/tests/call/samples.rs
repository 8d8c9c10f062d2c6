//! Replies of small models that were asked for the JSON form, each with its expected outcome (CALL-5, CALL-7).

use dirigent_core::call::{CallError, CallForm, MalformedReply, ReplyContent, ToolSet, parse};
use dirigent_core::message::FinishReason;
use dirigent_core::tool::{Access, Repeat, ToolCategory, ToolSpec};
use serde_json::{Value, json};

use super::{FORMS, reply, said_in};

/// A line of the file: the request, the reply, and a person's verdict.
#[derive(serde::Deserialize)]
struct Sample {
    id: u32,
    cls: String,
    finish_reason: String,
    content: String,
}

/// How a reply's content is understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Becomes {
    Text,
    Malformed,
    /// The model is asked to send the call alone, or to repeat it.
    InProse,
    UnknownTool,
    Runs,
}

fn becomes(said: &Result<ReplyContent, MalformedReply>) -> Becomes {
    let tool = |name: &str| ToolSpec {
        category: ToolCategory::Other,
        changes_where: None,
        read_only: None,
        name: name.to_owned(),
        description: "A tool.".to_owned(),
        parameters: json!({"type": "object"}),
        repeat: Repeat::Safe,
        access: Access::ReadOnly,
        requires_approval: false,
        approval_where: None,
        rules: Vec::new(),
        example: Value::Null,
    };
    let tools = ToolSet::new(vec![tool("list_files"), tool("execute_sql")]);
    let allowed: Vec<String> = tools.names().map(str::to_owned).collect();
    match said {
        Err(_) => Becomes::Malformed,
        Ok(ReplyContent::Text(_)) => Becomes::Text,
        Ok(ReplyContent::CallInProse(_)) => Becomes::InProse,
        Ok(ReplyContent::Calls(calls)) => match tools.check(&calls[0], &allowed, Access::ReadWrite) {
            Ok(_) => Becomes::Runs,
            Err(CallError::UnknownTool { .. }) => Becomes::UnknownTool,
            Err(other) => panic!("{other}"),
        },
    }
}

/// For each sample: its class, its finish reason, and how its content is understood in the JSON form, the `tool_call` form and the
/// automatic form. A reply that reached the token limit is refused in each of these forms; in the native form all are text.
#[test]
fn call_5_call_7_replies_of_small_models_are_classified() {
    use Becomes::{InProse, Malformed as Bad, Runs, Text, UnknownTool};
    use FinishReason::{Length, Stop};
    #[rustfmt::skip]
    let rows = [
        (1, "prose_only_repetition", Length, Text, Text, Text),
        (2, "fenced_python_no_json", Length, Text, Text, Text),
        (3, "prose_with_pseudo_json_ellipsis", Stop, Bad, InProse, Bad),
        (4, "prose_around_valid_json_copied_from_example", Stop, InProse, InProse, InProse),
        (5, "missing_terminate", Stop, Bad, Bad, Runs),
        (6, "string_bool_inside_parameters_hallucinated_tool", Stop, UnknownTool, Bad, UnknownTool),
        (7, "answer_in_tool_field_missing_terminate", Stop, Bad, Bad, UnknownTool),
        (8, "hallucinated_destructive_tool_truncated", Length, Bad, Bad, Bad),
        (9, "placeholder_echo", Stop, Bad, Bad, UnknownTool),
        (10, "duplicate_keys_runaway_truncated", Length, Bad, Bad, Bad),
        (11, "fenced_json_nested_under_other_key", Length, Text, Text, Text),
        (12, "broken_object_extra_brace", Length, Bad, InProse, InProse),
        (13, "prompt_echo", Length, Bad, InProse, Bad),
        (14, "wrong_language_loop", Length, Text, Text, Text),
        (15, "terminate_string_and_extra_keys", Stop, Bad, Bad, Bad),
        (16, "schema_valid_duplicate_keys", Stop, Bad, Bad, Bad),
        (17, "constrained_but_truncated", Length, Bad, Bad, Bad),
        (18, "two_objects_comma_separated", Stop, Bad, Bad, Runs),
        (19, "openai_style_name_arguments_fenced_newline_flood", Length, Text, Text, Runs),
        (20, "several_fenced_calls_hallucinated_sql", Length, Text, Text, Bad),
    ];
    let samples: Vec<Sample> = include_str!("../samples/model-replies.jsonl")
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(samples.len(), rows.len());
    for (sample, (id, class, finish, in_json, in_tool_call, in_auto)) in samples.iter().zip(rows) {
        let ended = if finish == Length { "length" } else { "stop" };
        assert_eq!(
            (sample.id, sample.cls.as_str(), sample.finish_reason.as_str()),
            (id, class, ended)
        );
        for form in FORMS {
            if finish == Length {
                let said = parse(&reply(&sample.content, Length), form);
                assert_eq!(said, Err(MalformedReply::CutShort { finish }), "{id} in {form:?}");
            }
            let expected = match form {
                CallForm::Json | CallForm::JsonSchema => in_json,
                CallForm::Native => Text,
                CallForm::ToolCall => in_tool_call,
                CallForm::Auto | CallForm::AutoNative => in_auto,
            };
            let said = said_in(form, &sample.content);
            assert_eq!(becomes(&said), expected, "{id} in {form:?}: {said:?}");
        }
    }
}
