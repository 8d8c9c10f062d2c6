//! The time to parse a reply, for each form of calls. Also shows that the worst megabyte takes at most a fixed multiple of the time for a
//! megabyte of prose: `cargo bench -p dirigent-core --bench parser`.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use dirigent_core::call::{CallForm, parse};
use dirigent_core::message::ModelReply;
use serde_json::json;

const FORMS: [(&str, CallForm); 4] = [
    ("json", CallForm::Json),
    ("native", CallForm::Native),
    ("tool_call", CallForm::ToolCall),
    ("auto", CallForm::Auto),
];

/// A typical reply of a model.
fn usual() -> String {
    let thinking = "The function is called from three places, so I look at each of them. ".repeat(20);
    let call = json!({"tool": "file_operations", "parameters": {"operation": "read", "path": "src/lib.rs"}, "terminate": false});
    format!("<think>{thinking}</think>\nI will read the file first.\n```json\n{call}\n```\n")
}

fn parser(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("parser");
    let usual = ModelReply::text(usual());
    for (name, form) in FORMS {
        group.throughput(Throughput::Bytes(usual.content.len() as u64));
        group.bench_with_input(BenchmarkId::new("usual", name), &form, |bencher, form| {
            bencher.iter(|| parse(black_box(&usual), *form));
        });
    }
    group.sample_size(10);
    for (name, pattern) in [
        ("prose", "All is well. "),
        ("empty keys", "{\"\":"),
        ("tool", "{\"tool\":"),
        ("tool_call", "{\"tool_call\":{"),
        ("fences", "```json\n{"),
        ("tags", "<tool_call>"),
        ("tagged braces", "<tool_call>{"),
        ("hidden braces", "{\"x\":\"{\","),
        ("python quotes", "{'a':'"),
        ("python words", "{\"a\":True,\"b\":"),
        ("python calls", "{\"tool\":None,\"b\":"),
    ] {
        let reply = ModelReply::text(pattern.repeat((1 << 20) / pattern.len()));
        for (form_name, form) in FORMS {
            group.throughput(Throughput::Bytes(reply.content.len() as u64));
            group.bench_with_input(
                BenchmarkId::new(format!("a megabyte of {name}"), form_name),
                &form,
                |bencher, form| bencher.iter(|| parse(black_box(&reply), *form)),
            );
        }
    }
    group.finish();
}

criterion_group!(benches, parser);
criterion_main!(benches);
