//! The section `redis`: how to reach the hot tier.

use std::path::PathBuf;
use std::time::Duration;

use crate::entry::{Entry, Section, any, between, check, ensure, matching};
use crate::error::ConfigError;
use crate::hot_url::{HOT_URLS, HotUrl};
use crate::secret::Secret;
use crate::url::Login;
use crate::value::Value;

/// How to reach the hot tier, and how it is laid out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedisSettings {
    /// The location of the hot tier. Required. `memory:` runs the hot tier inside this process, for
    /// tests and small servers.
    pub url: HotUrl,
    /// The user that logs in, instead of the URL's. Default: none (empty in a file), which means
    /// the URL's.
    pub user: Option<String>,
    /// The password, instead of the URL's. Default: none (empty in a file), which means the URL's.
    pub password: Option<Secret>,
    /// The number of the database, instead of the URL's. Default: none (empty in a file), which
    /// means the URL's. A cluster has 0 alone.
    pub database: Option<u32>,
    /// A PEM file with the certificates that may sign the server's. Default: none (empty in a
    /// file), which means those of the operating system. Only for a URL with TLS.
    pub tls_ca_file: Option<PathBuf>,
    /// A PEM file with the certificate that this program shows to the server. Default: none (empty
    /// in a file). Only with TLS, and only together with [`tls_key_file`](Self::tls_key_file).
    pub tls_cert_file: Option<PathBuf>,
    /// A PEM file with the key of that certificate. Default: none (empty in a file).
    pub tls_key_file: Option<PathBuf>,
    /// How many connections all callers share, on a cluster to each node. 1 to 64. Default: 4.
    /// Calls of one command go over the first connection, calls of several commands over the
    /// second. While 128 calls are under way there, further calls go over the next. More
    /// connections help only with more than 128 calls under way.
    pub connections: u32,
    /// How long opening a connection may take, its login included. 10 ms to 1 min. Default: 1 s.
    pub connect_timeout: Duration,
    /// How long a reply may take. 10 ms to 1 min. Default: 1 s. After that the outcome of a write
    /// is unknown. The write is repeated on another connection, and applied once, until
    /// [`operation_deadline`](crate::HotSettings::operation_deadline).
    pub response_timeout: Duration,
    /// How long a call waits while all connections are being reopened. 10 ms to 1 min. Default:
    /// 2 s. After that the call fails, and nothing was sent.
    pub wait_timeout: Duration,
    /// The prefix of every key. 1 to 64 bytes without braces and control characters. Default:
    /// `slug`. Servers and workers of one world share it. Two worlds in one Redis need two
    /// prefixes.
    pub prefix: String,
    /// How many parts the owners are hashed into. 1 to 16,384. Default: 8. The first start fixes
    /// the number, and a later start with another number fails. Writes that meet in a part share
    /// its cost, so fewer parts are faster. More parts let more workers land side by side. They
    /// also spread more evenly over the masters of a large cluster.
    pub partitions: u32,
    /// Whether small packets are sent at once (TCP_NODELAY). Default: false, which is as fast or
    /// faster when callers share connections.
    pub tcp_nodelay: bool,
}

impl RedisSettings {
    /// The defaults at this URL.
    #[must_use]
    pub fn new(url: HotUrl) -> Self {
        Self {
            url,
            user: None,
            password: None,
            database: None,
            tls_ca_file: None,
            tls_cert_file: None,
            tls_key_file: None,
            connections: 4,
            connect_timeout: Duration::from_secs(1),
            response_timeout: Duration::from_secs(1),
            wait_timeout: Duration::from_secs(2),
            prefix: "slug".to_owned(),
            partitions: 8,
            tcp_nodelay: false,
        }
    }

    /// The login: `user` and `password`, or the URL's where those are `None`.
    #[must_use]
    pub fn login(&self) -> Login {
        self.url
            .login()
            .or_instead(self.user.as_ref(), self.password.as_ref())
    }

