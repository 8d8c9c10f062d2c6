//! The run's budget (HOST-6), shared by its agents. Before each model request, an agent reserves the expected
//! usage. If the request would fit only without the reservations of other agents, the agent waits. Only
//! [`Budget`] decides what fits.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dirigent_core::budget::{Budget, BudgetExceeded, ExpectedUsage, Reservation, ReservationOutcome};
use dirigent_core::message::{ModelReply, Usage};
use dirigent_model::ChatRequest;
use tokio::sync::Notify;

/// A run's budget. Its lock is never held across an await.
pub(crate) struct SharedBudget {
    budget: Mutex<Budget>,
    settled: Notify,
}

/// A budget reservation for one model request, settled on drop. If it is dropped before the request, nothing counts as used. If it is
/// dropped during the request, the input tokens count as used, because the provider has read them.
pub(crate) struct BudgetPermit {
    budget: Arc<SharedBudget>,
    reservation: Option<Reservation>,
    /// The usage that counts when the permit is dropped.
    used: Usage,
}

impl SharedBudget {
    pub(crate) fn new(budget: Budget) -> Self {
        SharedBudget {
            budget: Mutex::new(budget),
            settled: Notify::new(),
        }
    }

    /// Waits until the request fits the budget. Fails if it can never fit.
    pub(crate) async fn reserve(
        self: &Arc<Self>,
        expected: &ExpectedUsage,
    ) -> Result<BudgetPermit, BudgetExceeded> {
        loop {
            let mut settled = std::pin::pin!(self.settled.notified());
            // Registered before the check, so that no notification is missed.
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
    /// Limits the request's output tokens to the reservation, and adds the estimated number of input tokens.
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

    /// Awaits the request `ask` and records its usage. A failed request counts as no usage.
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
