//! Whole runs with a faulty model server (HOST-7, LOOP-3, CALL-2, CALL-7, PAOR-12): every kind of fault, streamed and whole, over real
//! HTTP, and its consequences. `crates/model/tests/openai` has every status.
//!
//! A run makes four requests: one of the lead, two of an agent `writer` that calls `note`, and one of the reflector. The fault occurs once,
//! at the writer's first request ([`Once`]), or at every request ([`Always`]), with and without a second model to fall back to. In every
//! case no note is recorded twice or only in part, no request is out of order or superfluous, and a replay of the journal gives the run's
//! report.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use dirigent::model::{
    Alternative, ChatModel, ChatRequest, Fallback, Jitter, OpenAiModel, OpenAiOptions, RetryPolicy, Retrying,
};
use dirigent::model::{Delivery, HttpClient};
use dirigent::{EndReason, Report};
use dirigent_core::agent_spec::ModelProfile;
use dirigent_core::call::CallForm;
use dirigent_core::message::{ModelFailure, ModelReply};
use dirigent_model_server::{
    Fault, FinishReason, Flaw, Gate, Matcher, ModelServer, Reply, RetryAfter, Rule, Script, ToolCall, Turn,
};
use dirigent_tests::probes::{Notes, note};
use dirigent_tests::stage::{Stage, agent, findings};
use futures::StreamExt as _;
use futures::future::BoxFuture;
use serde_json::json;
use tokio::net::TcpSocket;

/// Maximum number of attempts of a request.
const ATTEMPTS: u32 = 3;
/// Part of the error after the last attempt.
const AGAIN: &str = "after 3 attempts";
/// Maximum size of a reply in bytes.
const LONGEST: usize = 20_000;
/// Number of runs in parallel.
const SIDE_BY_SIDE: usize = 8;

// Faults

/// A fault to inject: a flaw in the reply, or something sent instead of the reply.
#[derive(Clone)]
enum Wrong {
    Instead(Fault),
    Delivered(Vec<Flaw>),
    Ends(FinishReason),
    /// Calls whose arguments are not valid JSON; in the text form, a truncated call.
    BrokenCall,
    /// The server sends nothing, not even headers.
    Silent,
    /// The server stops in the middle of the reply.
    Stalled,
}

impl Wrong {
    /// Returns the reply with the fault.
    fn with(&self, form: Form, reply: Reply) -> Turn {
        match self {
            Wrong::Instead(fault) => fault.clone().into(),
            Wrong::Delivered(flaws) => flaws.iter().copied().fold(reply, Reply::with_flaw).into(),
            Wrong::Ends(reason) => reply.with_finish_reason(reason.clone()).into(),
            Wrong::BrokenCall => form.broken(reply).into(),
            Wrong::Silent => Turn::from(reply).wait_before_headers(&Gate::new()),
            Wrong::Stalled => Turn::from(reply).wait_in_body(&Gate::new()),
        }
    }

    /// Returns true if only a timeout reveals the fault.
    fn takes_time(&self) -> bool {
        matches!(
            self,
            Wrong::Silent | Wrong::Stalled | Wrong::Instead(Fault::EndlessKeepAlive)
        )
    }
}

/// How the model calls tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// In its text (CALL-1). Padding follows the call, so that the call is complete where the reply is cut off.
    Text,
    /// Natively, separate from the text (CALL-2).
    Native,
}

impl Form {
    fn profile(self) -> ModelProfile {
        ModelProfile {
            calls: match self {
                Form::Text => CallForm::Json,
                Form::Native => CallForm::Native,
            },
            ..ModelProfile::default()
        }
    }

    /// A reply that makes these calls.
    fn calls(self, calls: &[(&str, serde_json::Value)], terminate: bool) -> Reply {
        match self {
            Form::Text => {
                let (tool, parameters) = &calls[0];
                let call = json!({"tool": tool, "parameters": parameters, "terminate": terminate});
                // Padding without words: prose would trigger a repeat request (CALL-7).
                Reply::text(format!("{call}\n\n{}", ". ".repeat(200)))
            }
            Form::Native => Reply::calls(
                calls
                    .iter()
                    .map(|(tool, parameters)| ToolCall::new(*tool, parameters)),
            ),
        }
    }

