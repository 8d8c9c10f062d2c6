//! Watches all runs of the journal, whichever process owns them, and delivers messages about them.

use std::collections::{BTreeSet, HashMap};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use dirigent::events::Timestamp;
use dirigent::{DirigentError, RunFilter, RunId, RunRecord, RunState};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep, sleep_until};

use super::client::new_client;
use super::message::Message;
use super::progress::Progress;
use super::queues::Queues;
use crate::clock::now;
use crate::service::Service;

/// How far back the stored progress goes, in milliseconds: longer than it takes until an event is noticed.
const OVERLAP: u64 = 5_000;
/// The time after which the progress is stored again.
const STORE_INTERVAL: Duration = Duration::from_secs(5);
/// The pause after the journal could not be read.
const RETRY_PAUSE: Duration = Duration::from_secs(5);
/// The number of finished runs of which it is known what was told. An older one that goes on is told from the end of the last forgotten one on.
const MAX_FINISHED: usize = 10_000;

/// Watches runs until the server shuts down. Events from this call on count, even if the future is first polled later.
pub(crate) fn watch_runs(service: Service) -> impl Future<Output = ()> + Send {
    watch_since(service, now())
}

async fn watch_since(service: Service, started: Timestamp) {
    if service.options.webhooks.hooks.is_empty() {
        return;
    }
    let client = match tokio::task::spawn_blocking(new_client).await {
        Ok(Ok(client)) => client,
        Ok(Err(error)) => {
            return tracing::error!("webhooks are not called, because there is no HTTP client: {error}");
        }
        Err(_) => return,
    };
    let stopping = service.stopping.clone();
    let mut watch = Watch::new(service, &client, started);
    tokio::select! {
        biased;
        () = stopping.cancelled() => {}
        () = watch.run() => {}
    }
    watch.store().await;
}

/// What is known about the watched runs.
struct Watch {
    context: Context,
    /// Events until this time were told before.
    since: Timestamp,
    /// The time until which all changes were noticed.
    noticed: Timestamp,
    told: HashMap<RunId, Told>,
    /// The runs whose events are being read.
    readers: JoinSet<Reading>,
}

/// How far the events of a run were read.
struct Reading {
    run: RunId,
    /// The last journal entry that caused an event.
    seq: u64,
    failed: bool,
}

/// How much of a run was told.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    /// The last journal entry whose events were told.
    seq: u64,
    /// The number of journal entries when reading began last.
    entries: u64,
    ended_at: Option<Timestamp>,
    is_being_read: bool,
}

/// What the readers of runs need. Clones share it.
#[derive(Clone)]
struct Context {
    service: Service,
    queues: Queues,
    progress: Progress,
}

impl Watch {
    fn new(service: Service, client: &reqwest::Client, started: Timestamp) -> Self {
        let options = &service.options.webhooks;
        let progress = Progress::new(options.progress_file.clone());
        // An event in the millisecond of the start counts, too.
        let started = Timestamp(started.0.saturating_sub(1));
        let since = progress.load().map_or(started, |since| since.min(started));
        Watch {
            context: Context {
                queues: Queues::start(options, client, &progress, &service.stopping),
                service,
                progress,
            },
            since,
            noticed: since,
            told: HashMap::new(),
            readers: JoinSet::new(),
        }
    }

    async fn run(&mut self) {
        loop {
            let Err(error) = self.follow_changes().await;
            tracing::warn!(
                "webhooks: the runs cannot be watched, and are looked at again in {RETRY_PAUSE:?}: {error}"
            );
            sleep(RETRY_PAUSE).await;
        }
    }

    /// Reads the runs that have changed since the last time, and those that change from now on.
    async fn follow_changes(&mut self) -> Result<Infallible, DirigentError> {
        // Watched first, so that no change after the list is missed.
        let mut changes = self.context.service.dirigent.run_changes().await?;
        let mut noticed = now();
        self.list().await?;
        self.noticed = noticed;
        let mut store_at = Instant::now() + STORE_INTERVAL;
        let overlap = Duration::from_millis(OVERLAP);
        let mut quiet_at = Instant::now() + overlap;
        loop {
            tokio::select! {
                biased;
                () = sleep_until(store_at) => {
                    self.forget_surplus();
                    self.store().await;
                    store_at = Instant::now() + STORE_INTERVAL;
                }
                Some(ended) = self.readers.join_next() => self.finish(ended).await?,
                changed = changes.next() => {
                    let changed = changed?;
                    self.look(changed.runs).await?;
                    self.noticed = noticed;
                    quiet_at = Instant::now() + overlap;
                }
                // What happened before this moment is noticed by then.
                () = sleep_until(quiet_at) => {
                    self.noticed = noticed;
                    quiet_at = Instant::now() + overlap;
                }
            }
            noticed = now();
        }
    }

