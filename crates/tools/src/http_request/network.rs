//! The HTTP clients. Each request resolves its host name once and connects only to the checked addresses, because a second lookup could
//! return different addresses.
//!
//! One client connects only to addresses on the public network. The other, for hosts that the configuration allows, connects to any address
//! that such a host resolves to. Neither client uses cookies or a proxy, keeps connections open, or follows redirects.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::redirect::Policy;
use tokio::sync::OnceCell;
use url::Url;

use super::address::{AddressPolicy, AllowedHosts, DisallowedAddress, disallowed_reason};
use super::error::HttpError;
use super::rules::HttpRules;

/// Resolves host names. Tests replace the system's resolver with their own.
pub(super) trait Resolver: Send + Sync + 'static {
    /// Returns the addresses of a host; their ports are ignored.
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

/// The rules, the resolver and the HTTP clients for all calls.
pub(super) struct Network {
    rules: HttpRules,
    allowed_hosts: AllowedHosts,
    resolver: Arc<dyn Resolver>,
    clients: OnceCell<Clients>,
}

struct Clients {
    /// For addresses on the public network.
    public: reqwest::Client,
    /// For hosts that the configuration allows.
    allowed: reqwest::Client,
}

impl Network {
    pub(super) fn new(rules: &HttpRules, resolver: Arc<dyn Resolver>) -> Self {
        Network {
            rules: rules.clone(),
            allowed_hosts: AllowedHosts::new(&rules.allow),
            resolver,
            clients: OnceCell::new(),
        }
    }

    /// Returns the network with its clients. The first call creates the clients, because reading the system's certificates is slow.
    pub(super) async fn open(&self) -> Result<ReadyNetwork<'_>, HttpError> {
        let clients = self.clients.get_or_try_init(async || {
            let resolver = self.resolver.clone();
            let created = tokio::task::spawn_blocking(move || Clients::new(&resolver));
            created.await.unwrap_or_else(|error| Err(error.to_string()))
        });
        let clients = clients.await;
        let clients = clients.map_err(|error| {
            HttpError::Unreachable(format!("the HTTP client could not be created: {error}"))
        })?;
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

    /// Returns the client for requests to `url`, or an error if the URL must not be requested.
    pub(super) fn client(self, url: &Url) -> Result<&'a reqwest::Client, HttpError> {
        let host = url
            .host()
            .ok_or_else(|| HttpError::Parameters(format!("`{url}` has no host")))?;
        let port = url.port_or_known_default();
        let policy = self
            .network
            .allowed_hosts
            .address_policy(host, port)
            .map_err(HttpError::DisallowedAddress)?;
        Ok(match policy {
            AddressPolicy::PublicOnly => &self.clients.public,
            AddressPolicy::Any => &self.clients.allowed,
        })
    }
}

impl Clients {
    fn new(resolver: &Arc<dyn Resolver>) -> Result<Self, String> {
        // reqwest uses the process's crypto provider. If the application has already installed one, this call has no effect.
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
            allowed: client(AddressPolicy::Any)?,
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

/// The DNS resolver of a client. Returns only addresses that the policy allows, so the client connects to no others.
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

/// Returns the addresses on the public network, or an error if the host has addresses but none is public.
fn only_public(host: &str, found: Vec<SocketAddr>) -> Result<Vec<SocketAddr>, DisallowedAddress> {
    let mut refused = None;
    let mut public = Vec::new();
    for address in found {
        match disallowed_reason(address.ip()) {
            None => public.push(address),
            Some(reason) => refused = Some((address.ip(), reason)),
        }
    }
    match refused {
        Some((address, reason)) if public.is_empty() => Err(DisallowedAddress {
            host: host.to_owned(),
            address: Some(address),
            reason,
        }),
        Some(_) | None => Ok(public),
    }
}

/// Converts a client error. A refused address among its causes becomes [`HttpError::DisallowedAddress`].
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

/// Formats an error with all its causes.
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
