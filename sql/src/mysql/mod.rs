//! MySQL and MariaDB.

mod exec;
mod schema;
mod server;
mod setup;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use sqlx::ConnectOptions;
use sqlx::mysql::{MySqlConnectOptions, MySqlSslMode};

use crate::classify::Dialect;
use crate::fault::Fault;
use crate::session::{Engine, Share};
use crate::{ColdError, ColdOptions, Tls};
use exec::MySqlSession;

#[cfg(feature = "bench")]
pub(crate) use exec::query;

/// More than the number of texts, so that each connection prepares each statement once.
const STATEMENTS_MAX: usize = 256;

/// A MySQL or MariaDB server and one of its databases.
pub(crate) struct MySql {
    options: MySqlConnectOptions,
    connections: u32,
    lock_wait: Duration,
    statement_timeout: Duration,
    read_only: bool,
}

impl MySql {
    /// Reads the URL and the options. Connects to nothing.
    pub(crate) fn new(options: &ColdOptions) -> Result<Self, ColdError> {
        // The parser's error is not shown, because it may quote the URL.
        let parsed = MySqlConnectOptions::from_str(&options.url);
        let shape = "the URL is not of the form mysql://user:password@host:port/database";
        let mut connect = parsed
            .map_err(|_| ColdError::settings(shape.into()))?
            .disable_statement_logging();
        if connect.get_database().is_none() {
            return Err(ColdError::settings(
                "the URL names no database: add /name after the host".into(),
            ));
        }
        if let Some(user) = &options.user {
            connect = connect.username(user);
        }
        if let Some(password) = &options.password {
            connect = connect.password(password);
        }
        if let Some(tls) = options.tls {
            connect = connect.ssl_mode(ssl_mode(tls));
        }
        if let Some(file) = &options.ca_file {
            connect = connect.ssl_ca(file);
        }
        Ok(Self {
            options: connect.statement_cache_capacity(STATEMENTS_MAX),
            connections: options.connections,
            lock_wait: options.lock_wait(),
            statement_timeout: options.statement_timeout,
            read_only: options.read_only,
        })
    }
}

fn ssl_mode(tls: Tls) -> MySqlSslMode {
    match tls {
        Tls::Disabled => MySqlSslMode::Disabled,
        Tls::Preferred => MySqlSslMode::Preferred,
        Tls::Required => MySqlSslMode::Required,
        Tls::VerifyCa => MySqlSslMode::VerifyCa,
        Tls::VerifyIdentity => MySqlSslMode::VerifyIdentity,
    }
}

/// Shows the address without the user.
impl fmt::Debug for MySql {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MySql({})", self.place())
    }
}

impl Engine for MySql {
    type Session = MySqlSession;

    fn place(&self) -> String {
        let database = self.options.get_database().unwrap_or_default();
        match self.options.get_socket() {
            Some(socket) => format!("{}/{database}", socket.display()),
            None => format!(
                "{}:{}/{database}",
                self.options.get_host(),
                self.options.get_port()
            ),
        }
    }

    async fn connect(&self) -> Result<MySqlSession, Fault> {
        let mut connection = self.options.connect().await.map_err(exec::unopened)?;
        let server =
            setup::prepare(&mut connection, self.lock_wait, self.statement_timeout).await?;
        if self.read_only {
            setup::forbid_writes(&mut connection).await?;
        }
        Ok(MySqlSession::new(connection, server))
    }

    fn connections(&self) -> Share {
        Share::All(self.connections)
    }

    fn dialect(&self) -> Dialect {
        Dialect::MySql
    }

    fn migrations(&self) -> &'static [(i64, &'static str, &'static str)] {
        &[
            (
                1,
                "tables",
                include_str!("../../migrations/mysql/0001_tables.sql"),
            ),
            (
                2,
                "layout",
                include_str!("../../migrations/mysql/0002_layout.sql"),
            ),
        ]
    }
}
