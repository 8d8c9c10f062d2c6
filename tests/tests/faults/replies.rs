//! Replies that come oddly, damaged, incomplete, withheld or too long: what still counts, and what never runs.

use dirigent_model_server::{FinishReason, Flaw};

use super::runs::check;
use super::{AGAIN, ANY_FORM, BOTH, LONGEST, NATIVE, STREAMED, TEXT, WHOLE, Wrong, flawed};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn call_2_oddities_in_the_delivery_of_a_reply_do_not_change_the_reply() {
    let frames = |bytes| Flaw::SmallFrames { bytes };
    check([
        flawed("single bytes", &[frames(1)], BOTH, TEXT),
        flawed("small frames", &[frames(7)], BOTH, NATIVE),
        flawed("no [DONE]", &[Flaw::MissingDone], STREAMED, ANY_FORM),
        flawed("comments", &[Flaw::KeepAliveComments], BOTH, ANY_FORM),
        flawed("CR LF", &[Flaw::CrlfLines], STREAMED, TEXT),
        flawed("data in lines", &[Flaw::MultiLineData], STREAMED, NATIVE),
        flawed("no space", &[Flaw::NoSpaceAfterColon], STREAMED, TEXT),
        flawed("text/plain", &[Flaw::WrongContentType], BOTH, ANY_FORM),
        flawed("no finish reason", &[Flaw::FinishReasonMissing], BOTH, ANY_FORM),
        flawed("long", &[Flaw::Padded { bytes: 5_000 }], BOTH, TEXT),
        flawed("null content", &[Flaw::NullContent], BOTH, NATIVE),
        flawed("null content at first", &[Flaw::NullContent], STREAMED, TEXT),
        flawed(
            "a chunk without choices",
            &[Flaw::EmptyChoices],
            STREAMED,
            ANY_FORM,
        ),
        flawed("calls by turns", &[Flaw::InterleavedCalls], STREAMED, NATIVE),
        flawed(
            "last call first",
            &[Flaw::ReversedCalls, Flaw::SplitArguments, frames(3)],
            STREAMED,
            NATIVE,
        ),
        flawed("split arguments", &[Flaw::SplitArguments], STREAMED, NATIVE),
        flawed("no ids", &[Flaw::CallIdsMissing], BOTH, NATIVE),
        flawed("one id for all", &[Flaw::CallIdsReused], BOTH, NATIVE),
        flawed(
            "one id by turns",
            &[Flaw::CallIdsReused, Flaw::InterleavedCalls],
            STREAMED,
            NATIVE,
        ),
        flawed("no index", &[Flaw::CallIndexMissing], STREAMED, NATIVE),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn call_7_the_calls_of_an_interrupted_reply_never_run_and_the_model_is_told() {
    let cut = "was interrupted";
    let breaks = |name, flaw| flawed(name, &[flaw], STREAMED, ANY_FORM).malformed(cut);
    let ends = |name, reason, told| {
        flawed(name, &[], BOTH, ANY_FORM)
            .wrong(Wrong::Ends(reason))
            .malformed(told)
    };
    check([
        breaks("cut in an event", Flaw::CutMidEvent),
        flawed("cut in a character", &[Flaw::CutMidCharacter], STREAMED, TEXT).malformed(cut),
        breaks("cut between events", Flaw::CutBetweenEvents),
        breaks("ends early", Flaw::EndsEarly),
        breaks("an error half way", Flaw::ErrorObject),
        breaks("garbage half way", Flaw::GarbageEvent),
        flawed(
            "no end",
            &[Flaw::MissingDone, Flaw::FinishReasonMissing],
            STREAMED,
            ANY_FORM,
        )
        .malformed(cut),
        flawed("every event twice", &[Flaw::DuplicatedEvents], STREAMED, TEXT).malformed("tool call"),
        flawed("every event twice", &[Flaw::DuplicatedEvents], STREAMED, NATIVE).malformed("can't be read"),
        ends("length", FinishReason::Length, "cut off"),
        flawed("null instead of the text", &[Flaw::NullContent], WHOLE, TEXT).malformed("it was empty"),
        flawed("a broken call", &[], BOTH, TEXT)
            .wrong(Wrong::BrokenCall)
            .malformed("tool call"),
        flawed("a broken call", &[], BOTH, NATIVE)
            .wrong(Wrong::BrokenCall)
            .malformed("can't be read"),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn loop_3_a_withheld_or_oversized_reply_ends_the_agent_and_is_not_asked_again() {
    let ends = |name, flaws: &[Flaw], says| flawed(name, flaws, BOTH, ANY_FORM).ends_agent(says);
    check([
        ends("content filter", &[], &["content filter", "was not repeated"])
            .wrong(Wrong::Ends(FinishReason::ContentFilter)),
        ends(
            "too long",
            &[Flaw::Padded { bytes: 5 * LONGEST }],
            &["exceeds the maximum size", "was not repeated"],
        ),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn host_7_an_interrupted_reply_in_one_piece_does_not_count() {
    let breaks = |name, flaw, says| flawed(name, &[flaw], WHOLE, ANY_FORM).no_reply(says);
    check([
        breaks("cut half way", Flaw::CutMidEvent, &["can't be read", AGAIN]),
        breaks(
            "cut in a character",
            Flaw::CutMidCharacter,
            &["can't be read", AGAIN],
        ),
        // In native replies, the multi-byte character comes before the calls.
        flawed(
            "cut in the first character",
            &[Flaw::CutMidCharacter],
            STREAMED,
            NATIVE,
        )
        .no_reply(&[AGAIN]),
        breaks("ends early", Flaw::EndsEarly, &["not valid JSON", AGAIN]),
        breaks("an error object", Flaw::ErrorObject, &["had an error", AGAIN]),
        breaks("no choices", Flaw::EmptyChoices, &["contains no reply", AGAIN]),
    ])
    .await;
}
