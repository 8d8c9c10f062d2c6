//! Usage tables (HOST-10).

use dirigent::render::{self, Detail};
use dirigent::{AgentId, Cost, Millis};
use dirigent_core::message::Usage;
use dirigent_core::usage::{AgentUsage, ModelUsage, UsageReport, UsageTotals};

use crate::fixture::usage;

fn model(name: &str, totals: UsageTotals) -> ModelUsage {
    ModelUsage {
        model: name.to_owned(),
        totals,
    }
}

fn agent(id: u32, name: &str, totals: UsageTotals, models: Vec<ModelUsage>) -> AgentUsage {
    AgentUsage {
        agent: AgentId(id),
        name: name.to_owned(),
        totals,
        models,
    }
}

/// A lead with two models, one of which sent a malformed reply; a sub-agent whose model has no name; a reflector that was cancelled during
/// a model request; and a call of the plan itself.
fn cancelled() -> UsageReport {
    let big = UsageTotals {
        usage: Usage {
            model_calls: 2,
            tool_calls: 1,
            cached_input_tokens: 80,
            cost: Cost(10_000_000),
            ..usage(200, 40)
        },
        malformed: 1,
        model_time: Millis(200),
        tool_time: Millis(50),
    };
    let small = UsageTotals {
        usage: usage(30, 7),
        model_time: Millis(50),
        ..UsageTotals::default()
    };
    let unknown = UsageTotals {
        usage: usage(10, 5),
        model_time: Millis(200),
        ..UsageTotals::default()
    };
    let waiting = UsageTotals {
        model_time: Millis(80),
        ..UsageTotals::default()
    };
    let own_calls = UsageTotals {
        usage: Usage {
            tool_calls: 1,
            ..Usage::default()
        },
        tool_time: Millis(100),
        ..UsageTotals::default()
    };
    let sum = |parts: &[UsageTotals]| {
        let mut sum = UsageTotals::default();
        parts.iter().for_each(|part| sum += *part);
        sum
    };
    let models =
        [("big", big), ("small", small), ("unknown", unknown)].map(|(name, totals)| model(name, totals));
    let [of_big, of_small, of_unknown] = models.clone();
    UsageReport {
        total: sum(&[big, small, unknown, waiting, own_calls]),
        active_time: Millis(600),
        models: models.into(),
        agents: vec![
            agent(1, "lead", sum(&[big, small]), vec![of_big, of_small]),
            agent(2, "explore", unknown, vec![of_unknown]),
            agent(3, "reflector", waiting, Vec::new()),
        ],
    }
}

#[track_caller]
fn check(account: &UsageReport, detail: Detail, lines: &[&str]) {
    let mut table = lines.join("\n");
    if !table.is_empty() {
        table.push('\n');
    }
    assert_eq!(render::usage(account, detail), table);
}

#[test]
fn host_10_a_table_has_a_line_for_each_model_and_in_detail_for_each_agent() {
    let account = cancelled();
    let models = [
        "  model    calls  tokens in  cached  tokens out   cost  malformed    time",
        "  big          2        200      80          40  $0.01          1  200 ms",
        "  small        1         30                   7                     50 ms",
        "  unknown      1         10                   5                    200 ms",
        "  all          4        240      80          52  $0.01          1  450 ms",
    ];
    check(&account, Detail::Concise, &models);
    let agents = [
        "",
        "  agent         model    calls  tokens in  cached  tokens out   cost  malformed    time  tool calls  tool time",
        "  a1 lead       big          2        200      80          40  $0.01          1  200 ms           1      50 ms",
        "                small        1         30                   7                     50 ms",
        "  a2 explore    unknown      1         10                   5                    200 ms",
        "  a3 reflector                                                                    80 ms",
        "  run                                                                                             1     100 ms",
    ];
    check(&account, Detail::Verbose, &[&models[..], &agents].concat());
}

#[test]
fn host_10_a_table_has_no_costs_if_no_price_is_known() {
    let totals = UsageTotals {
        usage: usage(1_200, 34),
        model_time: Millis(5_600),
        ..UsageTotals::default()
    };
    let models = vec![ModelUsage {
        model: "a\nb\u{1b}".to_owned(),
        totals,
    }];
    let account = UsageReport {
        total: totals,
        active_time: Millis(6_000),
        models: models.clone(),
        agents: vec![AgentUsage {
            agent: AgentId(1),
            name: "lead".to_owned(),
            totals,
            models,
        }],
    };
    check(
        &account,
        Detail::Verbose,
        &[
            "  model  calls  tokens in  tokens out   time",
            "  a b        1       1200          34  5.6 s",
            "",
            "  agent    model  calls  tokens in  tokens out   time",
            "  a1 lead  a b        1       1200          34  5.6 s",
        ],
    );
}

#[test]
fn host_6_the_usage_table_counts_the_calls_whose_tokens_are_estimated() {
    let totals = UsageTotals {
        usage: Usage {
            model_calls: 2,
            estimated_calls: 1,
            ..usage(230, 40)
        },
        model_time: Millis(200),
        ..UsageTotals::default()
    };
    let account = UsageReport {
        total: totals,
        models: vec![ModelUsage {
            model: "big".to_owned(),
            totals,
        }],
        ..UsageReport::default()
    };
    check(
        &account,
        Detail::Concise,
        &[
            "  model  calls  estimated  tokens in  tokens out    time",
            "  big        2          1        230          40  200 ms",
        ],
    );
}

#[test]
fn host_10_a_run_that_asked_no_model_has_no_table() {
    check(&UsageReport::default(), Detail::Verbose, &[]);
    let started = UsageReport {
        agents: vec![agent(1, "lead", UsageTotals::default(), Vec::new())],
        ..UsageReport::default()
    };
    check(&started, Detail::Concise, &[]);
}
