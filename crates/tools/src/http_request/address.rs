//! Checks whether an address is on the public network, and whether the configuration allows other hosts.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{Ipv4Net, Ipv6Net};
use url::Host;

/// IPv4 networks that are not public, each with the reason, from IANA's registry of special-purpose addresses.
const DISALLOWED_V4: [(Ipv4Net, &str); 17] = [
    (v4([0, 0, 0, 0], 8), "this machine"),
    (v4([10, 0, 0, 0], 8), "a private network"),
    // Contains Alibaba Cloud's metadata service (100.100.100.200).
    (v4([100, 64, 0, 0], 10), "carrier-grade NAT"),
    (v4([127, 0, 0, 0], 8), "this machine"),
    // Azure's platform address, which serves the secrets of a virtual machine.
    (v4([168, 63, 129, 16], 32), "cloud metadata"),
    // Contains the metadata services of most clouds: 169.254.169.254, 169.254.170.2.
    (v4([169, 254, 0, 0], 16), "link-local or cloud metadata"),
    (v4([172, 16, 0, 0], 12), "a private network"),
    // Contains Oracle Cloud's metadata service (192.0.0.192).
    (v4([192, 0, 0, 0], 24), "for IETF protocol assignments"),
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

/// IPv6 networks that are not public, each with the reason. Addresses outside [`GLOBAL_V6`] are not public
/// either. An address that embeds an IPv4 address is not looked up in this table. Its IPv4 address is checked
/// instead.
const DISALLOWED_V6: [(Ipv6Net, &str); 14] = [
    (v6([0, 0, 0, 0, 0, 0, 0, 0], 128), "this machine"),
    (v6([0, 0, 0, 0, 0, 0, 0, 1], 128), "this machine"),
    (v6([0, 0, 0, 0, 0, 0, 0, 0], 96), "an embedded IPv4 address"),
    (v6([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48), "a private network"),
    (v6([0x100, 0, 0, 0, 0, 0, 0, 0], 64), "discard-only"),
    // Contains Teredo (2001::/32), benchmarks (2001:2::/48) and ORCHID identifiers, which are not addresses (2001:10::/28, 2001:20::/28).
    (
        v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 23),
        "an address range of a tunnel or for IETF protocol assignments",
    ),
    (v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32), "for documentation"),
    (v6([0x2002, 0, 0, 0, 0, 0, 0, 0], 16), "a tunnel"),
    (v6([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20), "for documentation"),
    // Contains the metadata services of AWS (fd00:ec2::254) and Google (fd20:ce::254).
    (
        v6([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7),
        "a private network or cloud metadata",
    ),
    (v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10), "link-local"),
    (v6([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10), "a private network"),
    (v6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8), "multicast"),
    (v6([0x5f00, 0, 0, 0, 0, 0, 0, 0], 16), "for segment routing"),
];

/// The global unicast addresses: all addresses assigned to the public network.
const GLOBAL_V6: Ipv6Net = v6([0x2000, 0, 0, 0, 0, 0, 0, 0], 3);

/// The NAT64 prefix. The last 32 bits of an address with this prefix are the IPv4 address to which its
/// packets are sent.
const NAT64: Ipv6Net = v6([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96);

/// Returns the reason why an address is not on the public network, such as `a private network`; `None` if it is.
pub fn disallowed_reason(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => disallowed_reason_v4(address),
        IpAddr::V6(address) => match embedded_ipv4(address) {
            Some(inner) => disallowed_reason_v4(inner),
            None => disallowed_reason_v6(address),
        },
    }
}

/// The parsed hosts that the configuration allows.
#[derive(Debug)]
pub(super) struct AllowedHosts(Vec<AllowedHost>);

#[derive(Debug, PartialEq, Eq)]
struct AllowedHost {
    host: Host,
    /// `None` allows every port.
    port: Option<u16>,
}

/// The addresses that a request to a host may connect to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AddressPolicy {
    /// Only public addresses.
    PublicOnly,
    /// All addresses, because the configuration allows the host.
    Any,
}

impl AllowedHosts {
    /// Parses the entries. Invalid entries allow nothing.
    pub(super) fn new(allow: &[String]) -> Self {
        let entries = allow.iter().filter_map(|entry| parse(entry));
        AllowedHosts(entries.collect())
    }

    /// Returns which addresses a request to the host may connect to. Checks only the host as written, because its name is resolved later.
    ///
    /// # Errors
    ///
    /// The host itself is not public, and no entry allows it.
    pub(super) fn address_policy(
        &self,
        host: Host<&str>,
        port: Option<u16>,
    ) -> Result<AddressPolicy, DisallowedAddress> {
        let host = without_dot(host);
        let matches =
            |allowed: &AllowedHost| allowed.host == host && (allowed.port.is_none() || allowed.port == port);
        if self.0.iter().any(matches) {
            return Ok(AddressPolicy::Any);
        }
        let reason = match &host {
            Host::Domain(name) if is_localhost(name) => Some("this machine"),
            Host::Domain(_) => None,
            Host::Ipv4(address) => disallowed_reason(IpAddr::V4(*address)),
            Host::Ipv6(address) => disallowed_reason(IpAddr::V6(*address)),
        };
        match reason {
            Some(reason) => Err(DisallowedAddress {
                host: host.to_string(),
                address: None,
                reason,
            }),
            None => Ok(AddressPolicy::PublicOnly),
        }
    }
}

/// A host that is not on the public network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) struct DisallowedAddress {
    pub(super) host: String,
    /// The address that the host name resolved to. `None` if the host was refused without resolving it.
    pub(super) address: Option<IpAddr>,
    pub(super) reason: &'static str,
}

impl fmt::Display for DisallowedAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DisallowedAddress {
            host,
            address,
            reason,
        } = self;
        match address {
            Some(address) => write!(
                f,
                "`{host}` resolves to {address}, which is not on the public network ({reason})"
            ),
            None => write!(f, "`{host}` is not on the public network ({reason})"),
        }?;
        f.write_str(
            ": only the user can allow this host, with an entry in `[http] allow`; do without the request, or report that you need it",
        )
    }
}

/// Returns true if an entry of the allow list is a host, with or without a port.
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

/// Removes the dot at the end of a name: `example.com.` and `example.com` are the same host.
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

/// Returns true for the names that always mean this machine (RFC 6761). The name must be lowercase, as
/// returned by the URL parser.
fn is_localhost(name: &str) -> bool {
    name == "localhost" || name.ends_with(".localhost")
}

fn disallowed_reason_v4(address: Ipv4Addr) -> Option<&'static str> {
    let found = DISALLOWED_V4.iter().find(|(net, _)| net.contains(&address));
    found.map(|(_, reason)| *reason)
}

fn disallowed_reason_v6(address: Ipv6Addr) -> Option<&'static str> {
    let found = DISALLOWED_V6.iter().find(|(net, _)| net.contains(&address));
    match found {
        Some((_, reason)) => Some(reason),
        None if GLOBAL_V6.contains(&address) => None,
        None => Some("reserved"),
    }
}

/// Returns the IPv4 address to which packets for an IPv6 address are actually sent.
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
