//! What a test's own thread logs.
//!
//! `tracing` remembers, for all threads of a process, who wanted to hear of an event when it came first. So the one listener of this
//! process is there before any request: whoever starts a server waits for it.
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

/// Keeps what is logged, at every level.
struct OfThisThread;

impl Visit for OfThisThread {
    fn record_debug(&mut self, _: &Field, value: &dyn Debug) {
        // A thread that ends has nobody who reads what it logs.
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

/// Has everything heard that is logged.
pub fn listen() {
    static LISTENER: Once = Once::new();
    LISTENER.call_once(|| tracing::subscriber::set_global_default(OfThisThread).unwrap());
}

/// From here on what this thread logs is kept.
pub fn begin() {
    listen();
    HEARD.set(Some(String::new()));
}

/// What it logged since it began.
pub fn text() -> String {
    HEARD.take().expect("it began")
}