    fn broken(self, reply: Reply) -> Reply {
        match self {
            Form::Text => Reply::text(r#"{"tool": "note", "parameters": {"text": "#),
            Form::Native => Reply {
                tool_calls: vec![ToolCall::raw("note", r#"{"text": "#)],
                ..reply
            },
        }
    }

    fn plan(self) -> Reply {
        let work = json!({"id": "write", "title": "Note it", "agent": "writer", "task": "Note it."});
        self.calls(
            &[("submit_plan", json!({"summary": "Note it.", "subtasks": [work]}))],
            true,
        )
    }

    fn work(self) -> Reply {
        let one_and_two = [("note", json!({"text": "one"})), ("note", json!({"text": "two"}))];
        self.calls(&one_and_two, false)
    }

    fn reflection(self) -> Reply {
        let judged = json!({"verdict": "achieved", "summary": "It is noted."});
        self.calls(&[("submit_reflection", judged)], true)
    }

    /// The notes of a run without faults.
    fn noted(self) -> &'static [&'static str] {
        match self {
            Form::Text => &["one"],
            Form::Native => &["one", "two"],
        }
    }
}

// Expected outcomes

/// The outcome of a fault that occurs once, at the writer's first request.
#[derive(Clone, Copy, Debug)]
enum Once {
    /// The fault has no effect: the reply is understood.
    Unharmed,
    /// The request is repeated, and the second reply counts.
    AskedAgain,
    /// The model receives this error and corrects itself.
    ModelTold(&'static str),
    /// The writer fails with this error, and the reflector is told.
    AgentFails(&'static str),
}

/// The outcome of a fault at every request.
#[derive(Clone, Copy, Debug)]
enum Always {
    /// The fault has no effect.
    Unharmed,
    /// The run fails after this many requests of the lead, with an error that contains these parts.
    RunFails {
        asked: usize,
        says: &'static [&'static str],
        spare: Spare,
    },
}

/// Whether the second model is used.
#[derive(Clone, Copy, Debug)]
enum Spare {
    /// The second model answers instead of the first.
    Helps,
    /// The second model is not asked: the first model has answered, or no model could help.
    NotAsked,
}

struct Row {
    name: &'static str,
    wrong: Wrong,
    deliveries: &'static [Delivery],
    forms: &'static [Form],
    once: Once,
    always: Always,
}

const BOTH: &[Delivery] = &[Delivery::Streamed, Delivery::Whole];
const STREAMED: &[Delivery] = &[Delivery::Streamed];
const WHOLE: &[Delivery] = &[Delivery::Whole];
const TEXT: &[Form] = &[Form::Text];
const NATIVE: &[Form] = &[Form::Native];
const ANY_FORM: &[Form] = &[Form::Text, Form::Native];

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

fn flawed(
    name: &'static str,
    flaws: &[Flaw],
    deliveries: &'static [Delivery],
    forms: &'static [Form],
) -> Row {
    Row {
        name,
        wrong: Wrong::Delivered(flaws.to_vec()),
        deliveries,
        forms,
        once: Once::Unharmed,
        always: Always::Unharmed,
    }
}

impl Row {
    /// The reply is malformed, and the model is told why.
    fn malformed(self, told: &'static str) -> Row {
        Row {
            once: Once::ModelTold(told),
            always: Always::RunFails {
                asked: 3,
                says: &["malformed 3 times in a row"],
                spare: Spare::NotAsked,
            },
            ..self
        }
    }

    /// The reply is unusable as a whole.
    fn no_reply(self, says: &'static [&'static str]) -> Row {
        Row {
            once: Once::AskedAgain,
            always: Always::RunFails {
                asked: ATTEMPTS as usize,
                says,
                spare: Spare::Helps,
            },
            ..self
        }
    }

    /// The agent ends with this error, and its request is not repeated.
    fn ends_agent(self, says: &'static [&'static str]) -> Row {
        Row {
            once: Once::AgentFails(says[0]),
            always: Always::RunFails {
                asked: 1,
                says,
                spare: Spare::NotAsked,
            },
            ..self
        }
    }

    fn wrong(self, wrong: Wrong) -> Row {
        Row { wrong, ..self }
    }
}

// The table

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

// Execution

/// When the fault occurs, and whether there is a second model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    Once,
    Always,
    AlwaysWithSpare,
}

