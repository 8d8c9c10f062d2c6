//! The HTTP client: no redirects, no proxy, and no addresses of the own machine or network unless the configuration names them.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use dirigent::tools::disallowed_reason;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::redirect::Policy;

/// The maximum time for the receiver to answer.
const TIMEOUT: Duration = Duration::from_secs(15);

/// Creates the client. Reads the system's certificates, which is slow.
pub(super) fn new_client() -> Result<reqwest::Client, reqwest::Error> {
    // If the process has already installed a provider, this call has no effect.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
        .dns_resolver(Arc::new(CheckedResolver(Arc::new(system_lookup))))
        .redirect(Policy::none())
        .no_proxy()
        .referer(false)
        .timeout(TIMEOUT)
        .user_agent(concat!("dirigent/", env!("CARGO_PKG_VERSION")))
        .build()
}

type Lookup = dyn Fn(String) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> + Send + Sync;

/// Refuses names that resolve to an address which is not on the public network. A numeric address is not resolved: who writes it into the configuration means it. The same goes for
/// `localhost`.
struct CheckedResolver(Arc<Lookup>);

impl Resolve for CheckedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (host, lookup) = (name.as_str().to_owned(), self.0.clone());
        async move {
            let addresses = checked(&host, lookup(host.clone()).await?)?;
            Ok(Box::new(addresses.into_iter()) as Addrs)
        }
        .boxed()
    }
}

fn system_lookup(host: String) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> {
    async move { Ok(tokio::net::lookup_host((host, 0)).await?.collect()) }.boxed()
}

fn checked(host: &str, addresses: Vec<SocketAddr>) -> io::Result<Vec<SocketAddr>> {
    if host == "localhost" && addresses.iter().all(|address| address.ip().is_loopback()) {
        return Ok(addresses);
    }
    let refused = addresses
        .iter()
        .find_map(|address| Some((address.ip(), disallowed_reason(address.ip())?)));
    match refused {
        None => Ok(addresses),
        Some((address, reason)) => Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!(
                "`{host}` resolves to {address}, which is not on the public network ({reason}): write the numeric address into the configuration if you mean it"
            ),
        )),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn check(host: &str, addresses: &[&str], expected: &str) {
        let addresses = addresses
            .iter()
            .map(|address| SocketAddr::new(address.parse().unwrap(), 0));
        let result = checked(host, addresses.collect());
        let shown = result.map_or_else(
            |error| error.to_string(),
            |addresses| format!("{} addresses", addresses.len()),
        );
        assert!(shown.contains(expected), "{host}: {shown}");
    }

    #[test]
    fn host_3_a_name_that_resolves_to_an_own_address_is_refused() {
        check("example.com", &["93.184.215.14"], "1 addresses");
        check(
            "example.com",
            &["93.184.215.14", "10.0.0.1"],
            "10.0.0.1, which is not on the public network",
        );
        check(
            "rebind.example",
            &["127.0.0.1"],
            "which is not on the public network",
        );
        check("metadata.example", &["169.254.169.254"], "cloud metadata");
        check("v6.example", &["::1"], "which is not on the public network");
        check(
            "mapped.example",
            &["::ffff:10.0.0.1"],
            "which is not on the public network",
        );
        check("localhost", &["127.0.0.1", "::1"], "2 addresses");
        check("localhost", &["10.0.0.1"], "which is not on the public network");
    }

    #[tokio::test]
    async fn host_3_the_client_asks_the_checked_resolver() {
        let lookup = |_| async { Ok(vec![SocketAddr::from(([127, 0, 0, 1], 1))]) }.boxed();
        let resolver = CheckedResolver(Arc::new(lookup));
        let refused = resolver
            .resolve("rebind.example".parse().unwrap())
            .await
            .err()
            .unwrap();
        assert!(
            refused.to_string().contains("not on the public network"),
            "{refused}"
        );
    }
}
