//! Which addresses are the public network, and which hosts the configuration names all the same.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{Ipv4Net, Ipv6Net};
use url::{Host, Url};

use super::HttpRules;
use super::error::HttpError;

/// What is not the public network, and why. It follows IANA's registries of special-purpose addresses.
const DISALLOWED_V4: [(Ipv4Net, &str); 17] = [
    (v4([0, 0, 0, 0], 8), "this machine"),
    (v4([10, 0, 0, 0], 8), "a private network"),
    // Alibaba's metadata (100.100.100.200) is in it.
    (v4([100, 64, 0, 0], 10), "a provider's own network"),
    (v4([127, 0, 0, 0], 8), "this machine"),
    // Azure's, to which a virtual machine's secrets are known.
    (v4([168, 63, 129, 16], 32), "cloud metadata"),
    // Metadata of most clouds: 169.254.169.254, 169.254.170.2.
    (v4([169, 254, 0, 0], 16), "link-local or cloud metadata"),
    (v4([172, 16, 0, 0], 12), "a private network"),
    // Oracle's metadata (192.0.0.192) is in it.
    (v4([192, 0, 0, 0], 24), "reserved for protocols"),
    (v4([192, 0, 2, 0], 24), "for documentation"),
    (v4([192, 88, 99, 0], 24), "a tunnel"),
    (v4([192, 168, 0, 0], 16), "a private network"),
    (v4([198, 18, 0, 0], 15), "for benchmarks"),
    (v4([198, 51, 100, 0], 24), "for documentation"),
    (v4([203, 0, 113, 0], 24), "for documentation"),
    (v4([224, 0, 0, 0], 4), "multicast"),
    (v4([255, 255, 255, 255], 32), "broadcast"),
    (v4([240, 0, 0, 0], 4), "reserved"),
];

/// The same for IPv6, where what is not in [`GLOBAL_V6`] is none either. IPv4 addresses within these are judged as such before.
const DISALLOWED_V6: [(Ipv6Net, &str); 14] = [
    (v6([0, 0, 0, 0, 0, 0, 0, 0], 128), "this machine"),
    (v6([0, 0, 0, 0, 0, 0, 0, 1], 128), "this machine"),
    (v6([0, 0, 0, 0, 0, 0, 0, 0], 96), "an IPv4 address in disguise"),
    (v6([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48), "a private network"),
    (v6([0x100, 0, 0, 0, 0, 0, 0, 0], 64), "discarded"),
    // Teredo (2001::/32), benchmarks (2001:2::/48) and identifiers that are no addresses (2001:10::/28, 2001:20::/28) among them.
    (
        v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 23),
        "a tunnel or reserved for protocols",
    ),
    (v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32), "for documentation"),
    (v6([0x2002, 0, 0, 0, 0, 0, 0, 0], 16), "a tunnel"),
    (v6([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20), "for documentation"),
    // Metadata of AWS (fd00:ec2::254) and Google (fd20:ce::254) is in it.
    (
        v6([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7),
        "a private network or cloud metadata",
    ),
    (v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10), "link-local"),
    (v6([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10), "a private network"),
    (v6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8), "multicast"),
    (v6([0x5f00, 0, 0, 0, 0, 0, 0, 0], 16), "a provider's own network"),
];

/// All that has been given out for the public network.
const GLOBAL_V6: Ipv6Net = v6([0x2000, 0, 0, 0, 0, 0, 0, 0], 3);

/// NAT64: what follows is an IPv4 address, which is where the packets go.
const NAT64: Ipv6Net = v6([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96);

/// Why an address is not the public network; none where it is.
pub(super) fn disallowed_reason(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => disallowed_reason_v4(address),
        IpAddr::V6(address) => match embedded_ipv4(address) {
            Some(inner) => disallowed_reason_v4(inner),
            None => disallowed_reason_v6(address),
        },
    }
}

/// What the configuration says of hosts, read once.
#[derive(Debug)]
pub(super) struct AllowedHosts(Vec<AllowedHost>);

#[derive(Debug, PartialEq, Eq)]
struct AllowedHost {
    host: Host,
    /// None for every port.
    port: Option<u16>,
}

/// Which addresses of its host a request may go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AddressPolicy {
    /// Those of the public network.
    PublicOnly,
    /// Every one: the configuration names the host.
    Any,
}

