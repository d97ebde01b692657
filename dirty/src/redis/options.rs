//! The options of an engine on Redis.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use storage_model::{Ids, Intercept, RandomIds};

use super::Dial;

/// The address of a Redis, and how it is used.
#[derive(Clone)]
pub struct RedisOptions {
    /// `redis://user:password@host:port/db`, `rediss://…` (TLS), `redis+unix:///path`,
    /// `redis-cluster://a:1,b:2` or `rediss-cluster://…`, `redis-sentinel://a:1,b:2/master/db` or
    /// `rediss-sentinel://…`. A cluster needs one address that answers. More addresses make it
    /// safer. The URL should name all Sentinels, since the address that most of them name is
    /// believed.
    pub url: String,
    /// The user, if the URL names none. Default: none, the server's default user.
    pub user: Option<String>,
    /// The password, if the URL names none. Default: none.
    pub password: Option<String>,
    /// The user at the Sentinels. Default: none, their default user.
    pub sentinel_user: Option<String>,
    /// The password at the Sentinels. Default: none, they ask for none.
    pub sentinel_password: Option<String>,
    /// The number of the database, if the URL names none. Default: none, database 0. A cluster has
    /// no other.
    pub database: Option<i64>,
    /// A PEM file with the certificates of the authorities that are trusted with TLS. Default:
    /// none, the operating system's.
    pub ca_file: Option<PathBuf>,
    /// The number of connections to each node, which all calls share. Default: 4, at least 1. Calls
    /// of one command go over the first, calls of several commands over the second. While 128 calls
    /// are under way over a connection, further calls go over the next.
    pub connections: usize,
    /// The longest time to open a connection. Default: 1 s.
    pub connect_timeout: Duration,
    /// The longest time to wait for an answer. Default: 1 s. After it the outcome of a write is
    /// unknown.
    pub response_timeout: Duration,
    /// The longest time to wait for a free place among the connections. Default: 2 s.
    pub wait_timeout: Duration,
    /// Whether small packets are sent at once (TCP_NODELAY). Default: false.
    pub tcp_nodelay: bool,
    /// The prefix of every key. Default: `slug`. No braces, no control characters.
    pub prefix: String,
    /// How many partitions owners are hashed into. Default: 8. The number must never change once
    /// data is stored.
    pub partitions: u32,
    /// How long landed data stays unless it is used. Default: 1 hour.
    pub clean_ttl: Duration,
    /// How long the hot tier remembers that an owner has no data. Default: 10 s.
    pub absent_ttl: Duration,
    /// Whether the engine only reads. Commands that would write are rejected before they are sent.
    /// If another server made the record of a partition, its hashes are read as suspect. Default:
    /// false.
    pub read_only: bool,
    /// The source of the store's name, by which the server knows its calls. Default: at random.
    pub ids: Arc<dyn Ids>,
    /// The hook that every pipeline passes, for tests. Default: none.
    pub intercept: Option<Arc<dyn Intercept>>,
    /// The hook that opens connections, for tests. Default: none, the network does.
    pub dial: Option<Arc<dyn Dial>>,
}

impl RedisOptions {
    /// The defaults, for this URL.
    #[must_use]
    pub fn new(url: &str) -> Self {
        Self {
            url: url.to_owned(),
            user: None,
            password: None,
            sentinel_user: None,
            sentinel_password: None,
            database: None,
            ca_file: None,
            connections: 4,
            connect_timeout: Duration::from_secs(1),
            response_timeout: Duration::from_secs(1),
            wait_timeout: Duration::from_secs(2),
            tcp_nodelay: false,
            prefix: "slug".to_owned(),
            partitions: 8,
            clean_ttl: Duration::from_secs(3_600),
            absent_ttl: Duration::from_secs(10),
            read_only: false,
            ids: Arc::new(RandomIds),
            intercept: None,
            dial: None,
        }
    }
}

impl fmt::Debug for RedisOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the URL, the user and the password, since each may hold a secret.
        f.debug_struct("RedisOptions")
            .field("connections", &self.connections)
            .field("prefix", &self.prefix)
            .field("partitions", &self.partitions)
            .field("clean_ttl", &self.clean_ttl)
            .field("absent_ttl", &self.absent_ttl)
            .finish_non_exhaustive()
    }
}
