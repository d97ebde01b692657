//! The identity of the server, and whether it keeps its commits (H33).

use sqlx::{AssertSqlSafe, MySqlConnection, Row};
use storage_model::DatabaseId;

use super::exec::fault;
use crate::fault::Fault;
use crate::session::{Record, Server};

/// Reads the server's facts. `version` is the text of VERSION().
pub(super) async fn read(
    connection: &mut MySqlConnection,
    version: &str,
    packet_bytes_max: usize,
) -> Result<Server, Fault> {
    let row = sqlx::raw_sql(AssertSqlSafe(question(version)))
        .fetch_one(&mut *connection)
        .await
        .map_err(fault)?;
    let words: String = row.try_get(0).map_err(fault)?;
    let log = Log {
        flush: row.number(1)?,
        sync_binlog: row.number(2)?,
        log_bin: row.number(3)? == 1,
    };
    let galera = sqlx::raw_sql("SHOW VARIABLES LIKE 'wsrep_on'")
        .fetch_optional(connection)
        .await
        .map_err(fault)?;
    let is_on =
        |row: &sqlx::mysql::MySqlRow| row.try_get::<String, _>(1).is_ok_and(|value| value == "ON");
    let forgets = log.forgets(galera.as_ref().is_some_and(is_on));
    Ok(Server {
        packet_bytes_max,
        id: DatabaseId::of(&words),
        forgets,
    })
}

/// The query for the server's identity: its name, the second of its start, and the random part of
/// the ids that it generates.
///
/// Time and uptime belong to the same moment, the statement's begin. So their difference is the
/// same in every answer of one process. From its 20th character a UUID has a random sequence and a
/// node, which the server chooses when it starts. They tell two starts in one second apart. The
/// server also chooses a new sequence when the clock goes back. Then marks on probation land once
/// more without need.
fn question(version: &str) -> String {
    let (name, status) = if version.contains("MariaDB") {
        (
            "CONCAT(@@server_id, '@', @@hostname, ':', @@port)",
            "information_schema.GLOBAL_STATUS",
        )
    } else {
        ("@@server_uuid", "performance_schema.global_status")
    };
    format!(
        "SELECT CAST(CONCAT({name}, ' since ', CAST(UNIX_TIMESTAMP() AS SIGNED) - CAST(VARIABLE_VALUE AS SIGNED), \
         ' as ', SUBSTRING(UUID(), 20)) AS CHAR), \
         @@GLOBAL.innodb_flush_log_at_trx_commit, @@GLOBAL.sync_binlog, @@GLOBAL.log_bin \
         FROM {status} WHERE VARIABLE_NAME = 'UPTIME'"
    )
}

/// When the server's logs reach the disk.
#[derive(Debug, Clone, Copy)]
struct Log {
    flush: u64,
    sync_binlog: u64,
    log_bin: bool,
}

impl Log {
    fn forgets(self, galera: bool) -> Option<String> {
        match self {
            Self { flush, .. } if flush != 1 => Some(format!("innodb_flush_log_at_trx_commit is {flush}, not 1")),
            Self { sync_binlog, log_bin: true, .. } if sync_binlog != 1 => {
                Some(format!("sync_binlog is {sync_binlog}, not 1, while log_bin is on"))
            }
            _ => galera.then(|| "wsrep_on is ON, and a node can leave the cluster before the others have applied its commits".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_flushes_at_each_commit_is_not_warned_of() {
        let forgets = |flush, sync_binlog, log_bin, galera| {
            Log {
                flush,
                sync_binlog,
                log_bin,
            }
            .forgets(galera)
            .unwrap_or_default()
        };
        assert_eq!(forgets(1, 0, false, false), "");
        assert_eq!(forgets(1, 1, true, false), "");
        assert!(forgets(0, 1, true, false).contains("innodb_flush_log_at_trx_commit is 0"));
        assert!(forgets(2, 1, false, false).contains("innodb_flush_log_at_trx_commit is 2"));
        assert!(forgets(1, 1000, true, false).contains("sync_binlog is 1000"));
        assert!(forgets(1, 1, true, true).contains("wsrep_on"));
    }
}
