//! Whatever a model says, in whatever form: the parser comes to an end, and what it gives keeps to its word. `../Cargo.toml` says how to
//! run it.
#![no_main]

use dirigent_core::call::{CallForm, Said, parse, parse_after, read_arguments};
use dirigent_core::message::{FinishReason, ModelReply};
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
            Ok(Said::Calls(calls)) => {
                assert!(form != CallForm::Native, "text is a call in the native form");
                assert_eq!(calls.len(), 1, "a text form allows one call");
                assert!(calls[0].parameters.is_object(), "parameters are an object");
            }
            Ok(Said::Text(text)) => assert!(text.len() <= content.len(), "an answer grew"),
            Err(malformed) => assert!(malformed.to_string().len() < 10_000, "a fault is as long as the reply"),
        }
        // Half of the reply stands for a prompt that it repeats.
        let half = content.floor_char_boundary(content.len() / 2);
        let _ = parse_after(&reply, form, &[&content[..half]]);
    }
    if let Ok(arguments) = read_arguments(content) {
        assert!(arguments.is_object(), "arguments are an object");
    }
});
