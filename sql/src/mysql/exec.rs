//! Statements and replies in terms of the driver.

use std::sync::Arc;

use futures::TryStreamExt;
use sqlx::migrate::Migration;
use sqlx::mysql::{MySqlArguments, MySqlDatabaseError, MySqlRow};
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, Connection, Error, Executor, MySqlConnection, Row};

use super::schema;
use crate::classify::Dialect;
use crate::fault::Fault;
use crate::session::{Arg, Record, Server, Session, Visit};
use crate::statement::Names;

/// One connection to MySQL or MariaDB.
#[derive(Debug)]
pub(crate) struct MySqlSession {
    connection: MySqlConnection,
    server: Server,
}

impl MySqlSession {
    /// A connection that is set up.
    pub(super) fn new(connection: MySqlConnection, server: Server) -> Self {
        Self { connection, server }
    }
}

impl Session for MySqlSession {
    async fn execute(&mut self, text: Arc<str>, args: &[Arg<'_>]) -> Result<u64, Fault> {
        let result = if args.is_empty() {
            // Some servers can't prepare transaction statements.
            self.connection
                .execute(sqlx::raw_sql(AssertSqlSafe(text)))
                .await
        } else {
            self.connection.execute(query(text, args)).await
        };
        // The driver asks the server to count matched rows, even unchanged ones.
        result.map(|done| done.rows_affected()).map_err(fault)
    }

    async fn fetch(
        &mut self,
        text: Arc<str>,
        args: &[Arg<'_>],
        visit: Visit<'_>,
    ) -> Result<(), Fault> {
        let mut rows = query(text, args).fetch(&mut self.connection);
        let mut visited = Ok(());
        while let Some(row) = rows.try_next().await.map_err(fault)? {
            // Read to the end for any result of the visitor. Only then is the connection usable
            // again.
            if visited.is_ok() {
                visited = visit(&row);
            }
        }
        visited
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
        // A close that does not arrive changes nothing.
        drop(self.connection.close().await);
    }
}

pub(crate) fn query(
    text: Arc<str>,
    args: &[Arg<'_>],
) -> Query<'static, sqlx::MySql, MySqlArguments> {
    args.iter()
        .fold(sqlx::query(AssertSqlSafe(text)), |query, arg| match arg {
            Arg::Bytes(bytes) => query.bind(*bytes),
            Arg::Number(number) => query.bind(*number),
        })
}

impl Record for MySqlRow {
    fn bytes(&self, column: usize) -> Result<&[u8], Fault> {
        self.try_get(column)
            .map_err(|error| Fault::operator(error.to_string()))
    }

    fn number(&self, column: usize) -> Result<u64, Fault> {
        let signed = || self.try_get::<i64, _>(column).map(i64::unsigned_abs);
        self.try_get(column)
            .or_else(|_| signed())
            .map_err(|error| Fault::operator(error.to_string()))
    }
}

/// The fault of a failed attempt to connect.
pub(super) fn unopened(error: Error) -> Fault {
    match error {
        Error::Io(error) => Fault::unopened(&error.to_string()),
        error => fault(error),
    }
}

/// The one place that reads the driver's errors.
pub(super) fn fault(error: Error) -> Fault {
    match error {
        Error::Database(answer) => {
            let number = answer
                .try_downcast_ref::<MySqlDatabaseError>()
                .map_or(0, MySqlDatabaseError::number);
            Fault::answered(Dialect::MySql, u32::from(number), answer.message())
        }
        Error::Configuration(error) => Fault::operator(error.to_string()),
        Error::Tls(error) => Fault::operator(format!(
            "TLS: {error}: see sql.tls, sql.tls_ca_file and sql.tls_cert_file"
        )),
        error => Fault::lost(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classify::Class;

    #[test]
    fn errors_without_an_answer_cost_the_connection_and_blame_no_row() {
        let broken = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
        for error in [
            Error::Io(broken),
            Error::Protocol("out of step".into()),
            Error::RowNotFound,
            Error::WorkerCrashed,
        ] {
            assert_eq!(fault(error).class, Class::Reconnect);
        }
        assert_eq!(
            fault(Error::Configuration("RSA".into())).class,
            Class::Operator
        );
        assert_eq!(fault(Error::Tls("expired".into())).class, Class::Operator);
    }
}
