//! Every flaw of a reply, as it is on the wire.

use dirigent_model_server::{Flaw, Reply, ToolCall};
use serde_json::{Value, json};

use crate::socket::{Answer, plain_of, stream_of};

/// A text that goes out as `Once`, ` upo`, `n a `, `time`.
fn text() -> Reply {
    Reply::text("Once upon a time")
}

fn two_calls() -> Reply {
    Reply::calls([
        ToolCall::raw("one", "{\"a\":1}"),
        ToolCall::raw("two", "{\"b\":2}"),
    ])
}

/// Which call each fragment belongs to.
fn indices(answer: &Answer) -> Vec<Value> {
    answer
        .call_fragments()
        .iter()
        .map(|fragment| fragment["index"].clone())
        .collect()
}

fn half(whole: &str) -> &str {
    &whole[..whole.len() / 2]
}

/// With what a later second would change made equal.
fn timeless(text: &str) -> String {
    let Some((before, after)) = text.split_once("\"created\":") else {
        return text.to_owned();
    };
    format!(
        "{before}\"created\":{}",
        timeless(after.trim_start_matches(|c: char| c.is_ascii_digit()))
    )
}

#[tokio::test]
async fn a_cut_in_the_middle_of_an_event() {
    let stream = stream_of(text().with_flaw(Flaw::CutMidEvent)).await;
    assert!(!stream.complete);
    assert_eq!(stream.streamed_text(), "Once upo", "two events of text are whole");
    let last = stream.text().rsplit_once("\n\n").unwrap().1.to_owned();
    assert!(
        last.starts_with("data: {\"id\":\"chatcmpl-1\",") && !last.contains('\n'),
        "{last:?}"
    );

    let plain = plain_of(text().with_flaw(Flaw::CutMidEvent)).await;
    let whole = plain_of(text()).await.text();
    assert!(!plain.complete);
    assert_eq!(plain.header("content-length").unwrap(), whole.len().to_string());
    assert_eq!(timeless(&plain.text()), timeless(half(&whole)));
}

#[tokio::test]
async fn a_cut_inside_a_character() {
    for reply in [Reply::text("Caf\u{e9} noir"), Reply::text("Cafe")] {
        let reply = reply.with_flaw(Flaw::CutMidCharacter);
        for answer in [stream_of(reply.clone()).await, plain_of(reply.clone()).await] {
            assert!(!answer.complete);
            let bytes = answer.bytes();
            let error = std::str::from_utf8(&bytes).unwrap_err();
            assert_eq!(error.valid_up_to(), bytes.len() - 1);
            assert_eq!(error.error_len(), None, "the character only lacks its rest");
        }
    }
}

#[tokio::test]
async fn a_cut_between_two_events() {
    let stream = stream_of(text().with_flaw(Flaw::CutBetweenEvents)).await;
    assert!(!stream.complete);
    assert!(stream.text().ends_with("\n\n"));
    assert_eq!(stream.streamed_text(), "Once upo");

    assert!(plain_of(text().with_flaw(Flaw::CutBetweenEvents)).await.complete);
}

#[tokio::test]
async fn an_early_end_that_http_finds_good() {
    let stream = stream_of(text().with_flaw(Flaw::EndsEarly)).await;
    assert!(stream.complete);
    assert_eq!(stream.streamed_text(), "Once upo");
    assert!(!stream.text().contains("[DONE]"));

    let plain = plain_of(text().with_flaw(Flaw::EndsEarly)).await;
    assert!(plain.complete);
    assert_eq!(
        timeless(&plain.text()),
        timeless(half(&plain_of(text()).await.text()))
    );
}

#[tokio::test]
async fn small_frames_split_lines_and_characters() {
    let reply = Reply::text("\u{1f980}\u{1f980}").with_flaw(Flaw::SmallFrames { bytes: 3 });
    let stream = stream_of(reply.clone()).await;
    let (last, others) = stream.frames.split_last().unwrap();
    assert!(others.iter().all(|frame| frame.len() == 3) && last.len() <= 3);
    assert!(
        stream
            .frames
            .iter()
            .any(|frame| std::str::from_utf8(frame).is_err())
    );
    assert_eq!(stream.streamed_text(), "\u{1f980}\u{1f980}");

    let plain = plain_of(reply).await;
    assert_eq!(plain.frames[0].len(), 3);
    assert_eq!(
        plain.json()["choices"][0]["message"]["content"],
        "\u{1f980}\u{1f980}"
    );
    assert_eq!(
        stream_of(Reply::text("a").with_flaw(Flaw::SmallFrames { bytes: 0 }))
            .await
            .frames[0]
            .len(),
        1
    );
}