impl AllowedHosts {
    /// An entry that can't be understood allows nothing.
    pub(super) fn new(rules: &HttpRules) -> Self {
        let entries = rules.allow.iter().filter_map(|entry| parse(entry));
        AllowedHosts(entries.collect())
    }

    /// What a request to that URL may reach, before its host's name is resolved; an error where the URL itself says that it may not be
    /// reached.
    pub(super) fn address_policy(&self, url: &Url) -> Result<AddressPolicy, HttpError> {
        let port = url.port_or_known_default();
        let host = url.host().map(|host| without_dot(host.to_owned()));
        let host = host.ok_or_else(|| HttpError::Parameters(format!("`{url}` has no host")))?;
        let names_it =
            |allowed: &AllowedHost| allowed.host == host && (allowed.port.is_none() || allowed.port == port);
        if self.0.iter().any(names_it) {
            return Ok(AddressPolicy::Any);
        }
        let refused = match &host {
            Host::Domain(name) if is_localhost(name) => Some("this machine"),
            Host::Domain(_) => None,
            Host::Ipv4(address) => disallowed_reason(IpAddr::V4(*address)),
            Host::Ipv6(address) => disallowed_reason(IpAddr::V6(*address)),
        };
        match refused {
            Some(why) => Err(HttpError::DisallowedAddress(DisallowedAddress {
                host: host.to_string(),
                address: None,
                why,
            })),
            None => Ok(AddressPolicy::PublicOnly),
        }
    }
}

/// A host whose addresses are not the public network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) struct DisallowedAddress {
    pub(super) host: String,
    /// What its name was resolved to.
    pub(super) address: Option<IpAddr>,
    pub(super) why: &'static str,
}

impl fmt::Display for DisallowedAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DisallowedAddress { host, address, why } = self;
        match address {
            Some(address) => write!(
                f,
                "`{host}` is at {address}, which is not the public network ({why})"
            ),
            None => write!(f, "`{host}` is not the public network ({why})"),
        }?;
        f.write_str(
            ": only the user can allow it, by naming this host in `[http] allow`; do without it or say so",
        )
    }
}

/// Whether an entry of [`HttpRules::allow`] is a host, with a port or without.
pub(super) fn is_host_pattern(text: &str) -> bool {
    parse(text).is_some()
}

fn parse(entry: &str) -> Option<AllowedHost> {
    if let Ok(address) = entry.parse::<Ipv6Addr>() {
        let host = Host::Ipv6(address);
        return Some(AllowedHost { host, port: None });
    }
    let (host, port) = match entry.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port.parse().ok()?)),
        Some(_) | None => (entry, None),
    };
    let host = without_dot(Host::parse(host).ok()?);
    Some(AllowedHost { host, port })
}

/// `example.com.` and `example.com` are one host.
fn without_dot<S: AsRef<str>>(host: Host<S>) -> Host {
    match host {
        Host::Domain(name) => {
            let name = name.as_ref();
            Host::Domain(name.strip_suffix('.').unwrap_or(name).to_owned())
        }
        Host::Ipv4(address) => Host::Ipv4(address),
        Host::Ipv6(address) => Host::Ipv6(address),
    }
}

/// Names that are this machine whatever a name server says (RFC 6761). The URL has made them lower case.
fn is_localhost(name: &str) -> bool {
    name == "localhost" || name.ends_with(".localhost")
}

fn disallowed_reason_v4(address: Ipv4Addr) -> Option<&'static str> {
    let found = DISALLOWED_V4.iter().find(|(net, _)| net.contains(&address));
    found.map(|(_, why)| *why)
}

fn disallowed_reason_v6(address: Ipv6Addr) -> Option<&'static str> {
    let found = DISALLOWED_V6.iter().find(|(net, _)| net.contains(&address));
    match found {
        Some((_, why)) => Some(why),
        None if GLOBAL_V6.contains(&address) => None,
        None => Some("reserved"),
    }
}

/// The IPv4 address that packets to an IPv6 address really go to.
fn embedded_ipv4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    if NAT64.contains(&address) {
        let [.., a, b, c, d] = address.octets();
        return Some(Ipv4Addr::new(a, b, c, d));
    }
    address.to_ipv4_mapped()
}

const fn v4([a, b, c, d]: [u8; 4], prefix: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), prefix)
}

const fn v6([a, b, c, d, e, f, g, h]: [u16; 8], prefix: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, c, d, e, f, g, h), prefix)
}
