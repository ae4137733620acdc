//! Parses server addresses, and the credentials that an address may contain.

use std::net::Ipv6Addr;

use async_nats::ServerAddr;
use percent_encoding::percent_decode_str;

/// The maximum length of a host name in DNS.
const MAX_HOST: usize = 253;

/// An address without credentials, and the credentials that were removed from it.
pub(crate) struct Address {
    pub(crate) server: ServerAddr,
    /// A user and a password, or only a token.
    pub(crate) signs_in: Option<(String, Option<String>)>,
}

/// Parses an address.
///
/// # Errors
///
/// Returns the reason if the string is not a valid address. The reason does not contain any part of
/// a password.
pub(crate) fn parse(text: &str) -> Result<Address, String> {
    let (scheme, rest) = text.split_once("://").unwrap_or(("nats", text));
    if text.is_empty() {
        return Err("it is empty".to_owned());
    }
    if !["nats", "tls"].contains(&scheme) {
        return Err("it must begin with `nats://` or `tls://`".to_owned());
    }
    let address = rest.rsplit_once('@').map_or(rest, |(_, address)| address);
    check_host(address.split('/').next().unwrap_or_default())?;
    let server = text.parse::<ServerAddr>().map_err(|_| {
        "a character other than letters and digits in the user or the password must be written as %XX"
            .to_owned()
    })?;
    let signs_in = signs_in(&server);
    // Remove the credentials, because the client does not need them in the address and would log
    // them.
    let mut url = server.into_inner();
    let is_cut = url.set_username("").is_ok() && url.set_password(None).is_ok();
    let server = ServerAddr::from_url(url).ok().filter(|_| is_cut);
    Ok(Address { server: server.ok_or("it has no host")?, signs_in })
}

/// Checks a host and port as written in an address.
fn check_host(host: &str) -> Result<(), String> {
    let (name, port) = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((name, after)) => {
            name.parse::<Ipv6Addr>().map_err(|_| "its host is not an IPv6 address".to_owned())?;
            (name, if after.is_empty() { None } else { Some(after.strip_prefix(':').unwrap_or_default()) })
        }
        None => match host.split_once(':') {
            Some((name, port)) => (check_name(name)?, Some(port)),
            None => (check_name(host)?, None),
        },
    };
    let is_port = |port: &str| port.parse::<u16>().is_ok_and(|port| port > 0);
    match port {
        Some(port) if !is_port(port) => Err("its port must be a number from 1 to 65535".to_owned()),
        _ if name.is_empty() => Err("it has no host".to_owned()),
        _ => Ok(()),
    }
}

/// Checks a host name or an IPv4 address.
fn check_name(name: &str) -> Result<&str, String> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if let Some(wrong) = name.chars().find(|c| !is_allowed(*c)) {
        return Err(format!("no host name contains {wrong:?}"));
    }
    let is_name = name.is_empty() || name.trim_end_matches('.').split('.').all(|label| !label.is_empty());
    if is_name && name.len() <= MAX_HOST {
        Ok(name)
    } else {
        Err("its host is not a name with single dots, of at most 253 characters".to_owned())
    }
}

/// Returns the credentials in an address.
fn signs_in(server: &ServerAddr) -> Option<(String, Option<String>)> {
    let decode = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    Some((decode(server.username()?), server.password().map(decode)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_hosts_that_can_exist_are_accepted() {
        for (text, reason) in [
            ("", "it is empty"),
            ("nats://", "it has no host"),
            ("nats://u:p@", "it has no host"),
            ("nats://:4222", "it has no host"),
            ("://h", "it must begin with `nats://` or `tls://`"),
            ("http://h", "it must begin with `nats://` or `tls://`"),
            ("ws://h", "it must begin with `nats://` or `tls://`"),
            ("nats://two words", "no host name contains ' '"),
            ("nats://h\n", "no host name contains '\\n'"),
            ("nats://größe", "no host name contains 'ö'"),
            ("nats://a..b", "its host is not a name with single dots, of at most 253 characters"),
            ("nats://h:0", "its port must be a number from 1 to 65535"),
            ("nats://h:port", "its port must be a number from 1 to 65535"),
            ("nats://[::1", "no host name contains '['"),
            ("nats://[::g]:1", "its host is not an IPv6 address"),
            ("nats://[::1]x", "its port must be a number from 1 to 65535"),
        ] {
            assert_eq!(parse(text).err().as_deref(), Some(reason), "{text:?}");
        }
        assert!(parse(&format!("nats://{}", "a".repeat(254))).is_err());
        for text in
            ["h", "h:1", "nats://h.example.", "tls://127.0.0.1:4222", "nats://[::1]:4222", "nats://a_b-c/"]
        {
            assert!(parse(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn credentials_are_separated_from_the_address() {
        let address = parse("nats://me:p%40%2Fss%C3%A4@h:1").ok().unwrap();
        assert_eq!(address.server.as_url_str(), "nats://h:1");
        assert_eq!(address.signs_in, Some(("me".to_owned(), Some("p@/ssä".to_owned()))));
        let token = parse("t0ken@h").ok().unwrap();
        assert_eq!(token.server.as_url_str(), "nats://h");
        assert_eq!(token.signs_in, Some(("t0ken".to_owned(), None)));
        assert!(parse("nats://me:s/ecret@h").err().unwrap().contains("%XX"));
    }
}
