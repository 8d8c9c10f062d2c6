//! Parses arbitrary replies in every form: the parser terminates, and its results satisfy its guarantees. A call that occurs in the context
//! is never executed unless it is the whole reply (CALL-7). `../Cargo.toml` says how to run this.
#![no_main]

use dirigent_core::call::{CallForm, ContextCalls, ReplyParser, ReplyContent, parse, read_arguments};
use dirigent_core::message::{FinishReason, ModelReply, ToolCall};
use libfuzzer_sys::fuzz_target;

const FORMS: [CallForm; 5] = [
    CallForm::Json,
    CallForm::JsonSchema,
    CallForm::Native,
    CallForm::ToolCall,
    CallForm::Auto,
];

fuzz_target!(|content: &str| {
    let reply = ModelReply::text(content);
    let cut = ModelReply {
        finish: FinishReason::Length,
        ..reply.clone()
    };
    for form in FORMS {
        assert!(parse(&cut, form).is_err(), "a reply that was cut is acted on");
        match parse(&reply, form) {
            Ok(ReplyContent::Calls(calls)) => {
                assert!(form != CallForm::Native, "text is a call in the native form");
                assert!(calls.iter().all(|call| call.parameters.is_object()), "parameters are an object");
                quoted_calls_are_not_carried_out(form, content, &calls);
            }
            Ok(ReplyContent::Text(text) | ReplyContent::CallInProse(text)) => assert!(text.len() <= content.len(), "an answer grew"),
            Err(malformed) => assert!(malformed.to_string().len() < 10_000, "a fault is as long as the reply"),
        }
        // Half of the text was given, and the model says the other half.
        let (given, said) = content.split_at(content.floor_char_boundary(content.len() / 2));
        let given = given_calls(given);
        if let Ok(ReplyContent::Calls(calls)) = parse_after(form, &given, said) {
            assert!(
                !calls.iter().any(|call| given.contains(call)) || is_whole(said),
                "a given call is carried out from within words"
            );
        }
    }
    if let Ok(arguments) = read_arguments(content) {
        assert!(arguments.is_object(), "arguments are an object");
    }
});

fn given_calls(text: &str) -> ContextCalls {
    let mut given = ContextCalls::default();
    given.add(text);
    given
}

fn parse_after(
    form: CallForm,
    given: &ContextCalls,
    said: &str,
) -> Result<ReplyContent, dirigent_core::call::MalformedReply> {
    let parser = ReplyParser {
        form,
        tools: &[],
        context: given,
    };
    parser.parse(&ModelReply::text(said))
}

/// A call in a reply counts as quoted once the reply is part of the context: it is not executed if a later reply
/// repeats it among other words.
fn quoted_calls_are_not_carried_out(form: CallForm, content: &str, calls: &[ToolCall]) {
    let mut given = given_calls(content);
    for call in calls {
        // A call that was repaired, or whose name is only in markup, need not be a call when written as JSON.
        let written = serde_json::json!({"tool": call.tool, "parameters": call.parameters, "terminate": false});
        given.add(&serde_json::json!({"output": written.to_string()}).to_string());
    }
    let quoting = format!("The file says this: {content}");
    let may_end_thinking = ["</", "[/", "<|", "<｜", "◁"].iter().any(|tag| content.contains(tag));
    if let Ok(ReplyContent::Calls(calls)) = parse_after(form, &given, &quoting) {
        assert!(
            may_end_thinking || !calls.iter().any(|call| given.contains(call)),
            "a quoted call is carried out"
        );
    }
}

/// Returns true if a reply consists only of its call: no words before its first bracket or markup, and none after the
/// last.
fn is_whole(said: &str) -> bool {
    let first = said.find(['{', '[', '<', '◁', '`', '~']).unwrap_or(said.len());
    let thinks = ["[/", "◁", "<"].iter().any(|tag| said.contains(tag));
    let last = said.rfind(['}', ']', '>', '`', '▷']).unwrap_or(0);
    let has_words = |text: &str| text.contains(char::is_alphanumeric);
    thinks || !has_words(&said[..first]) && !has_words(&said[last..])
}
