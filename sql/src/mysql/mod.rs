//! MySQL and MariaDB.

mod exec;
mod schema;
mod server;
mod setup;

use std::fmt;
use std::path::Path;
use std::time::Duration;

use sqlx::ConnectOptions;
use sqlx::mysql::{MySqlConnectOptions, MySqlSslMode};
use storage_config::{MysqlAddress, SqlSettings, TlsMode};

use crate::access::Access;
use crate::classify::Dialect;
use crate::fault::Fault;
use crate::session::{Engine, Share, lock_wait};
use crate::statement::Names;
use exec::MySqlSession;

#[cfg(feature = "bench")]
pub(crate) use exec::query;

/// More than the number of texts, so that each connection prepares each statement once.
const STATEMENTS_MAX: usize = 256;

/// A MySQL or MariaDB server and one of its databases.
pub(crate) struct MySql {
    /// Its address and database, for errors.
    place: String,
    options: MySqlConnectOptions,
    connections: u32,
    lock_wait: Duration,
    statement_timeout: Duration,
    read_only: bool,
}

impl MySql {
    /// A database at this address. Connects to nothing.
    pub(crate) fn new(
        address: &MysqlAddress,
        database: &str,
        settings: &SqlSettings,
        access: Access,
    ) -> Self {
        let mut options = MySqlConnectOptions::new()
            .database(database)
            .ssl_mode(ssl_mode(settings.tls))
            .statement_cache_capacity(STATEMENTS_MAX)
            .disable_statement_logging();
        let place = match address {
            MysqlAddress::Tcp(node) => {
                options = options.host(&node.host).port(node.port);
                format!("{node}/{database}")
            }
            MysqlAddress::Socket(path) => {
                options = options.socket(path);
                format!("{}/{database}", path.display())
            }
        };
        let login = settings.login();
        if let Some(user) = &login.user {
            options = options.username(user);
        }
        if let Some(password) = &login.password {
            options = options.password(password.expose());
        }
        if let Some(file) = &settings.tls_ca_file {
            options = options.ssl_ca(file);
        }
        if let (Some(certificate), Some(key)) = (&settings.tls_cert_file, &settings.tls_key_file) {
            options = options.ssl_client_cert(certificate).ssl_client_key(key);
        }
        Self {
            place,
            options,
            connections: settings.connections,
            lock_wait: lock_wait(settings),
            statement_timeout: settings.statement_timeout,
            read_only: access == Access::Reads,
        }
    }
}

fn ssl_mode(tls: TlsMode) -> MySqlSslMode {
    match tls {
        TlsMode::Disabled => MySqlSslMode::Disabled,
        TlsMode::Preferred => MySqlSslMode::Preferred,
        TlsMode::Required => MySqlSslMode::Required,
        TlsMode::VerifyCa => MySqlSslMode::VerifyCa,
        TlsMode::VerifyIdentity => MySqlSslMode::VerifyIdentity,
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
        self.place.clone()
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

    async fn copy(&self, _: &Path, _: &Names) -> Result<(), Fault> {
        Err(Fault::settings(
            "only a SQLite file is copied here: use the tools of the database, such as mariadb-dump --single-transaction",
        ))
    }

    async fn closed(&self) {}

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
                "shards",
                include_str!("../../migrations/mysql/0002_shards.sql"),
            ),
        ]
    }
}
