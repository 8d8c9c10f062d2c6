//! Replies in one piece, and what they have in common with streamed ones.

use std::sync::{Arc, Mutex};

use dirigent_core::call::{CallForm, MalformedReply, parse};
use dirigent_core::message::{FinishReason, Usage};
use dirigent_model::openai::Delivery;
use dirigent_model::{ChatModel, DeltaSink};
use dirigent_model_server::HttpAnswer;
use serde_json::{Value, json};

use super::server::{ask, model, options, request, serve};

const BOTH: [Delivery; 2] = [Delivery::Streamed, Delivery::Whole];

/// A reply with this message and finish reason, streamed or in one piece.
fn says(delivery: Delivery, message: &Value, finish_reason: &str, usage: &Value) -> HttpAnswer {
    says_raw(delivery, message, finish_reason, &usage.to_string())
}

/// Like [`says`], with the usage as raw text.
fn says_raw(delivery: Delivery, message: &Value, finish_reason: &str, usage: &str) -> HttpAnswer {
    let choice = |field: &str, said: &Value| {
        let choices = json!([{"index": 0, field: said, "finish_reason": finish_reason}]);
        format!(r#"{{"choices": {choices}, "usage": {usage}}}"#)
    };
    match delivery {
        Delivery::Whole => HttpAnswer::json("200 OK", choice("message", message)),
        Delivery::Streamed => HttpAnswer::events(&[&choice("delta", message), "[DONE]"]),
    }
}

fn calls(calls: &[(&str, &str, &str)]) -> Value {
    let calls = calls.iter().enumerate().map(|(index, (id, name, arguments))| {
        json!({"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
    });
    json!({"role": "assistant", "content": null, "tool_calls": calls.collect::<Vec<_>>()})
}

#[tokio::test]
async fn a_text_reply_is_returned_with_its_usage() {
    for delivery in BOTH {
        let usage = json!({"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15, "x": {}});
        let message = json!({"role": "assistant", "content": "Hi.", "new_field": [1]});
        let reply = ask(delivery, says(delivery, &message, "stop", &usage))
            .await
            .unwrap();
        assert_eq!(reply.content, "Hi.");
        assert_eq!(reply.finish, FinishReason::Stop);
        let expected = Usage {
            model_calls: 1,
            tool_calls: 0,
            input_tokens: 12,
            output_tokens: 3,
            ..Usage::default()
        };
        assert_eq!(reply.usage, expected);
    }
}

#[tokio::test]
async fn host_6_cached_tokens_are_counted_in_every_server_format() {
    let counted = |more: Value| {
        let mut usage = json!({"prompt_tokens": 12, "completion_tokens": 3});
        usage
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        usage
    };
    for (usage, cached) in [
        (
            counted(json!({"prompt_tokens_details": {"cached_tokens": 8, "audio_tokens": 0}})),
            8,
        ),
        (
            counted(json!({"prompt_cache_hit_tokens": 7, "prompt_cache_miss_tokens": 5})),
            7,
        ),
        // Usage that is not valid.
        (
            counted(json!({"prompt_tokens_details": {"cached_tokens": -1}})),
            0,
        ),
        (
            counted(json!({"prompt_tokens_details": {"cached_tokens": "8"}})),
            0,
        ),
        (
            counted(json!({"prompt_tokens_details": null, "prompt_cache_hit_tokens": null})),
            0,
        ),
    ] {
        for delivery in BOTH {
            let answer = says(delivery, &json!({"content": "Hi."}), "stop", &usage);
            let counted = ask(delivery, answer).await.unwrap().usage;
            assert_eq!(
                (
                    counted.input_tokens,
                    counted.cached_input_tokens,
                    counted.output_tokens
                ),
                (12, cached, 3),
                "{usage}"
            );
        }
    }
}

#[tokio::test]
async fn a_reply_names_the_model_that_gave_it_or_else_the_one_that_was_asked() {
    let long = "x".repeat(201);
    for (named, expected) in [
        (json!("test-model-2025-01-01"), "test-model-2025-01-01"),
        (json!(null), "test-model"),
        (json!(""), "test-model"),
        (json!(7), "test-model"),
        (json!("a\u{1b}[2Jb"), "test-model"),
        (json!(long), "test-model"),
    ] {
        let choices = json!([{"delta": {"content": "Hi."}, "finish_reason": "stop"}]);
        let event = json!({"model": named, "choices": choices}).to_string();
        let other = json!({"model": "other", "choices": []}).to_string();
        let streamed = match named {
            Value::String(ref name) if name == expected => HttpAnswer::events(&[&event, &other]),
            _ => HttpAnswer::events(&[&event]),
        };
        let reply = ask(Delivery::Streamed, streamed).await.unwrap();
        assert_eq!(reply.model.as_deref(), Some(expected));
        let whole = event.replace("delta", "message");
        let reply = ask(Delivery::Whole, HttpAnswer::json("200 OK", whole))
            .await
            .unwrap();
        assert_eq!(reply.model.as_deref(), Some(expected));
    }
    let server = serve([HttpAnswer::json(
        "200 OK",
        r#"{"choices": [{"message": {"content": "Hi."}}]}"#,
    )])
    .await;
    let asked = request().model("other".to_owned());
    let reply = model(&server, Delivery::Whole).chat(asked).await.unwrap();
    assert_eq!(reply.model.as_deref(), Some("other"));
}

#[tokio::test]
async fn usage_is_estimated_if_the_server_reports_none() {
    for delivery in BOTH {
        let message = json!({"content": "Four characters make one."});
        let reply = ask(delivery, says(delivery, &message, "stop", &Value::Null))
            .await
            .unwrap();
        // Estimates for messages of 9 and 6 characters, with four tokens for each message itself, and for a reply of 25 characters.
        assert_eq!(
            (reply.usage.input_tokens, reply.usage.output_tokens),
            (13, 7),
            "{delivery:?}"
        );
        assert_eq!(reply.usage.estimated_calls, 1);
    }
}

/// The estimates are 13 tokens for the request and 7 for the reply.
#[tokio::test]
async fn host_6_implausible_counts_are_replaced_by_the_estimate() {
    let counts = |sent: &str, received: &str| {
        format!(r#"{{"prompt_tokens": {sent}, "completion_tokens": {received}}}"#)
    };
    let cached = |sent: u64, cached: u64| {
        json!({"prompt_tokens": sent, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": cached}})
            .to_string()
    };
    for (usage, input, output, estimated) in [
        (counts("12", "3"), 12, 3, 0),
        (counts("-12", "3"), 13, 3, 1),
        (counts("12", "-3"), 12, 7, 1),
        (counts("0", "3"), 13, 3, 1),
        (counts("12", "0"), 12, 7, 1),
        (counts("0", "0"), 13, 7, 1),
        (counts("1e300", "1e300"), 13, 7, 1),
        (counts("12.5", "3.5"), 13, 7, 1),
        (counts("\"12\"", "\"3\""), 13, 7, 1),
        (counts("\"NaN\"", "null"), 13, 7, 1),
        (counts("[12]", "{}"), 13, 7, 1),
        (counts("18446744073709551615", "18446744073709551615"), 13, 7, 1),
        (
            counts("18446744073709551616", "99999999999999999999999"),
            13,
            7,
            1,
        ),
        // More tokens than any model reads or writes.
        (counts("12", "20000000"), 12, 7, 1),
        // More than the request can have, even with everything that a provider may add to it.
        (counts("100000", "3"), 13, 3, 1),
        (counts("30000", "3"), 30_000, 3, 0),
        (cached(12, 12), 12, 3, 0),
        (cached(12, 14), 13, 3, 1),
        ("\"many\"".to_owned(), 13, 7, 1),
    ] {
        for delivery in BOTH {
            let message = json!({"content": "Four characters make one."});
            let reply = ask(delivery, says_raw(delivery, &message, "stop", &usage))
                .await
                .unwrap();
            let Usage {
                input_tokens,
                output_tokens,
                cached_input_tokens,
                estimated_calls,
                model_calls,
                ..
            } = reply.usage;
            assert_eq!(
                (input_tokens, output_tokens, estimated_calls, model_calls),
                (input, output, estimated, 1),
                "{usage} {delivery:?}"
            );
            assert!(cached_input_tokens <= input_tokens);
        }
    }
}

#[tokio::test]
async fn host_6_a_reply_count_far_beyond_the_limit_is_replaced_by_the_estimate() {
    for (counted, output) in [(50, 50), (5_000, 5_000), (30_000, 30_000), (40_000, 7)] {
        let usage = json!({"prompt_tokens": 12, "completion_tokens": counted});
        let message = json!({"content": "Four characters make one."});
        let server = serve([says(Delivery::Whole, &message, "stop", &usage)]).await;
        let asked = request().max_output_tokens(50);
        let reply = model(&server, Delivery::Whole).chat(asked).await.unwrap();
        assert_eq!(reply.usage.output_tokens, output);
    }
}

#[tokio::test]
async fn host_6_the_callers_estimate_replaces_a_missing_count() {
    let message = json!({"content": "Hi."});
    let server = serve([says(Delivery::Whole, &message, "stop", &Value::Null)]).await;
    let reply = model(&server, Delivery::Whole)
        .chat(request().input_tokens(1_234))
        .await
        .unwrap();
    assert_eq!(reply.usage.input_tokens, 1_234);
}

#[tokio::test]
async fn call_2_calls_take_precedence_over_the_servers_finish_reason() {
    for delivery in BOTH {
        for word in ["stop", "tool_calls", "end_turn"] {
            let message = calls(&[("a", "look", r#"{"path": "x"}"#), ("b", "look", "")]);
            let reply = ask(delivery, says(delivery, &message, word, &Value::Null))
                .await
                .unwrap();
            assert_eq!(reply.finish, FinishReason::ToolCalls);
            let called: Vec<_> = reply
                .calls
                .iter()
                .map(|call| (call.id.as_str(), call.tool.as_str(), &call.parameters))
                .collect();
            assert_eq!(
                called,
                [("a", "look", &json!({"path": "x"})), ("b", "look", &json!({}))]
            );
        }
    }
}

#[tokio::test]
async fn loop_3_each_finish_reason_that_servers_send_is_interpreted() {
    for delivery in BOTH {
        for (word, finish) in [
            ("stop", FinishReason::Stop),
            ("eos", FinishReason::Stop),
            ("eos_token", FinishReason::Stop),
            ("end_turn", FinishReason::Stop),
            ("something_new", FinishReason::Stop),
            ("tool_calls", FinishReason::ToolCalls),
            ("tool_use", FinishReason::ToolCalls),
            ("function_call", FinishReason::ToolCalls),
            ("length", FinishReason::Length),
            ("MAX_TOKENS", FinishReason::Length),
            ("content_filter", FinishReason::Filtered),
            ("SAFETY", FinishReason::Filtered),
            ("network_error", FinishReason::Interrupted),
        ] {
            let message = json!({"content": "No calls."});
            let answer = says(delivery, &message, word, &Value::Null);
            let reply = ask(delivery, answer).await.unwrap();
            assert_eq!(reply.finish, finish, "{word}");
        }
    }
}

#[tokio::test]
async fn loop_3_a_reply_without_a_finish_reason_is_complete() {
    for word in [json!(null), json!(""), json!(7)] {
        let choice = json!({"index": 0, "message": {"content": "Done."}, "finish_reason": word});
        let body = json!({"choices": [choice]}).to_string();
        let reply = ask(Delivery::Whole, HttpAnswer::json("200 OK", body))
            .await
            .unwrap();
        assert_eq!(
            (reply.content.as_str(), reply.finish),
            ("Done.", FinishReason::Stop)
        );
    }
}

#[tokio::test]
async fn call_7_a_reply_cut_by_the_length_limit_or_a_filter_says_so() {
    for delivery in BOTH {
        for (word, finish) in [
            ("length", FinishReason::Length),
            ("content_filter", FinishReason::Filtered),
        ] {
            let message = calls(&[("a", "look", r#"{"path": "#)]);
            let reply = ask(delivery, says(delivery, &message, word, &Value::Null))
                .await
                .unwrap();
            assert_eq!(reply.finish, finish);
        }
    }
}

#[tokio::test]
async fn call_2_arguments_that_are_not_json_reach_the_agent_as_a_malformed_call() {
    for delivery in BOTH {
        let message = calls(&[("a", "look", r#"{"path": x}"#), ("b", "look", "{}")]);
        let reply = ask(delivery, says(delivery, &message, "tool_calls", &Value::Null))
            .await
            .unwrap();
        assert_eq!(reply.calls.len(), 1);
        assert_eq!(reply.malformed_calls[0].name, "look");
        assert_eq!(reply.malformed_calls[0].arguments, r#"{"path": x}"#);
        assert!(matches!(
            parse(&reply, CallForm::Native),
            Err(MalformedReply::UnreadableCalls { .. })
        ));
    }
}

#[tokio::test]
async fn content_may_come_in_parts_and_a_refusal_is_text() {
    for delivery in BOTH {
        let message =
            json!({"content": [{"type": "text", "text": "a"}, {"type": "x"}, {"type": "text", "text": "b"}]});
        let reply = ask(delivery, says(delivery, &message, "stop", &Value::Null))
            .await
            .unwrap();
        assert_eq!(reply.content, "ab");
        let message = json!({"content": null, "refusal": "I won't."});
        let reply = ask(delivery, says(delivery, &message, "stop", &Value::Null))
            .await
            .unwrap();
        assert_eq!(reply.content, "I won't.");
    }
}

#[tokio::test]
async fn the_text_is_sent_to_the_delta_sink_as_it_arrives() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let teller = || {
        let told = told.clone();
        DeltaSink::new(move |text| told.lock().unwrap().push(text.to_owned()))
    };
    let server = serve([
        HttpAnswer::events(&[
            r#"{"choices": [{"delta": {"role": "assistant", "content": ""}}]}"#,
            r#"{"choices": [{"delta": {"content": "a"}}]}"#,
            r#"{"choices": [{"delta": {"content": "b"}, "finish_reason": "stop"}]}"#,
        ]),
        says(Delivery::Whole, &json!({"content": "ab"}), "stop", &Value::Null),
    ])
    .await;
    for delivery in BOTH {
        let model = model(&server, delivery);
        assert_eq!(
            model.chat(request().deltas(teller())).await.unwrap().content,
            "ab"
        );
    }
    assert_eq!(*told.lock().unwrap(), ["a", "b", "ab"]);
}

#[tokio::test]
async fn a_server_that_streams_unasked_or_does_not_stream_is_understood() {
    for (asked, sent) in [
        (Delivery::Streamed, Delivery::Whole),
        (Delivery::Whole, Delivery::Streamed),
    ] {
        let answer = says(sent, &json!({"content": "Hi."}), "stop", &Value::Null);
        assert_eq!(ask(asked, answer).await.unwrap().content, "Hi.");
    }
}

#[tokio::test]
async fn a_reply_beyond_the_size_limit_is_marked_as_oversized() {
    for delivery in BOTH {
        let server = serve([says(
            delivery,
            &json!({"content": "x".repeat(5_000)}),
            "stop",
            &Value::Null,
        )])
        .await;
        let mut options = options(&server, delivery);
        options.max_reply_bytes = 1_000;
        let model = dirigent_model::OpenAiModel::new(options).unwrap();
        let reply = model.chat(request()).await.unwrap();
        assert_eq!(reply.finish, FinishReason::Oversized);
    }
}
