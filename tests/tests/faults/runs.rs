//! The runs of a row, one for each delivery, form and time of its fault, and what must hold after each.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use dirigent::model::{
    Alternative, ChatModel, ChatRequest, Delivery, Fallback, HttpClient, Jitter, OpenAiModel, OpenAiOptions,
    RetryPolicy, Retrying,
};
use dirigent::{EndReason, Report};
use dirigent_core::message::{ModelFailure, ModelReply};
use dirigent_model_server::{Matcher, ModelServer, Reply, Rule, Script, Turn};
use dirigent_tests::probes::{Notes, note};
use dirigent_tests::stage::{Stage, agent, findings};
use futures::StreamExt as _;
use futures::future::BoxFuture;
use serde_json::json;

use super::{ATTEMPTS, Always, Form, LONGEST, Once, Row, Spare, Wrong};

/// Number of runs in parallel.
const SIDE_BY_SIDE: usize = 8;

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
pub(super) async fn check<const N: usize>(rows: [Row; N]) {
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

pub(super) fn check_failed(report: &Report, says: &[&str]) {
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

pub(super) fn retrying(model: impl ChatModel + Clone) -> Arc<dyn ChatModel> {
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
pub(super) async fn pursue(
    stage: &Stage,
    model: Arc<dyn ChatModel>,
    form: Form,
    notes: &Notes,
) -> Arc<Report> {
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
