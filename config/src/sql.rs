//! The section `sql`: how to reach the cold tier.

use std::path::PathBuf;
use std::time::Duration;

use crate::cold_url::{COLD_URLS, ColdUrl};
use crate::entry::{Entry, Section, any, between, check, ensure, matching};
use crate::error::ConfigError;
use crate::secret::Secret;
use crate::url::Login;
use crate::value::{Raw, Unread, Value};

/// How to reach the cold tier, and which table holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SqlSettings {
    /// The location of the cold tier. Required. `sqlite:PATH` keeps it in one file. The file is
    /// synchronised at checkpoints: a crash of the process loses nothing, but a power failure can
    /// lose the last commits. `sqlite::memory:` forgets it with the process.
    pub url: ColdUrl,
    /// The user that logs in, instead of the URL's. Default: none (empty in a file), which means
    /// the URL's. MySQL needs one of the two.
    pub user: Option<String>,
    /// The password, instead of the URL's. Default: none (empty in a file), which means the URL's.
    pub password: Option<Secret>,
    /// Whether the connection is encrypted and the server is verified. Default:
    /// [`TlsMode::Preferred`]. Not for SQLite.
    pub tls: TlsMode,
    /// A PEM file with the certificates that may sign the server's. Default: none (empty in a
    /// file), which means those of the web. Only with `verify-ca` and `verify-identity`.
    pub tls_ca_file: Option<PathBuf>,
    /// A PEM file with the certificate that this program shows to the server. Default: none (empty
    /// in a file). Only with TLS, and only together with [`tls_key_file`](Self::tls_key_file).
    pub tls_cert_file: Option<PathBuf>,
    /// A PEM file with the key of that certificate. Default: none (empty in a file).
    pub tls_key_file: Option<PathBuf>,
    /// The most connections for hot-loads and flushes of one process. 1 to 256. Default: 4. The
    /// worker has its own ([`LandingSettings::connections`](crate::LandingSettings::connections)).
    /// A SQLite file takes one for writing and the others for reading.
    pub connections: u32,
    /// How long opening a connection may take, its login included. 10 ms to 1 min. Default: 3 s.
    pub connect_timeout: Duration,
    /// How long a load or flush waits for a free connection. 10 ms to 1 min. Default: 3 s. After
    /// that the call fails, and nothing was sent.
    pub acquire_timeout: Duration,
    /// How long one statement may take. 100 ms to 1 h. Default: 30 s. After that the connection is
    /// given up, and the statement is retried where that is safe. MariaDB itself ends a statement a
    /// tenth before. A statement waits half of this time for a lock, but at least 1 s and at most
    /// 5 s.
    pub statement_timeout: Duration,
    /// The table that holds all values. 1 to 48 of A to Z, a to z, 0 to 9 and `_`, no digit first.
    /// Default: `landing_rows`. A missing table is created. The names of the other tables have the
    /// same start without `_rows`, such as `landing_meta`.
    pub table: String,
}

