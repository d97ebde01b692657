//! The section `sql`: how to reach the cold tier.

use serde::de::value::{Error, StrDeserializer};
use serde::{Deserialize, Serialize};

use crate::cold_url::{COLD_URLS, ColdUrl};
use crate::section::prelude::*;

section! {
    /// How to reach the cold tier, and which table holds it.
    SqlSettings;

    /// The location of the cold tier. Required in a file. `sqlite:PATH` synchronises its file at
    /// checkpoints: a crash of the process loses nothing, a power failure can lose the last
    /// commits.
    url: ColdUrl = ColdUrl::SqliteMemory, Url(COLD_URLS, fault::<ColdUrl>);
    /// The password, instead of the URL's. Default: none (empty in a file), which means the URL's.
    password: Option<Secret> = None, PASSWORD;
    /// Whether the connection is encrypted and the server is verified. Default:
    /// [`TlsMode::Preferred`]. Not for SQLite.
    tls: TlsMode = TlsMode::Preferred, Text(TlsMode::ALL, TlsMode::is_one);
    /// A PEM file with the certificates that may sign the server's. Default: none, which means
    /// those of the web. Only with `verify-ca` and `verify-identity`.
    tls_ca_file: Option<PathBuf> = None, PEM_FILE;
    /// A PEM file with this program's own certificate. Default: none. Only with TLS and a key file.
    tls_cert_file: Option<PathBuf> = None, PEM_FILE;
    /// A PEM file with the key of that certificate. Default: none.
    tls_key_file: Option<PathBuf> = None, PEM_FILE;
    /// The most connections for hot-loads and flushes of one process. 1 to 256. Default: 4. Batches
    /// have [their own](crate::LandingSettings::connections). A SQLite file takes one for writing.
    connections: u32 = 4, Number(1, 256);
    /// How long opening a connection may take, its login included. 10 ms to 1 min. Default: 3 s.
    connect_timeout: Duration as "crate::duration" = Duration::from_secs(3), Time("10ms", "1m");
    /// How long a load or flush waits for a free connection. 10 ms to 1 min. Default: 3 s. After
    /// that the call fails, and nothing was sent.
    acquire_timeout: Duration as "crate::duration" = Duration::from_secs(3), Time("10ms", "1m");
    /// How long one statement may take. 100 ms to 1 h. Default: 30 s. After that the connection is
    /// given up, and the statement is retried where that is safe. MariaDB itself ends it a tenth
    /// before. A statement waits for a lock for half of this time, but at least 1 s and at most
    /// 5 s.
    statement_timeout: Duration as "crate::duration" = Duration::from_secs(30), Time("100ms", "1h");
    /// The table of all values. 1 to 48 of A to Z, a to z, 0 to 9 and `_`, no digit first. Default:
    /// `landing_rows`. A missing table is created, and others beside it, such as `landing_meta`.
    table: String = "landing_rows".to_owned(), Text("1 to 48 of A to Z, a to z, 0 to 9 and _, no digit first", is_table);
}

/// Whether a connection to MySQL is encrypted, and how the server is verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TlsMode {
    /// `disabled`: never encrypted.
    Disabled,
    /// `preferred`: encrypted if the server offers it, the certificate unchecked. No protection
    /// from an active attacker.
    #[default]
    Preferred,
    /// `required`: encrypted, the certificate unchecked.
    Required,
    /// `verify-ca`: encrypted, the certificate signed by a known authority.
    VerifyCa,
    /// `verify-identity`: as `verify-ca`, and the certificate names the host.
    VerifyIdentity,
}

impl SqlSettings {
    /// The defaults at this URL.
    #[must_use]
    pub fn new(url: ColdUrl) -> Self {
        Self::default().with(|sql| sql.url = url)
    }

    /// The login of the URL, with `password` in place of the URL's if it is set.
    #[must_use]
    pub fn login(&self) -> Login {
        self.url.login().with(self.password.as_ref())
    }

    /// Checks the section alone. The cold tier calls it before it opens a database.
    ///
    /// # Errors
    /// Names the first value that is not allowed, and the allowed values.
    pub fn validate(&self) -> Result<(), ConfigError> {
        check::section("sql", self)?;
        let fits = self.tls_cert_file.is_some() == self.tls_key_file.is_some();
        let both = "sql.tls_cert_file and sql.tls_key_file together, or neither";
        ensure(fits, self, "sql.tls_key_file", both)?;
        let fits = self.tls.encrypts() || self.tls_cert_file.is_none();
        let encrypted = "\"\", or sql.tls = \"required\", \"verify-ca\" or \"verify-identity\"";
        ensure(fits, self, "sql.tls_cert_file", encrypted)?;
        let fits = self.tls.verifies() || self.tls_ca_file.is_none();
        let verified = "\"\", or sql.tls = \"verify-ca\" or \"verify-identity\"";
        ensure(fits, self, "sql.tls_ca_file", verified)?;
        let is_mysql = matches!(self.url, ColdUrl::Mysql { .. });
        let fits = !is_mysql || self.url.login().user.is_some();
        let user = "a user in the URL: mysql://USER@HOST:PORT/DATABASE";
        ensure(fits, self, "sql.url", user)
    }
}

/// The name stands in statements as it is, so no character may need quotes.
fn is_table(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    (1..=48).contains(&name.len())
        && name.bytes().all(plain)
        && !name.starts_with(|first: char| first.is_ascii_digit())
}

impl TlsMode {
    const ALL: &str =
        "\"disabled\", \"preferred\", \"required\", \"verify-ca\" or \"verify-identity\"";

    fn is_one(text: &str) -> bool {
        Self::deserialize(StrDeserializer::<Error>::new(text)).is_ok()
    }

    /// Whether the connection is encrypted in any case.
    #[must_use]
    pub fn encrypts(self) -> bool {
        self == Self::Required || self.verifies()
    }

    /// Whether the server's certificate is checked.
    #[must_use]
    pub fn verifies(self) -> bool {
        matches!(self, Self::VerifyCa | Self::VerifyIdentity)
    }
}
