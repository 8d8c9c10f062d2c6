//! The run's one budget (HOST-6) as its agents share it: each reserves before it asks its model, and waits where only others'
//! reservations stand in its way. What is limited is decided by [`Budget`] alone.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dirigent_core::budget::{Budget, BudgetExceeded, ExpectedUsage, Reservation, ReservationOutcome};
use dirigent_core::message::{ModelReply, Usage};
use dirigent_model::ChatRequest;
use tokio::sync::Notify;

/// A run's budget. Nobody holds its lock across an await.
pub(crate) struct SharedBudget {
    budget: Mutex<Budget>,
    settled: Notify,
}

/// Leave to ask a model once. Dropped before it was used, it gives back all that was reserved; while the model is asked, it counts as
/// what was sent, which the provider has read by then.
pub(crate) struct BudgetPermit {
    budget: Arc<SharedBudget>,
    reservation: Option<Reservation>,
    /// What it has used when it is dropped.
    used: Usage,
}

impl SharedBudget {
    pub(crate) fn new(budget: Budget) -> Self {
        SharedBudget {
            budget: Mutex::new(budget),
            settled: Notify::new(),
        }
    }

    /// Waits until the request has room, or is certain to have none.
    pub(crate) async fn reserve(
        self: &Arc<Self>,
        expected: &ExpectedUsage,
    ) -> Result<BudgetPermit, BudgetExceeded> {
        loop {
            let mut settled = std::pin::pin!(self.settled.notified());
            // Asked to be woken before it looks, it misses nothing.
            settled.as_mut().enable();
            let grant = self.lock().reserve(expected);
            match grant {
                ReservationOutcome::Granted(reservation) => {
                    return Ok(BudgetPermit {
                        budget: self.clone(),
                        reservation: Some(reservation),
                        used: Usage::default(),
                    });
                }
                ReservationOutcome::Refused(budget_exceeded) => return Err(budget_exceeded),
                ReservationOutcome::Wait => settled.await,
            }
        }
    }

    fn settle(&self, reservation: Reservation, used: Usage) {
        self.lock().settle(reservation, used);
        self.settled.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, Budget> {
        self.budget.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BudgetPermit {
    /// The request as it may be sent: with what its reply is allowed, and the tokens that it is expected to have.
    pub(crate) fn limit_request(&self, request: ChatRequest) -> ChatRequest {
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
    pub(crate) async fn track<E>(
        mut self,
        ask: impl Future<Output = Result<ModelReply, E>>,
    ) -> Result<ModelReply, E> {
        self.used = self
            .reservation
            .as_ref()
            .map(Reservation::usage_if_sent)
            .unwrap_or_default();
        let result = ask.await;
        self.used = match &result {
            Ok(reply) => reply.metered_usage(),
            Err(_) => Usage::default(),
        };
        result
    }
}

impl Drop for BudgetPermit {
    fn drop(&mut self) {
        if let Some(reservation) = self.reservation.take() {
            self.budget.settle(reservation, self.used);
        }
    }
}
