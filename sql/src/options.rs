//! The database, and the way to reach it.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::ColdError;

/// Whether the connection to MySQL is encrypted and the server's certificate is checked. SQLite
/// ignores it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tls {
    /// Never encrypted.
    Disabled,
    /// Encrypted if the server offers it. Nothing is checked.
    Preferred,
    /// The connection must be encrypted. Nothing is checked.
    Required,
    /// Encrypted, and a known authority has signed the certificate.
    VerifyCa,
    /// As `VerifyCa`, and the certificate names the host.
    VerifyIdentity,
}

/// The database, and the way to reach it. Create it with [`ColdOptions::new`] and set the
/// differences.
#[derive(Clone)]
pub struct ColdOptions {
    /// `mysql://user:password@host:port/database`, `sqlite:PATH` (created if missing) or
    /// `sqlite::memory:` (lives as long as the store, on one connection). A SQLite file is
    /// synchronised at checkpoints. A crash of the process loses nothing. A power failure can lose
    /// the last commits.
    pub url: String,
    /// Replaces the URL's user. Default: none.
    pub user: Option<String>,
    /// Replaces the URL's password. Default: none.
    pub password: Option<String>,
    /// Default: none. Then the URL's `ssl-mode` counts, else `Preferred`.
    pub tls: Option<Tls>,
    /// A PEM file with the certificates of trusted authorities. Default: none, which trusts the
    /// well-known ones.
    pub ca_file: Option<PathBuf>,
    /// The most connections. Default: 4. SQLite takes one for writing and the others for reading.
    pub connections: u32,
    /// The time limit for opening one connection. Default: 3 s.
    pub connect_timeout: Duration,
    /// The time limit for getting a connection, including its opening. Default: 3 s.
    pub acquire_timeout: Duration,
    /// The time limit of one statement. Half of it is the limit for a lock wait (at least 1 s, at
    /// most 5 s). Default: 30 s.
    pub statement_timeout: Duration,
    /// The table of the rows: up to 48 ASCII letters, digits and underscores, not beginning with a
    /// digit. Default: `landing_rows`. The other tables' names have the same start without `_rows`:
    /// `landing_partition`, `landing_meta`, `landing_migration`.
    pub table: String,
    /// Whether opening an empty database creates the schema. Default: true. Otherwise
    /// [`ColdStore::pair`](crate::ColdStore::pair) creates it.
    pub creates: bool,
    /// Whether the store never writes. The database is told so, and calls that would write fail.
    /// Default: false.
    pub read_only: bool,
}

impl ColdOptions {
    /// The options for a database, with all defaults.
    #[must_use]
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            user: None,
            password: None,
            tls: None,
            ca_file: None,
            connections: 4,
            connect_timeout: Duration::from_secs(3),
            acquire_timeout: Duration::from_secs(3),
            statement_timeout: Duration::from_secs(30),
            table: String::from("landing_rows"),
            creates: true,
            read_only: false,
        }
    }

    /// How long a statement waits for another transaction's lock.
    pub(crate) fn lock_wait(&self) -> Duration {
        (self.statement_timeout / 2).clamp(Duration::from_secs(1), Duration::from_secs(5))
    }

    /// Checks the options that the URL's parser does not check.
    pub(crate) fn check(&self) -> Result<(), ColdError> {
        let letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let digit_first = self.table.starts_with(|c: char| c.is_ascii_digit());
        if self.table.is_empty()
            || self.table.len() > 48
            || digit_first
            || !self.table.chars().all(letter)
        {
            return Err(ColdError::settings(format!(
                "table {:?} is not 1 to 48 ASCII letters, digits and underscores with no digit first",
                self.table
            )));
        }
        if self.connections == 0 {
            return Err(ColdError::settings(
                "connections is 0: it must be at least 1".into(),
            ));
        }
        let times = [
            ("connect_timeout", self.connect_timeout),
            ("acquire_timeout", self.acquire_timeout),
            ("statement_timeout", self.statement_timeout),
        ];
        match times.iter().find(|(_, time)| time.is_zero()) {
            Some((name, _)) => Err(ColdError::settings(format!(
                "{name} is 0: it must be above 0"
            ))),
            None => Ok(()),
        }
    }
}

/// Hides the password, even inside the URL.
impl fmt::Debug for ColdOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ColdOptions")
            .field("url", &without_credentials(&self.url))
            .field("user", &self.user)
            .field("password", &self.password.as_ref().map(|_| "***"))
            .field("tls", &self.tls)
            .field("ca_file", &self.ca_file)
            .field("connections", &self.connections)
            .field("connect_timeout", &self.connect_timeout)
            .field("acquire_timeout", &self.acquire_timeout)
            .field("statement_timeout", &self.statement_timeout)
            .field("table", &self.table)
            .finish()
    }
}

/// The URL without the part before its last `@` and without parameters. Both can hold a secret.
fn without_credentials(url: &str) -> String {
    let url = url.split_once('?').map_or(url, |(before, _)| before);
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, place))) => format!("{scheme}://***@{place}"),
        _ => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_no_password() {
        let mut options =
            ColdOptions::new("mysql://ann:se@cret@db.example:3306/game?ssl-key=secret");
        options.password = Some("secret".into());
        let shown = format!("{options:?}");
        assert!(!shown.contains("cret"), "{shown}");
        assert!(shown.contains("db.example:3306/game"), "{shown}");
    }

    #[test]
    fn impossible_options_are_refused_by_name() {
        let with = |change: fn(&mut ColdOptions)| {
            let mut options = ColdOptions::new("sqlite::memory:");
            change(&mut options);
            options.check().unwrap_err().to_string()
        };
        assert!(with(|o| o.table = "a`; DROP".into()).contains("table"));
        assert!(with(|o| o.table = "1a".into()).contains("no digit first"));
        assert!(with(|o| o.connections = 0).contains("connections is 0"));
        assert!(with(|o| o.statement_timeout = Duration::ZERO).contains("statement_timeout is 0"));
        assert!(ColdOptions::new("sqlite::memory:").check().is_ok());
    }
}