    /// Reads the runs that are active, or have ended since the last change that was noticed.
    async fn list(&mut self) -> Result<(), DirigentError> {
        let dirigent = self.context.service.dirigent.clone();
        let active = RunFilter::new().state(RunState::Running).limit(usize::MAX);
        let ended = RunFilter::new()
            .ended_after(before(self.noticed))
            .limit(usize::MAX);
        let mut records = dirigent.runs(ended).await?.runs;
        records.extend(dirigent.runs(active).await?.runs);
        records.into_iter().for_each(|record| self.begin(record));
        Ok(())
    }

    /// Reads these runs, unless they are being read.
    async fn look(&mut self, mut runs: BTreeSet<RunId>) -> Result<(), DirigentError> {
        runs.retain(|run| self.told.get(run).is_none_or(|told| !told.is_being_read));
        if !runs.is_empty() {
            let records = self.context.service.dirigent.records(runs).await?;
            records.into_iter().for_each(|record| self.begin(record));
        }
        Ok(())
    }

    /// Begins to read a run, if it has entries that were not read.
    fn begin(&mut self, record: RunRecord) {
        let told = self.told.entry(record.run).or_insert_with(|| Told {
            // The entries that a fork shares with its origin are no news.
            seq: record.forked_from.as_ref().map_or(0, |origin| origin.seq),
            ..Told::default()
        });
        if told.is_being_read || record.entries == told.entries {
            return;
        }
        (told.entries, told.ended_at, told.is_being_read) = (record.entries, record.ended_at, true);
        let (context, seq, since) = (self.context.clone(), told.seq, self.since);
        self.readers.spawn(read(context, record, seq, since));
    }

    /// Notes how far a run was read, and reads what came meanwhile.
    async fn finish(&mut self, ended: Result<Reading, JoinError>) -> Result<(), DirigentError> {
        // A reader that panics or is aborted says no run: then the process ends, or has a defect.
        let Ok(reading) = ended else { return Ok(()) };
        let told = self.told.entry(reading.run).or_default();
        (told.seq, told.is_being_read) = (reading.seq, false);
        if reading.failed {
            told.entries = 0;
        }
        self.look(BTreeSet::from([reading.run])).await
    }

    /// Forgets the runs that ended first, if there are too many.
    fn forget_surplus(&mut self) {
        let finished = self.told.iter().filter(|(_, told)| !told.is_being_read);
        let mut finished: Vec<_> = finished
            .filter_map(|(run, told)| Some((told.ended_at?, *run)))
            .collect();
        let surplus = finished.len().saturating_sub(MAX_FINISHED);
        finished.sort_unstable();
        for (ended_at, run) in finished.drain(..surplus) {
            self.since = self.since.max(ended_at);
            self.told.remove(&run);
        }
    }

    /// Stores until when messages were delivered.
    async fn store(&mut self) {
        let until = before(self.noticed);
        let progress = self.context.progress.clone();
        match tokio::task::spawn_blocking(move || progress.store(until)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::warn!(
                    "webhooks: what was delivered cannot be stored, so it may be delivered again: {error}"
                );
            }
            // The process ends.
            Err(_) => {}
        }
    }
}

/// Reads the events of a run after an entry, and sends messages about those after a time, until the run ends or stops.
async fn read(context: Context, record: RunRecord, mut seq: u64, since: Timestamp) -> Reading {
    let run = record.run;
    let mut failed = false;
    // Until all its messages are pending themselves, those of a run that has ended are not delivered.
    let unread = record
        .ended_at
        .map(|_| context.progress.begin(Timestamp(since.0 + 1)));
    let mut events = context.service.dirigent.events(run, seq);
    while let Some(event) = events.next().await {
        let event = match event {
            Ok(event) => event,
            Err(error) => {
                tracing::warn!("webhooks: run {run} cannot be read: {error}");
                failed = true;
                break;
            }
        };
        seq = event.seq;
        if event.at > since
            && let Some(message) = Message::about(&event, &record)
        {
            context.queues.send(&Arc::new(message));
        }
    }
    if let Some(unread) = unread {
        unread.end();
    }
    if failed {
        sleep(RETRY_PAUSE).await;
    }
    Reading { run, seq, failed }
}

/// A moment before a time, so that nothing is missed that was stored a little later than it happened.
fn before(at: Timestamp) -> Timestamp {
    Timestamp(at.0.saturating_sub(OVERLAP))
}
