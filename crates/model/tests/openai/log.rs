//! What a test's own thread logs.
//!
//! `tracing` remembers, for all threads of a process, who wanted to hear of an event when it came first. So the one listener of this
//! process is there before any request: whoever starts a server waits for it.

use std::cell::RefCell;
use std::io::{Result as IoResult, Write};
use std::sync::Once;

thread_local! {
    static HEARD: RefCell<Option<Vec<u8>>> = const { RefCell::new(None) };
}

struct OfThisThread;

impl Write for OfThisThread {
    fn write(&mut self, bytes: &[u8]) -> IoResult<usize> {
        // A thread that ends has nobody who reads what it logs.
        let _ = HEARD.try_with(|heard| {
            if let Some(heard) = &mut *heard.borrow_mut() {
                heard.extend_from_slice(bytes);
            }
        });
        Ok(bytes.len())
    }

    fn flush(&mut self) -> IoResult<()> {
        Ok(())
    }
}

/// Has what our crates log heard, the finest of it included.
pub fn listen() {
    static LISTENER: Once = Once::new();
    LISTENER.call_once(|| {
        let subscriber = tracing_subscriber::fmt()
            .with_env_filter("dirigent_model=trace,dirigent_core=trace")
            .with_writer(|| OfThisThread)
            .finish();
        tracing::subscriber::set_global_default(subscriber).unwrap();
    });
}

/// From here on what this thread logs is kept.
pub fn begin() {
    listen();
    HEARD.set(Some(Vec::new()));
}

/// What it logged since it began.
pub fn text() -> String {
    let heard = HEARD.take().expect("it began");
    String::from_utf8(heard).unwrap()
}
