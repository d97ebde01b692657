//! The section `redis`: how to reach the hot tier.

use crate::hot_url::{HOT_URLS, HotUrl};
use crate::section::prelude::*;

section! {
    /// How to reach the hot tier, and how it is laid out.
    RedisSettings;

    /// The location of the hot tier. Required in a file. `memory:` is the memory of this process.
    url: HotUrl = HotUrl::Memory, Url(HOT_URLS, fault::<HotUrl>);
    /// The password, instead of the URL's. Default: none (empty in a file), which means the URL's.
    password: Option<Secret> = None, PASSWORD;
    /// A PEM file with the certificates that may sign the server's. Default: none, which means
    /// those of the operating system. Only for a URL with TLS.
    tls_ca_file: Option<PathBuf> = None, PEM_FILE;
    /// A PEM file with this program's own certificate. Default: none. Only with TLS and a key file.
    tls_cert_file: Option<PathBuf> = None, PEM_FILE;
    /// A PEM file with the key of that certificate. Default: none.
    tls_key_file: Option<PathBuf> = None, PEM_FILE;
    /// How many connections all callers share, on a cluster to each node. 1 to 64. Default: 4.
    /// Calls of one command go over the first connection, calls of several commands over the
    /// second. While 128 calls are under way there, further calls go over the next.
    connections: u32 = 4, Number(1, 64);
    /// How long opening a connection may take, its login included. 10 ms to 1 min. Default: 1 s.
    connect_timeout: Duration as "crate::duration" = Duration::from_secs(1), Time("10ms", "1m");
    /// How long a reply may take. 10 ms to 1 min. Default: 1 s. After that the outcome of a write
    /// is unknown. The write is repeated on another connection, and applied once, until
    /// [`operation_deadline`](crate::HotSettings::operation_deadline).
    response_timeout: Duration as "crate::duration" = Duration::from_secs(1), Time("10ms", "1m");
    /// How long a call waits while all connections are being reopened. 10 ms to 1 min. Default: 2
    /// s. After that the call fails, and nothing was sent.
    wait_timeout: Duration as "crate::duration" = Duration::from_secs(2), Time("10ms", "1m");
    /// The prefix of every key. 1 to 64 bytes without braces and control characters. Default:
    /// `slug`. Servers and workers of one world share it. Two worlds in one Redis need two
    /// prefixes.
    prefix: String = "slug".to_owned(), Text("1 to 64 bytes without braces and control characters", is_prefix);
    /// How many parts the owners are hashed into. 1 to 16,384. Default: 8. The first start fixes
    /// the number. Writes that meet in a part share its cost, so fewer parts are faster. More parts
    /// let more workers land side by side, and spread more evenly over the masters of a large
    /// cluster.
    partitions: u32 = 8, Number(1, 16_384);
}

impl RedisSettings {
    /// The defaults at this URL.
    #[must_use]
    pub fn new(url: HotUrl) -> Self {
        Self::default().with(|redis| redis.url = url)
    }

    /// The login of the URL, with `password` in place of the URL's if it is set.
    #[must_use]
    pub fn login(&self) -> Login {
        self.url.login().with(self.password.as_ref())
    }

    /// Checks the section alone. The engine on Redis calls it before it connects.
    ///
    /// # Errors
    /// Names the first value that is not allowed, and the allowed values.
    pub fn validate(&self) -> Result<(), ConfigError> {
        check::section("redis", self)?;
        let fits = self.tls_cert_file.is_some() == self.tls_key_file.is_some();
        let both = "redis.tls_cert_file and redis.tls_key_file together, or neither";
        ensure(fits, self, "redis.tls_key_file", both)?;
        let with_tls =
            "\"\", or a redis.url with TLS: rediss://, rediss-sentinel:// or rediss-cluster://";
        let fits = self.url.tls() || self.tls_cert_file.is_none();
        ensure(fits, self, "redis.tls_cert_file", with_tls)?;
        let fits = self.url.tls() || self.tls_ca_file.is_none();
        ensure(fits, self, "redis.tls_ca_file", with_tls)
    }
}

/// A brace would move the hash tag that keeps a partition's keys in one slot.
fn is_prefix(text: &str) -> bool {
    is_name(text) && !text.contains(['{', '}'])
}
