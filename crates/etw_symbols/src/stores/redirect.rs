//! Redirections of servers. A server may not send this machine to addresses that only this machine reaches.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, ToSocketAddrs};

/// Maximum number of redirections of one file.
pub(super) const MAX_REDIRECTS: usize = 5;

/// The scheme, host and port of a URL.
struct Place<'u> {
    is_encrypted: bool,
    host: &'u str,
    port: u16,
}

impl Place<'_> {
    fn from_url(url: &str) -> Option<Place<'_>> {
        let (scheme, rest) = url.split_once("://")?;
        let is_encrypted = scheme.eq_ignore_ascii_case("https");
        if !is_encrypted && !scheme.eq_ignore_ascii_case("http") {
            return None;
        }
        let authority = rest.split(['/', '\\', '?', '#']).next()?;
        let authority = authority.rsplit_once('@').map_or(authority, |(_, place)| place);
        let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
        let (host, port) = match authority.rsplit_once(':').filter(|(_, port)| is_port(port)) {
            Some((host, port)) => (host, port.parse().ok()?),
            None => (authority, if is_encrypted { 443 } else { 80 }),
        };
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        (!host.is_empty()).then_some(Place { is_encrypted, host, port })
    }

    fn addresses(&self) -> Vec<IpAddr> {
        let found = (self.host, self.port).to_socket_addrs();
        found.map(|found| found.map(|address| address.ip()).collect()).unwrap_or_default()
    }
}

/// Returns whether the server that the user named is one of this machine or its network, which may redirect to others
/// of them. `address` is where the request went; a proxy's address does not make a public server a private one.
pub(super) fn is_private_server(server: &str, address: Option<IpAddr>) -> bool {
    let addresses = Place::from_url(server).map(|place| place.addresses()).unwrap_or_default();
    address.is_some_and(|address| !is_public(address))
        && !addresses.is_empty()
        && !addresses.into_iter().any(is_public)
}

/// Checks a redirection. Returns the addresses that curl must use for it, as its option `--resolve` takes them, so that
/// the name does not get another address after the check.
///
/// # Errors
///
/// Fails if the redirection is to a private address, without encryption, or to a name that is not found.
pub(super) fn check(server: &str, is_private: bool, target: &str) -> Result<Option<String>, String> {
    let refused = |why: &str| format!("it redirects to {target}, {why}");
    let to = Place::from_url(target).ok_or_else(|| refused("which is no address of HTTP"))?;
    if !to.is_encrypted && Place::from_url(server).is_none_or(|server| server.is_encrypted) {
        return Err(refused("which is not encrypted"));
    }
    if is_private {
        return Ok(None);
    }
    let addresses = to.addresses();
    if addresses.iter().any(|address| !is_public(*address)) {
        return Err(refused("an address of this machine or of its network"));
    }
    if addresses.is_empty() && !has_proxy() {
        return Err(refused("which is not found"));
    }
    let is_name = to.host.parse::<IpAddr>().is_err();
    let text = |address: &IpAddr| match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    };
    let list = addresses.iter().map(text).collect::<Vec<_>>().join(",");
    Ok((is_name && !list.is_empty()).then(|| format!("{}:{}:{list}", to.host, to.port)))
}

/// Returns whether a proxy may look up names that this machine does not find.
fn has_proxy() -> bool {
    let names = ["http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"];
    names.iter().any(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()))
}

/// Returns whether an address is one of the internet. Source: IANA, "Special-Purpose Address Registry", for IPv4 and IPv6.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    // "This network", shared addresses of providers, protocol assignments, benchmarks, multicast and reserved ones.
    let is_special = a == 0
        || (a == 100 && b & 0xC0 == 64)
        || (a, b, c) == (192, 0, 0)
        || (a == 198 && b & 0xFE == 18)
        || a >= 224;
    !(is_special || address.is_private() || address.is_loopback() || address.is_link_local())
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let [a, b, c, d, .., high, low] = address.segments();
    let v4 = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        is_public_v4(Ipv4Addr::new(a, b, c, d))
    };
    match a {
        // Translated to IPv4 (NAT64, 6to4); Teredo has the address of IPv4 inverted.
        0x64 if b == 0xFF9B && (c, d) == (0, 0) => v4(high, low),
        0x2002 => v4(b, c),
        0x2001 if b == 0 => v4(!high, !low),
        // Global unicast.
        _ => a & 0xE000 == 0x2000 || address.to_ipv4_mapped().is_some_and(is_public_v4),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_the_internet() {
        let check = |expected: bool, texts: &[&str]| {
            for text in texts {
                assert_eq!(is_public(text.parse().unwrap()), expected, "{text}");
            }
        };
        check(true, &["8.8.8.8", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "::ffff:8.8.8.8"]);
        check(true, &["64:ff9b::808:808", "2002:808:808::1"]);
        check(false, &["127.0.0.1", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "0.0.0.0"]);
        check(false, &["100.64.0.1", "192.0.0.8", "198.18.0.1", "224.0.0.1", "255.255.255.255"]);
        check(false, &["::1", "::", "fe80::1", "fc00::1", "fd00:ec2::254", "ff02::1", "::ffff:127.0.0.1"]);
        check(false, &["64:ff9b::7f00:1", "2002:7f00:1::", "::127.0.0.1", "2001:0:808:808::80ff:fffe"]);
    }

    #[test]
    fn redirections_that_are_refused() {
        let refused = |server: &str, target: &str, why: &str| {
            let error = super::check(server, false, target).unwrap_err();
            assert!(error.ends_with(why), "{error}");
        };
        let private = "an address of this machine or of its network";
        for target in [
            "http://127.0.0.1:8080/x",
            "http://localhost/x",
            "https://[::1]/",
            "http://8.8.8.8@10.0.0.1/",
            "http://2130706433/",
            "http://169.254.169.254/latest/meta-data",
        ] {
            refused("http://8.8.8.8/symbols", target, private);
        }
        refused("https://8.8.8.8/", "http://8.8.4.4/", "which is not encrypted");
        refused("http://8.8.8.8/", "ftp://8.8.4.4/", "which is no address of HTTP");
        assert_eq!(super::check("https://8.8.8.8/", false, "https://8.8.4.4:444/x"), Ok(None));
        assert_eq!(super::check("http://10.0.0.1/", true, "http://10.0.0.2/"), Ok(None));
        assert!(super::check("https://10.0.0.1/", true, "http://10.0.0.2/").is_err());
        let loopback = "127.0.0.1".parse().ok();
        assert!(is_private_server("http://127.0.0.1:99/", loopback));
        assert!(
            !is_private_server("http://8.8.8.8/", loopback) && !is_private_server("http://127.0.0.1/", None)
        );
    }
}
