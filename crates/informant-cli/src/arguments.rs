//! Parsers of argument values that several commands share, and the error for invalid arguments.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::Duration,
};

/// Invalid arguments that clap does not detect. The program prints the usage and exits with code 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(pub String);

/// Parses a duration such as `10s` or `2m`; zero is an error.
pub fn duration(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text)
        .map_err(|error| format!("{error}; expected a duration such as 200ms, 30s or 2m"))?
    {
        Duration::ZERO => Err("must be longer than 0s".into()),
        duration => Ok(duration),
    }
}

/// Parses a resync period: a duration of at least one second.
pub fn resync_period(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        period if period < Duration::from_secs(1) => Err("must be at least 1s".into()),
        period => Ok(period),
    }
}

/// Parses an address to listen on. `9090` and `:9090` mean that port on 127.0.0.1.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    let on_loopback = |port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
    if let Ok(port) = text.strip_prefix(':').unwrap_or(text).parse() {
        return Ok(on_loopback(port));
    }
    let named = text.strip_prefix("localhost:").and_then(|port| port.parse().ok()).map(on_loopback);
    named
        .or_else(|| text.parse().ok())
        .ok_or_else(|| "expected a port, or an address such as 127.0.0.1:9090".to_owned())
}

/// Parses an address to listen on that only this machine can reach.
pub fn loopback_address(text: &str) -> Result<SocketAddr, String> {
    match address(text)? {
        address if address.ip().is_loopback() => Ok(address),
        _ => Err("the server has no access control and listens on loopback addresses only, such as 127.0.0.1 or [::1]"
            .into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_without_a_host_means_loopback() {
        for text in ["9090", ":9090", "localhost:9090", "127.0.0.1:9090"] {
            assert_eq!(address(text).unwrap().to_string(), "127.0.0.1:9090", "{text}");
        }
        assert_eq!(address("0.0.0.0:0").unwrap().to_string(), "0.0.0.0:0");
        assert_eq!(address("[::1]:80").unwrap().to_string(), "[::1]:80");
        for text in ["", "here", "70000", "127.0.0.1", "example.com:80"] {
            assert!(address(text).is_err(), "{text}");
        }
    }

    #[test]
    fn only_loopback_addresses_are_accepted_for_a_server_without_access_control() {
        assert!(loopback_address("[::1]:80").is_ok() && loopback_address("80").is_ok());
        assert!(loopback_address("0.0.0.0:80").is_err() && loopback_address("192.0.2.1:80").is_err());
    }

    #[test]
    fn durations_have_a_lower_limit() {
        assert_eq!(duration("1m 5s"), Ok(Duration::from_secs(65)));
        assert!(duration("0s").is_err() && duration("soon").is_err());
        assert_eq!(resync_period("1s"), Ok(Duration::from_secs(1)));
        assert!(resync_period("999ms").is_err());
    }
}
