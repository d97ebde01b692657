//! The only way of a statement to the database. Each statement passes the seam and has a time
//! limit. A connection that was cut is never used again.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use sqlx::migrate::Migration;

use crate::classify::Class;
use crate::fault::Fault;
use crate::session::{Arg, Record, Server, Session, Visit};
use crate::statement::{Names, Texts};
use crate::{ColdError, Seam, Statement};

/// The state that all connections of a store share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) texts: Texts,
    pub(crate) names: Names,
    pub(crate) seam: Arc<dyn Seam>,
    /// The time limit of each statement on this side, because a server that hangs does not keep its
    /// own limits.
    pub(crate) statement_timeout: Duration,
}

/// A connection, and the state of its statement and transaction.
#[derive(Debug)]
pub(crate) struct Exec<S> {
    session: S,
    shared: Arc<Shared>,
    /// A statement was sent and its reply was not read to the end. Stays true if the caller drops
    /// the call here.
    busy: bool,
    /// A transaction has begun and its end is not confirmed.
    open: bool,
    /// After a fault of this class no connection of the same age is trusted.
    lost: bool,
    /// An answer of unknown meaning. Only this connection is not used again.
    doubtful: bool,
}

impl<S: Session> Exec<S> {
    pub(crate) fn new(session: S, shared: Arc<Shared>) -> Self {
        Self {
            session,
            shared,
            busy: false,
            open: false,
            lost: false,
            doubtful: false,
        }
    }

    /// Whether the next caller can have this connection.
    pub(crate) fn is_clean(&self) -> bool {
        !self.busy && !self.open && !self.lost && !self.doubtful
    }

    /// Whether the other connections are probably useless, too.
    pub(crate) fn is_lost(&self) -> bool {
        self.lost
    }

    /// Whether the end of the last transaction is confirmed.
    pub(crate) fn is_between_transactions(&self) -> bool {
        !self.busy && !self.open && !self.lost
    }

    /// The facts about the server.
    pub(crate) fn server(&self) -> &Server {
        self.session.server()
    }

    /// The most bytes of one statement.
    pub(crate) fn packet_bytes_max(&self) -> usize {
        self.server().packet_bytes_max
    }

    /// Runs a statement that takes `size` rows. Returns the number of matched rows.
    pub(crate) async fn execute(
        &mut self,
        statement: Statement,
        size: usize,
        args: &[Arg<'_>],
    ) -> Result<u64, Fault> {
        let text = self.text(statement, size)?;
        let shared = Arc::clone(&self.shared);
        self.busy = true;
        let result = through(&shared, statement, self.session.execute(text, args)).await;
        self.settle(result)
    }

    /// Runs a statement that takes `size` rows. Makes a value of each row of the result.
    pub(crate) async fn fetch<T: Send>(
        &mut self,
        statement: Statement,
        size: usize,
        args: &[Arg<'_>],
        read: impl Fn(&dyn Record) -> Result<T, Fault> + Send + Sync,
    ) -> Result<Vec<T>, Fault> {
        let mut values = Vec::new();
        let mut push = |record: &dyn Record| read(record).map(|value| values.push(value));
        self.visit(statement, size, args, &mut push).await?;
        Ok(values)
    }

    /// Runs a statement that takes `size` rows. Visits each row of the result.
    pub(crate) async fn visit(
        &mut self,
        statement: Statement,
        size: usize,
        args: &[Arg<'_>],
        visit: Visit<'_>,
    ) -> Result<(), Fault> {
        let text = self.text(statement, size)?;
        let shared = Arc::clone(&self.shared);
        self.busy = true;
        let result = through(&shared, statement, self.session.fetch(text, args, visit)).await;
        self.settle(result)
    }

    /// Begins a transaction. [`Exec::end`] must end it.
    pub(crate) async fn begin(&mut self) -> Result<(), Fault> {
        self.open = true;
        self.execute(Statement::Begin, 1, &[]).await.map(drop)
    }

    /// Commits a transaction if its work succeeded. Rolls it back after any failure. A lock wait
    /// that times out undoes only one statement, so a COMMIT after it would keep half of the work.
    pub(crate) async fn end<T, E: From<Fault>>(&mut self, work: Result<T, E>) -> Result<T, E> {
        match work {
            Ok(value) => {
                self.execute(Statement::Commit, 1, &[])
                    .await
                    .map_err(Fault::of_commit)?;
                self.open = false;
                Ok(value)
            }
            Err(error) => {
                // A connection that does not confirm the ROLLBACK stays `open` and is thrown away.
                // The server then rolls back.
                if !self.busy
                    && !self.lost
                    && self.execute(Statement::Rollback, 1, &[]).await.is_ok()
                {
                    self.open = false;
                }
                Err(error)
            }
        }
    }

    /// Applies the missing migrations, without a time limit. The connection is not used again,
    /// because its limits were lifted.
    pub(crate) async fn migrate(&mut self, migrations: &[Migration]) -> Result<(), Fault> {
        let shared = Arc::clone(&self.shared);
        self.busy = true;
        self.session.migrate(migrations, &shared.names).await
    }

    /// Whether the connection works, within `limit`.
    pub(crate) async fn answers(&mut self, limit: Duration) -> bool {
        self.busy = true;
        let answered = matches!(
            tokio::time::timeout(limit, self.session.ping()).await,
            Ok(Ok(()))
        );
        self.busy = !answered;
        answered
    }

    /// Closes the connection in order.
    pub(crate) async fn close(self) {
        self.session.close().await;
    }

    fn text(&self, statement: Statement, size: usize) -> Result<Arc<str>, Fault> {
        let text = self.shared.texts.get(statement, size);
        text.ok_or_else(|| {
            Fault::operator(format!("there is no text of {statement:?} for {size} rows"))
        })
    }

    /// Records the state of the connection after a reply. Only a complete reply makes it usable
    /// again.
    fn settle<T>(&mut self, result: Result<T, Fault>) -> Result<T, Fault> {
        match result.as_ref().map_err(|fault| fault.class) {
            Ok(_)
            | Err(
                Class::Retry
                | Class::TooLong
                | Class::Operator
                | Class::Settings
                | Class::Refused
                | Class::Unreadable,
            ) => self.busy = false,
            Err(Class::Unknown) => (self.busy, self.doubtful) = (false, true),
            Err(Class::Reconnect | Class::Resolve) => self.lost = true,
        }
        result
    }
}

/// Passes the statement and its reply through the seam, and limits the time in between.
async fn through<T>(
    shared: &Shared,
    statement: Statement,
    work: impl Future<Output = Result<T, Fault>>,
) -> Result<T, Fault> {
    shared
        .seam
        .before(statement)
        .await
        .map_err(|error| replaced(&error))?;
    // If the driver panics over a malformed reply, only the connection is lost.
    let caught = AssertUnwindSafe(work).catch_unwind();
    let value = match tokio::time::timeout(shared.statement_timeout, caught).await {
        Ok(Ok(result)) => result?,
        Ok(Err(_)) => {
            return Err(Fault::lost(
                "the driver could not understand the server's reply",
            ));
        }
        Err(_) => {
            return Err(Fault::lost(format!(
                "no reply within {:?}",
                shared.statement_timeout
            )));
        }
    };
    shared
        .seam
        .after(statement)
        .await
        .map_err(|error| replaced(&error))?;
    Ok(value)
}

fn replaced(error: &ColdError) -> Fault {
    Fault::lost(&error.message)
}