/// One test case: one run.
#[derive(Clone)]
struct Cell {
    name: &'static str,
    wrong: Wrong,
    form: Form,
    delivery: Delivery,
    when: When,
    once: Once,
    always: Always,
    client: HttpClient,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} ({:?}, {:?}, {:?})",
            self.name, self.delivery, self.form, self.when
        )
    }
}

/// Runs every case of these rows, and lists all that fail.
async fn check<const N: usize>(rows: [Row; N]) {
    let client = HttpClient::new(Duration::from_secs(10)).unwrap();
    let cells = rows.into_iter().flat_map(|row| row.cells(&client));
    let runs = futures::stream::iter(cells).map(|cell| async move {
        let name = cell.to_string();
        tokio::spawn(cell.check()).await.err().map(|_| name)
    });
    let failed: Vec<String> = runs
        .buffer_unordered(SIDE_BY_SIDE)
        .filter_map(|failed| async { failed })
        .collect()
        .await;
    assert!(failed.is_empty(), "failed, see above: {failed:#?}");
}

impl Row {
    fn cells(self, client: &HttpClient) -> Vec<Cell> {
        let mut cells = Vec::new();
        for delivery in self.deliveries {
            for form in self.forms {
                let mut whens = vec![When::Once, When::Always];
                // The use of the second model does not depend on the form of calls or on streaming, so one case is enough.
                if cells.is_empty() && matches!(self.always, Always::RunFails { .. }) && *form == Form::Text {
                    whens.push(When::AlwaysWithSpare);
                }
                cells.extend(whens.into_iter().map(|when| Cell {
                    name: self.name,
                    wrong: self.wrong.clone(),
                    form: *form,
                    delivery: *delivery,
                    when,
                    once: self.once,
                    always: self.always,
                    client: client.clone(),
                }));
            }
        }
        cells
    }
}

impl Cell {
    async fn check(self) {
        let server = ModelServer::start(self.script()).await.unwrap();
        let spare = ModelServer::start(good(self.form, "spare")).await.unwrap();
        let (stage, notes) = (Stage::new(), Notes::default());

        let report = pursue(&stage, self.model(&server, &spare), self.form, &notes).await;

        let asked = (server.requests().len(), spare.requests().len());
        let noted = notes.all();
        match self.when {
            When::Once => self.check_once(&report, &server, &noted),
            When::Always | When::AlwaysWithSpare => self.check_always(&report, asked, &noted),
        }
        assert_eq!(server.violations(), [], "{self}");
        assert_eq!(spare.violations(), [], "{self}");
    }

    /// The script of the faulty model.
    fn script(&self) -> Script {
        let form = self.form;
        let wrong = |reply| self.wrong.with(form, reply);
        match self.when {
            When::Once => {
                let first = Matcher::system("You are writer.");
                let work = match self.once {
                    // The faulty reply counts as the first turn, so the work is not requested again.
                    Once::Unharmed => Rule::new(first, [wrong(form.work()), Turn::text("It is noted.")]),
                    Once::AskedAgain | Once::ModelTold(_) | Once::AgentFails(_) => {
                        Rule::new(first, [wrong(form.work())])
                    }
                };
                Script::rules(std::iter::once(work).chain(rules(form)))
            }
            When::Always | When::AlwaysWithSpare => Script::rules([
                Rule::always(Matcher::system("You are writer.").and_turn(1), wrong(form.work())),
                Rule::always(Matcher::system("You are writer."), self.last_words()),
                Rule::always(Matcher::user("<OBSERVATIONS>"), wrong(form.reflection())),
                Rule::always(Matcher::any(), wrong(form.plan())),
            ]),
        }
    }