/// Whether a connection to MySQL is encrypted, and how the server is verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
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
        Self {
            url,
            user: None,
            password: None,
            tls: TlsMode::Preferred,
            tls_ca_file: None,
            tls_cert_file: None,
            tls_key_file: None,
            connections: 4,
            connect_timeout: Duration::from_secs(3),
            acquire_timeout: Duration::from_secs(3),
            statement_timeout: Duration::from_secs(30),
            table: "landing_rows".to_owned(),
        }
    }

    /// The login: `user` and `password`, or the URL's where those are `None`.
    #[must_use]
    pub fn login(&self) -> Login {
        self.url
            .login()
            .or_instead(self.user.as_ref(), self.password.as_ref())
    }

    /// Checks the section alone. The cold tier calls it before it opens a database.
    ///
    /// # Errors
    /// Names the first value that is not allowed, and the allowed values.
    pub fn validate(&self) -> Result<(), ConfigError> {
        check("sql", self.clone().entries())?;
        self.validate_pairs()
    }

    pub(crate) fn validate_pairs(&self) -> Result<(), ConfigError> {
        ensure(
            self.tls_cert_file.is_some() == self.tls_key_file.is_some(),
            "sql.tls_key_file",
            &self.tls_key_file.show(),
            || "sql.tls_cert_file and sql.tls_key_file together, or neither".to_owned(),
        )?;
        ensure(
            self.tls_cert_file.is_none() || self.tls.encrypts(),
            "sql.tls_cert_file",
            &self.tls_cert_file.show(),
            || "\"\", or sql.tls = \"required\", \"verify-ca\" or \"verify-identity\"".to_owned(),
        )?;
        ensure(
            self.tls_ca_file.is_none() || self.tls.verifies(),
            "sql.tls_ca_file",
            &self.tls_ca_file.show(),
            || "\"\", or sql.tls = \"verify-ca\" or \"verify-identity\"".to_owned(),
        )?;
        let needs_user = matches!(self.url, ColdUrl::Mysql { .. });
        ensure(
            !needs_user || self.login().user.is_some(),
            "sql.user",
            &self.user.show(),
            || "a user here or in sql.url: mysql://USER@HOST:PORT/DATABASE".to_owned(),
        )
    }
}

impl Section for SqlSettings {
    fn entries(&mut self) -> Vec<Entry<'_>> {
        let (short, long) = (Duration::from_millis(10), Duration::from_mins(1));
        vec![
            Entry::new("url", &mut self.url, any(COLD_URLS)),
            Entry::new("user", &mut self.user, any("text, or \"\" for the URL's")),
            Entry::new(
                "password",
                &mut self.password,
                any("text, or \"\" for the URL's"),
            ),
            Entry::new("tls", &mut self.tls, any(TlsMode::KIND)),
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
            Entry::new("connections", &mut self.connections, between(1, 256)),
            Entry::new(
                "connect_timeout",
                &mut self.connect_timeout,
                between(short, long),
            ),
            Entry::new(
                "acquire_timeout",
                &mut self.acquire_timeout,
                between(short, long),
            ),
            Entry::new(
                "statement_timeout",
                &mut self.statement_timeout,
                between(Duration::from_millis(100), Duration::from_hours(1)),
            ),
            Entry::new("table", &mut self.table, matching(TABLE, is_table)),
        ]
    }
}

const TABLE: &str = "1 to 48 of A to Z, a to z, 0 to 9 and _, no digit first";

/// The name stands in statements as it is, so no character may need quotes.
#[expect(clippy::ptr_arg, reason = "a rule takes the setting's own type")]
fn is_table(name: &String) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    (1..=48).contains(&name.len())
        && name.bytes().all(plain)
        && !name.starts_with(|c: char| c.is_ascii_digit())
}

impl TlsMode {
    const NAMES: [(&'static str, Self); 5] = [
        ("disabled", Self::Disabled),
        ("preferred", Self::Preferred),
        ("required", Self::Required),
        ("verify-ca", Self::VerifyCa),
        ("verify-identity", Self::VerifyIdentity),
    ];

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

impl Value for TlsMode {
    const KIND: &'static str =
        "\"disabled\", \"preferred\", \"required\", \"verify-ca\" or \"verify-identity\"";

    fn read(raw: &Raw<'_>) -> Result<Self, Unread> {
        let text = String::read(raw)?;
        Self::NAMES
            .into_iter()
            .find(|(name, _)| *name == text)
            .map(|(_, mode)| mode)
            .ok_or(Unread::Other)
    }

    fn show(&self) -> String {
        let name = Self::NAMES
            .into_iter()
            .find(|(_, mode)| mode == self)
            .map_or("", |(name, _)| name);
        format!("{name:?}")
    }

    fn redact(text: &str) -> String {
        text.to_owned()
    }
}
