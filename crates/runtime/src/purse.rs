//! The run's one budget (HOST-6) as its agents share it: each reserves before it asks its model, and waits where only others'
//! reservations stand in its way. What is limited is decided by [`Budget`] alone.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dirigent_core::budget::{Budget, Expected, Grant, Overdrawn, Reservation};
use dirigent_core::message::{ModelReply, Usage};
use dirigent_model::ChatRequest;
use tokio::sync::Notify;

/// A run's budget. Nobody holds its lock across an await.
pub(crate) struct Purse {
    budget: Mutex<Budget>,
    settled: Notify,
}

/// Leave to ask a model once. Dropped before it was used, it gives back all that was reserved; while the model is asked, it counts as
/// what was sent, which the provider has read by then.
pub(crate) struct Leave {
    purse: Arc<Purse>,
    reservation: Option<Reservation>,
    /// What it has used when it is dropped.
    used: Usage,
}

impl Purse {
    pub(crate) fn new(budget: Budget) -> Self {
        Purse {
            budget: Mutex::new(budget),
            settled: Notify::new(),
        }
    }

    /// Waits until the request has room, or is certain to have none.
    pub(crate) async fn reserve(self: &Arc<Self>, expected: &Expected) -> Result<Leave, Overdrawn> {
        loop {
            let mut settled = std::pin::pin!(self.settled.notified());
            // Asked to be woken before it looks, it misses nothing.
            settled.as_mut().enable();
            let grant = self.budget().reserve(expected);
            match grant {
                Grant::Granted(reservation) => {
                    return Ok(Leave {
                        purse: self.clone(),
                        reservation: Some(reservation),
                        used: Usage::default(),
                    });
                }
                Grant::Refused(overdrawn) => return Err(overdrawn),
                Grant::Wait => settled.await,
            }
        }
    }

    fn settle(&self, reservation: Reservation, used: Usage) {
        self.budget().settle(reservation, used);
        self.settled.notify_waiters();
    }

    fn budget(&self) -> MutexGuard<'_, Budget> {
        self.budget.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Leave {
    /// The request as it may be sent: with what its reply is allowed, and the tokens that it is expected to have.
    pub(crate) fn bound(&self, request: ChatRequest) -> ChatRequest {
        match &self.reservation {
            Some(reservation) => ChatRequest {
                max_output_tokens: reservation.max_output_tokens,
                input_tokens: Some(reservation.input_tokens()),
                ..request
            },
            None => request,
        }
    }

    /// Asks the model. A request that fails has used nothing.
    pub(crate) async fn spend<E>(
        mut self,
        ask: impl Future<Output = Result<ModelReply, E>>,
    ) -> Result<ModelReply, E> {
        self.used = self
            .reservation
            .as_ref()
            .map(Reservation::sent)
            .unwrap_or_default();
        let result = ask.await;
        self.used = match &result {
            Ok(reply) => reply.counted(),
            Err(_) => Usage::default(),
        };
        result
    }
}

impl Drop for Leave {
    fn drop(&mut self) {
        if let Some(reservation) = self.reservation.take() {
            self.purse.settle(reservation, self.used);
        }
    }
}
