//! A hundred parallel agents on one model server (HOST-6, HOST-7, HOST-8): they stay within their budget, a busy server makes no agent fail
//! and causes no more retries than it refuses requests, and cancelling ends them all.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dirigent::model::{
    ChatModel, Jitter, Limited, ModelLimits, OpenAiModel, OpenAiOptions, RetryPolicy, Retrying,
};
use dirigent::{Dirigent, EndReason, Report, RunHandle, RunLimits};
use dirigent_core::agent_spec::ModelProfile;
use dirigent_core::budget::BudgetKind;
use dirigent_core::observation::ObservationStatus;
use dirigent_model_server::{Fault, Gate, ModelServer, Reply, Request, RetryAfter, Script, Turn, Usage};
use dirigent_tests::stage::{Stage, agent};
use serde_json::{Value, json};

const AGENTS: usize = 100;
/// Maximum number of attempts of a request.
const ATTEMPTS: u32 = 4;
/// Maximum tokens of a worker's reply.
const REPLY: u64 = 1_000;

// The budget

#[tokio::test(flavor = "multi_thread")]
async fn host_6_a_hundred_parallel_agents_stay_within_their_token_budget() {
    let (served, together) = (Served::default(), Gate::new());
    let (counts, gate) = (served.clone(), together.clone());
    // Every reply is as long as allowed.
    let server = serve(move |request| {
        let reply = counts.reply(request, |most| most);
        Turn::from(reply).wait_before_headers(&gate)
    })
    .await;
    let (stage, limits) = (Stage::new(), budget(60_000));

    let (dirigent, run) = start(&stage, model(&server), limits).await;
    // Several agents have reserved their tokens before any of them has used them.
    server.wait_for_requests(10).await;
    together.open();
    let report = run.outcome().await.unwrap();

    let total = served.tokens();
    assert!(total <= 60_000, "{total}");
    check_exhausted(&report, total);
    check_journal(&dirigent, &run, &report).await;
    assert_eq!(
        served.requests(),
        server.requests().len(),
        "what was refused was not sent"
    );
    assert_eq!(server.violations(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn host_6_a_budget_is_exceeded_at_most_by_one_reply_per_request_in_flight() {
    const COUNTED: u64 = 5 * REPLY;
    const SIDE_BY_SIDE: u32 = 10;
    let served = Served::default();
    let counts = served.clone();
    // A server that ignores the limit on a reply's length.
    let server = serve(move |request| counts.reply(request, |_| COUNTED).into()).await;
    let limits = RunLimits {
        max_parallel: SIDE_BY_SIDE,
        ..budget(60_000)
    };

    let stage = Stage::new();
    let (dirigent, run) = start(&stage, model(&server), limits).await;
    let report = run.outcome().await.unwrap();

    let (total, longest) = (served.tokens(), served.longest());
    assert!(total <= 60_000 + u64::from(SIDE_BY_SIDE) * longest, "{total}");
    check_exhausted(&report, total);
    check_journal(&dirigent, &run, &report).await;
}

// A busy server

#[tokio::test(flavor = "multi_thread")]
async fn host_7_many_429_responses_neither_fail_an_agent_nor_multiply_requests() {
    for retry_after in [None, Some(RetryAfter::Millis(5))] {
        let refused = AtomicUsize::new(0);
        let server = serve(move |request| {
            // Refuses 40 first attempts, so no worker is refused twice.
            let is_first = is_worker(request) && request.attempt == 1;
            if is_first && refused.fetch_add(1, Ordering::SeqCst) < 40 {
                Fault::RateLimited { retry_after }.into()
            } else {
                Turn::text("Done.")
            }
        })
        .await;
        let stage = Stage::new();

        let (dirigent, run) = start(&stage, limited(&server), RunLimits::default().crowd()).await;
        let report = run.outcome().await.unwrap();

        assert_eq!(report.end, Some(EndReason::GoalAchieved), "{}", report.summary);
        assert_eq!(succeeded(&report), AGENTS);
        // One request of the lead, one of the reflector, one per agent, and one more per refused attempt.
        assert_eq!(server.requests().len(), 2 + AGENTS + 40);
        assert_eq!(server.violations(), []);
        check_journal(&dirigent, &run, &report).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn host_7_a_server_that_stays_busy_is_asked_as_often_as_the_policy_allows() {
    let server = serve(|request| {
        if is_worker(request) {
            Fault::RateLimited { retry_after: None }.into()
        } else {
            Turn::text("Done.")
        }
    })
    .await;
    let stage = Stage::new();

    let (dirigent, run) = start(&stage, limited(&server), RunLimits::default().crowd()).await;
    let report = run.outcome().await.unwrap();

    assert_eq!(report.end, Some(EndReason::GoalAchieved), "the reflector decides");
    assert_eq!(succeeded(&report), 0);
    let mut asked: BTreeMap<usize, u32> = BTreeMap::new();
    for request in server.requests().iter().filter(|request| is_worker(request)) {
        *asked.entry(request.conversation).or_default() += 1;
    }
    assert_eq!(asked.len(), AGENTS, "each was asked for");
    assert!(asked.values().all(|times| *times <= ATTEMPTS), "{asked:?}");
    check_journal(&dirigent, &run, &report).await;
}

// Cancelling

#[tokio::test(flavor = "multi_thread")]
async fn host_8_cancelling_a_hundred_agents_closes_their_connections() {
    let never = Gate::new();
    let gate = never.clone();
    let server = serve(move |_| Turn::text("Done.").wait_before_headers(&gate)).await;
    let stage = Stage::new();
    let (dirigent, run) = start(&stage, model(&server), RunLimits::default().crowd()).await;
    server.wait_for_requests(1 + AGENTS).await;

    run.cancel().unwrap();
    let report = run.outcome().await.unwrap();

    assert_eq!(report.end, Some(EndReason::Cancelled));
    server.wait_for_hang_ups(AGENTS).await;
    assert_eq!(server.requests().len(), 1 + AGENTS);
    check_journal(&dirigent, &run, &report).await;
}

/// The run ends long before the server's `Retry-After`.
#[tokio::test(flavor = "multi_thread")]
async fn host_8_cancelling_does_not_wait_for_a_busy_server() {
    let busy = Some(RetryAfter::Seconds(600));
    let server = serve(move |_| Fault::RateLimited { retry_after: busy }.into()).await;
    let stage = Stage::new();
    let (dirigent, run) = start(&stage, limited(&server), RunLimits::default().crowd()).await;
    server.wait_for_requests(2).await;

    run.cancel().unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(120), run.outcome()).await;

    let report = ended.expect("it ends at once").unwrap();
    assert_eq!(report.end, Some(EndReason::Cancelled));
    check_journal(&dirigent, &run, &report).await;
}

// The crowd

trait Crowd {
    /// Sets the limits so that all agents can run in parallel.
    fn crowd(self) -> Self;
}

impl Crowd for RunLimits {
    fn crowd(self) -> Self {
        let agents = u32::try_from(AGENTS).unwrap();
        RunLimits {
            max_parallel: agents,
            max_agents: agents,
            ..self
        }
    }
}

fn budget(tokens: u64) -> RunLimits {
    RunLimits {
        max_tokens: Some(tokens),
        ..RunLimits::default().crowd()
    }
}

/// A server that answers workers with `work`; the lead starts a hundred workers, and the reflector is satisfied.
async fn serve(work: impl Fn(&Request) -> Turn + Send + Sync + 'static) -> ModelServer {
    let script = Script::from_fn(move |request| {
        if is_worker(request) {
            return work(request);
        }
        let reply = if request.last_user_message().contains("<OBSERVATIONS>") {
            call(
                "submit_reflection",
                json!({"verdict": "achieved", "summary": "Enough."}),
            )
        } else {
            call(
                "submit_plan",
                json!({"summary": "All at once.", "subtasks": subtasks()}),
            )
        };
        reply.with_usage(tokens(1, 99)).into()
    });
    ModelServer::start(script).await.unwrap()
}

fn is_worker(request: &Request) -> bool {
    request.system_prompt().starts_with("You are worker.")
}

fn subtasks() -> Vec<Value> {
    let subtask = |number| json!({"id": format!("s{number}"), "title": "Work", "agent": "worker", "task": format!("Work on {number}.")});
    (0..AGENTS).map(subtask).collect()
}

fn call(tool: &str, parameters: Value) -> Reply {
    Reply::text(json!({"tool": tool, "parameters": parameters, "terminate": true}).to_string())
}

fn tokens(prompt: u64, completion: u64) -> Usage {
    Usage::Tokens { prompt, completion }
}

fn model(server: &ModelServer) -> OpenAiModel {
    OpenAiModel::new(OpenAiOptions::new(server.url(), "scripted")).unwrap()
}

/// The model with limits and retries, with short pauses for the test, and willing to wait as long as a server asks.
fn limited(server: &ModelServer) -> Retrying<Limited<OpenAiModel>> {
    let patience = Duration::from_secs(3_600);
    let limits = ModelLimits {
        pause: Duration::from_millis(2),
        longest_wait: patience,
        ..ModelLimits::default()
    };
    let policy = RetryPolicy {
        attempts: ATTEMPTS,
        first_pause: Duration::from_millis(1),
        longest_pause: Duration::from_millis(5),
        total: patience,
        jitter: Jitter::Random,
    };
    Retrying::new(Limited::new(model(server), limits), policy)
}

async fn start(stage: &Stage, model: impl ChatModel, limits: RunLimits) -> (Dirigent, RunHandle) {
    let profile = ModelProfile {
        max_output_tokens: Some(REPLY),
        ..ModelProfile::default()
    };
    let builder = stage.builder(model).profile(profile).agent(agent("worker", &[]));
    let dirigent = builder.build().await.unwrap();
    let run = dirigent.start(stage.goal("Work").limits(limits)).await.unwrap();
    (dirigent, run)
}

/// The tokens of each request that workers made.
#[derive(Clone, Default)]
struct Served(Arc<Mutex<Vec<u64>>>);

impl Served {
    /// A reply with `length(limit)` tokens, where the limit is the request's `max_tokens`. The request's tokens are its words.
    fn reply(&self, request: &Request, length: impl Fn(u64) -> u64) -> Reply {
        let most = request.body["max_tokens"].as_u64().expect("a limit on the reply");
        assert!(most <= REPLY, "{most}");
        let words = request
            .messages()
            .iter()
            .filter_map(|message| message["content"].as_str());
        let sent = words.map(|text| text.split_whitespace().count() as u64).sum();
        self.0.lock().unwrap().push(sent + length(most));
        Reply::text("Done.").with_usage(tokens(sent, length(most)))
    }

    /// The run's tokens, including the lead's.
    fn tokens(&self) -> u64 {
        self.0.lock().unwrap().iter().sum::<u64>() + 100
    }

    fn longest(&self) -> u64 {
        self.0.lock().unwrap().iter().copied().max().unwrap_or(0)
    }

    /// The run's requests, including the lead's.
    fn requests(&self) -> usize {
        self.0.lock().unwrap().len() + 1
    }
}

fn succeeded(report: &Report) -> usize {
    let observations = report
        .iterations
        .iter()
        .flat_map(|iteration| &iteration.observations);
    observations
        .filter(|seen| seen.status() == ObservationStatus::Succeeded)
        .count()
}

/// Checks that the run ended because its tokens were exhausted, after some agents had finished and others had not. The report may include
/// later usage of agents that were still working at that moment, but neither figure exceeds what the server counted.
fn check_exhausted(report: &Report, served: u64) {
    let Some(EndReason::BudgetExhausted { budget, used, limit }) = report.end else {
        panic!("{:?}: {}", report.end, report.summary)
    };
    assert_eq!((budget, limit), (BudgetKind::Tokens, 60_000));
    let counted = report.usage.tokens();
    assert!(counted.max(used) <= served, "{used}, {counted} of {served}");
    let done = succeeded(report);
    assert!((1..AGENTS).contains(&done), "{done}");
    assert_eq!(report.remaining.len(), AGENTS - done);
}

/// Checks that the journal gives the same report, including the usage of agents that were stopped.
async fn check_journal(dirigent: &Dirigent, run: &RunHandle, report: &Report) {
    let replayed = dirigent.read(run.id()).await.unwrap().0.report();
    if let Some(EndReason::BudgetExhausted { used, .. }) = report.end {
        assert!(
            used <= replayed.usage.tokens(),
            "all that was counted is journaled"
        );
    }
    let without_usage = |report: &Report| {
        let mut json = json!(report);
        // Only the report from the journal has the usage by agent and model.
        let fields = json.as_object_mut().unwrap();
        fields.retain(|field, _| field != "usage" && field != "account");
        json
    };
    assert!(report.usage.tokens() <= replayed.usage.tokens());
    assert!(
        without_usage(&replayed) == without_usage(report),
        "the journal tells something else"
    );
}
