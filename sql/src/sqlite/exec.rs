//! Statements and replies in terms of the driver.

use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt;
use sqlx::migrate::Migration;
use sqlx::query::Query;
use sqlx::sqlite::{SqliteArguments, SqliteRow};
use sqlx::{AssertSqlSafe, Connection, Error, Executor, Row, SqliteConnection};
use storage_model::DatabaseId;
use tokio::time::Instant;

use super::schema;
use crate::classify::Dialect;
use crate::fault::Fault;
use crate::session::{Arg, Record, Server, Session, Visit};
use crate::statement::Names;

/// SQLite would take 1 GB. This is the default limit of a MySQL server.
const PACKET_BYTES_MAX: usize = 64 << 20;
/// The low byte of all errors with the meaning "another connection of the same cache holds the
/// table".
const LOCKED: u32 = 6;
/// The wait before such a statement is tried again.
const LOCKED_PAUSE: Duration = Duration::from_millis(1);

/// One connection to a file or a database in memory.
#[derive(Debug)]
pub(crate) struct SqliteSession {
    connection: SqliteConnection,
    lock_wait: Duration,
    server: Server,
}

impl SqliteSession {
    /// A connection that is set up.
    pub(super) fn new(connection: SqliteConnection, lock_wait: Duration) -> Self {
        // There is no server that could be replaced.
        let server = Server {
            packet_bytes_max: PACKET_BYTES_MAX,
            id: DatabaseId::of("sqlite"),
            forgets: None,
        };
        Self {
            connection,
            lock_wait,
            server,
        }
    }
}

impl Session for SqliteSession {
    async fn execute(&mut self, text: Arc<str>, args: &[Arg<'_>]) -> Result<u64, Fault> {
        let until = Instant::now() + self.lock_wait;
        loop {
            let result = self
                .connection
                .execute(query(Arc::clone(&text), args))
                .await;
            match result.map(|done| done.rows_affected()).map_err(fault) {
                // SQLite itself waits for other processes, but not for a connection of the same
                // cache that was thrown away and still rolls back. A statement that met such a
                // connection did nothing.
                Err(fault) if fault.code & 0xff == LOCKED && Instant::now() < until => {
                    tokio::time::sleep(LOCKED_PAUSE).await
                }
                result => return result,
            }
        }
    }

    async fn fetch(
        &mut self,
        text: Arc<str>,
        args: &[Arg<'_>],
        visit: Visit<'_>,
    ) -> Result<(), Fault> {
        let until = Instant::now() + self.lock_wait;
        loop {
            match self.rows(Arc::clone(&text), args, &mut *visit).await {
                // Only before the first row, as above.
                Err(fault) if fault.code & 0xff == LOCKED && Instant::now() < until => {
                    tokio::time::sleep(LOCKED_PAUSE).await
                }
                result => return result,
            }
        }
    }

    async fn ping(&mut self) -> Result<(), Fault> {
        self.connection.ping().await.map_err(fault)
    }

    fn server(&self) -> &Server {
        &self.server
    }

    async fn migrate(&mut self, migrations: &[Migration], names: &Names) -> Result<(), Fault> {
        schema::migrate(&mut self.connection, migrations, names).await
    }

    async fn close(self) {
        // Data after the last checkpoint stays in the write-ahead log. The next connection reads it
        // from there.
        drop(self.connection.close().await);
    }
}

impl SqliteSession {
    async fn rows(
        &mut self,
        text: Arc<str>,
        args: &[Arg<'_>],
        visit: Visit<'_>,
    ) -> Result<(), Fault> {
        let mut rows = query(text, args).fetch(&mut self.connection);
        let mut visited = Ok(());
        while let Some(row) = rows.try_next().await.map_err(fault)? {
            // Read to the end for any result of the visitor. Only then does the statement end and
            // release its lock.
            if visited.is_ok() {
                visited = visit(&row);
            }
        }
        visited
    }
}

pub(super) fn query(
    text: Arc<str>,
    args: &[Arg<'_>],
) -> Query<'static, sqlx::Sqlite, SqliteArguments> {
    args.iter()
        .fold(sqlx::query(AssertSqlSafe(text)), |query, arg| match arg {
            Arg::Bytes(bytes) => query.bind(*bytes),
            // Versions and epochs stay far below. A larger number matches no row.
            Arg::Number(number) => query.bind(i64::try_from(*number).unwrap_or(i64::MAX)),
        })
}

impl Record for SqliteRow {
    fn bytes(&self, column: usize) -> Result<&[u8], Fault> {
        self.try_get(column)
            .map_err(|error| Fault::operator(error.to_string()))
    }

    fn number(&self, column: usize) -> Result<u64, Fault> {
        let number: i64 = self
            .try_get(column)
            .map_err(|error| Fault::operator(error.to_string()))?;
        u64::try_from(number).map_err(|_| {
            Fault::operator(format!(
                "column {column} holds the negative number {number}"
            ))
        })
    }
}

/// The one place that reads the driver's errors.
pub(super) fn fault(error: Error) -> Fault {
    match error {
        Error::Database(answer) => {
            let code = answer
                .code()
                .and_then(|code| code.parse().ok())
                .unwrap_or_default();
            Fault::answered(Dialect::Sqlite, code, answer.message())
        }
        Error::Configuration(error) => Fault::operator(error.to_string()),
        error => Fault::lost(error.to_string()),
    }
}
