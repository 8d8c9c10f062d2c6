//! The user's rules for `http_request`.

use std::time::Duration;

use super::address::is_host_pattern;

/// Reachable hosts and limits of `http_request`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpRules {
    /// Hosts of the user's own machine and network that may be reached in addition to the public network: `localhost:8080`, `10.0.0.5`,
    /// `[::1]:8080`, `wiki.internal`.
    ///
    /// An entry with a port allows this port only; an entry without a port allows every port. The entry is compared with the host as
    /// written in the URL, not with the resolved address: `localhost` does not allow `127.0.0.1`. An entry that is not
    /// [a host](HttpRules::is_host) allows nothing.
    pub allow: Vec<String>,
    /// Timeout of a call, including redirects and the body.
    pub timeout: Duration,
    /// Maximum number of bytes read of a body, counted after decompression: 512 KiB by default. The runtime truncates results beyond
    /// 1 MiB.
    pub max_bytes: u64,
}

impl HttpRules {
    /// Returns true if `text` is a valid entry of [`HttpRules::allow`].
    pub fn is_host(text: &str) -> bool {
        is_host_pattern(text)
    }
}

impl Default for HttpRules {
    fn default() -> Self {
        HttpRules {
            allow: Vec::new(),
            timeout: Duration::from_secs(30),
            max_bytes: 512 * 1024,
        }
    }
}
