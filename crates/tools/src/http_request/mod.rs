//! The `http_request` tool: one request to the public network, or to what the configuration names.

use std::time::Duration;

/// What `http_request` may reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpRules {
    /// Hosts of the user's own machine and network that may be reached all the same: `localhost:8080`, `10.0.0.5`, `wiki.internal`. With a port only
    /// that port; without one each.
    pub allow: Vec<String>,
    /// How long a request may take, redirects and body included.
    pub timeout: Duration,
    /// How much of a body is read, in bytes, unpacked.
    pub max_bytes: u64,
}

impl Default for HttpRules {
    fn default() -> Self {
        HttpRules {
            allow: Vec::new(),
            timeout: Duration::from_secs(30),
            max_bytes: 1024 * 1024,
        }
    }
}
