//! The session settings of every connection before its first use.

use std::time::Duration;

use sqlx::{AssertSqlSafe, MySqlConnection, Row};

use super::exec::fault;
use super::server;
use crate::fault::Fault;
use crate::session::{Record, Server};

/// Seconds. Well above the time that the pool trusts an idle connection without a ping.
const IDLE_MIN: u64 = 3;
/// Below this, a list of names may not fit into one statement.
const PACKET_BYTES_MIN: u64 = 1 << 20;

/// Sets the session up and checks that the server agreed. Returns the server's facts.
pub(super) async fn prepare(
    connection: &mut MySqlConnection,
    lock_wait: Duration,
    limit: Duration,
) -> Result<Server, Fault> {
    let seen = "SELECT CAST(VERSION() AS CHAR), @@max_allowed_packet";
    let row = sqlx::raw_sql(seen)
        .fetch_one(&mut *connection)
        .await
        .map_err(fault)?;
    let version: String = row.try_get(0).map_err(fault)?;
    let packet = row.number(1)?;
    if packet < PACKET_BYTES_MIN {
        return Err(Fault::operator(format!(
            "max_allowed_packet is {packet} bytes: set it to {PACKET_BYTES_MIN} or more"
        )));
    }
    set(connection, &settings(&version, lock_wait, limit)).await?;
    set(
        connection,
        "SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE",
    )
    .await?;
    let galera = sqlx::raw_sql("SHOW VARIABLES LIKE 'wsrep_sync_wait'")
        .fetch_optional(&mut *connection)
        .await
        .map_err(fault)?;
    if galera.is_some() {
        // A read on another node must not be older than commits from before it began.
        set(connection, "SESSION wsrep_sync_wait = 1").await?;
    }
    strict(connection).await?;
    let packet_bytes_max = usize::try_from(packet)
        .map_err(|_| Fault::operator(format!("max_allowed_packet is {packet} bytes")))?;
    server::read(connection, &version, packet_bytes_max).await
}

/// The session variables, by the kind of server. Without a strict mode the server silently cuts
/// values that are too long. A server's default may begin another transaction after each commit, or
/// close the connection, which would look like an unknown outcome.
fn settings(version: &str, lock_wait: Duration, limit: Duration) -> String {
    let idle = limit;
    let limit = if version.contains("MariaDB") {
        // A tenth before this side gives up. So the answer comes over a connection that is still
        // usable, and locks end with the statement.
        format!("max_statement_time = {}", (limit * 9 / 10).as_secs_f64())
    } else {
        // Limits only reads. This side limits writes.
        format!("max_execution_time = {}", limit.as_millis())
    };
    let lock_wait = lock_wait.as_secs().max(1);
    // A client that vanishes inside a transaction holds its locks until the server's timeout, by
    // default eight hours (H44).
    let idle = idle.as_secs().max(IDLE_MIN);
    format!(
        "sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', autocommit = 1, completion_type = 0, innodb_lock_wait_timeout = {lock_wait}, \
         wait_timeout = {idle}, {limit}"
    )
}

/// Makes the server reject any write of this session.
pub(super) async fn forbid_writes(connection: &mut MySqlConnection) -> Result<(), Fault> {
    set(connection, "SESSION TRANSACTION READ ONLY").await
}

async fn set(connection: &mut MySqlConnection, what: &str) -> Result<(), Fault> {
    sqlx::raw_sql(AssertSqlSafe(format!("SET {what}")))
        .execute(connection)
        .await
        .map(drop)
        .map_err(fault)
}

/// Reads the mode back, because a proxy may have swallowed the setting.
async fn strict(connection: &mut MySqlConnection) -> Result<(), Fault> {
    let row = sqlx::raw_sql("SELECT @@SESSION.sql_mode")
        .fetch_one(connection)
        .await
        .map_err(fault)?;
    let mode: String = row.try_get(0).map_err(fault)?;
    if mode.split(',').any(|word| word == "STRICT_ALL_TABLES") {
        return Ok(());
    }
    Err(Fault::operator(format!(
        "the server does not keep sql_mode STRICT_ALL_TABLES (it is {mode:?}), so it would cut values silently"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_server_gets_the_limit_it_knows() {
        let (lock_wait, limit) = (Duration::from_millis(300), Duration::from_millis(1_500));
        let maria = settings("10.11.19-MariaDB-0+deb12u1", lock_wait, limit);
        assert!(
            maria.contains("max_statement_time = 1.35")
                && maria.contains("innodb_lock_wait_timeout = 1,"),
            "{maria}"
        );
        assert!(maria.contains("wait_timeout = 3,"), "{maria}");
        let mysql = settings("9.7.4", lock_wait, limit);
        assert!(
            mysql.contains("max_execution_time = 1500") && !mysql.contains("max_statement_time"),
            "{mysql}"
        );
    }
}
