//! The options of every connection.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sqlx::ConnectOptions;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};

use crate::access::Access;

/// More than the number of texts, so that each connection prepares each statement once.
const STATEMENTS_MAX: usize = 256;

/// The driver's options for a file.
///
/// It has a write-ahead log, so that readers and the writer do not wait for each other. It is
/// synchronised at checkpoints, not at each commit. A crash of the process loses nothing. A power
/// failure can lose the last commits, but never a part of one.
pub(super) fn file(path: &Path, lock_wait: Duration, access: Access) -> SqliteConnectOptions {
    let creates = matches!(access, Access::Creates | Access::Pairs);
    let options = SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(creates);
    let options = common(options, lock_wait);
    if access == Access::Reads {
        // The content stays the same. As with any connection, the log may be written back to the
        // file.
        options.pragma("query_only", "ON")
    } else {
        options
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Normal)
    }
}

/// The driver's options for a database in memory. Each call names another database. Connections
/// with the same name share it.
pub(super) fn memory(lock_wait: Duration) -> SqliteConnectOptions {
    static DATABASES: AtomicU64 = AtomicU64::new(0);
    let number = DATABASES.fetch_add(1, Ordering::Relaxed);
    let options = SqliteConnectOptions::new()
        .filename(format!("file:storage-in-memory-{number}"))
        .in_memory(true)
        .shared_cache(true);
    common(options, lock_wait)
}

fn common(options: SqliteConnectOptions, lock_wait: Duration) -> SqliteConnectOptions {
    options
        .busy_timeout(lock_wait)
        .statement_cache_capacity(STATEMENTS_MAX)
        .disable_statement_logging()
}
