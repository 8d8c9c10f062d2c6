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
use super::address::{Allowed, NotPublic, Reach, not_public};
use super::fault::Fault;

/// Resolves names: the system's way, or a test's.
pub(super) trait Lookup: Send + Sync + 'static {
    /// The addresses of a host; ports are of no meaning.
    fn addresses(&self, host: &str) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>>;
}

/// The system's resolver.
pub(super) struct SystemLookup;

impl Lookup for SystemLookup {
    fn addresses(&self, host: &str) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> {
        let host = host.to_owned();
        async move { Ok(tokio::net::lookup_host((host, 0)).await?.collect()) }.boxed()
    }
}

/// What requests go out by.
pub(super) struct Network {
    rules: HttpRules,
    allowed: Allowed,
    lookup: Arc<dyn Lookup>,
    clients: OnceCell<Clients>,
}

struct Clients {
    public: reqwest::Client,
    named: reqwest::Client,
}

impl Network {
    pub(super) fn new(rules: &HttpRules, lookup: Arc<dyn Lookup>) -> Self {
        Network {
            rules: rules.clone(),
            allowed: Allowed::new(rules),
            lookup,
            clients: OnceCell::new(),
        }
    }

    /// The way out itself, made with the first request, as reading the system's certificates takes a moment.
    pub(super) async fn open(&self) -> Result<Open<'_>, Fault> {
        let clients = self.clients.get_or_try_init(async || {
            let lookup = self.lookup.clone();
            let made = tokio::task::spawn_blocking(move || Clients::new(&lookup));
            made.await.unwrap_or_else(|error| Err(error.to_string()))
        });
        let clients = clients.await;
        let clients =
            clients.map_err(|error| Fault::Unreachable(format!("no request can be made here: {error}")))?;
        Ok(Open {
            network: self,
            clients,
        })
    }
}

/// A network with its clients.
#[derive(Clone, Copy)]
pub(super) struct Open<'a> {
    network: &'a Network,
    clients: &'a Clients,
}

impl<'a> Open<'a> {
    pub(super) fn rules(self) -> &'a HttpRules {
        &self.network.rules
    }

    /// The client that a request to that URL must go by; an error where it may not go at all.
    pub(super) fn client(self, url: &Url) -> Result<&'a reqwest::Client, Fault> {
        Ok(match self.network.allowed.reach(url)? {
            Reach::Public => &self.clients.public,
            Reach::Named => &self.clients.named,
        })
    }
}

impl Clients {
    fn new(lookup: &Arc<dyn Lookup>) -> Result<Self, String> {
        // reqwest takes the process's provider of cryptography; if there is one already, it stays.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = |reach| {
            let lookup = lookup.clone();
            reqwest::Client::builder()
                .dns_resolver(Arc::new(Resolver { lookup, reach }))
                .redirect(Policy::none())
                .no_proxy()
                .referer(false)
                .pool_max_idle_per_host(0)
                .user_agent(concat!("dirigent/", env!("CARGO_PKG_VERSION")))
                .build()
                .map_err(|error| causes(&error))
        };
        Ok(Clients {
            public: client(Reach::Public)?,
            named: client(Reach::Named)?,
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
struct Resolver {
    lookup: Arc<dyn Lookup>,
    reach: Reach,
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let found = self.lookup.addresses(name.as_str());
        let reach = self.reach;
        Box::pin(async move {
            let found = found.await?;
            let usable = match reach {
                Reach::Named => found,
                Reach::Public => only_public(name.as_str(), found)?,
            };
            let usable: Addrs = Box::new(usable.into_iter());
            Ok(usable)
        })
    }
}

/// Those of the public network; an error where there are others only.
fn only_public(host: &str, found: Vec<SocketAddr>) -> Result<Vec<SocketAddr>, NotPublic> {
    let mut refused = None;
    let mut public = Vec::new();
    for address in found {
        match not_public(address.ip()) {
            None => public.push(address),
            Some(why) => refused = Some((address.ip(), why)),
        }
    }
    match refused {
        Some((address, why)) if public.is_empty() => Err(NotPublic {
            host: host.to_owned(),
            address: Some(address),
            why,
        }),
        Some(_) | None => Ok(public),
    }
}

/// What a failed request is to the model.
pub(super) fn fault(error: reqwest::Error) -> Fault {
    let error = error.without_url();
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&error);
    while let Some(this) = cause {
        if let Some(refused) = this.downcast_ref::<NotPublic>() {
            return Fault::Address(refused.clone());
        }
        cause = this.source();
    }
    Fault::Unreachable(causes(&error))
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
