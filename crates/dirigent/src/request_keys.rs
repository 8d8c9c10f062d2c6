//! Requests that clients of a service may repeat: a repeated request has no further effect, and gets the answer of the first one.

use std::sync::LazyLock;

use dirigent_core::time::Timestamp;
use dirigent_runtime::Orchestrator;
use dirigent_store::{EarlierRequest, KeyedRequest};

use crate::time::now;
use crate::{Dirigent, DirigentError};

/// How long an answer is kept, in milliseconds: 24 hours.
const KEPT_MS: u64 = 24 * 60 * 60 * 1000;

/// The name of this process.
static HANDLER: LazyLock<String> = LazyLock::new(|| Orchestrator::new_run_id().to_string());

/// What is known about a request with a key ([`Dirigent::claim_request`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestClaim {
    /// No request with this key is known. It must be answered or released.
    New,
    /// The same request was answered so.
    Answered(String),
    /// The same request is being handled by this process.
    InProgress,
    /// The same request was handled by a process that ended before it answered, or is handled by another process. It may have had an effect.
    Interrupted,
    /// The key belongs to another request.
    OtherRequest,
}

impl Dirigent {
    /// Claims a key for a request with this digest. Requests are kept for 24 hours.
    ///
    /// # Errors
    /// An error of the journal.
    pub async fn claim_request(&self, key: &str, digest: &str) -> Result<RequestClaim, DirigentError> {
        let request = KeyedRequest {
            key: key.to_owned(),
            digest: digest.to_owned(),
            handler: HANDLER.clone(),
            at: now(),
        };
        let expired = Timestamp(request.at.0.saturating_sub(KEPT_MS));
        let digest = request.digest.clone();
        let earlier = self
            .reading(move |journal| journal.claim_request(request, expired))
            .await?;
        Ok(match earlier {
            None => RequestClaim::New,
            Some(earlier) if earlier.digest != digest => RequestClaim::OtherRequest,
            Some(EarlierRequest {
                answer: Some(answer), ..
            }) => RequestClaim::Answered(answer),
            Some(earlier) if earlier.handler == *HANDLER => RequestClaim::InProgress,
            Some(_) => RequestClaim::Interrupted,
        })
    }

    /// Stores the answer of a claimed request.
    ///
    /// # Errors
    /// An error of the journal.
    pub async fn answer_request(&self, key: &str, answer: String) -> Result<(), DirigentError> {
        let key = key.to_owned();
        self.reading(move |journal| journal.answer_request(key, answer))
            .await
    }

    /// Gives back the key of a claimed request that had no effect.
    ///
    /// # Errors
    /// An error of the journal.
    pub async fn release_request(&self, key: &str) -> Result<(), DirigentError> {
        let key = key.to_owned();
        self.reading(move |journal| journal.release_request(key)).await
    }
}
