//! Fresh databases of each engine.

use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use sqlx::{AssertSqlSafe, Connection, SqliteConnection};
use storage_config::{ColdUrl, SqlSettings};
use storage_servers::{MariaDbOptions, MariaDbServer};
use storage_sql::conformance::Backend;
use tempfile::TempDir;
use tokio::sync::OnceCell;

/// One server for all cases. Each case has a database of its own.
static SERVER: OnceCell<MariaDbServer> = OnceCell::const_new();
static DATABASES: AtomicUsize = AtomicUsize::new(0);

/// The server of the cases that don't change it.
pub(crate) async fn server() -> &'static MariaDbServer {
    let start = || async {
        MariaDbServer::start(MariaDbOptions::default())
            .await
            .unwrap()
    };
    SERVER.get_or_init(start).await
}

#[derive(Debug)]
pub(crate) struct MySql {
    database: String,
    url: String,
}

impl MySql {
    pub(crate) fn url(&self) -> String {
        self.url.clone()
    }
}

pub(crate) async fn mysql() -> MySql {
    let database = format!("case{}", DATABASES.fetch_add(1, Ordering::Relaxed));
    let url = server().await.fresh_database(&database).await.unwrap();
    MySql { database, url }
}

#[async_trait]
impl Backend for MySql {
    fn settings(&self) -> SqlSettings {
        SqlSettings::new(self.url.parse().unwrap())
    }

    fn is_shared(&self) -> bool {
        true
    }

    async fn poison(&self) -> bool {
        self.sql("ALTER TABLE landing_rows ADD CONSTRAINT harmless CHECK (field <> 'poison')")
            .await
    }

    async fn sql(&self, statement: &str) -> bool {
        server()
            .await
            .sql(&format!("USE {}; {statement}", self.database))
            .await
            .unwrap();
        true
    }
}

#[derive(Debug)]
pub(crate) struct SqliteFile(TempDir);

pub(crate) async fn sqlite_file() -> SqliteFile {
    SqliteFile(TempDir::with_prefix("storage-sql-").unwrap())
}

impl SqliteFile {
    fn url(&self) -> String {
        format!("sqlite:{}", self.0.path().join("cold.db").display())
    }
}

#[async_trait]
impl Backend for SqliteFile {
    fn settings(&self) -> SqlSettings {
        SqlSettings::new(self.url().parse().unwrap())
    }

    fn is_shared(&self) -> bool {
        true
    }

    async fn poison(&self) -> bool {
        let refuse = "BEGIN SELECT RAISE(ABORT, 'poison is refused'); END";
        self.sql(&format!(
            "CREATE TRIGGER harmless BEFORE INSERT ON landing_rows WHEN NEW.field = CAST('poison' AS BLOB) {refuse}"
        ))
        .await
    }

    async fn sql(&self, statement: &str) -> bool {
        let mut connection = SqliteConnection::connect(&self.url()).await.unwrap();
        sqlx::raw_sql(AssertSqlSafe(statement.to_owned()))
            .execute(&mut connection)
            .await
            .unwrap();
        connection.close().await.unwrap();
        true
    }
}

#[derive(Debug)]
pub(crate) struct SqliteMemory;

pub(crate) async fn sqlite_memory() -> SqliteMemory {
    SqliteMemory
}

#[async_trait]
impl Backend for SqliteMemory {
    fn settings(&self) -> SqlSettings {
        SqlSettings::new(ColdUrl::SqliteMemory)
    }

    fn is_shared(&self) -> bool {
        false
    }

    async fn poison(&self) -> bool {
        false
    }

    async fn sql(&self, _: &str) -> bool {
        false
    }
}