#[tokio::test]
async fn done_is_missing() {
    let stream = stream_of(text().with_flaw(Flaw::MissingDone)).await;
    assert!(stream.complete && !stream.text().contains("[DONE]"));
    assert_eq!(
        stream.chunks().last().unwrap()["choices"][0]["finish_reason"],
        "stop"
    );
}

#[tokio::test]
async fn an_error_with_a_good_status() {
    let stream = stream_of(text().with_flaw(Flaw::ErrorObject)).await;
    assert_eq!((stream.status, stream.complete), (200, true));
    assert_eq!(stream.streamed_text(), "Once upo");
    let last: Value = serde_json::from_str(stream.events().last().unwrap()).unwrap();
    assert_eq!(last["error"]["type"], "server_error");

    let plain = plain_of(text().with_flaw(Flaw::ErrorObject)).await;
    assert_eq!(
        (plain.status, plain.json()["error"]["type"].clone()),
        (200, json!("server_error"))
    );
}

#[tokio::test]
async fn one_event_is_garbage() {
    let stream = stream_of(text().with_flaw(Flaw::GarbageEvent)).await;
    let bad: Vec<String> = stream
        .events()
        .into_iter()
        .filter(|event| serde_json::from_str::<Value>(event).is_err())
        .collect();
    assert_eq!(bad, ["{\"choices\": [{\"delta\": garbage", "[DONE]"]);
    assert_eq!(stream.streamed_text(), "Once upon a time");
}

#[tokio::test]
async fn comments_between_events() {
    let stream = stream_of(text().with_flaw(Flaw::KeepAliveComments)).await;
    assert_eq!(
        stream.text().matches(": keep-alive\n\ndata: ").count(),
        stream.events().len()
    );
    assert_eq!(stream.streamed_text(), "Once upon a time");

    let plain = plain_of(text().with_flaw(Flaw::KeepAliveComments)).await;
    assert!(plain.text().starts_with("\n\n{"));
    assert_eq!(
        plain.json()["choices"][0]["message"]["content"],
        "Once upon a time"
    );
}

#[tokio::test]
async fn events_come_twice() {
    let events = stream_of(Reply::text("Hey").with_flaw(Flaw::DuplicatedEvents))
        .await
        .events();
    assert_eq!(events.len(), 7, "role, text and reason twice, and the end once");
    assert!(events[0] == events[1] && events[2] == events[3] && events[4] == events[5]);
    assert_eq!(events[6], "[DONE]");
}

#[tokio::test]
async fn lines_end_with_cr_lf() {
    let stream = stream_of(text().with_flaw(Flaw::CrlfLines)).await;
    assert_eq!(stream.text().matches("\r\n\r\n").count(), 7);
    assert_eq!(stream.text().matches('\n').count(), 14, "no line ends otherwise");
    assert_eq!(stream.streamed_text(), "Once upon a time");
}

#[tokio::test]
async fn an_event_of_many_data_lines() {
    let stream = stream_of(text().with_flaw(Flaw::MultiLineData)).await;
    assert!(
        stream
            .text()
            .starts_with("data: {\ndata:   \"id\": \"chatcmpl-1\",\n")
    );
    assert_eq!(stream.streamed_text(), "Once upon a time");
}

#[tokio::test]
async fn no_space_after_the_colon() {
    let stream = stream_of(text().with_flaw(Flaw::NoSpaceAfterColon)).await;
    assert!(stream.text().starts_with("data:{"));
    assert!(stream.text().ends_with("data:[DONE]\n\n"));
    assert_eq!(stream.streamed_text(), "Once upon a time");
}

#[tokio::test]
async fn a_wrong_content_type() {
    for answer in [
        stream_of(text().with_flaw(Flaw::WrongContentType)).await,
        plain_of(text().with_flaw(Flaw::WrongContentType)).await,
    ] {
        assert_eq!(
            (answer.status, answer.header("content-type")),
            (200, Some("text/plain"))
        );
        assert!(answer.complete);
    }
}

