//! Forwarding of a reply's text while the model generates it.

use std::fmt;
use std::sync::Arc;

/// A callback that receives a reply's text while the model generates it. It runs in the task that reads the reply, so it must not
/// block.
///
/// The text is only a preview: a retried request sends its text again from the start. Use the finished reply for any other purpose.
#[derive(Clone)]
pub struct DeltaSink(Arc<dyn Fn(&str) + Send + Sync>);

impl DeltaSink {
    /// Calls `callback` with each piece of the text, in order.
    pub fn new(callback: impl Fn(&str) + Send + Sync + 'static) -> Self {
        DeltaSink(Arc::new(callback))
    }

    /// Sends a piece of the text to the callback. Empty pieces are dropped.
    pub fn send(&self, text: &str) {
        if !text.is_empty() {
            (self.0)(text);
        }
    }
}

impl fmt::Debug for DeltaSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DeltaSink")
    }
}
