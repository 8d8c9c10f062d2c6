//! The log of a test's own thread.
//!
//! `tracing` caches for all threads of a process whether anybody listened when an event first occurred. So the process's only subscriber is
//! installed before any request: starting a server installs it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::cell::RefCell;
use std::fmt::Debug;
use std::sync::Once;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

thread_local! {
    static HEARD: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// A subscriber that collects events of every level.
struct OfThisThread;

impl Visit for OfThisThread {
    fn record_debug(&mut self, _: &Field, value: &dyn Debug) {
        // Fails while the thread ends; then nobody reads its log.
        let _ = HEARD.try_with(|heard| {
            if let Some(heard) = &mut *heard.borrow_mut() {
                heard.push_str(&format!("{value:?}\n"));
            }
        });
    }
}

impl Subscriber for OfThisThread {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        span.record(&mut OfThisThread);
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        values.record(&mut OfThisThread);
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        event.record(&mut OfThisThread);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Installs the subscriber of this process.
pub fn listen() {
    static LISTENER: Once = Once::new();
    LISTENER.call_once(|| tracing::subscriber::set_global_default(OfThisThread).unwrap());
}

/// Starts collecting this thread's log.
pub fn begin() {
    listen();
    HEARD.set(Some(String::new()));
}

/// The log of this thread since `begin`.
pub fn text() -> String {
    HEARD.take().expect("it began")
}
