//! Detection of clients that hang up.

use std::sync::Arc;

use crate::request_log::RequestLog;

/// A response in progress. If it is dropped before it is complete, the client has hung up.
pub(crate) struct ResponseGuard {
    request_log: Arc<RequestLog>,
    request: usize,
    complete: bool,
}

impl ResponseGuard {
    pub(crate) fn new(request_log: Arc<RequestLog>, request: usize) -> Self {
        Self {
            request_log,
            request,
            complete: false,
        }
    }

    /// Marks the response as complete.
    pub(crate) fn mark_complete(&mut self) {
        self.complete = true;
    }
}

impl Drop for ResponseGuard {
    fn drop(&mut self) {
        if !self.complete {
            self.request_log.hung_up(self.request);
        }
    }
}