    /// The writer's final reply. In the native form it has no calls, so faults in calls do not apply.
    fn last_words(&self) -> Turn {
        let reply = Reply::text("It is noted.");
        match self.form {
            Form::Text => self.wrong.with(self.form, reply),
            Form::Native => reply.into(),
        }
    }

    fn model(&self, server: &ModelServer, spare: &ModelServer) -> Arc<dyn ChatModel> {
        if self.when == When::Once && self.wrong.takes_time() {
            // Long enough for the request to reach the server, whose fault applies to this request only.
            let hasty = self.patient_for(server, Duration::from_secs(10));
            let patient = OpenAiModel::with_client(self.options(server, "first"), &self.client).unwrap();
            return retrying(Arc::new(FirstOfWriter {
                hasty,
                patient,
                asked: AtomicBool::new(false),
            }));
        }
        let first = if self.wrong.takes_time() {
            // Every reply is faulty, so waiting is useless.
            self.patient_for(server, Duration::from_millis(50))
        } else {
            OpenAiModel::with_client(self.options(server, "first"), &self.client).unwrap()
        };
        let first = retrying(first);
        if self.when != When::AlwaysWithSpare {
            return first;
        }
        let spare = OpenAiModel::with_client(self.options(spare, "spare"), &self.client).unwrap();
        let spare = Alternative {
            model: Arc::new(spare),
            name: None,
        };
        Arc::new(Fallback::new(first, [spare]))
    }

    /// The first model with this timeout.
    fn patient_for(&self, server: &ModelServer, patience: Duration) -> OpenAiModel {
        let mut options = self.options(server, "first");
        options.timeouts.first = patience;
        options.timeouts.between = patience;
        options.timeouts.total = patience;
        OpenAiModel::with_client(options, &self.client).unwrap()
    }

    fn options(&self, server: &ModelServer, model: &str) -> OpenAiOptions {
        let mut options = OpenAiOptions::new(server.url(), model);
        options.delivery = self.delivery;
        options.max_reply_bytes = LONGEST;
        options
    }

    fn check_once(&self, report: &Report, server: &ModelServer, noted: &[String]) {
        let requests = server.requests();
        assert_eq!(
            report.end,
            Some(EndReason::GoalAchieved),
            "{self}: {}",
            report.summary
        );
        let found = findings(report, 0, "write");
        let (asked, all_noted) = match self.once {
            Once::Unharmed => (4, true),
            Once::AskedAgain | Once::ModelTold(_) => (5, true),
            Once::AgentFails(_) => (3, false),
        };
        assert_eq!(requests.len(), asked, "{self}: {found:?}");
        assert_eq!(noted, if all_noted { self.form.noted() } else { &[] }, "{self}");
        let again = &requests[2];
        match self.once {
            Once::Unharmed => {}
            Once::AskedAgain => assert_eq!((again.turn, again.attempt), (1, 2), "{self}"),
            Once::ModelTold(why) => {
                assert_eq!(again.turn, 2, "{self}");
                let said = again.last_message();
                assert!(said.contains(why), "{self}: {said}");
            }
            Once::AgentFails(why) => {
                let error = found.unwrap_err();
                assert!(error.contains(why), "{self}: {error}");
                assert!(
                    again.last_message().contains(why),
                    "{self}: {}",
                    again.last_message()
                );
            }
        }
    }