    /// The number of the database: `database`, or the URL's if that is `None`.
    #[must_use]
    pub fn database_number(&self) -> u32 {
        self.database.unwrap_or_else(|| self.url.database())
    }

    /// Checks the section alone. The engine on Redis calls it before it connects.
    ///
    /// # Errors
    /// Names the first value that is not allowed, and the allowed values.
    pub fn validate(&self) -> Result<(), ConfigError> {
        check("redis", self.clone().entries())?;
        self.validate_pairs()
    }

    pub(crate) fn validate_pairs(&self) -> Result<(), ConfigError> {
        let on_cluster = matches!(self.url, HotUrl::Cluster { .. });
        ensure(
            !on_cluster || self.database_number() == 0,
            "redis.database",
            &self.database.show(),
            || "0 or \"\", since a cluster has database 0 alone".to_owned(),
        )?;
        ensure(
            self.tls_cert_file.is_some() == self.tls_key_file.is_some(),
            "redis.tls_key_file",
            &self.tls_key_file.show(),
            || "redis.tls_cert_file and redis.tls_key_file together, or neither".to_owned(),
        )?;
        ensure(
            self.tls_cert_file.is_none() || self.url.tls(),
            "redis.tls_cert_file",
            &self.tls_cert_file.show(),
            || {
                "\"\", or a redis.url with TLS: rediss://, rediss-sentinel:// or rediss-cluster://"
                    .to_owned()
            },
        )?;
        ensure(
            self.tls_ca_file.is_none() || self.url.tls(),
            "redis.tls_ca_file",
            &self.tls_ca_file.show(),
            || {
                "\"\", or a redis.url with TLS: rediss://, rediss-sentinel:// or rediss-cluster://"
                    .to_owned()
            },
        )
    }
}

impl Section for RedisSettings {
    fn entries(&mut self) -> Vec<Entry<'_>> {
        let (short, long) = (Duration::from_millis(10), Duration::from_mins(1));
        vec![
            Entry::new("url", &mut self.url, any(HOT_URLS)),
            Entry::new("user", &mut self.user, any("text, or \"\" for the URL's")),
            Entry::new(
                "password",
                &mut self.password,
                any("text, or \"\" for the URL's"),
            ),
            Entry::new(
                "database",
                &mut self.database,
                any("the number of a database, or \"\" for the URL's"),
            ),
            Entry::new(
                "tls_ca_file",
                &mut self.tls_ca_file,
                any("the path of a PEM file, or \"\" for none"),
            ),
            Entry::new(
                "tls_cert_file",
                &mut self.tls_cert_file,
                any("the path of a PEM file, or \"\" for none"),
            ),
            Entry::new(
                "tls_key_file",
                &mut self.tls_key_file,
                any("the path of a PEM file, or \"\" for none"),
            ),
            Entry::new("connections", &mut self.connections, between(1, 64)),
            Entry::new(
                "connect_timeout",
                &mut self.connect_timeout,
                between(short, long),
            ),
            Entry::new(
                "response_timeout",
                &mut self.response_timeout,
                between(short, long),
            ),
            Entry::new("wait_timeout", &mut self.wait_timeout, between(short, long)),
            Entry::new("prefix", &mut self.prefix, matching(PREFIX, is_prefix)),
            Entry::new("partitions", &mut self.partitions, between(1, 16_384)),
            Entry::new("tcp_nodelay", &mut self.tcp_nodelay, any(bool::KIND)),
        ]
    }
}

const PREFIX: &str = "1 to 64 bytes without braces and control characters";

/// A brace would move the hash tag that keeps a partition's keys in one slot.
#[expect(clippy::ptr_arg, reason = "a rule takes the setting's own type")]
fn is_prefix(prefix: &String) -> bool {
    (1..=64).contains(&prefix.len())
        && !prefix
            .chars()
            .any(|c| c.is_control() || c == '{' || c == '}')
}
