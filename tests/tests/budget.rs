//! HOST-6 for every form of calls (CALL-4): the tokens that a server counts for a run with many parallel agents stay within the budget,
//! however the server counts.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fmt;
use std::sync::{Arc, Mutex};

use dirigent::model::{OpenAiModel, OpenAiOptions};
use dirigent::{AgentLimits, EndReason, Millis, Report, RunLimits};
use dirigent_core::agent_spec::ModelProfile;
use dirigent_core::budget::BudgetKind;
use dirigent_core::call::CallForm;
use dirigent_core::tool::Access;
use dirigent_model_server::{ModelServer, Reply, Request, Script, ToolCall, Turn, Usage};
use dirigent_tests::stage::{Stage, agent};
use serde_json::{Value, json};

const AGENTS: u32 = 16;
const FORMS: [CallForm; 5] = [
    CallForm::Json,
    CallForm::JsonSchema,
    CallForm::Native,
    CallForm::ToolCall,
    CallForm::Auto,
];
/// The tools of an agent with all permissions: in the native form, their definitions are most of the first request.
const TOOLS: [&str; 8] = [
    "file_operations",
    "search",
    "find_definition",
    "list_symbols",
    "rename_symbol",
    "apply_patch",
    "execute_command",
    "git",
];
/// Replies are as long as allowed, but no longer than this many tokens.
const LONGEST_REPLY: u64 = 4_096;

