//! Watches all runs of the journal, whichever process owns them, and delivers messages about them.

use std::collections::HashMap;
use std::sync::Arc;

use dirigent::events::Timestamp;
use dirigent::{DirigentError, RunFilter, RunId, RunRecord, RunState};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::client::new_client;
use super::delivery::Sender;
use super::message::Message;
use super::progress::Progress;
use crate::clock::now;
use crate::service::Service;

/// How far back each look goes, in milliseconds: longer than it takes until the end of a run is in the list of runs.
const OVERLAP: u64 = 5_000;

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
    let mut watch = Watch::new(service, client, started);
    tokio::select! {
        biased;
        () = stopping.cancelled() => {}
        () = watch.run() => {}
    }
    watch.store(Store::Always).await;
}

/// When the progress is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Store {
    Always,
    /// If the stored progress is old.
    IfLate,
}

/// What is known about the watched runs.
struct Watch {
    context: Context,
    /// Events until this time were told before.
    since: Timestamp,
    /// The time of the last look.
    looked_at: Timestamp,
    /// The progress that was stored last.
    stored: Timestamp,
    /// The last journal entry of each run whose events were told.
    told: HashMap<RunId, Told>,
    /// The runs whose events are being read.
    readers: JoinSet<Reading>,
}

/// How far the events of a run were read.
struct Reading {
    run: RunId,
    /// The last journal entry.
    seq: u64,
    failed: bool,
}

/// How much of a run was told.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    /// The last journal entry.
    seq: u64,
    /// When the run had ended, as far as known.
    ended_at: Option<Timestamp>,
    is_being_read: bool,
}

/// What the readers of runs need. Clones share it.
#[derive(Clone)]
struct Context {
    service: Service,
    sender: Arc<Sender>,
    progress: Progress,
}

impl Watch {
    fn new(service: Service, client: reqwest::Client, started: Timestamp) -> Self {
        let progress = Progress::new(service.options.webhooks.progress_file.clone());
        // An event in the millisecond of the start counts, too.
        let started = Timestamp(started.0.saturating_sub(1));
        let since = progress.load().map_or(started, |since| since.min(started));
        Watch {
            context: Context {
                service,
                sender: Arc::new(Sender::new(client)),
                progress,
            },
            since,
            looked_at: since,
            stored: since,
            told: HashMap::new(),
            readers: JoinSet::new(),
        }
    }

    async fn run(&mut self) {
        loop {
            let looking_at = now();
            match self.look().await {
                Ok(()) => self.looked_at = looking_at,
                Err(error) => tracing::warn!("webhooks: the runs cannot be listed: {error}"),
            }
            self.store(Store::IfLate).await;
            let interval = self.context.service.options.webhooks.interval;
            let pause = sleep(interval);
            tokio::pin!(pause);
            loop {
                tokio::select! {
                    () = &mut pause => break,
                    Some(ended) = self.readers.join_next() => {
                        // A reader that panics or is aborted says no run: then the process ends, or has a defect.
                        if let Ok(reading) = ended {
                            let told = self.told.entry(reading.run).or_default();
                            (told.seq, told.is_being_read) = (reading.seq, false);
                            if reading.failed {
                                told.ended_at = None;
                                // The next look finds the run again.
                                self.looked_at = self.since;
                            }
                        }
                    }
                }
            }
        }
    }

    /// Begins to read the runs that are active, or have ended since the last look.
    async fn look(&mut self) -> Result<(), DirigentError> {
        let dirigent = self.context.service.dirigent.clone();
        let active = RunFilter::new().state(RunState::Running).limit(usize::MAX);
        let ended = RunFilter::new()
            .ended_after(before(self.looked_at))
            .limit(usize::MAX);
        let mut records = dirigent.runs(ended).await?.runs;
        records.extend(dirigent.runs(active).await?.runs);
        for record in records {
            let told = self.told.entry(record.run).or_insert_with(|| Told {
                // The entries that a fork shares with its origin are no news.
                seq: record.forked_from.as_ref().map_or(0, |origin| origin.seq),
                ..Told::default()
            });
            let is_known =
                record.ended_at.is_some() && record.owner_pid.is_none() && told.ended_at == record.ended_at;
            if told.is_being_read || is_known || record.entries == 0 {
                continue;
            }
            told.ended_at = record.ended_at;
            told.is_being_read = true;
            let (context, seq, since) = (self.context.clone(), told.seq, self.since);
            self.readers.spawn(read(context, record, seq, since));
        }
        Ok(())
    }

    /// Stores until when messages were delivered.
    async fn store(&mut self, when: Store) {
        let until = before(self.looked_at);
        if when == Store::IfLate && until.0 < self.stored.0 + OVERLAP {
            return;
        }
        let progress = self.context.progress.clone();
        match tokio::task::spawn_blocking(move || progress.store(until)).await {
            Ok(Ok(())) => self.stored = until,
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
            context.send(&Arc::new(message));
        }
    }
    if let Some(unread) = unread {
        unread.end();
    }
    Reading { run, seq, failed }
}

impl Context {
    /// Sends a message to each webhook that wants it.
    fn send(&self, message: &Arc<Message>) {
        let options = &self.service.options.webhooks;
        for (index, hook) in options.hooks.iter().enumerate() {
            if !hook.wants(message.event) {
                continue;
            }
            let pending = self.progress.begin(message.at);
            let (context, message) = (self.clone(), message.clone());
            tokio::spawn(async move {
                let service = context.service.clone();
                let options = &service.options.webhooks;
                let hook = &options.hooks[index];
                tokio::select! {
                    biased;
                    // What is not delivered now is delivered after the next start.
                    () = service.stopping.cancelled() => {}
                    () = hook.deliver(&context.sender, &message, &options.pauses) => pending.end(),
                }
            });
        }
    }
}

/// A moment before a time, so that nothing is missed that was stored a little later than it happened.
fn before(at: Timestamp) -> Timestamp {
    Timestamp(at.0.saturating_sub(OVERLAP))
}
