//! What all handlers share.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use dirigent::Dirigent;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::board::Board;
use crate::options::ServerOptions;
use crate::private_files::PrivateFiles;
use crate::run_slots::RunSlots;
use crate::sessions::Sessions;
use crate::token::Token;
use crate::usage::UsageCache;

/// What all handlers share. Clones share it.
#[derive(Clone)]
pub(crate) struct Service(Arc<Shared>);

pub(crate) struct Shared {
    pub(crate) dirigent: Dirigent,
    pub(crate) token: Token,
    /// The sessions of browsers, which got a cookie for the token.
    pub(crate) sessions: Sessions,
    /// The files that no agent may read.
    pub(crate) private: PrivateFiles,
    pub(crate) options: ServerOptions,
    /// The states of all runs.
    pub(crate) board: Board,
    /// The usage of runs that was read.
    pub(crate) usage: UsageCache,
    /// The slots for active runs.
    pub(crate) runs: RunSlots,
    /// A permit for each request that may be under way.
    pub(crate) permits: Arc<Semaphore>,
    /// Cancelled when the server begins to shut down.
    pub(crate) stopping: CancellationToken,
}

impl std::ops::Deref for Service {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

impl Service {
    pub(crate) fn new(
        dirigent: Dirigent,
        token: Token,
        sessions: Sessions,
        private: PrivateFiles,
        options: ServerOptions,
    ) -> Self {
        Service(Arc::new(Shared {
            usage: UsageCache::default(),
            board: Board::new(dirigent.clone(), epoch()),
            dirigent,
            token,
            sessions,
            private,
            runs: RunSlots::new(options.limits.runs),
            permits: Arc::new(Semaphore::new(options.limits.requests)),
            options,
            stopping: CancellationToken::new(),
        }))
    }
}

/// A name of this server that no earlier one has.
fn epoch() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    format!("{:x}", since.map(|time| time.as_nanos()).unwrap_or_default())
}