#[tokio::test(flavor = "multi_thread")]
async fn host_6_sixteen_agents_stay_within_their_budget_with_a_token_per_byte() {
    check_every_form(Tokenizer::Bytes(1.0), [200_000, 600_000]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn host_6_sixteen_agents_stay_within_their_budget_with_a_token_per_three_bytes() {
    check_every_form(Tokenizer::Bytes(3.3), [60_000, 300_000]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn host_6_sixteen_agents_stay_within_their_budget_with_a_token_per_five_bytes() {
    check_every_form(Tokenizer::Bytes(5.0), [50_000, 250_000]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn host_6_sixteen_agents_stay_within_their_budget_with_more_tokens_for_code() {
    check_every_form(Tokenizer::Words, [60_000, 300_000]).await;
}

/// Checks that the server counts no more tokens than the budget, for each form of calls: with a budget that is exhausted while the agents
/// make their first requests, and with a larger one. Prints the counts.
async fn check_every_form(tokenizer: Tokenizer, budgets: [u64; 2]) {
    let mut table = vec![format!(
        "{:<12} {:>10} {:>8} {:>9} {:>8} {:>10}",
        "form", "tokenizer", "budget", "requests", "counted", "overshoot"
    )];
    let mut beyond = 0;
    for (budget, form) in budgets
        .into_iter()
        .flat_map(|budget| FORMS.map(|form| (budget, form)))
    {
        let (served, report) = run_out(form, tokenizer, Says::Truth, budget).await;
        let (counted, requests) = (served.counted(), served.requests());
        let overshoot = counted.saturating_sub(budget);
        let (form, counts) = (json!(form), tokenizer.to_string());
        let form = form.as_str().unwrap();
        table.push(format!(
            "{form:<12} {counts:>10} {budget:>8} {requests:>9} {counted:>8} {overshoot:>10}"
        ));
        // The server also counts requests of agents that were stopped at the end of the run; the report does not.
        assert!(report.usage.tokens() <= counted, "{}", table.join("\n"));
        // Code has more tokens than estimated, so the last requests in flight may exceed the budget by this much: see docs/models.md.
        let most = match tokenizer {
            Tokenizer::Bytes(_) => 0,
            Tokenizer::Words => budget / 20,
        };
        beyond += overshoot.saturating_sub(most);
    }
    println!("{}", table.join("\n"));
    assert_eq!(beyond, 0, "{}", table.join("\n"));
}

/// The estimate is close: the server counts one token for four bytes.
#[tokio::test(flavor = "multi_thread")]
async fn host_6_missing_or_implausible_server_counts_are_replaced_by_estimates() {
    for says in [Says::Nothing, Says::Nonsense] {
        for form in [CallForm::Json, CallForm::Native] {
            let (served, report) = run_out(form, Tokenizer::Bytes(4.0), says, 150_000).await;
            let counted = served.counted();
            assert!(counted <= 150_000, "{counted} of 150000, {says:?}, {form:?}");
            assert!(served.requests() > 10);
            let usage = report.usage;
            assert!(usage.model_calls > 0);
            assert_eq!(usage.estimated_calls, usage.model_calls, "{says:?}, {form:?}");
        }
    }
}

/// The usage figures that a server reports.
#[derive(Clone, Copy, Debug)]
enum Says {
    Truth,
    Nothing,
    Nonsense,
}

/// How a server counts tokens.
#[derive(Clone, Copy)]
enum Tokenizer {
    /// One token for this many bytes. One byte per token is the worst case; five bytes per token are many.
    Bytes(f64),
    /// One token for four letters or digits of a word, and one for each other character except spaces: more for code than for prose.
    Words,
}

impl fmt::Display for Tokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Tokenizer::Bytes(bytes) => write!(f, "{bytes} bytes"),
            Tokenizer::Words => f.write_str("words"),
        }
    }
}

impl Tokenizer {
    /// The tokens of this text.
    fn count(self, text: &str) -> u64 {
        match self {
            Tokenizer::Bytes(bytes) => (text.len() as f64 / bytes).ceil() as u64,
            Tokenizer::Words => {
                let words = text.split(|c: char| !c.is_alphanumeric());
                let words: usize = words.map(|word| word.len().div_ceil(4)).sum();
                let others = text.chars().filter(|c| !c.is_alphanumeric() && *c != ' ');
                (words + others.count()) as u64
            }
        }
    }

    /// The tokens of a JSON value; none for null.
    fn count_json(self, value: &Value) -> u64 {
        match value {
            Value::Null => 0,
            Value::String(text) => self.count(text),
            Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                self.count(&value.to_string())
            }
        }
    }

    /// The tokens of a whole request: each message plus four for its frame, the tools, and the schema of the reply.
    fn count_request(self, request: &Request) -> u64 {
        let messages = request.messages().iter();
        let messages: u64 = messages
            .map(|message| 4 + self.count_json(&message["content"]) + self.count_json(&message["tool_calls"]))
            .sum();
        messages + self.count_json(&request.body["tools"]) + self.count_json(&request.body["response_format"])
    }
}

/// The server's counts: tokens sent and received, by request.
#[derive(Clone, Default)]
struct Served(Arc<Mutex<Vec<(u64, u64)>>>);

impl Served {
    fn counted(&self) -> u64 {
        let served = self.0.lock().unwrap();
        served.iter().map(|(sent, received)| sent + received).sum()
    }

    fn requests(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

/// Lets sixteen agents work in parallel until the budget is exhausted.
async fn run_out(form: CallForm, tokenizer: Tokenizer, says: Says, budget: u64) -> (Served, Arc<Report>) {
    let served = Served::default();
    let counts = served.clone();
    let script = Script::from_fn(move |request| {
        let (call, last) = next_call(request);
        let most = request.body["max_tokens"].as_u64().expect("a limit on the reply");
        let reply = in_form(form, &call, last);
        let length = tokenizer.count(&text_of(&reply));
        assert!(length <= most, "{length} of {most}");
        let reply = padded(reply, form, most.min(LONGEST_REPLY), tokenizer);
        let (prompt, completion) = (
            tokenizer.count_request(request),
            tokenizer.count(&text_of(&reply)),
        );
        counts.0.lock().unwrap().push((prompt, completion));
        Turn::from(reply.with_usage(match says {
            Says::Truth => Usage::Tokens { prompt, completion },
            Says::Nothing => Usage::Absent,
            Says::Nonsense => Usage::Tokens {
                prompt: 0,
                completion: u64::MAX,
            },
        }))
    });
    let server = ModelServer::start(script).await.unwrap();
    let lines =
        (0..4_000).map(|number| format!("pub fn parse_line_{number}(text: &str) -> Option<Line> {{\n"));
    let stage = Stage::new().file("lines.rs", &lines.collect::<String>());
    let profile = ModelProfile {
        calls: form,
        ..ModelProfile::default()
    };
    let worker = agent("worker", &TOOLS).access(Access::ReadWrite);
    let worker = worker.limits(AgentLimits {
        max_turns: 200,
        timeout: Millis::from_secs(3_600),
        ..AgentLimits::default()
    });
    let model = OpenAiModel::new(OpenAiOptions::new(server.url(), "scripted")).unwrap();
    let builder = stage.builder(model).profile(profile).agent(worker);
    let dirigent = builder.build().await.unwrap();
    let limits = RunLimits {
        max_tokens: Some(budget),
        max_parallel: AGENTS,
        ..RunLimits::default()
    };
    let run = dirigent
        .start(stage.goal("Read all").limits(limits))
        .await
        .unwrap();
    let report = run.outcome().await.unwrap();
    check_exhausted(&report, budget);
    assert_eq!(server.violations(), []);
    (served, report)
}

fn check_exhausted(report: &Report, tokens: u64) {
    match report.end {
        Some(EndReason::BudgetExhausted { budget, limit, .. }) => {
            assert_eq!((budget, limit), (BudgetKind::Tokens, tokens));
        }
        ref other => panic!("{other:?}: {}", report.summary),
    }
}

/// The call that answers a request, and whether it is the last one: the lead starts sixteen agents, and each keeps reading.
fn next_call(request: &Request) -> (ToolCall, bool) {
    if request.system_prompt().starts_with("You are worker.") {
        let start = request.turn * 50;
        let read =
            json!({"operation": "read", "path": "lines.rs", "start_line": start, "end_line": start + 49});
        return (ToolCall::new("file_operations", &read), false);
    }
    let subtasks = (0..AGENTS).map(|number| {
        json!({"id": format!("s{number}"), "title": "Read", "agent": "worker", "task": format!("Read on from {number}.")})
    });
    let plan = json!({"summary": "All at once.", "subtasks": subtasks.collect::<Vec<_>>()});
    (ToolCall::new("submit_plan", &plan), true)
}

/// The call in this form.
fn in_form(form: CallForm, call: &ToolCall, last: bool) -> Reply {
    let arguments: Value = serde_json::from_str(&call.arguments).unwrap();
    let text = match form {
        CallForm::Native | CallForm::AutoNative => return Reply::calls([call.clone()]),
        CallForm::Json | CallForm::JsonSchema | CallForm::Auto => {
            json!({"tool": call.name, "parameters": arguments, "terminate": last})
        }
        CallForm::ToolCall => json!({"tool_call": {"name": call.name, "arguments": arguments}}),
    };
    Reply::text(text.to_string())
}

/// Pads the reply with line breaks to about this many tokens.
fn padded(reply: Reply, form: CallForm, tokens: u64, tokenizer: Tokenizer) -> Reply {
    let missing = tokens.saturating_sub(tokenizer.count(&text_of(&reply))) as f64;
    let padding = "\n".repeat(match tokenizer {
        Tokenizer::Bytes(bytes) => (missing * bytes) as usize,
        Tokenizer::Words => missing as usize,
    });
    let text = reply.text.clone().unwrap_or_default();
    match form {
        CallForm::Native | CallForm::AutoNative => reply.with_text(padding),
        CallForm::Json | CallForm::JsonSchema | CallForm::ToolCall | CallForm::Auto => {
            reply.with_text(format!("{text}{padding}"))
        }
    }
}

/// The whole text of a reply, including its calls.
fn text_of(reply: &Reply) -> String {
    let calls = reply.tool_calls.iter();
    let calls = calls.map(|call| format!("{}{}", call.name, call.arguments));
    let mut text = reply.text.clone().unwrap_or_default();
    text.extend(calls);
    text
}
