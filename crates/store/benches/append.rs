//! The number of entries per second that the journal stores, with one producer and with 16, with and without fsync.
//!
//! Each producer appends its next entry when the last one is stored, as a run does.
#![allow(clippy::unwrap_used)]

use std::sync::mpsc;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use dirigent_core::id::{AgentId, RunId, Scope};
use dirigent_core::time::Timestamp;
use dirigent_store::{Durability, Journal, NewEntry, NewRun, RunClaim};

/// About the size of a short model reply.
const BODY_BYTES: usize = 1_000;

fn append_and_wait(journal: &Journal, claim: &RunClaim, count: u64, durability: Durability) {
    let body = format!(
        r#"{{"agent":{{"guided":{{"guidance":"{}"}}}}}}"#,
        "x".repeat(BODY_BYTES)
    );
    let (stored, wait) = mpsc::sync_channel(1);
    for _ in 0..count {
        let stored = stored.clone();
        let entry = NewEntry {
            at: Timestamp(1),
            scope: Scope::Agent(AgentId(1)),
            body: body.clone(),
            shared: Vec::new(),
            durability,
            consumes: None,
        };
        journal.append(claim, entry, move |seq| {
            stored.send(seq).unwrap();
        });
        wait.recv().unwrap().unwrap();
    }
}

/// Time for `count` entries from each producer.
fn time(journal: &Journal, claims: &[RunClaim], count: u64, durability: Durability) -> Duration {
    let start = Instant::now();
    std::thread::scope(|scope| {
        for claim in claims {
            scope.spawn(move || append_and_wait(journal, claim, count, durability));
        }
    });
    start.elapsed()
}

fn append(c: &mut Criterion) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let journal = Journal::open(&folder.path().join("journal.db")).unwrap();
    let mut group = c.benchmark_group("append");
    let mut id = 0;
    for durability in [Durability::Normal, Durability::Full] {
        for producers in [1_u64, 16] {
            let claims: Vec<_> = (0..producers)
                .map(|_| {
                    id += 1;
                    let run = RunId(uuid::Uuid::from_u128(id));
                    journal
                        .create(run, NewRun::new("bench", "/", Timestamp(1)))
                        .unwrap()
                })
                .collect();
            group.throughput(Throughput::Elements(producers));
            let name = BenchmarkId::new(format!("{durability:?}"), producers);
            group.bench_function(name, |b| {
                b.iter_custom(|count| time(&journal, &claims, count, durability));
            });
        }
    }
    group.finish();
}

criterion_group!(benches, append);
criterion_main!(benches);
