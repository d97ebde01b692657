//! SQLite, bundled.

mod copy;
mod exec;
mod hold;
mod mark;
mod schema;
mod setup;

use std::fmt;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions, Connection};
use storage_coalesce::locked;
use storage_config::SqlSettings;
use tokio::sync::OnceCell;

use crate::access::Access;
use crate::classify::Dialect;
use crate::fault::Fault;
use crate::session::{Engine, Share, lock_wait};
use crate::statement::Names;
use exec::SqliteSession;
pub(crate) use hold::Hold;

/// A file, or a database in memory.
pub(crate) struct Sqlite {
    options: SqliteConnectOptions,
    /// The number of readers of a file. `None` for a database in memory, which has one connection
    /// for all calls.
    readers: Option<u32>,
    /// Keeps a database in memory alive when its one connection is thrown away. Opened with the
    /// first connection, and never used.
    anchor: OnceCell<SqliteConnection>,
    lock_wait: Duration,
    /// Present while this process has the file for itself.
    hold: Mutex<Option<Hold>>,
}

impl Sqlite {
    /// A database in this file. Opens nothing.
    pub(crate) fn file(path: &Path, settings: &SqlSettings, access: Access) -> Self {
        let lock_wait = lock_wait(settings);
        Self {
            options: setup::file(path, lock_wait, access),
            readers: Some(settings.connections.saturating_sub(1).max(1)),
            anchor: OnceCell::new(),
            lock_wait,
            hold: Mutex::default(),
        }
    }

    /// A database in memory. Opens nothing.
    pub(crate) fn memory(settings: &SqlSettings) -> Self {
        let lock_wait = lock_wait(settings);
        Self {
            options: setup::memory(lock_wait),
            readers: None,
            anchor: OnceCell::new(),
            lock_wait,
            hold: Mutex::default(),
        }
    }

    /// Marks the file as held until the store is closed. Returns whether its log is missing. A file that
    /// takes no writes stays as it is.
    pub(crate) async fn hold(&self, hold: Hold) -> bool {
        let had_log = hold.had_log;
        *self.held() = Some(hold);
        let marked = async {
            let mut connection = self.options.connect().await.map_err(exec::fault)?;
            let was_held = mark::read(&mut connection).await? == mark::HELD;
            mark::set(&mut connection, mark::HELD).await?;
            mark::write_back(&mut connection).await?;
            drop(connection.close().await);
            Ok::<bool, Fault>(was_held && !had_log)
        };
        marked.await.unwrap_or_else(|fault| {
            tracing::debug!(path = %self.place(), error = fault.message, "the file was not marked as held");
            false
        })
    }

    fn held(&self) -> std::sync::MutexGuard<'_, Option<Hold>> {
        locked(&self.hold)
    }

    /// Distinguishes a file that can't be opened because of wrong settings from one that can't be
    /// opened now.
    fn unopened(&self, fault: Fault) -> Fault {
        const CANNOT_OPEN: u32 = 14;
        let file = self.options.get_filename();
        if self.readers.is_none() || fault.code & 0xff != CANNOT_OPEN {
            return fault;
        }
        let folder = file
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty())
            .unwrap_or(Path::new("."));
        if !folder.is_dir() {
            return Fault::settings(format!(
                "the folder {} does not exist: make it, or correct sql.url",
                folder.display()
            ));
        }
        if file.is_dir() {
            return Fault::settings("it is a folder, not a file: correct sql.url");
        }
        let denied = |error: std::io::Error| error.kind() == std::io::ErrorKind::PermissionDenied;
        let opened = std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open(file);
        if opened.is_err_and(denied) {
            return Fault::settings(
                "this user may not read and write the file: change its rights, or correct sql.url",
            );
        }
        fault
    }
}

impl fmt::Debug for Sqlite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sqlite({})", self.place())
    }
}

impl Engine for Sqlite {
    type Session = SqliteSession;

    fn place(&self) -> String {
        self.options.get_filename().display().to_string()
    }

    async fn connect(&self) -> Result<SqliteSession, Fault> {
        let unopened = |error| self.unopened(exec::fault(error));
        let open = || async { self.options.connect().await.map_err(unopened) };
        if self.readers.is_none() {
            self.anchor.get_or_try_init(open).await?;
        }
        Ok(SqliteSession::new(open().await?, self.lock_wait))
    }

    async fn copy(&self, to: &Path, names: &Names) -> Result<(), Fault> {
        if self.readers.is_none() {
            return Err(Fault::settings(
                "the database is in memory and has no file to copy: set sql.url to sqlite:PATH",
            ));
        }
        let copied = copy::copy(&self.options, to, names).await;
        copied.map_err(|fault| self.unopened(fault))
    }

    async fn closed(&self) {
        let Some(hold) = self.held().take() else {
            return;
        };
        let freed = async {
            let mut connection = self.options.connect().await.map_err(exec::fault)?;
            mark::set(&mut connection, mark::FREE).await?;
            // The last connection writes the log back and deletes it.
            connection.close().await.map_err(exec::fault)
        };
        if let Err(fault) = freed.await {
            tracing::debug!(path = %self.place(), error = fault.message, "the file was not marked as free");
        }
        // ORDER: last. Whoever gets the lock finds a file without a mark.
        drop(hold);
    }

    fn connections(&self) -> Share {
        self.readers
            .map_or(Share::All(1), |readers| Share::OneWriter { readers })
    }

    fn dialect(&self) -> Dialect {
        Dialect::Sqlite
    }

    fn migrations(&self) -> &'static [(i64, &'static str, &'static str)] {
        &[
            (
                1,
                "tables",
                include_str!("../../migrations/sqlite/0001_tables.sql"),
            ),
            (
                2,
                "shards",
                include_str!("../../migrations/sqlite/0002_shards.sql"),
            ),
        ]
    }
}
