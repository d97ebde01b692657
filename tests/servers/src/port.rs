//! Free TCP ports of 127.0.0.1.

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    net::{Ipv4Addr, TcpListener},
    ops::Range,
};

use anyhow::{Result, bail};

/// Below the range from which Linux takes the ports of outgoing connections (32768 and up).
///
/// The kernel hands out ports of that range for port 0. While a killed server is down, a client
/// that keeps connecting to such a port can get the same port for its own end. It then talks to
/// itself, and the server can't have its port back.
const PORTS: Range<u16> = 15_000..32_000;

/// The number of ports that are tried before giving up.
const TRIES: usize = 200;

/// A port that was free a moment ago. Another process may take it before the server does. The
/// caller then starts the server again on another port.
pub(crate) fn free() -> Result<u16> {
    for _ in 0..TRIES {
        let port = random();
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    bail!(
        "no free port of 127.0.0.1 in {}..{} after {TRIES} tries",
        PORTS.start,
        PORTS.end
    )
}

fn random() -> u16 {
    let span = u64::from(PORTS.end - PORTS.start);
    let offset = RandomState::new().build_hasher().finish() % span;
    PORTS.start + u16::try_from(offset).unwrap_or_default()
}
