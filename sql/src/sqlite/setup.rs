//! The options of every connection.

use std::str::FromStr;
use std::time::Duration;

use sqlx::ConnectOptions;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};

use crate::ColdError;

/// More than the number of texts, so that each connection prepares each statement once.
const STATEMENTS_MAX: usize = 256;

/// The driver's options for a URL, and whether the URL names a database in memory.
///
/// A file has a write-ahead log, so that readers and the writer do not wait for each other. It is
/// synchronised at checkpoints, not at each commit. A crash of the process loses nothing. A power
/// failure can lose the last commits, but never a part of one.
pub(super) fn options(
    url: &str,
    lock_wait: Duration,
    read_only: bool,
) -> Result<(SqliteConnectOptions, bool), ColdError> {
    let parsed = SqliteConnectOptions::from_str(url);
    let options = parsed.map_err(|_| {
        ColdError::settings("the URL is not of the form sqlite:PATH or sqlite::memory:".into())
    })?;
    let path = url.strip_prefix("sqlite:").unwrap_or(url);
    let path = path.strip_prefix("//").unwrap_or(path);
    if path.is_empty() {
        return Err(ColdError::settings(
            "the URL names no file: write sqlite:PATH or sqlite::memory:".into(),
        ));
    }
    let in_memory = path.starts_with(":memory:") || path.contains("mode=memory");
    let options = options
        .busy_timeout(lock_wait)
        .statement_cache_capacity(STATEMENTS_MAX)
        .disable_statement_logging();
    let options = if in_memory {
        options
    } else if read_only {
        // The content stays the same. As with any connection, the log may be written back to the
        // file.
        options.create_if_missing(false).pragma("query_only", "ON")
    } else {
        options
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Normal)
    };
    Ok((options, in_memory))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_told_from_files() {
        let in_memory = |url| options(url, Duration::from_secs(1), false).unwrap().1;
        assert!(in_memory("sqlite::memory:") && in_memory("sqlite://:memory:"));
        assert!(!in_memory("sqlite:game.db") && !in_memory("sqlite:///var/lib/game.db"));
        assert!(options("sqlite:", Duration::from_secs(1), false).is_err());
    }
}
