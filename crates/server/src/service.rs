//! What all handlers share.

use std::sync::Arc;

use dirigent::{Dirigent, RunFilter, RunState};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::options::ServerOptions;
use crate::problem::Problem;
use crate::token::Token;

/// What all handlers share. Clones share it.
#[derive(Clone)]
pub(crate) struct Service(Arc<Shared>);

pub(crate) struct Shared {
    pub(crate) dirigent: Dirigent,
    pub(crate) token: Token,
    pub(crate) options: ServerOptions,
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
    pub(crate) fn new(dirigent: Dirigent, token: Token, options: ServerOptions) -> Self {
        Service(Arc::new(Shared {
            dirigent,
            token,
            permits: Arc::new(Semaphore::new(options.limits.requests)),
            options,
            stopping: CancellationToken::new(),
        }))
    }

    /// Refuses further runs while too many are active.
    pub(crate) async fn ensure_may_start(&self) -> Result<(), Problem> {
        let active = RunFilter::new().state(RunState::Running).limit(1);
        let (total, limit) = (self.dirigent.runs(active).await?.total, self.options.limits.runs);
        if total >= limit {
            return Err(Problem::too_many_runs(limit));
        }
        Ok(())
    }
}
