//! Which database the hot tier belongs to, as the hot tier remembers it.

use storage_model::{Timestamp, Token};

/// What the hot tier holds of its pairing with a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct HotPaired {
    /// The hot tier's own token.
    pub token: Token,
    /// The identity of its database.
    pub database: Token,
    /// How many partitions it has.
    pub partitions: u32,
    /// The number of the layout of its keys.
    pub layout: u32,
    /// When it took over, by its own clock.
    pub since: Timestamp,
}

/// The pairing beside the server that holds it, of one moment.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HotPairing {
    /// Which server process, in which replication history, answered.
    pub incarnation: String,
    /// The hot tier's time.
    pub now: Timestamp,
    /// The number of its database on that server; 0 in a cluster and in memory.
    pub number: u32,
    /// The prefix of its keys.
    pub prefix: String,
    /// Where it is: host and port, never a login.
    pub address: String,
    /// None in a hot tier that is blank.
    pub paired: Option<HotPaired>,
}
