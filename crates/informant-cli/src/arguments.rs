//! What several commands take, and what is asked wrongly.

use std::net::IpAddr;
use std::net::Ipv4Addr;
use std::net::SocketAddr;
use std::time::Duration;

/// What no command can do, whatever the cluster is like; it ends with the exit code for that.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct AskedWrongly(pub String);

impl AskedWrongly {
    /// A kind that the embedded server does not have, said in an option.
    pub fn unknown_kind(option: &str, kind: &str) -> Self {
        Self(format!("{option}: there is no kind {kind:?}; write it as in pods or deployments.apps"))
    }
}

/// A time as people write it: `10s`, `2m`.
pub fn duration(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text).map_err(|error| format!("{error}; write it as in 200ms, 30s or 2m"))? {
        Duration::ZERO => Err("must be longer than 0s".into()),
        duration => Ok(duration),
    }
}

/// A time that is not too short for a resync.
pub fn resync_period(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        period if period < Duration::from_secs(1) => Err("must be at least 1s".into()),
        period => Ok(period),
    }
}

/// Where to listen. `9090` and `:9090` are of this machine alone.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    let here = |port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
    if let Ok(port) = text.strip_prefix(':').unwrap_or(text).parse() {
        return Ok(here(port));
    }
    let named = text.strip_prefix("localhost:").and_then(|port| port.parse().ok()).map(here);
    named.or_else(|| text.parse().ok()).ok_or_else(|| "write a port, or an address as in 127.0.0.1:9090".to_owned())
}

/// Where to listen, if that is of this machine alone.
pub fn loopback_address(text: &str) -> Result<SocketAddr, String> {
    match address(text)? {
        address if address.ip().is_loopback() => Ok(address),
        _ => {
            Err("everybody may do everything there, so it is for loopback addresses alone, as 127.0.0.1 or [::1]"
                .into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_of_this_machine_unless_another_is_said() {
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
    fn a_server_without_access_control_is_for_this_machine() {
        assert!(loopback_address("[::1]:80").is_ok() && loopback_address("80").is_ok());
        assert!(loopback_address("0.0.0.0:80").is_err() && loopback_address("192.0.2.1:80").is_err());
    }

    #[test]
    fn times_are_not_too_short() {
        assert_eq!(duration("1m 5s"), Ok(Duration::from_secs(65)));
        assert!(duration("0s").is_err() && duration("soon").is_err());
        assert_eq!(resync_period("1s"), Ok(Duration::from_secs(1)));
        assert!(resync_period("999ms").is_err());
    }
}