#[tokio::test]
async fn calls_in_turns_and_calls_backwards() {
    assert_eq!(indices(&stream_of(two_calls()).await), [0, 0, 0, 1, 1, 1]);
    assert_eq!(
        indices(&stream_of(two_calls().with_flaw(Flaw::InterleavedCalls)).await),
        [0, 1, 0, 1, 0, 1]
    );
    assert_eq!(
        indices(&stream_of(two_calls().with_flaw(Flaw::ReversedCalls)).await),
        [1, 1, 1, 0, 0, 0]
    );
    let both = two_calls()
        .with_flaw(Flaw::InterleavedCalls)
        .with_flaw(Flaw::ReversedCalls);
    assert_eq!(indices(&stream_of(both).await), [1, 0, 1, 0, 1, 0]);
}

#[tokio::test]
async fn arguments_one_character_at_a_time() {
    let reply = Reply::calls([ToolCall::raw("say", r#"{"t":"\u00e9\n"}"#)]).with_flaw(Flaw::SplitArguments);
    let fragments = stream_of(reply).await.call_fragments();
    let arguments: Vec<&str> = fragments
        .iter()
        .map(|fragment| fragment["function"]["arguments"].as_str().unwrap())
        .collect();
    assert_eq!(arguments.len(), 17, "the head and sixteen characters");
    assert!(arguments[1..].iter().all(|fragment| fragment.len() == 1));
    assert_eq!(arguments.concat(), r#"{"t":"\u00e9\n"}"#);
}

fn ids(calls: &[Value]) -> Vec<Value> {
    calls
        .iter()
        .filter(|call| call.get("type").is_some())
        .map(|call| call["id"].clone())
        .collect()
}

#[tokio::test]
async fn call_ids_missing_or_reused() {
    let cases = [
        (two_calls(), [json!("call_1_0"), json!("call_1_1")]),
        (
            two_calls().with_flaw(Flaw::CallIdsMissing),
            [Value::Null, Value::Null],
        ),
        (
            two_calls().with_flaw(Flaw::CallIdsReused),
            [json!("call_1_0"), json!("call_1_0")],
        ),
    ];
    for (reply, expected) in cases {
        assert_eq!(ids(&stream_of(reply.clone()).await.call_fragments()), expected);
        let plain = plain_of(reply).await.json();
        assert_eq!(
            ids(plain["choices"][0]["message"]["tool_calls"].as_array().unwrap()),
            expected
        );
    }
}

#[tokio::test]
async fn call_indices_missing() {
    let fragments = stream_of(two_calls().with_flaw(Flaw::CallIndexMissing))
        .await
        .call_fragments();
    assert_eq!(fragments.len(), 6);
    assert!(fragments.iter().all(|fragment| fragment.get("index").is_none()));
}

#[tokio::test]
async fn choices_are_empty() {
    let stream = stream_of(text().with_flaw(Flaw::EmptyChoices)).await;
    assert_eq!(stream.chunks()[0]["choices"], json!([]));
    assert_eq!(stream.streamed_text(), "Once upon a time");
    assert_eq!(
        plain_of(text().with_flaw(Flaw::EmptyChoices)).await.json()["choices"],
        json!([])
    );
}

#[tokio::test]
async fn content_is_null() {
    let stream = stream_of(text().with_flaw(Flaw::NullContent)).await;
    assert_eq!(stream.deltas()[1], json!({ "content": null }));
    assert_eq!(stream.streamed_text(), "Once upon a time");
    let plain = plain_of(text().with_flaw(Flaw::NullContent)).await.json();
    assert_eq!(plain["choices"][0]["message"]["content"], Value::Null);
}

#[tokio::test]
async fn the_finish_reason_is_missing() {
    let stream = stream_of(text().with_flaw(Flaw::FinishReasonMissing)).await;
    assert!(
        stream
            .chunks()
            .iter()
            .all(|chunk| chunk["choices"][0]["finish_reason"].is_null())
    );
    assert_eq!(stream.events().last().unwrap(), "[DONE]");
    let plain = plain_of(text().with_flaw(Flaw::FinishReasonMissing)).await.json();
    assert_eq!(plain["choices"][0]["finish_reason"], Value::Null);
}

#[tokio::test]
async fn a_huge_reply() {
    let reply = Reply::text("Big: ").with_flaw(Flaw::Padded { bytes: 3_000_000 });
    let stream = stream_of(reply.clone()).await;
    assert!(stream.complete);
    assert_eq!(stream.streamed_text().len(), 3_000_005);
    let plain = plain_of(reply).await.json();
    assert_eq!(
        plain["choices"][0]["message"]["content"].as_str().unwrap().len(),
        3_000_005
    );
}
