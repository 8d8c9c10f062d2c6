//! The way out: names are resolved once, and connections go to the addresses that were looked at, never to what a second
//! resolution says.
//!
//! There are two clients. The one for the public network has no address but those of it; the one for hosts that the configuration
//! names has all that they resolve to. Neither has cookies, a proxy, connections kept open or redirects of its own.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::redirect::Policy;
use tokio::sync::OnceCell;
use url::Url;

use super::HttpRules;
use super::address::{AddressPolicy, AllowedHosts, DisallowedAddress, disallowed_reason};
use super::error::HttpError;

/// Resolves names: the system's way, or a test's.
pub(super) trait Resolver: Send + Sync + 'static {
    /// The addresses of a host; ports are of no meaning.
    fn resolve_host(&self, host: &str) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>>;
}

/// The system's resolver.
pub(super) struct SystemResolver;

impl Resolver for SystemResolver {
    fn resolve_host(&self, host: &str) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> {
        let host = host.to_owned();
        async move { Ok(tokio::net::lookup_host((host, 0)).await?.collect()) }.boxed()
    }
}

/// What requests go out by.
pub(super) struct Network {
    rules: HttpRules,
    allowed_hosts: AllowedHosts,
    resolver: Arc<dyn Resolver>,
    clients: OnceCell<Clients>,
}

struct Clients {
    public: reqwest::Client,
    named: reqwest::Client,
}

impl Network {
    pub(super) fn new(rules: &HttpRules, resolver: Arc<dyn Resolver>) -> Self {
        Network {
            rules: rules.clone(),
            allowed_hosts: AllowedHosts::new(rules),
            resolver,
            clients: OnceCell::new(),
        }
    }

    /// The way out itself, made with the first request, as reading the system's certificates takes a moment.
    pub(super) async fn open(&self) -> Result<ReadyNetwork<'_>, HttpError> {
        let clients = self.clients.get_or_try_init(async || {
            let resolver = self.resolver.clone();
            let made = tokio::task::spawn_blocking(move || Clients::new(&resolver));
            made.await.unwrap_or_else(|error| Err(error.to_string()))
        });
        let clients = clients.await;
        let clients = clients
            .map_err(|error| HttpError::Unreachable(format!("no request can be made here: {error}")))?;
        Ok(ReadyNetwork {
            network: self,
            clients,
        })
    }
}

/// A network with its clients.
#[derive(Clone, Copy)]
pub(super) struct ReadyNetwork<'a> {
    network: &'a Network,
    clients: &'a Clients,
}

impl<'a> ReadyNetwork<'a> {
    pub(super) fn rules(self) -> &'a HttpRules {
        &self.network.rules
    }

    /// The client that a request to that URL must go by; an error where it may not go at all.
    pub(super) fn client(self, url: &Url) -> Result<&'a reqwest::Client, HttpError> {
        Ok(match self.network.allowed_hosts.address_policy(url)? {
            AddressPolicy::PublicOnly => &self.clients.public,
            AddressPolicy::Any => &self.clients.named,
        })
    }
}

impl Clients {
    fn new(resolver: &Arc<dyn Resolver>) -> Result<Self, String> {
        // reqwest takes the process's provider of cryptography; if there is one already, it stays.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = |policy| {
            let resolver = resolver.clone();
            reqwest::Client::builder()
                .dns_resolver(Arc::new(FilteringResolver { resolver, policy }))
                .redirect(Policy::none())
                .no_proxy()
                .referer(false)
                .pool_max_idle_per_host(0)
                .user_agent(concat!("dirigent/", env!("CARGO_PKG_VERSION")))
                .build()
                .map_err(|error| causes(&error))
        };
        Ok(Clients {
            public: client(AddressPolicy::PublicOnly)?,
            named: client(AddressPolicy::Any)?,
        })
    }
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Network")
            .field("rules", &self.rules)
            .finish_non_exhaustive()
    }
}

/// What a client connects to: exactly the addresses that it returns.
struct FilteringResolver {
    resolver: Arc<dyn Resolver>,
    policy: AddressPolicy,
}

impl Resolve for FilteringResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let found = self.resolver.resolve_host(name.as_str());
        let policy = self.policy;
        Box::pin(async move {
            let found = found.await?;
            let usable = match policy {
                AddressPolicy::Any => found,
                AddressPolicy::PublicOnly => only_public(name.as_str(), found)?,
            };
            let usable: Addrs = Box::new(usable.into_iter());
            Ok(usable)
        })
    }
}

/// Those of the public network; an error where there are others only.
fn only_public(host: &str, found: Vec<SocketAddr>) -> Result<Vec<SocketAddr>, DisallowedAddress> {
    let mut refused = None;
    let mut public = Vec::new();
    for address in found {
        match disallowed_reason(address.ip()) {
            None => public.push(address),
            Some(why) => refused = Some((address.ip(), why)),
        }
    }
    match refused {
        Some((address, why)) if public.is_empty() => Err(DisallowedAddress {
            host: host.to_owned(),
            address: Some(address),
            why,
        }),
        Some(_) | None => Ok(public),
    }
}

/// What a failed request is to the model.
pub(super) fn request_error(error: reqwest::Error) -> HttpError {
    let error = error.without_url();
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&error);
    while let Some(this) = cause {
        if let Some(refused) = this.downcast_ref::<DisallowedAddress>() {
            return HttpError::DisallowedAddress(refused.clone());
        }
        cause = this.source();
    }
    HttpError::Unreachable(causes(&error))
}

/// An error with all that led to it.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(this) = cause {
        let more = this.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = this.source();
    }
    text
}
