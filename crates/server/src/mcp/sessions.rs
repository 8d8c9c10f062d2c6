//! The sessions of MCP clients at `/mcp`: bounded in number, and ended by the client or after some time without requests.
//!
//! A session is in use while a request of its client is under way, which includes a call that waits for a run for hours and an open stream of
//! notifications. So the time of idleness needs not be longer than any call.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::response::Response;
use http_body::{Frame, SizeHint};
use rmcp::transport::streamable_http_server::session::SessionManager as _;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::problem::Problem;

/// The header that names the session of a request.
pub(super) const SESSION_ID: &str = "mcp-session-id";

/// The sessions of a server. Clones share them.
#[derive(Clone)]
pub(super) struct Sessions(Arc<Shared>);

struct Shared {
    manager: Arc<LocalSessionManager>,
    /// The number of requests of each session that are under way.
    under_way: Mutex<HashMap<String, watch::Sender<usize>>>,
    /// A permit for each session.
    permits: Arc<Semaphore>,
    limit: usize,
    idle_time: Duration,
    /// Cancelled when the server begins to shut down, which ends all sessions.
    stopping: CancellationToken,
}

/// A request of a session that is under way, until dropped.
pub(super) struct SessionUse {
    sessions: Sessions,
    id: String,
}

impl Sessions {
    pub(super) fn new(
        manager: Arc<LocalSessionManager>,
        limit: usize,
        idle_time: Duration,
        stopping: CancellationToken,
    ) -> Self {
        Sessions(Arc::new(Shared {
            manager,
            under_way: Mutex::default(),
            permits: Arc::new(Semaphore::new(limit)),
            limit,
            idle_time,
            stopping,
        }))
    }

    /// Reserves a place for a session that is going to begin.
    pub(super) fn reserve(&self) -> Result<OwnedSemaphorePermit, Problem> {
        let permit = self.0.permits.clone().try_acquire_owned();
        permit.map_err(|_| Problem::too_many_sessions(self.0.limit))
    }

    /// Counts a session that has begun, until it ends.
    pub(super) fn begin(&self, id: &str, place: OwnedSemaphorePermit) {
        let (sender, under_way) = watch::channel(0);
        self.lock().insert(id.to_owned(), sender);
        let (sessions, id) = (self.clone(), id.to_owned());
        tokio::spawn(async move {
            let until_idle = sessions.until_idle(under_way);
            sessions.0.stopping.run_until_cancelled(until_idle).await;
            sessions.end(&id).await;
            drop(place);
        });
    }

    /// Notes a request of a session; `None` if there is no such session.
    pub(super) fn begin_request(&self, id: &str) -> Option<SessionUse> {
        self.lock().get(id)?.send_modify(|count| *count += 1);
        Some(SessionUse {
            sessions: self.clone(),
            id: id.to_owned(),
        })
    }

    /// Forgets a session that its client has ended.
    pub(super) fn forget(&self, id: &str) {
        self.lock().remove(id);
    }

    /// Waits until no request has been under way for the time of idleness, or the session has ended.
    async fn until_idle(&self, mut under_way: watch::Receiver<usize>) {
        loop {
            let is_idle = *under_way.borrow_and_update() == 0;
            let changed = tokio::select! {
                changed = under_way.changed() => changed,
                () = sleep(self.0.idle_time), if is_idle => return,
            };
            if changed.is_err() {
                return;
            }
        }
    }

    async fn end(&self, id: &str) {
        self.forget(id);
        // Fails only if the session has ended already.
        let _ = self.0.manager.close_session(&id.into()).await;
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, watch::Sender<usize>>> {
        self.0.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SessionUse {
    /// Keeps the session in use until the response was sent or its client has gone.
    pub(super) fn keep_for(self, response: Response) -> Response {
        response.map(|body| Body::new(UsingBody { body, _use: self }))
    }
}

impl Drop for SessionUse {
    fn drop(&mut self) {
        if let Some(under_way) = self.sessions.lock().get(&self.id) {
            under_way.send_modify(|count| *count = count.saturating_sub(1));
        }
    }
}

struct UsingBody {
    body: Body,
    _use: SessionUse,
}

impl http_body::Body for UsingBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