    fn check_always(&self, report: &Report, asked: (usize, usize), noted: &[String]) {
        let helped = self.when == When::AlwaysWithSpare;
        match self.always {
            Always::RunFails {
                asked: times,
                spare: Spare::Helps,
                ..
            } if helped => {
                assert_eq!(
                    report.end,
                    Some(EndReason::GoalAchieved),
                    "{self}: {}",
                    report.summary
                );
                self.check_asked(asked, (4 * times, 4));
                assert_eq!(noted, self.form.noted(), "{self}");
            }
            Always::Unharmed => {
                assert_eq!(
                    report.end,
                    Some(EndReason::GoalAchieved),
                    "{self}: {}",
                    report.summary
                );
                assert_eq!(asked, (4, 0), "{self}");
                assert_eq!(noted, self.form.noted(), "{self}");
            }
            Always::RunFails {
                asked: times, says, ..
            } => {
                check_failed(report, says);
                self.check_asked(asked, (times, 0));
                assert_eq!(noted, [] as [&str; 0], "{self}");
            }
        }
    }
}

impl Cell {
    /// Checks the number of requests that reached the first and the second model's server. A request that timed out may not have reached
    /// the server at all.
    fn check_asked(&self, asked: (usize, usize), expected: (usize, usize)) {
        if self.wrong.takes_time() {
            assert!(asked.0 <= expected.0, "{self}: {asked:?}");
            assert_eq!(asked.1, expected.1, "{self}");
        } else {
            assert_eq!(asked, expected, "{self}");
        }
    }
}

fn check_failed(report: &Report, says: &[&str]) {
    let Some(EndReason::Failed { error, .. }) = &report.end else {
        panic!("{:?}", report.end)
    };
    for part in says {
        assert!(error.contains(part), "{part}: {error}");
    }
}

/// A script without faults for a model of this name.
fn good(form: Form, model: &str) -> Script {
    Script::rules(rules(form)).with_models([model])
}

fn rules(form: Form) -> Vec<Rule> {
    vec![
        Rule::new(
            Matcher::system("You are writer."),
            [form.work().into(), Turn::text("It is noted.")],
        ),
        Rule::new(Matcher::user("<OBSERVATIONS>"), [form.reflection().into()]),
        Rule::new(Matcher::any(), [form.plan().into()]),
    ]
}

/// A model whose first request of the writer, the faulty one, has a short timeout, and all others a long one.
struct FirstOfWriter {
    hasty: OpenAiModel,
    patient: OpenAiModel,
    asked: AtomicBool,
}

impl ChatModel for FirstOfWriter {
    fn chat(&self, request: ChatRequest) -> BoxFuture<'static, Result<ModelReply, ModelFailure>> {
        let of_writer = request.messages[0].content().starts_with("You are writer.");
        if of_writer && !self.asked.swap(true, Ordering::SeqCst) {
            self.hasty.chat(request)
        } else {
            self.patient.chat(request)
        }
    }
}

fn retrying(model: impl ChatModel + Clone) -> Arc<dyn ChatModel> {
    let policy = RetryPolicy {
        attempts: ATTEMPTS,
        first_pause: Duration::from_millis(1),
        longest_pause: Duration::from_millis(2),
        jitter: Jitter::None,
        ..RetryPolicy::default()
    };
    Arc::new(Retrying::new(model, policy))
}

/// Runs the goal to its end, and checks that the journal gives the same report.
async fn pursue(stage: &Stage, model: Arc<dyn ChatModel>, form: Form, notes: &Notes) -> Arc<Report> {
    let dirigent = stage
        .builder(model)
        .profile(form.profile())
        .tool(note(notes))
        .agent(agent("writer", &["note"]))
        .build()
        .await
        .unwrap();
    let run = dirigent.start(stage.goal("Note it")).await.unwrap();
    let report = run.outcome().await.expect("the run is carried out to its end");
    let mut replayed = json!(dirigent.read(run.id()).await.unwrap().0.report());
    // Only the report from the journal has the usage by agent and model.
    replayed.as_object_mut().unwrap().remove("account");
    assert_eq!(replayed, json!(*report), "the journal tells the same");
    assert_eq!(stage.journaled_end()["reason"], json!(report.end)["reason"]);
    report
}
