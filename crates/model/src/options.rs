//! Options common to the clients of all APIs, and the errors of creating a model.

use std::time::Duration;

/// Time limits of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Time to connect. It is fixed when the [`HttpClient`](crate::HttpClient) is built, so it applies to all models that share a client.
    pub connect: Duration,
    /// Time until a stream's first event. A reply that comes in one piece is bounded by `total` alone.
    pub first: Duration,
    /// Time between two events of a stream. Comments, which servers send to keep a connection open, do not count.
    pub between: Duration,
    /// Time for the whole request.
    pub total: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Timeouts {
            connect: Duration::from_secs(10),
            first: Duration::from_secs(180),
            between: Duration::from_secs(60),
            total: Duration::from_secs(900),
        }
    }
}

/// An error in the options of a new model, or in the creation of its HTTP client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModelSetupError {
    /// `base_url` is not an HTTP address.
    #[error(
        "the model's base_url is not an HTTP address ({problem}): it must look like `https://api.openai.com/v1`"
    )]
    BaseUrl {
        /// The problem with the address.
        problem: String,
    },
    /// `base_url` contains a user name or a password, which would end up in logs.
    #[error("the model's base_url holds credentials: leave them out, and set the key as api_key")]
    CredentialsInUrl,
    /// The key has characters that no HTTP header can carry.
    #[error("the model's API key has characters that an HTTP header can't carry: copy the key again")]
    ApiKey,
    /// The extra fields for requests contain a field that Dirigent sets itself.
    #[error("`{field}` can't be an extra field of a model's requests: Dirigent sets it itself")]
    ReservedField {
        /// Name of the field.
        field: String,
    },
    /// The HTTPS client can't be created.
    #[error("no HTTPS client can be created: {problem}")]
    Client {
        /// Error messages of the HTTP library.
        problem: String,
    },
}
