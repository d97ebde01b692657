//! The database that the hot tier belongs to, as the hot tier remembers it.

use storage_model::{Timestamp, Token};

/// The hot tier's record of its pairing with a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct HotPaired {
    /// The hot tier's own token.
    pub token: Token,
    /// The identity of its database.
    pub database: Token,
    /// The number of partitions.
    pub partitions: u32,
    /// The number of the layout of its keys.
    pub layout: u32,
    /// When the hot tier took over, by its own clock.
    pub since: Timestamp,
}

/// The pairing and the server that holds it, at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HotPairing {
    /// The server process and the replication history that answered.
    pub incarnation: String,
    /// The hot tier's time.
    pub now: Timestamp,
    /// The number of its database on that server. It is 0 in a cluster and in memory.
    pub number: u32,
    /// The prefix of its keys.
    pub prefix: String,
    /// Its address: host and port, never a login.
    pub address: String,
    /// `None` in a blank hot tier.
    pub paired: Option<HotPaired>,
}
