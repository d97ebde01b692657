//! What an engine's connection can do: the few words that the shared code needs.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use sqlx::migrate::Migration;
use storage_model::DatabaseId;

use crate::Statement;
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

/// What is done with each row of a result. An error breaks the connection off.
pub(crate) type Visit<'a> = &'a mut (dyn FnMut(&dyn Record) -> Result<(), Fault> + Send);

/// What a connection is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Read,
    Write,
}

/// Opens connections of one kind of database.
pub(crate) trait Engine: Send + Sync + fmt::Debug + 'static {
    /// A connection.
    type Session: Session;

    /// Where the database is, for errors: never with a password.
    fn place(&self) -> String;

    /// Opens one and sets it up.
    fn connect(&self) -> impl Future<Output = Result<Self::Session, Fault>> + Send;

    /// How many connections each role may have; one number for both if they share them.
    fn connections(&self) -> Share;

    /// The dialect's templates.
    fn template(&self) -> fn(Statement) -> &'static str;

    /// The dialect's migrations: version, description, template.
    fn migrations(&self) -> &'static [(i64, &'static str, &'static str)];
}

/// How readers and writers share connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Share {
    /// All do both.
    All(u32),
    /// One writes, these read.
    OneWriter { readers: u32 },
}

/// What a connection knows of its server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Server {
    /// The most bytes that one statement may have.
    pub(crate) packet_bytes_max: usize,
    /// Which process of which server it is.
    pub(crate) id: DatabaseId,
    /// Why it may forget what it committed, in a word that names its setting; none if a commit
    /// survives a crash.
    pub(crate) forgets: Option<String>,
}

/// One connection. Whatever is cut in the middle of a call leaves it unusable; the caller throws it
/// away.
pub(crate) trait Session: Send + 'static {
    /// Runs a statement without a result; returns the number of rows it matched.
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

    /// What the server said of itself when the connection was opened.
    fn server(&self) -> &Server;

    /// Applies the migrations that are missing, while no one else does.
    fn migrate(
        &mut self,
        migrations: &[Migration],
        names: &Names,
    ) -> impl Future<Output = Result<(), Fault>> + Send;

    /// Says goodbye and closes.
    fn close(self) -> impl Future<Output = ()> + Send;
}
