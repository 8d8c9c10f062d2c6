//! A model that is unavailable, refuses the request, stays silent or cannot be reached: who is asked again, and which error names the cause.

use std::time::Duration;

use dirigent::model::{HttpClient, OpenAiModel, OpenAiOptions};
use dirigent_model_server::{Fault, RetryAfter};
use dirigent_tests::probes::Notes;
use dirigent_tests::stage::Stage;
use tokio::net::TcpSocket;

use super::runs::{check, check_failed, pursue, retrying};
use super::{AGAIN, ATTEMPTS, Always, BOTH, Form, Once, Row, STREAMED, Spare, TEXT, WHOLE, Wrong, flawed};

/// A fault that makes the model temporarily unavailable.
fn unavailable(name: &'static str, fault: Fault, says: &'static [&'static str]) -> Row {
    Row {
        name,
        wrong: Wrong::Instead(fault),
        deliveries: BOTH,
        forms: TEXT,
        once: Once::AskedAgain,
        always: Always::RunFails {
            asked: ATTEMPTS as usize,
            says,
            spare: Spare::Helps,
        },
    }
}

/// A fault after which repeating the request to the same model is useless.
fn final_answer(name: &'static str, fault: Fault, says: &'static [&'static str], spare: Spare) -> Row {
    Row {
        name,
        wrong: Wrong::Instead(fault),
        deliveries: BOTH,
        forms: TEXT,
        once: Once::AgentFails(says[0]),
        always: Always::RunFails {
            asked: 1,
            says,
            spare,
        },
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn host_7_an_unavailable_model_is_asked_again_and_then_another_model() {
    let busy = |retry_after| Fault::RateLimited { retry_after };
    check([
        unavailable("425", Fault::Status(425, "Too early."), &["425", AGAIN]),
        unavailable("429", busy(None), &["429", AGAIN]),
        unavailable(
            "429, in a moment",
            busy(Some(RetryAfter::Millis(5))),
            &["429", AGAIN],
        ),
        unavailable("503", Fault::Unavailable { retry_after: None }, &["503", AGAIN]),
        unavailable("a proxy's page", Fault::HtmlPage(502), &["502", AGAIN]),
        unavailable(
            "closed before headers",
            Fault::ClosedBeforeHeaders,
            &["can't be reached", AGAIN],
        ),
        unavailable("garbage", Fault::Garbage, &["not valid JSON", AGAIN]),
        unavailable("an empty body", Fault::EmptyBody, &[AGAIN]),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn host_7_requests_are_not_repeated_if_that_cannot_help() {
    let later = |retry_after| Fault::Unavailable {
        retry_after: Some(retry_after),
    };
    let elsewhere = Fault::Redirect {
        to: "https://example.test/v1".to_owned(),
    };
    check([
        final_answer(
            "back in an hour",
            later(RetryAfter::Seconds(3_600)),
            &["503"],
            Spare::Helps,
        ),
        final_answer("401", Fault::InvalidApiKey, &["401", "API key"], Spare::Helps),
        final_answer(
            "402",
            Fault::Status(402, "Pay first."),
            &["402", "account"],
            Spare::Helps,
        ),
        final_answer(
            "403",
            Fault::Status(403, "No access."),
            &["403", "API key"],
            Spare::Helps,
        ),
        final_answer(
            "404",
            Fault::ModelNotFound,
            &["404", "model's name"],
            Spare::Helps,
        ),
        final_answer(
            "no quota",
            Fault::QuotaExceeded,
            &["429", "account"],
            Spare::Helps,
        ),
        final_answer(
            "a page",
            Fault::HtmlPage(200),
            &["web page", "base_url"],
            Spare::Helps,
        ),
        final_answer(
            "a redirect",
            elsewhere,
            &["307", "https://example.test/v1"],
            Spare::Helps,
        ),
        final_answer(
            "too long",
            Fault::ContextLengthExceeded,
            &["maximum context length"],
            Spare::Helps,
        ),
        final_answer(
            "400",
            Fault::Status(400, "Odd."),
            &["400", "Odd."],
            Spare::NotAsked,
        ),
        final_answer(
            "418",
            Fault::Status(418, "Tea."),
            &["418", "Tea."],
            Spare::NotAsked,
        ),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn host_7_a_silent_model_is_abandoned_after_a_timeout() {
    let endless = Fault::EndlessKeepAlive;
    let silent = |name, deliveries, wrong| flawed(name, &[], deliveries, TEXT).wrong(wrong);
    let late: &[&str] = &[AGAIN];
    check([
        silent("no headers", BOTH, Wrong::Silent).no_reply(late),
        silent("comments for ever", BOTH, Wrong::Instead(endless)).no_reply(late),
        silent("half of it", WHOLE, Wrong::Stalled).no_reply(late),
        silent("nothing after the first event", STREAMED, Wrong::Stalled).no_reply(late),
    ])
    .await;
}

#[tokio::test]
async fn host_7_the_error_for_an_unreachable_server_names_it() {
    // A port that is bound but not listening. An unused port might be given to another test's server.
    let taken = TcpSocket::new_v4().unwrap();
    taken.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let url = format!("http://{}/v1", taken.local_addr().unwrap());
    let client = HttpClient::new(Duration::from_secs(5)).unwrap();
    let (stage, notes) = (Stage::new(), Notes::default());

    let model = retrying(OpenAiModel::with_client(OpenAiOptions::new(&url, "gone"), &client).unwrap());
    let report = pursue(&stage, model, Form::Text, &notes).await;

    check_failed(&report, &["can't be reached", &url, AGAIN]);
}
