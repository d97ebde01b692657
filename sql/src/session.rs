//! The interface of an engine's connection: the few operations that the shared code needs.

use std::fmt;
use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sqlx::migrate::Migration;
use storage_config::SqlSettings;
use storage_model::DatabaseId;

use crate::classify::Dialect;
use crate::fault::Fault;
use crate::statement::Names;

/// A value bound to a placeholder.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Arg<'a> {
    Bytes(&'a [u8]),
    Number(u64),
}

impl<'a> From<&'a str> for Arg<'a> {
    fn from(text: &'a str) -> Self {
        Self::Bytes(text.as_bytes())
    }
}

/// One row of a result.
pub(crate) trait Record {
    /// The bytes of this column.
    fn bytes(&self, column: usize) -> Result<&[u8], Fault>;
    /// The number in this column.
    fn number(&self, column: usize) -> Result<u64, Fault>;
}

/// The visitor of each row of a result. An error breaks the connection.
pub(crate) type Visit<'a> = &'a mut (dyn FnMut(&dyn Record) -> Result<(), Fault> + Send);

/// The purpose of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Read,
    Write,
}

/// Opens connections of one kind of database.
pub(crate) trait Engine: Send + Sync + fmt::Debug + 'static {
    /// A connection.
    type Session: Session;

    /// The database's address, for errors. Never with a password.
    fn place(&self) -> String;

    /// Opens a connection and sets it up.
    fn connect(&self) -> impl Future<Output = Result<Self::Session, Fault>> + Send;

    /// Copies the database to a new file, while others use it. The copy has no identity.
    fn copy(&self, to: &Path, names: &Names) -> impl Future<Output = Result<(), Fault>> + Send;

    /// All connections of the store were closed.
    fn closed(&self) -> impl Future<Output = ()> + Send;

    /// The number of connections for each role, or for both if they share them.
    fn connections(&self) -> Share;

    /// The dialect of its statements.
    fn dialect(&self) -> Dialect;

    /// The dialect's migrations: version, description, template.
    fn migrations(&self) -> &'static [(i64, &'static str, &'static str)];
}

/// How long a statement waits for another transaction's lock.
pub(crate) fn lock_wait(settings: &SqlSettings) -> Duration {
    (settings.statement_timeout / 2).clamp(Duration::from_secs(1), Duration::from_secs(5))
}

/// How readers and writers share connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Share {
    /// All connections read and write.
    All(u32),
    /// One connection writes, and this many read.
    OneWriter { readers: u32 },
}

/// The server's facts, as a connection knows them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Server {
    /// The most bytes that one statement may have.
    pub(crate) packet_bytes_max: usize,
    /// The process and server behind the connection.
    pub(crate) id: DatabaseId,
    /// Why the server may forget its commits, with the name of its setting. `None` if a commit
    /// survives a crash.
    pub(crate) forgets: Option<String>,
}

/// One connection. A call that is cut leaves it unusable, and the caller throws it away.
pub(crate) trait Session: Send + 'static {
    /// Runs a statement without a result. Returns the number of matched rows.
    fn execute(
        &mut self,
        text: Arc<str>,
        args: &[Arg<'_>],
    ) -> impl Future<Output = Result<u64, Fault>> + Send;

    /// Runs a statement and visits each row of its result.
    fn fetch(
        &mut self,
        text: Arc<str>,
        args: &[Arg<'_>],
        visit: Visit<'_>,
    ) -> impl Future<Output = Result<(), Fault>> + Send;

    /// Whether the other side still answers.
    fn ping(&mut self) -> impl Future<Output = Result<(), Fault>> + Send;

    /// The server's facts from when the connection was opened.
    fn server(&self) -> &Server;

    /// Applies the missing migrations, under a lock.
    fn migrate(
        &mut self,
        migrations: &[Migration],
        names: &Names,
    ) -> impl Future<Output = Result<(), Fault>> + Send;

    /// Closes the connection in order.
    fn close(self) -> impl Future<Output = ()> + Send;
}
