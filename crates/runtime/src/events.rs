//! The events of a run for its watchers.

use std::collections::VecDeque;

use dirigent_core::journal::Entry;
use dirigent_core::machine::Refusal;
use dirigent_core::view::{Event, RunView};
use futures::StreamExt as _;

use crate::error::RuntimeError;
use crate::run_log::EntryStream;

/// The events of a run, in order and without gaps. Even a slow reader misses none, because they come from the journal, not from the run's
/// actors.
pub struct Events {
    entries: EntryStream,
    view: Option<RunView>,
    ready: VecDeque<Event>,
}

impl Events {
    /// Creates the events of a run from its journal entries, beginning with the first one.
    pub(crate) fn new(entries: EntryStream) -> Self {
        Events {
            entries,
            view: None,
            ready: VecDeque::new(),
        }
    }

    /// Waits for the next event; `None` after the last.
    pub async fn next(&mut self) -> Option<Result<Event, RuntimeError>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(Ok(event));
            }
            let entry = match self.entries.next().await? {
                Ok(entry) => entry,
                Err(error) => return Some(Err(error.into())),
            };
            let (run, seq) = (entry.run, entry.seq);
            match self.apply(entry) {
                Ok(events) => self.ready.extend(events),
                Err(refusal) => return Some(Err(RuntimeError::Replay { run, seq, refusal })),
            }
        }
    }

    fn apply(&mut self, entry: Entry) -> Result<Vec<Event>, Refusal> {
        match &mut self.view {
            Some(view) => view.apply(entry),
            None => {
                let (view, events) = RunView::start(entry)?;
                self.view = Some(view);
                Ok(events)
            }
        }
    }

    /// The run as of the last event; `None` before the first.
    pub fn view(&self) -> Option<&RunView> {
        self.view.as_ref()
    }
}
